#include "storage/place/publish/bypass.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <map>
#include <set>
#include <string>

#include "storage/base/modes.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/transfer/transfer.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/place/names.h"
#include "storage/place/prefix/place.h"
#include "storage/place/publish/publish.h"
#include "storage/place/publish/unfinished.h"

namespace cairn {
namespace {

std::string DataFolder(const Prefix& prefix, DatasetId id) {
  return prefix.FilePath(DatasetName(id));
}

// The application's own files, until the dataset is complete.
std::string FilesFolder(const Prefix& prefix, DatasetId id) {
  return prefix.FilePath(RoutedFolder(id));
}

class BypassOnDisk final : public Bypass {
 public:
  BypassOnDisk(Disk& disk, std::shared_ptr<Prefix> prefix, bool views)
      : disk_(disk), prefix_(std::move(prefix)), views_(views) {}

  Disk& disk() override { return disk_; }
  absl::Status Begin(const scr::Descriptor& descriptor) override;
  absl::Status CommitRank(const catalogue::Catalogue& catalogue, const std::string& work_path) override;
  absl::Status CommitRanks(std::span<const Part> parts) override {
    for (const Part& part : parts) CAIRN_RETURN_IF_ERROR(CommitRank(part.catalogue, part.work_path));
    return absl::OkStatus();
  }
  absl::Status CommitRankFiles(const catalogue::Catalogue& catalogue) override;
  absl::Status Complete(const scr::Descriptor& descriptor) override;
  absl::Status Remove(DatasetId id) override;
  std::string WorkPath(DatasetId id, Rank rank) const override {
    return WorkName(DataFolder(*prefix_, id) + "/" + CheckpointFileName(id, rank));
  }
  absl::StatusOr<std::string> RouteFile(DatasetId id, const std::string& name) override;
  std::vector<std::pair<DatasetId, DatasetId>> TakeWithdrawn() override {
    const absl::MutexLock lock(&mutex_);
    return std::exchange(withdrawn_, {});
  }
  std::vector<std::string> TakeWarnings() override {
    const absl::MutexLock lock(&mutex_);
    return std::exchange(warnings_, {});
  }

 private:
  // A dataset between Begin and Complete.
  struct Open {
    scr::Descriptor descriptor;
    std::set<Rank> committing;
    std::map<Rank, catalogue::Catalogue> committed;
    bool completing = false;
    bool placed = false;  // its files may be under their own names
    Withdrawn replaced;   // by its files, and not removed yet
  };
  using Catalogues = std::vector<catalogue::Catalogue>;

  bool IsOpen(DatasetId id);
  // Where a file is before the dataset is complete.
  std::string PathOf(const catalogue::Catalogue& catalogue, const catalogue::FileEntry& file) const {
    if (!catalogue.files()) return prefix_->FilePath(file.prefix_name());
    return FilesFolder(*prefix_, catalogue.dataset()) + "/" + file.name();
  }
  // Of a rank that is marked as being committed: checks its files, stores its catalogue.
  absl::Status Enter(const catalogue::Catalogue& catalogue);
  absl::Status CheckAndStore(const catalogue::Catalogue& catalogue);
  absl::Status MayCommit(const catalogue::Catalogue& catalogue);
  // Complete's beginning and its end.
  absl::StatusOr<Catalogues> BeginComplete(const scr::Descriptor& descriptor);
  void EndComplete(DatasetId id, bool committed, Published published);
  bool IsCompleting(DatasetId id) ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    const auto open = open_.find(id);
    return open != open_.end() && open->second.completing;
  }
  std::vector<CopiedFile> WaitingFiles(const Catalogues& catalogues) const;

  Disk& disk_;
  const std::shared_ptr<Prefix> prefix_;
  const bool views_;
  absl::Mutex mutex_;
  absl::CondVar completed_;  // one is no longer being completed
  std::map<DatasetId, Open> open_ ABSL_GUARDED_BY(mutex_);
  std::map<DatasetId, Open> failed_ ABSL_GUARDED_BY(mutex_);  // not removed yet
  std::vector<std::pair<DatasetId, DatasetId>> withdrawn_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> warnings_ ABSL_GUARDED_BY(mutex_);
};

absl::Status BypassOnDisk::Begin(const scr::Descriptor& descriptor) {
  const DatasetId id = descriptor.id;
  if (id == 0 || descriptor.name.empty() || !descriptor.launch || descriptor.ranks.value_or(0) == 0) {
    return InvalidArgument("dataset {} named \"{}\": a number, a name, a launch and ranks are needed", id,
                           descriptor.name);
  }
  if (IsOpen(id)) return AlreadyExists("{}: dataset {} was begun before", prefix_->path(), id);
  CAIRN_RETURN_IF_ERROR(prefix_->BeginFlush(descriptor));
  {
    const absl::MutexLock lock(&mutex_);  // from here on there is something to remove
    open_[id].descriptor = descriptor;
  }
  return MakeDirectories(disk_, DataFolder(*prefix_, id), kPrefixFolderMode);
}

bool BypassOnDisk::IsOpen(DatasetId id) {
  const absl::MutexLock lock(&mutex_);
  return open_.contains(id);
}

absl::Status BypassOnDisk::MayCommit(const catalogue::Catalogue& catalogue) {
  CAIRN_RETURN_IF_ERROR(ValidateCatalogue(catalogue));
  const absl::MutexLock lock(&mutex_);
  const auto open = open_.find(catalogue.dataset());
  if (open == open_.end()) return FailedPrecondition("dataset {} is not open", catalogue.dataset());
  const scr::Descriptor& descriptor = open->second.descriptor;
  if (!prefix_->identity().Includes(catalogue.run()) || catalogue.nranks() != descriptor.ranks ||
      catalogue.launch() != descriptor.launch || catalogue.files() != descriptor.own_files) {
    return InvalidArgument("dataset {}: a catalogue of run {}, launch {}, {} ranks", catalogue.dataset(),
                           catalogue.run(), catalogue.launch(), catalogue.nranks());
  }
  const Rank rank = catalogue.rank();
  if (open->second.committed.contains(rank) || !open->second.committing.insert(rank).second) {
    return AlreadyExists("dataset {}: rank {} was committed before", catalogue.dataset(), rank);
  }
  return absl::OkStatus();
}

absl::Status BypassOnDisk::CheckAndStore(const catalogue::Catalogue& catalogue) {
  std::set<std::string> folders = {DataFolder(*prefix_, catalogue.dataset())};
  for (const catalogue::FileEntry& file : catalogue.file()) {
    const std::string path = PathOf(catalogue, file);
    const auto info = disk_.Info(path);
    if (absl::IsNotFound(info.status())) return FailedPrecondition("{}: missing", path);
    if (!info.ok()) return info.status();
    if (!info->is_regular() || info->bytes != file.bytes()) {
      return FailedPrecondition("{}: not a file of {} bytes", path, file.bytes());
    }
    folders.insert(ParentOf(path));
  }
  // A catalogue says what is under the names in it: that of files comes when they are there.
  if (catalogue.files()) return absl::OkStatus();
  for (const std::string& folder : folders) CAIRN_RETURN_IF_ERROR(disk_.SyncDirectory(folder));
  return prefix_->StoreCatalogue(catalogue);
}

absl::Status BypassOnDisk::Enter(const catalogue::Catalogue& catalogue) {
  const absl::Status stored = CheckAndStore(catalogue);
  const absl::MutexLock lock(&mutex_);
  const auto open = open_.find(catalogue.dataset());
  if (open == open_.end()) return FailedPrecondition("dataset {} was removed meanwhile", catalogue.dataset());
  open->second.committing.erase(catalogue.rank());
  if (stored.ok()) open->second.committed[catalogue.rank()] = catalogue;
  return stored;
}

absl::Status BypassOnDisk::CommitRank(const catalogue::Catalogue& catalogue, const std::string& work_path) {
  if (catalogue.files() || (catalogue.file_size() == 1) != !work_path.empty()) {
    return InvalidArgument("dataset {}, rank {}: {} files in the catalogue, {} written", catalogue.dataset(),
                           catalogue.rank(), catalogue.file_size(), work_path.empty() ? 0 : 1);
  }
  if (catalogue.file_size() == 1 &&
      catalogue.file(0).prefix_name() != CheckpointPrefixName(catalogue.dataset(), catalogue.rank())) {
    return InvalidArgument("dataset {}, rank {}: checkpoint file named {}", catalogue.dataset(), catalogue.rank(),
                           catalogue.file(0).prefix_name());
  }
  CAIRN_RETURN_IF_ERROR(MayCommit(catalogue));
  if (!work_path.empty()) {
    CAIRN_RETURN_IF_ERROR(CheckStillOwn(*prefix_));
    CAIRN_RETURN_IF_ERROR(disk_.Rename(work_path, prefix_->FilePath(catalogue.file(0).prefix_name())));
  }
  return Enter(catalogue);
}

absl::Status BypassOnDisk::CommitRankFiles(const catalogue::Catalogue& catalogue) {
  if (!catalogue.files()) {
    return InvalidArgument("dataset {}, rank {}: not a catalogue of the application's files", catalogue.dataset(),
                           catalogue.rank());
  }
  CAIRN_RETURN_IF_ERROR(MayCommit(catalogue));
  return Enter(catalogue);
}

absl::StatusOr<BypassOnDisk::Catalogues> BypassOnDisk::BeginComplete(const scr::Descriptor& descriptor) {
  const absl::MutexLock lock(&mutex_);
  const auto found = open_.find(descriptor.id);
  if (found == open_.end()) return FailedPrecondition("dataset {} is not open", descriptor.id);
  Open& open = found->second;
  if (open.committed.size() != open.descriptor.ranks || open.descriptor.ranks != descriptor.ranks) {
    return FailedPrecondition("dataset {}: {} of {} ranks are committed", descriptor.id, open.committed.size(),
                              open.descriptor.ranks.value_or(0));
  }
  if (std::exchange(open.completing, true)) {
    return FailedPrecondition("dataset {} is being completed", descriptor.id);
  }
  Catalogues catalogues;
  for (const auto& [rank, catalogue] : open.committed) catalogues.push_back(catalogue);
  return catalogues;
}

void BypassOnDisk::EndComplete(DatasetId id, bool committed, Published published) {
  const absl::MutexLock lock(&mutex_);
  completed_.SignalAll();
  for (const auto& [older, its] : published.withdrawn) withdrawn_.emplace_back(older, id);
  for (std::string& warning : published.warnings) warnings_.push_back(std::move(warning));
  if (committed) {
    open_.erase(id);
    return;
  }
  Open& open = open_.at(id);  // Remove waits
  open.completing = false;
  open.placed |= published.placing;
  open.replaced.merge(published.withdrawn);
}

std::vector<CopiedFile> BypassOnDisk::WaitingFiles(const Catalogues& catalogues) const {
  std::vector<CopiedFile> files;
  for (const catalogue::Catalogue& catalogue : catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      files.push_back({.work = PathOf(catalogue, file), .to = prefix_->FilePath(file.prefix_name()), .in_place = {}});
    }
  }
  return files;
}

absl::Status BypassOnDisk::Complete(const scr::Descriptor& descriptor) {
  CAIRN_ASSIGN_OR_RETURN(const Catalogues catalogues, BeginComplete(descriptor));
  Publication what{.descriptor = descriptor, .catalogues = catalogues, .view = views_};
  // It is its own launch that puts it there; what release 0.1.0 had begun names none.
  if (!descriptor.mark.empty()) what.committer = descriptor.launch.value_or(0);
  if (descriptor.own_files) {
    what.files = WaitingFiles(catalogues);
    what.stage = FilesFolder(*prefix_, descriptor.id);  // empty folders by then, and what was not handed over
  } else {
    for (const catalogue::Catalogue& catalogue : catalogues) what.stored.insert(catalogue.rank());
  }
  Published published;
  absl::Status status = Publish(disk_, *prefix_, what, &published);
  if (!status.ok() && published.committed) {  // it must not be taken away: others have given way to it
    published.warnings.push_back(fmt::format("dataset {} is committed, its files come to their names later: {}",
                                             descriptor.id, MessageOf(status)));
    status = absl::OkStatus();
  }
  EndComplete(descriptor.id, status.ok(), std::move(published));
  return status;
}

absl::Status BypassOnDisk::Remove(DatasetId id) {
  Open open;
  {
    const absl::MutexLock lock(&mutex_);
    while (IsCompleting(id)) completed_.Wait(&mutex_);
    if (auto found = open_.extract(id)) failed_[id] = std::move(found.mapped());
    const auto failed = failed_.find(id);
    if (failed == failed_.end()) return absl::OkStatus();  // its Begin failed: what is there is not ours
    open = failed->second;
  }
  Leftovers leftovers{.known = {}, .placed = open.placed};
  for (auto& [rank, catalogue] : open.committed) leftovers.known.push_back(std::move(catalogue));
  CAIRN_RETURN_IF_ERROR(RemoveUnfinished(disk_, *prefix_, id, leftovers));
  std::vector<std::string> warnings;
  RemoveWithdrawn(*prefix_, open.replaced, &warnings);
  const absl::MutexLock lock(&mutex_);
  for (std::string& warning : warnings) warnings_.push_back(std::move(warning));
  failed_.erase(id);
  return absl::OkStatus();
}

absl::StatusOr<std::string> BypassOnDisk::RouteFile(DatasetId id, const std::string& name) {
  CAIRN_ASSIGN_OR_RETURN(const std::string normal, NormalizeFileName("", name));
  if (!IsOpen(id)) return NotFound("{}: dataset {} is not open", prefix_->path(), id);
  CAIRN_RETURN_IF_ERROR(CheckStillOwn(*prefix_));
  CAIRN_RETURN_IF_ERROR(CheckPlace(disk_, prefix_->path(), normal));
  std::string path = FilesFolder(*prefix_, id) + "/" + normal;
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk_, ParentOf(path), kPrefixFolderMode));
  return path;
}

}  // namespace

std::unique_ptr<Bypass> Bypass::Make(Disk& disk, std::shared_ptr<Prefix> prefix, bool views) {
  return std::make_unique<BypassOnDisk>(disk, std::move(prefix), views);
}

}  // namespace cairn
