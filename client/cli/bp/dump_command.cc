// `cairn dump`: the values of one variable, as text, JSON or a file for numpy.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "client/cli/bp/dump_output.h"
#include "client/cli/bp/dump_plan.h"
#include "client/cli/bp/npy.h"
#include "client/cli/bp/place.h"
#include "client/cli/bp/summary.h"
#include "client/cli/bp/text_out.h"
#include "client/cli/bp/value.h"
#include "client/cli/commands.h"
#include "client/cli/file_argument.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/output_file.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"

namespace cairn::cli {
namespace {

constexpr const char* kDumpFooter =
    "Name the place of the variable as for `cairn vars`. Without --step, all steps of a scalar are shown, and the\n"
    "last step of an array. Steps count over the whole directory, or with --relative over the steps that have the\n"
    "variable; negative numbers count back from the variable's last step (-1). --start and --count choose a box,\n"
    "slowest dimension first. A negative start counts from the end; a count of -1 goes to the end. Of a local array\n"
    "all blocks are shown, or with --block one; then the box counts from the block's begin. Text and JSON have all\n"
    "digits that are needed to read the same number back. JSON's values are flat, in the order of memory. Elements\n"
    "that no block has are 0, and a note says so.\n"
    "\n"
    "The command compares what it reads of a run's dataset with the checksums in the dataset's catalogues, one for\n"
    "each MiB. A BP5 directory that is named by its path has no checksums.\n"
    "\n"
    "A .npy has one array; if there are several steps, they are its first dimension. The command needs a few MiB of\n"
    "memory for arrays of any size.\n"
    "\n"
    "Examples:\n"
    "  cairn dump out/fields.bp time                                  all steps\n"
    "  cairn dump out/fields.bp T --step 3 --start 0,10 --count 5,-1\n"
    "  cairn dump /scratch/me/heat 17 temperature --npy t.npy\n"
    "  cairn dump out/fields.bp T --step all --npy - | python3 -c 'import numpy, sys, io;\n"
    "      print(numpy.load(io.BytesIO(sys.stdin.buffer.read())).mean())'\n"
    "\n"
    "Exit codes: 0 done; 2 the command is wrong, or the box leaves the array; 4 no such variable, step or block, or\n"
    "a data file is missing; 5 damaged; 1 anything else.";

struct DumpOptions {
  std::vector<std::string> arguments;  // DIR VAR or RUN DATASET VAR
  std::string variable;                // instead of VAR
  DumpSelection selection;
  std::string start, count;  // "0,10": into `selection`
  std::string npy;           // the file to make; "-": standard output; empty: none
  bool force = false;
  bool no_check = false;
};

constexpr const char* kHoles = "no block of the step has some of these elements; they are 0";

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

absl::Status DumpFrom(const Context& context, Disk& disk, const BpPlace& place, bpdir::Directory& directory,
                      const std::string& name, const DumpOptions& options) {
  const bp5::Metadata& metadata = directory.metadata();
  const auto number = FindNamed(metadata, name);
  if (!number.ok()) return AtPlace(number.status(), place);
  const bp5::Variable& variable = metadata.variables()[*number];
  CAIRN_RETURN_IF_ERROR(CheckOptions(variable, options.selection));
  CAIRN_ASSIGN_OR_RETURN(auto steps, StepsOf(variable, metadata.steps(), options.selection));
  const DumpTarget target{.title = place.title,
                          .metadata = metadata,
                          .source = directory.data(),
                          .number = *number,
                          .steps = std::move(steps),
                          .selection = options.selection};
  if (!options.npy.empty()) return AtPlace(DumpNpy(context, disk, target, options), place);
  TextOut out;
  return AtPlace(context.json ? DumpAsJson(target, out) : DumpAsText(target, out), place);
}

absl::Status DumpVariable(const Context& context, DumpOptions options) {
  CAIRN_ASSIGN_OR_RETURN(options.selection.start, ParseNumbers("--start", options.start));
  CAIRN_ASSIGN_OR_RETURN(options.selection.count, ParseNumbers("--count", options.count));
  if (options.npy == "-" && context.terminal) {
    return InvalidArgument("a terminal cannot show a .npy: redirect it or name a file");
  }
  const auto disk = MakePosixDisk();
  CAIRN_ASSIGN_OR_RETURN(const BpPlace place, FindBpPlace(context, *disk, options.arguments, !options.no_check));
  CAIRN_ASSIGN_OR_RETURN(const std::string name, VariableName(place, options));
  for (const std::string& note : place.notes) Note(note);
  CAIRN_ASSIGN_OR_RETURN(const auto directory, OpenBpData(*disk, place));
  for (const std::string& note : directory->notes()) Note(note);
  return WithEnding(DumpFrom(context, *disk, place, *directory, name, options), *directory);
}
ExitCode RunDump(const Context& context, const DumpOptions& options) {
  const absl::Status status = DumpVariable(context, options);
  // Nobody reads any more: the command's end says that of its output, if it was no closed pipe.
  if (status.ok() || absl::IsCancelled(status)) return ExitCode::kOk;
  return ComplainOfBp(status);
}

}  // namespace

void AddDumpCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<DumpOptions>();
  const Command dump = app.AddCommand("dump", "Show the values of a variable: as text, as JSON or for numpy");
  dump.AddOption("DIR VAR|RUN DATASET VAR", options->arguments,
                 "A BP5 directory, or a run and a dataset of it; then the variable")
      .Required();
  dump.AddOption("--var", options->variable, "The variable's name, instead of VAR");
  dump.AddOption("--step", options->selection.step, "A step, negative from the last (-1), or all");
  dump.AddFlag("--relative", options->selection.relative, "--step counts the steps that have the variable");
  dump.AddOption("--start", options->start, "First element of the box, as 0,10");
  dump.AddOption("--count", options->count, "Elements in each dimension; -1: to the end");
  dump.AddOption("--block", options->selection.block, "Only this block, as `cairn vars -D` numbers them");
  dump.AddOption("--npy", options->npy, "Make this .npy file; - is standard output");
  dump.AddFlag("--force", options->force, "Replace the file if it is there");
  dump.AddFlag("--no-check", options->no_check, kNoCheckText);
  dump.Footer(kDumpFooter);
  SetRun(dump, line, options, RunDump);
}

}  // namespace cairn::cli
