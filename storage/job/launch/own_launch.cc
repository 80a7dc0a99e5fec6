#include "storage/job/launch/own_launch.h"

#include <unistd.h>

#include <utility>

#include "storage/base/clock.h"
#include "storage/base/host_name.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr int kTriesMax = 100;     // launches that others made between our look and our try
constexpr int kWritesInATerm = 6;  // as the daemon does it (storage/place/prefix/lease.h)

// The next launch after one that is over. Whoever made another meanwhile is asked in the same way.
absl::StatusOr<LaunchRecord> MakeNext(Prefix& prefix, const OwnLaunchRequest& request) {
  NewLaunch wanted;
  wanted.key = fmt::format("{}:{}", request.purpose, RunId::Random().Hex());
  wanted.nranks = request.nranks;
  wanted.maker = {.cache = "", .host = HostName(), .pid = static_cast<std::uint32_t>(::getpid())};
  for (int i = 0; i < kTriesMax; ++i) {
    CAIRN_ASSIGN_OR_RETURN(const auto newest, WaitUntilOver(prefix, request.wait, request.note));
    auto made = prefix.MakeLaunch(wanted, newest);
    if (!absl::IsAborted(made.status())) return made;
  }
  return Aborted("{}: others made {} launches meanwhile", prefix.path(), kTriesMax);
}

}  // namespace

OwnLaunch::OwnLaunch(Prefix& prefix, LeaseRecord lease)
    : prefix_(prefix), lease_(std::move(lease)), written_(SteadyNow()) {}

absl::StatusOr<std::unique_ptr<OwnLaunch>> OwnLaunch::Make(Prefix& prefix, const OwnLaunchRequest& request) {
  CAIRN_ASSIGN_OR_RETURN(const LaunchRecord launch, MakeNext(prefix, request));
  LeaseRecord lease;
  lease.launch = launch.id;
  lease.counter = 1;
  lease.host = launch.maker.host;
  lease.pid = launch.maker.pid;
  lease.term_ms = static_cast<std::uint64_t>(request.wait.own_term.count());
  lease.state = LeaseRecord::State::kLive;
  lease.what = "cairn " + request.purpose;
  CAIRN_ASSIGN_OR_RETURN(lease, prefix.MakeLease(std::move(lease)));
  return std::unique_ptr<OwnLaunch>(new OwnLaunch(prefix, std::move(lease)));
}

OwnLaunch::~OwnLaunch() {
  Write(LeaseRecord::State::kEnded).IgnoreError();  // then others wait for a term
}

void OwnLaunch::StillHere() {
  if (SteadyNow() - written_ < std::chrono::milliseconds(lease_.term_ms) / kWritesInATerm) return;
  if (Write(LeaseRecord::State::kLive).ok()) written_ = SteadyNow();
}

absl::Status OwnLaunch::Write(LeaseRecord::State state) {
  ++lease_.counter;
  lease_.state = state;
  return prefix_.WriteLease(lease_);
}

}  // namespace cairn
