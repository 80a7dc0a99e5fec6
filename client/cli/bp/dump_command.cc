#include "client/cli/bp/dump_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <span>

#include "client/cli/bp/dump_output.h"
#include "client/cli/bp/npy.h"
#include "client/cli/bp/place.h"
#include "client/cli/bp/summary.h"
#include "client/cli/bp/text_out.h"
#include "client/cli/bp/value.h"
#include "client/cli/bp/vars_command.h"
#include "client/cli/file_argument.h"
#include "client/cli/json.h"
#include "client/cli/output_file.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"

namespace cairn::cli {
namespace {

constexpr const char* kHoles = "some of these elements are in no block of the step; they are 0";

absl::StatusOr<std::string> VariableName(const BpPlace& place, const DumpOptions& options) {
  const std::size_t names = place.rest.size() + (options.variable.empty() ? 0 : 1);
  if (names == 0) return InvalidArgument("which variable? `cairn vars` lists them");
  if (names > 1) return InvalidArgument("one variable at a time: {} were named", names);
  return options.variable.empty() ? place.rest.front() : options.variable;
}

absl::Status CheckOptions(const bp5::Variable& variable, const DumpSelection& selection) {
  const bool boxed = !selection.start.empty() || !selection.count.empty();
  if (variable.kind == bp5::Kind::kGlobalValue && boxed) {
    return InvalidArgument("{} is a scalar: there is nothing to select by --start and --count", variable.name);
  }
  if (!bp5::IsArray(variable.kind) && selection.block) {
    return InvalidArgument("{} is no array: it has no blocks", variable.name);
  }
  return absl::OkStatus();
}

absl::Status NpyToStandardOutput(const DumpTarget& target, const NpyArray& array) {
  const auto covered = WriteNpy(target, array, [](std::span<const std::byte> bytes) {
    return std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size() ? absl::OkStatus()
                                                                              : Cancelled("nobody reads");
  });
  if (!covered.ok()) return covered.status();
  if (!*covered) Note(kHoles);
  return absl::OkStatus();
}

absl::Status NpyToFile(const Context& context, Disk& disk, const DumpTarget& target, const NpyArray& array,
                       const DumpOptions& options) {
  const std::uint64_t bytes = array.header.size() + array.data_bytes;
  CAIRN_ASSIGN_OR_RETURN(
      const auto output,
      OutputFile::Create(disk, options.npy, {.input = {}, .force = options.force, .mode = 0666, .bytes = bytes}));
  std::uint64_t at = 0;
  CAIRN_ASSIGN_OR_RETURN(const bool covered, WriteNpy(target, array, [&](std::span<const std::byte> part) {
                           const absl::Status written = output->WriteAt(at, part);
                           at += part.size();
                           return written;
                         }));
  CAIRN_RETURN_IF_ERROR(output->Commit());
  const bp5::Variable& variable = target.variable();
  if (context.json) {
    Print(Dump({{"output", output->path()},
                {"name", variable.name},
                {"type", bp5::NameOf(variable.type)},
                {"steps", target.steps},
                {"shape", array.shape},
                {"bytes", bytes},
                {"complete", covered}}));
    return absl::OkStatus();
  }
  if (!covered) Note(kHoles);
  if (variable.type == bp5::Type::kLongDouble) Note("long double: numpy reads '<f16' on x86-64 only");
  Print(fmt::format("{}: {} {} {}, {} bytes ({})\n", Clean(output->path()), bp5::NameOf(variable.type),
                    Clean(variable.name), Braces(array.shape), bytes, Bytes(bytes)));
  return absl::OkStatus();
}

absl::Status DumpNpy(const Context& context, Disk& disk, const DumpTarget& target, const DumpOptions& options) {
  CAIRN_ASSIGN_OR_RETURN(const NpyArray array, PlanNpy(target));
  if (options.npy != "-") return NpyToFile(context, disk, target, array, options);
  return NpyToStandardOutput(target, array);
}

absl::Status DumpVariable(const Context& context, DumpOptions options) {
  CAIRN_ASSIGN_OR_RETURN(options.selection.start, ParseNumbers("--start", options.start));
  CAIRN_ASSIGN_OR_RETURN(options.selection.count, ParseNumbers("--count", options.count));
  if (options.npy == "-" && context.terminal) {
    return InvalidArgument("a .npy is nothing for a terminal: redirect it or name a file");
  }
  const auto disk = MakePosixDisk();
  CAIRN_ASSIGN_OR_RETURN(const BpPlace place, FindBpPlace(context, *disk, options.arguments));
  CAIRN_ASSIGN_OR_RETURN(const std::string name, VariableName(place, options));
  for (const std::string& note : place.notes) Note(note);
  CAIRN_ASSIGN_OR_RETURN(const auto directory, OpenBpData(*disk, place));
  const bp5::Metadata& metadata = directory->metadata();
  const auto number = FindNamed(metadata, name);
  if (!number.ok()) return AtPlace(number.status(), place);
  const bp5::Variable& variable = metadata.variables()[*number];
  CAIRN_RETURN_IF_ERROR(CheckOptions(variable, options.selection));
  CAIRN_ASSIGN_OR_RETURN(auto steps, StepsOf(variable, metadata.steps(), options.selection));
  const DumpTarget target{.title = place.title,
                          .metadata = metadata,
                          .source = directory->data(),
                          .number = *number,
                          .steps = std::move(steps),
                          .selection = options.selection};
  if (!options.npy.empty()) return AtPlace(DumpNpy(context, *disk, target, options), place);
  TextOut out;
  return AtPlace(context.json ? DumpAsJson(target, out) : DumpAsText(target, out), place);
}

}  // namespace

ExitCode RunDump(const Context& context, const DumpOptions& options) {
  const absl::Status status = DumpVariable(context, options);
  // Nobody reads any more: the command's end says that of its output, if it was no closed pipe.
  if (status.ok() || absl::IsCancelled(status)) return ExitCode::kOk;
  return ComplainOfBp(status);
}

}  // namespace cairn::cli
