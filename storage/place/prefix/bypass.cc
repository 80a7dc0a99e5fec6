#include "storage/place/prefix/bypass.h"

#include "storage/base/path.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <map>
#include <set>
#include <string>

#include "storage/base/status.h"
#include "storage/file/transfer/transfer.h"
#include "storage/file/transfer/work_file.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/place/prefix/place.h"

namespace cairn {
namespace {

constexpr std::uint32_t kFolderMode = 0777;  // less the umask, as SCR's

std::string DataFolder(const Prefix& prefix, DatasetId id) {
  return prefix.FilePath(fmt::format("ckpt.{}", id));
}

// The application's own files, until the dataset is complete.
std::string FilesFolder(const Prefix& prefix, DatasetId id) {
  return DataFolder(prefix, id) + "/files";
}

// After Prefix::Remove, which takes everything else.
absl::Status RemoveFilesFolder(Disk& disk, const Prefix& prefix, DatasetId id) {
  CAIRN_RETURN_IF_ERROR(RemoveTree(disk, FilesFolder(prefix, id)));
  const absl::Status removed = disk.Remove(DataFolder(prefix, id));
  // Not empty: what is in it is not ours.
  return absl::IsNotFound(removed) || absl::IsAlreadyExists(removed) ? absl::OkStatus() : removed;
}

class BypassOnDisk final : public Bypass {
 public:
  BypassOnDisk(Disk& disk, std::shared_ptr<Prefix> prefix, bool views)
      : disk_(disk), prefix_(std::move(prefix)), views_(views) {}

  Disk& disk() override { return disk_; }
  absl::Status Begin(const scr::Descriptor& descriptor) override;
  absl::Status CommitRank(const catalogue::Catalogue& catalogue, const std::string& work_path) override;
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

 private:
  using Replaced = std::map<DatasetId, std::vector<catalogue::Catalogue>>;
  // A dataset between Begin and Complete.
  struct Open {
    scr::Descriptor descriptor;
    std::set<Rank> committing;
    std::map<Rank, catalogue::Catalogue> committed;
    bool placed = false;  // its files may be under their own names
    Replaced replaced;    // by its files
  };
  using Catalogues = std::vector<catalogue::Catalogue>;

  bool IsOpen(DatasetId id);
  absl::Status RequireOwn();  // for what no call of the prefix checks
  // Where a file is before the dataset is complete.
  std::string PathOf(const catalogue::Catalogue& catalogue, const catalogue::FileEntry& file) const {
    if (!catalogue.files()) return prefix_->FilePath(file.prefix_name());
    return FilesFolder(*prefix_, catalogue.dataset()) + "/" + file.name();
  }
  // Of a rank that is marked as being committed: checks its files, stores its catalogue.
  absl::Status Enter(const catalogue::Catalogue& catalogue);
  absl::Status CheckAndStore(const catalogue::Catalogue& catalogue);
  absl::Status MayCommit(const catalogue::Catalogue& catalogue);
  absl::StatusOr<Catalogues> AllCommitted(const scr::Descriptor& descriptor);
  absl::Status PutFilesInPlace(DatasetId id, const Catalogues& catalogues);
  absl::StatusOr<std::set<std::string>> NamesInTheWay(const std::vector<CopiedFile>& files) const;
  void KeepPlaced(bool placed, catalogue::Catalogue* catalogue) const;
  void RemoveReplaced(const Replaced& replaced);

  Disk& disk_;
  const std::shared_ptr<Prefix> prefix_;
  const bool views_;
  absl::Mutex mutex_;
  std::map<DatasetId, Open> open_ ABSL_GUARDED_BY(mutex_);
  std::map<DatasetId, Open> failed_ ABSL_GUARDED_BY(mutex_);  // not removed yet
  std::vector<std::pair<DatasetId, DatasetId>> withdrawn_ ABSL_GUARDED_BY(mutex_);
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
  return MakeDirectories(disk_, DataFolder(*prefix_, id), kFolderMode);
}

absl::Status BypassOnDisk::RequireOwn() {
  CAIRN_ASSIGN_OR_RETURN(const RunId now, prefix_->CurrentRun());
  if (now == prefix_->run()) return absl::OkStatus();
  return FailedPrecondition("{}: the prefix is run {} now", prefix_->path(), now.Hex());
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
  if (catalogue.run() != prefix_->run().Hex() || catalogue.nranks() != descriptor.ranks ||
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
  const std::string name = CheckpointFileName(catalogue.dataset(), catalogue.rank());
  if (catalogue.file_size() == 1 &&
      catalogue.file(0).prefix_name() != fmt::format("ckpt.{}/{}", catalogue.dataset(), name)) {
    return InvalidArgument("dataset {}, rank {}: checkpoint file named {}", catalogue.dataset(), catalogue.rank(),
                           catalogue.file(0).prefix_name());
  }
  CAIRN_RETURN_IF_ERROR(MayCommit(catalogue));
  if (!work_path.empty()) {
    CAIRN_RETURN_IF_ERROR(RequireOwn());
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

absl::StatusOr<BypassOnDisk::Catalogues> BypassOnDisk::AllCommitted(const scr::Descriptor& descriptor) {
  const absl::MutexLock lock(&mutex_);
  const auto open = open_.find(descriptor.id);
  if (open == open_.end()) return FailedPrecondition("dataset {} is not open", descriptor.id);
  const std::map<Rank, catalogue::Catalogue>& committed = open->second.committed;
  if (committed.size() != open->second.descriptor.ranks || open->second.descriptor.ranks != descriptor.ranks) {
    return FailedPrecondition("dataset {}: {} of {} ranks are committed", descriptor.id, committed.size(),
                              open->second.descriptor.ranks.value_or(0));
  }
  Catalogues catalogues;
  for (const auto& [rank, catalogue] : committed) catalogues.push_back(catalogue);
  return catalogues;
}

absl::StatusOr<std::set<std::string>> BypassOnDisk::NamesInTheWay(const std::vector<CopiedFile>& files) const {
  std::set<std::string> names;
  for (const CopiedFile& file : files) {
    const auto info = disk_.Info(file.to);
    if (absl::IsNotFound(info.status())) continue;
    if (!info.ok()) return info.status();
    names.insert(file.to.substr(prefix_->path().size() + 1));
  }
  return names;
}

// As a flush does it: whatever entry says COMPLETE names its own bytes at every instant, so first those that give way
// are taken out.
absl::Status BypassOnDisk::PutFilesInPlace(DatasetId id, const Catalogues& catalogues) {
  std::vector<CopiedFile> files;
  for (const catalogue::Catalogue& catalogue : catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      CAIRN_RETURN_IF_ERROR(CheckPlace(disk_, prefix_->path(), file.prefix_name()));
      files.push_back({.work = PathOf(catalogue, file), .to = prefix_->FilePath(file.prefix_name()), .in_place = {}});
    }
  }
  std::set<std::string> folders;
  for (const CopiedFile& file : files) {
    const std::string folder = ParentOf(file.to);
    if (folders.insert(folder).second) CAIRN_RETURN_IF_ERROR(MakeDirectories(disk_, folder, kFolderMode));
  }
  CAIRN_ASSIGN_OR_RETURN(const std::set<std::string> names, NamesInTheWay(files));
  CAIRN_ASSIGN_OR_RETURN(Replaced replaced, prefix_->Withdraw(id, names));
  {
    const absl::MutexLock lock(&mutex_);
    const auto open = open_.find(id);
    for (const auto& [older, its] : replaced) withdrawn_.emplace_back(older, id);
    if (open == open_.end()) return FailedPrecondition("dataset {} was removed meanwhile", id);
    open->second.placed = true;
    open->second.replaced.merge(replaced);
  }
  CAIRN_RETURN_IF_ERROR(PutInPlace(disk_, files));
  RemoveTree(disk_, FilesFolder(*prefix_, id)).IgnoreError();  // empty folders, and what was not handed over
  return absl::OkStatus();
}

absl::Status BypassOnDisk::Complete(const scr::Descriptor& descriptor) {
  CAIRN_ASSIGN_OR_RETURN(const Catalogues catalogues, AllCommitted(descriptor));
  if (descriptor.own_files) CAIRN_RETURN_IF_ERROR(PutFilesInPlace(descriptor.id, catalogues));
  const absl::Status committed = prefix_->Commit(descriptor, catalogues);
  if (!committed.ok() && !absl::IsAlreadyExists(committed)) return committed;
  Replaced replaced;
  {
    const absl::MutexLock lock(&mutex_);
    if (auto open = open_.extract(descriptor.id)) replaced = std::move(open.mapped().replaced);
  }
  RemoveReplaced(replaced);
  if (views_) prefix_->MakeView(descriptor.id, catalogues);
  return absl::OkStatus();
}

// Withdrawn before; what is left of them that nobody else names.
void BypassOnDisk::RemoveReplaced(const Replaced& replaced) {
  for (const auto& [id, catalogues] : replaced) {
    if (catalogues.empty()) continue;               // SCR's own
    prefix_->Remove(id, catalogues).IgnoreError();  // nobody restores it; the next removal may find it
  }
}

// Under the names of files that have not come, others may be.
void BypassOnDisk::KeepPlaced(bool placed, catalogue::Catalogue* catalogue) const {
  google::protobuf::RepeatedPtrField<catalogue::FileEntry> files;
  for (const catalogue::FileEntry& file : catalogue->file()) {
    if (placed && absl::IsNotFound(disk_.Info(PathOf(*catalogue, file)).status())) *files.Add() = file;
  }
  catalogue->mutable_file()->Swap(&files);
}

absl::Status BypassOnDisk::Remove(DatasetId id) {
  Open open;
  {
    const absl::MutexLock lock(&mutex_);
    if (auto found = open_.extract(id)) failed_[id] = std::move(found.mapped());
    const auto failed = failed_.find(id);
    if (failed == failed_.end()) return absl::OkStatus();  // its Begin failed: what is there is not ours
    open = failed->second;
  }
  Catalogues catalogues;
  for (auto& [rank, catalogue] : open.committed) {
    if (catalogue.files()) KeepPlaced(open.placed, &catalogue);
    catalogues.push_back(std::move(catalogue));
  }
  CAIRN_RETURN_IF_ERROR(prefix_->Remove(id, catalogues));
  CAIRN_RETURN_IF_ERROR(RemoveFilesFolder(disk_, *prefix_, id));
  RemoveReplaced(open.replaced);
  const absl::MutexLock lock(&mutex_);
  failed_.erase(id);
  return absl::OkStatus();
}

absl::StatusOr<std::string> BypassOnDisk::RouteFile(DatasetId id, const std::string& name) {
  CAIRN_ASSIGN_OR_RETURN(const std::string normal, NormalizeFileName("", name));
  if (!IsOpen(id)) return NotFound("{}: dataset {} is not open", prefix_->path(), id);
  CAIRN_RETURN_IF_ERROR(RequireOwn());
  CAIRN_RETURN_IF_ERROR(CheckPlace(disk_, prefix_->path(), normal));
  std::string path = FilesFolder(*prefix_, id) + "/" + normal;
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk_, ParentOf(path), kFolderMode));
  return path;
}

}  // namespace

std::unique_ptr<Bypass> Bypass::Make(Disk& disk, std::shared_ptr<Prefix> prefix, bool views) {
  return std::make_unique<BypassOnDisk>(disk, std::move(prefix), views);
}

absl::Status RemoveUnfinished(Disk& disk, Prefix& prefix, DatasetId id,
                              const std::vector<catalogue::Catalogue>& known) {
  for (const catalogue::Catalogue& catalogue : known) {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      const std::uint64_t owner = catalogue.files() ? id : 0;
      const absl::Status removed = disk.Remove(TransferWorkName(prefix.FilePath(file.prefix_name()), file, owner));
      if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
    }
  }
  const std::string folder = DataFolder(prefix, id);
  const auto names = disk.List(folder);
  if (!names.ok() && !absl::IsNotFound(names.status())) return names.status();
  std::vector<catalogue::Catalogue> catalogues;
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    if (!name.starts_with("rank_") || !name.ends_with(".cat")) continue;
    const std::string path = folder + "/" + name;
    const auto text = ReadWhole(disk, path, kCatalogueBytesMax);
    if (!text.ok()) continue;
    auto catalogue = DecodeCatalogue(path, *text);
    if (!catalogue.ok() || catalogue->dataset() != id || catalogue->run() != prefix.run().Hex()) continue;
    catalogues.push_back(*std::move(catalogue));
  }
  CAIRN_RETURN_IF_ERROR(prefix.Remove(id, catalogues));
  return RemoveFilesFolder(disk, prefix, id);
}

}  // namespace cairn
