#include "tests/bench/disk_share.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string_view>

#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn::bench {
namespace {

constexpr char kController[] = "/sys/fs/cgroup/blkio";

bool Write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file.good();
}

// Of this process, as a path below the controller's folder. In a container it may be named as its host sees it, which
// is not there: then the topmost one.
std::string OwnGroup() {
  constexpr std::string_view kMark = ":blkio:";
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t at = line.find(kMark);
    if (at == std::string::npos) continue;
    const std::string group = line.substr(at + kMark.size());
    return std::filesystem::exists(kController + group) ? group : "/";
  }
  return "/";
}

// Whole disks have limits, their partitions have none.
std::string DiskOf(const std::string& folder) {
  struct stat info = {};
  if (::stat(folder.c_str(), &info) != 0) return "";
  const std::string of_part = fmt::format("/sys/dev/block/{}:{}", major(info.st_dev), minor(info.st_dev));
  std::error_code none;
  const std::filesystem::path device = std::filesystem::canonical(of_part, none);
  if (none) return "";
  const auto disk = std::filesystem::exists(device / "partition") ? device.parent_path() : device;
  std::string number;
  std::ifstream(disk / "dev") >> number;
  return number;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DiskShare>> DiskShare::Make(const std::string& folder, std::uint64_t bytes_per_second) {
  const std::string disk = DiskOf(folder);
  if (disk.empty()) return Unavailable("{} is on no disk", folder);
  const std::string groups = fmt::format("{}/cairn-bench-{}", kController, ::getpid());
  const std::string limit = fmt::format("{} {}", disk, bytes_per_second);
  std::unique_ptr<DiskShare> share(new DiskShare(groups, limit));
  std::error_code failed;
  std::filesystem::create_directory(groups, failed);
  if (failed || !Write(groups + "/blkio.throttle.write_bps_device", fmt::format("{} 0", disk))) {
    return Unavailable("{}: no limits can be set there", groups);
  }
  return share;
}

DiskShare::~DiskShare() {
  std::error_code ignored;
  for (const auto& group : std::filesystem::directory_iterator(groups_, ignored)) {
    if (group.is_directory(ignored)) ::rmdir(group.path().c_str());
  }
  ::rmdir(groups_.c_str());
}

void DiskShare::In(int group, const std::function<void()>& start) {
  const std::string path = fmt::format("{}/{}", groups_, group);
  std::error_code failed;
  std::filesystem::create_directory(path, failed);
  CAIRN_CHECK(!failed);
  CAIRN_CHECK(Write(path + "/blkio.throttle.write_bps_device", limit_));
  CAIRN_CHECK(Write(path + "/blkio.throttle.read_bps_device", limit_));
  const std::string before = OwnGroup();
  CAIRN_CHECK(Write(path + "/cgroup.procs", "0"));
  start();
  CAIRN_CHECK(Write(fmt::format("{}{}/cgroup.procs", kController, before), "0"));
}

}  // namespace cairn::bench
