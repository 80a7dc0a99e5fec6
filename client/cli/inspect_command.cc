#include "client/cli/inspect_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "client/cli/describe.h"
#include "client/cli/json.h"
#include "client/cli/known_file.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/ftiff/inspect.h"
#include "storage/io/posix_disk.h"

namespace cairn::cli {
namespace {

struct Describer {
  const std::string& path;

  std::string operator()(const CheckpointFile& file) const { return ftiff::DescribeText(file.metadata, path); }
  std::string operator()(const TreeFile& file) const {
    std::string text;
    // Keys are anybody's bytes; the line ends are ours.
    for (const char c : kvtree::Print(file.tree)) text += c == '\n' ? "\n" : Clean({&c, 1});
    if (file.payload_bytes > 0) text += fmt::format("behind the tree: {}\n", Bytes(file.payload_bytes));
    return text;
  }
  std::string operator()(const catalogue::Catalogue& catalogue) const { return DescribeCatalogue(catalogue); }
};

struct JsonMaker {
  const std::string& path;

  Json operator()(const CheckpointFile& file) const { return Json(ftiff::DescribeJson(file.metadata, path)); }
  Json operator()(const TreeFile& file) const {
    return {{"tree", ToJson(file.tree)}, {"payload_bytes", file.payload_bytes}};
  }
  Json operator()(const catalogue::Catalogue& catalogue) const { return ToJson(catalogue); }
};

}  // namespace

ExitCode RunInspect(const Context& context, const std::string& path) {
  std::error_code error;
  const std::string absolute = std::filesystem::canonical(path, error).string();
  if (error) return Complain(NotFound("{}: {}", path, error.message()));
  if (std::filesystem::is_directory(absolute, error)) {
    return Complain(InvalidArgument("{} is a directory: see `cairn ls` and `cairn verify`", path));
  }
  const auto disk = MakePosixDisk();
  const auto file = OpenKnownFile(*disk, absolute);
  if (!file.ok()) return Complain(file.status());
  if (context.json) {
    Json json = {{"kind", KindOf(*file)}, {"path", absolute}};
    json.update(std::visit(JsonMaker{absolute}, *file));
    Print(Dump(json));
  } else {
    Print(fmt::format("{}: {}\n", Clean(absolute), KindOf(*file)));
    Print(std::visit(Describer{absolute}, *file));
  }
  return ExitCode::kOk;
}

}  // namespace cairn::cli
