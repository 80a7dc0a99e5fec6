#include "storage/place/prefix/halt_file.h"

#include "storage/base/path.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "storage/base/clock.h"
#include "storage/base/modes.h"
#include "storage/base/status.h"
#include "storage/format/kvtree/tree.h"

namespace cairn {
namespace {

constexpr std::chrono::milliseconds kPoll{5};
constexpr std::chrono::milliseconds kReaderPatience{250};
constexpr int kOpensMax = 100;  // of a file that others remove and make again meanwhile

std::string HaltPath(const std::string& prefix) {
  return prefix + "/.scr/halt.scr";
}

absl::Status Lock(File& file, std::chrono::milliseconds patience) {
  const auto deadline = SteadyNow() + patience;
  while (true) {
    const absl::Status locked = file.TryLock();
    if (!absl::IsAborted(locked)) return locked;
    if (SteadyNow() >= deadline) return Unavailable("{}", MessageOf(locked));
    SleepFor(kPoll);
  }
}

// Empty files are empty trees: whoever opens this one in order to lock it makes it.
absl::StatusOr<kvtree::Tree> ReadOpened(File& file) {
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file.Info());
  if (info.bytes == 0) return kvtree::Tree();
  if (info.bytes > kvtree::kFileBytesMax) return DataLoss("{}: {} bytes are no halt file", file.path(), info.bytes);
  std::string text(info.bytes, '\0');
  CAIRN_RETURN_IF_ERROR(file.ReadAt(0, std::as_writable_bytes(std::span(text))));
  return kvtree::Decode(file.path(), text);
}

absl::StatusOr<scr::Halt> GetHaltOf(const File& file, const kvtree::Tree& tree) {
  auto halt = scr::GetHalt(tree);
  if (!halt.ok()) return Annotate(halt.status(), file.path());
  return halt;
}

// The file as the path has it, under its lock; made if need be, or kNotFound.
absl::StatusOr<std::unique_ptr<File>> OpenLocked(Disk& disk, const std::string& path,
                                                 std::chrono::milliseconds patience, bool make) {
  for (int i = 0; i < kOpensMax; ++i) {
    auto file = disk.Open(path, {.writable = true});
    if (absl::IsNotFound(file.status()) && make) {
      // Exclusive: otherwise what another has just written would be cut off.
      file = disk.Open(path, {.writable = true, .create = true, .exclusive = true, .mode = kPrefixFileMode});
      if (absl::IsAlreadyExists(file.status())) continue;
      if (file.ok()) CAIRN_RETURN_IF_ERROR(disk.SyncDirectory(ParentOf(path)));
    }
    if (!file.ok()) return file.status();
    CAIRN_RETURN_IF_ERROR(Lock(**file, patience));
    CAIRN_ASSIGN_OR_RETURN(const FileInfo locked, (*file)->Info());
    const auto named = disk.Info(path);
    if (named.ok() && named->inode == locked.inode && named->device == locked.device) return file;
    if (!named.ok() && !absl::IsNotFound(named.status())) return named.status();
  }
  return Unavailable("{}: is removed again and again", path);
}

// Over what is there, and only then cut: whatever a crash leaves of it, the file never looks empty, which would mean
// that nothing was asked for, and its CRC tells a mixture.
absl::Status WriteOpened(File& file, const kvtree::Tree& tree) {
  CAIRN_RETURN_IF_ERROR(kvtree::Encodable(tree));
  const std::string text = kvtree::Encode(tree);
  CAIRN_RETURN_IF_ERROR(file.WriteAt(0, std::as_bytes(std::span(text))));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file.Info());
  if (info.bytes > text.size()) CAIRN_RETURN_IF_ERROR(file.Truncate(text.size()));
  return file.Sync();
}

}  // namespace

absl::StatusOr<scr::Halt> ReadHalt(Disk& disk, const std::string& prefix) {
  const auto file = disk.Open(HaltPath(prefix), {});
  if (absl::IsNotFound(file.status())) return scr::Halt();
  if (!file.ok()) return file.status();
  auto tree = ReadOpened(**file);
  // Another may be writing just now: SCR cuts the file first, and neither writes it at once. Under the lock it is
  // whole.
  if ((tree.ok() && tree->empty()) || absl::IsDataLoss(tree.status())) {
    if (Lock(**file, kReaderPatience).ok()) tree = ReadOpened(**file);
  }
  if (!tree.ok()) return tree.status();
  return GetHaltOf(**file, *tree);
}

absl::Status ChangeHalt(Disk& disk, const std::string& prefix, const std::function<void(scr::Halt&)>& change,
                        std::chrono::milliseconds patience) {
  const std::string path = HaltPath(prefix);
  const absl::Status made = disk.MakeDirectory(ParentOf(path), kPrefixFolderMode);
  if (made.ok()) CAIRN_RETURN_IF_ERROR(disk.SyncDirectory(prefix));
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, OpenLocked(disk, path, patience, /*make=*/true));
  auto tree = ReadOpened(*file);
  if (!tree.ok() && !absl::IsDataLoss(tree.status())) return tree.status();
  bool damaged = !tree.ok();
  scr::Halt halt;
  if (!damaged) {
    auto found = scr::GetHalt(*tree);
    damaged = !found.ok();
    if (found.ok()) halt = *std::move(found);
  }
  kvtree::Tree after = damaged ? kvtree::Tree() : *tree;
  change(halt);
  scr::PutHalt(halt, after);
  if (!damaged && after.SameAs(*tree)) return absl::OkStatus();
  return WriteOpened(*file, after);
}

absl::Status RemoveHalt(Disk& disk, const std::string& prefix, std::chrono::milliseconds patience) {
  const std::string path = HaltPath(prefix);
  // Who changes it at this moment would write into a file that is gone.
  const auto file = OpenLocked(disk, path, patience, /*make=*/false);
  if (absl::IsNotFound(file.status())) return absl::OkStatus();
  if (!file.ok()) return file.status();
  const absl::Status removed = disk.Remove(path);
  if (absl::IsNotFound(removed)) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(removed);
  return disk.SyncDirectory(ParentOf(path));
}

}  // namespace cairn
