#include "storage/job/launch/launch_wait.h"

#include <algorithm>

#include "storage/base/clock.h"
#include "storage/base/host_name.h"
#include "storage/base/launch_key.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

using Verdict = LeaseWatch::Verdict;

absl::Status Busy(const Prefix& prefix, LaunchId launch, const std::string& holder) {
  return FailedPrecondition("BUSY: {}: launch {} of this run lives: {}; end it first", prefix.path(), launch, holder);
}

absl::Status NotProven(const Prefix& prefix, LaunchId launch, const std::string& holder) {
  return FailedPrecondition(
      "BUSY: {}: launch {} of this run may still live: {}; nothing tells yet that it is over. End it first, or wait "
      "longer",
      prefix.path(), launch, holder);
}

absl::Status NotDrained(const Prefix& prefix, LaunchId launch, const std::string& holder) {
  return DeadlineExceeded("{}: launch {} of this run is not over, or nothing tells yet that it is: {}", prefix.path(),
                          launch, holder);
}

// One wait for whatever launch is the newest.
class Waiting {
 public:
  Waiting(Prefix& prefix, const LaunchWait& wait, const std::function<void(const std::string&)>& note)
      : prefix_(prefix), wait_(wait), note_(note), until_(SteadyNow() + wait.at_most) {}

  absl::StatusOr<std::optional<LaunchId>> Run() {
    for (;;) {
      auto newest = prefix_.NewestLaunch();
      if (absl::IsDataLoss(newest.status())) {
        note_(fmt::format("the newest launch of {} is passed over: {}", prefix_.path(), MessageOf(newest.status())));
        return std::optional<LaunchId>();
      }
      if (!newest.ok()) return newest.status();
      if (!*newest) return std::optional<LaunchId>(0);
      const LaunchRecord& launch = **newest;
      if (IsOwn(launch) || IsAnotherJobs(launch)) return std::optional<LaunchId>(launch.id);
      CAIRN_ASSIGN_OR_RETURN(const LeaseWatch::Judged judged, Judge(launch));
      CAIRN_ASSIGN_OR_RETURN(const bool over, Decide(launch.id, judged));
      if (over) return std::optional<LaunchId>(launch.id);
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until_ - SteadyNow());
      SleepFor(std::min(judged.look_again, left));
    }
  }

 private:
  bool IsOwn(const LaunchRecord& launch) const {
    return !wait_.own_key_stem.empty() && launch.key.starts_with(wait_.own_key_stem) && launch.maker.cache.empty();
  }

  // What no key tells (CAIRN_LAUNCH, a PMIx of another kind) may well be that job's.
  bool IsAnotherJobs(const LaunchRecord& launch) const {
    const std::string job = SlurmJobOf(launch.key);
    return !wait_.of_job.empty() && !job.empty() && job != wait_.of_job;
  }

  absl::StatusOr<LeaseWatch::Judged> Judge(const LaunchRecord& launch) {
    LeaseWatch::Look look{.run = prefix_.run(),
                          .launch = launch.id,
                          .launch_run = launch.run,
                          .own_cache = "",
                          .own_term = wait_.own_term,
                          .lease = {},
                          .now = {}};
    // No lease of it tells anything, but on another host somebody may work under it.
    if (!launch.has_base() && launch.maker.host != HostName()) look.launch_run = look.run;
    CAIRN_ASSIGN_OR_RETURN(look.lease, prefix_.FindLease(launch.id));
    look.now = SteadyNow();
    return watch_.Judge(look);
  }

  // True: it is over, or as good as that. False: it is waited for.
  absl::StatusOr<bool> Decide(LaunchId launch, const LeaseWatch::Judged& judged) {
    const bool time_is_up = SteadyNow() >= until_;
    if (wait_.until_drained && time_is_up && judged.verdict != Verdict::kOver) {
      return NotDrained(prefix_, launch, judged.holder);
    }
    switch (judged.verdict) {
      case Verdict::kOver:
        return true;
      case Verdict::kLive:
        if (!wait_.until_drained) return Busy(prefix_, launch, judged.holder);
        Tell(fmt::format("waiting for the end of launch {} of {}: {}", launch, prefix_.path(), judged.holder));
        return false;
      case Verdict::kUnproven:
        if (time_is_up) return NotProven(prefix_, launch, judged.holder);
        Tell(fmt::format("waiting until launch {} of {} is over: {}", launch, prefix_.path(), judged.holder));
        return false;
      case Verdict::kDraining:
        if (time_is_up) {
          Tell(
              fmt::format("launch {} of {} is left behind: {} still brings data to the prefix, which restarts will "
                          "not choose",
                          launch, prefix_.path(), judged.holder));
          return true;
        }
        Tell(fmt::format("waiting for launch {} of {}: {} still brings data to the prefix", launch, prefix_.path(),
                         judged.holder));
        return false;
    }
    return true;
  }

  void Tell(std::string text) {
    if (text == told_) return;
    note_(text);
    told_ = std::move(text);
  }

  Prefix& prefix_;
  const LaunchWait& wait_;
  const std::function<void(const std::string&)>& note_;
  const std::chrono::steady_clock::time_point until_;
  LeaseWatch watch_;
  std::string told_;
};

}  // namespace

absl::StatusOr<std::optional<LaunchId>> WaitUntilOver(Prefix& prefix, const LaunchWait& wait,
                                                      const std::function<void(const std::string&)>& note) {
  return Waiting(prefix, wait, note).Run();
}

}  // namespace cairn
