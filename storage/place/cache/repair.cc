#include "storage/place/cache/repair.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"

namespace cairn {
namespace {

// What reading a file, or moving it, changes. They matter to nobody's decision.
constexpr std::array<std::string_view, 9> kPassing = {
    "MODE", "UID", "GID", "ATIME_SECS", "ATIME_NSECS", "CTIME_SECS", "CTIME_NSECS", "MTIME_SECS", "MTIME_NSECS"};

// Does `found` say all that `wanted` says? It may say more.
bool Says(const kvtree::Tree& found, const kvtree::Tree& wanted) {
  const bool value = wanted.size() == 1 && wanted.elements().front().second.empty();
  if (value) return found.SameAs(wanted);  // a reader takes the first: there has to be no other
  for (const auto& [key, child] : wanted.elements()) {
    if (std::find(kPassing.begin(), kPassing.end(), key) != kPassing.end()) continue;
    const kvtree::Tree* there = found.Find(key);
    if (there == nullptr || !Says(*there, child)) return false;
  }
  return true;
}

// Looks at records and notes which have to be made anew.
class Inspection {
 public:
  Inspection(Disk& disk, std::vector<std::string>* warnings) : disk_(disk), warnings_(warnings) {}

  // False: at least one is not as it has to be.
  absl::StatusOr<bool> AsWanted(const std::vector<RankRecords::Tree>& records) {
    bool all = true;
    for (const auto& [path, wanted] : records) {
      const auto found = ReadTree(disk_, path);
      if (found.ok() && Says(*found, wanted)) continue;
      all = false;
      if (found.ok()) {
        Note(path + ": is not what the catalogues say");
      } else if (absl::IsNotFound(found.status())) {
        Note(path + ": missing");
      } else if (absl::IsDataLoss(found.status()) || absl::IsInvalidArgument(found.status())) {
        Note(std::string(MessageOf(found.status())));
      } else {
        return found.status();
      }
    }
    return all;
  }

 private:
  void Note(const std::string& what) { warnings_->push_back(what + "; made anew"); }

  Disk& disk_;
  std::vector<std::string>* warnings_;
};

absl::StatusOr<bool> RankAsWanted(Disk& disk, const std::string& folder, const std::string& prefix,
                                  const scr::Descriptor& descriptor, const StoredCatalogue& stored,
                                  const RankSets& sets, Inspection& inspection) {
  CAIRN_ASSIGN_OR_RETURN(const RankRecords wanted, MakeRankRecords(disk, folder, prefix, descriptor, stored, sets));
  CAIRN_ASSIGN_OR_RETURN(const bool data, inspection.AsWanted(wanted.of_data));
  CAIRN_ASSIGN_OR_RETURN(const bool filemap, inspection.AsWanted({wanted.filemap}));
  if (!filemap) return false;  // and what protects it is made of the new one
  CAIRN_ASSIGN_OR_RETURN(const auto of_filemap,
                         MakeFilemapRecords(disk, folder, stored.catalogue.rank(), stored.catalogue.nranks(), sets));
  CAIRN_ASSIGN_OR_RETURN(const bool protects, inspection.AsWanted(of_filemap));
  return data && protects;
}

}  // namespace

absl::Status RepairRecords(Disk& disk, const std::string& folder, const std::string& prefix,
                           const scr::Descriptor& descriptor, const std::vector<StoredCatalogue>& ranks,
                           const RankSets& sets, std::vector<std::string>* warnings) {
  Inspection inspection(disk, warnings);
  std::vector<const StoredCatalogue*> anew;
  std::vector<RankFiles> files;
  for (const StoredCatalogue& stored : ranks) {
    files.push_back(RankFilesOf(folder, stored, sets));
    CAIRN_ASSIGN_OR_RETURN(const bool wanted, RankAsWanted(disk, folder, prefix, descriptor, stored, sets, inspection));
    if (!wanted) anew.push_back(&stored);
  }
  CAIRN_ASSIGN_OR_RETURN(const bool lists, inspection.AsWanted(MakeOwnershipLists(folder, *descriptor.ranks, files)));
  CAIRN_ASSIGN_OR_RETURN(const bool states, inspection.AsWanted(MakeEncodeStates(folder)));
  if (anew.empty() && lists && states) return absl::OkStatus();
  // A folder whose .scr went with everything in it.
  if (const absl::Status made = disk.MakeDirectory(RecordsFolder(folder), 0700);
      !made.ok() && !absl::IsAlreadyExists(made)) {
    return made;
  }
  CAIRN_RETURN_IF_ERROR(EraseEncodeStates(disk, folder, Erased::kToRewrite));
  for (const StoredCatalogue* stored : anew) {
    CAIRN_RETURN_IF_ERROR(RewriteRankRecords(disk, folder, prefix, descriptor, *stored, sets));
  }
  CAIRN_RETURN_IF_ERROR(disk.SyncDirectory(folder));
  return WriteDatasetRecords(disk, folder, *descriptor.ranks, files);
}

absl::Status CheckEncoded(Disk& disk, const std::string& folder) {
  for (const auto& [path, wanted] : MakeEncodeStates(folder)) {
    const auto found = ReadTree(disk, path);
    if (absl::IsNotFound(found.status())) return DataLoss("{}: missing: it was not completed, or given up", path);
    if (!found.ok()) return found.status();
    if (!Says(*found, wanted)) return DataLoss("{}: STATE is not 2", path);
  }
  return absl::OkStatus();
}

absl::StatusOr<scr::CacheEntry> RecoverEntry(Disk& disk, const std::string& folder, const RunIdentity& run,
                                             DatasetId id) {
  auto descriptor = FindDescriptor(disk, folder, id);
  if (absl::IsNotFound(descriptor.status())) return DataLoss("{}", MessageOf(descriptor.status()));
  if (!descriptor.ok()) return descriptor.status();
  CAIRN_ASSIGN_OR_RETURN(descriptor->held, FindHeld(disk, folder, *descriptor->ranks));
  CAIRN_RETURN_IF_ERROR(CheckEncoded(disk, folder));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<StoredCatalogue> ranks, ReadDataset(disk, folder, run, *descriptor));
  std::vector<RankFiles> files;
  for (const StoredCatalogue& stored : ranks) files.push_back(RankFilesOf(folder, stored, {}));
  return CompleteEntry(folder, *descriptor, files);
}

}  // namespace cairn
