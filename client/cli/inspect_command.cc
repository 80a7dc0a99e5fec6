// `cairn inspect`: what a file says of itself. Needs no daemon.
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <variant>

#include "client/cli/commands.h"
#include "client/cli/describe.h"
#include "client/cli/file_argument.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/file/known/known_file.h"
#include "storage/format/ftiff/inspect.h"
#include "storage/io/posix_disk.h"

namespace cairn::cli {
namespace {

constexpr const char* kInspectFooter =
    "Of an FTI-FF file the command shows which of the six layouts it has, which releases of FTI write that layout,\n"
    "the fields of its file record, its variables, and block by block the containers: dptr (offset in the\n"
    "variable), fptr (offset in the file), chunksize (bytes in use), containersize (bytes reserved), and the MD5 of\n"
    "the chunk. It does not read the data: `cairn verify` does.\n"
    "\n"
    "Examples:\n"
    "  cairn inspect Ckpt17-Rank0.fti\n"
    "  cairn inspect --json Ckpt17-Rank0.fti | jq '.variables'\n"
    "  cairn inspect /scratch/me/heat/.scr/index.scr";

struct InspectOptions {
  std::string file;
};

struct Describer {
  const std::string& path;

  std::string operator()(const CheckpointFile& file) const { return ftiff::DescribeText(file.metadata, Clean(path)); }
  std::string operator()(const CodeFile& file) const { return ftiff::DescribeText(file.encoded, Clean(path)); }
  std::string operator()(const TreeFile& file) const {
    std::string text = Head("kvtree file of SCR");
    // Keys are anybody's bytes; the line ends are ours.
    for (const char c : kvtree::Print(file.tree)) text += c == '\n' ? "\n" : Clean({&c, 1});
    if (file.payload_bytes > 0) text += fmt::format("behind the tree: {}\n", Bytes(file.payload_bytes));
    return text;
  }
  std::string operator()(const catalogue::Catalogue& catalogue) const {
    return Head("catalogue") + DescribeCatalogue(catalogue);
  }

 private:
  std::string Head(std::string_view kind) const { return fmt::format("{}: {}\n", Clean(path), kind); }
};

struct JsonMaker {
  const std::string& path;

  Json operator()(const CheckpointFile& file) const { return Json(ftiff::DescribeJson(file.metadata, path)); }
  Json operator()(const CodeFile& file) const { return Json(ftiff::DescribeJson(file.encoded, path)); }
  Json operator()(const TreeFile& file) const {
    return {{"tree", ToJson(file.tree)}, {"payload_bytes", file.payload_bytes}};
  }
  Json operator()(const catalogue::Catalogue& catalogue) const { return ToJson(catalogue); }
};

ExitCode RunInspect(const Context& context, const InspectOptions& options) {
  const auto absolute = ResolveFile(options.file);
  if (!absolute.ok()) return ComplainOfFile(absolute.status());
  const auto disk = MakePosixDisk();
  const auto file = OpenKnownFile(*disk, *absolute);
  if (!file.ok()) return ComplainOfFile(file.status());
  if (context.json) {
    Json json = {{"kind", KindOf(*file)}, {"path", *absolute}};
    json.update(std::visit(JsonMaker{*absolute}, *file));
    Print(Dump(json));
  } else {
    Print(std::visit(Describer{*absolute}, *file));
  }
  return ExitCode::kOk;
}

}  // namespace

void AddInspectCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<InspectOptions>();
  const Command inspect =
      app.AddCommand("inspect", "Show what a checkpoint file, a kvtree file or a catalogue says; needs no daemon");
  inspect.AddOption("FILE", options->file, "The file").Required();
  inspect.Footer(kInspectFooter);
  SetRun(inspect, line, options, RunInspect);
}

}  // namespace cairn::cli
