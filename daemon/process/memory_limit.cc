#include "daemon/process/memory_limit.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

namespace cairn {
namespace {

// Of the group `path` below `mount`, and of all above it. In a container the path may be one that is not there: then
// what is left of it on the way up is.
std::uint64_t LeastOnTheWayUp(const std::string& mount, std::string path, const std::string& file) {
  std::uint64_t least = UINT64_MAX;
  for (;;) {
    std::string text;
    std::uint64_t limit = 0;
    std::ifstream(mount + path + "/" + file) >> text;  // "max": none
    if (absl::SimpleAtoi(text, &limit)) least = std::min(least, limit);
    const std::size_t slash = path.rfind('/');
    if (slash == path.npos) return least;
    path.resize(slash);
  }
}

}  // namespace

std::uint64_t MemoryLimit(std::uint64_t machine, std::string_view cgroup, const std::string& root) {
  std::uint64_t least = machine;
  for (const absl::string_view line : absl::StrSplit(absl::string_view(cgroup.data(), cgroup.size()), '\n')) {
    // number:controllers:path, of version 2 without controllers
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    if (parts[1].empty()) {
      least = std::min(least, LeastOnTheWayUp(root, parts[2], "memory.max"));
      least = std::min(least, LeastOnTheWayUp(root + "/unified", parts[2], "memory.max"));
    } else if (std::ranges::find(controllers, "memory") != controllers.end()) {
      least = std::min(least, LeastOnTheWayUp(root + "/memory", parts[2], "memory.limit_in_bytes"));
    }
  }
  return least;
}

std::uint64_t MemoryOfThisProcess() {
  std::stringstream cgroup;
  cgroup << std::ifstream("/proc/self/cgroup").rdbuf();
  return MemoryLimit(
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)),
      cgroup.str());
}

}  // namespace cairn
