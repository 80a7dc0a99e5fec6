#include "storage/job/drain/drain.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string_view>
#include <utility>

#include "storage/base/checksum.h"
#include "storage/base/clock.h"
#include "storage/base/host_name.h"
#include "storage/base/lock_file.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/job/drain/identity.h"
#include "storage/job/drain/pass.h"

namespace cairn {
namespace drain {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLockPatience(2000);  // a drain that was just killed may not be quite gone
constexpr int kWorkDepth = 1;                // a folder for each thread
constexpr milliseconds kBusyPause(500);      // before a file that was being written is looked at again

// One folder below the user's own in the target for each folder that is drained there, from each machine.
std::string KeyOf(const std::string& from) {
  const std::string what = HostName() + '\0' + from;
  return HexOf(Md5(std::as_bytes(std::span(what)))).substr(0, 16);
}

bool IsWithin(const std::string& path, const std::string& folder) {
  return path == folder || folder == "/" || path.starts_with(folder + "/");
}

absl::Status CheckFolder(Disk& disk, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk.Info(path));
  return info.is_directory() ? absl::OkStatus() : InvalidArgument("{}: not a folder", path);
}

// Is `folder`, or one above it, the other one? Names do not tell: one folder may be mounted twice.
absl::Status CheckNotWithin(Disk& disk, const std::string& folder, const std::string& other) {
  CAIRN_ASSIGN_OR_RETURN(const FileInfo refused, disk.Info(other));
  for (std::string path = folder;; path = ParentOf(path)) {
    const auto info = disk.Info(path);
    if (info.ok() && PlaceOf(*info) == PlaceOf(refused)) {
      return InvalidArgument("{} and {}: one is below the other, or the same: {} is {}", folder, other, path, other);
    }
    if (path == "/") return absl::OkStatus();
  }
}

class DrainImpl final : public Drain {
 public:
  DrainImpl(Disk& disk, const DrainOptions& options)
      : disk_(disk),
        options_(options),
        progress_(options.progress != nullptr ? *options.progress : own_progress_),
        throttle_(options.bytes_per_s, options.background),
        completeness_({.settle_ms = options.settle_ms, .marker = options.marker}) {}
  ~DrainImpl() override { progress_.open = false; }

  absl::Status Open() {
    CAIRN_RETURN_IF_ERROR(CheckFolder(disk_, options_.from));
    if (IsWithin(options_.from, options_.to) || IsWithin(options_.to, options_.from)) {
      return InvalidArgument("{} and {}: one is below the other", options_.from, options_.to);
    }
    CAIRN_ASSIGN_OR_RETURN(source_, OpenTree(options_.from));
    if (options_.wrap_source) source_ = options_.wrap_source(std::move(source_));
    completeness_.SetOurClock(source_->syncs_as_a_whole());  // it is one of this machine's own
    own_ = fmt::format("{}/{}", OwnFolder(), KeyOf(options_.from));
    CAIRN_RETURN_IF_ERROR(options_.dry_run ? OpenToLook() : OpenToWork());
    progress_.open = true;
    return absl::OkStatus();
  }

  absl::StatusOr<DrainReport> Pass(const std::atomic<bool>& stop) override {
    Ground ground{.disk = disk_,
                  .options = options_,
                  .source = *source_,
                  .target = target_.get(),
                  .journal = journal_.get(),
                  .workers = workers_.get(),
                  .buffers = buffers_.get(),
                  .completeness = completeness_,
                  .throttle = throttle_,
                  .progress = progress_,
                  .work_folder = own_ + "/work",
                  .works = works_};
    auto report = drain::Pass(ground, stop).Run();
    works_ = ground.works;
    return report;
  }

  std::optional<std::chrono::steady_clock::time_point> settles_at() const override {
    return completeness_.settles_at();
  }
  void Closed(const std::string& path) override {
    const auto info = source_->Info(path);
    if (info.ok() && info->is_regular() && TellsOfWriters(path)) completeness_.Closed(path, *info);
    if (absl::IsNotFound(info.status())) completeness_.ClosedAndGone(path);
  }
  void Moved(const std::string& from, const std::string& to) override {
    const auto info = source_->Info(to);
    if (info.ok() && info->is_regular() && TellsOfWriters(to)) completeness_.Moved(from, to, *info);
  }
  DrainProgress& progress() override { return progress_; }

 private:
  // One writer has closed it; are there others? Where that cannot be asked before it is copied, the news is worth
  // nothing. kSome is no reason: the one that closes it may not be quite gone, and the copy asks again.
  bool TellsOfWriters(const std::string& path) {
    const auto file = source_->Open(path);
    return file.ok() && (*file)->LookForWriters() != FileBelow::Writers::kUnknown;
  }

  absl::Status OpenToLook() {
    auto target = OpenTree(options_.to);
    if (absl::IsNotFound(target.status())) return absl::OkStatus();
    CAIRN_RETURN_IF_ERROR(target.status());
    CAIRN_RETURN_IF_ERROR(CheckApart());
    target_ = *std::move(target);
    CAIRN_ASSIGN_OR_RETURN(journal_, Journal::Look(*target_, own_));
    return absl::OkStatus();
  }

  absl::Status OpenToWork() {
    if (options_.make_target) CAIRN_RETURN_IF_ERROR(MakeTarget());
    CAIRN_RETURN_IF_ERROR(CheckFolder(disk_, options_.to));
    CAIRN_RETURN_IF_ERROR(CheckApart());
    CAIRN_ASSIGN_OR_RETURN(target_, OpenTree(options_.to, {.keep_folders = true}));
    if (options_.wrap_target) target_ = options_.wrap_target(std::move(target_));
    CAIRN_RETURN_IF_ERROR(MakeOwn(OwnFolder()));
    CAIRN_RETURN_IF_ERROR(MakeOwn(own_));
    CAIRN_ASSIGN_OR_RETURN(const auto file, target_->OpenToWrite(own_ + "/lock"));
    CAIRN_ASSIGN_OR_RETURN(LockFile lock, file->Lock(kLockPatience));
    lock_ = std::move(lock);
    CAIRN_RETURN_IF_ERROR(CheckLockNotInSource(*file));
    // What was never committed. Nobody else has the lock.
    CAIRN_RETURN_IF_ERROR(RemoveWork(own_ + "/work", kWorkDepth));
    CAIRN_RETURN_IF_ERROR(target_->MakeFolder(own_ + "/work"));
    const std::size_t threads = std::max<std::size_t>(options_.parallel, 1);
    for (std::size_t worker = 0; worker < threads; ++worker) {
      CAIRN_RETURN_IF_ERROR(target_->MakeFolder(fmt::format("{}/work/{}", own_, worker)));
    }
    CAIRN_ASSIGN_OR_RETURN(journal_, Journal::Open(*target_, own_));
    for (const std::string& folder : {own_, OwnFolder(), std::string()}) {
      CAIRN_RETURN_IF_ERROR(target_->SyncFolder(folder));
    }
    buffers_ = std::make_unique<Buffers>(threads + 1);
    workers_ = std::make_unique<Workers>(threads, options_.on_thread);
    return absl::OkStatus();
  }

  absl::Status CheckApart() {
    CAIRN_RETURN_IF_ERROR(CheckNotWithin(disk_, options_.to, options_.from));
    return CheckNotWithin(disk_, options_.from, options_.to);
  }

  // One folder may have two device numbers, by two addresses of a server, or two mounts of FUSE: is the file that was
  // locked just now in the source as well?
  absl::Status CheckLockNotInSource(FileBelow& lock) {
    CAIRN_ASSIGN_OR_RETURN(const FileInfo ours, lock.Info());
    const auto seen = source_->Info(own_ + "/lock");
    if (!seen.ok() || seen->inode != ours.inode) return absl::OkStatus();
    return InvalidArgument("{} and {} are one folder, by two mounts", options_.from, options_.to);
  }

  // In a target that others may write to, something of theirs may lie under the name.
  absl::Status MakeOwn(const std::string& folder) {
    const absl::Status made = target_->MakeFolder(folder);
    if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, target_->Info(folder));
    if (!info.is_directory()) return FailedPrecondition("{}/{}: not a folder", options_.to, folder);
    if (info.uid == ::geteuid()) return absl::OkStatus();
    return PermissionDenied("{}/{}: belongs to user {}", options_.to, folder, info.uid);
  }

  absl::Status RemoveWork(const std::string& folder, int depth) {
    const auto entries = target_->List(folder);
    if (absl::IsNotFound(entries.status())) return absl::OkStatus();
    CAIRN_RETURN_IF_ERROR(entries.status());
    for (const TreeEntry& entry : *entries) {
      const std::string path = folder + "/" + entry.name;
      const bool below = entry.info.is_directory() && depth > 0;
      CAIRN_RETURN_IF_ERROR(below ? RemoveWork(path, depth - 1) : target_->Remove(path));
    }
    return target_->Remove(folder);
  }

  absl::Status MakeTarget() {
    const absl::Status made = disk_.MakeDirectory(options_.to, 0777);
    if (absl::IsAlreadyExists(made)) return absl::OkStatus();
    CAIRN_RETURN_IF_ERROR(made);
    return disk_.SyncDirectory(ParentOf(options_.to));
  }

  Disk& disk_;
  const DrainOptions options_;
  DrainProgress own_progress_;
  DrainProgress& progress_;
  std::string own_;
  std::optional<LockFile> lock_;
  std::unique_ptr<Tree> source_, target_;
  std::unique_ptr<Journal> journal_;
  Throttle throttle_;
  Completeness completeness_;
  std::unique_ptr<Buffers> buffers_;
  std::unique_ptr<Workers> workers_;
  std::uint64_t works_ = 0;
};

// What is counted adds up; what is not done yet is so as of the last pass.
void Join(DrainReport& all, DrainReport&& pass) {
  pass.there_files = all.there_files;
  pass.there_bytes = all.there_bytes;
  for (const auto member :
       {&DrainReport::files, &DrainReport::bytes, &DrainReport::symlinks, &DrainReport::hard_links,
        &DrainReport::folders, &DrainReport::deleted, &DrainReport::former, &DrainReport::links_copied,
        &DrainReport::attributes_lost, &DrainReport::read_through_cache, &DrainReport::milliseconds}) {
    pass.*member += all.*member;
  }
  ToldList outward = std::move(all.outward);
  for (const Told& told : pass.outward.list()) outward.Add(told.path, told.why);
  all = std::move(pass);
  all.outward = std::move(outward);
}

}  // namespace
}  // namespace drain

absl::StatusOr<std::unique_ptr<Drain>> Drain::Open(Disk& disk, const DrainOptions& options) {
  auto drain = std::make_unique<drain::DrainImpl>(disk, options);
  CAIRN_RETURN_IF_ERROR(drain->Open());
  return drain;
}

absl::StatusOr<DrainReport> DrainOnce(Drain& drain, std::uint64_t wait_ms, const std::atomic<bool>& stop) {
  CAIRN_ASSIGN_OR_RETURN(DrainReport all, drain.Pass(stop));
  const auto end = SteadyNow() + drain::milliseconds(wait_ms);  // a first pass that takes long takes nothing of it
  for (;;) {
    const auto now = SteadyNow();
    const auto settles = drain.settles_at();
    if (all.stopped || (!settles && all.busy == 0)) return all;
    const auto next = settles ? std::max(*settles, now) : now + drain::kBusyPause;
    if (next > end) return all;
    drain.progress().waiting = true;
    while (!stop && SteadyNow() < next)
      SleepFor(std::min<std::chrono::nanoseconds>(next - SteadyNow(), drain::milliseconds(50)));
    drain.progress().waiting = false;
    CAIRN_ASSIGN_OR_RETURN(DrainReport pass, drain.Pass(stop));
    drain::Join(all, std::move(pass));
  }
}

}  // namespace cairn
