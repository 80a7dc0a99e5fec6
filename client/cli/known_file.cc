#include "client/cli/known_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "storage/base/status.h"
#include "storage/cache/catalogue.h"

namespace cairn::cli {
namespace {

constexpr std::string_view kCatalogueMagic = "CAIRNCAT";
constexpr std::string_view kTreeMagic = "\x95\x1f\xc3\xf5";  // big-endian; SCR specification, section 1.3

// The first `bytes` bytes.
absl::StatusOr<std::string> ReadHead(File& file, std::uint64_t bytes) {
  std::string head(bytes, '\0');
  CAIRN_RETURN_IF_ERROR(file.ReadAt(0, std::as_writable_bytes(std::span(head))));
  return head;
}

absl::StatusOr<KnownFile> DecodeTree(const std::string& path, File& file, std::uint64_t file_bytes) {
  CAIRN_ASSIGN_OR_RETURN(const std::string head, ReadHead(file, std::min(file_bytes, kvtree::kFileBytesMax)));
  std::uint64_t declared = 0;
  CAIRN_ASSIGN_OR_RETURN(kvtree::Tree tree, kvtree::Decode(path, head, &declared));
  return TreeFile{.tree = std::move(tree), .payload_bytes = file_bytes - std::min(file_bytes, declared)};
}

}  // namespace

ftiff::ReadAt CheckpointFile::reader() const {
  return
      [file = file.get()](std::uint64_t offset, std::span<std::byte> target) { return file->ReadAt(offset, target); };
}

absl::StatusOr<KnownFile> OpenKnownFile(Disk& disk, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<File> file, disk.Open(path, {}));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file->Info());
  if (info.bytes == 0) return DataLoss("{}: empty", path);
  CAIRN_ASSIGN_OR_RETURN(const std::string magic,
                         ReadHead(*file, std::min<std::uint64_t>(info.bytes, kCatalogueMagic.size())));
  if (magic == kCatalogueMagic) {
    if (info.bytes > kCatalogueBytesMax) return DataLoss("{}: {} bytes are too many for a catalogue", path, info.bytes);
    CAIRN_ASSIGN_OR_RETURN(const std::string whole, ReadHead(*file, info.bytes));
    return DecodeCatalogue(path, whole);
  }
  if (magic.starts_with(kTreeMagic)) return DecodeTree(path, *file, info.bytes);
  CheckpointFile checkpoint{.file = std::move(file), .metadata = {}};
  CAIRN_ASSIGN_OR_RETURN(checkpoint.metadata, ftiff::DecodeMetadata(path, info.bytes, checkpoint.reader()));
  return checkpoint;
}

std::string_view KindOf(const KnownFile& file) {
  constexpr std::array<std::string_view, 3> kKinds = {"FTI-FF", "kvtree", "catalogue"};
  return kKinds[file.index()];
}

absl::Status VerifyData(const KnownFile& file, std::string_view name) {
  const auto* checkpoint = std::get_if<CheckpointFile>(&file);
  if (checkpoint == nullptr) return absl::OkStatus();
  CAIRN_ASSIGN_OR_RETURN(const auto verdict, ftiff::VerifyData(name, checkpoint->metadata, checkpoint->reader()));
  if (verdict.ok()) return absl::OkStatus();
  if (verdict.bad.empty()) return DataLoss("{}", verdict.bad_checksum);
  return DataLoss("{} of {} containers are damaged; the first: {}", verdict.bad.size(),
                  checkpoint->metadata.layout.containers.size(), verdict.bad.front().why);
}

}  // namespace cairn::cli
