#include "client/cli/convert_command.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "client/cli/file_argument.h"
#include "client/cli/json.h"
#include "client/cli/known_file.h"
#include "client/cli/output_file.h"
#include "client/cli/text.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/fti/names.h"
#include "storage/format/ftiff/layout.h"
#include "storage/format/ftiff/variables.h"
#include "storage/format/ftiff/write.h"
#include "storage/io/posix_disk.h"

namespace cairn::cli {
namespace {

// The checkpoint's number as a name of FTI's tells it.
std::optional<std::int32_t> IdInName(const std::string& path) {
  const auto name = fti::ParseFileName(BaseOf(path));
  if (!name.has_value() || name->kind == fti::FileKind::kDifferential) return std::nullopt;
  return name->id;
}

// Where the layout holds no checkpoint id, a name does.
std::int32_t IdOf(const ftiff::FileMetadata& metadata, const std::string& path, const std::string& output) {
  if (HoldsCheckpointId(metadata.letter)) return metadata.header.checkpoint_id;
  return IdInName(path).value_or(IdInName(output).value_or(0));
}

absl::StatusOr<ftiff::FileToWrite> Plan(bool exact, const ConvertRequest& request, const ftiff::FileMetadata& source,
                                        const ftiff::Variables& variables) {
  ftiff::FileToWrite target{.letter = request.letter, .header = source.header, .layout = {}, .chunk_hashes = {}};
  if (exact) {
    CAIRN_ASSIGN_OR_RETURN(target.layout, ftiff::PlanFresh(variables.sizes(), ftiff::Packing::kExact));
  } else {
    target.layout = source.layout;
    target.chunk_hashes = source.chunk_hashes;
  }
  return target;
}

// What is right and yet may surprise.
void TellOf(const ftiff::FileMetadata& source, const ftiff::FileToWrite& target, const std::string& path,
            const std::string& output) {
  const auto name_id = IdInName(output);
  if (HoldsCheckpointId(target.letter) && name_id.has_value() && *name_id != target.header.checkpoint_id) {
    Note(fmt::format("the name says checkpoint {}, the file {}: FTI goes by the name", *name_id,
                     target.header.checkpoint_id));
  }
  if (!HoldsCheckpointId(source.letter) && HoldsCheckpointId(target.letter) && !IdInName(path).has_value() &&
      !name_id.has_value()) {
    Note(fmt::format("layout {} holds no checkpoint number, and no name tells it: it is 0 in the new file",
                     static_cast<char>(source.letter)));
  }
  if (source.header.file_bytes_max >= 0) {
    Note("the file is of level 3: the code files of its group fit the old file, not the new one");
  }
  if (source.header.partner_bytes >= 0) {
    Note("the file is of level 2: its copy on another node is one of the old file");
  }
}

struct Converted {
  std::string output;
  bool exact = false;
  ftiff::FileMetadata metadata;
};

absl::StatusOr<Converted> Convert(const ConvertRequest& request) {
  const auto disk = MakePosixDisk();
  CAIRN_ASSIGN_OR_RETURN(const std::string path, ResolveFile(request.file));
  CAIRN_ASSIGN_OR_RETURN(const CheckpointFile file, OpenCheckpointFile(*disk, path));
  const ftiff::Variables variables(file.metadata.layout);
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file.file->Info());
  // Containers of which the file itself has only the front may claim any size: they are not worth their zeros.
  const bool ends_early = file.metadata.file_bytes > info.bytes;
  const bool exact = request.exact || ends_early;
  CAIRN_ASSIGN_OR_RETURN(ftiff::FileToWrite target, Plan(exact, request, file.metadata, variables));
  CAIRN_ASSIGN_OR_RETURN(const auto output, OutputFile::Create(*disk, request.output,
                                                               {.input = path,
                                                                .force = request.force,
                                                                .mode = info.mode | 0600,
                                                                .bytes = target.layout.file_bytes(request.letter)}));
  target.header.checkpoint_id = IdOf(file.metadata, path, output->path());
  // Before: containers that are put together have no hash to compare with, and in A and B only the checksum of the
  // whole file covers the records.
  CAIRN_RETURN_IF_ERROR(CheckWhole(file, path));
  const ftiff::ReadAt read = file.reader();
  const auto read_variable = [&](std::int32_t id, std::uint64_t offset, std::span<std::byte> bytes) {
    return variables.Read(path, id, offset, bytes, read);
  };
  const auto write = [&](std::uint64_t offset, std::span<const std::byte> bytes) {
    return output->WriteAt(offset, bytes);
  };
  CAIRN_ASSIGN_OR_RETURN(ftiff::FileMetadata written, ftiff::WriteFile(target, read_variable, write));
  CAIRN_RETURN_IF_ERROR(output->Commit());
  TellOf(file.metadata, target, path, output->path());
  if (ends_early && !request.exact) {
    Note(fmt::format("{} ends inside a container, after {} of {} bytes: the new file has one container a variable",
                     path, info.bytes, file.metadata.file_bytes));
  }
  return Converted{.output = output->path(), .exact = exact, .metadata = std::move(written)};
}

}  // namespace

ExitCode RunConvert(const Context& context, const ConvertRequest& request) {
  const auto converted = Convert(request);
  if (!converted.ok()) return ComplainOfFile(converted.status());
  const ftiff::FileMetadata& metadata = converted->metadata;
  const std::size_t containers = metadata.layout.containers.size();
  if (context.json) {
    Print(Dump({{"file", request.file},
                {"output", converted->output},
                {"layout", std::string(1, static_cast<char>(metadata.letter))},
                {"packing", converted->exact ? "exact" : "keep"},
                {"ckptId", metadata.header.checkpoint_id},
                {"containers", containers},
                {"bytes", metadata.file_bytes}}));
  } else {
    Print(fmt::format("{}: layout {}, {}, {} bytes ({})\n", Clean(converted->output),
                      static_cast<char>(metadata.letter), Count(containers, "container"), metadata.file_bytes,
                      Bytes(metadata.file_bytes)));
  }
  return ExitCode::kOk;
}

}  // namespace cairn::cli
