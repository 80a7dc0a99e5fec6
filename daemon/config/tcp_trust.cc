#include "daemon/config/tcp_trust.h"

#include <cstddef>
#include <fstream>

#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::size_t kPemBytesMax = 1 << 20;

}  // namespace

bool IsLoopback(std::string_view address) {
  const std::string_view host = address.substr(0, address.rfind(':'));
  // Numbers only: 127.example.org may be anywhere.
  const bool number = host.find_first_not_of("0123456789.") == std::string_view::npos;
  return host == "localhost" || host == "[::1]" || (number && host.starts_with("127."));
}

absl::StatusOr<std::string> ReadPem(std::string_view what, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kPemBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (file.bad() || text.empty()) return InvalidArgument("{} {}: cannot be read, or is empty", what, path);
  if (text.size() > kPemBytesMax) return InvalidArgument("{} {}: larger than {} bytes", what, path, kPemBytesMax);
  if (text.find("-----BEGIN ") == std::string::npos) return InvalidArgument("{} {}: not a PEM file", what, path);
  return text;
}

}  // namespace cairn
