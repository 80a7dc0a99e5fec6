#include "storage/job/convert/convert.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/fti/names.h"
#include "storage/format/ftiff/layout.h"
#include "storage/format/ftiff/variables.h"

namespace cairn {
namespace {

// The checkpoint's number as a name of FTI's tells it.
std::optional<std::int32_t> IdInName(const std::string& path) {
  const auto name = fti::ParseFileName(BaseOf(path));
  if (!name.has_value() || name->kind == fti::FileKind::kDifferential) return std::nullopt;
  return name->id;
}

std::int32_t IdOf(const ftiff::FileMetadata& metadata, const std::string& path, const std::string& output) {
  if (HoldsCheckpointId(metadata.letter)) return metadata.header.checkpoint_id;
  return IdInName(path).value_or(IdInName(output).value_or(0));
}

absl::StatusOr<ftiff::FileToWrite> PlanFile(const std::string& path, bool exact, ftiff::Letter letter,
                                            const ftiff::FileMetadata& source) {
  ftiff::FileToWrite target{
      .letter = letter, .header = source.header, .layout = {}, .chunk_hashes = {}, .registered = source.registered};
  const std::vector<ftiff::VariableSize> registered = ftiff::Variables(source.layout).SizesInOrder(source.registered);
  if (exact) {
    CAIRN_ASSIGN_OR_RETURN(target.layout, ftiff::PlanFresh(registered, ftiff::Packing::kExact));
  } else if (letter == ftiff::Letter::kA && !ftiff::AppearAsRegistered(source.layout, registered)) {
    return FailedPrecondition(
        "{}: its variables stand in another order than they were registered in, and FTI 1.1 cannot "
        "restore these containers: --packing exact orders them anew",
        path);
  } else {
    target.layout = source.layout;
    target.chunk_hashes = source.chunk_hashes;
  }
  return target;
}

}  // namespace

absl::StatusOr<Conversion> Conversion::Plan(Disk& disk, const std::string& path, const ConvertOptions& options) {
  Conversion conversion;
  conversion.path_ = path;
  conversion.options_ = options;
  CAIRN_ASSIGN_OR_RETURN(conversion.file_, OpenCheckpointFile(disk, path));
  const ftiff::FileMetadata& metadata = conversion.file_.metadata;
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, conversion.file_.file->Info());
  conversion.bytes_there_ = info.bytes;
  conversion.file_mode_ = info.mode;
  // Containers of which the file itself has only the front may claim any size: they are not worth their zeros.
  conversion.exact_ = options.exact || metadata.file_bytes > info.bytes;
  CAIRN_ASSIGN_OR_RETURN(conversion.target_, PlanFile(path, conversion.exact_, options.letter, metadata));
  return conversion;
}

std::uint64_t Conversion::bytes() const {
  return target_.layout.file_bytes(options_.letter);
}

absl::StatusOr<Converted> Conversion::Run(const std::string& output, const WriteAt& write) {
  target_.header.checkpoint_id = IdOf(file_.metadata, path_, output);
  // Before: containers that are put together have no hash to compare with, and in A and B only the checksum of the
  // whole file covers the records.
  CAIRN_RETURN_IF_ERROR(CheckWhole(file_, path_));
  const ftiff::Variables variables(file_.metadata.layout);
  const ftiff::ReadAt read = file_.reader();
  const auto read_variable = [&](std::int32_t id, std::uint64_t offset, std::span<std::byte> bytes) {
    return variables.Read(path_, id, offset, bytes, read);
  };
  CAIRN_ASSIGN_OR_RETURN(ftiff::FileMetadata written, ftiff::WriteFile(target_, read_variable, write));
  return Converted{.metadata = std::move(written), .notes = NotesOf(output)};
}

std::vector<std::string> Conversion::NotesOf(const std::string& output) const {
  const ftiff::FileMetadata& source = file_.metadata;
  const auto name_id = IdInName(output);
  std::vector<std::string> notes;
  if (HoldsCheckpointId(target_.letter) && name_id.has_value() && *name_id != target_.header.checkpoint_id) {
    notes.push_back(fmt::format("the name says checkpoint {}, the file {}: FTI goes by the name", *name_id,
                                target_.header.checkpoint_id));
  }
  if (!HoldsCheckpointId(source.letter) && HoldsCheckpointId(target_.letter) && !IdInName(path_).has_value() &&
      !name_id.has_value()) {
    notes.push_back(fmt::format("layout {} holds no checkpoint number, and no name tells it: it is 0 in the new file",
                                static_cast<char>(source.letter)));
  }
  if (target_.letter == ftiff::Letter::kA && !HoldsRegistration(source.letter)) {
    notes.push_back(
        fmt::format("layout {} does not hold in which order the variables were protected, by which FTI 1.1 finds them: "
                    "protect them in that of the new file, {}",
                    static_cast<char>(source.letter), fmt::join(target_.registered, ", ")));
  }
  if (source.header.file_bytes_max >= 0) {
    notes.emplace_back("the file is of level 3: the code files of its group fit the old file, not the new one");
  }
  if (source.header.partner_bytes >= 0) {
    notes.emplace_back("the file is of level 2: its copy on another node is one of the old file");
  }
  if (exact_ && !options_.exact) {
    notes.push_back(
        fmt::format("{} ends inside a container, after {} of {} bytes: the new file has one container a variable",
                    path_, bytes_there_, source.file_bytes));
  }
  return notes;
}

}  // namespace cairn
