#include "storage/job/extract/extract.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::uint64_t kPieceBytes = 1 << 20;

// The containers of one variable as if they were all of the file.
absl::StatusOr<ftiff::FileMetadata> OnlyVariable(const ftiff::FileMetadata& whole, const std::string& path,
                                                 std::int32_t id) {
  ftiff::FileMetadata part;
  std::vector<std::int32_t> others;
  for (std::size_t i = 0; i < whole.layout.containers.size(); ++i) {
    const ftiff::Container& container = whole.layout.containers[i];
    if (container.id == id) {
      part.layout.containers.push_back(container);
      part.chunk_hashes.push_back(whole.chunk_hashes[i]);
    } else if (container.index == 0) {
      others.push_back(container.id);
    }
  }
  if (!part.layout.containers.empty()) return part;
  constexpr std::size_t kShown = 20;
  const bool more = others.size() > kShown;
  if (more) others.resize(kShown);
  return NotFound("{}: no variable {}; there are {}{}", path, id,
                  others.empty() ? "none" : fmt::format("{}", fmt::join(others, ", ")),
                  more ? ", …: see `cairn inspect`" : "");
}

}  // namespace

absl::StatusOr<StoredVariable> StoredVariable::Open(Disk& disk, const std::string& path, std::int32_t id) {
  StoredVariable variable;
  variable.path_ = path;
  CAIRN_ASSIGN_OR_RETURN(variable.file_, OpenCheckpointFile(disk, path));
  const ftiff::FileMetadata& metadata = variable.file_.metadata;
  const bool chunk_hashes_suffice = metadata.letter != ftiff::Letter::kA && metadata.letter != ftiff::Letter::kB;
  if (!chunk_hashes_suffice) CAIRN_RETURN_IF_ERROR(CheckWhole(variable.file_, path));
  CAIRN_ASSIGN_OR_RETURN(variable.containers_, OnlyVariable(metadata, path, id));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, variable.file_.file->Info());
  variable.file_mode_ = info.mode;
  return variable;
}

std::uint64_t StoredVariable::bytes() const {
  std::uint64_t bytes = 0;
  for (const ftiff::Container& container : containers_.layout.containers) bytes += container.chunk_bytes;
  return bytes;
}

absl::Status StoredVariable::Verify(const ftiff::ReadAt& read) const {
  const std::size_t cores = std::max(std::thread::hardware_concurrency(), 1u);
  CAIRN_ASSIGN_OR_RETURN(const ftiff::Verdict verdict, ftiff::VerifyData(path_, containers_, read, cores));
  if (verdict.bad.empty()) return absl::OkStatus();
  return DataLoss("{}{}", verdict.bad.front().why,
                  verdict.bad.size() == 1 ? "" : fmt::format("; so are {} more containers", verdict.bad.size() - 1));
}

absl::Status StoredVariable::Copy(const WriteAt& write) const {
  const std::vector<ftiff::Container>& containers = containers_.layout.containers;
  return Verify([&, read = file_.reader()](std::uint64_t offset, std::span<std::byte> target) -> absl::Status {
    CAIRN_RETURN_IF_ERROR(read(offset, target));
    const auto after = std::upper_bound(containers.begin(), containers.end(), offset,
                                        [](std::uint64_t at, const ftiff::Container& c) { return at < c.file_offset; });
    if (after == containers.begin()) return Internal("a read at {}, before all containers", offset);
    const ftiff::Container& container = *(after - 1);
    return write(container.variable_offset + (offset - container.file_offset), target);
  });
}

absl::Status StoredVariable::Stream(const Write& write) const {
  const ftiff::ReadAt read = file_.reader();
  CAIRN_RETURN_IF_ERROR(Verify(read));
  std::vector<std::byte> buffer(std::min<std::uint64_t>(bytes(), kPieceBytes));
  for (const ftiff::Container& container : containers_.layout.containers) {
    std::span<std::byte> piece;
    for (std::uint64_t done = 0; done < container.chunk_bytes; done += piece.size()) {
      piece = std::span(buffer).first(std::min<std::uint64_t>(container.chunk_bytes - done, buffer.size()));
      CAIRN_RETURN_IF_ERROR(read(container.file_offset + done, piece));
      CAIRN_RETURN_IF_ERROR(write(piece));
    }
  }
  return absl::OkStatus();
}

}  // namespace cairn
