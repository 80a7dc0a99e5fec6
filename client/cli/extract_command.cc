#include "client/cli/extract_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "client/cli/file_argument.h"
#include "client/cli/json.h"
#include "client/cli/output_file.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/format/ftiff/codec.h"
#include "storage/io/errno_status.h"
#include "storage/io/posix_disk.h"

namespace cairn::cli {
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

std::uint64_t BytesOf(const ftiff::FileLayout& layout) {
  std::uint64_t bytes = 0;
  for (const ftiff::Container& container : layout.containers) bytes += container.chunk_bytes;
  return bytes;
}

// Compares the hashes of all chunks; each byte passes `read` on the way.
absl::Status Verify(const std::string& path, const ftiff::FileMetadata& variable, const ftiff::ReadAt& read) {
  const std::size_t cores = std::max(std::thread::hardware_concurrency(), 1u);
  CAIRN_ASSIGN_OR_RETURN(const ftiff::Verdict verdict, ftiff::VerifyData(path, variable, read, cores));
  if (verdict.bad.empty()) return absl::OkStatus();
  return DataLoss("{}{}", verdict.bad.front().why,
                  verdict.bad.size() == 1 ? "" : fmt::format("; so are {} more containers", verdict.bad.size() - 1));
}

// Reads pieces of chunks and writes each to its place in the output, so that what is written is what is hashed.
ftiff::ReadAt Copying(const ftiff::FileLayout& layout, ftiff::ReadAt read, OutputFile& output) {
  return [&layout, read = std::move(read), &output](std::uint64_t offset, std::span<std::byte> target) -> absl::Status {
    CAIRN_RETURN_IF_ERROR(read(offset, target));
    const auto after = std::upper_bound(layout.containers.begin(), layout.containers.end(), offset,
                                        [](std::uint64_t at, const ftiff::Container& c) { return at < c.file_offset; });
    if (after == layout.containers.begin()) return Internal("a read at {}, before all containers", offset);
    const ftiff::Container& container = *(after - 1);
    return output.WriteAt(container.variable_offset + (offset - container.file_offset), target);
  };
}

absl::Status WriteToStandardOutput(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t taken = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (taken < 0 && errno == EINTR) continue;
    if (taken < 0) return ErrnoStatus(errno, "standard output");
    bytes = bytes.subspan(static_cast<std::size_t>(taken));
  }
  return absl::OkStatus();
}

absl::Status ToStandardOutput(const std::string& path, const ftiff::FileMetadata& variable, const ftiff::ReadAt& read) {
  // What went down a pipe cannot be taken back: the check comes first, and the bytes are read twice.
  CAIRN_RETURN_IF_ERROR(Verify(path, variable, read));
  std::vector<std::byte> buffer(std::min<std::uint64_t>(BytesOf(variable.layout), kPieceBytes));
  for (const ftiff::Container& container : variable.layout.containers) {
    std::span<std::byte> piece;
    for (std::uint64_t done = 0; done < container.chunk_bytes; done += piece.size()) {
      piece = std::span(buffer).first(std::min<std::uint64_t>(container.chunk_bytes - done, buffer.size()));
      CAIRN_RETURN_IF_ERROR(read(container.file_offset + done, piece));
      CAIRN_RETURN_IF_ERROR(WriteToStandardOutput(piece));
    }
  }
  return absl::OkStatus();
}

struct Extracted {
  std::uint64_t bytes = 0;
  std::size_t containers = 0;
  std::string output;
};

absl::StatusOr<Extracted> Extract(const ExtractRequest& request) {
  const auto disk = MakePosixDisk();
  CAIRN_ASSIGN_OR_RETURN(const std::string path, ResolveFile(request.file));
  CAIRN_ASSIGN_OR_RETURN(const CheckpointFile file, OpenCheckpointFile(*disk, path));
  // In A nothing but the checksum of the whole file covers the records: unless it is right, the bytes may be those of
  // another variable. In B it is over all chunks.
  const ftiff::Letter letter = file.metadata.letter;
  if (letter == ftiff::Letter::kA || letter == ftiff::Letter::kB) CAIRN_RETURN_IF_ERROR(CheckWhole(file, path));
  CAIRN_ASSIGN_OR_RETURN(const auto variable, OnlyVariable(file.metadata, path, request.variable));
  Extracted extracted{
      .bytes = BytesOf(variable.layout), .containers = variable.layout.containers.size(), .output = "-"};
  if (request.output == "-") {
    CAIRN_RETURN_IF_ERROR(ToStandardOutput(path, variable, file.reader()));
    return extracted;
  }
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file.file->Info());
  CAIRN_ASSIGN_OR_RETURN(
      const auto output,
      OutputFile::Create(*disk, request.output,
                         {.input = path, .force = request.force, .mode = info.mode | 0600, .bytes = extracted.bytes}));
  CAIRN_RETURN_IF_ERROR(Verify(path, variable, Copying(variable.layout, file.reader(), *output)));
  CAIRN_RETURN_IF_ERROR(output->Commit());
  extracted.output = output->path();
  return extracted;
}

}  // namespace

ExitCode RunExtract(const Context& context, const ExtractRequest& request) {
  const bool to_pipe = request.output == "-";
  if (to_pipe && context.terminal) {
    return Complain(
        InvalidArgument("the bytes of a variable are nothing for a terminal: redirect them or name a file"));
  }
  const auto extracted = Extract(request);
  if (!extracted.ok()) return ComplainOfFile(extracted.status());
  if (to_pipe) return ExitCode::kOk;
  if (context.json) {
    Print(Dump({{"file", request.file},
                {"variable", request.variable},
                {"bytes", extracted->bytes},
                {"containers", extracted->containers},
                {"output", extracted->output}}));
  } else {
    Print(fmt::format("{}: variable {}, {} bytes ({})\n", Clean(extracted->output), request.variable, extracted->bytes,
                      Bytes(extracted->bytes)));
  }
  return ExitCode::kOk;
}

}  // namespace cairn::cli
