// Which launch of a run this daemon serves, and what it does for that on the prefix: it keeps the launch's lease, looks
// whether a newer launch was made elsewhere, and knows what others' leases say. design.md, "Identity". Strand only.
#ifndef CAIRN_DAEMON_CORE_LAUNCH_KEEPER_H_
#define CAIRN_DAEMON_CORE_LAUNCH_KEEPER_H_

#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/context.h"
#include "daemon/core/ledger.h"
#include "daemon/core/prefix_gate.h"
#include "daemon/core/provisional.h"
#include "storage/base/ids.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

// This daemon, as records name it.
Maker ThisDaemon(const Context& context);
// Was the launch made by a daemon of this cache? Of one that release 0.1.0 made, by this host.
bool IsOurs(const Context& context, const LaunchRecord& launch);
std::string DescribeMaker(const LaunchRecord& launch);

class LaunchKeeper {
 public:
  struct Given {  // all borrowed
    const std::string& run_name;
    std::shared_ptr<CacheFolder> folder;
    const Ledger& ledger;
    PrefixGate& gate;
  };
  struct Reports {
    std::function<bool(DatasetId)> flushing;                   // it is being flushed, or waits for that
    std::function<bool(const Dataset&)> bringing;              // the same to the folder that is redundant itself
    std::function<void(const LaunchRecord& launch)> on_newer;  // made elsewhere
    // Launches that had begun without the prefix are there now.
    std::function<void(const std::vector<ConfirmedLaunch>&)> on_confirmed;
  };
  LaunchKeeper(const Context& context, const Given& given, Reports reports);
  LaunchKeeper(const LaunchKeeper&) = delete;

  // The newest launch that this cache's daemons have served, as commits and removals name it; 0: none, or one of
  // release 0.1.0.
  LaunchId committer() const { return committer_; }
  // A launch of this mark has begun without the prefix, and is not made there yet.
  bool IsProvisional(const std::string& mark) const;

  // --- Its lease ---
  // A launch that was made here, with its lease; `written_at`: before that was written.
  void Begin(const LaunchRecord& launch, LeaseRecord lease, SteadyTime written_at);
  // One that was made by a daemon before this one is served again.
  void Resume(const LaunchRecord& launch);
  // Live, draining, or ended: after every change of the run.
  void Update();
  // Others wait for this one's lease, by this daemon's own clock.
  bool LeaseHolds() const;
  SteadyTime LeaseEnds() const { return written_at_ + term(); }  // REQUIRES: it holds

  // --- Without the prefix (provisional.h) ---
  // A launch has begun so, and is in the cache's record: it is made on the prefix as soon as that answers.
  void BeginProvisional();
  // For a pool that has reached the prefix: makes them before anything else is done there.
  using Confirm = std::function<absl::StatusOr<std::vector<ConfirmedLaunch>>(Prefix& prefix)>;
  Confirm MakeConfirm() const;
  // What a Confirm has made, on the strand again.
  void TellConfirmed(const std::vector<ConfirmedLaunch>& confirmed);
  // The prefix has come into reach, or something was fenced: whose is the newest launch?
  void LookForNewest();
  void Stop();

  // --- Others' ---
  LeaseWatch& watch() { return watch_; }

 private:
  using State = LeaseRecord::State;
  struct Wanted {
    State state = State::kEnded;
    std::string what;
  };
  // On the prefix, as a daemon that has just started finds it.
  struct Newest {
    std::optional<LaunchRecord> launch;
    std::optional<std::string> left;  // left_before_
  };
  Wanted WhatIsSo() const;
  Wanted WhatIsLeft() const;  // where no rank is live any more
  void Found(const LaunchRecord& newest);
  void Renew();
  void Written(SteadyTime began, const absl::StatusOr<LeaseRecord>& written);
  void LookForNewer(LaunchId launch, const absl::StatusOr<LeaseRecord>& written);
  void WarnOnce(const absl::Status& status);
  void RenewLater();
  void ConfirmNow();
  std::chrono::milliseconds term() const { return std::chrono::milliseconds(context_.config.lease.term_ms); }

  const Context& context_;
  const Given given_;
  const Reports reports_;
  LaunchId committer_ = 0;
  std::optional<LeaseRecord> lease_;    // as last written, or about to be
  bool lease_lost_ = false;             // somebody has removed it: another is to be made
  // There is no lease of this daemon's own yet, and one of an earlier daemon of this cache has ended: what that says.
  std::optional<std::string> left_before_;
  std::optional<LaunchRecord> launch_;  // that it is of, or for which one is to be made
  SteadyTime written_at_;               // the last time that succeeded
  State written_ = State::kEnded;       // then
  const std::shared_ptr<absl::Mutex> confirming_ = std::make_shared<absl::Mutex>();  // one at a time, in whichever pool
  bool working_ = false, again_ = false, failed_ = false, looking_ = false;
  Loop::TimerId timer_ = 0;
  LeaseWatch watch_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_LAUNCH_KEEPER_H_
