#include "storage/place/redundant/folder_mark.h"

#include <cstdint>

#include "storage/base/ids.h"
#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/kvtree/tree.h"
#include "storage/io/create_once.h"

namespace cairn {
namespace {

std::string PathOf(const std::string& folder) {
  return folder + "/folder.cairn";
}

}  // namespace

absl::StatusOr<std::string> ReadFolderMark(Disk& disk, const std::string& folder) {
  const std::string path = PathOf(folder);
  CAIRN_ASSIGN_OR_RETURN(const kvtree::Tree tree, ReadTreeOnce(disk, path));
  const auto version = tree.GetUnsigned("VERSION");
  const auto mark = tree.GetString("MARK");
  if (!version.ok()) return DataLoss("{}: {}", path, MessageOf(version.status()));
  if (*version != 1) return FailedPrecondition("{}: VERSION {}, of a newer program", path, *version);
  if (!mark.ok()) return DataLoss("{}: {}", path, MessageOf(mark.status()));
  if (!RunId::Parse(*mark).ok()) return DataLoss("{}: MARK is {}, not 32 hex digits", path, Quoted(*mark));
  return *mark;
}

absl::StatusOr<std::string> EnsureFolderMark(Disk& disk, const std::string& folder) {
  auto known = ReadFolderMark(disk, folder);
  if (!absl::IsNotFound(known.status())) return known;
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  tree.Set("MARK", RunId::Random().Hex());
  const absl::Status made = CreateFileOnce(disk, PathOf(folder), kvtree::Encode(tree));
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  return ReadFolderMark(disk, folder);
}

}  // namespace cairn
