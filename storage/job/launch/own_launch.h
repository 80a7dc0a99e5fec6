// A launch that a command makes for what it commits, and its lease, by which others know that it is at work. Calls
// block on disk. Not thread-safe.
#ifndef CAIRN_STORAGE_JOB_LAUNCH_OWN_LAUNCH_H_
#define CAIRN_STORAGE_JOB_LAUNCH_OWN_LAUNCH_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "storage/base/ids.h"
#include "storage/job/launch/launch_wait.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

struct OwnLaunchRequest {
  std::string purpose;       // the launch's key is "<purpose>:<random>"
  std::uint32_t nranks = 1;  // at least 1
  LaunchWait wait = {};
  std::function<void(const std::string&)> note;  // as WaitUntilOver's; required
};

class OwnLaunch {
 public:
  // Waits for the newest launch to be over, and makes the next one. `prefix` is borrowed.
  //   kFailedPrecondition  as WaitUntilOver
  static absl::StatusOr<std::unique_ptr<OwnLaunch>> Make(Prefix& prefix, const OwnLaunchRequest& request);
  // It is over then, whatever has become of it: nobody waits for it.
  ~OwnLaunch();
  OwnLaunch(const OwnLaunch&) = delete;

  LaunchId id() const { return lease_.launch; }
  // To be called again and again while work goes on: writes the lease if it is time. What fails is tried again with the
  // next call: a lease that is not written only makes others take over, and then the commit tells.
  void StillHere();

 private:
  OwnLaunch(Prefix& prefix, LeaseRecord lease);
  absl::Status Write(LeaseRecord::State state);

  Prefix& prefix_;
  LeaseRecord lease_;
  std::chrono::steady_clock::time_point written_;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_LAUNCH_OWN_LAUNCH_H_
