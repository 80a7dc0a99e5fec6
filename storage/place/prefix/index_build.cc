// Into the index: what was dropped or lost, and what a scavenge has left.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "proto/frame.h"
#include "storage/base/clock.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/transfer/transfer.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/place/names.h"
#include "storage/place/prefix/commit.h"
#include "storage/place/prefix/handed_over.h"
#include "storage/place/prefix/identity.h"
#include "storage/place/prefix/index_access.h"
#include "storage/place/prefix/index_rules.h"
#include "storage/place/prefix/index_tools.h"
#include "storage/place/prefix/inside.h"
#include "storage/place/prefix/placing.h"
#include "storage/place/prefix/scr_dataset.h"
#include "storage/place/prefix/scr_names.h"
#include "storage/place/prefix/waiting.h"

namespace cairn {
namespace {

constexpr std::size_t kNamedMax = 10;

// What such an error says about a file is final; any other is the storage's own trouble.
bool IsAboutTheFile(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsFailedPrecondition(status) || absl::IsDataLoss(status) ||
         absl::IsInvalidArgument(status);
}

// Those that are not there in their size.
absl::StatusOr<std::vector<std::string>> WhatIsMissing(Inside& inside, const catalogue::Catalogue& catalogue) {
  std::vector<std::string> missing;
  for (const catalogue::FileEntry& file : catalogue.file()) {
    const auto info = inside.Find(file.prefix_name());
    if (!info.ok() && !IsAboutTheFile(info.status())) return info.status();
    if (!info.ok()) {
      missing.push_back(fmt::format("{}: {}", file.prefix_name(), MessageOf(info.status())));
    } else if (info->bytes != file.bytes()) {
      missing.push_back(fmt::format("{}: {} bytes instead of {}", file.prefix_name(), info->bytes, file.bytes()));
    }
  }
  return missing;
}

// Those whose bytes are not what their catalogue says.
absl::StatusOr<std::vector<std::string>> WhatIsDamaged(Disk& disk, const std::string& prefix,
                                                       const catalogue::Catalogue& catalogue) {
  std::vector<std::string> damaged;
  for (const catalogue::FileEntry& file : catalogue.file()) {
    const absl::Status whole = VerifyFile(disk, prefix + "/" + file.prefix_name(), file);
    if (!whole.ok() && !IsAboutTheFile(whole)) return whole;
    if (!whole.ok()) damaged.emplace_back(MessageOf(whole));
  }
  return damaged;
}

// Sizes first: what is missing shows at once, bytes may take hours.
absl::Status CheckFiles(Disk& disk, const std::string& prefix, const std::vector<catalogue::Catalogue>& catalogues) {
  Inside inside(disk, prefix);
  std::vector<std::string> missing;
  for (const bool bytes : {false, true}) {
    if (!missing.empty()) break;
    for (const catalogue::Catalogue& catalogue : catalogues) {
      CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> of_rank,
                             bytes ? WhatIsDamaged(disk, prefix, catalogue) : WhatIsMissing(inside, catalogue));
      missing.insert(missing.end(), of_rank.begin(), of_rank.end());
    }
  }
  if (missing.empty()) return absl::OkStatus();
  const std::size_t count = missing.size();
  missing.resize(std::min(count, kNamedMax));
  return DataLoss("{} files are not whole: {}{}", count, fmt::join(missing, "; "), count > kNamedMax ? "; …" : "");
}

// When a restart from it has failed, by the index; empty: not that it says so.
std::string FailedAt(SharedRecords& records, DatasetId id) {
  const auto index = records.ReadIndex();
  if (!index.ok()) return {};
  const auto entry = index_rules::EntryOf(id, *index);
  return entry.ok() && *entry ? (*entry)->failed : std::string();
}

// Why it stays out of the index.
absl::Status Refused(SharedRecords& records, DatasetId id, const absl::Status& why) {
  const std::string failed = FailedAt(records, id);
  return failed.empty() ? why
                        : Annotate(why, fmt::format("a restart from dataset {} failed at {}, and it is not "
                                                    "whole",
                                                    id, failed));
}

// What is added takes CURRENT as if it had been committed now, but for a bound that someone has set.
absl::Status Enter(SharedRecords& records, const std::function<absl::StatusOr<scr::Descriptor>(kvtree::Tree&)>& put) {
  return records.ChangeIndex([&](kvtree::Tree& index) -> absl::Status {
    bool bound = false;
    if (!index.empty()) {
      CAIRN_ASSIGN_OR_RETURN(const scr::Index before, scr::GetIndex(index));
      bound = index_rules::BoundOf(before, index).id != 0;
    }
    CAIRN_ASSIGN_OR_RETURN(const scr::Descriptor entered, put(index));
    CAIRN_ASSIGN_OR_RETURN(const auto entry, index_rules::EntryOf(entered.id, index));
    if (!bound && entry && index_rules::IsRestartable(*entry)) {
      index_rules::FollowCommit(entered, index);
    }
    return absl::OkStatus();
  });
}

absl::Status AddOwn(Disk& disk, const std::string& prefix, SharedRecords& records, const CommitRecord& commit) {
  CAIRN_ASSIGN_OR_RETURN(const auto catalogues, ReadCatalogues(disk, prefix, records, commit.descriptor.id));
  if (const absl::Status whole = CheckFiles(disk, prefix, catalogues); !whole.ok()) {
    return Refused(records, commit.descriptor.id, whole);
  }
  const index_access::FileLists lists = index_access::ListsOf(catalogues);
  CAIRN_ASSIGN_OR_RETURN(const auto wrong, index_access::WrongRecords(disk, records, commit, lists));
  if (!wrong.empty()) {
    CAIRN_RETURN_IF_ERROR(WriteFileLists(disk, records.DatasetFolder(commit.descriptor.id), commit.descriptor, lists));
  }
  return Enter(records, [&](kvtree::Tree& index) -> absl::StatusOr<scr::Descriptor> {
    CAIRN_RETURN_IF_ERROR(SharedRecords::EnterCommit(commit, /*verified=*/true, index));
    return commit.descriptor;
  });
}

absl::Status EnterScr(SharedRecords& records, const scr::Descriptor& descriptor) {
  return Enter(records, [&](kvtree::Tree& index) -> absl::StatusOr<scr::Descriptor> {
    scr::IndexEntry entry;
    CAIRN_ASSIGN_OR_RETURN(const auto there, index_rules::EntryOf(descriptor.id, index));
    if (there) entry = *there;
    entry.descriptor = descriptor;
    entry.complete = true;
    entry.failed.clear();  // its files have just been looked at
    if (entry.flushed.empty()) entry.flushed = scr::LocalTime(NowMicros());
    scr::PutIndexEntry(entry, index);
    return descriptor;
  });
}

// Answers how many ranks it has.
absl::StatusOr<std::uint32_t> AddScr(Disk& disk, const std::string& prefix, SharedRecords& records, DatasetId id) {
  const auto descriptor = records.ReadScrSummary(id);
  if (absl::IsFailedPrecondition(descriptor.status())) return DataLoss("{}", MessageOf(descriptor.status()));
  if (!descriptor.ok()) return descriptor.status();
  const auto there = LookAtScrDataset(disk, prefix, records, *descriptor);
  if (!there.ok()) return Refused(records, id, there.status());
  CAIRN_RETURN_IF_ERROR(EnterScr(records, *descriptor));
  return there->descriptor.ranks.value_or(0);
}

// --- Build ---

// What others have noted of the dataset while it was cached or on its way: flush file, index, its own summary.
std::optional<scr::Descriptor> NotedDescriptor(Disk& disk, SharedRecords& records, DatasetId id) {
  const auto usable = [id](const scr::Descriptor& found) {
    return !found.name.empty() && (found.id == id || found.id == 0);
  };
  if (const auto flush = ReadTree(disk, records.Folder() + "/flush.scr"); flush.ok()) {
    const auto entries = scr::GetFlushEntries(*flush);
    if (entries.ok()) {
      const auto at = entries->find(id);
      if (at != entries->end() && at->second.descriptor && usable(*at->second.descriptor)) return at->second.descriptor;
    }
  }
  if (const auto index = records.ReadIndex(); index.ok() && !index->empty()) {
    const auto entry = index_rules::EntryOf(id, *index);
    if (entry.ok() && *entry && usable((*entry)->descriptor)) return (*entry)->descriptor;
  }
  if (const auto tree = ReadTree(disk, records.DatasetFolder(id) + "/summary.scr"); tree.ok()) {
    const auto descriptor = scr::GetSummary(*tree);
    if (descriptor.ok() && usable(*descriptor)) return *descriptor;
  }
  return std::nullopt;
}

void IsMissing(IndexBuilt& built, Rank rank, std::string reason) {
  if (built.missing.empty() || built.missing.back() != rank) built.missing.push_back(rank);
  built.reasons.push_back(fmt::format("rank {}: {}", rank, reason));
}

// The ranks that left something, by their files' numbers.
absl::StatusOr<std::vector<Rank>> RanksIn(Disk& disk, const std::string& folder, std::string_view before,
                                          std::string_view after) {
  std::vector<Rank> ranks;
  const auto names = disk.List(folder);
  if (absl::IsNotFound(names.status())) return ranks;
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (!name.ends_with(after)) continue;
    const auto rank = NumberAfter(std::string_view(name).substr(0, name.size() - after.size()), before);
    if (rank && *rank < CAIRN_RANKS_MAX) ranks.push_back(static_cast<Rank>(*rank));
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

// Cairn's own: catalogues say everything but what kind of dataset it is.
absl::StatusOr<IndexBuilt> BuildOwn(Disk& disk, const std::string& prefix, SharedRecords& records, DatasetId id,
                                    const std::vector<Rank>& ranks) {
  IndexBuilt built{.id = id, .ranks = 0, .missing = {}, .reasons = {}};
  std::map<Rank, catalogue::Catalogue> found;
  for (const Rank rank : ranks) {
    const std::string path = prefix + "/" + CataloguePrefixName(id, rank);
    const auto text = ReadWhole(disk, path, kCatalogueBytesMax);
    if (!text.ok()) return text.status();
    auto catalogue = DecodeCatalogue(path, *text);
    if (!catalogue.ok() && !absl::IsDataLoss(catalogue.status())) return catalogue.status();
    if (!catalogue.ok() || catalogue->dataset() != id || catalogue->rank() != rank) {
      built.reasons.push_back(
          catalogue.ok() ? fmt::format("{}: is of dataset {}, rank {}", path, catalogue->dataset(), catalogue->rank())
                         : std::string(MessageOf(catalogue.status())));
      continue;
    }
    built.ranks = std::max(built.ranks, catalogue->nranks());
    found.emplace(rank, *std::move(catalogue));
  }
  if (found.empty()) return DataLoss("dataset {}: no catalogue can be read: {}", id, fmt::join(built.reasons, "; "));
  CAIRN_ASSIGN_OR_RETURN(const bool placing, records.IsPlacing(id));
  Inside inside(disk, prefix);
  std::vector<catalogue::Catalogue> catalogues;
  for (Rank rank = 0; rank < built.ranks; ++rank) {
    const auto at = found.find(rank);
    if (at == found.end()) {
      IsMissing(built, rank, "no catalogue");
      continue;
    }
    // Under their names others' may lie, of the same size.
    CAIRN_ASSIGN_OR_RETURN(const WaitingFiles waiting,
                           placing ? StillWaiting(disk, prefix, {at->second}) : WaitingFiles());
    for (const auto& [name, path] : waiting) IsMissing(built, rank, fmt::format("{}: waits as {}", name, path));
    CAIRN_ASSIGN_OR_RETURN(std::vector<std::string> of_rank, WhatIsMissing(inside, at->second));
    for (std::string& one : of_rank) IsMissing(built, rank, std::move(one));
    catalogues.push_back(std::move(at->second));
  }
  if (!built.missing.empty()) return built;
  scr::Descriptor descriptor = NotedDescriptor(disk, records, id).value_or(scr::Descriptor());
  const catalogue::Catalogue& first = catalogues.front();
  descriptor.id = id;
  if (descriptor.name.empty()) descriptor.name = DatasetName(id);
  if (descriptor.created_us == 0) descriptor.created_us = NowMicros();
  descriptor.launch = first.launch();
  descriptor.step = first.step();
  descriptor.ranks = first.nranks();
  descriptor.own_files = first.files();
  const absl::Status committed = CommitInPlace(disk, prefix, records, descriptor, catalogues);
  if (absl::IsInvalidArgument(committed)) return DataLoss("{}", MessageOf(committed));
  if (!absl::IsAlreadyExists(committed)) CAIRN_RETURN_IF_ERROR(committed);
  if (absl::IsAlreadyExists(committed)) {  // it had been dropped
    CAIRN_ASSIGN_OR_RETURN(const CommitRecord commit, records.ReadCommit(id));
    CAIRN_RETURN_IF_ERROR(AddOwn(disk, prefix, records, commit));
  }
  return built;
}

// Where a file that META names lies below the prefix, which may have had another path when it was written: what PATH
// says, else the longest end of it that leads to a file of that size.
absl::StatusOr<std::string> PlaceOf(Inside& inside, const std::string& prefix, const scr::Meta& meta) {
  if (meta.directory.empty() || meta.name.empty()) return DataLoss("no PATH and NAME");
  const std::string path = meta.directory + "/" + meta.name;
  if (const auto below = NormalizeFileName(prefix, path); below.ok()) {
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, inside.Find(*below));
    if (info.bytes != meta.bytes) return DataLoss("{}: {} bytes instead of {}", *below, info.bytes, meta.bytes);
    return *below;
  }
  for (std::size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
    const auto name = NormalizeFileName(prefix, path.substr(at + 1));
    if (!name.ok()) continue;
    const auto info = inside.Find(*name);
    if (info.ok() && info->bytes == meta.bytes) return *name;
    if (!info.ok() && !IsAboutTheFile(info.status())) return info.status();
  }
  return NotFound("{}: not below {} in its {} bytes", path, prefix, meta.bytes);
}

// SCR's own: filemaps as a drain leaves them.
absl::StatusOr<IndexBuilt> BuildScr(Disk& disk, const std::string& prefix, SharedRecords& records, DatasetId id,
                                    const std::vector<Rank>& ranks) {
  IndexBuilt built{.id = id, .ranks = 0, .missing = {}, .reasons = {}};
  const std::string folder = records.DatasetFolder(id);
  std::map<Rank, scr::Filemap> found;
  for (const Rank rank : ranks) {
    const std::string path = fmt::format("{}/filemap_{}", folder, rank);
    const auto tree = ReadTree(disk, path);
    if (!tree.ok() && !absl::IsDataLoss(tree.status()) && !absl::IsNotFound(tree.status())) return tree.status();
    auto filemap = tree.ok() ? scr::GetFilemap(*tree) : absl::StatusOr<scr::Filemap>(tree.status());
    if (!filemap.ok()) {
      built.reasons.push_back(fmt::format("{}: {}", path, MessageOf(filemap.status())));
      continue;
    }
    for (const auto& [cached, meta] : filemap->files) built.ranks = std::max(built.ranks, meta.ranks);
    found.emplace(rank, *std::move(filemap));
  }
  if (!ranks.empty()) built.ranks = std::max(built.ranks, ranks.back() + 1);
  if (built.ranks > CAIRN_RANKS_MAX) return DataLoss("dataset {}: RANKS {}", id, built.ranks);

  Inside inside(disk, prefix);
  std::vector<std::vector<std::string>> files(built.ranks);
  std::uint64_t count = 0, bytes = 0;
  for (Rank rank = 0; rank < built.ranks; ++rank) {
    const auto at = found.find(rank);
    if (at == found.end()) {
      IsMissing(built, rank, "no filemap");
      continue;
    }
    for (const auto& [cached, meta] : at->second.files) {
      const auto place = meta.complete ? PlaceOf(inside, prefix, meta)
                                       : absl::StatusOr<std::string>(DataLoss("{}: was never complete", cached));
      if (!place.ok() && !IsAboutTheFile(place.status())) return place.status();
      if (!place.ok()) {
        IsMissing(built, rank, std::string(MessageOf(place.status())));
        continue;
      }
      files[rank].push_back(*place);
      ++count;
      bytes += meta.bytes;
    }
  }
  if (!built.missing.empty()) return built;
  scr::Descriptor descriptor = NotedDescriptor(disk, records, id).value_or(scr::Descriptor());
  descriptor.id = id;
  if (descriptor.name.empty()) descriptor.name = RecordsFolderName(id);
  // A daemon that has it in its cache notes it with fields of Cairn's; it is SCR's all the same.
  descriptor.launch.reset();
  descriptor.step.reset();
  descriptor.ranks.reset();
  descriptor.own_files = false;
  descriptor.files = count;
  descriptor.bytes = bytes;
  descriptor.complete = true;
  CAIRN_RETURN_IF_ERROR(WriteFileLists(disk, folder, descriptor, files));
  CAIRN_RETURN_IF_ERROR(EnterScr(records, descriptor));
  return built;
}

}  // namespace

absl::StatusOr<DatasetId> AddToIndex(Disk& disk, const std::string& prefix, std::string_view name) {
  SharedRecords records(disk, prefix, index_access::RunOf(disk, prefix));
  CAIRN_RETURN_IF_ERROR(records.Mend());
  CAIRN_ASSIGN_OR_RETURN(const DatasetId id, index_access::FindRecords(records, name));
  auto commit = records.ReadCommit(id);
  // What SCR has written since under that number is there, and Cairn's lists are not.
  if (commit.ok() && records.ReadScrSummary(id).ok()) commit = NotFound("dataset {} is SCR's", id);
  if (commit.ok()) {
    CAIRN_ASSIGN_OR_RETURN(const bool counts, records.Counts(*commit));
    if (!counts) CAIRN_RETURN_IF_ERROR(CommitAgain(disk, records, *commit));
    ScrNames scr_names;
    CAIRN_RETURN_IF_ERROR(FinishPlacings(disk, prefix, records, scr_names));  // it may have waited for that
    CAIRN_RETURN_IF_ERROR(AddOwn(disk, prefix, records, *commit));
  } else if (absl::IsNotFound(commit.status())) {
    const absl::Status added = AddScr(disk, prefix, records, id).status();
    if (absl::IsNotFound(added)) {
      CAIRN_ASSIGN_OR_RETURN(const bool removed, records.IsRemoved(id));
      if (removed) return NotFound("{}: dataset {} was removed with its files and cannot be added", prefix, id);
    }
    CAIRN_RETURN_IF_ERROR(added);
  } else {
    return commit.status();
  }
  return id;
}

absl::StatusOr<IndexBuilt> BuildIndex(Disk& disk, const std::string& prefix, DatasetId id) {
  if (id == 0 || id > identity::kDatasetIdMax) return InvalidArgument("{} is no dataset", id);
  SharedRecords records(disk, prefix, index_access::RunOf(disk, prefix));
  CAIRN_RETURN_IF_ERROR(records.Mend());
  CAIRN_ASSIGN_OR_RETURN(const kvtree::Tree index, records.ReadIndex());
  CAIRN_ASSIGN_OR_RETURN(const auto entry, index_rules::EntryOf(id, index));
  if (entry && entry->complete) {
    CAIRN_ASSIGN_OR_RETURN(const bool handed_over, IsHandedOver(disk, records, *entry));
    if (!handed_over) return AlreadyExists("{}: dataset {} is in the index", prefix, id);
  }
  CAIRN_ASSIGN_OR_RETURN(const auto own, RanksIn(disk, prefix + "/" + DatasetName(id), "rank_", ".cat"));
  if (!own.empty()) return BuildOwn(disk, prefix, records, id, own);
  CAIRN_ASSIGN_OR_RETURN(const auto scr, RanksIn(disk, records.DatasetFolder(id), "filemap_", ""));
  // SCR had it whole once, as its summary says: a flush leaves no filemaps.
  if (const auto ranks = AddScr(disk, prefix, records, id); ranks.ok()) {
    return IndexBuilt{.id = id, .ranks = *ranks, .missing = {}, .reasons = {}};
  } else if (scr.empty() && !absl::IsNotFound(ranks.status())) {
    return ranks.status();
  }
  if (!scr.empty()) return BuildScr(disk, prefix, records, id, scr);
  return NotFound("{}: nothing of a dataset {}: no catalogues in {}, no filemaps in {}", prefix, id, DatasetName(id),
                  records.DatasetFolder(id));
}

}  // namespace cairn
