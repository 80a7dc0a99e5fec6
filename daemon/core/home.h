// The home of a launch that was made on another node, as a daemon that serves ranks of it sees it: one link there. What
// these ranks ask is asked there, and answered by it; what is ordered there is done here with their parts. README.md,
// "A launch over nodes". Strand only.
//
// When the link breaks, the ranks' connections are closed: their clients come again as after a death of their daemon,
// and are let in when the home is reached again. Parts that were handed over stay, and are told of then.
#ifndef CAIRN_DAEMON_CORE_HOME_H_
#define CAIRN_DAEMON_CORE_HOME_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/call.h"
#include "daemon/core/context.h"
#include "daemon/core/door.h"
#include "daemon/core/ledger.h"
#include "daemon/core/nodes.h"
#include "daemon/core/session.h"
#include "daemon/peers/link.h"
#include "daemon/peers/member.h"
#include "proto/local.pb.h"
#include "proto/peer.pb.h"
#include "proto/redundancy.pb.h"
#include "storage/base/ids.h"

namespace cairn {

class Home {
 public:
  struct Given {  // all borrowed
    const RunId& run;
    const std::string& run_name;
    Ledger& ledger;
    Nodes& nodes;
  };
  // Orders, and news of datasets that this daemon has parts of. `then` of an order runs once, not inside the report.
  struct Orders {
    using Then = std::function<void(const absl::Status& status)>;
    std::function<void(const peer::DatasetBegun& begun)> on_begun;
    std::function<void(DatasetId dataset, const std::string& why)> on_failed;
    std::function<void(DatasetId dataset)> on_all_ended;  // an output of files, by all ranks of the launch
    std::function<void(DatasetId dataset, Then then)> complete;
    std::function<void(DatasetId dataset)> on_whole;
    struct Copied {
      absl::Status status;
      std::string damaged_file = {};
    };
    // `goes_on`: it has got on since.
    std::function<void(DatasetId dataset, LaunchId committer, std::function<void()> goes_on,
                       std::function<void(const Copied& copied)> then)>
        copy;
    std::function<void(DatasetId dataset)> on_prefix;
    std::function<void(const peer::Keep& order, Then then)> keep;
    std::function<void(const peer::AllKept& kept)> on_all_kept;
    using Made = std::function<void(const absl::StatusOr<std::map<Rank, kept::Set>>& by)>;
    std::function<void(const peer::Rebuild& order, std::function<void()> goes_on, Made then)> rebuild;
    std::function<void(const peer::MayLeave& datasets)> may_leave;
    std::function<void(DatasetId dataset, bool useless, const std::string& why)> leaves;
    // Steps of a rank's restore. `moved` as a step of RestoreTransfer, `copy` among the sources of `find`.
    using Moved = std::function<void(const absl::Status& status, std::size_t copy, bool delivered)>;
    std::function<void(const SessionPtr& session, const std::shared_ptr<Call>& call, const peer::Find& find,
                       Moved moved)>
        find;
    std::function<void(const SessionPtr& session, const std::shared_ptr<Call>& call, Moved moved)> start;
    std::function<void(const SessionPtr& session, const std::shared_ptr<Call>& call)> abandon;
  };
  Home(const Context& context, const Given& given) : context_(context), given_(given) {}
  ~Home() { Stop(); }
  Home(const Home&) = delete;

  void Obey(Orders orders) { orders_ = std::move(orders); }  // once, before anything else
  void Stop();
  bool linked() const { return link_ != nullptr; }
  const NodeId& node() const { return maker_; }  // where the link leads, or is to lead

  // --- A rank comes ---
  // Asks the launch's home, which is `maker`, to let it in. `then` runs once, within `patience`, not inside the call:
  //   OK           the reply to the Open, good or bad; with RETRY there is no launch to join
  //   kUnavailable  the home is not reached
  using Opened = std::function<void(const absl::Status& status, const local::Reply& reply)>;
  void Open(const Launch& launch, const NodeId& maker, const std::shared_ptr<Connection>& connection,
            const local::Open& open, std::chrono::milliseconds patience, Opened then);
  // It was let in, and has this session now.
  void Admitted(const SessionPtr& session);
  void Forget(const Connection& connection);  // it was let in, and does not want it any more
  void SessionEnded(const Session& session);  // otherwise than by Close
  void Closed(const Session& session);        // its Close is on its way, and still answered

  // --- What ranks ask. REQUIRES: Session::followed ---
  // Answered as the home answers.
  void Relay(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Request& request);
  // The same for a request that is only a part of what this daemon has to do: `then` gets a good reply; a bad one has
  // answered the call.
  using Answered = std::function<void(const local::Reply& reply)>;
  void Ask(const SessionPtr& session, const std::shared_ptr<Call>& call, local::Request request, Answered then);
  // The same, but `then` gets a bad reply, too; none if the call was answered otherwise.
  void AskWhatever(const SessionPtr& session, const std::shared_ptr<Call>& call, local::Request request, Answered then);
  void Say(const Session& session, const local::Request& request);  // what has no answer
  // The same, and the call is answered already: `then` gets any reply, or none if the session ends before. What could
  // not be told, or was lost with the link, is answered UNAVAILABLE, when Serves() says no.
  // kAfterCopies: it waits for CopiesEnded, 10 ms at most, so that what it makes two daemons do is not done beside the
  // copies. What else is said goes at once, behind what waits.
  enum class When : std::uint8_t { kNow, kAfterCopies };
  void Tell(const SessionPtr& session, const Call& call, local::Request request, When when, Answered then);
  bool Serves(const Session& session) const { return by_session_.contains(session.id); }
  // The number of the launch's next checkpoint, as the home has said ahead; 0: it has not.
  DatasetId foretold() const { return foretold_; }
  void ForgetForetold() { foretold_ = 0; }
  void Captured(const Session& session);  // it has handed over its part; goes kAfterCopies
  void CopiesEnded() { SendWaiting(); }   // no rank here copies any more

  // --- What happens to parts that are here ---
  void Stored(const Dataset& dataset, Rank rank);
  void Failed(const Dataset& dataset, const std::string& why);  // unless the home has said so
  // `ranks`: only these ("3"); empty: all.
  void Left(const Dataset& dataset, bool damaged, const std::string& why, const std::string& ranks = "");

 private:
  struct OfRank {
    std::uint64_t number = 0;  // of its session, for the home
    std::shared_ptr<Connection> connection;
    SessionPtr session;                                                             // null: it has not been let in
    std::map<std::uint64_t, std::function<void(const local::Reply& reply)>> asked;  // by call
    std::map<std::uint64_t, std::weak_ptr<Call>> calls;
  };
  using OfRankPtr = std::shared_ptr<OfRank>;
  using Linked = std::function<void(const absl::Status& status)>;

  void WithLink(const Launch& launch, const NodeId& maker, Linked then);
  void Dial(const NodeId& maker);
  void LinkCame(std::unique_ptr<PeerLink> link);
  void LinkFailed(const absl::Status& why);
  void LinkLost(const absl::Status& why);
  std::vector<peer::ToHome> PartsHere() const;
  void OnFrame(const peer::Frame& frame);
  void OnForetold(const peer::Foretold& foretold);
  void OnComplete(const peer::Complete& order);
  void OnCopy(const peer::Copy& order);
  void OnKeep(const peer::Keep& order);
  void OnRebuild(const peer::Rebuild& order);
  void OnReply(const peer::ToRank& said);
  void OnFind(const peer::Find& find);
  void OnStart(const peer::Start& start);
  void OnAbandon(const peer::Abandon& abandon);
  void Send(peer::ToHome said, When when = When::kNow);
  void SendWaiting();
  void LetGo(std::uint64_t number);  // of the rank's session
  void SendRequest(OfRank& rank, const Call* call, local::Request request, When when, Answered answered);
  OfRankPtr RankOf(std::uint64_t number) const;
  std::shared_ptr<Call> CallOf(std::uint64_t number, std::uint64_t call, SessionPtr* session) const;
  std::function<void(const absl::Status&, std::size_t, bool)> MovedReporter(std::uint64_t session, std::uint64_t call);

  const Context& context_;
  const Given given_;
  Orders orders_;
  LaunchId launch_ = 0;  // whose home the link leads to, or is to lead to
  std::string mark_;
  NodeId maker_;
  std::shared_ptr<PeerLink> link_;
  std::vector<peer::Frame> after_copies_;  // of the link, in order
  bool dialling_ = false;
  std::vector<Linked> waiting_;
  std::map<std::uint64_t, OfRankPtr> ranks_;   // by number
  std::map<SessionId, OfRankPtr> by_session_;  // those that were let in
  std::uint64_t last_ = 0;
  DatasetId failing_ = 0;  // by the home's word
  DatasetId foretold_ = 0;
  const std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_HOME_H_
