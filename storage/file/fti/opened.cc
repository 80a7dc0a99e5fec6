#include "storage/file/fti/opened.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "storage/base/check.h"
#include "storage/base/md5_stream.h"
#include "storage/base/status.h"

namespace cairn::fti {
namespace {

constexpr std::size_t kReadBytes = 1 << 20;
constexpr std::size_t kBadChunksTold = 4;

ftiff::ReadAt ReaderOf(File& file) {
  return [&file](std::uint64_t offset, std::span<std::byte> target) { return file.ReadAt(offset, target); };
}

absl::StatusOr<std::uint64_t> RegularBytes(File& file) {
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file.Info());
  if (!info.is_regular()) return DataLoss("{}: not a regular file", file.path());
  return info.bytes;
}

std::size_t HashThreads() {
  return std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, 8);
}

}  // namespace

absl::StatusOr<OpenedFile> OpenRankFile(Disk& disk, const std::string& path, std::optional<std::int32_t> id) {
  OpenedFile opened;
  CAIRN_ASSIGN_OR_RETURN(opened.file, disk.Open(path, {}));
  CAIRN_ASSIGN_OR_RETURN(opened.bytes, RegularBytes(*opened.file));
  CAIRN_ASSIGN_OR_RETURN(opened.metadata, ftiff::DecodeMetadata(path, opened.bytes, ReaderOf(*opened.file)));
  if (id.has_value() && HoldsId(opened.metadata.letter) && opened.metadata.header.checkpoint_id != *id) {
    return DataLoss("{}: its ckptId is {}, expected {}", path, opened.metadata.header.checkpoint_id, *id);
  }
  return opened;
}

absl::Status VerifyRankFile(const OpenedFile& opened) {
  const std::string& path = opened.file->path();
  CAIRN_ASSIGN_OR_RETURN(const ftiff::Verdict verdict,
                         ftiff::VerifyData(path, opened.metadata, ReaderOf(*opened.file), HashThreads()));
  if (verdict.ok()) return absl::OkStatus();
  if (verdict.bad.empty()) return DataLoss("{}: {}", path, verdict.bad_checksum);
  std::string bad;
  for (std::size_t i = 0; i < std::min(verdict.bad.size(), kBadChunksTold); ++i) {
    bad += fmt::format("{}container {}: {}", i == 0 ? "" : "; ", verdict.bad[i].container, verdict.bad[i].why);
  }
  if (verdict.bad.size() > kBadChunksTold) bad += fmt::format("; and {} more", verdict.bad.size() - kBadChunksTold);
  return DataLoss("{}: {}", path, bad);
}

absl::StatusOr<OpenedCode> OpenCodeFile(Disk& disk, const std::string& path) {
  OpenedCode opened;
  CAIRN_ASSIGN_OR_RETURN(opened.file, disk.Open(path, {}));
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t bytes, RegularBytes(*opened.file));
  CAIRN_ASSIGN_OR_RETURN(opened.record, ftiff::DecodeEncoded(path, bytes, ReaderOf(*opened.file)));
  return opened;
}

absl::Status VerifyCodeFile(const OpenedCode& opened) {
  Md5Stream hash;
  std::vector<std::byte> buffer(std::min<std::uint64_t>(kReadBytes, opened.record.code_bytes));
  for (std::uint64_t offset = 0; offset < opened.record.code_bytes; offset += buffer.size()) {
    const std::uint64_t rest = opened.record.code_bytes - offset;
    const auto piece = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), rest));
    CAIRN_RETURN_IF_ERROR(opened.file->ReadAt(offset, piece));
    hash.Append(piece);
  }
  const std::string found = HexOf(hash.Finish());
  if (found == opened.record.checksum_hex) return absl::OkStatus();
  return DataLoss("{}: the MD5 of the code bytes is {}, expected {}", opened.file->path(), found,
                  opened.record.checksum_hex);
}

bool HoldsId(ftiff::Letter letter) {
  return letter != ftiff::Letter::kA && letter != ftiff::Letter::kB;
}

bool HasLengthWord(ftiff::Letter letter) {
  return letter != ftiff::Letter::kA && letter != ftiff::Letter::kB;
}

ReadShard DataShard(File& file, std::uint64_t bytes, std::uint64_t shard_bytes, bool length_word) {
  CAIRN_CHECK(bytes <= shard_bytes && (!length_word || shard_bytes - bytes >= sizeof(std::uint64_t)));
  return [&file, bytes, shard_bytes, length_word](std::uint64_t offset, std::span<std::byte> target) -> absl::Status {
    CAIRN_CHECK(offset <= shard_bytes && target.size() <= shard_bytes - offset);
    const auto own = offset < bytes ? std::min<std::uint64_t>(target.size(), bytes - offset) : 0;
    if (own > 0) CAIRN_RETURN_IF_ERROR(file.ReadAt(offset, target.first(own)));
    std::fill(target.begin() + static_cast<std::ptrdiff_t>(own), target.end(), std::byte{0});
    const std::uint64_t length_at = shard_bytes - sizeof(std::uint64_t);
    for (std::uint64_t i = 0; length_word && i < sizeof(std::uint64_t); ++i) {
      const std::uint64_t at = length_at + i;
      if (at >= offset && at - offset < target.size()) target[at - offset] = static_cast<std::byte>(bytes >> (8 * i));
    }
    return absl::OkStatus();
  };
}

}  // namespace cairn::fti
