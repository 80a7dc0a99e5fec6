// Which daemons serve one run: this one among them, from when the run's prefix was reached, if the settings name an
// interface for links between nodes. What the others are told of this one. daemon/peers/README.md. Strand only.
#ifndef CAIRN_DAEMON_CORE_NODES_H_
#define CAIRN_DAEMON_CORE_NODES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "daemon/core/context.h"
#include "daemon/core/ledger.h"
#include "daemon/core/prefix_gate.h"
#include "daemon/peers/membership.h"
#include "proto/admin.pb.h"
#include "storage/base/ids.h"

namespace cairn {

class Nodes {
 public:
  struct Given {  // all borrowed
    const RunId& run;
    const std::string& run_name;
    const Ledger& ledger;
    PrefixGate& gate;
  };
  // `on_left`: Leave has ended.
  Nodes(const Context& context, const Given& given, std::function<void()> on_left);
  Nodes(const Nodes&) = delete;

  // After every change of the run: takes part as soon as that is possible, and tells what this daemon holds.
  void Update();
  // Ends it in good order, so that nobody waits for this daemon. Update may begin it anew, unless the daemon quiesces.
  void Leave();
  // Neither a member, nor about to become one, nor still on its way out.
  bool out() const { return !entering_ && !membership_ && !leaving_; }
  void Stop();  // nobody is told

  admin::RunNodes Describe() const;

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
  void TableChanged(const TableChange& change) const;
  void CoordinatorChanged(const Membership::Coordinator& coordinator);

  const Context& context_;
  const Given given_;
  const std::function<void()> on_left_;
  std::shared_ptr<Membership> membership_;  // null: this daemon is no member
  std::shared_ptr<Membership> leaving_;
  bool entering_ = false;
  std::string why_not_;       // it could not enter, the last time
  std::uint32_t failed_ = 0;  // so often, one after the other
  Loop::TimerId timer_ = 0;   // until it is tried again
  bool acting_ = false;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_NODES_H_
