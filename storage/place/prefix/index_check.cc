// Whether SCR's lists of Cairn's datasets, and the files of SCR's own, are as they should be.
#include <algorithm>
#include <optional>
#include <utility>

#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/place/names.h"
#include "storage/place/prefix/commit.h"
#include "storage/place/prefix/index_access.h"
#include "storage/place/prefix/index_tools.h"
#include "storage/place/prefix/scr_dataset.h"

namespace cairn {
namespace {

using index_access::FileLists;

// What SCR goes by in a descriptor, and Cairn.
std::string Gist(const scr::Descriptor& descriptor) {
  const auto number = [](const auto& value) { return value ? fmt::format("{}", *value) : std::string("-"); };
  return fmt::format("ID {} NAME {} FLAG_CKPT {:d} FLAG_OUTPUT {:d} FILES {} SIZE {} COMPLETE {:d}, step {}, ranks {}",
                     descriptor.id, descriptor.name, descriptor.checkpoint, descriptor.output, descriptor.files,
                     descriptor.bytes, descriptor.complete.value_or(false), number(descriptor.step),
                     number(descriptor.ranks));
}

// kDataLoss: what is wrong with it. Other errors are the storage's.
absl::Status CheckSummary(Disk& disk, const std::string& path, const CommitRecord& commit) {
  const auto tree = ReadTree(disk, path);
  if (absl::IsNotFound(tree.status())) return DataLoss("{}: missing", path);
  if (!tree.ok()) return tree.status();
  const auto descriptor = scr::GetSummary(*tree);
  if (!descriptor.ok()) return DataLoss("{}: {}", path, MessageOf(descriptor.status()));
  const std::string said = Gist(*descriptor), expected = Gist(commit.descriptor);
  if (said == expected) return absl::OkStatus();
  return DataLoss("{}: says {}; commit.cairn says {}", path, said, expected);
}

absl::Status CheckRank2File(Disk& disk, const std::string& folder, const FileLists& lists) {
  CAIRN_ASSIGN_OR_RETURN(const scr::Rank2File listed, ReadRank2File(disk, folder));
  if (listed.ranks != lists.size()) {
    return DataLoss("{}/rank2file: RANKS is {}, expected {}", folder, listed.ranks, lists.size());
  }
  for (Rank rank = 0; rank < lists.size(); ++rank) {
    const auto at = listed.files.find(rank);
    std::vector<std::string> found = at == listed.files.end() ? std::vector<std::string>() : at->second;
    std::vector<std::string> expected = lists[rank];
    std::sort(found.begin(), found.end());
    std::sort(expected.begin(), expected.end());
    if (found != expected) return DataLoss("{}/rank2file: rank {} has other files than its catalogue", folder, rank);
  }
  return absl::OkStatus();
}

}  // namespace

namespace index_access {

FileLists ListsOf(const std::vector<catalogue::Catalogue>& catalogues) {
  FileLists lists;
  for (const catalogue::Catalogue& catalogue : catalogues) {
    std::vector<std::string>& files = lists.emplace_back();
    for (const catalogue::FileEntry& file : catalogue.file()) files.push_back(file.prefix_name());
    files.push_back(CataloguePrefixName(catalogue.dataset(), catalogue.rank()));
  }
  return lists;
}

absl::StatusOr<std::vector<std::string>> WrongRecords(Disk& disk, SharedRecords& records, const CommitRecord& commit,
                                                      const FileLists& lists) {
  const std::string folder = records.DatasetFolder(commit.descriptor.id);
  std::vector<std::string> wrong;
  for (const absl::Status& status :
       {CheckSummary(disk, folder + "/summary.scr", commit), CheckRank2File(disk, folder, lists)}) {
    if (status.ok()) continue;
    if (!absl::IsDataLoss(status)) return status;
    wrong.emplace_back(MessageOf(status));
  }
  return wrong;
}

}  // namespace index_access

absl::StatusOr<std::vector<std::string>> CheckRecords(Disk& disk, const std::string& prefix, DatasetId id) {
  SharedRecords records(disk, prefix, index_access::RunOf(disk, prefix));
  CAIRN_ASSIGN_OR_RETURN(const CommitRecord commit, records.ReadCommit(id));
  CAIRN_ASSIGN_OR_RETURN(const auto catalogues, ReadCatalogues(disk, prefix, records, id));
  return index_access::WrongRecords(disk, records, commit, index_access::ListsOf(catalogues));
}

absl::StatusOr<ScrSizes> CheckScrSizes(Disk& disk, const std::string& prefix, const scr::Descriptor& descriptor) {
  SharedRecords records(disk, prefix, index_access::RunOf(disk, prefix));
  CAIRN_ASSIGN_OR_RETURN(const FlushedDataset dataset, LookAtScrDataset(disk, prefix, records, descriptor));
  ScrSizes sizes{.ranks = static_cast<std::uint32_t>(dataset.files.size())};
  for (const auto& of_rank : dataset.files) {
    sizes.files += of_rank.size();
    for (const FlushedFile& file : of_rank) sizes.bytes += file.info.bytes;
  }
  return sizes;
}

}  // namespace cairn
