#include "client/cli/bp/place.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

#include "client/cli/file_argument.h"
#include "client/cli/run_prefix.h"
#include "storage/base/status.h"
#include "storage/job/dataset_bp5/dataset_bp5.h"
#include "storage/job/dataset_bp5/in_cache.h"
#include "storage/place/prefix/prefix.h"

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
    return InvalidArgument("{}: this is a file; name a BP5 directory (with md.idx in it) or a run", given);
  }
  if (Has(given, ".scr") || Has(given, ".cairn")) return absl::OkStatus();
  return NotFound(
      "{}: neither a BP5 directory nor a run's: it has no md.idx, no .scr and no .cairn (on the nodes' own disks, "
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

// --- a run's dataset ---

// What the daemon on this node has of it in its cache.
absl::StatusOr<StoredDataset> InCache(const Context& context, Disk& disk, const std::string& prefix, DatasetId id) {
  CAIRN_ASSIGN_OR_RETURN(const auto daemon, context.Daemon());
  CAIRN_ASSIGN_OR_RETURN(const admin::StatusReply status, daemon->StatusOfThisNode());
  for (const admin::RunStatus& run : status.runs()) {
    if (run.prefix() != prefix || run.cache_folder().empty()) continue;
    CAIRN_ASSIGN_OR_RETURN(const RunId run_id, RunId::Parse(run.run()));
    auto found = DatasetInCache(disk, run.cache_folder(), run_id, id);
    return absl::IsNotFound(found.status()) ? NotFound("this node's daemon has nothing of it") : std::move(found);
  }
  return NotFound("this node's daemon has nothing of {}", prefix);
}

absl::StatusOr<StoredDataset> InPrefix(Disk& disk, const std::string& path, DatasetId id) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Prefix> prefix, Prefix::OpenReadOnly(disk, path));
  return DatasetInPrefix(*prefix, id);
}

// What the prefix says counts, unless it does not know the dataset.
absl::StatusOr<StoredDataset> FindDataset(const Context& context, Disk& disk, const std::string& path, DatasetId id) {
  auto found = InPrefix(disk, path, id);
  if (!absl::IsNotFound(found.status())) return found;
  auto cached = InCache(context, disk, path, id);
  if (cached.ok() || !(absl::IsNotFound(cached.status()) || absl::IsUnavailable(cached.status()))) return cached;
  return NotFound("{}: dataset {} is not committed there, nor is it in this node's cache ({})", path, id,
                  MessageOf(cached.status()));
}

std::string WithoutSlash(std::string text) {
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

absl::StatusOr<BpPlace> ChooseDirectory(const StoredDataset& dataset, BpPlace place, bool check) {
  const std::map<std::string, std::string> directories = DirectoriesIn(dataset);
  if (directories.empty()) {
    return FailedPrecondition("{}: the dataset has the application's own files, and no BP5 directory is among them",
                              place.title);
  }
  auto chosen = directories.size() == 1 ? directories.begin() : directories.end();
  if (!place.rest.empty()) {
    const auto named = directories.find(WithoutSlash(place.rest.front()));
    if (named != directories.end()) {
      chosen = named;
      place.rest.erase(place.rest.begin());
    }
  }
  if (chosen == directories.end()) {
    std::string names;
    for (const auto& [name, path] : directories) names += (names.empty() ? "" : ", ") + name;
    return InvalidArgument("{} has {} BP5 directories; name one behind its number: {}", place.title, directories.size(),
                           names);
  }
  place.title += ", " + chosen->first;
  place.path = chosen->second;
  if (check) place.sums = SumsIn(dataset, chosen->first);
  return place;
}

absl::StatusOr<BpPlace> MakeView(Disk& disk, StoredDataset dataset, BpPlace place, bool check) {
  place.root = dataset.root;
  CAIRN_ASSIGN_OR_RETURN(MadeView view, ViewInMemory(disk, std::move(dataset), place.title));
  place.memory = std::move(view.directory);
  if (check) place.sums = std::move(view.sums);
  if (!view.on_disk.ok()) place.notes.push_back(NoteOfDamagedView(view.on_disk));
  if (view.ranks_here < view.ranks) {
    place.notes.push_back(fmt::format("only {} of {} ranks are on this node: what the others stored is not shown",
                                      view.ranks_here, view.ranks));
  }
  return place;
}

// As FindBpPlace, once run and dataset are known; `rest`: the arguments behind them.
absl::StatusOr<BpPlace> FindDatasetPlace(const Context& context, Disk& disk, const std::string& prefix, DatasetId id,
                                         std::vector<std::string> rest, bool check) {
  BpPlace place;
  place.title = fmt::format("dataset {} of {}", id, prefix);
  place.dataset = id;
  place.prefix = prefix;
  place.rest = std::move(rest);
  if (auto view = check ? std::nullopt : ViewOnDisk(disk, prefix, id); view && OpenView(*view).ok()) {
    place.path = *std::move(view);
    return place;
  }
  CAIRN_ASSIGN_OR_RETURN(StoredDataset dataset, FindDataset(context, disk, prefix, id));
  if (dataset.holds_files()) return ChooseDirectory(dataset, std::move(place), check);
  return MakeView(disk, std::move(dataset), std::move(place), check);
}

}  // namespace

absl::StatusOr<BpPlace> FindBpPlace(const Context& context, Disk& disk, const std::vector<std::string>& arguments,
                                    bool check) {
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
  return FindDatasetPlace(context, disk, prefix, id, {arguments.begin() + 2, arguments.end()}, check);
}

std::unique_ptr<bpdir::FileSource> BpFiles(Disk& disk, const BpPlace& place) {
  auto files = bpdir::ReadFiles(disk, place.memory == nullptr ? place.path : place.root);
  files = bpdir::CheckFiles(std::move(files), place.sums);
  return place.memory == nullptr ? std::move(files) : bpdir::FilesInMemory(place.memory, std::move(files));
}

absl::StatusOr<std::unique_ptr<bpdir::Directory>> OpenBp(Disk& disk, const BpPlace& place) {
  if (place.memory != nullptr) return bpdir::Directory::Open(BpFiles(disk, place));
  return bpdir::Directory::Open(place.path, place.sums);
}

absl::StatusOr<std::unique_ptr<bpdir::Directory>> OpenBpData(Disk& disk, const BpPlace& place) {
  if (place.memory != nullptr) return bpdir::Directory::Open(BpFiles(disk, place));
  CAIRN_ASSIGN_OR_RETURN(auto files, bpdir::CopyFiles(place.path));
  return bpdir::Directory::Open(bpdir::CheckFiles(std::move(files), place.sums));
}

absl::Status WithEnding(const absl::Status& status, const bpdir::Directory& directory) {
  if (directory.ending().ok() || absl::IsCancelled(status)) return status;
  if (status.ok()) return directory.ending();
  Note(MessageOf(directory.ending()));
  return DataLoss("{}", MessageOf(status));
}

absl::Status AtPlace(const absl::Status& status, const BpPlace& place) {
  const std::string_view message = MessageOf(status);
  const auto says = [&](const std::string& name) { return !name.empty() && message.find(name) != message.npos; };
  return says(place.path) || says(place.title) ? status : Annotate(status, place.title);
}

ExitCode ComplainOfBp(const absl::Status& status) {
  const ExitCode code = ComplainOfFile(status);
  return absl::IsInvalidArgument(status) ? ExitCode::kUsage : code;
}

}  // namespace cairn::cli
