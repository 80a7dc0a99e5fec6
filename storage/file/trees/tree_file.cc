#include "storage/file/trees/tree_file.h"

#include "storage/base/path.h"

#include "storage/base/status.h"
#include "storage/io/create_once.h"

namespace cairn {
namespace {

constexpr int kSetAsideMax = 10000;  // names tried

absl::StatusOr<kvtree::Tree> Decoded(Disk& disk, const std::string& path, const absl::StatusOr<std::string>& text) {
  if (text.status().code() == absl::StatusCode::kResourceExhausted) {
    // Either the file is too large or the process is short of something; only the first says anything about the file.
    const auto info = disk.Info(path);
    if (info.ok() && info->bytes > kvtree::kFileBytesMax) return DataLoss("{}", MessageOf(text.status()));
  }
  if (!text.ok()) return text.status();
  if (text->empty()) return NotFound("{}: the file is empty", path);
  return kvtree::Decode(path, *text);
}

}  // namespace

absl::StatusOr<kvtree::Tree> ReadTree(Disk& disk, const std::string& path, std::string* text) {
  auto read = ReadWhole(disk, path, kvtree::kFileBytesMax);
  auto tree = Decoded(disk, path, read);
  if (tree.ok() && text != nullptr) *text = *std::move(read);
  return tree;
}

absl::StatusOr<kvtree::Tree> ReadTreeOnce(Disk& disk, const std::string& path) {
  return Decoded(disk, path, ReadOnce(disk, path, kvtree::kFileBytesMax));
}

absl::Status ReplaceTree(Disk& disk, const std::string& path, const kvtree::Tree& tree, std::uint32_t mode) {
  if (const absl::Status fits = kvtree::Encodable(tree); !fits.ok()) return Annotate(fits, path);
  return ReplaceFile(disk, path, kvtree::Encode(tree), mode);
}

absl::StatusOr<std::string> MoveAside(Disk& disk, const std::string& path, const std::string& stem) {
  for (int n = 1; n <= kSetAsideMax; ++n) {
    std::string aside = fmt::format("{}.{}", stem, n);
    const auto info = disk.Info(aside);
    if (info.ok()) continue;
    if (!absl::IsNotFound(info.status())) return info.status();
    CAIRN_RETURN_IF_ERROR(disk.Rename(path, aside));
    CAIRN_RETURN_IF_ERROR(disk.SyncDirectory(ParentOf(path)));
    return aside;
  }
  return ResourceExhausted("{}: cannot be set aside, {}.1 to {} are all taken", path, stem, kSetAsideMax);
}

}  // namespace cairn
