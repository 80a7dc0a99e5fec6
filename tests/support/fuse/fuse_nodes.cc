#include "tests/support/fuse/fuse_nodes.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace cairn {

fuse_attr FuseAttributes(const struct stat& stat) {
  fuse_attr out{};
  out.ino = stat.st_ino;
  out.size = static_cast<std::uint64_t>(stat.st_size);
  out.blocks = static_cast<std::uint64_t>(stat.st_blocks);
  out.atime = static_cast<std::uint64_t>(stat.st_atim.tv_sec);
  out.mtime = static_cast<std::uint64_t>(stat.st_mtim.tv_sec);
  out.ctime = static_cast<std::uint64_t>(stat.st_ctim.tv_sec);
  out.atimensec = static_cast<std::uint32_t>(stat.st_atim.tv_nsec);
  out.mtimensec = static_cast<std::uint32_t>(stat.st_mtim.tv_nsec);
  out.ctimensec = static_cast<std::uint32_t>(stat.st_ctim.tv_nsec);
  out.mode = stat.st_mode;
  out.nlink = static_cast<std::uint32_t>(stat.st_nlink);
  out.uid = stat.st_uid;
  out.gid = stat.st_gid;
  out.blksize = static_cast<std::uint32_t>(stat.st_blksize);
  return out;
}

FuseNodes::FuseNodes(int root) {
  Node node{.fd = UniqueFd(root), .name = {}, .key = {}, .known = 1};
  struct stat stat {};
  if (::fstat(root, &stat) == 0) node.key = {stat.st_dev, stat.st_ino};
  numbers_[node.key] = FUSE_ROOT_ID;
  nodes_.emplace(FUSE_ROOT_ID, std::move(node));
}

int FuseNodes::Of(std::uint64_t node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? -1 : found->second.fd.get();
}

std::string FuseNodes::PathOf(std::uint64_t node) const {
  return fmt::format("/proc/self/fd/{}", Of(node));
}

std::string FuseNodes::NameOf(std::uint64_t node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? std::string() : found->second.name;
}

int FuseNodes::Find(std::uint64_t parent, const char* name, fuse_entry_out* entry) {
  UniqueFd fd(::openat(Of(parent), name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return -errno;
  struct stat stat {};
  if (::fstatat(fd.get(), "", &stat, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) != 0) return -errno;
  const std::pair<dev_t, ino_t> key{stat.st_dev, stat.st_ino};
  const auto [number, fresh] = numbers_.try_emplace(key, last_ + 1);
  if (fresh) nodes_[++last_] = {.fd = std::move(fd), .name = {}, .key = key, .known = 0};
  Node& node = nodes_.at(number->second);
  node.name = name;
  ++node.known;
  *entry = {};
  entry->nodeid = number->second;
  entry->attr = FuseAttributes(stat);
  return 0;
}

int FuseNodes::AttributesOf(std::uint64_t node, fuse_attr* attributes) const {
  struct stat stat {};
  if (::fstatat(Of(node), "", &stat, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) != 0) return -errno;
  *attributes = FuseAttributes(stat);
  return 0;
}

void FuseNodes::Forget(std::uint64_t node, std::uint64_t times) {
  const auto found = nodes_.find(node);
  if (found == nodes_.end() || node == FUSE_ROOT_ID) return;
  found->second.known -= std::min(times, found->second.known);
  if (found->second.known > 0) return;
  numbers_.erase(found->second.key);
  nodes_.erase(found);
}

std::uint64_t FuseNodes::AddHandle(UniqueFd fd) {
  const auto handle = static_cast<std::uint64_t>(fd.get());  // nothing else has it as long as it is open
  handles_[handle] = {.fd = std::move(fd)};
  return handle;
}

FuseNodes::Handle* FuseNodes::HandleOf(std::uint64_t handle) {
  const auto found = handles_.find(handle);
  return found == handles_.end() ? nullptr : &found->second;
}

}  // namespace cairn
