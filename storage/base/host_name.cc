#include "storage/base/host_name.h"

#include <unistd.h>

#include <array>
#include <climits>

namespace cairn {

std::string HostName() {
  std::array<char, HOST_NAME_MAX + 1> name{};  // a longer name may come without its terminator
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "unknown";
  return name.data();
}

}  // namespace cairn
