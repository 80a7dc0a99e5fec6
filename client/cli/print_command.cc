// `cairn print`: any kvtree file, as SCR's own printer shows it. Needs no daemon.
#include <fmt/format.h>

#include <string>
#include <utility>

#include "client/cli/commands.h"
#include "client/cli/file_argument.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/text.h"
#include "storage/file/known/known_file.h"
#include "storage/format/kvtree/json.h"
#include "storage/format/kvtree/tree.h"
#include "storage/io/posix_disk.h"

namespace cairn::cli {
namespace {

constexpr const char* kPrintFooter =
    "The output has one key in each line, indented by two spaces for each level, in the order of the file: byte for\n"
    "byte what SCR's printers show. On a terminal control characters are '?'. JSON has the tree as nested [key,\n"
    "[children]] pairs, which keep the order, empty keys and all bytes; a key that is not UTF-8 is \"hex:\" and its\n"
    "digits. For other files use `cairn inspect`.\n"
    "\n"
    "Examples:\n"
    "  cairn print /scratch/me/heat/.scr/index.scr\n"
    "  cairn print --sort /mnt/ssd/me/scr.4242/cindex.scrinfo\n"
    "\n"
    "Exit codes: 0 done; 4 no such file; 5 damaged, or no kvtree file: the message names section and offset.";

struct PrintOptions {
  std::string file;
  bool sorted = false;  // by key; else in the order of the file
};

// The tree's own text stands in it as it is: it may have a million keys.
std::string FileJson(const std::string& path, const TreeFile& file) {
  const Json path_json(path);
  return fmt::format("{{\n  \"kind\": \"kvtree\",\n  \"path\": {},\n  \"payload_bytes\": {},\n  \"tree\": {}\n}}\n",
                     path_json.dump(-1, ' ', false, Json::error_handler_t::replace), file.payload_bytes,
                     kvtree::JsonText(file.tree));
}

// Keys are anybody's bytes, which a terminal might obey; the line ends are ours.
std::string CleanLines(std::string text) {
  for (char& c : text) {
    if (c != '\n') c = Clean({&c, 1}).front();
  }
  return text;
}

// What is behind the tree is told on standard error.
ExitCode RunPrint(const Context& context, const PrintOptions& options) {
  const auto absolute = ResolveFile(options.file);
  if (!absolute.ok()) return ComplainOfFile(absolute.status());
  const auto disk = MakePosixDisk();
  auto file = OpenTreeFile(*disk, *absolute);
  if (!file.ok()) return ComplainOfFile(file.status());
  if (options.sorted) file->tree.Sort();
  if (context.json) {
    Print(FileJson(*absolute, *file));
    return ExitCode::kOk;
  }
  std::string text = kvtree::Print(file->tree);
  Print(context.terminal ? CleanLines(std::move(text)) : text);
  if (file->payload_bytes > 0) {
    Note(fmt::format("{} behind the tree are not shown", Count(file->payload_bytes, "byte")));
  }
  return ExitCode::kOk;
}

}  // namespace

void AddPrintCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<PrintOptions>();
  const Command print = app.AddCommand("print", "Show any kvtree file as SCR's printer does; needs no daemon");
  print.Footer(kPrintFooter);
  print.AddOption("FILE", options->file, "The file").Required();
  print.AddFlag("--sort", options->sorted, "Sort by key, as text (default: the order of the file)");
  SetRun(print, line, options, RunPrint);
}

}  // namespace cairn::cli
