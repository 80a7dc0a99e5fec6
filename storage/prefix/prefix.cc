#include "storage/prefix/prefix.h"

#include <algorithm>
#include <utility>

#include "storage/base/status.h"
#include "storage/cache/catalogue.h"
#include "storage/cache/tree_file.h"
#include "storage/prefix/commit.h"
#include "storage/prefix/identity.h"
#include "storage/prefix/removal.h"
#include "storage/prefix/shared_records.h"

namespace cairn {
namespace {

constexpr std::uint32_t kFolderMode = 0777;  // less the umask, as SCR's

absl::Status RequireAbsolute(const std::string& path) {
  if (!path.starts_with('/')) return InvalidArgument("prefix \"{}\" is not absolute", path);
  return absl::OkStatus();
}

class PrefixOnDisk final : public Prefix {
 public:
  PrefixOnDisk(Disk& disk, std::string path, const RunId& run, bool writable)
      : disk_(disk), path_(std::move(path)), run_(run), writable_(writable), records_(disk, path_, run) {}

  const std::string& path() const override { return path_; }
  const RunId& run() const override { return run_; }
  absl::StatusOr<RunId> CurrentRun() override { return identity::ReadRun(disk_, path_); }

  absl::StatusOr<std::optional<LaunchRecord>> NewestLaunch() override { return identity::NewestLaunch(disk_, path_); }
  absl::StatusOr<LaunchRecord> FindLaunch(LaunchId id) override { return identity::FindLaunch(disk_, path_, id); }
  absl::StatusOr<LaunchRecord> MakeLaunch(std::string_view key, std::uint32_t nranks) override {
    CAIRN_RETURN_IF_ERROR(RequireWritable());
    return identity::MakeLaunch(disk_, path_, key, nranks);
  }

  absl::StatusOr<IdBlock> ReserveIds(DatasetId above) override {
    CAIRN_RETURN_IF_ERROR(RequireWritable());
    CAIRN_ASSIGN_OR_RETURN(const PrefixView view, records_.Look());
    for (const auto& [id, entry] : view.index.datasets) {
      if (id <= identity::kDatasetIdMax) above = std::max(above, id);
    }
    return identity::ReserveIds(disk_, path_, above);
  }

  absl::StatusOr<std::map<DatasetId, CommittedDataset>> Committed() override;
  absl::StatusOr<std::vector<catalogue::Catalogue>> Catalogues(DatasetId id) override {
    return ReadCatalogues(disk_, path_, records_, id);
  }

  std::string FilePath(const std::string& prefix_name) const override { return path_ + "/" + prefix_name; }
  std::string CataloguePath(DatasetId id, Rank rank) const override { return FilePath(CataloguePrefixName(id, rank)); }

  absl::Status StoreCatalogue(const catalogue::Catalogue& catalogue) override {
    CAIRN_RETURN_IF_ERROR(RequireWritable());
    CAIRN_RETURN_IF_ERROR(ValidateCatalogue(catalogue));
    return cairn::StoreCatalogue(disk_, path_, catalogue);
  }
  absl::Status Commit(const scr::Descriptor& descriptor, const std::vector<catalogue::Catalogue>& catalogues) override {
    CAIRN_RETURN_IF_ERROR(RequireWritable());
    return CommitDataset(disk_, path_, run_, records_, descriptor, catalogues);
  }
  absl::Status Remove(DatasetId id, const std::vector<catalogue::Catalogue>& catalogues) override {
    CAIRN_RETURN_IF_ERROR(RequireWritable());
    return RemoveDataset(disk_, path_, records_, id, catalogues);
  }
  absl::Status MarkFailed(DatasetId id) override;
  absl::Status PutFlush(DatasetId id, const scr::FlushEntry& entry) override {
    CAIRN_RETURN_IF_ERROR(RequireWritable());
    return records_.ChangeFlush([&](kvtree::Tree& flush) {
      scr::PutFlushEntry(id, entry, flush);
      return absl::OkStatus();
    });
  }
  absl::Status EraseFlush(DatasetId id) override {
    CAIRN_RETURN_IF_ERROR(RequireWritable());
    return records_.ChangeFlush([id](kvtree::Tree& flush) {
      scr::EraseFlushEntry(id, flush);
      return absl::OkStatus();
    });
  }
  std::vector<std::string> TakeWarnings() override { return records_.TakeWarnings(); }

 private:
  absl::Status RequireWritable() const {
    if (writable_) return absl::OkStatus();
    return PermissionDenied("{}: opened for reading only", path_);
  }
  bool SummaryIsComplete(DatasetId id);
  // Takes what was removed out of the index, if another's change has brought it back.
  absl::Status ForgetRemoved(const PrefixView& view);

  Disk& disk_;
  const std::string path_;
  const RunId run_;
  const bool writable_;
  SharedRecords records_;
};

// SCR specification, 9.1: VERSION, COMPLETE and the descriptor all count.
bool PrefixOnDisk::SummaryIsComplete(DatasetId id) {
  const std::string path = records_.DatasetFolder(id) + "/summary.scr";
  const auto tree = ReadTree(disk_, path);
  if (!tree.ok()) return false;
  const auto complete = tree->GetBool("COMPLETE");
  const auto descriptor = scr::GetSummary(*tree);
  return complete.ok() && *complete && descriptor.ok() && (descriptor->id == id || descriptor->id == 0);
}

absl::Status PrefixOnDisk::ForgetRemoved(const PrefixView& view) {
  std::vector<DatasetId> removed;
  for (const auto& [id, entry] : view.index.datasets) {
    if (!entry.descriptor.launch || view.commits.contains(id)) continue;
    CAIRN_ASSIGN_OR_RETURN(const bool gone, records_.IsRemoved(id));
    if (gone) removed.push_back(id);
  }
  if (removed.empty()) return absl::OkStatus();
  return records_.ChangeIndex([&](kvtree::Tree& index) {
    for (const DatasetId id : removed) SharedRecords::Forget(id, index);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::map<DatasetId, CommittedDataset>> PrefixOnDisk::Committed() {
  if (writable_) {  // what crashes left between two records
    CAIRN_RETURN_IF_ERROR(records_.Mend());
    CAIRN_RETURN_IF_ERROR(FinishRemovals(disk_, path_, records_));
  }
  CAIRN_ASSIGN_OR_RETURN(const PrefixView view, records_.Look());
  if (writable_) CAIRN_RETURN_IF_ERROR(ForgetRemoved(view));
  std::map<DatasetId, CommittedDataset> committed;
  for (const auto& [id, entry] : view.index.datasets) {
    if (!entry.complete || !entry.failed.empty() || id == 0) continue;
    const bool current = !view.index.current.empty() && entry.descriptor.name == view.index.current;
    if (entry.descriptor.launch) {
      const auto commit = view.commits.find(id);
      if (commit == view.commits.end()) continue;
      committed[id] = {.descriptor = commit->second.descriptor, .current = current, .by_cairn = true};
    } else if (SummaryIsComplete(id)) {
      committed[id] = {.descriptor = entry.descriptor, .current = current, .by_cairn = false};
    }
  }
  // Committed, and not merged yet by one that may: a reader, or another node's crash a moment ago.
  for (const auto& [id, commit] : view.commits) {
    if (view.index.datasets.contains(id) || IsMerged(id, view.tree)) continue;
    committed[id] = {.descriptor = commit.descriptor, .current = false, .by_cairn = true};
  }
  return committed;
}

absl::Status PrefixOnDisk::MarkFailed(DatasetId id) {
  CAIRN_RETURN_IF_ERROR(RequireWritable());
  return records_.ChangeIndex([&](kvtree::Tree& tree) -> absl::Status {
    if (tree.empty()) return NotFound("{}: no dataset {} in the index", path_, id);
    CAIRN_ASSIGN_OR_RETURN(const scr::Index index, scr::GetIndex(tree));
    const auto found = index.datasets.find(id);
    if (found == index.datasets.end()) return NotFound("{}: no dataset {} in the index", path_, id);
    scr::IndexEntry entry = found->second;
    entry.failed = scr::LocalTime(identity::NowMicros());
    scr::PutIndexEntry(entry, tree);
    if (index.current == entry.descriptor.name) tree.Erase("CURRENT");
    return absl::OkStatus();
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Prefix>> Prefix::Open(Disk& disk, const std::string& path) {
  CAIRN_RETURN_IF_ERROR(RequireAbsolute(path));
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, path, kFolderMode));
  CAIRN_RETURN_IF_ERROR(identity::MakeFolder(disk, path));
  CAIRN_ASSIGN_OR_RETURN(const RunId run, identity::MakeRun(disk, path));
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, path + "/.scr", kFolderMode));
  return std::make_unique<PrefixOnDisk>(disk, path, run, true);
}

absl::StatusOr<std::unique_ptr<Prefix>> Prefix::OpenReadOnly(Disk& disk, const std::string& path) {
  CAIRN_RETURN_IF_ERROR(RequireAbsolute(path));
  auto run = identity::ReadRun(disk, path);
  if (!run.ok()) {
    if (!absl::IsNotFound(run.status()) && !absl::IsPermissionDenied(run.status())) return run.status();
    const auto index = disk.Info(path + "/.scr/index.scr");
    if (absl::IsNotFound(index.status())) {
      return NotFound("{}: no run of Cairn's (.cairn/run) and no index of SCR's (.scr/index.scr)", path);
    }
    if (!index.ok()) return index.status();
    run = RunId();
  }
  return std::make_unique<PrefixOnDisk>(disk, path, *run, false);
}

}  // namespace cairn
