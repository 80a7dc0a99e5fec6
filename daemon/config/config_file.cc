#include "daemon/config/config_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "daemon/config/units.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace cairn {
namespace {

constexpr std::size_t kFileBytesMax = 1 << 20;

}  // namespace

absl::StatusOr<std::string> ReadConfigFile(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    const absl::StatusCode code = errno == ENOENT || errno == ENOTDIR ? absl::StatusCode::kNotFound
                                  : errno == EACCES                   ? absl::StatusCode::kPermissionDenied
                                                                      : absl::StatusCode::kInvalidArgument;
    return MakeError(code, "{}: {}", path, std::strerror(errno));
  }
  std::string text;
  std::array<char, 65536> block;
  for (;;) {
    const ssize_t n = ::read(fd.get(), block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return InvalidArgument("{}: {}", path, std::strerror(errno));
    if (n == 0) return text;
    text.append(block.data(), static_cast<std::size_t>(n));
    if (text.size() > kFileBytesMax) return InvalidArgument("{}: larger than {}", path, FormatSize(kFileBytesMax));
  }
}

}  // namespace cairn
