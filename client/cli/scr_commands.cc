// The commands on SCR's records: they need no daemon, as SCR's own do not.
#include <CLI/CLI.hpp>

#include <cstdint>
#include <ctime>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "client/cli/command_line.h"
#include "client/cli/halt_command.h"
#include "client/cli/halt_time.h"
#include "client/cli/index_command.h"
#include "client/cli/print_command.h"
#include "storage/base/ids.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

constexpr std::int32_t kIntMax = std::numeric_limits<std::int32_t>::max();

// --- index ---

constexpr const char* kIndexFooter =
    "`cairn index RUN` lists, too. NAME is a dataset's name in the index, or its number.\n"
    "\n"
    "The index (.scr/index.scr) says what a restart may use. It is SCR's file: what is changed here, SCR sees, and\n"
    "what scr_index changes, Cairn sees. A launch that runs goes by what it found when it began: change the index\n"
    "between launches, or ask the daemon (`cairn rm`). Lists go by the index alone: `cairn verify RUN` tells whether\n"
    "what is VALID can be read.\n"
    "\n"
    "Examples:\n"
    "  cairn index /scratch/me/heat                      checkpoints, newest first\n"
    "  cairn index list /scratch/me/heat --all           outputs, too, and all that is known of each\n"
    "  cairn index current /scratch/me/heat ckpt.17      the next restart begins at this one\n"
    "  cairn index drop /scratch/me/heat 18              no restart sees it any more; its files stay\n"
    "  cairn index add /scratch/me/heat ckpt.18          and back again\n"
    "  cairn index build /scratch/me/heat 19             after a scavenge: enter it if all ranks' files are there\n"
    "\n"
    "Exit codes: 0 done; 1 refused or failed; 2 the command is wrong; 4 no such run or dataset; 5 the index or the\n"
    "dataset is damaged, or has lost files; 7 build: ranks are missing.";

struct IndexOptions {
  std::string run;         // of the list without its name
  std::string run_of_sub;  // behind the name
  std::string name;
  DatasetId dataset = 0;
  bool all = false;
};
using SharedIndexOptions = std::shared_ptr<IndexOptions>;

constexpr const char* kRunText = "Prefix, identity or name of the run";

CLI::App* AddIndexAction(CLI::App& index, const SharedIndexOptions& options, const char* name, const char* about) {
  CLI::App* const action = index.add_subcommand(name, about);
  action->add_option("RUN", options->run_of_sub, kRunText)->required();
  const CLI::Option* const run_before = index.get_option("RUN");
  action->preparse_callback([run_before, name](std::size_t) {
    if (run_before->count() == 0) return;
    throw CLI::ValidationError("RUN", std::string("comes behind the action: cairn index ") + name + " RUN");
  });
  return action;
}

void AddIndexChange(CLI::App& index, CommandLine& line, const SharedIndexOptions& options, IndexChange change,
                    const char* name, const char* about) {
  CLI::App* const action = AddIndexAction(index, options, name, about);
  action->add_option("NAME", options->name, "Name of the dataset, or its number")
      ->required()
      ->check([](const std::string& text) { return text.empty() ? "is empty" : std::string(); });
  action->callback([&line, options, change] {
    line.run = [&line, options, change] {
      return RunIndexChange(line.context, change, options->run_of_sub, options->name);
    };
  });
}

void AddIndexList(CLI::App& index, CommandLine& line, const SharedIndexOptions& options) {
  CLI::App* const list = AddIndexAction(index, options, "list", "List checkpoints, newest first; --all: outputs, too");
  list->footer(
      "VALID: complete, and no restart from it has failed, by the index alone: `cairn verify RUN` tells whether it "
      "can\n"
      "be read. FLUSHED: when it was. CUR: a restart begins there, or before it. With --all,\n"
      "STATE says why a dataset is not valid, FETCHED when a restart last used it, BY who wrote it.");
  for (CLI::App* const command : {list, &index}) {
    command->add_flag("-a,--all", options->all, "What are no checkpoints, too, and all that the index says of each");
  }
  list->callback([&line, options] {
    line.run = [&line, options] { return RunIndexList(line.context, options->run_of_sub, options->all); };
  });
}

void AddIndex(CLI::App& app, CommandLine& line) {
  const auto options = std::make_shared<IndexOptions>();
  CLI::App* const index =
      app.add_subcommand("index", "List and change the index of a run's prefix, as scr_index does; needs no daemon");
  index->footer(kIndexFooter);
  index->add_option("RUN", options->run, kRunText);
  index->require_subcommand(0, 1);
  AddIndexList(*index, line, options);
  AddIndexChange(*index, line, options, IndexChange::kCurrent, "current",
                 "Let restarts begin at this checkpoint, or before it, until the next one is there");
  AddIndexChange(*index, line, options, IndexChange::kDrop, "drop", "Take a dataset out of the index; its files stay");
  AddIndexChange(*index, line, options, IndexChange::kDropAfter, "drop-after",
                 "The same with all that are newer than this one");
  AddIndexChange(*index, line, options, IndexChange::kRemove, "remove", "Remove a dataset: entry, records and files");
  AddIndexChange(*index, line, options, IndexChange::kAdd, "add",
                 "Enter a dataset that was dropped, lost or failed, by its records, if its files are whole");
  CLI::App* const build =
      AddIndexAction(*index, options, "build", "Complete and enter what a scavenge saved, or say what is missing");
  build->add_option("ID", options->dataset, "Number of the dataset")
      ->required()
      ->check(CLI::Range(1, kIntMax).description(""));
  build->callback([&line, options] {
    line.run = [&line, options] { return RunIndexBuild(line.context, options->run_of_sub, options->dataset); };
  });
  index->callback([&line, options, index] {
    if (!index->get_subcommands().empty()) {
      if (options->run.empty()) return;
      throw CLI::ValidationError(options->run, "is too much");
    }
    if (options->run.empty()) throw CLI::RequiredError("RUN");
    line.run = [&line, options] { return RunIndexList(line.context, options->run, options->all); };
  });
}

// --- halt ---

constexpr const char* kHaltFooter =
    "Without options the run is to stop now: ExitReason JOB_HALTED is written to .scr/halt.scr, where Cairn\n"
    "(cairn_should_exit) and SCR (SCR_Should_exit, and after each checkpoint) find it. To stop after the next\n"
    "checkpoint, -c 1 writes CheckpointsLeft 1, which each checkpoint that succeeds lowers: at 0 the run is to\n"
    "stop. Whether it does is up to the application: it has to ask. Conditions stay until they are unset or\n"
    "removed, for the next launch, too. Of several the first that holds stops the run.\n"
    "\n"
    "TIME is YYYY-MM-DDTHH:MM:SS in local time, or from now on: +2h, +90min. SECONDS may be like 15min.\n"
    "\n"
    "Examples:\n"
    "  cairn halt /scratch/me/heat                  stop now\n"
    "  cairn halt /scratch/me/heat -c 1             stop after the next checkpoint\n"
    "  cairn halt /scratch/me/heat -c 5 -b +2h      after five, or within two hours\n"
    "  cairn halt /scratch/me/heat --list           what is set, and whether the run is to stop\n"
    "  cairn halt /scratch/me/heat --unset-reason   not now, after all\n"
    "  cairn halt /scratch/me/heat --remove         no conditions any more\n"
    "\n"
    "Exit codes: 0 done; 1 failed, or the file stayed locked; 2 the command is wrong; 4 no such run; 5 the halt\n"
    "file is damaged (a change writes it anew).";

struct HaltTexts {
  bool now = false, list = false;
  std::string reason, before, after, seconds;
  std::uint32_t checkpoints = 0;
};

template <typename Parse>
std::function<std::string(const std::string&)> CheckBy(Parse parse) {
  return [parse](const std::string& text) {
    const auto value = parse(text);
    return value.ok() ? std::string() : std::string(MessageOf(value.status()));
  };
}

std::string CheckTime(const std::string& text) {
  return CheckBy([](const std::string& t) { return ParseHaltTime(t, std::time(nullptr)); })(text);
}

void AddConditions(CLI::App& halt, HaltTexts& texts) {
  halt.add_flag("-i,--now", texts.now, "Stop now (what is meant without options)");
  halt.add_option("--reason", texts.reason, "Stop now, for this reason (default JOB_HALTED)")
      ->check([](const std::string& text) { return std::string(MessageOf(CheckHaltReason(text))); });
  halt.add_option("-c,--checkpoints", texts.checkpoints, "Stop after N more checkpoints; 1: after the next one")
      ->check(CLI::Range(1, kIntMax).description(""))
      ->type_name("N");
  halt.add_option("-b,--before", texts.before, "Stop before this time; with -s, so much earlier")
      ->check(CheckTime)
      ->type_name("TIME");
  halt.add_option("-a,--after", texts.after, "Stop at the first chance from this time on")
      ->check(CheckTime)
      ->type_name("TIME");
  halt.add_option("-s,--seconds", texts.seconds, "Stop when only so much of the allocation is left")
      ->check(CheckBy([](const std::string& text) { return ParseHaltSeconds(text); }))
      ->type_name("SECONDS");
}

void AddUnsetting(CLI::App& halt, HaltTexts& texts, HaltOptions& options) {
  halt.add_flag("--unset-reason", options.unset_reason, "Take --now, or --reason back");
  halt.add_flag("--unset-checkpoints", options.unset_checkpoints, "Take --checkpoints back");
  halt.add_flag("--unset-before", options.unset_before, "Take --before back");
  halt.add_flag("--unset-after", options.unset_after, "Take --after back");
  halt.add_flag("--unset-seconds", options.unset_seconds, "Take --seconds back");
  halt.add_flag("-r,--remove", options.remove, "Remove the halt file: no conditions any more");
  halt.add_flag("-l,--list", texts.list, "Only show what is set, and whether the run is to stop now");
}

// Takes the texts over, which were checked when they were parsed.
void Fill(const HaltTexts& texts, HaltOptions& options) {
  const std::int64_t now_s = std::time(nullptr);
  if (texts.checkpoints > 0) options.checkpoints = texts.checkpoints;
  if (!texts.before.empty()) options.before_s = *ParseHaltTime(texts.before, now_s);
  if (!texts.after.empty()) options.after_s = *ParseHaltTime(texts.after, now_s);
  if (!texts.seconds.empty()) options.seconds = *ParseHaltSeconds(texts.seconds);
  const bool now = texts.now || (!texts.list && !options.changes());
  if (now || !texts.reason.empty()) options.reason = texts.reason.empty() ? kHaltedByUser : texts.reason;
}

// What says two things at once.
void CheckHalt(const HaltTexts& texts, const HaltOptions& options) {
  const auto refuse = [](const char* what, const char* why) { throw CLI::ValidationError(what, why); };
  const bool later = options.checkpoints || options.before_s || options.after_s || options.seconds;
  if (texts.list && options.changes()) refuse("--list", "changes nothing: it stands alone");
  HaltOptions rest = options;
  rest.remove = false;
  if (options.remove && rest.changes()) refuse("--remove", "leaves no conditions: it stands alone");
  if (options.reason && later) refuse("--now", "stops the run now: it goes with no condition for later");
  if (options.reason && options.unset_reason) refuse("--unset-reason", "and --now exclude each other");
  if ((options.checkpoints && options.unset_checkpoints) || (options.before_s && options.unset_before) ||
      (options.after_s && options.unset_after) || (options.seconds && options.unset_seconds)) {
    refuse("--unset-...", "excludes setting the same");
  }
}

void AddHalt(CLI::App& app, CommandLine& line) {
  const auto options = std::make_shared<HaltOptions>();
  const auto texts = std::make_shared<HaltTexts>();
  CLI::App* const halt =
      app.add_subcommand("halt", "Tell a run to stop: now, after checkpoints, by a time; needs no daemon");
  halt->footer(kHaltFooter);
  halt->add_option("RUN", options->run, kRunText)->required();
  AddConditions(*halt, *texts);
  AddUnsetting(*halt, *texts, *options);
  halt->callback([&line, options, texts] {
    Fill(*texts, *options);
    CheckHalt(*texts, *options);
    line.run = [&line, options] { return RunHalt(line.context, *options); };
  });
}

// --- print ---

constexpr const char* kPrintFooter =
    "One key a line, two spaces a level, in the order of the file: byte for byte what SCR's printers show (on a\n"
    "terminal with control characters as '?'). JSON has the tree as nested [key, [children]] pairs, so that order,\n"
    "empty keys and all bytes are kept; a key that is not UTF-8 is \"hex:\" and its digits. `cairn inspect` tells of\n"
    "other files, too.\n"
    "\n"
    "Examples:\n"
    "  cairn print /scratch/me/heat/.scr/index.scr\n"
    "  cairn print --sort /mnt/ssd/me/scr.4242/cindex.scrinfo\n"
    "\n"
    "Exit codes: 0 done; 4 no such file; 5 damaged, or no kvtree file: section and offset are named.";

void AddPrint(CLI::App& app, CommandLine& line) {
  struct Options {
    std::string file;
    bool sorted = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* const print = app.add_subcommand("print", "Any kvtree file, as SCR's printer shows it; needs no daemon");
  print->footer(kPrintFooter);
  print->add_option("FILE", options->file, "The file")->required();
  print->add_flag("--sort", options->sorted, "By key, as text (default: as in the file)");
  print->callback([&line, options] {
    line.run = [&line, options] { return RunPrint(line.context, options->file, options->sorted); };
  });
}

}  // namespace

void AddScrCommands(CLI::App& app, CommandLine& line) {
  AddIndex(app, line);
  AddHalt(app, line);
  AddPrint(app, line);
}

}  // namespace cairn::cli
