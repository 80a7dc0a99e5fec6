#include "storage/place/prefix/in_flight.h"

#include "storage/base/path.h"

#include <algorithm>
#include <utility>

#include "storage/base/status.h"
#include "storage/place/prefix/commit.h"
#include "storage/place/prefix/index_rules.h"
#include "storage/place/prefix/place.h"
#include "storage/place/prefix/removal.h"
#include "storage/place/prefix/scr_dataset.h"

namespace cairn {
namespace {

// Whose entry of flush.scr it is: each node's daemon mends its own only.
constexpr std::string_view kNodeKey = "CAIRN_NODE";

using FilesByName = std::map<std::string, const catalogue::FileEntry*>;

FilesByName ByName(const std::vector<catalogue::Catalogue>* catalogues, RealNames& real) {
  FilesByName files;
  if (catalogues == nullptr) return files;
  for (const catalogue::Catalogue& catalogue : *catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) files[real.Of(file.prefix_name())] = &file;
  }
  return files;
}

bool SameBytes(const catalogue::FileEntry& a, const catalogue::FileEntry& b) {
  return a.bytes() == b.bytes() && a.crc32() == b.crc32() &&
         std::equal(a.crc32c().begin(), a.crc32c().end(), b.crc32c().begin(), b.crc32c().end());
}

// Files that are about to be replaced, or have been; all names are real ones.
struct Replaced {
  RealNames& real;
  const std::set<std::string>& names;
  const FilesByName in_place;

  bool Has(const catalogue::FileEntry& file) const {
    const std::string name = real.Of(file.prefix_name());
    if (!names.contains(name)) return false;
    const auto there = in_place.find(name);
    return there == in_place.end() || !SameBytes(*there->second, file);
  }
  bool HasOneOf(const std::vector<catalogue::Catalogue>& catalogues) const {
    return std::any_of(catalogues.begin(), catalogues.end(), [this](const catalogue::Catalogue& catalogue) {
      return std::any_of(catalogue.file().begin(), catalogue.file().end(),
                         [this](const catalogue::FileEntry& file) { return Has(file); });
    });
  }
};

// What a committed dataset of the application's files has of the names: its catalogues if it has one, none if not. If
// they are damaged SCR's lists tell: SCR would restore it by them.
absl::StatusOr<std::optional<std::vector<catalogue::Catalogue>>> CataloguesIfReplaced(
    Disk& disk, const std::string& prefix, SharedRecords& records, DatasetId id, const Replaced& replaced) {
  auto catalogues = ReadCatalogues(disk, prefix, records, id);
  if (catalogues.ok()) {
    if (!replaced.HasOneOf(*catalogues)) return std::nullopt;
    return *std::move(catalogues);
  }
  if (absl::IsNotFound(catalogues.status())) return std::nullopt;  // removed meanwhile
  if (!absl::IsDataLoss(catalogues.status())) return catalogues.status();
  records.Warn(fmt::format("dataset {}: {}", id, MessageOf(catalogues.status())));
  const auto listed = ListedNames(disk, records.DatasetFolder(id));
  if (absl::IsDataLoss(listed.status())) return std::nullopt;  // nobody can restore it, whatever becomes of its files
  if (!listed.ok()) return listed.status();
  const bool has = std::any_of(listed->begin(), listed->end(), [&](const std::string& name) {
    return replaced.names.contains(replaced.real.Of(name));
  });
  if (!has) return std::nullopt;
  return std::vector<catalogue::Catalogue>();
}

// SCR's own datasets that have one of the names.
absl::StatusOr<std::vector<DatasetId>> ReplacedOfScr(Disk& disk, SharedRecords& records, const PrefixView& view,
                                                     ScrNames& scr_names, DatasetId by,
                                                     const std::set<std::string>& names) {
  std::vector<DatasetId> replaced;
  const auto own = view.index.datasets.find(by);  // from the start of its flush
  for (const auto& [id, entry] : view.index.datasets) {
    if (entry.descriptor.launch || !entry.complete) continue;
    const kvtree::Tree* as_read = view.tree.FindPath({"DSET", fmt::format("{}", id)});
    if (as_read == nullptr) continue;
    CAIRN_ASSIGN_OR_RETURN(const bool has, scr_names.HasOneOf(disk, records, id, *as_read, names));
    if (!has) continue;
    // SCR may have given out the same number, or an older one again.
    const bool newer = id >= by || (own != view.index.datasets.end() &&
                                    index_rules::IsNewer(entry.descriptor, own->second.descriptor));
    if (newer && entry.failed.empty()) {
      return Aborted("dataset {} of SCR's, which is newer, has put files under names of dataset {}", id, by);
    }
    replaced.push_back(id);
  }
  return replaced;
}

// They are marked first, all of them: nobody gives way to a launch that is fenced.
absl::Status WithdrawAll(Disk& disk, SharedRecords& records,
                         const std::map<DatasetId, std::vector<catalogue::Catalogue>>& datasets, LaunchId committer) {
  std::set<DatasetId> ids;
  for (const auto& [id, catalogues] : datasets) ids.insert(id);
  if (committer != 0 && !ids.empty()) CAIRN_RETURN_IF_ERROR(MarkRemovals(disk, records, ids, committer));
  for (const DatasetId id : ids) {
    CAIRN_RETURN_IF_ERROR(WithdrawDataset(disk, records, id));
    if (committer != 0) CAIRN_RETURN_IF_ERROR(UnmarkRemoval(disk, records, id, committer));
  }
  return absl::OkStatus();
}

std::vector<DatasetId> EntriesOf(std::string_view node, const kvtree::Tree& flush) {
  std::vector<DatasetId> ids;
  const kvtree::Tree* datasets = flush.Find("DATASET");
  if (datasets == nullptr) return ids;
  for (const auto& [key, entry] : datasets->elements()) {
    const auto id = NumberAfter(key, "");
    if (id && entry.Get(kNodeKey).value_or("") == node) ids.push_back(*id);
  }
  return ids;
}

}  // namespace

absl::Status BeginInIndex(SharedRecords& records, const scr::Descriptor& descriptor) {
  const DatasetId id = descriptor.id;
  CAIRN_ASSIGN_OR_RETURN(const bool removed, records.IsRemoved(id));
  if (removed) return Aborted("dataset {} was removed from the prefix and cannot come back", id);
  bool committed = false;
  CAIRN_RETURN_IF_ERROR(records.ChangeIndex([&](kvtree::Tree& index) -> absl::Status {
    scr::IndexEntry entry;
    committed = false;
    if (!index.empty()) {
      CAIRN_RETURN_IF_ERROR(CheckNumber(records, id, index));
      // Perhaps its entry was taken out since: then it stays out.
      committed = IsMerged(id, index);
      if (committed) return absl::OkStatus();
      CAIRN_ASSIGN_OR_RETURN(const auto there, index_rules::EntryOf(id, index));
      if (there) entry = *there;
    }
    entry.descriptor = descriptor;
    entry.descriptor.complete = false;
    entry.complete = false;
    scr::PutIndexEntry(entry, index);
    return absl::OkStatus();
  }));
  return committed ? AlreadyExists("dataset {} is committed", id) : absl::OkStatus();
}

absl::StatusOr<ReplacedDatasets> FindReplaced(Disk& disk, const std::string& prefix, SharedRecords& records,
                                              ScrNames& scr_names, DatasetId by, const std::set<std::string>& names,
                                              const std::vector<catalogue::Catalogue>* in_place) {
  ReplacedDatasets replaced;
  CAIRN_RETURN_IF_ERROR(CheckMayCommit(records, by));
  if (names.empty()) return replaced;
  RealNames real(disk, prefix);
  std::set<std::string> real_names;
  for (const std::string& name : names) real_names.insert(real.Of(name));
  const Replaced files{.real = real, .names = real_names, .in_place = ByName(in_place, real)};
  CAIRN_ASSIGN_OR_RETURN(const PrefixView view, records.LookQuickly());
  for (const auto& [id, commit] : view.commits) {
    if (id == by || !commit.descriptor.own_files) continue;
    CAIRN_ASSIGN_OR_RETURN(auto catalogues, CataloguesIfReplaced(disk, prefix, records, id, files));
    if (!catalogues) continue;
    if (id > by) return Aborted("dataset {}, which is newer, has put files under names of dataset {}", id, by);
    replaced.own[id] = *std::move(catalogues);
  }
  std::set<std::string> both = names;  // SCR's lists are not resolved
  both.merge(real_names);
  CAIRN_ASSIGN_OR_RETURN(replaced.of_scr, ReplacedOfScr(disk, records, view, scr_names, by, both));
  return replaced;
}

absl::StatusOr<std::map<DatasetId, std::vector<catalogue::Catalogue>>> WithdrawReplaced(
    Disk& disk, const std::string& prefix, SharedRecords& records, ScrNames& scr_names, DatasetId by,
    const std::set<std::string>& names, LaunchId committer, const std::vector<catalogue::Catalogue>* in_place) {
  CAIRN_ASSIGN_OR_RETURN(ReplacedDatasets replaced,
                         FindReplaced(disk, prefix, records, scr_names, by, names, in_place));
  CAIRN_RETURN_IF_ERROR(WithdrawAll(disk, records, replaced.own, committer));
  for (const DatasetId id : replaced.of_scr) {
    CAIRN_RETURN_IF_ERROR(WithdrawScrDataset(disk, records, id));
    replaced.own[id] = {};
  }
  return std::move(replaced.own);
}

absl::Status UpdateFlushEntries(SharedRecords& records, std::string_view node,
                                const std::map<DatasetId, std::optional<scr::FlushEntry>>& entries, bool only_these) {
  return records.ChangeFlush([&](kvtree::Tree& flush) {
    const std::vector<DatasetId> own = EntriesOf(node, flush);
    for (const DatasetId id : own) {
      const auto wanted = entries.find(id);
      const bool erase = wanted == entries.end() ? only_these : !wanted->second.has_value();
      if (erase) scr::EraseFlushEntry(id, flush);
    }
    for (const auto& [id, entry] : entries) {
      if (!entry) continue;
      scr::PutFlushEntry(id, *entry, flush);
      flush.At("DATASET").At(fmt::format("{}", id)).Set(kNodeKey, node);
    }
    return absl::OkStatus();
  });
}

}  // namespace cairn
