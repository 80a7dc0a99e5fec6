#include "daemon/process/memory_limit.h"

#include <absl/strings/numbers.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

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

// What stands before the first `end`, which goes with it; all of it if there is none.
std::string_view TakeUntil(char end, std::string_view* text) {
  const std::string_view taken = text->substr(0, text->find(end));
  text->remove_prefix(std::min(text->size(), taken.size() + 1));
  return taken;
}

}  // namespace

std::uint64_t MemoryLimit(std::uint64_t machine, std::string_view cgroup, const std::string& root) {
  std::uint64_t least = machine;
  while (!cgroup.empty()) {
    const std::string_view line = TakeUntil('\n', &cgroup);
    // number:controllers:path, of version 2 without controllers
    std::string_view path = line;
    TakeUntil(':', &path);
    const std::string controllers = fmt::format(",{},", TakeUntil(':', &path));
    if (controllers == ",,") {
      least = std::min(least, LeastOnTheWayUp(root, std::string(path), "memory.max"));
      least = std::min(least, LeastOnTheWayUp(root + "/unified", std::string(path), "memory.max"));
    } else if (controllers.find(",memory,") != controllers.npos) {
      least = std::min(least, LeastOnTheWayUp(root + "/memory", std::string(path), "memory.limit_in_bytes"));
    }
  }
  return least;
}

std::uint64_t MemoryOfMachine() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::uint64_t MemoryOfThisProcess() {
  std::stringstream cgroup;
  cgroup << std::ifstream("/proc/self/cgroup").rdbuf();
  return MemoryLimit(MemoryOfMachine(), cgroup.str());
}

}  // namespace cairn
