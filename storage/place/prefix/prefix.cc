#include "storage/place/prefix/prefix.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "storage/base/clock.h"
#include "storage/base/launch_mark.h"
#include "storage/base/modes.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/place/names.h"
#include "storage/place/prefix/cairn_folder.h"
#include "storage/place/prefix/commit.h"
#include "storage/place/prefix/handed_over.h"
#include "storage/place/prefix/identity.h"
#include "storage/place/prefix/in_flight.h"
#include "storage/place/prefix/index_rules.h"
#include "storage/place/prefix/removal.h"
#include "storage/place/prefix/removed_record.h"
#include "storage/place/prefix/scr_dataset.h"
#include "storage/place/prefix/scr_names.h"
#include "storage/place/prefix/shared_records.h"
#include "storage/place/prefix/stale_work.h"
#include "storage/place/prefix/views.h"

namespace cairn {
namespace {

// Of SCR's datasets so many are looked at file by file, the newest: a restart hardly goes back further.
constexpr std::size_t kScrLookedAtMax = 16;
absl::Status RequireAbsolute(const std::string& path) {
  if (!path.starts_with('/')) return InvalidArgument("prefix \"{}\" is not absolute", path);
  return absl::OkStatus();
}

class PrefixOnDisk final : public Prefix {
 public:
  PrefixOnDisk(Disk& disk, std::string path, identity::Opened opened, bool writable, Pause pause,
               std::unique_ptr<Arbiter> arbiter)
      : disk_(disk),
        path_(std::move(path)),
        opened_(std::move(opened)),
        writable_(writable),
        records_(disk, path_, opened_.identity(), std::move(pause), writable, std::move(arbiter)) {}

  const std::string& path() const override { return path_; }
  const RunIdentity& identity() const override { return opened_.identity(); }
  absl::StatusOr<RunId> CurrentRun() override { return opened_.Now(disk_); }

  absl::StatusOr<std::optional<LaunchRecord>> NewestLaunch() override { return launches().Newest(); }
  absl::StatusOr<LaunchRecord> FindLaunch(LaunchId id) override { return launches().Find(id); }
  absl::StatusOr<LaunchRecord> FindLaunchByMark(const std::string& mark) override {
    return launches().FindByMark(mark);
  }
  absl::StatusOr<LaunchRecord> MakeLaunch(NewLaunch wanted, std::optional<LaunchId> after) override {
    CAIRN_RETURN_IF_ERROR(RequireOwn());
    wanted.run = run();
    return launches().Make(wanted, after);
  }
  absl::Status EnterLaunch(LaunchId id) override {
    CAIRN_RETURN_IF_ERROR(RequireOwn());
    return launches().EnsureBase(id);
  }
  absl::StatusOr<std::optional<LaunchRecord>> LaunchAfter(LaunchId id) override;
  absl::StatusOr<Origin> OriginOf(LaunchId launch, const std::string& mark) override;

  absl::StatusOr<std::optional<LeaseSeen>> FindLease(LaunchId launch) override {
    auto names = writable_ ? arbiter().Names() : cairn_folder::Names(disk_, path_, /*fresh=*/false);
    if (!names.ok()) return names.status();
    return lease::Find(arbiter(), launch, *names);
  }
  absl::StatusOr<LeaseRecord> MakeLease(LeaseRecord record) override {
    CAIRN_RETURN_IF_ERROR(RequireOwn());
    record.run = run();
    return lease::Make(arbiter(), std::move(record));
  }
  absl::Status WriteLease(const LeaseRecord& record) override {
    CAIRN_RETURN_IF_ERROR(RequireOwn());
    return lease::Write(arbiter(), record);
  }

  absl::StatusOr<IdBlock> ReserveIds(DatasetId above, std::uint64_t count) override {
    CAIRN_RETURN_IF_ERROR(RequireOwn());
    CAIRN_ASSIGN_OR_RETURN(const PrefixView view, records_.LookAtIndex());
    for (const auto& [id, entry] : view.index.datasets) {
      if (id <= identity::kDatasetIdMax) above = std::max(above, id);
    }
    return id_blocks::Reserve(arbiter(), disk_, path_, above, count);
  }
  absl::Status ReturnIds(const IdBlock& rest) override {
    CAIRN_RETURN_IF_ERROR(RequireOwn());
    return id_blocks::Return(disk_, path_, rest);
  }

  absl::StatusOr<std::map<DatasetId, CommittedDataset>> Committed() override {
    CAIRN_ASSIGN_OR_RETURN(PrefixContents contents, Contents());
    return std::move(contents.datasets);
  }
  absl::StatusOr<PrefixContents> Contents() override;
  absl::StatusOr<std::vector<SetBack>> SetBacks() override;
  absl::StatusOr<std::vector<catalogue::Catalogue>> Catalogues(DatasetId id) override;
  absl::StatusOr<bool> WasTakenOut(const scr::Descriptor& scrs) override;

  std::string FilePath(const std::string& prefix_name) const override { return path_ + "/" + prefix_name; }
  std::string CataloguePath(DatasetId id, Rank rank) const override { return FilePath(CataloguePrefixName(id, rank)); }

  absl::Status StoreCatalogue(const catalogue::Catalogue& catalogue) override {
    CAIRN_RETURN_IF_ERROR(RequireOwn());
    CAIRN_RETURN_IF_ERROR(ValidateCatalogue(catalogue));
    return cairn::StoreCatalogue(disk_, path_, catalogue);
  }
  absl::Status BeginFlush(const scr::Descriptor& descriptor) override {
    CAIRN_RETURN_IF_ERROR(RequireOwn());
    const absl::Status begun = BeginInIndex(records_, descriptor);
    return TakenByScr(begun) ? begun : Annotate(begun, path_);
  }
  absl::StatusOr<std::map<DatasetId, std::vector<catalogue::Catalogue>>> Withdraw(DatasetId by,
                                                                                  const std::set<std::string>& names,
                                                                                  LaunchId committer) override {
    CAIRN_RETURN_IF_ERROR(RequireOwn());
    return WithdrawReplaced(disk_, path_, records_, scr_names_, by, names, committer);
  }
  absl::Status Replace(const scr::Descriptor& descriptor, const std::vector<catalogue::Catalogue>& catalogues,
                       LaunchId committer, Replacement* replacement) override {
    CAIRN_RETURN_IF_ERROR(RequireOwn());
    return ReplaceDatasets(disk_, path_, records_, scr_names_, descriptor, catalogues, committer, replacement);
  }
  absl::StatusOr<WaitingFiles> Waiting(const std::vector<catalogue::Catalogue>& catalogues) override {
    if (catalogues.empty() || !catalogues.front().files()) return WaitingFiles();
    CAIRN_ASSIGN_OR_RETURN(const bool placing, records_.IsPlacing(catalogues.front().dataset()));
    return placing ? StillWaiting(disk_, path_, catalogues) : WaitingFiles();
  }
  absl::Status Commit(const scr::Descriptor& descriptor, const std::vector<catalogue::Catalogue>& catalogues,
                      LaunchId committer) override {
    CAIRN_RETURN_IF_ERROR(RequireOwn());
    return CommitDataset(disk_, path_, records_, descriptor, catalogues, committer);
  }
  void MakeView(DatasetId id, const std::vector<catalogue::Catalogue>& catalogues) override {
    absl::Status made = RequireOwn();
    if (made.ok()) made = cairn::MakeView(disk_, path_, records_, id, catalogues);
    if (!made.ok()) WarnOfView(records_, id, made);
  }
  absl::StatusOr<DatasetId> MakeMissingViews(DatasetId below, std::size_t at_most) override {
    CAIRN_RETURN_IF_ERROR(RequireOwn());
    return cairn::MakeMissingViews(disk_, path_, records_, below, at_most);
  }
  absl::Status Remove(DatasetId id, const std::vector<catalogue::Catalogue>& catalogues, LaunchId committer) override {
    CAIRN_RETURN_IF_ERROR(RequireOwn());
    return RemoveDataset(disk_, path_, records_, id, catalogues, committer);
  }
  absl::Status NoteRemovedByUser(DatasetId id) override {
    CAIRN_RETURN_IF_ERROR(RequireOwn());
    return WriteRemovedByUser(disk_, records_, id);
  }
  absl::StatusOr<bool> WasRemovedByUser(DatasetId id) override { return IsRemovedByUser(disk_, records_, id); }
  absl::Status MarkFailed(DatasetId id) override;
  absl::Status MarkRefused(DatasetId id) override;
  absl::Status MarkFetched(DatasetId id) override;
  absl::Status PutFlush(DatasetId id, const scr::FlushEntry& entry) override {
    CAIRN_RETURN_IF_ERROR(RequireOwn());
    return records_.ChangeFlush([&](kvtree::Tree& flush) {
      scr::PutFlushEntry(id, entry, flush);
      return absl::OkStatus();
    });
  }
  absl::Status EraseFlush(DatasetId id) override {
    CAIRN_RETURN_IF_ERROR(RequireOwn());
    return records_.ChangeFlush([id](kvtree::Tree& flush) {
      scr::EraseFlushEntry(id, flush);
      return absl::OkStatus();
    });
  }
  absl::Status UpdateFlushFile(std::string_view node,
                               const std::map<DatasetId, std::optional<scr::FlushEntry>>& entries,
                               bool only_these) override {
    CAIRN_RETURN_IF_ERROR(RequireOwn());
    return UpdateFlushEntries(records_, node, entries, only_these);
  }
  absl::Status PutNodes(std::uint32_t nodes) override {
    CAIRN_RETURN_IF_ERROR(RequireOwn());
    return records_.ChangeNodes([nodes](kvtree::Tree& tree) {
      scr::PutNodes(nodes, tree);
      return absl::OkStatus();
    });
  }
  void LeaveIndexBehind() override { records_.LeaveIndexBehind(); }
  std::uint64_t IndexBehind() const override { return records_.index_behind(); }
  absl::Status IndexCatchUp() override {
    CAIRN_RETURN_IF_ERROR(RequireOwn());
    return records_.IndexCatchUp();
  }
  std::vector<std::string> TakeWarnings() override { return records_.TakeWarnings(); }

  Arbiter& arbiter() override { return records_.arbiter(); }

 private:
  // May this change something here? The directory may have been made anew since, or be another run's.
  absl::Status RequireOwn() {
    if (!writable_) return PermissionDenied("{}: opened for reading only", path_);
    const auto now = CurrentRun();
    if (absl::IsNotFound(now.status())) return Unavailable("{}: {}", path_, MessageOf(now.status()));
    if (!now.ok()) return now.status();
    if (*now != run()) return FailedPrecondition("{}: the prefix is run {} now", path_, now->Hex());
    return absl::OkStatus();
  }
  Launches& launches() { return records_.launches(); }
  // Of SCR's own in the index: those that can be restored, and why others cannot.
  absl::Status AddScrDatasets(const PrefixView& view, PrefixContents& contents);
  using EntryChange = std::function<absl::Status(kvtree::Tree& entry, kvtree::Tree& index)>;
  absl::Status ChangeEntry(DatasetId id, const EntryChange& change);
  // Takes what was removed out of the index, if another's change has brought it back, or its removal was cut short.
  absl::Status ForgetRemoved(const PrefixView& view);

  Disk& disk_;
  const std::string path_;
  const identity::Opened opened_;
  const bool writable_;
  SharedRecords records_;
  ScrNames scr_names_;
};

absl::StatusOr<std::optional<LaunchRecord>> PrefixOnDisk::LaunchAfter(LaunchId id) {
  CAIRN_ASSIGN_OR_RETURN(const auto next, launches().NextAfter(id));
  if (!next) return std::optional<LaunchRecord>();
  CAIRN_ASSIGN_OR_RETURN(LaunchRecord launch, launches().Find(*next));
  return std::optional<LaunchRecord>(std::move(launch));
}

// A launch that began without the prefix may have got another number there than it had thought.
absl::StatusOr<Prefix::Origin> PrefixOnDisk::OriginOf(LaunchId id, const std::string& mark) {
  auto launch = launches().Find(id);
  if (absl::IsNotFound(launch.status()) || (launch.ok() && LaunchMark(launch->secret) != mark)) {
    launch = launches().FindByMark(mark);
  }
  if (absl::IsNotFound(launch.status())) return Origin::kAnothers;
  if (!launch.ok()) return launch.status();
  return launch->abandoned ? Origin::kAbandoned : Origin::kOurs;
}

absl::Status PrefixOnDisk::ForgetRemoved(const PrefixView& view) {
  std::vector<DatasetId> removed;
  for (const auto& [id, entry] : view.index.datasets) {
    if (!entry.descriptor.launch || view.commits.contains(id)) continue;
    CAIRN_ASSIGN_OR_RETURN(const bool gone, records_.IsRemoved(id));
    if (gone) {
      removed.push_back(id);
    } else if (view.removed.contains(id)) {  // a base says so, and the power has taken the mark that it went by
      auto catalogues = ReadCatalogues(disk_, path_, records_, id);
      if (absl::IsUnavailable(catalogues.status())) return catalogues.status();
      if (!catalogues.ok()) catalogues = std::vector<catalogue::Catalogue>();
      CAIRN_RETURN_IF_ERROR(RemoveDataset(disk_, path_, records_, id, *catalogues));
    }
  }
  if (removed.empty()) return absl::OkStatus();
  return records_.ChangeIndex([&](kvtree::Tree& index) {
    for (const DatasetId id : removed) SharedRecords::Forget(id, index);
    return absl::OkStatus();
  });
}

absl::Status PrefixOnDisk::AddScrDatasets(const PrefixView& view, PrefixContents& contents) {
  std::size_t looked = 0;
  for (auto at = view.index.datasets.rbegin(); at != view.index.datasets.rend(); ++at) {
    const auto& [id, entry] = *at;
    if (!entry.complete || !entry.failed.empty() || entry.descriptor.launch) continue;
    absl::StatusOr<scr::Descriptor> found = absl::UnknownError("");
    if (looked < kScrLookedAtMax) {
      ++looked;
      const auto dataset = LookAtScrDataset(disk_, path_, records_, entry.descriptor);
      found = dataset.ok() ? dataset->descriptor : absl::StatusOr<scr::Descriptor>(dataset.status());
    } else {
      found = DescribeScrDataset(disk_, records_, entry.descriptor);
    }
    if (found.ok()) {
      contents.datasets[id] = {.descriptor = *std::move(found), .current = false, .by_cairn = false};
    } else if (absl::IsDataLoss(found.status()) || absl::IsPermissionDenied(found.status())) {
      records_.Warn(fmt::format("dataset {} of SCR's does not count: {}", id, MessageOf(found.status())));
      contents.bad[id] = MessageOf(found.status());
    } else {
      return found.status();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<PrefixContents> PrefixOnDisk::Contents() {
  if (writable_) {  // what crashes left between two records
    CAIRN_RETURN_IF_ERROR(FinishPlacings(disk_, path_, records_, scr_names_));
    CAIRN_RETURN_IF_ERROR(records_.Mend());
    CAIRN_RETURN_IF_ERROR(FinishRemovals(disk_, path_, records_));
  }
  CAIRN_ASSIGN_OR_RETURN(PrefixView view, records_.LookQuickly());
  if (writable_) {
    CAIRN_RETURN_IF_ERROR(ForgetRemoved(view));
    CAIRN_ASSIGN_OR_RETURN(const bool more, CommitHandedOver(disk_, path_, records_, view));
    if (more) {
      CAIRN_ASSIGN_OR_RETURN(view, records_.LookQuickly());
    }
  }
  PrefixContents contents;
  contents.removed = view.removed;
  const index_rules::Bound bound = index_rules::BoundOf(view.index, view.tree);
  contents.bound = bound.id;
  contents.bound_set_us = bound.set_us;
  CAIRN_RETURN_IF_ERROR(AddScrDatasets(view, contents));
  for (const auto& [id, entry] : view.index.datasets) {
    if (!entry.descriptor.launch) contents.scrs[id] = entry;
    if (!entry.failed.empty()) contents.failed.insert(id);
    if (index_rules::IsRefused(entry, view.tree)) contents.refused.insert(id);
    const auto commit = view.commits.find(id);
    if (!entry.complete || !entry.failed.empty() || !entry.descriptor.launch || commit == view.commits.end()) continue;
    contents.datasets[id] = {.descriptor = commit->second.descriptor, .current = false, .by_cairn = true};
  }
  for (const auto& [id, commit] : view.fenced) {
    contents.fenced[id] = {.descriptor = commit.descriptor, .current = false, .by_cairn = true};
  }
  for (const auto& [id, commit] : view.commits) {
    const auto entry = view.index.datasets.find(id);
    if (entry != view.index.datasets.end()) {
      // As every flush has it from its start. What comes to others' names is merged at its end only (placing.h).
      const scr::IndexEntry& begun = entry->second;
      const bool done = begun.complete || !begun.failed.empty() || !begun.descriptor.launch;
      if (done || !view.placing.contains(id) || IsMerged(id, view.tree)) continue;
    }
    if (IsMerged(id, view.tree)) {
      contents.dropped.insert(id);
    } else {  // not merged yet by one that may: a reader, or another node's crash a moment ago
      contents.datasets[id] = {.descriptor = commit.descriptor, .current = false, .by_cairn = true};
    }
  }
  if (const auto current = index_rules::CurrentOf(view.tree)) {
    if (const auto at = contents.datasets.find(*current); at != contents.datasets.end()) at->second.current = true;
  }
  return contents;
}

absl::StatusOr<std::vector<Prefix::SetBack>> PrefixOnDisk::SetBacks() {
  CAIRN_ASSIGN_OR_RETURN(const kvtree::Tree tree, records_.ReadIndex());
  if (tree.empty()) return std::vector<SetBack>();
  CAIRN_ASSIGN_OR_RETURN(const scr::Index parsed, scr::GetIndex(tree));
  return index_rules::SetBacksOf(parsed, tree, NowMicros());
}

absl::StatusOr<bool> PrefixOnDisk::WasTakenOut(const scr::Descriptor& scrs) {
  const auto index = records_.ReadIndex();
  if (absl::IsDataLoss(index.status())) return false;
  if (!index.ok()) return index.status();
  if (!index->empty()) {
    CAIRN_ASSIGN_OR_RETURN(const auto entry, index_rules::EntryOf(scrs.id, *index));
    const bool same = entry && !entry->descriptor.launch && entry->descriptor.created_us == scrs.created_us;
    if (entry) return same && index_rules::IsRefused(*entry, *index);
  }
  // The entry goes before the records do. (While SCR flushes it there is an entry, which says that it is not complete.)
  const auto summary = records_.ReadScrSummary(scrs.id);
  if (summary.ok()) return summary->created_us == scrs.created_us;
  return absl::IsUnavailable(summary.status()) ? absl::StatusOr<bool>(summary.status()) : false;
}

// The index tells whose it is: SCR gives ids out again, also such as Cairn had (SCR specification, section 8).
absl::StatusOr<std::vector<catalogue::Catalogue>> PrefixOnDisk::Catalogues(DatasetId id) {
  const auto index = records_.ReadIndex();
  if (!index.ok() && !absl::IsDataLoss(index.status())) return index.status();
  if (index.ok()) {
    CAIRN_ASSIGN_OR_RETURN(const auto entry, index_rules::EntryOf(id, *index));
    if (entry && !entry->descriptor.launch) {
      if (!entry->complete) return NotFound("{}: dataset {} of SCR's is not complete", path_, id);
      return ReadScrCatalogues(disk_, path_, records_, entry->descriptor);
    }
  }
  return ReadCatalogues(disk_, path_, records_, id);
}

absl::Status PrefixOnDisk::ChangeEntry(DatasetId id, const EntryChange& change) {
  CAIRN_RETURN_IF_ERROR(RequireOwn());
  return records_.ChangeIndex([&](kvtree::Tree& index) -> absl::Status {
    kvtree::Tree* datasets = index.Find("DSET");
    kvtree::Tree* entry = datasets == nullptr ? nullptr : datasets->Find(std::to_string(id));
    if (entry == nullptr) return NotFound("{}: no dataset {} in the index", path_, id);
    return change(*entry, index);
  });
}

absl::Status PrefixOnDisk::MarkFailed(DatasetId id) {
  return ChangeEntry(id, [id](kvtree::Tree& entry, kvtree::Tree& index) {
    index_rules::MarkFailed(id, scr::LocalTime(NowMicros()), index_rules::Because::kDamaged, entry, index);
    return absl::OkStatus();
  });
}

absl::Status PrefixOnDisk::MarkRefused(DatasetId id) {
  CAIRN_RETURN_IF_ERROR(RequireOwn());
  CAIRN_RETURN_IF_ERROR(records_.Mend());  // a commit that another has just made has its entry then
  return ChangeEntry(id, [this, id](kvtree::Tree& entry, kvtree::Tree& index) -> absl::Status {
    if (!entry.GetBool("COMPLETE").value_or(false)) return NotFound("{}: dataset {} is not complete", path_, id);
    index_rules::MarkFailed(id, scr::LocalTime(NowMicros()), index_rules::Because::kRefused, entry, index);
    return absl::OkStatus();
  });
}

absl::Status PrefixOnDisk::MarkFetched(DatasetId id) {
  return ChangeEntry(id, [](kvtree::Tree& entry, kvtree::Tree&) {
    entry.At("FETCHED").At(scr::LocalTime(NowMicros()));
    return absl::OkStatus();
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Prefix>> Prefix::Open(Disk& disk, const std::string& path,
                                                     const PrefixOptions& options) {
  CAIRN_RETURN_IF_ERROR(RequireAbsolute(path));
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, path, kPrefixFolderMode));
  CAIRN_RETURN_IF_ERROR(cairn_folder::Make(disk, path));
  CAIRN_ASSIGN_OR_RETURN(RunIdentity run, identity::Make(disk, path, options.known));
  CAIRN_ASSIGN_OR_RETURN(identity::Opened opened, identity::Opened::Open(disk, path, std::move(run)));
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, path + "/.scr", kPrefixFolderMode));
  RemoveStaleWork(disk, path, std::chrono::system_clock::to_time_t(WallNow()));
  CAIRN_ASSIGN_OR_RETURN(auto arbiter, OpenArbiter(*options.arbiters, disk, path, opened.identity().run));
  return std::make_unique<PrefixOnDisk>(disk, path, std::move(opened), true, options.pause, std::move(arbiter));
}

absl::StatusOr<RunId> Prefix::RunAt(Disk& disk, const std::string& path) {
  CAIRN_RETURN_IF_ERROR(RequireAbsolute(path));
  CAIRN_ASSIGN_OR_RETURN(const RunIdentity identity, identity::Read(disk, path));
  return identity.run;
}

absl::StatusOr<std::unique_ptr<Prefix>> Prefix::OpenReadOnly(Disk& disk, const std::string& path,
                                                             const PrefixOptions& options) {
  CAIRN_RETURN_IF_ERROR(RequireAbsolute(path));
  auto run = identity::Read(disk, path, options.known);
  if (!run.ok()) {
    if (!absl::IsNotFound(run.status()) && !absl::IsPermissionDenied(run.status())) return run.status();
    const auto index = disk.Info(path + "/.scr/index.scr");
    if (absl::IsNotFound(index.status())) {
      return NotFound("{}: no run of Cairn's (.cairn/run) and no index of SCR's (.scr/index.scr)", path);
    }
    if (!index.ok()) return index.status();
    return std::make_unique<PrefixOnDisk>(disk, path, identity::Opened(), false, options.pause, nullptr);
  }
  CAIRN_ASSIGN_OR_RETURN(identity::Opened opened, identity::Opened::Open(disk, path, *std::move(run)));
  return std::make_unique<PrefixOnDisk>(disk, path, std::move(opened), false, options.pause, nullptr);
}

}  // namespace cairn
