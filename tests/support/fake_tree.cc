#include "tests/support/fake_tree.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <set>
#include <utility>

#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr int kLinksFollowedMax = 40;
constexpr std::size_t kNameBytesMax = 255;
constexpr std::uint64_t kTornBytes = 4096;  // what a disk writes at once

std::deque<std::string> SplitPath(std::string_view path) {
  std::deque<std::string> parts;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t slash = std::min(path.find('/', at), path.size());
    if (slash > at) parts.emplace_back(path.substr(at, slash - at));
    at = slash + 1;
  }
  if (path.ends_with('/') && !parts.empty()) parts.emplace_back(".");
  return parts;
}

void Put(std::string& content, std::uint64_t offset, std::string_view bytes) {
  if (content.size() < offset + bytes.size()) content.resize(offset + bytes.size());
  std::copy(bytes.begin(), bytes.end(), content.begin() + static_cast<std::ptrdiff_t>(offset));
}

class Coins {
 public:
  explicit Coins(std::uint64_t seed) : random_(seed) {}
  bool Toss() { return (random_() >> 40 & 1) != 0; }
  std::uint64_t OneOf(std::uint64_t n) { return (random_() >> 32) % n; }

 private:
  std::mt19937_64 random_;
};

// No two alike in a process: what is known of a device must not be taken for another's.
std::uint64_t NewDevice() {
  static std::atomic<std::uint64_t> devices = 0;
  return ++devices;
}

// A write that was never synced is there as a whole, not at all, or block by block; of what is not there, the size may
// be, over zeros.
void ApplySurvivors(const FakeInode::Change& change, Coins& coins, std::string& content) {
  const std::uint64_t fate = coins.OneOf(4);
  if (fate == 0) return;
  if (change.truncate) {
    if (coins.Toss()) content.resize(change.offset);
    return;
  }
  const std::uint64_t end = change.offset + change.bytes.size();
  for (std::uint64_t at = change.offset; at < end;) {
    const std::uint64_t next = std::min(end, (at / kTornBytes + 1) * kTornBytes);
    if (fate == 3 || (fate == 2 && coins.Toss())) {
      Put(content, at, std::string_view(change.bytes).substr(at - change.offset, next - at));
    }
    at = next;
  }
  if (fate == 1 && coins.Toss() && content.size() < end) content.resize(end);
}

}  // namespace

void FakeInode::Write(std::uint64_t offset, std::string_view bytes) {
  Put(content, offset, bytes);
  unsynced.push_back({.truncate = false, .offset = offset, .bytes = std::string(bytes)});
}

void FakeInode::Truncate(std::uint64_t bytes) {
  content.resize(bytes);
  unsynced.push_back({.truncate = true, .offset = bytes, .bytes = {}});
}

void FakeInode::Sync() {
  for (const Change& change : unsynced) {
    if (change.truncate) {
      durable_content.resize(change.offset);
    } else {
      Put(durable_content, change.offset, change.bytes);
    }
  }
  unsynced.clear();
}

void FakeInode::LoseSync() {
  unsynced.clear();
}

FakeTree::FakeTree(bool tells_birth)
    : device_(NewDevice()), tells_birth_(tells_birth), root_(NewInode(S_IFDIR | 0755)) {}

timespec FakeTree::Now() {
  // Later than any test runs: a file that is being written must not look old to who clears away what is.
  return {.tv_sec = 4'000'000'000 + ++ticks_, .tv_nsec = 0};
}

FakeInodePtr FakeTree::NewInode(std::uint32_t mode) {
  auto inode = std::make_shared<FakeInode>();
  inode->info.inode = ++inodes_;
  inode->info.device = device_;
  inode->info.mode = mode;
  inode->info.uid = ::getuid();
  inode->info.gid = ::getgid();
  inode->info.atime = inode->info.mtime = inode->info.ctime = Now();
  if (tells_birth_) inode->info.birth = inode->info.ctime;
  return inode;
}

FakeInodePtr FakeTree::Copy(const FakeInodePtr& inode) {
  std::map<const FakeInode*, FakeInodePtr> copies;
  return CopyOnce(inode, copies);
}

// A file with several names is copied once, and the copy has as many of them.
FakeInodePtr FakeTree::CopyOnce(const FakeInodePtr& inode, std::map<const FakeInode*, FakeInodePtr>& copies) {
  FakeInodePtr& copy = copies[inode.get()];
  if (copy != nullptr) return copy;
  copy = NewInode(inode->info.mode);
  copy->target = inode->target;
  if (!inode->content.empty()) copy->Write(0, inode->content);
  for (const auto& [name, child] : inode->entries) Change({{copy, name, CopyOnce(child, copies)}});
  copy->info.uid = inode->info.uid;
  copy->info.gid = inode->info.gid;
  copy->info.atime = inode->info.atime;
  copy->info.mtime = inode->info.mtime;
  return copy;
}

absl::StatusOr<FakeTree::Place> FakeTree::Resolve(const std::string& path, bool follow_last) const {
  std::vector<std::string> names;
  return Walk(path, follow_last, &names);
}

absl::StatusOr<std::string> FakeTree::RealPath(const std::string& path) const {
  std::vector<std::string> names;
  CAIRN_ASSIGN_OR_RETURN(const Place place, Walk(path, /*follow_last=*/true, &names));
  if (place.inode == nullptr) return NotFound("{}: No such file or directory", path);
  std::string real;
  for (const std::string& name : names) real += "/" + name;
  return real.empty() ? "/" : real;
}

absl::StatusOr<FakeTree::Place> FakeTree::Walk(const std::string& path, bool follow_last,
                                               std::vector<std::string>* names) const {
  if (!path.starts_with('/')) return InvalidArgument("{}: not an absolute path", path);
  std::deque<std::string> parts = SplitPath(path);
  std::vector<FakeInodePtr> way = {root_};
  int links = 0;
  while (!parts.empty()) {
    const std::string name = std::move(parts.front());
    parts.pop_front();
    if (name == ".") continue;
    if (name == "..") {
      if (way.size() > 1) {
        way.pop_back();
        names->pop_back();
      }
      continue;
    }
    if (name.size() > kNameBytesMax) return InvalidArgument("{}: File name too long", path);
    const auto found = way.back()->entries.find(name);
    const FakeInodePtr inode = found == way.back()->entries.end() ? nullptr : found->second;
    const bool last = parts.empty();
    if (inode != nullptr && inode->info.is_symlink() && (!last || follow_last)) {
      if (++links > kLinksFollowedMax) return InvalidArgument("{}: Too many levels of symbolic links", path);
      if (inode->target.starts_with('/')) {
        way.resize(1);
        names->clear();
      }
      const std::deque<std::string> target = SplitPath(inode->target);
      parts.insert(parts.begin(), target.begin(), target.end());
      continue;
    }
    if (last) {
      if (inode != nullptr) names->push_back(name);
      return Place{.parent = way.back(), .name = name, .inode = inode};
    }
    if (inode == nullptr) return NotFound("{}: No such file or directory", path);
    if (!inode->info.is_directory()) return NotFound("{}: Not a directory", path);
    way.push_back(inode);
    names->push_back(name);
  }
  return Place{.parent = nullptr, .name = {}, .inode = way.back()};
}

absl::StatusOr<FakeInodePtr> FakeTree::ResolveDirectory(const std::string& path) const {
  CAIRN_ASSIGN_OR_RETURN(const Place place, Resolve(path, /*follow_last=*/true));
  if (place.inode == nullptr) return NotFound("{}: No such file or directory", path);
  if (!place.inode->info.is_directory()) return NotFound("{}: Not a directory", path);
  return place.inode;
}

void FakeTree::Touch(FakeInode& inode) {
  inode.info.mtime = inode.info.ctime = Now();
}

void FakeTree::Renamed(FakeInode& inode) {
  inode.info.ctime = Now();
}

void FakeTree::Apply(const Edit& edit, FakeEntries FakeInode::*entries) {
  FakeEntries& names = (*edit.directory).*entries;
  if (edit.inode != nullptr) {
    names[edit.name] = edit.inode;
  } else {
    names.erase(edit.name);
  }
}

void FakeTree::Change(std::vector<Edit> edits) {
  Operation operation{.edits = std::move(edits)};
  for (const Edit& edit : operation.edits) {
    Apply(edit, &FakeInode::entries);
    Touch(*edit.directory);
    const bool directory = edit.inode != nullptr && edit.inode->info.is_directory();
    operation.moves_directory |= directory && operation.edits.size() > 1;
  }
  unsynced_.push_back(std::move(operation));
}

void FakeTree::SyncDirectory(const FakeInodePtr& directory) {
  // From the newest to the oldest: what is taken takes along whatever earlier touched one of its names.
  std::set<std::pair<const FakeInode*, std::string>> names;
  std::vector<bool> taken(unsynced_.size());
  bool moves_directory = false;
  for (std::size_t i = unsynced_.size(); i-- > 0;) {
    const Operation& operation = unsynced_[i];
    bool take = moves_directory && operation.moves_directory;
    for (const Edit& edit : operation.edits) {
      take |= edit.directory == directory || names.contains({edit.directory.get(), edit.name});
    }
    if (!take) continue;
    taken[i] = true;
    moves_directory |= operation.moves_directory;
    for (const Edit& edit : operation.edits) names.emplace(edit.directory.get(), edit.name);
  }
  std::vector<Operation> rest;
  for (std::size_t i = 0; i < unsynced_.size(); ++i) {
    if (taken[i]) {
      for (const Edit& edit : unsynced_[i].edits) Apply(edit, &FakeInode::durable_entries);
    } else {
      rest.push_back(std::move(unsynced_[i]));
    }
  }
  unsynced_ = std::move(rest);
}

void FakeTree::SyncAll() {
  for (const Operation& operation : unsynced_) {
    for (const Edit& edit : operation.edits) Apply(edit, &FakeInode::durable_entries);
  }
  unsynced_.clear();
  std::vector<FakeInodePtr> waiting = {root_};
  while (!waiting.empty()) {
    const FakeInodePtr inode = waiting.back();
    waiting.pop_back();
    inode->Sync();
    for (const auto& [name, child] : inode->entries) waiting.push_back(child);
  }
}

void FakeTree::Crash(std::uint64_t seed) {
  Coins coins(seed);
  // An operation survives only with all earlier ones that touched its names: those are ordered on any file system.
  std::set<std::pair<const FakeInode*, std::string>> lost_names;
  bool lost_move = false;
  for (const Operation& operation : unsynced_) {
    bool survives = coins.Toss() && !(lost_move && operation.moves_directory);
    for (const Edit& edit : operation.edits) survives &= !lost_names.contains({edit.directory.get(), edit.name});
    for (const Edit& edit : operation.edits) {
      if (survives) {
        Apply(edit, &FakeInode::durable_entries);
      } else {
        lost_names.emplace(edit.directory.get(), edit.name);
      }
    }
    lost_move |= !survives && operation.moves_directory;
  }
  unsynced_.clear();
  std::set<const FakeInode*> seen;
  std::vector<FakeInodePtr> waiting = {root_};
  while (!waiting.empty()) {
    const FakeInodePtr inode = waiting.back();
    waiting.pop_back();
    if (!seen.insert(inode.get()).second) continue;
    for (const FakeInode::Change& change : inode->unsynced) ApplySurvivors(change, coins, inode->durable_content);
    inode->unsynced.clear();
    inode->content = inode->durable_content;
    inode->entries = inode->durable_entries;
    for (const auto& [name, child] : inode->entries) waiting.push_back(child);
  }
}

std::uint64_t FakeTree::links(const FakeInode& inode) const {
  std::uint64_t names = 0;
  std::vector<const FakeInode*> waiting = {root_.get()};
  while (!waiting.empty()) {
    const FakeInode* directory = waiting.back();
    waiting.pop_back();
    for (const auto& [name, child] : directory->entries) {
      names += child.get() == &inode ? 1 : 0;
      if (child->info.is_directory()) waiting.push_back(child.get());
    }
  }
  return names;
}

std::uint64_t FakeTree::used_bytes() const {
  std::uint64_t bytes = 0;
  std::set<const FakeInode*> seen;
  std::vector<const FakeInode*> waiting = {root_.get()};
  while (!waiting.empty()) {
    const FakeInode* inode = waiting.back();
    waiting.pop_back();
    if (!seen.insert(inode).second) continue;
    bytes += inode->content.size();
    for (const auto& [name, child] : inode->entries) waiting.push_back(child.get());
  }
  return bytes;
}

bool FakeTree::IsWithin(const FakeInodePtr& inode, const FakeInodePtr& directory) {
  if (inode == directory) return true;
  for (const auto& [name, child] : directory->entries) {
    if (child->info.is_directory() && IsWithin(inode, child)) return true;
  }
  return false;
}

}  // namespace cairn
