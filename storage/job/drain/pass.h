// One pass of a drain: scan, plan, waves of batches, the source's deletion. Used by storage/job/drain only.
#ifndef CAIRN_STORAGE_JOB_DRAIN_PASS_H_
#define CAIRN_STORAGE_JOB_DRAIN_PASS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/file/transfer/transfer.h"
#include "storage/io/disk.h"
#include "storage/io/tree.h"
#include "storage/job/drain/complete.h"
#include "storage/job/drain/copy.h"
#include "storage/job/drain/drain.h"
#include "storage/job/drain/identity.h"
#include "storage/job/drain/journal.h"
#include "storage/job/drain/scan.h"
#include "storage/job/drain/workers.h"

namespace cairn::fti {
struct Checkpoint;
}

namespace cairn::drain {

// What the passes of one drain share. `target` and `journal` are null only in a dry run whose target is not there.
struct Ground {
  Disk& disk;
  const DrainOptions& options;
  Tree& source;
  Tree* target;
  Journal* journal;
  Workers* workers;        // null: a dry run
  const Buffers* buffers;  // one for each worker, and one for the thread that runs the pass
  Completeness& completeness;
  Throttle& throttle;
  DrainProgress& progress;
  std::string work_folder;  // below it each thread has one: "0", "1", …
  std::uint64_t works = 0;  // names that were given
};

class Pass {
 public:
  Pass(Ground& ground, const std::atomic<bool>& stop) : ground_(ground), options_(ground.options), stop_(stop) {}
  absl::StatusOr<DrainReport> Run();

 private:
  enum class State : std::uint8_t { kOpen, kDone, kNotDone };
  struct Batch {
    std::vector<CopyJob> jobs;
    bool synced_each = false;  // its work files are durable when they are copied, else all of the target is synced
  };

  // pass.cc: what is to be done
  absl::Status CheckTarget();
  void RestoreAside(const Scan& scan);
  void NoteScan();
  void Judge();
  void Judge(std::size_t at);
  bool IsFolderThere(const std::string& folder);
  bool IsThere(CopyJob& job);
  std::string WhyNotNow(const Item& item);
  std::string WhyHeldBack(const Item& item);
  std::string WhySetHeldBack(std::size_t set, Wave wave);
  std::string WhyOtherThanBefore(std::size_t set, Wave wave);
  std::string WhyMarkerHeldBack(const Item& item);
  std::string WhyOtherBelow(const std::string& folder);
  const Scan* Rescan();
  bool SeenWhole(const Set& set) const;
  bool AllDoneBelow(const std::string& folder, Wave before) const;
  const Item* FindItem(const std::string& path) const;
  absl::Status RunWave(Wave wave);
  absl::Status RunItems(const std::vector<std::size_t>& items);
  absl::Status RunLarge(CopyJob& job);
  void DryRun();
  void DryRun(std::size_t at);
  void NotDone(std::size_t at, ToldList& list, std::string why);
  void HoldBack(std::size_t at, std::string why);
  void NoLongerLeft(const Item& item);

  // batches.cc: doing it
  absl::Status CopyBatch(std::vector<CopyJob> jobs);
  absl::Status CopyLarge(CopyJob& job);
  absl::Status Finish();
  absl::Status Round(Batch next);
  void CopyAndCheck(Batch& copied, std::uint64_t first, Batch& checked);
  absl::Status MakeDurable(Batch& batch);
  absl::Status Publish(Batch& batch);
  absl::Status CopyAgain(CopyJob& job);
  absl::Status Replace(const CopyJob& job);
  void Publish(CopyJob& job);
  absl::Status PublishOne(const CopyJob& job);
  std::span<std::byte> OwnBuffer() const { return ground_.buffers->at(ground_.workers->count()); }
  absl::Status SyncNames();
  void Account(CopyJob& job);
  void Note(const CopyJob& job);

  // folders.cc: at the target
  absl::Status MakeFolders();
  static std::string FolderKey(const Folder& folder);
  absl::StatusOr<std::vector<std::pair<const Folder*, std::string>>> PrepareFolders();
  absl::Status NoteFolder(const Folder& folder, const std::string& now);
  bool OpenUp(const std::string& folder);
  absl::Status NameFolder(const Folder& folder, const std::string& work);
  void SetFolderAttributes();

  // ending.cc: what leaves the source
  absl::Status DeleteSource();
  void Delete(std::size_t at);
  bool IsBrought(const Item& item) const;
  void NotAtTheTarget(const Item& item, const std::string& name);
  bool IsTooFresh(const Item& item, FileBelow::Writers writers);
  std::string WhyNotRemoved(const Item& item, const std::string& aside);
  void RemoveAside(const Item& item, const std::string& aside);

  // superseded.cc: FTI's former checkpoints at the target
  struct Former;
  absl::Status RemoveFormer();
  std::vector<Former> FormerOf(const std::string& execution) const;
  void FindFormer(const std::string& folder, int level, std::vector<Former>& former) const;
  std::string AtTarget(const std::string& full) const;
  bool HasCome(const fti::Checkpoint& newer) const;
  bool CameLater(const fti::Checkpoint& newer, const Former& former) const;
  absl::Status SyncNamesOf(const fti::Checkpoint& newer);
  void Remove(const Former& one, std::set<std::string>& folders);

  Ground& ground_;
  const DrainOptions& options_;
  const std::atomic<bool>& stop_;
  std::optional<Place> target_root_;
  Scan scan_;
  DrainReport report_;
  std::map<std::string, bool> folders_there_;
  std::vector<State> states_;
  std::vector<CopyJob> plan_;  // by item
  std::unique_ptr<Copier> copier_;
  Batch copied_, durable_, checked_;  // each one round further
  bool names_unsynced_ = false;
  std::set<std::string> unsynced_folders_;             // of a target that is not synced as a whole
  std::unique_ptr<Scan> rescan_;                       // of this wave
  std::map<std::size_t, std::string> sets_held_back_;  // of this wave, asked once
  bool ended_ = false;                                 // stopped, or the target is full
};

}  // namespace cairn::drain

#endif  // CAIRN_STORAGE_JOB_DRAIN_PASS_H_
