// A run's folder in the cache, on a disk: cache_folder.h. What makes and removes datasets is in cache_folder.cc, what
// changes whole ones rank by rank in cache_folder_parts.cc, what goes on with others' in cache_folder_take_up.cc.
#ifndef CAIRN_STORAGE_PLACE_CACHE_CACHE_FOLDER_ON_DISK_H_
#define CAIRN_STORAGE_PLACE_CACHE_CACHE_FOLDER_ON_DISK_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/base/ids.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/place/cache/aside.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/cache/cache_index.h"
#include "storage/place/cache/dataset_folder.h"
#include "storage/place/cache/load.h"
#include "storage/place/cache/run_folder.h"
#include "storage/place/names.h"

namespace cairn {

class CacheFolderOnDisk final : public CacheFolder {
 public:
  CacheFolderOnDisk(Disk& disk, RunFolder folder, bool shares_extents)
      : disk_(disk),
        path_(std::move(folder.path)),
        record_(std::move(folder.record)),
        shares_extents_(shares_extents),
        index_(disk, fmt::format("{}/{}", path_, kCacheIndexName)),
        warnings_(std::move(folder.warnings)) {}

  // One that is damaged, or lost though there are datasets, is made anew by Load. Until then nothing is written: an
  // index without their entries would be their end.
  absl::Status ReadIndex() {
    const absl::Status read = index_.Read();
    if (absl::IsDataLoss(read)) return absl::OkStatus();
    CAIRN_RETURN_IF_ERROR(read);
    const auto info = disk_.Info(index_.path());
    if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
    if (info.ok() && info->bytes > 0) return absl::OkStatus();
    CAIRN_ASSIGN_OR_RETURN(const bool datasets, HasDatasets(disk_, path_));
    if (datasets) index_.MarkLost();
    return absl::OkStatus();
  }

  Disk& disk() override { return disk_; }
  const std::string& path() const override { return path_; }
  std::string prefix() const override { return record().prefix; }
  RunRecord record() const override {
    const absl::MutexLock lock(&mutex_);
    return record_;
  }
  absl::Status ChangeRecord(const std::function<void(RunRecord& record)>& change) override;
  std::string DatasetPath(DatasetId id) const override { return path_ + "/" + DatasetFolderName(id); }
  std::string WorkPath(DatasetId id, Rank rank) const override {
    return WorkName(DatasetPath(id) + "/" + CheckpointFileName(id, rank));
  }

  absl::StatusOr<CacheLoad> Load() override {
    CAIRN_ASSIGN_OR_RETURN(CacheLoad load, LoadCache(disk_, path_, prefix(), record().run, Unread(), index_));
    if (auto asides = FindAsides(); asides.ok()) {
      load.asides = *std::move(asides);
    } else {
      load.warnings.push_back(fmt::format("what lies aside is not known: {}", MessageOf(asides.status())));
    }
    const absl::MutexLock lock(&mutex_);
    load.warnings.insert(load.warnings.begin(), warnings_.begin(), warnings_.end());
    warnings_.clear();
    return load;
  }

  // SCR's index, as it is now: SCR may have changed it since.
  absl::StatusOr<std::vector<ScrCached>> FindScrs() override {
    CacheIndex now(disk_, index_.path());
    const absl::Status read = now.Read();
    if (!read.ok() && !absl::IsDataLoss(read)) return read;
    return FindScrDatasets(disk_, path_, now.Entries());
  }

  absl::StatusOr<std::vector<Aside>> FindAsides() override { return cairn::FindAsides(disk_, path_, index_.Entries()); }
  absl::Status RemoveAside(const Aside& aside) override;

  absl::StatusOr<Unfinished> FindUnfinished() override;
  absl::StatusOr<std::set<Rank>> FindRanks(DatasetId id) override;
  absl::StatusOr<std::vector<Rank>> TakeUp(const scr::Descriptor& descriptor) override;
  absl::Status Drop(DatasetId id) override;
  absl::Status Begin(const scr::Descriptor& descriptor) override;
  absl::Status CommitRank(const catalogue::Catalogue& catalogue, const std::string& work_path) override;
  absl::Status CommitRanks(std::span<const Part> parts) override;
  absl::Status CommitRankFiles(const catalogue::Catalogue& catalogue) override;
  absl::Status Complete(const scr::Descriptor& descriptor) override;
  absl::Status Protect(const scr::Descriptor& descriptor, const kept::Record& record) override;
  absl::Status Reopen(const scr::Descriptor& descriptor) override;
  void EndReopened(DatasetId id) override;
  absl::Status SetRankAside(DatasetId id, Rank rank) override;
  absl::Status Remove(DatasetId id) override;
  absl::Status Retire(DatasetId id) override;
  bool shares_extents() const override { return shares_extents_; }
  absl::Status SetAside(DatasetId id, const std::string& file, std::string_view why) override;
  absl::Status SetDatasetAside(DatasetId id, Why why) override;
  absl::StatusOr<std::string> RouteFile(DatasetId id, const std::string& name) override;

  absl::Status StoreFlushRecord(const kvtree::Tree& record) override { return ReplaceTree(disk_, FlushPath(), record); }
  absl::StatusOr<kvtree::Tree> LoadFlushRecord() override {
    auto record = ReadTree(disk_, FlushPath());
    if (absl::IsNotFound(record.status())) return kvtree::Tree();
    return record;
  }

 private:
  // A dataset between Begin, or Reopen, and Complete.
  struct Open {
    scr::Descriptor descriptor;
    std::set<Rank> committing;
    std::map<Rank, RankFiles> committed;
    bool reopened = false;  // it is whole, and has an entry
  };

  std::string FlushPath() const { return fmt::format("{}/{}", path_, kFlushRecordName); }
  absl::Status CheckCatalogue(const catalogue::Catalogue& catalogue);
  // kAlreadyExists: what lies under this number is SCR's own.
  absl::Status CheckNotScrs(DatasetId id);
  std::set<DatasetId> Unread() const {
    const absl::MutexLock lock(&mutex_);
    return unread_;
  }
  // kNotFound: it is none that can be taken up. `refused`: as of FindDescriptor.
  absl::StatusOr<scr::Descriptor> LookAtUnfinished(DatasetId id, std::vector<std::string>* refused);
  absl::StatusOr<std::map<Rank, StoredCatalogue>> FindStored(const scr::Descriptor& descriptor,
                                                             const std::vector<std::string>& names);
  absl::Status GiveUp(DatasetId id);
  void Forget(DatasetId id) {  // what is open of it
    const absl::MutexLock lock(&mutex_);
    open_.erase(id);
  }
  // The index's descriptor of a dataset that is whole here and not open. kFailedPrecondition: it is not.
  absl::StatusOr<scr::Descriptor> FindWhole(DatasetId id);
  absl::StatusOr<scr::Descriptor> FindWhole(const scr::Descriptor& descriptor);  // and this one
  // Of a whole dataset, one at a time: what ranks keep, or which ranks lie here, is being changed.
  class Changing {
   public:
    Changing(CacheFolderOnDisk& folder, DatasetId id) : folder_(folder), id_(id) {
      const absl::MutexLock lock(&folder_.mutex_);
      // Ends with the other's work on the disk.
      while (!folder_.changing_.insert(id_).second) folder_.changed_.Wait(&folder_.mutex_);
    }
    ~Changing() {
      const absl::MutexLock lock(&folder_.mutex_);
      folder_.changing_.erase(id_);
      folder_.changed_.SignalAll();
    }
    Changing(const Changing&) = delete;

   private:
    CacheFolderOnDisk& folder_;
    const DatasetId id_;
  };
  absl::Status TakeOut(const scr::Descriptor& rest, const std::vector<RankFiles>& ranks);
  absl::Status RemoveUnnamed(const scr::Descriptor& descriptor, const std::vector<RankFiles>& ranks);
  absl::StatusOr<std::map<Rank, RankFiles>> FilesOf(const scr::Descriptor& descriptor);
  absl::Status CompleteReopened(const scr::Descriptor& descriptor, const std::vector<RankFiles>& ranks);
  absl::Status WriteEntry(const scr::Descriptor& descriptor, const std::vector<RankFiles>& ranks, bool* removed);
  // Marks the rank as being committed, runs `write` with the dataset's descriptor, keeps what it answers.
  // From the first to the last a rank is being committed. The descriptor is that of its dataset.
  absl::StatusOr<scr::Descriptor> BeginCommit(const catalogue::Catalogue& catalogue);
  absl::StatusOr<RankFiles> WritePart(const Part& part, SyncBatch& batch, const scr::Descriptor& descriptor);
  absl::Status EndCommit(const catalogue::Catalogue& catalogue, absl::StatusOr<RankFiles> files);

  Disk& disk_;
  const std::string path_;
  absl::Mutex record_mutex_;  // one change of the record at a time; before the other
  RunRecord record_ ABSL_GUARDED_BY(mutex_);
  const bool shares_extents_;
  CacheIndex index_;
  mutable absl::Mutex mutex_;
  std::map<DatasetId, Open> open_ ABSL_GUARDED_BY(mutex_);
  std::set<DatasetId> changing_ ABSL_GUARDED_BY(mutex_);
  std::set<DatasetId> unread_ ABSL_GUARDED_BY(mutex_);  // of FindUnfinished
  absl::CondVar changed_;  // one of these is not any more
  std::vector<std::string> warnings_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_CACHE_CACHE_FOLDER_ON_DISK_H_
