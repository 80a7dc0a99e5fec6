#include "storage/io/create_once.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "storage/base/path.h"
#include "storage/base/random.h"
#include "storage/base/status.h"
#include "storage/io/once_frame.h"

namespace cairn {
namespace {

constexpr int kTriesMax = 40;
constexpr int kRoundsAwaited = 6;                     // some 60 ms: a maker that is about to finish needs no more
constexpr std::uint64_t kRecordBytesMax = 256 << 20;  // larger ones are never taken for torn

using Names = std::vector<std::string>;

// Those who revoke each other must not do so in step: up to 1 ms, 2 ms, 4 ms …, by chance.
void Sleep(int round) {
  std::uint32_t random = 0;
  FillRandom(std::as_writable_bytes(std::span(&random, 1)));
  const std::uint32_t longest_us = 1000U << std::min(round, 9);
  std::this_thread::sleep_for(std::chrono::microseconds(longest_us / 2 + random % longest_us));
}

// --- Which way each file system takes ---

// Of file systems that cannot do the first one. A device's number may become another's: then the way may not be the
// best any more, but every file system can do the last one.
class KnownWays {
 public:
  CreationWay Of(std::uint64_t device) const {
    const absl::MutexLock lock(&mutex_);
    const auto known = ways_.find(device);
    return known == ways_.end() ? CreationWay::kHardLink : known->second;
  }
  // Then nobody needs to ask for the number of a device.
  bool empty() const {
    const absl::MutexLock lock(&mutex_);
    return ways_.empty();
  }
  void Learn(std::uint64_t device, CreationWay way) {
    const absl::MutexLock lock(&mutex_);
    ways_.erase(device);
    if (way != CreationWay::kHardLink) ways_.emplace(device, way);
  }

 private:
  mutable absl::Mutex mutex_;
  std::map<std::uint64_t, CreationWay> ways_ ABSL_GUARDED_BY(mutex_);
};

KnownWays& Ways() {
  static auto* const ways = new KnownWays;  // threads may still use it while the process ends
  return *ways;
}

CreationWay After(CreationWay way) {
  return way == CreationWay::kHardLink ? CreationWay::kRenameNew : CreationWay::kChecksummed;
}

absl::Status Publish(Disk& disk, const std::string& work, const std::string& path, CreationWay way) {
  return way == CreationWay::kHardLink ? disk.Link(work, path) : disk.RenameNew(work, path);
}

// --- What is under a name ---

enum class There { kNothing, kClaim, kRecord };

// Of an open file, so that all looks are at the same one, however the name is changed meanwhile.
absl::StatusOr<There> LookInto(File& file, bool framed) {
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file.Info());
  if (info.bytes == 0) return There::kClaim;
  if (!framed) return There::kRecord;
  std::string text(std::min<std::uint64_t>(info.bytes, kFrameBytes), '\0');
  CAIRN_RETURN_IF_ERROR(file.ReadAt(0, std::as_writable_bytes(std::span(text))));
  if (IsLeftover(text)) return There::kClaim;
  if (StateOfFrame(text) == FrameState::kPlain || info.bytes > kRecordBytesMax) return There::kRecord;
  text.resize(info.bytes);
  CAIRN_RETURN_IF_ERROR(file.ReadAt(0, std::as_writable_bytes(std::span(text))));
  return StateOfFrame(text) == FrameState::kIncomplete ? There::kClaim : There::kRecord;  // a damaged one was one
}

// What is not a regular file, or may not be read, is somebody's: it is no claim of ours.
absl::StatusOr<There> LookAt(Disk& disk, const std::string& path, bool framed) {
  const auto file = disk.Open(path, {});
  if (absl::IsNotFound(file.status())) return There::kNothing;
  if (absl::IsPermissionDenied(file.status()) || absl::IsInvalidArgument(file.status())) return There::kRecord;
  if (!file.ok()) return file.status();
  return LookInto(**file, framed);
}

// --- Making ---

enum class Outcome { kMade, kThere, kRevoked, kOtherWay };

// One try, with one work file.
class Attempt {
 public:
  Attempt(Disk& disk, const std::string& path, const CreateOnceOptions& options)
      : disk_(disk), path_(path), work_(OnceWorkName(path)), options_(options) {}

  absl::StatusOr<Outcome> Run(std::string_view bytes);

 private:
  absl::Status Write(std::string_view bytes);
  absl::StatusOr<Outcome> Make();
  absl::StatusOr<Outcome> Claim();
  absl::StatusOr<Outcome> Replace();
  absl::StatusOr<Outcome> FinishOthers();
  absl::StatusOr<Names> ListOthers();  // their work files
  absl::StatusOr<There> Await(bool* had_maker);
  absl::Status Revoke(const Names& others);
  absl::Status SyncNames() { return options_.durable ? disk_.SyncDirectory(ParentOf(path_)) : absl::OkStatus(); }
  // Whether the name is our file. NFS may answer that there is something, or that the work file is not, to an operation
  // that it did, when the first answer was lost. The file is open, or has its work name: its number is no other's.
  bool IsOurs() const;

  Disk& disk_;
  const std::string& path_;
  const std::string work_;
  const CreateOnceOptions& options_;
  CreationWay way_ = CreationWay::kHardLink;
  bool framed_ = false;  // as the work file has it
  std::unique_ptr<File> file_;
  bool claimed_ = false;  // there may be a claim that nothing but our work file tells from an empty file
};

absl::Status Attempt::Write(std::string_view bytes) {
  CAIRN_ASSIGN_OR_RETURN(
      file_, disk_.Open(work_, {.writable = true, .create = true, .exclusive = true, .mode = options_.mode}));
  if (options_.way) {
    way_ = *options_.way;
  } else if (!Ways().empty()) {
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file_->Info());
    way_ = Ways().Of(info.device);
  }
  framed_ = options_.framed && (way_ == CreationWay::kChecksummed || !options_.durable || !MayBePlain(bytes));
  const std::string frame = framed_ ? Frame(bytes, options_.durable) : std::string();
  const std::string_view all = framed_ ? frame : bytes;
  if (!all.empty()) CAIRN_RETURN_IF_ERROR(file_->WriteAt(0, std::as_bytes(std::span(all))));
  if (options_.durable) return file_->Sync();
  file_.reset();  // where nothing else does, closing it shows the bytes to other nodes
  if (way_ != CreationWay::kHardLink) {
    auto file = disk_.Open(work_, {});
    if (!file.ok() && !absl::IsNotFound(file.status())) return file.status();
    if (file.ok()) file_ = *std::move(file);  // else it has been revoked already, as the next operation finds
  }
  return absl::OkStatus();
}

bool Attempt::IsOurs() const {
  const auto named = disk_.Info(path_);
  const auto own = file_ != nullptr ? file_->Info() : disk_.Info(work_);
  return named.ok() && own.ok() && named->inode == own->inode && named->device == own->device;
}

absl::StatusOr<Outcome> Attempt::Run(std::string_view bytes) {
  const absl::Status written = Write(bytes);
  auto outcome = written.ok() ? Make() : absl::StatusOr<Outcome>(written);
  if (outcome.ok() || !claimed_) disk_.Remove(work_).IgnoreError();  // garbage from here on, or gone
  if (!outcome.ok() || (*outcome != Outcome::kMade && *outcome != Outcome::kThere)) return outcome;
  // If another was first, its maker may not have come to this yet, but our caller will rely on the name.
  CAIRN_RETURN_IF_ERROR(SyncNames());
  return outcome;
}

absl::StatusOr<Outcome> Attempt::Make() {
  if (way_ == CreationWay::kChecksummed) return Claim();
  absl::Status made = Publish(disk_, work_, path_, way_);
  if (made.ok()) return Outcome::kMade;
  if (absl::IsFailedPrecondition(made) && !options_.way) {
    const auto info = file_ != nullptr ? file_->Info() : disk_.Info(work_);
    if (!info.ok()) return absl::IsNotFound(info.status()) ? Outcome::kRevoked : absl::StatusOr<Outcome>(info.status());
    Ways().Learn(info->device, After(way_));
    return Outcome::kOtherWay;
  }
  if (!absl::IsAlreadyExists(made) && !absl::IsNotFound(made)) return made;
  if (IsOurs()) return Outcome::kMade;
  return absl::IsNotFound(made) ? Outcome::kRevoked : FinishOthers();
}

absl::StatusOr<Outcome> Attempt::Claim() {
  // Before the claim is durable the work file is, by which it is known for one.
  CAIRN_RETURN_IF_ERROR(SyncNames());
  claimed_ = true;
  const auto claim = disk_.Open(path_, {.writable = true, .create = true, .exclusive = true, .mode = options_.mode});
  if (absl::IsAlreadyExists(claim.status())) return FinishOthers();
  if (!claim.ok()) return claim.status();
  return Replace();
}

absl::StatusOr<Outcome> Attempt::Replace() {
  const absl::Status renamed = disk_.Rename(work_, path_);
  if (renamed.ok()) return Outcome::kMade;
  if (!absl::IsNotFound(renamed)) return renamed;
  return IsOurs() ? Outcome::kMade : Outcome::kRevoked;
}

// There is something. If it is no record, it becomes ours.
absl::StatusOr<Outcome> Attempt::FinishOthers() {
  bool had_maker = false;
  CAIRN_ASSIGN_OR_RETURN(There there, Await(&had_maker));
  if (there == There::kClaim && (options_.framed || had_maker)) {
    claimed_ = true;
    CAIRN_RETURN_IF_ERROR(SyncNames());  // as in Claim: others' work files go now
    CAIRN_ASSIGN_OR_RETURN(const Names others, ListOthers());
    CAIRN_RETURN_IF_ERROR(Revoke(others));
    CAIRN_ASSIGN_OR_RETURN(there, LookAt(disk_, path_, options_.framed));
    if (there == There::kClaim) return Replace();
  }
  // Another program's empty file stays as it is; one of ours has no other use than to be a claim.
  return there == There::kNothing ? Outcome::kRevoked : Outcome::kThere;
}

// A maker that is not dead is about to finish, and has it harder if it is revoked.
absl::StatusOr<There> Attempt::Await(bool* had_maker) {
  for (int round = 0;; ++round) {
    CAIRN_ASSIGN_OR_RETURN(const There there, LookAt(disk_, path_, options_.framed));
    if (there != There::kClaim) return there;
    CAIRN_ASSIGN_OR_RETURN(const Names others, ListOthers());
    *had_maker = *had_maker || !others.empty();
    if (others.empty() || round == kRoundsAwaited) return LookAt(disk_, path_, options_.framed);
    options_.pause ? options_.pause(round) : Sleep(round);
  }
}

absl::StatusOr<Names> Attempt::ListOthers() {
  const std::string stem = OnceWorkStem(path_), own = BaseOf(work_);
  CAIRN_ASSIGN_OR_RETURN(Names names, disk_.List(ParentOf(path_)));
  std::erase_if(names, [&](const std::string& name) { return !name.starts_with(stem) || name == own; });
  return names;
}

absl::Status Attempt::Revoke(const Names& others) {
  for (const std::string& name : others) {
    const absl::Status removed = disk_.Remove(ParentOf(path_) + "/" + name);
    if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CreateFileOnce(Disk& disk, const std::string& path, std::string_view bytes,
                            const CreateOnceOptions& options) {
  for (int i = 0; i < kTriesMax; ++i) {
    CAIRN_ASSIGN_OR_RETURN(const Outcome outcome, Attempt(disk, path, options).Run(bytes));
    if (outcome == Outcome::kMade) return absl::OkStatus();
    if (outcome == Outcome::kThere) return AlreadyExists("{}: another has made it", path);
    if (outcome == Outcome::kRevoked) options.pause ? options.pause(i) : Sleep(i);
  }
  return Unavailable("{}: others were in the way {} times", path, kTriesMax);
}

absl::Status CreateFileOnce(Disk& disk, const std::string& path, std::string_view bytes, std::uint32_t mode) {
  return CreateFileOnce(disk, path, bytes, {.mode = mode});
}

absl::StatusOr<std::string> ReadOnce(Disk& disk, const std::string& path, std::uint64_t bytes_max) {
  CAIRN_ASSIGN_OR_RETURN(std::string text, ReadWhole(disk, path, bytes_max));
  if (MayBePlain(text)) return text;
  // Only a frame may hold these. It may have come since then; once it is there it stays.
  CAIRN_ASSIGN_OR_RETURN(const There there, LookAt(disk, path, /*framed=*/true));
  if (there != There::kRecord) return NotFound("{}: was never made completely", path);
  return ReadWhole(disk, path, bytes_max);
}

absl::StatusOr<CreationWay> ProbeCreation(Disk& disk, const std::string& directory) {
  const std::string work = WorkName(directory + "/cairn-probe"), path = WorkName(directory + "/cairn-probe");
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file,
                         disk.Open(work, {.writable = true, .create = true, .exclusive = true}));
  auto way = CreationWay::kHardLink;
  absl::Status made = Publish(disk, work, path, way);
  for (; absl::IsFailedPrecondition(made) && way != CreationWay::kChecksummed; way = After(way)) {
    const CreationWay next = After(way);
    made = next == CreationWay::kChecksummed ? absl::OkStatus() : Publish(disk, work, path, next);
  }
  for (const std::string& name : {work, path}) disk.Remove(name).IgnoreError();  // one of them is not there
  CAIRN_RETURN_IF_ERROR(made);
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file->Info());
  Ways().Learn(info.device, way);
  return way;
}

std::string_view NameOf(CreationWay way) {
  switch (way) {
    case CreationWay::kHardLink:
      return "hard links";
    case CreationWay::kRenameNew:
      return "renameat2";
    case CreationWay::kChecksummed:
      return "checksummed files";
  }
  return "";
}

}  // namespace cairn
