#include "storage/place/prefix/launches.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <utility>

#include "proto/frame.h"
#include "storage/base/checksum.h"
#include "storage/base/clock.h"
#include "storage/base/launch_mark.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/io/fresh_list.h"
#include "storage/place/names.h"
#include "storage/place/prefix/cairn_folder.h"
#include "storage/place/prefix/fence_names.h"
#include "storage/place/prefix/identity.h"

namespace cairn {
namespace {

constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kKeyBytesMax = 4096;
constexpr int kTriesMax = 1000;  // numbers taken by others between our listing and our creation
constexpr std::size_t kRecordsKept = 256;
constexpr std::size_t kBasesKept = 2;
constexpr std::string_view kStem = "launch.";
constexpr char kFencedPayload[] = "cairn/fenced";

std::string NameOf(LaunchId id) {
  return fmt::format("{}{}", kStem, id);
}

std::string BaseNameOf(LaunchId id) {
  return NameOf(id) + ".base";
}

kvtree::Tree ToTree(const LaunchRecord& launch) {
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  tree.Set("LAUNCH", launch.id);
  tree.Set("KEY", launch.key);
  tree.Set("RANKS", std::uint64_t{launch.nranks});
  tree.Set("SECRET", HexOf(std::as_bytes(std::span(launch.secret))));
  tree.SetInt("CREATED", launch.created_us);
  tree.Set("RUN", launch.run.Hex());
  tree.Set("HOST", launch.maker.host);
  tree.Set("PID", std::uint64_t{launch.maker.pid});
  if (!launch.maker.cache.empty()) tree.Set("CACHE", launch.maker.cache);
  if (launch.predecessor != 0) tree.Set("PREDECESSOR", launch.predecessor);
  if (launch.abandoned) tree.SetBool("ABANDONED", true);
  return tree;
}

absl::Status TakeSecret(const kvtree::Tree& tree, LaunchRecord& launch) {
  CAIRN_ASSIGN_OR_RETURN(const std::string hex, tree.GetString("SECRET"));
  const auto bytes = BytesOfHex(hex);
  if (!bytes || bytes->size() != kSecretBytes) return DataLoss("SECRET is not {} hex digits", 2 * kSecretBytes);
  launch.secret = *bytes;
  return absl::OkStatus();
}

// Release 0.1.0 had neither RUN nor what follows it.
absl::Status TakeMaker(const kvtree::Tree& tree, LaunchRecord& launch) {
  CAIRN_ASSIGN_OR_RETURN(launch.maker.host, tree.GetString("HOST"));
  const auto run = tree.Get("RUN");
  if (!run) return absl::OkStatus();
  CAIRN_ASSIGN_OR_RETURN(launch.run, RunId::Parse(*run));
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t pid, tree.GetUnsigned("PID"));
  launch.maker.pid = static_cast<std::uint32_t>(pid);
  launch.maker.cache = tree.Get("CACHE").value_or("");
  if (tree.Find("PREDECESSOR") != nullptr) {
    CAIRN_ASSIGN_OR_RETURN(launch.predecessor, tree.GetUnsigned("PREDECESSOR"));
  }
  launch.abandoned = tree.GetBool("ABANDONED").value_or(false);
  return absl::OkStatus();
}

absl::Status TakeAll(const kvtree::Tree& tree, LaunchId id, LaunchRecord& launch) {
  CAIRN_ASSIGN_OR_RETURN(launch.id, tree.GetUnsigned("LAUNCH"));
  if (launch.id != id) return DataLoss("LAUNCH {} instead of {}", launch.id, id);
  CAIRN_ASSIGN_OR_RETURN(launch.key, tree.GetString("KEY"));
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t nranks, tree.GetUnsigned("RANKS"));
  if (nranks == 0 || nranks > CAIRN_RANKS_MAX)
    return DataLoss("RANKS {}, 1 to {} are possible", nranks, CAIRN_RANKS_MAX);
  launch.nranks = static_cast<std::uint32_t>(nranks);
  CAIRN_RETURN_IF_ERROR(TakeSecret(tree, launch));
  CAIRN_ASSIGN_OR_RETURN(launch.created_us, tree.GetInt("CREATED"));
  return TakeMaker(tree, launch);
}

absl::StatusOr<LaunchRecord> ReadLaunch(Disk& disk, const std::string& prefix, LaunchId id) {
  const std::string path = fmt::format("{}/{}", cairn_folder::Of(prefix), NameOf(id));
  CAIRN_ASSIGN_OR_RETURN(const kvtree::Tree tree, ReadTree(disk, path));
  CAIRN_RETURN_IF_ERROR(cairn_folder::CheckVersion(path, tree));
  LaunchRecord launch;
  const absl::Status taken = TakeAll(tree, id, launch);
  if (!taken.ok()) return cairn_folder::NamingFile(path, taken);
  return launch;
}

void PutRanges(std::string_view key, const NumberRanges& ids, kvtree::Tree& tree) {
  kvtree::Tree& ranges = tree.SetEmpty(key);
  for (const auto& [first, last] : ids.ranges()) ranges.Set(fmt::format("{}", first), last);
}

absl::Status TakeRanges(std::string_view key, const kvtree::Tree& tree, NumberRanges& ids) {
  const kvtree::Tree* ranges = tree.Find(key);
  if (ranges == nullptr) return DataLoss("no {}", key);
  for (const auto& [text, value] : ranges->elements()) {
    const auto first = NumberAfter(text, "");
    CAIRN_ASSIGN_OR_RETURN(const std::uint64_t last, ranges->GetUnsigned(text));
    if (!first || *first == 0 || last < *first || last > identity::kDatasetIdMax) {
      return DataLoss("{}: \"{}\" to {} are no ids", key, text, last);
    }
    ids.AddRange(*first, last);
  }
  return absl::OkStatus();
}

// What one dataset's folder says, to a base.
enum class Found { kNothing, kCounts, kRemoved };

absl::StatusOr<Found> JudgeNames(Disk& disk, const std::string& folder, const std::vector<std::string>& names,
                                 const std::optional<LaunchRecord>& last) {
  const auto has = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (has(fence_names::kRemoved)) return Found::kRemoved;
  std::optional<LaunchId> committer;
  if (has(fence_names::kCommit)) {
    const auto commit = ReadTree(disk, fmt::format("{}/{}", folder, fence_names::kCommit));
    if (commit.ok()) {
      if (commit->Find(fence_names::kCommitterKey) == nullptr) return Found::kCounts;
      const auto named = commit->GetUnsigned(fence_names::kCommitterKey);
      if (named.ok()) committer = *named;
    } else if (!absl::IsDataLoss(commit.status()) && !absl::IsNotFound(commit.status()) &&
               !absl::IsPermissionDenied(commit.status())) {
      return commit.status();
    }
  }
  if (!last || last->abandoned) return Found::kNothing;
  return committer == last->id || has(fence_names::CommitOf(last->id)) ? Found::kCounts : Found::kNothing;
}

// Of most folders what this node sees already is enough: what is there does not go away again.
absl::StatusOr<Found> JudgeFolder(Disk& disk, const std::string& folder, const std::optional<LaunchRecord>& last) {
  auto names = disk.List(folder);
  if (absl::IsNotFound(names.status()) || absl::IsPermissionDenied(names.status())) return Found::kNothing;
  if (!names.ok()) return names.status();
  CAIRN_ASSIGN_OR_RETURN(const Found found, JudgeNames(disk, folder, *names, last));
  if (found != Found::kNothing) return found;
  names = FreshList(disk, folder);
  if (absl::IsNotFound(names.status()) || absl::IsPermissionDenied(names.status())) return Found::kNothing;
  if (!names.ok()) return names.status();
  return JudgeNames(disk, folder, *names, last);
}

}  // namespace

absl::Status FencedStatus(std::string_view text) {
  absl::Status status = FailedPrecondition("{}", text);
  status.SetPayload(kFencedPayload, absl::Cord());
  return status;
}

bool IsFenced(const absl::Status& status) {
  return status.GetPayload(kFencedPayload).has_value();
}

Launches::Launches(Disk& disk, Arbiter& arbiter, std::string prefix, bool writable,
                   std::function<NumberRanges()> merged)
    : disk_(disk), arbiter_(arbiter), prefix_(std::move(prefix)), writable_(writable), merged_(std::move(merged)) {}

absl::StatusOr<std::vector<std::uint64_t>> Launches::Numbers(bool fresh) {
  CAIRN_ASSIGN_OR_RETURN(const auto names, cairn_folder::Names(disk_, prefix_, fresh && writable_));
  return cairn_folder::Numbers(names, kStem);
}

absl::StatusOr<LaunchRecord> Launches::Find(LaunchId id) {
  {
    const absl::MutexLock lock(&mutex_);
    if (const auto known = records_.find(id); known != records_.end()) return known->second;
  }
  CAIRN_ASSIGN_OR_RETURN(LaunchRecord launch, ReadLaunch(disk_, prefix_, id));
  const absl::MutexLock lock(&mutex_);
  records_[id] = launch;
  if (records_.size() > kRecordsKept) records_.erase(records_.begin());
  return launch;
}

absl::StatusOr<LaunchRecord> Launches::FindByMark(const std::string& mark) {
  CAIRN_ASSIGN_OR_RETURN(auto numbers, Numbers(/*fresh=*/true));
  std::reverse(numbers.begin(), numbers.end());
  for (const std::uint64_t id : numbers) {
    auto launch = Find(id);
    if (absl::IsUnavailable(launch.status())) return launch.status();
    if (launch.ok() && LaunchMark(launch->secret) == mark) return launch;
  }
  return NotFound("{}: no launch of the mark {}", cairn_folder::Of(prefix_), mark);
}

absl::StatusOr<std::optional<LaunchRecord>> Launches::Newest() {
  CAIRN_ASSIGN_OR_RETURN(auto numbers, Numbers(/*fresh=*/true));
  for (; !numbers.empty(); numbers.pop_back()) {
    auto launch = Find(numbers.back());
    if (launch.ok()) return std::optional<LaunchRecord>(*std::move(launch));
    // Its maker has not come to the end (storage/io/create_once.h), and may never.
    if (!absl::IsNotFound(launch.status())) return launch.status();
  }
  return std::optional<LaunchRecord>();
}

// Numbers have no gaps, but a listing that was read while two were made may show the second without the first.
absl::StatusOr<std::optional<LaunchId>> Launches::NextAfter(LaunchId id) {
  CAIRN_ASSIGN_OR_RETURN(const auto numbers, Numbers(/*fresh=*/true));
  std::set<LaunchId> later(std::upper_bound(numbers.begin(), numbers.end(), id), numbers.end());
  if (!later.empty()) later.insert(id + 1);
  for (const LaunchId next : later) {
    const auto launch = Find(next);
    if (absl::IsNotFound(launch.status())) continue;  // not made yet: who makes it finds what is here by then
    if (!launch.ok() && !absl::IsDataLoss(launch.status())) return launch.status();
    if (!launch.ok() || launch->has_base()) return std::optional<LaunchId>(next);
  }
  return std::optional<LaunchId>();
}

// A number whose record was never finished is not passed over: it might be finished later.
absl::StatusOr<LaunchRecord> Launches::Make(const NewLaunch& wanted, std::optional<LaunchId> after) {
  if (wanted.nranks == 0 || wanted.nranks > CAIRN_RANKS_MAX)
    return InvalidArgument("a launch of {} ranks", wanted.nranks);
  if (wanted.key.size() > kKeyBytesMax || wanted.key.find('\0') != std::string::npos) {
    return InvalidArgument("launch key: {} bytes; at most {} and no NUL", wanted.key.size(), kKeyBytesMax);
  }
  LaunchRecord launch{.id = 0,
                      .key = wanted.key,
                      .nranks = wanted.nranks,
                      .secret = wanted.secret.empty() ? NewLaunchSecret() : wanted.secret,
                      .created_us = NowMicros(),
                      .maker = wanted.maker,
                      .run = wanted.run,
                      .predecessor = wanted.predecessor};
  for (int i = 0; i < kTriesMax; ++i) {
    CAIRN_ASSIGN_OR_RETURN(const auto names, arbiter_.Names());
    auto numbers = cairn_folder::Numbers(names, kStem);
    while (!numbers.empty() && absl::IsNotFound(Find(numbers.back()).status())) numbers.pop_back();
    const LaunchId newest = numbers.empty() ? 0 : numbers.back();
    if (after && newest != *after) {
      return Aborted("{}: launch {} was made meanwhile", cairn_folder::Of(prefix_), newest);
    }
    launch.id = newest + 1;
    launch.abandoned = wanted.predecessor != 0 && (wanted.after_abandoned || newest != wanted.predecessor);
    // Those before it are durable first: their makers may not have come to that. So a power failure leaves no gap.
    CAIRN_RETURN_IF_ERROR(disk_.SyncDirectory(cairn_folder::Of(prefix_)));
    const absl::Status made = arbiter_.Create(NameOf(launch.id), kvtree::Encode(ToTree(launch)));
    if (absl::IsAlreadyExists(made)) continue;
    CAIRN_RETURN_IF_ERROR(made);
    CAIRN_RETURN_IF_ERROR(EnsureBase(launch.id));
    return launch;
  }
  return Aborted("{}: {} launches were made by others meanwhile", cairn_folder::Of(prefix_), kTriesMax);
}

// --- Bases ---

absl::StatusOr<Launches::BasePtr> Launches::ReadBase(LaunchId id) {
  {
    const absl::MutexLock lock(&mutex_);
    if (const auto known = bases_.find(id); known != bases_.end()) return known->second;
  }
  const std::string path = fmt::format("{}/{}", cairn_folder::Of(prefix_), BaseNameOf(id));
  CAIRN_ASSIGN_OR_RETURN(const kvtree::Tree tree, ReadTree(disk_, path));
  CAIRN_RETURN_IF_ERROR(cairn_folder::CheckVersion(path, tree));
  auto base = std::make_shared<LaunchBase>();
  for (const auto& [key, ids] : {std::pair("COUNTS", &base->counts), std::pair("REMOVED", &base->removed)}) {
    if (const absl::Status taken = TakeRanges(key, tree, *ids); !taken.ok()) {
      return cairn_folder::NamingFile(path, taken);
    }
  }
  // Its maker may not have come to its sync, and another base must not take its place when the power has failed.
  if (writable_) CAIRN_RETURN_IF_ERROR(disk_.SyncDirectory(cairn_folder::Of(prefix_)));
  const absl::MutexLock lock(&mutex_);
  bases_[id] = base;
  if (bases_.size() > kBasesKept) bases_.erase(bases_.begin());
  return BasePtr(base);
}

absl::Status Launches::WriteBase(LaunchId id, const LaunchBase& base) {
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  PutRanges("COUNTS", base.counts, tree);
  PutRanges("REMOVED", base.removed, tree);
  const absl::Status made = cairn_folder::MakeRecord(disk_, prefix_, BaseNameOf(id), tree);
  return absl::IsAlreadyExists(made) ? absl::OkStatus() : made;
}

// `last`: the launch before; what it has committed is decided now.
absl::StatusOr<LaunchBase> Launches::LookAround(const LaunchBase& before, const std::optional<LaunchRecord>& last,
                                                const NumberRanges& merged) {
  LaunchBase base = before;
  const std::string records = prefix_ + "/.scr";
  const auto names = FreshList(disk_, records);
  if (absl::IsNotFound(names.status())) return base;
  if (!names.ok()) return names.status();
  // Removals that the base decides are finished by their marks or removed.cairn, whose makers may not have synced them.
  CAIRN_RETURN_IF_ERROR(disk_.SyncDirectory(records));
  for (const std::string& name : *names) {
    const auto mark = fence_names::ParseRemovalMark(name);
    if (!mark || !last || last->abandoned || mark->second != last->id || mark->first > identity::kDatasetIdMax)
      continue;
    base.counts.Remove(mark->first);
    base.removed.Add(mark->first);
  }
  for (const std::string& name : *names) {
    const auto id = DatasetOfRecords(name);
    if (!id || *id == 0 || *id > identity::kDatasetIdMax) continue;
    if (base.counts.Contains(*id) || base.removed.Contains(*id)) continue;
    if (merged.Contains(*id)) {
      base.counts.Add(*id);
      continue;
    }
    CAIRN_ASSIGN_OR_RETURN(const Found found, JudgeFolder(disk_, records + "/" + name, last));
    if (found == Found::kCounts) base.counts.Add(*id);
    if (found == Found::kRemoved) {
      CAIRN_RETURN_IF_ERROR(disk_.SyncDirectory(records + "/" + name));
      base.removed.Add(*id);
    }
  }
  return base;
}

// The launches from this one down whose bases lack, the newest first; then the one whose base is there, if any. By
// their numbers, which have no gaps: a listing might show a later one without an earlier one.
absl::StatusOr<std::vector<LaunchRecord>> Launches::WithoutBase(LaunchId id) {
  std::vector<LaunchRecord> missing;
  for (LaunchId at = id; at > 0; --at) {
    auto launch = Find(at);
    if (absl::IsNotFound(launch.status())) {  // it was lost: the next lower one that there is
      CAIRN_ASSIGN_OR_RETURN(const auto numbers, Numbers(/*fresh=*/true));
      const auto lower = std::lower_bound(numbers.begin(), numbers.end(), at);
      if (lower == numbers.begin()) break;
      at = *std::prev(lower) + 1;
      continue;
    }
    if (!launch.ok() && !absl::IsDataLoss(launch.status())) return launch.status();
    if (!launch.ok()) {  // damaged: what it has committed counts
      launch = LaunchRecord();
      launch->id = at;
    } else if (!launch->has_base()) {
      break;
    }
    missing.push_back(*std::move(launch));
    const auto known = ReadBase(at);
    if (known.ok()) break;
    if (!absl::IsNotFound(known.status())) return known.status();
  }
  return missing;
}

// kNotFound: there is none, and none may be made.
absl::StatusOr<Launches::BasePtr> Launches::BaseOf(LaunchId id) {
  auto base = ReadBase(id);
  if (!absl::IsNotFound(base.status()) || !writable_) return base;
  CAIRN_ASSIGN_OR_RETURN(const std::vector<LaunchRecord> missing, WithoutBase(id));
  LaunchBase before;
  for (std::size_t i = missing.size(); i-- > 0;) {
    base = ReadBase(missing[i].id);
    if (absl::IsNotFound(base.status())) {
      const std::optional<LaunchRecord> last = i + 1 < missing.size() ? std::optional(missing[i + 1]) : std::nullopt;
      // Some of what was merged counts by the newest only.
      const NumberRanges merged = i == 0 && merged_ ? merged_() : NumberRanges();
      CAIRN_ASSIGN_OR_RETURN(const LaunchBase made, LookAround(before, last, merged));
      CAIRN_RETURN_IF_ERROR(WriteBase(missing[i].id, made));
      base = ReadBase(missing[i].id);
    }
    if (!base.ok()) return base.status();
    before = **base;
  }
  return base;
}

absl::Status Launches::EnsureBase(LaunchId id) {
  CAIRN_ASSIGN_OR_RETURN(const LaunchRecord launch, Find(id));
  if (!launch.has_base()) return absl::OkStatus();
  if (const auto there = ReadBase(id); !absl::IsNotFound(there.status())) return there.status();
  return BaseOf(id).status();
}

// --- Who counts? ---

absl::StatusOr<bool> Launches::CommitCounts(DatasetId id, LaunchId committer) {
  if (committer == 0) return true;
  CAIRN_ASSIGN_OR_RETURN(const auto next, NextAfter(committer));
  if (!next) {
    CAIRN_ASSIGN_OR_RETURN(const LaunchRecord launch, Find(committer));
    return !launch.abandoned;
  }
  CAIRN_ASSIGN_OR_RETURN(const BasePtr base, BaseOf(*next));
  return base->counts.Contains(id);
}

absl::StatusOr<std::set<DatasetId>> Launches::FencedRemovals(const std::set<DatasetId>& ids, LaunchId committer) {
  CAIRN_ASSIGN_OR_RETURN(const auto next, NextAfter(committer));
  if (!next) {
    CAIRN_ASSIGN_OR_RETURN(const LaunchRecord launch, Find(committer));
    return launch.abandoned ? ids : std::set<DatasetId>();
  }
  CAIRN_ASSIGN_OR_RETURN(const BasePtr base, BaseOf(*next));
  std::set<DatasetId> fenced = ids;
  std::erase_if(fenced, [&](DatasetId id) { return base->removed.Contains(id); });
  return fenced;
}

bool Launches::State::CommitCounts(DatasetId id, LaunchId committer) const {
  if (committer == 0 || newest == 0 || base->counts.Contains(id)) return true;
  return committer > newest || (committer == newest && !abandoned);
}

bool Launches::State::RemovalCounts(DatasetId id, LaunchId committer) const {
  if (newest == 0) return true;
  return base->removed.Contains(id) || committer > newest || (committer == newest && !abandoned);
}

absl::StatusOr<Launches::State> Launches::Now() {
  State state{.newest = 0, .abandoned = false, .base = std::make_shared<LaunchBase>()};
  auto numbers = Numbers(/*fresh=*/true);
  if (absl::IsPermissionDenied(numbers.status()) && !writable_) return state;  // another user's: what is there counts
  if (!numbers.ok()) return numbers.status();
  for (auto rest = *numbers; !rest.empty(); rest.pop_back()) {
    const auto launch = Find(rest.back());
    if (absl::IsNotFound(launch.status())) continue;
    if (!launch.ok() && !absl::IsDataLoss(launch.status())) return launch.status();
    if (launch.ok() && !launch->has_base()) continue;
    auto base = BaseOf(rest.back());
    if (absl::IsNotFound(base.status())) continue;  // nobody acts under it yet
    if (!base.ok()) return base.status();
    state.newest = rest.back();
    state.abandoned = launch.ok() && launch->abandoned;
    state.base = *std::move(base);
    return state;
  }
  return state;
}

}  // namespace cairn
