#include "client/cli/io_scheduler.h"

#include <sys/sysmacros.h>

#include <fstream>

#include "storage/base/status.h"

namespace cairn::cli {

absl::StatusOr<std::string> IoSchedulerOf(std::uint64_t device, const std::string& devices) {
  const std::string folder = fmt::format("{}/{}:{}", devices, major(device), minor(device));
  std::string line;
  // A partition's folder lies in its disk's, which has the queue.
  for (const char* const queue : {"/queue/scheduler", "/../queue/scheduler"}) {
    if (std::getline(std::ifstream(folder + queue), line)) break;
  }
  // All that the kernel has, the one in use in brackets: "none [mq-deadline] bfq".
  const std::size_t begin = line.find('['), end = line.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) {
    return NotFound("the kernel names no scheduler for device {}:{}", major(device), minor(device));
  }
  return line.substr(begin + 1, end - begin - 1);
}

}  // namespace cairn::cli
