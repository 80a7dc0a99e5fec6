#include "client/cli/inspect_command.h"

#include <fmt/format.h>

#include <string_view>
#include <variant>

#include "client/cli/describe.h"
#include "client/cli/file_argument.h"
#include "client/cli/json.h"
#include "client/cli/known_file.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/format/ftiff/inspect.h"
#include "storage/io/posix_disk.h"

namespace cairn::cli {
namespace {

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

}  // namespace

ExitCode RunInspect(const Context& context, const std::string& path) {
  const auto absolute = ResolveFile(path);
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

}  // namespace cairn::cli
