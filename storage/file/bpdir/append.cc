#include "storage/file/bpdir/append.h"

#include "storage/base/path.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>

#include "storage/base/status.h"
#include "storage/io/lost_syncs.h"

namespace cairn::bpdir {
namespace {

constexpr std::uint64_t kChunkBytes = 1 << 20;

bool SameBytes(std::span<std::byte> a, std::span<std::byte> b, std::uint64_t offset, bool index, std::uint64_t* at) {
  if (index && offset <= kActiveFlagAt && kActiveFlagAt < offset + a.size()) {
    a[kActiveFlagAt - offset] = b[kActiveFlagAt - offset] = std::byte{0};
  }
  const auto differs = std::ranges::mismatch(a, b).in1;
  *at = offset + static_cast<std::uint64_t>(differs - a.begin());
  return differs == a.end();
}

}  // namespace

std::optional<std::uint32_t> SubfileOf(std::string_view name) {
  constexpr std::string_view kData = "data.";
  if (!name.starts_with(kData)) return std::nullopt;
  name.remove_prefix(kData.size());
  std::uint32_t subfile = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), subfile);
  const bool canonical = name == "0" || !name.starts_with('0');
  if (error != std::errc() || end != name.data() + name.size() || !canonical) return std::nullopt;
  return subfile;
}

bool IsOfDirectory(std::string_view name) {
  return name == "md.idx" || name == "md.0" || name == "mmd.0" || name == "profiling.json" || SubfileOf(name);
}

absl::Status WriteSynced(File& file, std::uint64_t offset, std::string_view bytes) {
  CAIRN_RETURN_IF_ERROR(file.WriteAt(offset, std::as_bytes(std::span(bytes.data(), bytes.size()))));
  return SyncOrDistrust(file);
}

absl::Status AppendAtOnce(File& file, std::uint64_t end, std::string_view records, std::size_t length_at) {
  const std::string_view head = records.substr(0, length_at + 8), rest = records.substr(head.size());
  return AppendAtOnce(file, end, head, length_at, [&] {
    return file.WriteAt(end + head.size(), std::as_bytes(std::span(rest.data(), rest.size())));
  });
}

absl::Status AppendAtOnce(File& file, std::uint64_t end, std::string_view head, std::size_t length_at,
                          const std::function<absl::Status()>& write_rest) {
  if (head.size() < length_at + 8) return WriteSynced(file, end, head);
  std::string stub(head.substr(0, length_at + 7));
  std::memset(stub.data() + length_at, 0xff, 7);
  stub[length_at] = static_cast<char>(0xf8);  // lengths are multiples of 8
  CAIRN_RETURN_IF_ERROR(WriteSynced(file, end, stub));
  CAIRN_RETURN_IF_ERROR(write_rest());
  CAIRN_RETURN_IF_ERROR(WriteSynced(file, end + stub.size(), head.substr(stub.size())));
  return WriteSynced(file, end + length_at, head.substr(length_at, 7));
}

absl::Status CopyRange(File& from, File& to, std::uint64_t offset, std::uint64_t end, const Allowance& allowance,
                       const Look& look) {
  std::vector<std::byte> buffer(std::min(kChunkBytes, end - std::min(offset, end)));
  while (offset < end) {
    // Whole chunks from the file's beginning, so that they can be compared with sums of them.
    const std::uint64_t bytes = std::min(end, (offset / kChunkBytes + 1) * kChunkBytes) - offset;
    const std::span<std::byte> chunk(buffer.data(), bytes);
    if (!allowance(bytes)) return Cancelled("copy to {} was stopped at offset {}", to.path(), offset);
    CAIRN_RETURN_IF_ERROR(Annotate(from.ReadAt(offset, chunk), "source"));
    if (look) CAIRN_RETURN_IF_ERROR(look(offset, chunk));
    CAIRN_RETURN_IF_ERROR(Annotate(to.WriteAt(offset, chunk), "target"));
    offset += bytes;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::uint64_t> FirstDifference(File& a, File& b, std::uint64_t end, bool index) {
  for (File* file : {&a, &b}) {
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file->Info());
    end = std::min(end, info.bytes);
  }
  std::vector<std::byte> of_a(std::min(kChunkBytes, end)), of_b(of_a.size());
  for (std::uint64_t offset = 0; offset < end; offset += kChunkBytes) {
    const std::uint64_t bytes = std::min(kChunkBytes, end - offset);
    CAIRN_RETURN_IF_ERROR(a.ReadAt(offset, {of_a.data(), bytes}));
    CAIRN_RETURN_IF_ERROR(b.ReadAt(offset, {of_b.data(), bytes}));
    std::uint64_t at = 0;
    if (!SameBytes({of_a.data(), bytes}, {of_b.data(), bytes}, offset, index, &at)) return at;
  }
  return end;
}

absl::Status CutFile(Disk& disk, const std::string& path, std::uint64_t bytes) {
  const auto info = disk.Info(path);
  if (absl::IsNotFound(info.status())) return absl::OkStatus();
  if (!info.ok()) return info.status();
  if (info->bytes <= bytes) return absl::OkStatus();
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, disk.Open(path, {.writable = true}));
  CAIRN_RETURN_IF_ERROR(file->Truncate(bytes));
  return SyncOrDistrust(*file);
}

absl::Status ClearPlace(Disk& disk, const std::string& directory) {
  const auto names = disk.List(directory);
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  if (!names.ok()) return names.status();
  const absl::Status index = disk.Remove(directory + "/md.idx");
  if (!index.ok() && !absl::IsNotFound(index)) return index;
  CAIRN_RETURN_IF_ERROR(disk.SyncDirectory(directory));
  for (const std::string& name : *names) {
    const bool half_made = name.starts_with("md.idx") && IsWorkName(name);
    if ((!IsOfDirectory(name) && !half_made) || name == "md.idx") continue;
    const absl::Status removed = disk.Remove(directory + "/" + name);
    if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  }
  return disk.SyncDirectory(directory);
}

}  // namespace cairn::bpdir
