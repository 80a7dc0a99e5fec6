#include "storage/place/prefix/id_blocks.h"

#include <algorithm>
#include <vector>

#include "storage/base/host_name.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/place/names.h"
#include "storage/place/prefix/cairn_folder.h"
#include "storage/place/prefix/identity.h"

namespace cairn::id_blocks {
namespace {

constexpr int kTriesMax = 1000;  // numbers taken by others between our listing and our creation
constexpr std::string_view kStem = "ids.";
constexpr std::string_view kRest = ".rest";  // ids.<n>.rest: what was returned of it
constexpr std::uint64_t kOldBlock = 64;      // of release 0.1.0: block n held n * 64 + 1 … (n + 1) * 64
constexpr std::uint64_t kBlocksMax = identity::kDatasetIdMax;

std::string NameOf(std::uint64_t number) {
  return fmt::format("{}{}", kStem, number);
}

// Folders of datasets, whoever made them.
absl::StatusOr<DatasetId> HighestFolder(Disk& disk, const std::string& prefix) {
  DatasetId highest = 0;
  const auto look = [&](const std::string& folder,
                        std::optional<DatasetId> (*id_of)(std::string_view)) -> absl::Status {
    const auto names = disk.List(folder);
    if (absl::IsNotFound(names.status())) return absl::OkStatus();
    if (!names.ok()) return names.status();
    for (const std::string& name : *names) {
      const auto id = id_of(name);
      if (id && *id <= identity::kDatasetIdMax) highest = std::max(highest, *id);
    }
    return absl::OkStatus();
  };
  CAIRN_RETURN_IF_ERROR(look(prefix, DatasetOfName));
  CAIRN_RETURN_IF_ERROR(look(prefix + "/.scr", DatasetOfRecords));
  return highest;
}

absl::StatusOr<DatasetId> FieldOf(const std::string& path, const kvtree::Tree& tree, std::string_view key) {
  const auto value = tree.GetUnsigned(key);
  if (!value.ok()) return cairn_folder::NamingFile(path, value.status());
  if (*value > identity::kDatasetIdMax) return DataLoss("{}: {} {}", path, key, *value);
  return *value;
}

// The last id that block `number` takes away from those after it; kNotFound: it was not finished.
absl::StatusOr<DatasetId> LastOf(Disk& disk, const std::string& prefix, std::uint64_t number) {
  const std::string path = fmt::format("{}/{}", cairn_folder::Of(prefix), NameOf(number));
  CAIRN_ASSIGN_OR_RETURN(const kvtree::Tree tree, ReadTree(disk, path));
  if (tree.Find("FIRST") == nullptr && tree.Find("COUNT") == nullptr) return (number + 1) * kOldBlock;
  CAIRN_ASSIGN_OR_RETURN(const DatasetId first, FieldOf(path, tree, "FIRST"));
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t count, FieldOf(path, tree, "COUNT"));
  const std::string rest = path + std::string(kRest);
  const auto returned = ReadTree(disk, rest);
  if (absl::IsNotFound(returned.status())) return first + count - 1;
  if (!returned.ok()) return returned.status();
  CAIRN_ASSIGN_OR_RETURN(const DatasetId free, FieldOf(rest, *returned, "FIRST"));
  if (free < first || free > first + count) return DataLoss("{}: FIRST {} is not of the block", rest, free);
  return free - 1;
}

struct Taken {
  std::uint64_t number = 0;
  DatasetId last = 0;
};

// One whose maker has not come to the end is none: its number is taken anew.
absl::StatusOr<std::optional<Taken>> Newest(Disk& disk, const std::string& prefix,
                                            const std::vector<std::string>& names) {
  auto numbers = cairn_folder::Numbers(names, kStem, kBlocksMax);
  for (; !numbers.empty(); numbers.pop_back()) {
    const auto last = LastOf(disk, prefix, numbers.back());
    if (absl::IsNotFound(last.status())) continue;
    if (!last.ok()) return last.status();
    return std::optional(Taken{.number = numbers.back(), .last = *last});
  }
  return std::optional<Taken>();
}

}  // namespace

absl::StatusOr<std::optional<DatasetId>> Highest(Disk& disk, const std::string& prefix) {
  CAIRN_ASSIGN_OR_RETURN(const auto names, cairn_folder::Names(disk, prefix, /*fresh=*/false));
  CAIRN_ASSIGN_OR_RETURN(const auto newest, Newest(disk, prefix, names));
  return newest ? std::optional(newest->last) : std::nullopt;
}

absl::StatusOr<IdBlock> Reserve(Arbiter& arbiter, Disk& disk, const std::string& prefix, DatasetId above,
                                std::uint64_t count) {
  CAIRN_ASSIGN_OR_RETURN(const DatasetId folders, HighestFolder(disk, prefix));
  for (int i = 0; i < kTriesMax; ++i) {
    CAIRN_ASSIGN_OR_RETURN(const auto names, arbiter.Names());
    IdBlock block{.first = std::max(above, folders) + 1, .count = count, .number = 0};
    CAIRN_ASSIGN_OR_RETURN(const auto newest, Newest(disk, prefix, names));
    if (newest) {
      block.first = std::max(block.first, newest->last + 1);
      block.number = newest->number + 1;
    }
    if (block.first > identity::kDatasetIdMax)
      return ResourceExhausted("{}: ids end at {}", prefix, identity::kDatasetIdMax);
    block.count = std::min<std::uint64_t>(count, identity::kDatasetIdMax - block.first + 1);
    kvtree::Tree tree;
    tree.Set("VERSION", std::uint64_t{1});
    tree.Set("FIRST", block.first);
    tree.Set("COUNT", block.count);
    tree.Set("HOST", HostName());
    tree.Set("MARK", RunId::Random().Hex());  // no other maker's record is like it
    const absl::Status made = arbiter.Create(NameOf(block.number), kvtree::Encode(tree));
    if (made.ok()) return block;
    if (!absl::IsAlreadyExists(made)) return made;
  }
  return Aborted("{}: {} blocks of ids were taken by others meanwhile", cairn_folder::Of(prefix), kTriesMax);
}

absl::Status Return(Disk& disk, const std::string& prefix, const IdBlock& block) {
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  tree.Set("FIRST", block.first);
  return cairn_folder::MakeRecord(disk, prefix, NameOf(block.number) + std::string(kRest), tree);
}

}  // namespace cairn::id_blocks
