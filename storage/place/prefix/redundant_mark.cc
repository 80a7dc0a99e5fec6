#include "storage/place/prefix/redundant_mark.h"

#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/place/prefix/cairn_folder.h"

namespace cairn::redundant_mark {
namespace {

std::string NameOf(const RunId& run) {
  return "redundant." + run.Hex();
}

}  // namespace

std::string PathOf(const std::string& prefix, const RunId& run) {
  return cairn_folder::Of(prefix) + "/" + NameOf(run);
}

absl::StatusOr<std::string> Read(Disk& disk, const std::string& prefix, const RunId& run) {
  const std::string path = PathOf(prefix, run);
  CAIRN_ASSIGN_OR_RETURN(const kvtree::Tree tree, ReadTreeOnce(disk, path));
  CAIRN_RETURN_IF_ERROR(cairn_folder::CheckVersion(path, tree));
  const auto named = tree.GetString("RUN"), mark = tree.GetString("MARK");
  if (!named.ok()) return cairn_folder::NamingFile(path, named.status());
  if (!mark.ok()) return cairn_folder::NamingFile(path, mark.status());
  if (*named != run.Hex()) return DataLoss("{}: RUN is {}, not the run of the file's name", path, Quoted(*named));
  if (!RunId::Parse(*mark).ok()) return DataLoss("{}: MARK is {}, not 32 hex digits", path, Quoted(*mark));
  return *mark;
}

absl::StatusOr<std::string> Ensure(Disk& disk, const std::string& prefix, const RunId& run, const std::string& mark) {
  auto known = Read(disk, prefix, run);
  if (!absl::IsNotFound(known.status())) return known;
  CAIRN_RETURN_IF_ERROR(cairn_folder::Make(disk, prefix));
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  tree.Set("RUN", run.Hex());
  tree.Set("MARK", mark);
  const absl::Status made = cairn_folder::MakeRecord(disk, prefix, NameOf(run), tree);
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  return Read(disk, prefix, run);
}

}  // namespace cairn::redundant_mark
