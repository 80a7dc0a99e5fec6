#include "tests/support/cluster/network.h"

#include <fcntl.h>

#include <filesystem>
#include <system_error>
#include <utility>

namespace cairn::testing {
namespace {

std::string TargetOf(const std::string& link) {
  std::error_code error;
  return std::filesystem::read_symlink(link, error).string();
}

}  // namespace

std::string NetworkOf(const std::string& pid) {
  return TargetOf("/proc/" + pid + "/ns/net");
}

bool HeldNetworks::Add(const std::string& pid) {
  UniqueFd fd(::open(("/proc/" + pid + "/ns/net").c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return false;
  // The name of what is held, whoever has the process number by now.
  const std::string name = TargetOf("/proc/self/fd/" + std::to_string(fd.get()));
  if (name.empty()) return false;
  held_.try_emplace(name, std::move(fd));
  return true;
}

}  // namespace cairn::testing
