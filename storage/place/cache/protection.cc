#include "storage/place/cache/protection.h"

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/scr/redset_records.h"
#include "storage/place/cache/redundancy_record.h"

namespace cairn {
namespace {

using scr::RedsetKind;
using Owned = std::map<Rank, std::vector<std::string>>;

// OK: the file is there as the record says.
absl::Status CheckThere(Disk& disk, const std::string& folder, const kept::File& file) {
  const std::string path = RecordsFolder(folder) + "/" + file.file().name();
  const auto info = disk.Info(path);
  if (absl::IsNotFound(info.status())) return FailedPrecondition("{}: missing", path);
  if (!info.ok()) return info.status();
  if (!info->is_regular()) return FailedPrecondition("{}: not a regular file", path);
  if (info->bytes != file.file().bytes()) {
    return FailedPrecondition("{}: {} bytes instead of {}", path, info->bytes, file.file().bytes());
  }
  return absl::OkStatus();
}

// All that a rank keeps for a set is there as the record says, or `why_not` says what is not.
absl::StatusOr<bool> IsThere(Disk& disk, const std::string& folder, const KeptPair& pair, std::string* why_not) {
  for (const kept::File* file : {pair.data, pair.filemap}) {
    if (file == nullptr) return false;  // it was being made anew: nothing to tell
    const absl::Status there = CheckThere(disk, folder, *file);
    if (there.ok()) continue;
    if (!absl::IsFailedPrecondition(there)) return there;
    *why_not = std::string(MessageOf(there));
    return false;
  }
  return true;
}

void Add(const KeptPair& pair, kept::Record* record) {
  for (const kept::File* file : {pair.data, pair.filemap}) {
    if (file != nullptr) *record->add_files() = *file;
  }
}

// The record without the sets of which something is missing with a rank.
absl::StatusOr<kept::Record> Holding(Disk& disk, const std::string& folder, const kept::Record& record,
                                     std::vector<std::string>* warnings) {
  kept::Record holds = record;
  holds.clear_files();
  for (const auto& [rank, pairs] : PairsByRank(record)) {
    const int before = holds.files_size();
    std::vector<std::string> missing;
    for (const KeptPair& pair : pairs) {
      std::string why_not;
      CAIRN_ASSIGN_OR_RETURN(const bool there, IsThere(disk, folder, pair, &why_not));
      if (there) Add(pair, &holds);
      if (!why_not.empty()) missing.push_back(std::move(why_not));
    }
    const bool some = holds.files_size() > before;
    for (const std::string& what : missing) {
      warnings->push_back(fmt::format("{}; rank {} protects {}", what, rank,
                                      some ? "others by another set only" : "no other any more"));
    }
  }
  return holds;
}

absl::Status StoreRecord(Disk& disk, const std::string& folder, const kept::Record& record) {
  return record.files().empty() ? RemoveRedundancyRecord(disk, folder) : WriteRedundancyRecord(disk, folder, record);
}

// The rank's set as a sound descriptor has it; nullopt: there is none, or it is damaged.
absl::StatusOr<std::optional<scr::SetDescriptor>> DescribedSet(Disk& disk, const std::string& path, Rank rank) {
  const auto tree = ReadTree(disk, path);
  if (absl::IsNotFound(tree.status()) || absl::IsDataLoss(tree.status())) return std::nullopt;
  if (!tree.ok()) return tree.status();
  const auto sets = scr::GetSetDescriptors(*tree);
  if (!sets.ok()) return std::nullopt;
  const auto set = sets->find(rank);
  return set == sets->end() ? std::nullopt : std::optional(set->second);
}

// The rank's records of one kind, where its descriptor is sound and of another set than the record's.
class RankSettler {
 public:
  RankSettler(Disk& disk, const std::string& folder, const std::string& prefix, const scr::Descriptor& descriptor,
              const StoredCatalogue& stored, const RankSets& sets)
      : disk_(disk), folder_(folder), prefix_(prefix), descriptor_(descriptor), stored_(stored), sets_(sets) {}

  absl::Status Settle(RedsetKind kind) const {
    const Rank rank = stored_.catalogue.rank();
    const std::string path = RecordsFolder(folder_) + "/" +
                             scr::FileNameOf({.kind = kind, .what = scr::RedsetName::What::kDescriptor, .rank = rank});
    CAIRN_ASSIGN_OR_RETURN(const auto found, DescribedSet(disk_, path, rank));
    if (!found) return absl::OkStatus();
    if (const kept::Set* const set = SetOf(sets_, rank); set != nullptr) {
      const RankRecords::Tree wanted = MakeSetDescriptor(folder_, kind, *set, rank, stored_.catalogue.nranks());
      const auto now = ReadTree(disk_, path);
      if (now.ok() && now->SameAs(wanted.second)) return absl::OkStatus();
      return ReplaceTree(disk_, path, wanted.second);
    }
    if (found->ranks == 1) return absl::OkStatus();
    CAIRN_ASSIGN_OR_RETURN(const auto single, Single(kind));
    // The descriptor last: by it the next start sees that this was cut short.
    for (auto tree = single.rbegin(); tree != single.rend(); ++tree) {
      CAIRN_RETURN_IF_ERROR(ReplaceTree(disk_, tree->first, tree->second));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::vector<RankRecords::Tree>> Single(RedsetKind kind) const {
    if (kind == RedsetKind::kFilemaps) {
      return MakeFilemapRecords(disk_, folder_, stored_.catalogue.rank(), stored_.catalogue.nranks(), {});
    }
    CAIRN_ASSIGN_OR_RETURN(RankRecords records, MakeRankRecords(disk_, folder_, prefix_, descriptor_, stored_, {}));
    return std::move(records.of_data);
  }

  Disk& disk_;
  const std::string& folder_;
  const std::string& prefix_;
  const scr::Descriptor& descriptor_;
  const StoredCatalogue& stored_;
  const RankSets& sets_;
};

absl::Status SettleRank(Disk& disk, const std::string& folder, const std::string& prefix,
                        const scr::Descriptor& descriptor, const StoredCatalogue& stored, const RankSets& sets) {
  const RankSettler rank(disk, folder, prefix, descriptor, stored, sets);
  CAIRN_RETURN_IF_ERROR(rank.Settle(RedsetKind::kData));
  return rank.Settle(RedsetKind::kFilemaps);
}

// Which files the lists name, whatever redundancy files these have.
Owned WithoutHeaders(const Owned& owned) {
  Owned files;
  for (const auto& [rank, paths] : owned) {
    for (const std::string& path : paths) {
      const auto name = scr::ParseRedsetName(BaseOf(path));
      if (!name || name->what != scr::RedsetName::What::kHeader) files[rank].push_back(path);
    }
  }
  return files;
}

// A list that names all that it has to, but other redundancy files or more ranks.
bool IsOfOtherSets(const Owned& found, const Owned& wanted) {
  const Owned files = WithoutHeaders(found);
  for (const auto& [rank, paths] : WithoutHeaders(wanted)) {
    const auto there = files.find(rank);
    if (there == files.end() || there->second != paths) return false;
  }
  return found != wanted;
}

absl::Status SettleLists(Disk& disk, const std::string& folder, std::uint32_t nranks,
                         const std::vector<RankFiles>& ranks) {
  for (const auto& [path, wanted] : MakeOwnershipLists(folder, nranks, ranks)) {
    const auto tree = ReadTree(disk, path);
    if (!tree.ok() && !absl::IsNotFound(tree.status()) && !absl::IsDataLoss(tree.status())) return tree.status();
    const auto found = tree.ok() ? scr::GetOwnership(*tree) : tree.status();
    const auto has_to_be = scr::GetOwnership(wanted);
    if (!found.ok() || !has_to_be.ok() || !IsOfOtherSets(*found, *has_to_be)) continue;
    CAIRN_RETURN_IF_ERROR(ReplaceTree(disk, path, wanted));
  }
  return absl::OkStatus();
}

// Each rank that protects others does so with data and filemap.
absl::Status CheckProtection(Disk& disk, const std::string& folder, const kept::Record& record) {
  for (const auto& [rank, pairs] : PairsByRank(record)) {
    for (const KeptPair& pair : pairs) {
      if (pair.filemap == nullptr) return InvalidArgument("files: rank {} has data or a filemap, but not both", rank);
      for (const kept::File* file : {pair.data, pair.filemap}) {
        CAIRN_RETURN_IF_ERROR(CheckThere(disk, folder, *file));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

RankSets SetsOfRanks(const kept::Record& record) {
  RankSets sets;
  for (const auto& [rank, pairs] : PairsByRank(record)) {
    if (!IsOlderName(pairs.front().data->file().name())) sets[rank] = pairs.front().set();
  }
  return sets;
}

std::set<std::string> NamesIn(const kept::Record& record) {
  std::set<std::string> names;
  for (const kept::File& file : record.files()) names.insert(file.file().name());
  return names;
}

absl::StatusOr<kept::Record> LoadProtection(Disk& disk, const std::string& folder, const RunIdentity& run,
                                            const scr::Descriptor& descriptor, std::vector<std::string>* warnings) {
  const auto record = ReadRedundancyRecord(disk, folder, run, descriptor);
  if (absl::IsNotFound(record.status())) return kept::Record();
  if (absl::IsDataLoss(record.status())) {
    warnings->push_back(fmt::format("{}; the ranks here protect no others any more", MessageOf(record.status())));
    CAIRN_RETURN_IF_ERROR(RemoveRedundancyRecord(disk, folder));
    return kept::Record();
  }
  if (!record.ok()) return record.status();
  CAIRN_ASSIGN_OR_RETURN(kept::Record holds, Holding(disk, folder, *record, warnings));
  // Before SINGLE's records are made of what it names: what it says then has to be there.
  if (holds.files_size() != record->files_size()) CAIRN_RETURN_IF_ERROR(StoreRecord(disk, folder, holds));
  return holds;
}

absl::Status SettleRedsets(Disk& disk, const std::string& folder, const std::string& prefix,
                           const scr::Descriptor& descriptor, const std::vector<StoredCatalogue>& ranks,
                           const RankSets& sets) {
  std::vector<RankFiles> files;
  for (const StoredCatalogue& stored : ranks) {
    CAIRN_RETURN_IF_ERROR(SettleRank(disk, folder, prefix, descriptor, stored, sets));
    files.push_back(RankFilesOf(folder, stored, sets));
  }
  return SettleLists(disk, folder, *descriptor.ranks, files);
}

absl::Status PutProtection(Disk& disk, const std::string& folder, const std::string& prefix, const RunIdentity& run,
                           const scr::Descriptor& descriptor, const kept::Record& record) {
  CAIRN_RETURN_IF_ERROR(Annotate(CheckRedundancyRecord(record, run, descriptor), folder));
  CAIRN_RETURN_IF_ERROR(CheckProtection(disk, folder, record));
  const RankSets sets = SetsOfRanks(record);
  std::vector<RankFiles> files;
  for (const Rank rank : scr::RanksHeld(descriptor)) {
    CAIRN_ASSIGN_OR_RETURN(const StoredCatalogue stored, ReadRank(disk, folder, run, descriptor, rank));
    // All that the record will say is there before it is. Until then the one before holds, and a start goes back to it.
    CAIRN_RETURN_IF_ERROR(SettleRank(disk, folder, prefix, descriptor, stored, sets));
    files.push_back(RankFilesOf(folder, stored, sets));
  }
  CAIRN_RETURN_IF_ERROR(StoreRecord(disk, folder, record));
  CAIRN_RETURN_IF_ERROR(ReplaceOwnershipLists(disk, folder, *descriptor.ranks, files));
  return RemoveLeftovers(disk, folder, descriptor, files, NamesIn(record));
}

absl::Status EndProtection(Disk& disk, const std::string& folder, const RunIdentity& run,
                           const scr::Descriptor& descriptor, Rank rank) {
  const auto record = ReadRedundancyRecord(disk, folder, run, descriptor);
  if (absl::IsNotFound(record.status()) || absl::IsDataLoss(record.status())) return absl::OkStatus();
  if (!record.ok()) return record.status();
  kept::Record rest = *record;
  rest.clear_files();
  for (const kept::File& file : record->files()) {
    if (file.rank() != rank) *rest.add_files() = file;
  }
  return rest.files_size() == record->files_size() ? absl::OkStatus() : StoreRecord(disk, folder, rest);
}

absl::Status ReplaceOwnershipLists(Disk& disk, const std::string& folder, std::uint32_t nranks,
                                   const std::vector<RankFiles>& ranks) {
  for (const auto& [path, tree] : MakeOwnershipLists(folder, nranks, ranks)) {
    CAIRN_RETURN_IF_ERROR(ReplaceTree(disk, path, tree));
  }
  return absl::OkStatus();
}

}  // namespace cairn
