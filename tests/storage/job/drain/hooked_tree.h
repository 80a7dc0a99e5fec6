// A Tree that asks before each call: tests count, order and fail them, or change what is read.
#ifndef CAIRN_TESTS_STORAGE_JOB_DRAIN_HOOKED_TREE_H_
#define CAIRN_TESTS_STORAGE_JOB_DRAIN_HOOKED_TREE_H_

#include <absl/status/status.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "storage/io/tree.h"

namespace cairn::testing {

struct TreeHooks {
  // `what`: the call's name in lower case ("create", "write", "rename to" with the new name, ...). An error is the
  // call's answer, and it is not made. Any thread.
  std::function<absl::Status(std::string_view what, const std::string& path)> before =
      [](std::string_view, const std::string&) { return absl::OkStatus(); };
  bool coarse_times = false;     // mtimes and ctimes are told in whole seconds
  bool syncs_each = false;       // it has to be synced file by file, folder by folder
  bool other_device = false;     // as another mount of the same file system may tell
  bool writers_unknown = false;  // nobody can tell whether a file is open for writing
  // After a "write" or a "sync" of a file that went well; `bytes`: what was written.
  std::function<void(std::string_view what, const std::string& path, std::span<const std::byte> bytes)> after =
      [](std::string_view, const std::string&, std::span<const std::byte>) {};
  // After a read, what came.
  std::function<void(const std::string& path, std::span<std::byte> bytes)> came = [](const std::string&,
                                                                                     std::span<std::byte>) {};
};

// `hooks` is borrowed.
std::unique_ptr<Tree> HookTree(std::unique_ptr<Tree> tree, const TreeHooks& hooks);

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_STORAGE_JOB_DRAIN_HOOKED_TREE_H_
