#include "client/cli/bp/place.h"

#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include "client/cli/bp/dataset_place.h"
#include "client/cli/run_prefix.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

bool Has(const std::string& directory, const char* name) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(directory + "/" + name, error));
}

// The BP5 directory that `given` is, without symbolic links; nullopt: something else.
std::optional<std::string> AsDirectory(const std::string& given) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::canonical(given, error);
  if (error) return std::nullopt;
  if (path.filename() == "md.idx" && !std::filesystem::is_directory(path, error)) path = path.parent_path();
  if (!Has(path.string(), "md.idx")) return std::nullopt;
  return path.string();
}

// Why what is there is of no use: nothing is asked of a daemon about something that is a file's name.
absl::Status CheckMayBeRun(const std::string& given) {
  std::error_code error;
  const std::filesystem::file_status there = std::filesystem::status(given, error);
  if (!std::filesystem::exists(there)) return absl::OkStatus();
  if (!std::filesystem::is_directory(there)) {
    return InvalidArgument("{}: a file; what is wanted is a BP5 directory (with md.idx in it) or a run", given);
  }
  if (Has(given, ".scr") || Has(given, ".cairn")) return absl::OkStatus();
  return NotFound(
      "{}: neither a BP5 directory nor a run's: there is no md.idx, no .scr and no .cairn in it (on a node's own disk, "
      "only the node of writer 0 has md.idx)",
      given);
}

absl::StatusOr<DatasetId> ParseDataset(const std::string& text) {
  DatasetId id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size()) {
    return InvalidArgument("'{}': a dataset is a number, as `cairn ls` shows it", text);
  }
  return id;
}

}  // namespace

absl::StatusOr<BpPlace> FindBpPlace(const Context& context, Disk& disk, const std::vector<std::string>& arguments) {
  if (arguments.empty()) return InvalidArgument("name a BP5 directory, or a run and a dataset");
  const std::string& first = arguments.front();
  if (auto path = AsDirectory(first)) {
    BpPlace place;
    place.title = first;
    place.path = *std::move(path);
    place.rest.assign(arguments.begin() + 1, arguments.end());
    return place;
  }
  CAIRN_RETURN_IF_ERROR(CheckMayBeRun(first));
  CAIRN_ASSIGN_OR_RETURN(const std::string prefix, FindPrefix(context, first));
  if (arguments.size() < 2) {
    return InvalidArgument("{} is a run: which dataset of it? `cairn ls {}` lists them", first, first);
  }
  CAIRN_ASSIGN_OR_RETURN(const DatasetId id, ParseDataset(arguments[1]));
  return DatasetBpPlace(context, disk, prefix, id, {arguments.begin() + 2, arguments.end()});
}

absl::StatusOr<std::unique_ptr<bpdir::Directory>> OpenBp(Disk& disk, const BpPlace& place) {
  if (place.memory != nullptr) return bpdir::Directory::Open(FilesOf(disk, place.memory));
  return bpdir::Directory::Open(place.path);
}

absl::StatusOr<std::unique_ptr<bpdir::Directory>> OpenBpData(Disk& disk, const BpPlace& place) {
  if (place.memory != nullptr) return bpdir::Directory::Open(FilesOf(disk, place.memory));
  CAIRN_ASSIGN_OR_RETURN(auto files, bpdir::CopyFiles(place.path));
  return bpdir::Directory::Open(std::move(files));
}

absl::Status AtPlace(const absl::Status& status, const BpPlace& place) {
  const std::string_view message = MessageOf(status);
  const auto says = [&](const std::string& name) { return !name.empty() && message.find(name) != message.npos; };
  return says(place.path) || says(place.title) ? status : Annotate(status, place.title);
}

std::unique_ptr<bpdir::FileSource> BpFiles(Disk& disk, const BpPlace& place) {
  return place.memory != nullptr ? FilesOf(disk, place.memory) : bpdir::ReadFiles(disk, place.path);
}

}  // namespace cairn::cli
