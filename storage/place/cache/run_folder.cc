#include "storage/place/cache/run_folder.h"

#include <algorithm>
#include <span>
#include <utility>

#include "proto/frame.h"
#include "storage/base/checksum.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/cache/cache_index.h"
#include "storage/place/cache/dataset_folder.h"
#include "storage/place/cache/load.h"
#include "storage/place/names.h"
#include "storage/place/own_folder.h"

namespace cairn {
namespace {

constexpr std::string_view kStem = "scr.";
constexpr std::size_t kNameBytesMax = 64;
constexpr std::uint32_t kRanksAsked = 16;  // of each dataset, until one can say
constexpr int kTriesMax = 100;             // folders of the same name that belong to other runs

std::string IdentityPath(const std::string& folder) {
  return folder + "/run.cairn";
}

kvtree::Tree ToTree(const ProvisionalLaunch& launch) {
  kvtree::Tree tree;
  tree.Set("PREDECESSOR", launch.predecessor);
  tree.Set("KEY", launch.key);
  tree.Set("RANKS", std::uint64_t{launch.nranks});
  tree.Set("SECRET", HexOf(std::as_bytes(std::span(launch.secret))));
  tree.Set("FIRST", launch.first);
  tree.Set("LAST", launch.last);
  tree.SetInt("CREATED", launch.created_us);
  return tree;
}

kvtree::Tree ToTree(const RunRecord& record) {
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  tree.Set("RUN", record.run.run.Hex());
  tree.Set("PREFIX", record.prefix);
  for (const RunId& before : record.run.before) tree.At("BEFORE").At(before.Hex());
  if (record.served != 0) tree.Set("SERVED", record.served);
  if (!record.job.empty()) tree.Set("JOB", record.job);
  for (const ProvisionalLaunch& launch : record.provisional) {
    tree.At("PROVISIONAL").At(fmt::format("{}", launch.id)) = ToTree(launch);
  }
  if (record.lost_since_us != 0) tree.SetInt("LOST_SINCE", record.lost_since_us);
  return tree;
}

absl::StatusOr<ProvisionalLaunch> ParseProvisional(std::string_view id, const kvtree::Tree& tree) {
  ProvisionalLaunch launch;
  const auto number = NumberAfter(id, "");
  if (!number || *number == 0) return DataLoss("\"{}\" is no launch", id);
  launch.id = *number;
  CAIRN_ASSIGN_OR_RETURN(launch.predecessor, tree.GetUnsigned("PREDECESSOR"));
  CAIRN_ASSIGN_OR_RETURN(launch.key, tree.GetString("KEY"));
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t nranks, tree.GetUnsigned("RANKS"));
  if (nranks == 0 || nranks > CAIRN_RANKS_MAX)
    return DataLoss("RANKS {}, 1 to {} are possible", nranks, CAIRN_RANKS_MAX);
  launch.nranks = static_cast<std::uint32_t>(nranks);
  CAIRN_ASSIGN_OR_RETURN(const std::string hex, tree.GetString("SECRET"));
  const auto secret = BytesOfHex(hex);
  if (!secret || secret->empty()) return DataLoss("SECRET is not in hex digits");
  launch.secret = *secret;
  CAIRN_ASSIGN_OR_RETURN(launch.first, tree.GetUnsigned("FIRST"));
  CAIRN_ASSIGN_OR_RETURN(launch.last, tree.GetUnsigned("LAST"));
  CAIRN_ASSIGN_OR_RETURN(launch.created_us, tree.GetInt("CREATED"));
  return launch;
}

absl::Status TakeNotes(const kvtree::Tree& tree, RunRecord& record) {
  if (tree.Find("SERVED") != nullptr) {
    CAIRN_ASSIGN_OR_RETURN(record.served, tree.GetUnsigned("SERVED"));
  }
  if (tree.Find("JOB") != nullptr) {
    CAIRN_ASSIGN_OR_RETURN(record.job, tree.GetString("JOB"));
    const bool number = std::ranges::all_of(record.job, [](char c) { return c >= '0' && c <= '9'; });
    if (!number || record.job.empty()) return DataLoss("JOB is no number");
  }
  if (tree.Find("LOST_SINCE") != nullptr) {
    CAIRN_ASSIGN_OR_RETURN(record.lost_since_us, tree.GetInt("LOST_SINCE"));
  }
  const kvtree::Tree* provisional = tree.Find("PROVISIONAL");
  if (provisional == nullptr) return absl::OkStatus();
  for (const std::string_view id : provisional->SortedKeys(kvtree::SortBy::kNumber)) {
    CAIRN_ASSIGN_OR_RETURN(ProvisionalLaunch launch, ParseProvisional(id, *provisional->Find(id)));
    record.provisional.push_back(std::move(launch));
  }
  return absl::OkStatus();
}

absl::StatusOr<RunRecord> ReadRecord(Disk& disk, const std::string& folder) {
  const std::string path = IdentityPath(folder);
  CAIRN_ASSIGN_OR_RETURN(const kvtree::Tree tree, ReadTree(disk, path));
  RunRecord record;
  const auto run = RunId::Parse(tree.Get("RUN").value_or(""));
  if (!run.ok()) return DataLoss("{}: RUN: {}", path, MessageOf(run.status()));
  record.run.run = *run;
  const auto prefix = tree.Get("PREFIX");
  if (!prefix || !prefix->starts_with('/')) return DataLoss("{}: PREFIX is not an absolute path", path);
  record.prefix = *prefix;
  if (const kvtree::Tree* all = tree.Find("BEFORE"); all != nullptr) {
    for (const auto& [hex, empty] : all->elements()) {
      const auto before = RunId::Parse(hex);
      if (!before.ok()) return DataLoss("{}: BEFORE: {}", path, MessageOf(before.status()));
      record.run.before.insert(*before);
    }
  }
  if (const absl::Status taken = TakeNotes(tree, record); !taken.ok()) {
    return DataLoss("{}: {}", path, MessageOf(taken));
  }
  return record;
}

// What the record of a folder said that has lost it: each catalogue says which run it is of, and its rank's filemap
// where on the prefix it belongs. kNotFound: no dataset says so; other errors: none does that the disk lets read.
absl::StatusOr<RunRecord> RecoverRecord(Disk& disk, const std::string& folder) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk.List(folder));
  absl::Status refused;
  const auto note = [&refused](const absl::Status& status) {
    if (refused.ok() && !status.ok() && !IsGoneOrDamaged(status)) refused = status;
  };
  for (const std::string& name : names) {
    const auto id = DatasetOfRecords(name);
    const std::string dataset = folder + "/" + name;
    const auto descriptor = id ? FindDescriptor(disk, dataset, *id) : NotFound("{}", name);
    note(descriptor.status());
    for (Rank rank = 0; descriptor.ok() && rank < std::min(*descriptor->ranks, kRanksAsked); ++rank) {
      const std::string path = dataset + "/" + CatalogueName(rank);
      const auto text = ReadWhole(disk, path, kCatalogueBytesMax);
      const auto catalogue = text.ok() ? DecodeCatalogue(path, *text) : text.status();
      const auto tree = ReadTree(disk, FilemapPath(dataset, rank));
      const auto filemap = tree.ok() ? scr::GetFilemap(*tree) : tree.status();
      note(text.status());
      note(tree.status());
      if (!catalogue.ok() || !filemap.ok()) continue;
      const auto meta = filemap->files.find(path);
      const auto run = RunId::Parse(catalogue->run());
      if (!run.ok() || meta == filemap->files.end()) continue;
      const std::string& directory = meta->second.directory;  // <prefix>/ckpt.<id>
      if (BaseOf(directory) == DatasetName(*id)) {
        RunRecord record;
        record.run.run = *run;
        record.prefix = ParentOf(directory);
        return record;
      }
    }
  }
  CAIRN_RETURN_IF_ERROR(refused);
  return NotFound("{}: no dataset says which run it is of", folder);
}

absl::StatusOr<std::string> UserFolder(const std::string& cache, std::string_view user) {
  if (!cache.starts_with('/')) return InvalidArgument("cache \"{}\" is not absolute", cache);
  if (user.empty() || user == "." || user == ".." || user.find('/') != std::string_view::npos) {
    return InvalidArgument("\"{}\" is no user name", user);
  }
  return fmt::format("{}/{}", cache, user);
}

bool IsLost(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status);
}

// The record is written anew; what is there of a damaged one goes aside.
absl::Status RestoreRecord(Disk& disk, const std::string& folder, const absl::Status& why, const RunRecord& own,
                           RunFolder* result) {
  const absl::StatusOr<std::string> aside = MoveAside(disk, IdentityPath(folder), IdentityPath(folder) + ".damaged");
  if (!aside.ok() && !absl::IsNotFound(aside.status())) return aside.status();
  result->warnings.push_back(aside.ok() ? fmt::format("moved aside to {}: {}", *aside, MessageOf(why))
                                        : fmt::format("made anew: {}", MessageOf(why)));
  return ReplaceTree(disk, IdentityPath(folder), ToTree(own));
}

// As part of a file name; the identity follows, so it need not be unique.
std::string Printable(std::string_view run_name) {
  std::string name(run_name.substr(0, kNameBytesMax));
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return c == '/' || c <= ' ' || c >= 0x7f; }, '_');
  return name.empty() ? "run" : name;
}

// The folder of that name is this run's now: new, or left by a crash before its record, or with a record that cannot be
// read any more (each dataset in it says itself which run it is of). False: it is another run's.
absl::StatusOr<bool> TakeFolder(Disk& disk, const std::string& folder, const RunRecord& own, RunFolder* result) {
  const absl::Status made = disk.MakeDirectory(folder, 0700);
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  CAIRN_RETURN_IF_ERROR(disk.SyncDirectory(ParentOf(folder)));
  CAIRN_RETURN_IF_ERROR(CheckOwnFolder(disk, folder));
  const auto record = ReadRecord(disk, folder);
  if (record.ok()) return record->run.run == own.run.run;
  if (!IsLost(record.status())) return record.status();
  CAIRN_ASSIGN_OR_RETURN(const bool datasets, HasDatasets(disk, folder));
  if (absl::IsDataLoss(record.status()) || datasets) {
    CAIRN_RETURN_IF_ERROR(RestoreRecord(disk, folder, record.status(), own, result));
    return true;
  }
  // Before the record, so that a folder with a record and without an index has lost it. So has one with datasets.
  CAIRN_RETURN_IF_ERROR(CacheIndex::MakeIfMissing(disk, fmt::format("{}/{}", folder, kCacheIndexName)));
  CAIRN_RETURN_IF_ERROR(ReplaceTree(disk, IdentityPath(folder), ToTree(own)));
  return true;
}

}  // namespace

absl::Status StoreRunRecord(Disk& disk, const std::string& folder, const RunRecord& record) {
  return ReplaceTree(disk, IdentityPath(folder), ToTree(record));
}

absl::StatusOr<bool> HasDatasets(Disk& disk, const std::string& folder) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk.List(folder));
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return DatasetOfRecords(name).has_value(); });
}

absl::StatusOr<std::vector<CacheFolder::Found>> CacheFolder::Find(Disk& disk, const std::string& cache,
                                                                  std::string_view user,
                                                                  std::vector<std::string>* unread) {
  CAIRN_ASSIGN_OR_RETURN(const std::string folder, UserFolder(cache, user));
  std::vector<Found> found;
  const auto names = disk.List(folder);
  if (absl::IsNotFound(names.status())) return found;
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (!name.starts_with(kStem)) continue;
    const std::string path = folder + "/" + name;
    auto record = ReadRecord(disk, path);
    const absl::Status damage = absl::IsDataLoss(record.status()) ? record.status() : absl::OkStatus();
    if (IsLost(record.status())) record = RecoverRecord(disk, path);
    if (!record.ok()) {
      const absl::Status& why = damage.ok() ? record.status() : damage;
      if (unread != nullptr && !absl::IsNotFound(why)) {
        unread->push_back(fmt::format("{}: {}", path, MessageOf(why)));
      }
      continue;
    }
    std::string run_name = BaseOf(record->prefix);
    found.push_back({.path = path,
                     .run_name = std::move(run_name),
                     .run = record->run,
                     .prefix = std::move(record->prefix),
                     .served = record->served});
  }
  return found;
}

namespace {

// What was noted stays; where the prefix is, and what it was before, may be new.
absl::Status TakeOver(Disk& disk, const std::string& folder, const RunRecord& noted, RunRecord* own) {
  own->served = noted.served;
  own->job = noted.job;
  own->provisional = noted.provisional;
  own->lost_since_us = noted.lost_since_us;
  own->run.before.insert(noted.run.before.begin(), noted.run.before.end());
  if (own->prefix == noted.prefix && own->run.before == noted.run.before) return absl::OkStatus();
  return StoreRunRecord(disk, folder, *own);
}

absl::StatusOr<RunFolder> FindOrTake(Disk& disk, const std::string& cache, std::string_view user,
                                     std::string_view run_name, const RunIdentity& run, const std::string& prefix) {
  if (!prefix.starts_with('/')) return InvalidArgument("prefix \"{}\" is not absolute", prefix);
  CAIRN_ASSIGN_OR_RETURN(const std::string folder, UserFolder(cache, user));
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, folder, 0700));
  CAIRN_RETURN_IF_ERROR(CheckOwnFolder(disk, folder));
  RunFolder result;
  RunRecord& own = result.record;
  own.run = run;
  own.prefix = prefix;
  CAIRN_ASSIGN_OR_RETURN(const std::vector<CacheFolder::Found> found, CacheFolder::Find(disk, cache, user));
  for (const CacheFolder::Found& there : found) {
    if (there.run.run != run.run) continue;
    CAIRN_RETURN_IF_ERROR(CheckOwnFolder(disk, there.path));
    const auto record = ReadRecord(disk, there.path);
    if (IsLost(record.status())) {
      CAIRN_RETURN_IF_ERROR(RestoreRecord(disk, there.path, record.status(), own, &result));
    } else if (!record.ok()) {
      return record.status();
    } else {
      CAIRN_RETURN_IF_ERROR(TakeOver(disk, there.path, *record, &own));
    }
    result.path = there.path;
    return result;
  }
  const std::string stem = fmt::format("{}/{}{}-{}", folder, kStem, Printable(run_name), run.run.ShortHex());
  for (int n = 1; n <= kTriesMax; ++n) {
    const std::string path = n == 1 ? stem : fmt::format("{}-{}", stem, n);
    CAIRN_ASSIGN_OR_RETURN(const bool taken, TakeFolder(disk, path, own, &result));
    if (!taken) continue;
    result.path = path;
    return result;
  }
  return AlreadyExists("{}: {} folders of that name belong to other runs", stem, kTriesMax);
}

}  // namespace

absl::StatusOr<RunFolder> OpenRunFolder(Disk& disk, const std::string& cache, std::string_view user,
                                        std::string_view run_name, const RunIdentity& run, const std::string& prefix) {
  auto folder = FindOrTake(disk, cache, user, run_name, run, prefix);
  // Who opened the same run a moment before, by another name of its prefix, clears the folder of work files: of this
  // one's, too. By now its record is there.
  if (absl::IsNotFound(folder.status())) folder = FindOrTake(disk, cache, user, run_name, run, prefix);
  return folder;
}

}  // namespace cairn
