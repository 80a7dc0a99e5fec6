// A launch's secret, and what a dataset carries of the launch that made it: made from the launch's secret, so that a
// launch of the same number in another directory, or of another time, has another; nobody learns the secret from it.
// Thread-safe.
#ifndef CAIRN_STORAGE_BASE_LAUNCH_MARK_H_
#define CAIRN_STORAGE_BASE_LAUNCH_MARK_H_

#include <string>
#include <string_view>

namespace cairn {

std::string NewLaunchSecret();                    // 32 random bytes
std::string LaunchMark(std::string_view secret);  // 32 hex digits; of no secret: ""

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_LAUNCH_MARK_H_
