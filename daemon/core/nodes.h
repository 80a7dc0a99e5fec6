// Which daemons serve one run: this one among them, from when the run's prefix was reached, if the settings name an
// interface for links between nodes. What the others are told of this one, what they ask it, and what it asks them.
// daemon/peers/README.md. Strand only.
#ifndef CAIRN_DAEMON_CORE_NODES_H_
#define CAIRN_DAEMON_CORE_NODES_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/context.h"
#include "daemon/core/ledger.h"
#include "daemon/core/prefix_gate.h"
#include "daemon/peers/first_frame.h"
#include "daemon/peers/member.h"
#include "daemon/peers/membership.h"
#include "daemon/peers/questions.h"
#include "daemon/relay/relay.h"
#include "proto/admin.pb.h"
#include "proto/peer.pb.h"
#include "storage/base/ids.h"
#include "storage/io/disk.h"

namespace cairn {

class Nodes {
 public:
  struct Given {  // all borrowed
    const RunId& run;
    const std::string& run_name;
    const Ledger& ledger;
    PrefixGate& gate;
    // What another node asks of the run: answered without asking others.
    std::function<void(const peer::Question& question, const Questions::Then& then)> answer;
    std::string folder;  // of the run in the cache: what others may read of it
    // Links of daemons that serve ranks of this one's launches (away.h) come over `relay`, until null is given.
    std::function<void(Relay* relay)> serve_away;
  };
  // `on_left`: Leave has ended.
  Nodes(const Context& context, const Given& given, std::function<void()> on_left);
  Nodes(const Nodes&) = delete;

  // After every change of the run: takes part as soon as that is possible, and tells what this daemon holds.
  void Update();
  // Ends it in good order, so that nobody waits for this daemon. Update may begin it anew, unless the daemon quiesces.
  void Leave();
  // Neither a member nor still on its way out. It may be about to become one, unless the daemon quiesces.
  bool out() const { return !membership_ && !leaving_; }
  void Stop();  // nobody is told

  admin::RunNodes Describe() const;
  // This one. `name` is its host; `here`.
  admin::NodeAnswer Own() const;

  // This daemon is a member, and knows of others.
  bool has_others() const;
  struct Said {
    TableEntry node;
    absl::StatusOr<peer::Answer> answer;  // of the question's kind, and no more is checked
  };
  // All others in the table, by node: within 10 s, and one that is silent within 2 s. Who is missing is not asked
  // (kUnavailable). Empty, soon, if there are none. `then` never comes inside the call, and not after Stop.
  void AskOthers(const peer::Question& question, std::function<void(std::vector<Said> said)> then);
  // One of them: within 10 s. kUnavailable: it is no member, or missing.
  void Ask(const NodeId& node, const peer::Question& question, Questions::Then then);
  // What another says that it holds (HoldingsQuestion in proto/peer.proto).
  struct Told {
    Member member;
    bool missing = false;                     // no link led to it when it was asked
    absl::StatusOr<peer::Holdings> holdings;  // checked: what of it is nonsense is kInvalidArgument
  };
  using Holdings = std::vector<Told>;
  // What do all others in the table hold? Who is missing may hold what nobody else has, and is asked, too, after those
  // who are there. Within 4 s, and one that is silent within 2 s. One that was silent, and is still missing, within
  // 0.2 s: long enough for one that can be reached again. One that needs longer is asked once more behind that, for
  // nobody who waits: if it answers within 2 s it is not silent the next time. It is given up after three terms, or
  // comes back. Empty, soon, if there are none; `then` as above.
  void AskHoldings(std::function<void(Holdings holdings)> then);
  // Runs `then` once links lead from this daemon to a coordinator, whose table is here, and `node` is in it. That is
  // waited for within bounds: 5 s for the table, then 2 s for the node. Not inside the call; soon if no links can come.
  void WhenKnown(const NodeId& node, std::function<void()> then);
  // The same, once this daemon knows which others there are and, unless it is empty, `node` is among them. For the
  // others two terms are waited where the arbiter answers, and says that a coordinator that is gone, and that knew
  // others, has not been followed by another yet; and half a term, once for each, where one has taken over that does
  // not know all who may be there (Membership::Knowledge). Not `others_known`: the wait has ended before that.
  void WhenAllKnown(const NodeId& node, std::function<void(bool others_known)> then);
  // None: it is no member, or missing, and has not told since what it holds.
  std::optional<Member> Find(const NodeId& node) const;
  // One that the home of a launch has named, which may have heard it: also if it is missing. None: it is no member.
  std::optional<Member> FindNamed(const NodeId& node) const;
  // A link to the home of a launch (home.h): Relay::Dial. kUnavailable, soon: this daemon is no member.
  void DialHome(const Member& home, std::chrono::milliseconds deadline, PeerNet::Dialled done);
  // What a member has of the run in its cache (daemon/bulk/net.h), datasets in FolderOnOtherNode. REQUIRES: there can
  // be links.
  std::shared_ptr<Disk> FilesOf(const Member& member) const;

 private:
  bool MayEnter() const;
  void Enter();
  struct Entered;
  void Came(Entered entered);
  void Begin();
  void EnterLater();
  MembershipSettings SettingsOf() const;
  OnArbiter MakeOnArbiter() const;
  MemberSummary Summary() const;
  std::vector<Member> Others(bool missing) const;
  void AskHoldingsOf(std::vector<Member> members, std::size_t there, const Questions::Patience& patience,
                     std::function<void(Holdings holdings)> then);
  void Heard(const Told& told);
  void AskSilentAgain(const Holdings& told);
  const TableEntry* EntryOf(const NodeId& node) const;
  std::chrono::milliseconds Term() const;
  struct Awaited;
  void Await(Awaited awaited);
  bool IsKnown(Awaited& awaited);
  bool IsTooLate(const Awaited& awaited) const;
  void LookForKnown(const std::shared_ptr<Awaited>& awaited);
  void TableChanged(const TableChange& change);
  void CoordinatorChanged(const Membership::Coordinator& coordinator);

  const Context& context_;
  const Given given_;
  const std::function<void()> on_left_;
  // First who uses the net last.
  std::unique_ptr<FirstFrame> links_;
  std::unique_ptr<Questions> questions_;
  RelayNumbers relay_numbers_;
  std::unique_ptr<Relay> relay_;
  std::shared_ptr<Membership> membership_;  // null: this daemon is no member
  std::shared_ptr<Membership> leaving_;
  bool entering_ = false;
  std::string why_not_;       // it could not enter, the last time
  std::uint32_t failed_ = 0;  // so often, one after the other
  Loop::TimerId timer_ = 0;   // until it is tried again
  bool acting_ = false;
  std::set<NodeId> reached_;  // of those who are missing in the table: they have told what they hold
  std::set<NodeId> silent_;   // of the same: they did not answer the last time
  bool asking_silent_ = false;
  // Until then those must have come whom the coordinator of that epoch does not know, and the one before it knew.
  SteadyTime some_until_;
  std::uint64_t some_epoch_ = 0;
};

std::string FolderOnOtherNode(DatasetId dataset);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_NODES_H_
