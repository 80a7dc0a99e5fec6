#include "storage/base/user_name.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

namespace cairn {

std::string UserName() {
  passwd entry{};
  passwd* found = nullptr;
  std::string buffer(4096, '\0');
  if (::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return found->pw_name;
  }
  return fmt::format("uid-{}", ::geteuid());
}

}  // namespace cairn
