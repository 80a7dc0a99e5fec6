// Sessions of all runs: who is admitted, which session a connection has, and what the end of one means for the run.
// design.md, "Identity". Strand only.
//
// A session of a rank outlives its connection if that is resumable: it ends by Close, when its time to come back is up,
// or when a newer launch is entered. An observer ends with its connection.
#ifndef CAIRN_DAEMON_CORE_SESSIONS_H_
#define CAIRN_DAEMON_CORE_SESSIONS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core/call.h"
#include "daemon/core/context.h"
#include "daemon/core/door.h"
#include "daemon/core/image_store.h"
#include "daemon/core/ledger.h"
#include "daemon/core/provisional.h"
#include "daemon/core/session.h"
#include "proto/local.pb.h"
#include "storage/base/ids.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

class Run;

// What admission knows of the connections, which are the core's.
class Connections {
 public:
  virtual ~Connections() = default;
  virtual bool IsAttached(const Connection& connection) const = 0;
  // Nobody hears the answers of its open calls any more.
  virtual void AbandonCalls(const Connection& connection) = 0;
};

class Sessions {
 public:
  using ByRank = std::map<Rank, SessionPtr>;

  Sessions(const Context& context, ImageStore& images, Connections& connections)
      : context_(context), images_(images), connections_(connections) {}
  Sessions(const Sessions&) = delete;

  // --- Which are there ---
  // Null: none. One that has ended otherwise than by Close is still told, for its connection's sake.
  SessionPtr Of(const Connection& connection) const;
  const ByRank& RanksOf(const Run& run) const;  // of its newest launch, no observers
  // Of the newest launch nothing but broken streams is left: whether its ranks live is known when they come back, or
  // when their time is up.
  bool OnlyBroken(const Run& run) const;
  std::string Describe(const Run& run) const;  // for an error: who is here

  // --- Launches ---
  // From now on everything that an older launch sends is refused. `from_record`: read, not just made.
  const Launch& EnterLaunch(Run& run, const LaunchRecord& record, bool from_record);
  // The launch is not on the prefix yet.
  static void BeganOffline(Run& run, const Launch& launch);
  // Launches that had begun without the prefix are there now. One that was abandoned shuts its ranks out.
  void LaunchesConfirmed(Run& run, const std::vector<ConfirmedLaunch>& confirmed);
  // The bearer was given this rank by this launch.
  static bool IsToken(const std::string& token, const Launch& launch, Rank rank);

  // --- Admission: what the client is told. REQUIRES: the connection is attached and has no session ---
  // A rank of the newest launch: its session goes on over this connection, or it gets one.
  local::OpenReply Admit(const std::shared_ptr<Connection>& connection, const local::Open& open, Run& run,
                         const Launch& launch);
  // A rank of a launch that has its home elsewhere, where it was let in with this answer.
  local::OpenReply AdmitFollowed(const std::shared_ptr<Connection>& connection, const local::Open& open, Run& run,
                                 const Launch& launch, local::OpenReply opened);
  local::OpenReply AdmitObserver(const std::shared_ptr<Connection>& connection, Run& run);

  // --- What happens to one ---
  void Used(const SessionPtr& session);  // a request came after Open
  void Close(const SessionPtr& session, const std::shared_ptr<Call>& call);
  void ConnectionLost(const Connection& connection);  // nothing if it has no session

 private:
  SessionPtr SessionFor(const Connection& connection, const local::Open& open, Run& run, const Launch& launch);
  SessionPtr Make(Run& run, Rank rank);
  void TakeFromConnection(const SessionPtr& session);
  void Connect(const SessionPtr& session, const std::shared_ptr<Connection>& connection);
  void StopWaiting(const SessionPtr& session);
  void End(const SessionPtr& session, bool closed);
  void EndObserver(const SessionPtr& session);
  void ForgetKeptLater(Run& run);
  void CountElsewhere(Run& run) const;
  void NoteJob(const Run& run, const Launch& launch) const;

  const Context& context_;
  ImageStore& images_;
  Connections& connections_;
  std::map<RunId, ByRank> by_rank_;
  std::map<const Connection*, SessionPtr> by_connection_;
  SessionId last_ = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_SESSIONS_H_
