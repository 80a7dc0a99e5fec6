// What the requests of a session mean: which component of its run answers them, for a rank that is here, for one whose
// launch has its home on another node, for one that another node's daemon serves, for an observer. Strand only.
#ifndef CAIRN_DAEMON_CORE_REQUESTS_H_
#define CAIRN_DAEMON_CORE_REQUESTS_H_

#include <memory>

#include "daemon/core/call.h"
#include "daemon/core/context.h"
#include "daemon/core/session.h"
#include "daemon/core/sessions.h"
#include "proto/local.pb.h"

namespace cairn {

class Requests {
 public:
  using CallPtr = std::shared_ptr<Call>;
  using RequestPtr = std::shared_ptr<const local::Request>;

  Requests(const Context& context, Sessions& sessions) : context_(context), sessions_(sessions) {}
  Requests(const Requests&) = delete;

  // What the request says of the rank's memory; true: it has no answer, and is done with. Null: the connection has no
  // session.
  bool Say(const SessionPtr& session, const RequestPtr& request);
  void Answer(const SessionPtr& session, const CallPtr& call, const RequestPtr& request);

 private:
  void HearOfMemory(const Session& session, const local::Request& request);
  bool IsFenced(const Session& session) const;
  bool AwaitsOthers(const SessionPtr& session, const CallPtr& call, const RequestPtr& request);
  void AnswerAtLast(const SessionPtr& session, const CallPtr& call, const RequestPtr& request);
  bool AnswerQuestion(const SessionPtr& session, const CallPtr& call, const local::Request& request);
  void AnswerRank(const SessionPtr& session, const CallPtr& call, const RequestPtr& request);
  void AnswerWriting(const SessionPtr& session, const CallPtr& call, const RequestPtr& request);
  bool AnswerOfDataset(const SessionPtr& session, const CallPtr& call, const RequestPtr& request);
  void Begin(const SessionPtr& session, const CallPtr& call, const RequestPtr& request);
  void AnswerFollowed(const SessionPtr& session, const CallPtr& call, const RequestPtr& request);
  void AnswerAway(const SessionPtr& session, const CallPtr& call, const RequestPtr& request);
  void AnswerObserver(const SessionPtr& session, const CallPtr& call, const RequestPtr& request);

  const Context& context_;
  Sessions& sessions_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_REQUESTS_H_
