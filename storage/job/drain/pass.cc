#include "storage/job/drain/pass.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "storage/base/clock.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/job/drain/sets.h"

namespace cairn::drain {
namespace {

constexpr std::size_t kBatchFiles = 4096;
constexpr std::uint64_t kBatchBytes = 256 << 20;

bool HasAtOrBelow(const std::vector<Told>& list, const std::string& folder) {
  return std::ranges::any_of(list, [&](const Told& told) {
    return folder.empty() || told.path == folder || told.path.starts_with(folder + "/");
  });
}

// Below it lie all files of a set. Those of FTI's and of SCR's cache may lie in several folders, of which any may be
// the one that could not be listed.
std::string FolderOfAll(const Set& set) {
  return set.kind == Set::Kind::kBp5 || set.kind == Set::Kind::kScrPrefix ? set.folder : "";
}

// Of the item itself: not of what a further name stands for.
std::uint64_t BytesOf(const Item& item) {
  return item.kind == Item::Kind::kFile && item.leader < 0 ? item.info.bytes : 0;
}

std::int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(SteadyNow().time_since_epoch()).count();
}

// A pass is under way while one lives.
class UnderWay {
 public:
  UnderWay(DrainProgress& progress, const Completeness& completeness)
      : progress_(progress), completeness_(completeness) {
    progress_.bringing_ns = 0;
    progress_.began_ns = NowNs();
  }
  ~UnderWay() {
    progress_.settling = completeness_.settles_at().has_value();
    progress_.began_ns = 0;
  }
  UnderWay(const UnderWay&) = delete;

 private:
  DrainProgress& progress_;
  const Completeness& completeness_;
};

bool IsLarge(const CopyJob& job) {
  return job.item->kind == Item::Kind::kFile && job.item->info.bytes > kWindowBytes;
}

}  // namespace

absl::StatusOr<DrainReport> Pass::Run() {
  const auto began = SteadyNow();
  const UnderWay under_way(ground_.progress, ground_.completeness);
  CAIRN_RETURN_IF_ERROR(ground_.source.CheckRoot());
  CAIRN_RETURN_IF_ERROR(CheckTarget());
  if (ground_.target != nullptr) {
    CAIRN_ASSIGN_OR_RETURN(const FileInfo root, ground_.target->Info(""));
    target_root_ = PlaceOf(root);
  }
  CAIRN_ASSIGN_OR_RETURN(scan_, ScanTree(ground_.source, options_.marker, target_root_));
  if (!options_.dry_run && !scan_.aside.empty()) {
    RestoreAside(scan_);
    CAIRN_ASSIGN_OR_RETURN(scan_, ScanTree(ground_.source, options_.marker, target_root_));
  }
  for (const std::string& aside : options_.dry_run ? scan_.aside : std::vector<std::string>()) {
    report_.waiting.Add(aside, "a drain was killed while it deleted this; the next one gives it its name back");
  }
  AskSets(ground_.disk, options_.from, scan_);
  ground_.completeness.Begin(scan_);
  NoteScan();
  if (ground_.target != nullptr) {
    copier_ = std::make_unique<Copier>(ground_.source, *ground_.target, ground_.throttle, stop_, ground_.progress);
  }
  Judge();
  if (options_.dry_run) {
    DryRun();
  } else {
    CAIRN_RETURN_IF_ERROR(MakeFolders());
    for (int wave = 0; wave < kWaves && !ended_; ++wave) CAIRN_RETURN_IF_ERROR(RunWave(static_cast<Wave>(wave)));
    CAIRN_RETURN_IF_ERROR(RemoveFormer());
    SetFolderAttributes();
    if (options_.delete_source) CAIRN_RETURN_IF_ERROR(DeleteSource());
    if (!ended_) CAIRN_RETURN_IF_ERROR(ground_.journal->Shrink());
  }
  // What was cut short by this looks like anything.
  CAIRN_RETURN_IF_ERROR(ground_.source.CheckRoot());
  CAIRN_RETURN_IF_ERROR(CheckTarget());
  if (stop_ && !std::exchange(report_.stopped, true)) report_.stopped_why = "told to stop";
  const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(SteadyNow() - began);
  report_.milliseconds = static_cast<std::uint64_t>(time.count());
  return std::move(report_);
}

// A target, or a folder of it, that somebody has moved away must not be written to where it is now.
absl::Status Pass::CheckTarget() {
  if (ground_.target == nullptr) return absl::OkStatus();
  ground_.target->ForgetFolders();
  return ground_.target->CheckRoot();
}

// A drain that was killed while it deleted a file: that is one like all others again.
void Pass::RestoreAside(const Scan& scan) {
  for (const std::string& aside : scan.aside) {
    const std::string folder = FolderOf(aside);
    const std::string name = BaseOf("/" + aside).substr(kAsidePrefix.size());
    const std::string path = folder.empty() ? name : folder + "/" + name;
    const absl::Status back = ground_.source.RenameNew(aside, path);
    if (absl::IsAlreadyExists(back)) {
      // Where a rename is a link and a removal, it may have been killed in between: one file by both names.
      const auto one = ground_.source.Info(aside), other = ground_.source.Info(path);
      const bool same = one.ok() && other.ok() && PlaceOf(*one) == PlaceOf(*other);
      if (same && ground_.source.Remove(aside).ok()) continue;
      report_.failed.Add(aside, "a drain was killed while it deleted this, and there is another file of its name now");
    } else if (!back.ok() && !absl::IsNotFound(back)) {
      report_.failed.Add(aside, std::string(MessageOf(back)));
    }
  }
}

void Pass::NoteScan() {
  for (Told& told : scan_.left_out) report_.left_out.Add(told.path, told.why);
  for (Told& told : scan_.failed) report_.failed.Add(told.path, told.why);
}

void Pass::NotDone(std::size_t at, ToldList& list, std::string why) {
  states_[at] = State::kNotDone;
  list.Add(scan_.items[at].path, std::move(why));
}

// It was to be brought in this pass, and has to wait for another one.
void Pass::HoldBack(std::size_t at, std::string why) {
  --ground_.progress.files_all;
  if (plan_[at].mode == CopyJob::Mode::kCopy) ground_.progress.bytes_all -= BytesOf(scan_.items[at]);
  NotDone(at, report_.waiting, std::move(why));
}

// It has come, has failed, or is gone.
void Pass::NoLongerLeft(const Item& item) {
  --ground_.progress.left_files;
  ground_.progress.left_bytes -= BytesOf(item);
}

// --- What each item needs ---

void Pass::Judge() {
  states_.assign(scan_.items.size(), State::kOpen);
  plan_.resize(scan_.items.size());
  DrainProgress& progress = ground_.progress;
  progress.files = progress.bytes = progress.files_all = progress.bytes_all = 0;
  std::uint64_t left_files = 0, left_bytes = 0;
  for (std::size_t at = 0; at < scan_.items.size(); ++at) {
    Judge(at);
    if (states_[at] == State::kDone) continue;
    ++left_files;
    left_bytes += BytesOf(scan_.items[at]);
    if (states_[at] != State::kOpen) continue;
    ++progress.files_all;
    if (plan_[at].mode == CopyJob::Mode::kCopy) progress.bytes_all += BytesOf(scan_.items[at]);
  }
  progress.left_files = left_files;
  progress.left_bytes = left_bytes;
  if (progress.files_all > 0) progress.bringing_ns = NowNs();
}

void Pass::Judge(std::size_t at) {
  const Item& item = scan_.items[at];
  CopyJob& job = plan_[at];
  job.item = &item;
  job.at = at;
  if (item.leader >= 0) {
    job.mode = CopyJob::Mode::kLink;
    job.leader = scan_.items[static_cast<std::size_t>(item.leader)].path;
  }
  if (ground_.target != nullptr && IsThere(job)) {
    states_[at] = State::kDone;
    ++report_.there_files;
    if (item.kind == Item::Kind::kFile) report_.there_bytes += item.info.bytes;
    return;
  }
  if (std::string why = ground_.completeness.WhyNot(item); !why.empty()) {
    NotDone(at, report_.waiting, std::move(why));
  }
}

// At the target, when it is asked for the first time in this pass.
bool Pass::IsFolderThere(const std::string& folder) {
  const auto [known, added] = folders_there_.try_emplace(folder, true);
  if (added && !folder.empty()) {
    known->second = IsFolderThere(FolderOf(folder)) && ground_.target->Info(folder).ok();
  }
  return known->second;
}

// Has a drain before brought this very file? If not, *job says how to bring it.
bool Pass::IsThere(CopyJob& job) {
  const Item& item = *job.item;
  const Identity identity = IdentityOf(item.info);
  const Record* const record = ground_.journal == nullptr ? nullptr : ground_.journal->Find(item.path);
  const bool same =
      record != nullptr && (item.info.links > 1 ? record->source.SameContent(identity) : record->source == identity);
  if (same && record->confirmed) return true;
  if (!IsFolderThere(FolderOf(item.path))) return false;
  const auto there = ground_.target->Info(item.path);
  if (!there.ok()) return false;
  const Made made = MadeOf(*there);
  const bool current = record != nullptr && record->there == made;
  if (current && same) {
    ground_.journal->Confirm(item.path);
    return true;
  }
  // A drain that was killed, or refused what it had written, leaves a record of a file that never got its name.
  job.replace = record != nullptr && record->IsOurs(made);
  job.replaced = made;
  // A name that another one of its names lost, a mode that changed: that moves ctime, too, and needs no second copy.
  const bool only_ctime = current && record->source.SameContent(identity);
  if (!job.replace || only_ctime) job.mode = CopyJob::Mode::kCompare;
  return false;
}

// --- What has to wait for others ---

const Item* Pass::FindItem(const std::string& path) const {
  const auto found = std::ranges::lower_bound(scan_.items, path, {}, &Item::path);
  return found != scan_.items.end() && found->path == path ? &*found : nullptr;
}

bool Pass::AllDoneBelow(const std::string& folder, Wave before) const {
  if (HasAtOrBelow(scan_.failed, folder)) return false;  // who knows what is in there
  const std::string front = folder.empty() ? "" : folder + "/";
  auto item = std::ranges::lower_bound(scan_.items, front, {}, &Item::path);
  for (; item != scan_.items.end() && item->path.starts_with(front); ++item) {
    const auto at = static_cast<std::size_t>(item - scan_.items.begin());
    if (item->wave < before && states_[at] != State::kDone) return false;
  }
  return true;
}

bool Pass::SeenWhole(const Set& set) const {
  return !HasAtOrBelow(scan_.failed, FolderOfAll(set));
}

std::string Pass::WhyMarkerHeldBack(const Item& item) {
  if (!options_.marker.starts_with('*')) {
    const std::string folder = FolderOf(item.path);
    return AllDoneBelow(folder, Wave::kMarker) ? WhyOtherBelow(folder) : "files that it stands for have not come yet";
  }
  const std::string name = item.path.substr(0, item.path.size() - (options_.marker.size() - 1));
  const Item* const marked = FindItem(name);
  if (marked != nullptr) {
    const bool done = states_[static_cast<std::size_t>(marked - scan_.items.data())] == State::kDone;
    return done ? "" : "the file that it stands for has not come yet";
  }
  // It may have been made after its folder was listed, before the marker.
  const Scan* const now = Rescan();
  const bool none = now != nullptr &&
                    std::ranges::none_of(now->items, [&](const Item& other) { return other.path == name; }) &&
                    !HasAtOrBelow(now->failed, FolderOf(name));
  return none ? "" : "the file that it stands for has not come yet";
}

std::string Pass::WhyHeldBack(const Item& item) {
  switch (item.wave) {
    case Wave::kData:
      return "";
    case Wave::kRecords:
      for (const std::size_t set : item.sets) {
        const Set::Kind kind = scan_.sets[set].kind;
        const std::size_t records = item.path.rfind("/.scr/");
        if (kind == Set::Kind::kScrPrefix || kind == Set::Kind::kFti) continue;
        if (kind == Set::Kind::kScrCache && records == std::string::npos) continue;
        const std::string folder = kind == Set::Kind::kBp5 ? scan_.sets[set].folder : item.path.substr(0, records);
        if (!AllDoneBelow(folder, Wave::kRecords)) return "it tells of files beside it that have not come yet";
      }
      return "";
    case Wave::kBp5Index:
    case Wave::kIndex:
      for (const std::size_t set : item.sets) {
        const bool bp5 = scan_.sets[set].kind == Set::Kind::kBp5;
        if (bp5 != (item.wave == Wave::kBp5Index)) continue;
        if (bp5 && scan_.sets[set].folder != FolderOf(item.path)) continue;
        if (std::string why = WhySetHeldBack(set, item.wave); !why.empty()) return why;
      }
      return "";
    case Wave::kMarker:
      return WhyMarkerHeldBack(item);
  }
  return "";
}

// "": all that it has to wait for has come.
std::string Pass::WhyNotNow(const Item& item) {
  if (std::string why = WhyHeldBack(item); !why.empty()) return why;
  const bool leads = item.leader < 0 || states_[static_cast<std::size_t>(item.leader)] == State::kDone;
  return leads ? "" : "another name of this file has not come yet";
}

std::string Pass::WhySetHeldBack(std::size_t set, Wave wave) {
  const auto [known, added] = sets_held_back_.try_emplace(set);
  if (!added) return known->second;
  if (!SeenWhole(scan_.sets[set])) {
    known->second = fmt::format("an index comes last: not all of {} could be listed", NameOf(scan_.sets[set]));
    return known->second;
  }
  for (std::size_t at = 0; at < scan_.items.size(); ++at) {
    const Item& item = scan_.items[at];
    if (item.wave >= wave || states_[at] == State::kDone || std::ranges::find(item.sets, set) == item.sets.end()) {
      continue;
    }
    known->second = fmt::format("an index comes last: not all of {} has come", NameOf(scan_.sets[set]));
    return known->second;
  }
  known->second = WhyOtherThanBefore(set, wave);
  return known->second;
}

// Null: it cannot be listed now.
const Scan* Pass::Rescan() {
  if (rescan_ == nullptr) {
    auto scan = ScanTree(ground_.source, options_.marker, target_root_);
    if (scan.ok()) rescan_ = std::make_unique<Scan>(*std::move(scan));
  }
  return rescan_.get();
}

// The same of a folder with a marker.
std::string Pass::WhyOtherBelow(const std::string& folder) {
  const std::string why = "its folder was written to during the drain";
  if (Rescan() == nullptr || HasAtOrBelow(rescan_->failed, folder)) return why;
  const std::string front = folder.empty() ? "" : folder + "/";
  auto item = std::ranges::lower_bound(rescan_->items, front, {}, &Item::path);
  for (; item != rescan_->items.end() && item->path.starts_with(front); ++item) {
    if (item->wave >= Wave::kMarker) continue;
    const Item* const before = FindItem(item->path);
    if (before == nullptr || !IdentityOf(before->info).SameContent(IdentityOf(item->info))) return why;
  }
  return "";
}

// The index may name what was made after its folder was listed, and before the index itself was looked at. Since it is
// only copied if it is still what it was then, all that it names is there by now: has it come?
std::string Pass::WhyOtherThanBefore(std::size_t set, Wave wave) {
  const std::string why = fmt::format("{} was written to during the drain", NameOf(scan_.sets[set]));
  if (Rescan() == nullptr || HasAtOrBelow(rescan_->failed, FolderOfAll(scan_.sets[set]))) return why;
  for (const Item& item : rescan_->items) {
    const auto belongs = [&](std::size_t other) {
      return rescan_->sets[other].kind == scan_.sets[set].kind && rescan_->sets[other].name == scan_.sets[set].name;
    };
    if (item.wave >= wave || std::ranges::none_of(item.sets, belongs)) continue;
    const Item* const before = FindItem(item.path);
    if (before == nullptr || !IdentityOf(before->info).SameContent(IdentityOf(item.info))) return why;
  }
  return "";
}

// --- Waves ---

absl::Status Pass::RunWave(Wave wave) {
  std::vector<std::size_t> items, links;
  for (std::size_t at = 0; at < scan_.items.size(); ++at) {
    if (states_[at] != State::kOpen || scan_.items[at].wave != wave) continue;
    (scan_.items[at].leader < 0 ? items : links).push_back(at);
  }
  if (items.empty() && links.empty()) return absl::OkStatus();
  std::ranges::sort(items, [&](std::size_t a, std::size_t b) {
    const Item &one = scan_.items[a], &other = scan_.items[b];
    if (one.order != other.order) return one.order > other.order;
    const std::int64_t at = Nanoseconds(one.info.mtime), other_at = Nanoseconds(other.info.mtime);
    return at != other_at ? at < other_at : a < b;
  });
  rescan_.reset();
  sets_held_back_.clear();
  // Its errors are those of a sync or of the journal: after one of them nothing more gets a name.
  CAIRN_RETURN_IF_ERROR(RunItems(items));
  CAIRN_RETURN_IF_ERROR(Finish());
  CAIRN_RETURN_IF_ERROR(RunItems(links));
  CAIRN_RETURN_IF_ERROR(Finish());
  return SyncNames();
}

absl::Status Pass::RunItems(const std::vector<std::size_t>& items) {
  std::vector<CopyJob> batch;
  std::uint64_t bytes = 0;
  for (const std::size_t at : items) {
    if (ended_ || stop_) break;
    CopyJob& job = plan_[at];
    if (std::string why = WhyNotNow(*job.item); !why.empty()) {
      HoldBack(at, std::move(why));
      continue;
    }
    if (job.item->leader >= 0) job.leader_there = ground_.journal->Find(job.leader)->there;
    if (IsLarge(job) && (job.mode != CopyJob::Mode::kCompare || job.replace)) {
      CAIRN_RETURN_IF_ERROR(CopyBatch(std::exchange(batch, {})));
      CAIRN_RETURN_IF_ERROR(Finish());
      bytes = 0;
      CAIRN_RETURN_IF_ERROR(RunLarge(job));
      continue;
    }
    batch.push_back(job);
    bytes += job.item->info.bytes;
    if (batch.size() < kBatchFiles && bytes < kBatchBytes) continue;
    CAIRN_RETURN_IF_ERROR(CopyBatch(std::exchange(batch, {})));
    bytes = 0;
  }
  return CopyBatch(std::move(batch));
}

absl::Status Pass::RunLarge(CopyJob& job) {
  if (job.mode == CopyJob::Mode::kCompare) {
    copier_->Compare(job, OwnBuffer());
    if (job.outcome == Outcome::kFailed) job.mode = CopyJob::Mode::kCopy;  // not the same, and ours to replace
  } else if (job.mode == CopyJob::Mode::kLink) {
    job.work = fmt::format("{}/0/{}", ground_.work_folder, ground_.works++);
    copier_->Copy(job, OwnBuffer(), true);
    if (job.outcome == Outcome::kFailed && job.link_copied) job.mode = CopyJob::Mode::kCopy;
  }
  if (job.mode == CopyJob::Mode::kCopy) return CopyLarge(job);
  return PublishOne(job);
}

void Pass::DryRun() {
  for (int wave = 0; wave < kWaves; ++wave) {
    rescan_.reset();
    sets_held_back_.clear();
    for (const bool links : {false, true}) {
      for (std::size_t at = 0; at < scan_.items.size(); ++at) {
        const Item& item = scan_.items[at];
        if (states_[at] != State::kOpen || item.wave != static_cast<Wave>(wave) || (item.leader >= 0) != links)
          continue;
        DryRun(at);
      }
    }
  }
}

// What would go counts as done, so that what waits for it goes, too.
void Pass::DryRun(std::size_t at) {
  const Item& item = scan_.items[at];
  if (std::string why = WhyNotNow(item); !why.empty()) return NotDone(at, report_.waiting, std::move(why));
  if (item.kind == Item::Kind::kSymlink) {
    ++report_.symlinks;
  } else if (item.leader >= 0) {
    ++report_.hard_links;
  } else {
    const auto file = ground_.source.Open(item.path);
    if (!file.ok()) return NotDone(at, report_.failed, std::string(MessageOf(file.status())));
    if ((*file)->LookForWriters() == FileBelow::Writers::kSome) {
      return NotDone(at, report_.waiting, "somebody has it open for writing");
    }
    ++report_.files;
    report_.bytes += item.info.bytes;
  }
  states_[at] = State::kDone;
}

}  // namespace cairn::drain
