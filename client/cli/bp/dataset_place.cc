#include "client/cli/bp/dataset_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/format/view/view.h"
#include "storage/place/cache/survey.h"
#include "storage/place/prefix/prefix.h"
#include "storage/place/view/folder.h"

namespace cairn::cli {
namespace {

constexpr std::string_view kIndex = "md.idx";

// A dataset's catalogues, and where the files are that they name.
struct Found {
  std::vector<catalogue::Catalogue> catalogues;  // of the ranks that are here
  std::string folder;                            // of the cache; empty: the prefix
};

std::string PathOf(const Found& found, const std::string& prefix, const catalogue::FileEntry& file) {
  return found.folder.empty() ? prefix + "/" + file.prefix_name() : found.folder + "/" + file.name();
}

absl::StatusOr<Found> InPrefix(Disk& disk, const std::string& path, DatasetId id) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Prefix> prefix, Prefix::OpenReadOnly(disk, path));
  CAIRN_ASSIGN_OR_RETURN(auto catalogues, prefix->Catalogues(id));
  return Found{.catalogues = std::move(catalogues), .folder = {}};
}

// What the daemon on this node has of the run in its cache.
absl::StatusOr<Survey> SurveyRun(const Context& context, Disk& disk, const std::string& prefix) {
  CAIRN_ASSIGN_OR_RETURN(const auto daemon, context.Daemon());
  CAIRN_ASSIGN_OR_RETURN(const admin::StatusReply status, daemon->Status());
  for (const admin::RunStatus& run : status.runs()) {
    if (run.prefix() != prefix || run.cache_folder().empty()) continue;
    CAIRN_ASSIGN_OR_RETURN(const RunId id, RunId::Parse(run.run()));
    return SurveyCache(disk, run.cache_folder(), id);
  }
  return NotFound("this node's daemon has nothing of {}", prefix);
}

absl::StatusOr<Found> InCache(const Context& context, Disk& disk, const std::string& prefix, DatasetId id) {
  CAIRN_ASSIGN_OR_RETURN(const Survey survey, SurveyRun(context, disk, prefix));
  const auto dataset = survey.datasets.find(id);
  if (dataset == survey.datasets.end() || dataset->second.ranks.empty()) {
    return NotFound("this node's daemon has nothing of it");
  }
  Found found{.catalogues = {}, .folder = dataset->second.folder};
  for (const auto& [rank, catalogue] : dataset->second.ranks) found.catalogues.push_back(catalogue);
  return found;
}

// Of the prefix, else of the cache. What the prefix says counts, unless it does not know the dataset.
absl::StatusOr<Found> FindDataset(const Context& context, Disk& disk, const std::string& prefix, DatasetId id) {
  auto found = InPrefix(disk, prefix, id);
  if (!absl::IsNotFound(found.status())) return found;
  auto cached = InCache(context, disk, prefix, id);
  if (cached.ok() || !(absl::IsNotFound(cached.status()) || absl::IsUnavailable(cached.status()))) return cached;
  return NotFound("{}: dataset {} is not committed there, and not in this node's cache ({})", prefix, id,
                  MessageOf(cached.status()));
}

// --- the application's own files ---

// Their BP5 directories: name below the prefix (empty: the prefix itself) to path.
std::map<std::string, std::string> DirectoriesOf(const Found& found, const std::string& prefix) {
  std::map<std::string, std::string> directories;
  for (const catalogue::Catalogue& catalogue : found.catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      const std::filesystem::path name(file.prefix_name());
      if (name.filename() != kIndex) continue;
      directories[name.parent_path().string()] = ParentOf(PathOf(found, prefix, file));
    }
  }
  return directories;
}

std::string WithoutSlash(std::string text) {
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

absl::StatusOr<BpPlace> ChooseDirectory(const Found& found, BpPlace place) {
  const auto directories = DirectoriesOf(found, place.prefix);
  if (directories.empty()) {
    return FailedPrecondition("{}: files of the application's own, and no BP5 directory among them", place.title);
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
  return place;
}

// --- the view of a checkpoint ---

// All ranks: those that are not here have nothing in the view.
absl::Status AddMissingRanks(std::vector<catalogue::Catalogue>& catalogues, BpPlace& place) {
  const catalogue::Catalogue like = catalogues.front();
  std::map<std::uint32_t, catalogue::Catalogue> ranks;
  for (catalogue::Catalogue& catalogue : catalogues) {
    if (catalogue.rank() >= like.nranks())
      return DataLoss("{}: rank {} of {}", place.title, catalogue.rank(), like.nranks());
    ranks.emplace(catalogue.rank(), std::move(catalogue));
  }
  const std::size_t here = ranks.size();
  catalogues.clear();
  for (std::uint32_t rank = 0; rank < like.nranks(); ++rank) {
    const auto found = ranks.find(rank);
    if (found != ranks.end()) {
      catalogues.push_back(std::move(found->second));
      continue;
    }
    catalogue::Catalogue& empty = catalogues.emplace_back();
    empty.set_run(like.run());
    empty.set_launch(like.launch());
    empty.set_dataset(like.dataset());
    empty.set_step(like.step());
    empty.set_rank(rank);
    empty.set_nranks(like.nranks());
  }
  if (here < like.nranks()) {
    place.notes.push_back(
        fmt::format("{} of {} ranks are on this node: what the others stored is not shown", here, like.nranks()));
  }
  return absl::OkStatus();
}

// Links lead from the view's folder to the files below `root`, as if both were in a prefix.
absl::StatusOr<BpPlace> MakeView(Disk& disk, Found found, BpPlace place) {
  const std::string& root = found.folder.empty() ? place.prefix : found.folder;
  if (!found.folder.empty()) {
    for (catalogue::Catalogue& catalogue : found.catalogues) {
      for (catalogue::FileEntry& file : *catalogue.mutable_file()) file.set_prefix_name(file.name());
    }
  }
  CAIRN_RETURN_IF_ERROR(view::Complete(disk, root, found.catalogues));
  CAIRN_RETURN_IF_ERROR(AddMissingRanks(found.catalogues, place));
  CAIRN_ASSIGN_OR_RETURN(view::ViewFiles view, view::BuildView(found.catalogues));
  auto memory = std::make_shared<MemoryDirectory>();
  memory->title = place.title;
  memory->held = {
      {"md.idx", std::move(view.index)}, {"md.0", std::move(view.metadata)}, {"mmd.0", std::move(view.formats)}};
  const std::filesystem::path folder = std::filesystem::path(root) / view::FolderName(*place.dataset);
  for (const view::Link& link : view.links) {
    memory->data[link.name] = (folder / link.target).lexically_normal().string();
  }
  place.memory = std::move(memory);
  return place;
}

}  // namespace

absl::StatusOr<BpPlace> DatasetBpPlace(const Context& context, Disk& disk, const std::string& prefix, DatasetId id,
                                       std::vector<std::string> rest) {
  BpPlace place;
  place.title = fmt::format("dataset {} of {}", id, prefix);
  place.dataset = id;
  place.prefix = prefix;
  place.rest = std::move(rest);
  const std::string view = prefix + "/" + view::FolderName(id);
  // The view is made after the commit and removed before the bytes: while it is there it is right.
  if (const auto index = disk.Info(view + "/md.idx"); index.ok() && index->is_regular()) {
    place.path = view;
    return place;
  }
  CAIRN_ASSIGN_OR_RETURN(Found found, FindDataset(context, disk, prefix, id));
  const bool files = std::any_of(found.catalogues.begin(), found.catalogues.end(),
                                 [](const catalogue::Catalogue& catalogue) { return catalogue.files(); });
  if (files) return ChooseDirectory(found, std::move(place));
  return MakeView(disk, std::move(found), std::move(place));
}

}  // namespace cairn::cli
