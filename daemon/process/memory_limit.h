// How much memory the daemon may count on.
#ifndef CAIRN_DAEMON_PROCESS_MEMORY_LIMIT_H_
#define CAIRN_DAEMON_PROCESS_MEMORY_LIMIT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn {

// The least of `machine` and the limits of the control groups that this process is in, and of those above them; a limit
// that cannot be read is none. `cgroup`: the text of /proc/self/cgroup. `root`: where control groups are mounted, of
// version 2 (memory.max; beside version 1 below unified/) or 1 (memory/…/memory.limit_in_bytes). Facts: cgroups(7).
std::uint64_t MemoryLimit(std::uint64_t machine, std::string_view cgroup, const std::string& root = "/sys/fs/cgroup");

std::uint64_t MemoryOfMachine();
// Of this process on this machine.
std::uint64_t MemoryOfThisProcess();

}  // namespace cairn

#endif  // CAIRN_DAEMON_PROCESS_MEMORY_LIMIT_H_
