#include "daemon/supervisor/given.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace cairn {
namespace {

constexpr int kFirstGiven = 3;  // SD_LISTEN_FDS_START
constexpr long kGivenMax = 1 << 16;

long NumberIn(const char* variable) {
  const char* const text = std::getenv(variable);
  long number = 0;
  if (text == nullptr) return 0;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), number);
  return error == std::errc() && *end == '\0' ? number : 0;
}

}  // namespace

std::vector<Given> LookAtGiven() {
  std::vector<Given> given;
  const long count = NumberIn("LISTEN_FDS");
  if (NumberIn("LISTEN_PID") != ::getpid() || count < 0 || count > kGivenMax) return given;
  const char* const text = std::getenv("LISTEN_FDNAMES");
  std::string_view names = text == nullptr ? "" : text;
  for (int i = 0; i < count; ++i) {
    const std::string_view name = names.substr(0, names.find(':'));
    given.push_back({.fd = kFirstGiven + i, .name = std::string(name)});
    names.remove_prefix(std::min(names.size(), name.size() + 1));
  }
  return given;
}

}  // namespace cairn
