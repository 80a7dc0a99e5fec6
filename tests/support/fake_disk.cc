#include "tests/support/fake_disk.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/status.h"
#include "tests/support/fake_tree.h"

namespace cairn {
namespace {

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

FileInfo InfoOf(const FakeInode& inode, std::uint64_t links) {
  FileInfo info = inode.info;
  info.bytes = inode.info.is_symlink() ? inode.target.size() : inode.content.size();
  info.allocated_bytes = (inode.content.size() + 4095) / 4096 * 4096;
  info.links = links;
  return info;
}

// An operation under way.
struct Begun {
  std::unique_lock<std::mutex> lock;
  absl::Status status;  // it is to fail with this
  bool power = true;    // false: it must not even happen by half
};

}  // namespace

struct FakeDisk::State {
  struct ArmedFault {
    FakeFault fault;
    std::uint64_t seen = 0;
  };

  explicit State(FakeDiskOptions o) : options(o), tree(o.tells_birth) {}

  // What comes before each operation: the hook, the power, the faults. `other`: the second path of two. The lock is
  // held from then on.
  Begun Begin(FakeOp op, const std::string& path, const std::string& other = {});
  bool Matches(const FakeFault& fault, FakeOp op, const std::string& path, const std::string& other) const;
  // How many of `bytes` that the file would grow by still fit.
  std::uint64_t Room(std::uint64_t bytes) const;

  std::mutex mutex;
  FakeDiskOptions options;
  FakeTree tree;
  Hook hook;
  std::vector<ArmedFault> faults;
  std::uint64_t operations = 0;
  std::optional<std::uint64_t> crash_at;  // a value of `operations`
  bool crashed = false;
  std::uint64_t power_cycles = 0;
  TransferShapes shapes;
};

bool FakeDisk::State::Matches(const FakeFault& fault, FakeOp op, const std::string& path,
                              const std::string& other) const {
  if (fault.op != FakeOp::kAny && fault.op != op) return false;
  return path.find(fault.path_part) != std::string::npos ||
         (!other.empty() && other.find(fault.path_part) != std::string::npos);
}

Begun FakeDisk::State::Begin(FakeOp op, const std::string& path, const std::string& other) {
  Hook hook_copy;
  {
    const std::lock_guard lock(mutex);
    hook_copy = hook;
  }
  if (hook_copy) hook_copy(op, path);
  Begun begun{std::unique_lock(mutex), absl::OkStatus()};
  if (!crashed) {
    ++operations;
    crashed = crash_at.has_value() && operations >= *crash_at;
  }
  if (crashed) {
    begun.power = false;
    begun.status = Unavailable("{}: crashed", path);
    return begun;
  }
  for (ArmedFault& armed : faults) {
    if (!Matches(armed.fault, op, path, other)) continue;
    ++armed.seen;
    const bool due = armed.seen >= armed.fault.nth && armed.seen - armed.fault.nth < armed.fault.times;
    if (due && begun.status.ok()) begun.status = Annotate(armed.fault.status, path);
  }
  return begun;
}

std::uint64_t FakeDisk::State::Room(std::uint64_t bytes) const {
  if (bytes == 0 || options.capacity == UINT64_MAX) return bytes;
  const std::uint64_t used = tree.used_bytes();
  return used >= options.capacity ? 0 : std::min(bytes, options.capacity - used);
}

class FakeFile final : public File {
 public:
  FakeFile(std::shared_ptr<FakeDisk::State> state, FakeInodePtr inode, std::string path, bool writable, bool direct)
      : state_(std::move(state)),
        inode_(std::move(inode)),
        path_(std::move(path)),
        writable_(writable),
        direct_(direct),
        power_cycle_(state_->power_cycles) {}

  absl::Status ReadAt(std::uint64_t offset, std::span<std::byte> target) override {
    const Begun begun = state_->Begin(FakeOp::kRead, path_);
    CAIRN_RETURN_IF_ERROR(begun.status);
    CAIRN_RETURN_IF_ERROR(Check(offset, target, /*write=*/false));
    const std::string& content = inode_->content;
    const std::size_t there = offset < content.size() ? std::min(content.size() - offset, target.size()) : 0;
    const auto* from = reinterpret_cast<const std::byte*>(content.data()) + std::min(offset, content.size());
    std::copy_n(from, there, target.begin());
    if (there == target.size()) return absl::OkStatus();
    if (!direct_ || target.size() - there >= kDirectAlignment) {
      return DataLoss("read {} at {}: the file ends after {} of {} bytes", path_, offset, there, target.size());
    }
    std::fill(target.begin() + static_cast<std::ptrdiff_t>(there), target.end(), std::byte{0});
    return absl::OkStatus();
  }

  absl::Status WriteAt(std::uint64_t offset, std::span<const std::byte> bytes) override {
    const Begun begun = state_->Begin(FakeOp::kWrite, path_);
    if (!begun.power) return begun.status;
    absl::Status status = begun.status;
    CAIRN_RETURN_IF_ERROR(Check(offset, bytes, /*write=*/true));
    std::size_t count = status.ok() ? bytes.size() : bytes.size() / 2;
    const std::uint64_t end = offset + count;
    const std::uint64_t grown = end > inode_->content.size() ? end - inode_->content.size() : 0;
    const std::uint64_t room = state_->Room(grown);
    if (room < grown) {
      count -= std::min<std::uint64_t>(count, grown - room);
      if (status.ok()) status = ResourceExhausted("write {} at {}: No space left on device", path_, offset + count);
    }
    if (count > 0) {
      inode_->Write(offset, AsText(bytes.first(count)));
      state_->tree.Touch(*inode_);
    }
    return status;
  }

  void ReadAsync(std::uint64_t offset, std::span<std::byte> target, Done done) override {
    done(ReadAt(offset, target));
  }
  void WriteAsync(std::uint64_t offset, std::span<const std::byte> bytes, Done done) override {
    done(WriteAt(offset, bytes));
  }

  absl::Status Truncate(std::uint64_t bytes) override {
    const Begun begun = state_->Begin(FakeOp::kTruncate, path_);
    CAIRN_RETURN_IF_ERROR(begun.status);
    CAIRN_RETURN_IF_ERROR(Check(0, {}, /*write=*/true));
    const std::uint64_t grown = bytes > inode_->content.size() ? bytes - inode_->content.size() : 0;
    if (state_->Room(grown) < grown) return ResourceExhausted("truncate {}: No space left on device", path_);
    inode_->Truncate(bytes);
    state_->tree.Touch(*inode_);
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    const Begun begun = state_->Begin(FakeOp::kSync, path_);
    if (!begun.power) return begun.status;
    absl::Status status = begun.status;
    CAIRN_RETURN_IF_ERROR(Check(0, {}, /*write=*/false));
    status.ok() ? inode_->Sync() : inode_->LoseSync();
    return status;
  }

  absl::StatusOr<FileInfo> Info() override {
    const Begun begun = state_->Begin(FakeOp::kFileInfo, path_);
    CAIRN_RETURN_IF_ERROR(begun.status);
    CAIRN_RETURN_IF_ERROR(Check(0, {}, /*write=*/false));
    return InfoOf(*inode_, state_->tree.links(*inode_));
  }

  absl::Status TryLock() override {
    const Begun begun = state_->Begin(FakeOp::kLock, path_);
    CAIRN_RETURN_IF_ERROR(begun.status);
    CAIRN_RETURN_IF_ERROR(Check(0, {}, /*write=*/false));
    if (lock_) return absl::OkStatus();
    if (!inode_->lock.expired()) return Aborted("lock {}: another process has it", path_);
    inode_->lock = lock_ = std::make_shared<bool>();
    return absl::OkStatus();
  }

  bool direct() const override { return direct_; }
  const std::string& path() const override { return path_; }

 private:
  absl::Status Check(std::uint64_t offset, std::span<const std::byte> bytes, bool write) const {
    if (power_cycle_ != state_->power_cycles) return Unavailable("{}: open since before the crash: stale", path_);
    if (write && !writable_) return InvalidArgument("{}: not open for writing", path_);
    if (offset > UINT64_MAX / 2 - bytes.size()) return InvalidArgument("{}: {} is beyond any file", path_, offset);
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    if (direct_ && (address | offset | bytes.size()) % kDirectAlignment != 0) {
      return InvalidArgument("{}: {} bytes at {} from address {:#x} are not aligned for direct I/O", path_,
                             bytes.size(), offset, address);
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<FakeDisk::State> state_;
  const FakeInodePtr inode_;
  const std::string path_;
  const bool writable_;
  const bool direct_;
  const std::uint64_t power_cycle_;
  std::shared_ptr<void> lock_;  // while it is held
};

FakeDisk::FakeDisk(FakeDiskOptions options)
    : syncs_at_once_(options.syncs_at_once), state_(std::make_shared<State>(options)) {}
FakeDisk::~FakeDisk() = default;

void FakeDisk::CrashAt(std::uint64_t n) {
  CAIRN_CHECK(n >= 1);
  const std::lock_guard lock(state_->mutex);
  state_->crash_at = state_->operations + n;
}

void FakeDisk::Restart(std::uint64_t seed) {
  const std::lock_guard lock(state_->mutex);
  state_->tree.Crash(seed);
  state_->crashed = false;
  state_->crash_at.reset();
  ++state_->power_cycles;
}

void FakeDisk::FailOn(FakeFault fault) {
  CAIRN_CHECK(fault.nth >= 1);
  CAIRN_CHECK(!fault.status.ok());
  const std::lock_guard lock(state_->mutex);
  state_->faults.push_back({std::move(fault)});
}

void FakeDisk::ClearFaults() {
  const std::lock_guard lock(state_->mutex);
  state_->faults.clear();
}

void FakeDisk::FlipBit(const std::string& path, std::uint64_t bit) {
  const std::lock_guard lock(state_->mutex);
  const auto place = state_->tree.Resolve(path, /*follow_last=*/false);
  CAIRN_CHECK(place.ok());
  CAIRN_CHECK(place->inode != nullptr);
  FakeInode& inode = *place->inode;
  CAIRN_CHECK(bit / 8 < inode.content.size());
  inode.content[bit / 8] = static_cast<char>(inode.content[bit / 8] ^ (1 << (bit % 8)));
  inode.Sync();
  inode.durable_content = inode.content;
}

void FakeDisk::SetCapacity(std::uint64_t bytes) {
  const std::lock_guard lock(state_->mutex);
  state_->options.capacity = bytes;
}

void FakeDisk::SetHook(Hook on_operation) {
  const std::lock_guard lock(state_->mutex);
  state_->hook = std::move(on_operation);
}

bool FakeDisk::crashed() const {
  const std::lock_guard lock(state_->mutex);
  return state_->crashed;
}

std::uint64_t FakeDisk::operations() const {
  const std::lock_guard lock(state_->mutex);
  return state_->operations;
}

void FakeDisk::SyncAll() {
  const std::lock_guard lock(state_->mutex);
  state_->tree.SyncAll();
}

void FakeDisk::Mount(const std::string& path) {
  const std::lock_guard lock(state_->mutex);
  const auto place = state_->tree.Resolve(path, /*follow_last=*/false);
  CAIRN_CHECK(place.ok());
  CAIRN_CHECK(place->inode != nullptr);
  place->inode->info.device += 1'000'000;
}

void FakeDisk::CopyTree(const std::string& from, const std::string& to) {
  const std::lock_guard lock(state_->mutex);
  const auto source = state_->tree.Resolve(from, /*follow_last=*/false);
  const auto target = state_->tree.Resolve(to, /*follow_last=*/false);
  CAIRN_CHECK(source.ok());
  CAIRN_CHECK(source->inode != nullptr);
  CAIRN_CHECK(target.ok());
  CAIRN_CHECK(target->inode == nullptr);
  state_->tree.Change({{target->parent, target->name, state_->tree.Copy(source->inode)}});
}

absl::StatusOr<std::unique_ptr<File>> FakeDisk::Open(const std::string& path, OpenOptions options) {
  const Begun begun = state_->Begin(FakeOp::kOpen, path);
  CAIRN_RETURN_IF_ERROR(begun.status);
  CAIRN_ASSIGN_OR_RETURN(FakeTree::Place place, state_->tree.Resolve(path, /*follow_last=*/false));
  if (place.inode == nullptr && !options.create) return NotFound("open {}: No such file or directory", path);
  if (place.inode == nullptr) {
    place.inode = state_->tree.NewInode(S_IFREG | (options.mode & 07777));
    state_->tree.Change({{place.parent, place.name, place.inode}});
  } else if (options.create && options.exclusive) {
    return AlreadyExists("open {}: File exists", path);
  } else if (!place.inode->info.is_regular()) {
    return InvalidArgument("open {}: not a regular file", path);
  } else if (options.create) {
    place.inode->Truncate(0);
    state_->tree.Touch(*place.inode);
  }
  const bool direct = options.direct && state_->options.direct;
  return std::make_unique<FakeFile>(state_, place.inode, path, options.writable, direct);
}

absl::StatusOr<HandedFile> FakeDisk::OpenForHanding(const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, Open(path, {}));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file->Info());
  std::string bytes(info.bytes, '\0');
  CAIRN_RETURN_IF_ERROR(file->ReadAt(0, std::as_writable_bytes(std::span(bytes))));
  UniqueFd fd(::memfd_create("handed", MFD_CLOEXEC));
  if (!fd.valid() || ::pwrite(fd.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return ResourceExhausted("{}: no memory for a copy", path);
  }
  return HandedFile{.fd = std::move(fd), .bytes = info.bytes, .memory_alignment = 512};
}

absl::Status FakeDisk::Rename(const std::string& from, const std::string& to) {
  const Begun begun = state_->Begin(FakeOp::kRename, from, to);
  CAIRN_RETURN_IF_ERROR(begun.status);
  return Move(*state_, from, to, /*replace=*/true);
}

absl::Status FakeDisk::RenameNew(const std::string& from, const std::string& to) {
  const Begun begun = state_->Begin(FakeOp::kRenameNew, from, to);
  CAIRN_RETURN_IF_ERROR(begun.status);
  if (!state_->options.renames_new) {
    return FailedPrecondition("rename {} to {}: this file system cannot without replacing", from, to);
  }
  return Move(*state_, from, to, /*replace=*/false);
}

absl::Status FakeDisk::Move(State& state, const std::string& from, const std::string& to, bool replace) {
  CAIRN_ASSIGN_OR_RETURN(const FakeTree::Place source, state.tree.Resolve(from, /*follow_last=*/false));
  CAIRN_ASSIGN_OR_RETURN(const FakeTree::Place target, state.tree.Resolve(to, /*follow_last=*/false));
  if (source.inode == nullptr) return NotFound("rename {} to {}: No such file or directory", from, to);
  if (target.inode != nullptr && !replace) return AlreadyExists("rename {} to {}: File exists", from, to);
  if (source.parent == nullptr || target.parent == nullptr) return Unavailable("rename {} to {}: busy", from, to);
  if (source.inode == target.inode) return absl::OkStatus();  // as POSIX has it: two links to one file stay both
  const bool directory = source.inode->info.is_directory();
  if (directory && FakeTree::IsWithin(target.parent, source.inode)) {
    return InvalidArgument("rename {} to {}: Invalid argument", from, to);
  }
  if (target.inode != nullptr) {
    const bool onto_directory = target.inode->info.is_directory();
    if (directory && !onto_directory) return NotFound("rename {} to {}: Not a directory", from, to);
    if (!directory && onto_directory) return InvalidArgument("rename {} to {}: Is a directory", from, to);
    if (!target.inode->entries.empty()) return AlreadyExists("rename {} to {}: Directory not empty", from, to);
  }
  state.tree.Change({{source.parent, source.name, nullptr}, {target.parent, target.name, source.inode}});
  state.tree.Renamed(*source.inode);
  return absl::OkStatus();
}

absl::Status FakeDisk::Link(const std::string& existing, const std::string& link) {
  const Begun begun = state_->Begin(FakeOp::kLink, link, existing);
  CAIRN_RETURN_IF_ERROR(begun.status);
  CAIRN_ASSIGN_OR_RETURN(const FakeTree::Place source, state_->tree.Resolve(existing, /*follow_last=*/false));
  CAIRN_ASSIGN_OR_RETURN(const FakeTree::Place target, state_->tree.Resolve(link, /*follow_last=*/false));
  if (source.inode == nullptr) return NotFound("link {} to {}: No such file or directory", link, existing);
  if (target.inode != nullptr) return AlreadyExists("link {} to {}: File exists", link, existing);
  if (source.inode->info.is_directory()) return PermissionDenied("link {} to {}: a directory", link, existing);
  if (!state_->options.links) {
    return FailedPrecondition("link {} to {}: this file system has no hard links", link, existing);
  }
  state_->tree.Change({{target.parent, target.name, source.inode}});
  return absl::OkStatus();
}

absl::Status FakeDisk::Clone(const std::string& from, const std::string& to) {
  const Begun begun = state_->Begin(FakeOp::kClone, from, to);
  CAIRN_RETURN_IF_ERROR(begun.status);
  CAIRN_ASSIGN_OR_RETURN(const FakeTree::Place source, state_->tree.Resolve(from, /*follow_last=*/false));
  CAIRN_ASSIGN_OR_RETURN(const FakeTree::Place target, state_->tree.Resolve(to, /*follow_last=*/false));
  if (source.inode == nullptr) return NotFound("clone {} to {}: No such file or directory", from, to);
  if (!source.inode->info.is_regular()) return InvalidArgument("clone {} to {}: not a regular file", from, to);
  if (target.inode != nullptr) return AlreadyExists("clone {} to {}: File exists", from, to);
  if (!state_->options.shares_extents) {
    return FailedPrecondition("clone {} to {}: this file system cannot share extents", from, to);
  }
  const FakeInodePtr inode = state_->tree.NewInode(S_IFREG | 0600);
  inode->Write(0, source.inode->content);
  state_->tree.Change({{target.parent, target.name, inode}});
  return absl::OkStatus();
}

absl::Status FakeDisk::Symlink(const std::string& target, const std::string& link) {
  const Begun begun = state_->Begin(FakeOp::kSymlink, link);
  CAIRN_RETURN_IF_ERROR(begun.status);
  CAIRN_ASSIGN_OR_RETURN(const FakeTree::Place place, state_->tree.Resolve(link, /*follow_last=*/false));
  if (place.inode != nullptr) return AlreadyExists("make symbolic link {}: File exists", link);
  const FakeInodePtr inode = state_->tree.NewInode(S_IFLNK | 0777);
  inode->target = target;
  state_->tree.Change({{place.parent, place.name, inode}});
  return absl::OkStatus();
}

absl::StatusOr<std::string> FakeDisk::ReadLink(const std::string& path) {
  const Begun begun = state_->Begin(FakeOp::kReadLink, path);
  CAIRN_RETURN_IF_ERROR(begun.status);
  CAIRN_ASSIGN_OR_RETURN(const FakeTree::Place place, state_->tree.Resolve(path, /*follow_last=*/false));
  if (place.inode == nullptr) return NotFound("read symbolic link {}: No such file or directory", path);
  if (!place.inode->info.is_symlink()) return InvalidArgument("read symbolic link {}: Invalid argument", path);
  return place.inode->target;
}

absl::StatusOr<std::string> FakeDisk::RealPath(const std::string& path) {
  const Begun begun = state_->Begin(FakeOp::kRealPath, path);
  CAIRN_RETURN_IF_ERROR(begun.status);
  return state_->tree.RealPath(path);
}

absl::Status FakeDisk::Remove(const std::string& path) {
  const Begun begun = state_->Begin(FakeOp::kRemove, path);
  CAIRN_RETURN_IF_ERROR(begun.status);
  CAIRN_ASSIGN_OR_RETURN(const FakeTree::Place place, state_->tree.Resolve(path, /*follow_last=*/false));
  if (place.inode == nullptr) return NotFound("remove {}: No such file or directory", path);
  if (place.parent == nullptr) return Unavailable("remove {}: busy", path);
  if (!place.inode->entries.empty()) return AlreadyExists("remove {}: Directory not empty", path);
  state_->tree.Change({{place.parent, place.name, nullptr}});
  return absl::OkStatus();
}

absl::Status FakeDisk::MakeDirectory(const std::string& path, std::uint32_t mode) {
  const Begun begun = state_->Begin(FakeOp::kMakeDirectory, path);
  CAIRN_RETURN_IF_ERROR(begun.status);
  CAIRN_ASSIGN_OR_RETURN(const FakeTree::Place place, state_->tree.Resolve(path, /*follow_last=*/false));
  if (place.inode != nullptr) return AlreadyExists("make directory {}: File exists", path);
  const FakeInodePtr made = state_->tree.NewInode(S_IFDIR | (mode & 07777));
  made->info.device = place.parent->info.device;
  state_->tree.Change({{place.parent, place.name, made}});
  return absl::OkStatus();
}

absl::Status FakeDisk::SyncDirectory(const std::string& path) {
  const Begun begun = state_->Begin(FakeOp::kSyncDirectory, path);
  CAIRN_RETURN_IF_ERROR(begun.status);
  CAIRN_ASSIGN_OR_RETURN(const FakeInodePtr directory, state_->tree.ResolveDirectory(path));
  state_->tree.SyncDirectory(directory);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> FakeDisk::List(const std::string& path) {
  const Begun begun = state_->Begin(FakeOp::kList, path);
  CAIRN_RETURN_IF_ERROR(begun.status);
  CAIRN_ASSIGN_OR_RETURN(const FakeInodePtr directory, state_->tree.ResolveDirectory(path));
  std::vector<std::string> names;
  for (const auto& [name, inode] : directory->entries) names.push_back(name);
  return names;
}

absl::StatusOr<FileInfo> FakeDisk::Info(const std::string& path) {
  const Begun begun = state_->Begin(FakeOp::kInfo, path);
  CAIRN_RETURN_IF_ERROR(begun.status);
  CAIRN_ASSIGN_OR_RETURN(const FakeTree::Place place, state_->tree.Resolve(path, /*follow_last=*/false));
  if (place.inode == nullptr) return NotFound("stat {}: No such file or directory", path);
  return InfoOf(*place.inode, state_->tree.links(*place.inode));
}

absl::Status FakeDisk::SetModeAndTimes(const std::string& path, std::uint32_t mode, timespec atime, timespec mtime) {
  const Begun begun = state_->Begin(FakeOp::kSetModeAndTimes, path);
  CAIRN_RETURN_IF_ERROR(begun.status);
  CAIRN_ASSIGN_OR_RETURN(const FakeTree::Place place, state_->tree.Resolve(path, /*follow_last=*/false));
  if (place.inode == nullptr) return NotFound("set mode of {}: No such file or directory", path);
  if (place.inode->info.is_symlink()) return InvalidArgument("set mode of {}: a symbolic link", path);
  state_->tree.Touch(*place.inode);
  FileInfo& info = place.inode->info;
  info.mode = (info.mode & S_IFMT) | (mode & 07777);
  info.atime = atime;
  info.mtime = mtime;
  return absl::OkStatus();
}

TransferShapes FakeDisk::shapes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->shapes;
}

void FakeDisk::UseShapes(const TransferShapes& shapes) {
  const std::lock_guard lock(state_->mutex);
  state_->shapes = shapes;
}

absl::StatusOr<std::uint64_t> FakeDisk::FreeBytes(const std::string& path) {
  const Begun begun = state_->Begin(FakeOp::kFreeBytes, path);
  CAIRN_RETURN_IF_ERROR(begun.status);
  CAIRN_ASSIGN_OR_RETURN(const FakeTree::Place place, state_->tree.Resolve(path, /*follow_last=*/true));
  if (place.inode == nullptr) return NotFound("free bytes of {}: No such file or directory", path);
  return state_->Room(state_->options.capacity);
}

absl::StatusOr<std::uint64_t> FakeDisk::FileSystemType(const std::string& path) {
  const Begun begun = state_->Begin(FakeOp::kFileSystemType, path);
  CAIRN_RETURN_IF_ERROR(begun.status);
  CAIRN_ASSIGN_OR_RETURN(const FakeTree::Place place, state_->tree.Resolve(path, /*follow_last=*/true));
  if (place.inode == nullptr) return NotFound("file system of {}: No such file or directory", path);
  return state_->options.file_system;
}

}  // namespace cairn
