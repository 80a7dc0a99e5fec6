#include "client/cli/print_command.h"

#include <fmt/format.h>

#include <utility>

#include "client/cli/file_argument.h"
#include "client/cli/json.h"
#include "client/cli/known_file.h"
#include "client/cli/text.h"
#include "storage/base/path.h"
#include "storage/format/kvtree/json.h"
#include "storage/format/kvtree/tree.h"
#include "storage/io/disk.h"
#include "storage/io/posix_disk.h"

namespace cairn::cli {
namespace {

// The tree's own text stands in it as it is: it may have a million keys.
std::string ToJson(const std::string& path, const TreeFile& file) {
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

// A halt file is made by locking it, so it may have nothing in it yet. Any other file with nothing in it is damaged.
absl::StatusOr<TreeFile> Open(Disk& disk, const std::string& path) {
  const auto info = disk.Info(path);
  if (info.ok() && info->is_regular() && info->bytes == 0 && BaseOf(path) == "halt.scr") return TreeFile();
  return OpenTreeFile(disk, path);
}

}  // namespace

ExitCode RunPrint(const Context& context, const std::string& path, bool sorted) {
  const auto absolute = ResolveFile(path);
  if (!absolute.ok()) return ComplainOfFile(absolute.status());
  const auto disk = MakePosixDisk();
  auto file = Open(*disk, *absolute);
  if (!file.ok()) return ComplainOfFile(file.status());
  if (sorted) file->tree.Sort();
  if (context.json) {
    Print(ToJson(*absolute, *file));
    return ExitCode::kOk;
  }
  std::string text = kvtree::Print(file->tree);
  Print(context.terminal ? CleanLines(std::move(text)) : text);
  if (file->payload_bytes > 0) {
    Note(fmt::format("{} behind the tree are not shown", Count(file->payload_bytes, "byte")));
  }
  return ExitCode::kOk;
}

}  // namespace cairn::cli
