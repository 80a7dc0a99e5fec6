// Which of the kernel's I/O schedulers serves a disk: it decides whether anybody's I/O priority counts there.
#ifndef CAIRN_CLIENT_CLI_IO_SCHEDULER_H_
#define CAIRN_CLIENT_CLI_IO_SCHEDULER_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

namespace cairn::cli {

// Of the disk with this number (FileInfo::device), or whose partition has it: "bfq", "mq-deadline", "none". `devices`:
// where the kernel lists them.
//   kNotFound  the kernel names none for it, and which one serves the disks below, if there are any, is not known: a
//              device made of others (LVM, dm-crypt, NVMe multipath); a file system over others (overlayfs), of several
//              disks (btrfs), in memory, or of the network
absl::StatusOr<std::string> IoSchedulerOf(std::uint64_t device, const std::string& devices = "/sys/dev/block");

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_IO_SCHEDULER_H_
