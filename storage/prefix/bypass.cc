#include "storage/prefix/bypass.h"

#include <map>
#include <mutex>
#include <set>
#include <string>

#include "storage/base/status.h"
#include "storage/cache/catalogue.h"
#include "storage/prefix/place.h"

namespace cairn {
namespace {

constexpr std::uint32_t kFolderMode = 0777;  // less the umask, as SCR's

std::string DataFolder(const Prefix& prefix, DatasetId id) {
  return prefix.FilePath(fmt::format("ckpt.{}", id));
}

class BypassOnDisk final : public Bypass {
 public:
  BypassOnDisk(Disk& disk, std::shared_ptr<Prefix> prefix) : disk_(disk), prefix_(std::move(prefix)) {}

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
    const std::lock_guard lock(mutex_);
    return std::exchange(withdrawn_, {});
  }

 private:
  using Replaced = std::map<DatasetId, std::vector<catalogue::Catalogue>>;
  // A dataset between Begin and Complete.
  struct Open {
    scr::Descriptor descriptor;
    std::set<std::string> routed;
    std::set<Rank> committing;
    std::map<Rank, catalogue::Catalogue> committed;
    Replaced replaced;  // by its files
  };

  absl::StatusOr<bool> FirstRoute(DatasetId id, const std::string& name);
  absl::Status MakeWay(DatasetId id, const std::string& name);
  // Marks the rank as being committed, checks its files, stores its catalogue.
  absl::Status Enter(const catalogue::Catalogue& catalogue);
  absl::Status CheckAndStore(const catalogue::Catalogue& catalogue);
  absl::Status MayCommit(const catalogue::Catalogue& catalogue);
  void RemoveReplaced(const Replaced& replaced);

  Disk& disk_;
  const std::shared_ptr<Prefix> prefix_;
  std::mutex mutex_;
  std::map<DatasetId, Open> open_;  // under mutex_
  std::vector<std::pair<DatasetId, DatasetId>> withdrawn_;
};

absl::Status BypassOnDisk::Begin(const scr::Descriptor& descriptor) {
  const DatasetId id = descriptor.id;
  if (id == 0 || descriptor.name.empty() || !descriptor.launch || descriptor.ranks.value_or(0) == 0) {
    return InvalidArgument("dataset {} named \"{}\": a number, a name, a launch and ranks are needed", id,
                           descriptor.name);
  }
  CAIRN_RETURN_IF_ERROR(prefix_->BeginFlush(descriptor));
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk_, DataFolder(*prefix_, id), kFolderMode));
  const std::lock_guard lock(mutex_);
  const auto [at, first] = open_.try_emplace(id);
  if (!first) return AlreadyExists("{}: dataset {} was begun before", prefix_->path(), id);
  at->second.descriptor = descriptor;
  return absl::OkStatus();
}

absl::Status BypassOnDisk::MayCommit(const catalogue::Catalogue& catalogue) {
  CAIRN_RETURN_IF_ERROR(ValidateCatalogue(catalogue));
  const std::lock_guard lock(mutex_);
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
    const std::string path = prefix_->FilePath(file.prefix_name());
    const auto info = disk_.Info(path);
    if (absl::IsNotFound(info.status())) return FailedPrecondition("{}: missing", path);
    if (!info.ok()) return info.status();
    if (!info->is_regular() || info->bytes != file.bytes()) {
      return FailedPrecondition("{}: not a file of {} bytes", path, file.bytes());
    }
    folders.insert(ParentOf(path));
  }
  for (const std::string& folder : folders) CAIRN_RETURN_IF_ERROR(disk_.SyncDirectory(folder));
  return prefix_->StoreCatalogue(catalogue);
}

absl::Status BypassOnDisk::Enter(const catalogue::Catalogue& catalogue) {
  const absl::Status stored = CheckAndStore(catalogue);
  const std::lock_guard lock(mutex_);
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

absl::Status BypassOnDisk::Complete(const scr::Descriptor& descriptor) {
  std::vector<catalogue::Catalogue> catalogues;
  {
    const std::lock_guard lock(mutex_);
    const auto open = open_.find(descriptor.id);
    if (open == open_.end()) return FailedPrecondition("dataset {} is not open", descriptor.id);
    const std::map<Rank, catalogue::Catalogue>& committed = open->second.committed;
    if (committed.size() != open->second.descriptor.ranks || open->second.descriptor.ranks != descriptor.ranks) {
      return FailedPrecondition("dataset {}: {} of {} ranks are committed", descriptor.id, committed.size(),
                                open->second.descriptor.ranks.value_or(0));
    }
    for (const auto& [rank, catalogue] : committed) catalogues.push_back(catalogue);
  }
  const absl::Status committed = prefix_->Commit(descriptor, catalogues);
  if (!committed.ok() && !absl::IsAlreadyExists(committed)) return committed;
  Replaced replaced;
  {
    const std::lock_guard lock(mutex_);
    if (auto open = open_.extract(descriptor.id)) replaced = std::move(open.mapped().replaced);
  }
  RemoveReplaced(replaced);
  return absl::OkStatus();
}

// Withdrawn before; what is left of them that nobody else names.
void BypassOnDisk::RemoveReplaced(const Replaced& replaced) {
  for (const auto& [id, catalogues] : replaced) {
    if (catalogues.empty()) continue;  // SCR's own
    prefix_->Remove(id, catalogues).IgnoreError();  // nobody restores it; the next removal may find it
  }
}

absl::Status BypassOnDisk::Remove(DatasetId id) {
  Open open;
  {
    const std::lock_guard lock(mutex_);
    if (auto found = open_.extract(id)) open = std::move(found.mapped());
  }
  std::vector<catalogue::Catalogue> catalogues;
  catalogue::Catalogue rest;  // routed, and perhaps written
  rest.set_run(prefix_->run().Hex());
  rest.set_launch(open.descriptor.launch.value_or(0));
  rest.set_dataset(id);
  rest.set_nranks(std::max<std::uint32_t>(1, open.descriptor.ranks.value_or(1)));
  rest.set_files(true);
  for (const std::string& name : open.routed) {
    catalogue::FileEntry& file = *rest.add_file();
    file.set_name(name);
    file.set_prefix_name(name);
  }
  if (rest.file_size() > 0) catalogues.push_back(std::move(rest));
  CAIRN_RETURN_IF_ERROR(prefix_->Remove(id, catalogues));
  RemoveReplaced(open.replaced);
  return absl::OkStatus();
}

absl::StatusOr<bool> BypassOnDisk::FirstRoute(DatasetId id, const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto open = open_.find(id);
  if (open == open_.end()) return NotFound("{}: dataset {} is not open", prefix_->path(), id);
  return !open->second.routed.contains(name);
}

// What lies under the name goes, as a flush would replace it: the application shall find no file there that is not its
// own.
absl::Status BypassOnDisk::MakeWay(DatasetId id, const std::string& name) {
  const std::string path = prefix_->FilePath(name);
  const auto info = disk_.Info(path);
  if (!info.ok()) return absl::IsNotFound(info.status()) ? absl::OkStatus() : info.status();
  CAIRN_ASSIGN_OR_RETURN(Replaced replaced, prefix_->Withdraw(id, {name}));
  {
    const std::lock_guard lock(mutex_);
    const auto open = open_.find(id);
    for (const auto& [older, catalogues] : replaced) withdrawn_.emplace_back(older, id);
    if (open != open_.end()) open->second.replaced.merge(replaced);
  }
  const absl::Status removed = disk_.Remove(path);
  return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
}

absl::StatusOr<std::string> BypassOnDisk::RouteFile(DatasetId id, const std::string& name) {
  CAIRN_ASSIGN_OR_RETURN(const std::string normal, NormalizeFileName("", name));
  const std::string path = prefix_->FilePath(normal);
  CAIRN_ASSIGN_OR_RETURN(const bool first, FirstRoute(id, normal));
  if (!first) return path;
  CAIRN_RETURN_IF_ERROR(CheckPlace(disk_, prefix_->path(), normal));
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk_, ParentOf(path), kFolderMode));
  CAIRN_RETURN_IF_ERROR(MakeWay(id, normal));
  const std::lock_guard lock(mutex_);
  const auto open = open_.find(id);
  if (open == open_.end()) return NotFound("{}: dataset {} is not open", prefix_->path(), id);
  open->second.routed.insert(normal);
  return path;
}

}  // namespace

std::unique_ptr<Bypass> Bypass::Make(Disk& disk, std::shared_ptr<Prefix> prefix) {
  return std::make_unique<BypassOnDisk>(disk, std::move(prefix));
}

absl::Status RemoveUnfinished(Disk& disk, Prefix& prefix, DatasetId id) {
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
  return prefix.Remove(id, catalogues);
}

}  // namespace cairn
