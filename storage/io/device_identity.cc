#include "storage/io/device_identity.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace cairn {
namespace {

constexpr std::uint64_t kSectorBytes = 512;  // of sysfs, whatever the device has

// What records may hold: printable, without blanks at the ends, not too long.
std::string Tidied(std::string_view text) {
  std::string tidy(text.substr(0, DeviceIdentity::kTextBytesMax));
  std::ranges::replace_if(
      tidy, [](unsigned char c) { return c < 0x20 || c > 0x7e; }, ' ');
  tidy.erase(tidy.find_last_not_of(' ') + 1);
  tidy.erase(0, tidy.find_first_not_of(' '));
  return tidy;
}

// The line of a file in sysfs; empty: there is none. These files tell no size, so that a Disk cannot read them.
std::string SysfsLine(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 256> text{};
  const ssize_t size = fd.valid() ? ::read(fd.get(), text.data(), text.size()) : 0;
  return size > 0 ? Tidied({text.data(), static_cast<std::size_t>(size)}) : std::string();
}

std::uint64_t SizeOf(const std::string& block) {
  const std::string text = SysfsLine(block + "/size");
  std::uint64_t sectors = 0, bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sectors);
  if (error != std::errc() || __builtin_mul_overflow(sectors, kSectorBytes, &bytes)) return 0;
  return bytes;
}

}  // namespace

absl::StatusOr<DeviceIdentity> IdentifyDevice(Disk& disk, const std::string& folder) {
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk.Info(folder));
  DeviceIdentity identity{.device = info.device};
  CAIRN_ASSIGN_OR_RETURN(identity.file_system, disk.FileSystemType(folder));
  const std::string block = fmt::format("/sys/dev/block/{}:{}", gnu_dev_major(info.device), gnu_dev_minor(info.device));
  identity.bytes = SizeOf(block);
  identity.model = SysfsLine(block + "/device/model");
  if (identity.model.empty()) identity.model = SysfsLine(block + "/../device/model");  // of a partition
  struct utsname system {};
  if (::uname(&system) == 0) identity.kernel = Tidied(system.release);
  return identity;
}

}  // namespace cairn
