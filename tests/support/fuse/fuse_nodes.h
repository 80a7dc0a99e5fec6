// The files that the kernel knows of, by the numbers that it has them under, and what it has open.
#ifndef CAIRN_TESTS_SUPPORT_FUSE_FUSE_NODES_H_
#define CAIRN_TESTS_SUPPORT_FUSE_FUSE_NODES_H_

#include <linux/fuse.h>
#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/base/unique_fd.h"

namespace cairn {

// Errors are negative errno values, as the kernel wants them.
class FuseNodes {
 public:
  explicit FuseNodes(int root);

  // O_PATH; -1: no such node. For calls that take a path: PathOf.
  int Of(std::uint64_t node) const;
  std::string PathOf(std::uint64_t node) const;  // /proc/self/fd/…
  std::string NameOf(std::uint64_t node) const;  // that it was last found by
  // Finds what is called `name` now, and counts that the kernel knows it.
  int Find(std::uint64_t parent, const char* name, fuse_entry_out* entry);
  int AttributesOf(std::uint64_t node, fuse_attr* attributes) const;
  void Forget(std::uint64_t node, std::uint64_t times);

  struct Handle {
    UniqueFd fd;
    std::vector<std::pair<std::string, struct stat>> entries = {};  // of a directory, read at its beginning
  };
  std::uint64_t AddHandle(UniqueFd fd);
  Handle* HandleOf(std::uint64_t handle);
  void Close(std::uint64_t handle) { handles_.erase(handle); }

 private:
  struct Node {
    UniqueFd fd;  // the file's number is no other's while this is open
    std::string name;
    std::pair<dev_t, ino_t> key;
    std::uint64_t known = 0;  // times the kernel was told
  };

  std::map<std::uint64_t, Node> nodes_;
  std::map<std::pair<dev_t, ino_t>, std::uint64_t> numbers_;
  std::map<std::uint64_t, Handle> handles_;
  std::uint64_t last_ = FUSE_ROOT_ID;
};

fuse_attr FuseAttributes(const struct stat& stat);

}  // namespace cairn

#endif  // CAIRN_TESTS_SUPPORT_FUSE_FUSE_NODES_H_
