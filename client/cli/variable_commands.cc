// The commands on variables, as BP5 metadata shows them: they need no daemon where the data is on the prefix.
#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

#include "client/cli/bp/bp_command.h"
#include "client/cli/bp/dump_command.h"
#include "client/cli/bp/vars_command.h"
#include "client/cli/command_line.h"

namespace cairn::cli {
namespace {

constexpr const char* kVarsFooter =
    "DIR is a BP5 directory, Cairn's or ADIOS2's; or name a run and a dataset. A dataset of the application's own "
    "files\n"
    "shows the BP5 directory in it (name it behind the number if there are several); a dataset that is in this node's\n"
    "cache only is shown, too, as far as its ranks are on this node. Further names are variables, or patterns of "
    "them.\n"
    "\n"
    "A line is: type, name, steps*{shape} = min / max over all steps. __ is a number that differs between steps (or,\n"
    "of local arrays, [blocks]*{extents}, between blocks); a scalar that is in one step only shows its value. With "
    "-D:\n"
    "each step's blocks with their boxes, bounds and writers, or its values. Steps count over the whole directory;\n"
    "\"its 2\" is the step counted over those that have the variable. JSON has everything, block by block, with all\n"
    "digits; NaN and infinities are strings there. --raw shows index, formats and records field by field with the\n"
    "offsets where they lie, as far as a damaged directory can be read.\n"
    "\n"
    "Examples:\n"
    "  cairn vars out/fields.bp\n"
    "  cairn vars out/fields.bp -D 'vel*'          blocks of some variables\n"
    "  cairn vars /scratch/me/heat 17 -a           dataset 17 of a run, with attributes\n"
    "  cairn vars --json out/fields.bp | jq '.variables[] | {name, min, max}'\n"
    "  cairn vars --raw out/fields.bp | less\n"
    "\n"
    "Exit codes: 0 done; 2 the command is wrong; 4 no such directory, run, dataset or variable; 5 damaged (what can "
    "be\n"
    "read is shown); 1 anything else, as another version of the format.";

constexpr const char* kDumpFooter =
    "Where the variable is: as for `cairn vars`. Without --step scalars are shown in all steps, arrays in the last "
    "one\n"
    "that has them. Steps count over the whole directory, or with --relative over those that have the variable;\n"
    "negative ones count from the variable's last (-1). --start and --count choose a box, slowest dimension first;\n"
    "negative starts count from the end, a count of -1 goes to the end. Of local arrays every block is shown, or with\n"
    "--block one, and the box counts from the block's begin. Text and JSON have as many digits as it takes to read "
    "the\n"
    "same number back; JSON's values are flat, in the order of memory. Elements in no block are 0, which is noted.\n"
    "\n"
    "A .npy has one array: of several steps with a dimension for the steps in front. Arrays of any size pass with a "
    "few\n"
    "MiB of memory.\n"
    "\n"
    "Examples:\n"
    "  cairn dump out/fields.bp time                                  all steps\n"
    "  cairn dump out/fields.bp T --step 3 --start 0,10 --count 5,-1\n"
    "  cairn dump /scratch/me/heat 17 temperature --npy t.npy\n"
    "  cairn dump out/fields.bp T --step all --npy - | python3 -c 'import numpy, sys, io;\n"
    "      print(numpy.load(io.BytesIO(sys.stdin.buffer.read())).mean())'\n"
    "\n"
    "Exit codes: 0 done; 2 the command is wrong, or the box leaves the array; 4 no such variable, step or block, or a\n"
    "data file is missing; 5 damaged; 1 anything else.";

constexpr const char* kBpFooter =
    "Each committed dataset of protected memory is a step, in the order of their numbers; no byte of data is copied: "
    "the\n"
    "directory has links to the checkpoint files, relative ones where both are below one directory. So it shows the\n"
    "checkpoints while they are there: make it again when some were added or removed (an older one of this command is\n"
    "replaced, anything else is not). Datasets of the application's own files are not in it, which is said.\n"
    "\n"
    "Examples:\n"
    "  cairn bp /scratch/me/heat -o /scratch/me/heat/all.bp\n"
    "  cairn bp /scratch/me/heat -o some.bp --dataset 17 --dataset 20\n"
    "  bpls -l all.bp; cairn vars all.bp -D\n"
    "\n"
    "Exit codes: 0 done; 1 refused or failed; 2 the command is wrong; 4 no such run or dataset, or none to show; 5 a\n"
    "dataset is damaged.";

void AddVars(CLI::App& app, CommandLine& line) {
  const auto options = std::make_shared<VarsOptions>();
  CLI::App* const vars = app.add_subcommand("vars", "Variables of a BP5 directory or a dataset: types, shapes, bounds");
  vars->add_option("DIR|RUN DATASET", options->arguments, "A BP5 directory, or a run and a dataset of it; then names")
      ->required();
  vars->add_option("--var", options->names, "Only this variable, or those that match the pattern (may be repeated)")
      ->allow_extra_args(false);
  vars->add_flag("-D,--blocks", options->blocks, "Each step's blocks, or values");
  vars->add_flag("-a,--attributes", options->attributes, "Attributes, too");
  vars->add_flag("--raw", options->raw, "Index, formats and records, field by field");
  vars->add_flag("-l,--long", options->bounds, "Minimum and maximum: always shown; accepted as bpls has it");
  vars->footer(kVarsFooter);
  vars->callback([&line, options] { line.run = [&line, options] { return RunVars(line.context, *options); }; });
}

void AddDump(CLI::App& app, CommandLine& line) {
  const auto options = std::make_shared<DumpOptions>();
  CLI::App* const dump = app.add_subcommand("dump", "The values of a variable: as text, JSON or for numpy");
  dump->add_option("DIR VAR|RUN DATASET VAR", options->arguments,
                   "A BP5 directory, or a run and a dataset of it; then the variable")
      ->required();
  dump->add_option("--var", options->variable, "The variable's name, instead of VAR");
  dump->add_option("--step", options->selection.step, "A step, negative from the last (-1), or all");
  dump->add_flag("--relative", options->selection.relative, "--step counts the steps that have the variable");
  dump->add_option("--start", options->start, "First element of the box, as 0,10");
  dump->add_option("--count", options->count, "Elements in each dimension; -1: to the end");
  dump->add_option("--block", options->selection.block, "Only this block, as `cairn vars -D` numbers them");
  dump->add_option("--npy", options->npy, "Make this .npy file; - is standard output");
  dump->add_flag("--force", options->force, "Replace the file if it is there");
  dump->footer(kDumpFooter);
  dump->callback([&line, options] { line.run = [&line, options] { return RunDump(line.context, *options); }; });
}

void AddBp(CLI::App& app, CommandLine& line) {
  const auto options = std::make_shared<CombineOptions>();
  CLI::App* const bp = app.add_subcommand("bp", "All checkpoints of a run as one BP5 directory, without a copy");
  bp->add_option("RUN", options->run, "Prefix, identity or name of the run")->required();
  bp->add_option("-o,--output", options->output, "The directory to make")->required();
  bp->add_option("--dataset", options->datasets, "Only this dataset (may be repeated)")->allow_extra_args(false);
  bp->footer(kBpFooter);
  bp->callback([&line, options] { line.run = [&line, options] { return RunBp(line.context, *options); }; });
}

}  // namespace

void AddVariableCommands(CLI::App& app, CommandLine& line) {
  AddVars(app, line);
  AddDump(app, line);
  AddBp(app, line);
}

}  // namespace cairn::cli
