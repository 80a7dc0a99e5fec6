// A part of a disk's bandwidth for each of several programs, where this process may say so (root, and the kernel's
// blkio controller of version 1).
#ifndef CAIRN_TESTS_BENCH_DISK_SHARE_H_
#define CAIRN_TESTS_BENCH_DISK_SHARE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace cairn::bench {

class DiskShare {
 public:
  // Groups of programs, each of which reads and writes so many bytes per second of the disk that `folder` is on. Gone
  // with it, when the programs have ended.
  //   kUnavailable  this machine cannot, or we may not
  static absl::StatusOr<std::unique_ptr<DiskShare>> Make(const std::string& folder, std::uint64_t bytes_per_second);
  ~DiskShare();
  DiskShare(const DiskShare&) = delete;

  // Programs that `start` starts belong to this group.
  void In(int group, const std::function<void()>& start);

 private:
  DiskShare(std::string groups, std::string limit) : groups_(std::move(groups)), limit_(std::move(limit)) {}
  const std::string groups_;  // the folder that has them
  const std::string limit_;   // "8:0 4096"
};

}  // namespace cairn::bench

#endif  // CAIRN_TESTS_BENCH_DISK_SHARE_H_
