// `cairn vars`: what a BP5 directory or a dataset holds, in the manner of ADIOS2's bpls.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/bp/listing.h"
#include "client/cli/bp/place.h"
#include "client/cli/bp/raw.h"
#include "client/cli/bp/text_out.h"
#include "client/cli/commands.h"
#include "client/cli/file_argument.h"
#include "client/cli/options.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"

namespace cairn::cli {
namespace {

constexpr const char* kVarsFooter =
    "DIR is a BP5 directory, Cairn's or ADIOS2's; or name a run and a dataset. Of a dataset of the application's\n"
    "own files, the command shows the BP5 directory among them; if there are several, name one behind the number.\n"
    "If a dataset is only in this node's cache, it shows the ranks of this node. Further names are variables, or\n"
    "patterns.\n"
    "\n"
    "A line is: type, name, steps*{shape} = min / max over all steps. Local arrays have [blocks]*{extents}. __ is a\n"
    "number that differs between steps or blocks. A scalar in one step only shows its value. With -D the command\n"
    "shows each step's blocks with their boxes, bounds and writers, or its values. Steps count over the whole\n"
    "directory; \"its 2\" counts only the steps that have the variable. JSON has everything, block by block, with\n"
    "all digits; NaN and infinities are strings there. If some steps were stored without bounds, the line says how\n"
    "many steps min and max cover (JSON: bounds_partial). What is read of a run's dataset is compared with its\n"
    "catalogues. --raw shows index, formats and records field by field with their offsets, as far as a damaged\n"
    "directory can be read.\n"
    "\n"
    "Examples:\n"
    "  cairn vars out/fields.bp\n"
    "  cairn vars out/fields.bp -D 'vel*'          blocks of some variables\n"
    "  cairn vars /scratch/me/heat 17 -a           dataset 17 of a run, with attributes\n"
    "  cairn vars --json out/fields.bp | jq '.variables[] | {name, min, max}'\n"
    "  cairn vars --raw out/fields.bp | less\n"
    "\n"
    "Exit codes: 0 done; 2 the command is wrong; 4 no such directory, run, dataset or variable; 5 damaged (what can\n"
    "be read is shown); 1 any other error, for example another version of the format.";

struct VarsOptions {
  std::vector<std::string> arguments;  // DIR or RUN DATASET, then names
  std::vector<std::string> names;      // of variables, more of them
  bool blocks = false, attributes = false, raw = false;
  bool bounds = true;  // always; bpls wants to be asked
  bool no_check = false;
};

std::vector<std::string> NotesOf(const bpdir::Directory& directory) {
  std::vector<std::string> notes = directory.notes();
  if (!directory.ending().ok()) notes.emplace_back(MessageOf(directory.ending()));
  return notes;
}

// As far as it goes: a damaged directory is what this is for.
absl::Status WriteRaw(Disk& disk, const BpPlace& place, TextOut& out) {
  const auto files = BpFiles(disk, place);
  absl::Status first = WriteRawIndex(*files, out);
  const absl::Status formats = WriteRawFormats(*files, out);
  if (first.ok()) first = formats;
  const auto directory = OpenBp(disk, place);
  if (!directory.ok()) return directory.status();
  WriteRawRecords((*directory)->metadata(), out);
  return WithEnding(first, **directory);
}

absl::Status List(const Context& context, Disk& disk, BpPlace place, const VarsOptions& options, TextOut& out) {
  CAIRN_ASSIGN_OR_RETURN(const auto directory, OpenBp(disk, place));
  if (context.json) {
    for (std::string& note : NotesOf(*directory)) place.notes.push_back(std::move(note));
  } else {
    for (const std::string& note : directory->notes()) Note(note);
  }
  ListingOptions listing{.patterns = place.rest, .blocks = options.blocks, .attributes = options.attributes};
  listing.patterns.insert(listing.patterns.end(), options.names.begin(), options.names.end());
  const auto list = context.json ? ListAsJson : ListAsText;
  return WithEnding(AtPlace(list(place, directory->metadata(), listing, out), place), *directory);
}

ExitCode RunVars(const Context& context, const VarsOptions& options) {
  if (options.raw && context.json) return ComplainOfBp(InvalidArgument("--raw is text: there is no JSON of it"));
  const auto disk = MakePosixDisk();
  const auto place = FindBpPlace(context, *disk, options.arguments, !options.no_check);
  if (!place.ok()) return ComplainOfBp(place.status());
  if (!context.json) {
    for (const std::string& note : place->notes) Note(note);
  }
  TextOut out;
  const absl::Status status = options.raw ? WriteRaw(*disk, *place, out) : List(context, *disk, *place, options, out);
  out.Flush();
  return status.ok() ? ExitCode::kOk : ComplainOfBp(status);
}

}  // namespace

void AddVarsCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<VarsOptions>();
  const Command vars = app.AddCommand("vars",
                                      "List the variables of a BP5 directory or a dataset: types, shapes, "
                                      "bounds");
  vars.AddOption("DIR|RUN DATASET", options->arguments, "A BP5 directory, or a run and a dataset of it; then names")
      .Required();
  vars.AddOption("--var", options->names, "Only this variable, or those that match the pattern (may be repeated)")
      .OneValue();
  vars.AddFlag("-D,--blocks", options->blocks, "Each step's blocks, or values");
  vars.AddFlag("-a,--attributes", options->attributes, "Attributes, too");
  vars.AddFlag("--raw", options->raw, "Show index, formats and records, field by field");
  vars.AddFlag("-l,--long", options->bounds, "Accepted because bpls has it: minimum and maximum are always shown");
  vars.AddFlag("--no-check", options->no_check, kNoCheckText);
  vars.Footer(kVarsFooter);
  SetRun(vars, line, options, RunVars);
}

}  // namespace cairn::cli
