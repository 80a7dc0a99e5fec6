// Users as the system knows them. A cache has a folder for each user, of the user's name. Thread-safe.
#ifndef CAIRN_STORAGE_BASE_USER_NAME_H_
#define CAIRN_STORAGE_BASE_USER_NAME_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace cairn {

// The effective user's; "uid-<number>" if the system knows no name.
std::string UserName();

struct Account {
  std::string name, home;
  gid_t group = 0;
  std::vector<gid_t> groups;  // all of them, `group` too
};
// None: the system does not know the user. May wait for a directory service.
std::optional<Account> AccountOf(uid_t user);

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_USER_NAME_H_
