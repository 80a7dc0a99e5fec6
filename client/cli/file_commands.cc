// The commands on files: they need no daemon.
#include <CLI/CLI.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/cli/command_line.h"
#include "client/cli/convert_command.h"
#include "client/cli/diff_command.h"
#include "client/cli/extract_command.h"
#include "client/cli/inspect_command.h"
#include "client/cli/verify_command.h"
#include "storage/base/ids.h"
#include "storage/format/ftiff/letter.h"

namespace cairn::cli {
namespace {

// What the commands on files have in common.
struct Options {
  std::string file, second_file;
  std::vector<std::string> targets;
  DatasetId dataset = 0;
  std::string output;
  bool force = false;
  std::int32_t variable = 0;
  std::string layout, packing = "keep";
};
using SharedOptions = std::shared_ptr<Options>;

constexpr const char* kVerifyFooter =
    "Of an FTI-FF file all is checked: its metadata, every chunk's hash, the file's checksum, the number of the\n"
    "checkpoint in its name (Ckpt<id>-Rank<r>.fti) against the one in the file; of several files in one folder, that\n"
    "the ranks' files are of one checkpoint. Damaged containers are named. Of a run every file is compared with its\n"
    "catalogue, and SCR's lists (summary.scr, rank2file) with both; of SCR's own datasets, which have no checksums,\n"
    "`sizes only`. `failed` are those that a restart has failed on: no restart uses them until `cairn index add`.\n"
    "\n"
    "Examples:\n"
    "  cairn verify Ckpt17-Rank*.fti\n"
    "  cairn verify /local/node0/2018-03-02_14-13-20/l1\n"
    "  cairn verify /scratch/me/heat --dataset 17\n"
    "\n"
    "Exit codes: 0 all is right; 5 something is damaged; 4 something is not there; 1 a dataset is failed, or anything\n"
    "else.";

constexpr const char* kInspectFooter =
    "Of an FTI-FF file: which of the six layouts it has and which releases of FTI write it, the fields of its file\n"
    "record, its variables, and block by block the containers: dptr (offset in the variable), fptr (offset in the\n"
    "file), chunksize (bytes in use), containersize (bytes reserved), and the MD5 of the chunk. The data is not read:\n"
    "see `cairn verify`.\n"
    "\n"
    "Examples:\n"
    "  cairn inspect Ckpt17-Rank0.fti\n"
    "  cairn inspect --json Ckpt17-Rank0.fti | jq '.variables'\n"
    "  cairn inspect /scratch/me/heat/.scr/index.scr";

constexpr const char* kExtractFooter =
    "The output has the variable's bytes as the application had them in memory, whatever containers they lie in.\n"
    "Their hashes are compared on the way: if a chunk is damaged, it is named and no output is left.\n"
    "\n"
    "Examples:\n"
    "  cairn extract Ckpt17-Rank0.fti --var 2 -o u.bin\n"
    "  cairn extract Ckpt17-Rank0.fti --var 2 -o - | od -A d -t f8 | head\n"
    "\n"
    "Exit codes: 0 done; 1 refused or failed; 4 no such file or variable; 5 the variable is damaged.";

constexpr const char* kConvertFooter =
    "Layout A is the documented one, which FTI 1.1 reads; layout F is the one of FTI after 1.6. All six layouts can "
    "be\n"
    "converted. Content, checkpoint number, timestamp and levels' sizes stay; what is damaged is not converted. Where\n"
    "layouts A and B hold no checkpoint number, it is taken from the name (Ckpt<id>-Rank<r>.fti).\n"
    "\n"
    "Packing: keep has the same containers, so that FTI can go on with the file's history; exact puts each variable\n"
    "into one container, without padding.\n"
    "\n"
    "Examples:\n"
    "  cairn convert old/Ckpt17-Rank0.fti --layout F -o new/Ckpt17-Rank0.fti\n"
    "  cairn convert Ckpt17-Rank0.fti --layout A --packing exact -o /tmp/Ckpt17-Rank0.fti\n"
    "\n"
    "Exit codes: 0 done; 1 refused or failed; 4 no such file; 5 the file is damaged.";

constexpr const char* kDiffFooter =
    "Variables are compared by id and offset, so that two files with the same content are the same in whatever "
    "layout,\n"
    "packing and order. Metadata that differs is told, but does not make the files different. Offsets are in bytes.\n"
    "\n"
    "Examples:\n"
    "  cairn diff Ckpt17-Rank0.fti Ckpt18-Rank0.fti\n"
    "  cairn diff --json a.fti b.fti | jq '.variables[] | select(.equal | not) | .id'\n"
    "\n"
    "Exit codes: 0 all variables are the same; 1 they differ; 2 the files cannot be compared; 4 no such file;\n"
    "5 a file is damaged (what can be read of it is compared nevertheless).";

void AddVerify(CLI::App& app, CommandLine& line, const SharedOptions& options) {
  CLI::App* const verify = app.add_subcommand(
      "verify", "Read every byte of runs or files and compare it with its checksums; needs no daemon");
  verify
      ->add_option("RUN|FILE", options->targets,
                   "Prefixes, runs, folders of FTI, or FTI-FF, kvtree and catalogue files")
      ->required();
  verify->add_option("--dataset", options->dataset, "Only this dataset of each run");
  verify->footer(kVerifyFooter);
  verify->callback([&line, options] {
    line.run = [&line, options] { return RunVerify(line.context, options->targets, options->dataset); };
  });
}

void AddInspect(CLI::App& app, CommandLine& line, const SharedOptions& options) {
  CLI::App* const inspect =
      app.add_subcommand("inspect", "What a checkpoint file, a kvtree file or a catalogue says; needs no daemon");
  inspect->add_option("FILE", options->file, "The file")->required();
  inspect->footer(kInspectFooter);
  inspect->callback(
      [&line, options] { line.run = [&line, options] { return RunInspect(line.context, options->file); }; });
}

void AddOutput(CLI::App& command, Options& options, const char* what) {
  command.add_option("-o,--output", options.output, what)->required();
  command.add_flag("--force", options.force, "Replace the output if it is there");
}

void AddExtract(CLI::App& app, CommandLine& line, const SharedOptions& options) {
  CLI::App* const extract = app.add_subcommand("extract", "One variable out of a checkpoint file; needs no daemon");
  extract->add_option("FILE", options->file, "An FTI-FF checkpoint file")->required();
  extract->add_option("--var", options->variable, "The variable's id, as `cairn inspect` shows it")->required();
  AddOutput(*extract, *options, "The file to make; - is standard output");
  extract->footer(kExtractFooter);
  extract->callback([&line, options] {
    line.run = [&line, options] {
      return RunExtract(
          line.context,
          {.file = options->file, .variable = options->variable, .output = options->output, .force = options->force});
    };
  });
}

void AddConvert(CLI::App& app, CommandLine& line, const SharedOptions& options) {
  CLI::App* const convert = app.add_subcommand("convert", "A checkpoint file again in layout A or F; needs no daemon");
  convert->add_option("FILE", options->file, "An FTI-FF checkpoint file of any layout")->required();
  convert->add_option("--layout", options->layout, "A or F")->required()->check(CLI::IsMember({"A", "F"}));
  convert->add_option("--packing", options->packing, "keep (default): the same containers; exact: one a variable")
      ->check(CLI::IsMember({"keep", "exact"}));
  AddOutput(*convert, *options, "The file to make");
  convert->footer(kConvertFooter);
  convert->callback([&line, options] {
    line.run = [&line, options] {
      return RunConvert(line.context, {.file = options->file,
                                       .letter = options->layout == "A" ? ftiff::Letter::kA : ftiff::Letter::kF,
                                       .exact = options->packing == "exact",
                                       .output = options->output,
                                       .force = options->force});
    };
  });
}

void AddDiff(CLI::App& app, CommandLine& line, const SharedOptions& options) {
  CLI::App* const diff = app.add_subcommand("diff", "Which variables of two checkpoint files differ; needs no daemon");
  diff->add_option("FILE", options->file, "An FTI-FF checkpoint file")->required();
  diff->add_option("OTHER", options->second_file, "Another one")->required();
  diff->footer(kDiffFooter);
  diff->callback([&line, options] {
    line.run = [&line, options] { return RunDiff(line.context, options->file, options->second_file); };
  });
}

}  // namespace

void AddFileCommands(CLI::App& app, CommandLine& line) {
  const auto options = std::make_shared<Options>();
  AddVerify(app, line, options);
  AddInspect(app, line, options);
  AddExtract(app, line, options);
  AddConvert(app, line, options);
  AddDiff(app, line, options);
}

}  // namespace cairn::cli
