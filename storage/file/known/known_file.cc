#include "storage/file/known/known_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "storage/base/md5_stream.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/io/once_frame.h"

namespace cairn {
namespace {

constexpr std::uint64_t kPieceBytes = 1 << 20;
static_assert(kPieceBytes % kMd5BlockBytes == 0);  // only the last piece has a part of a block

constexpr std::string_view kCatalogueMagic = "CAIRNCAT";
constexpr std::string_view kHaltFile = "halt.scr";
constexpr std::string_view kTreeMagic = "\x95\x1f\xc3\xf5";  // big-endian; SCR specification, section 1.3

// The first `bytes` bytes.
absl::StatusOr<std::string> ReadHead(File& file, std::uint64_t bytes) {
  std::string head(bytes, '\0');
  CAIRN_RETURN_IF_ERROR(file.ReadAt(0, std::as_writable_bytes(std::span(head))));
  return head;
}

// What the header declares, or enough to say what is wrong with it: behind it there may be gigabytes of payload.
absl::StatusOr<std::string> ReadTree(File& file, std::uint64_t file_bytes) {
  constexpr std::size_t kHeaderBytes = 20, kDeclaredAt = 8;
  const std::uint64_t bytes_max = std::min(file_bytes, kvtree::kFileBytesMax);
  if (bytes_max <= kHeaderBytes) return ReadHead(file, bytes_max);
  std::array<std::byte, kHeaderBytes> header;
  CAIRN_RETURN_IF_ERROR(file.ReadAt(0, header));
  if (std::memcmp(header.data(), kTreeMagic.data(), kTreeMagic.size()) != 0) return ReadHead(file, kHeaderBytes);
  std::uint64_t declared = 0;
  for (std::size_t at = kDeclaredAt; at < kDeclaredAt + sizeof(declared); ++at) {
    declared = declared << 8 | std::to_integer<std::uint64_t>(header[at]);
  }
  return ReadHead(file, std::clamp<std::uint64_t>(declared, kHeaderBytes, bytes_max));
}

absl::StatusOr<TreeFile> DecodeTree(const std::string& path, File& file, std::uint64_t file_bytes) {
  CAIRN_ASSIGN_OR_RETURN(const std::string head, ReadTree(file, file_bytes));
  std::uint64_t declared = 0;
  CAIRN_ASSIGN_OR_RETURN(kvtree::Tree tree, kvtree::Decode(path, head, &declared));
  return TreeFile{.tree = std::move(tree), .payload_bytes = file_bytes - std::min(file_bytes, declared)};
}

bool IsFramed(std::string_view head) {
  return StateOfFrame(head.substr(0, std::min(head.size(), kFrameBytes))) != FrameState::kPlain;
}

// Records that are made once may be in a frame, and all of these are trees.
absl::StatusOr<TreeFile> DecodeFramed(Disk& disk, const std::string& path) {
  const auto text = ReadWhole(disk, path, kvtree::kFileBytesMax);
  if (absl::IsNotFound(text.status())) return DataLoss("{}: was never made completely", path);
  if (!text.ok()) return text.status();
  CAIRN_ASSIGN_OR_RETURN(kvtree::Tree tree, kvtree::Decode(path, *text));
  return TreeFile{.tree = std::move(tree), .payload_bytes = 0};
}

ftiff::ReadAt ReaderOf(File& file) {
  return [&file](std::uint64_t offset, std::span<std::byte> target) { return file.ReadAt(offset, target); };
}

}  // namespace

std::string_view WithoutName(std::string_view message, std::string_view name) {
  if (message.starts_with(name) && message.substr(name.size()).starts_with(": "))
    message.remove_prefix(name.size() + 2);
  return message;
}

ftiff::ReadAt CheckpointFile::reader() const {
  return ReaderOf(*file);
}

absl::StatusOr<KnownFile> OpenKnownFile(Disk& disk, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<File> file, disk.Open(path, {}));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file->Info());
  if (info.bytes == 0) return DataLoss("{}: empty", path);
  CAIRN_ASSIGN_OR_RETURN(const std::string head, ReadHead(*file, std::min<std::uint64_t>(info.bytes, kFrameBytes)));
  if (IsFramed(head)) return DecodeFramed(disk, path);
  const std::string_view magic = std::string_view(head).substr(0, kCatalogueMagic.size());
  if (magic == kCatalogueMagic) {
    if (info.bytes > kCatalogueBytesMax) return DataLoss("{}: {} bytes are too many for a catalogue", path, info.bytes);
    CAIRN_ASSIGN_OR_RETURN(const std::string whole, ReadHead(*file, info.bytes));
    return DecodeCatalogue(path, whole);
  }
  if (magic.starts_with(kTreeMagic)) return DecodeTree(path, *file, info.bytes);
  const ftiff::ReadAt read = ReaderOf(*file);
  auto metadata = ftiff::DecodeMetadata(path, info.bytes, read);
  if (metadata.ok()) return CheckpointFile{.file = std::move(file), .metadata = *std::move(metadata)};
  if (absl::IsDataLoss(metadata.status()) && !path.ends_with(".fti")) {
    return DataLoss("{}: a damaged file, or none that Cairn knows: {}", path,
                    WithoutName(MessageOf(metadata.status()), path));
  }
  if (!absl::IsFailedPrecondition(metadata.status())) return metadata.status();
  CAIRN_ASSIGN_OR_RETURN(ftiff::EncodedFile encoded, ftiff::DecodeEncoded(path, info.bytes, read));
  return CodeFile{.file = std::move(file), .encoded = std::move(encoded)};
}

absl::StatusOr<TreeFile> OpenTreeFile(Disk& disk, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, disk.Open(path, {}));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file->Info());
  if (info.bytes == 0) {
    if (BaseOf(path) == kHaltFile) return TreeFile();
    return DataLoss("{}: empty", path);
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string head, ReadHead(*file, std::min<std::uint64_t>(info.bytes, kFrameBytes)));
  return IsFramed(head) ? DecodeFramed(disk, path) : DecodeTree(path, *file, info.bytes);
}

absl::StatusOr<CheckpointFile> OpenCheckpointFile(Disk& disk, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(KnownFile file, OpenKnownFile(disk, path));
  if (auto* const checkpoint = std::get_if<CheckpointFile>(&file)) return std::move(*checkpoint);
  if (std::holds_alternative<CodeFile>(file)) {
    return InvalidArgument(
        "{} is a level 3 code file: it holds no variables, but what helps to rebuild lost checkpoint files of its "
        "group",
        path);
  }
  return InvalidArgument("{} is a {} file, not a checkpoint file of FTI-FF", path, KindOf(file));
}

std::string_view KindOf(const KnownFile& file) {
  constexpr std::array<std::string_view, 4> kKinds = {"FTI-FF", "FTI-FF code", "kvtree", "catalogue"};
  return kKinds[file.index()];
}

absl::StatusOr<ftiff::Verdict> VerifyData(const CheckpointFile& file, std::string_view name) {
  const std::size_t cores = std::max(std::thread::hardware_concurrency(), 1u);
  return ftiff::VerifyData(name, file.metadata, file.reader(), cores);
}

absl::Status VerifyData(const CodeFile& file, std::string_view name) {
  std::vector<std::byte> buffer(std::min<std::uint64_t>(file.encoded.code_bytes, kPieceBytes));
  Md5Stream hash;
  for (std::uint64_t done = 0; done < file.encoded.code_bytes; done += buffer.size()) {
    buffer.resize(std::min<std::uint64_t>(file.encoded.code_bytes - done, kPieceBytes));
    CAIRN_RETURN_IF_ERROR(file.file->ReadAt(done, buffer));
    hash.Append(buffer);
  }
  const std::string found = HexOf(hash.Finish());
  if (found == file.encoded.checksum_hex) return absl::OkStatus();
  return DataLoss("{}: offset 0: MD5 of the {} code bytes is {}, expected {}", name, file.encoded.code_bytes, found,
                  file.encoded.checksum_hex);
}

absl::Status CheckWhole(const CheckpointFile& file, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const ftiff::Verdict verdict, VerifyData(file, path));
  if (verdict.ok()) return absl::OkStatus();
  if (verdict.bad.empty()) return DataLoss("{}", verdict.bad_checksum);
  const std::size_t containers = file.metadata.layout.containers.size();
  return DataLoss("{}: {} of {} container{} damaged; the first: {}", path, verdict.bad.size(), containers,
                  containers == 1 ? "" : "s", WithoutName(verdict.bad.front().why, path));
}

}  // namespace cairn
