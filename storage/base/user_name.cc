#include "storage/base/user_name.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

namespace cairn {
namespace {

constexpr std::size_t kEntryBytes = 1 << 16;
constexpr int kGroupsMax = 65'536;  // NGROUPS_MAX of Linux

}  // namespace

std::optional<Account> AccountOf(uid_t user) {
  passwd entry{};
  passwd* found = nullptr;
  std::string buffer(kEntryBytes, '\0');
  if (::getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return std::nullopt;
  Account account{.name = found->pw_name, .home = found->pw_dir, .group = found->pw_gid, .groups = {}};
  int count = 64;
  do {
    account.groups.resize(static_cast<std::size_t>(count));
    if (::getgrouplist(account.name.c_str(), account.group, account.groups.data(), &count) >= 0) break;
  } while (count <= kGroupsMax);
  if (count > kGroupsMax) return std::nullopt;
  account.groups.resize(static_cast<std::size_t>(count));
  return account;
}

std::string UserName() {
  const std::optional<Account> account = AccountOf(::geteuid());
  return account ? account->name : fmt::format("uid-{}", ::geteuid());
}

}  // namespace cairn
