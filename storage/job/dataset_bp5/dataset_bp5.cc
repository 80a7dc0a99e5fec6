#include "storage/job/dataset_bp5/dataset_bp5.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/checked/checked_blocks.h"
#include "storage/format/view/view.h"
#include "storage/place/names.h"
#include "storage/place/view/check.h"
#include "storage/place/view/folder.h"

namespace cairn {
namespace {

constexpr std::string_view kIndex = "md.idx";

const std::string& PlaceOf(const catalogue::FileEntry& file, bool in_cache) {
  return in_cache ? file.name() : file.prefix_name();
}

// All ranks' catalogues, by rank: those that are not here are empty ones.
absl::StatusOr<std::vector<catalogue::Catalogue>> OfAllRanks(std::vector<catalogue::Catalogue> here,
                                                             const std::string& title, MadeView& made) {
  const catalogue::Catalogue like = here.front();
  made.ranks = like.nranks();
  std::map<std::uint32_t, catalogue::Catalogue> ranks;
  for (catalogue::Catalogue& catalogue : here) {
    if (catalogue.rank() >= like.nranks()) return DataLoss("{}: rank {} of {}", title, catalogue.rank(), like.nranks());
    ranks.emplace(catalogue.rank(), std::move(catalogue));
  }
  made.ranks_here = static_cast<std::uint32_t>(ranks.size());
  std::vector<catalogue::Catalogue> all;
  for (std::uint32_t rank = 0; rank < like.nranks(); ++rank) {
    const auto found = ranks.find(rank);
    if (found != ranks.end()) {
      all.push_back(std::move(found->second));
      continue;
    }
    catalogue::Catalogue& empty = all.emplace_back();
    empty.set_run(like.run());
    empty.set_launch(like.launch());
    empty.set_dataset(like.dataset());
    empty.set_step(like.step());
    empty.set_rank(rank);
    empty.set_nranks(like.nranks());
  }
  return all;
}

// Links lead from the view's folder, were it in `root`, to files below `root`.
absl::StatusOr<std::shared_ptr<const bpdir::MemoryDirectory>> InMemory(view::ViewFiles view, DatasetId id,
                                                                       const std::string& title) {
  auto memory = std::make_shared<bpdir::MemoryDirectory>();
  memory->title = title;
  memory->held = {
      {"md.idx", std::move(view.index)}, {"md.0", std::move(view.metadata)}, {"mmd.0", std::move(view.formats)}};
  const std::filesystem::path folder = ViewFolderName(id);
  for (const view::Link& link : view.links) {
    std::string place = (folder / link.target).lexically_normal().string();
    if (place.starts_with('/') || place.starts_with("..")) {
      return DataLoss("{}: {} is a link to {}, which leads out", title, link.name, link.target);
    }
    memory->data[link.name] = std::move(place);
  }
  return memory;
}

}  // namespace

std::optional<std::string> ViewOnDisk(Disk& disk, const std::string& prefix, DatasetId id) {
  std::string path = prefix + "/" + ViewFolderName(id);
  const auto index = disk.Info(fmt::format("{}/{}", path, kIndex));
  if (!index.ok() || !index->is_regular()) return std::nullopt;
  return path;
}

absl::StatusOr<std::unique_ptr<bpdir::Directory>> OpenView(const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(auto view, bpdir::Directory::Open(path));
  CAIRN_RETURN_IF_ERROR(view->ending());
  if (view->metadata().steps() != 1) return DataLoss("{}: {} steps instead of one", path, view->metadata().steps());
  return view;
}

std::string NoteOfDamagedView(const absl::Status& damage) {
  return fmt::format("the view on disk is damaged, so one was made in memory: {}", MessageOf(damage));
}

bool StoredDataset::holds_files() const {
  return std::ranges::any_of(catalogues, [](const catalogue::Catalogue& catalogue) { return catalogue.files(); });
}

absl::StatusOr<StoredDataset> DatasetInPrefix(Prefix& prefix, DatasetId id) {
  CAIRN_ASSIGN_OR_RETURN(std::vector<catalogue::Catalogue> catalogues, prefix.Catalogues(id));
  if (catalogues.empty()) return DataLoss("{}: dataset {} has no catalogues", prefix.path(), id);
  return StoredDataset{.id = id, .root = prefix.path(), .catalogues = std::move(catalogues)};
}

std::map<std::string, std::string> DirectoriesIn(const StoredDataset& dataset) {
  std::map<std::string, std::string> directories;
  for (const catalogue::Catalogue& catalogue : dataset.catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      const std::filesystem::path name(file.prefix_name());
      if (name.filename() != kIndex) continue;
      directories[name.parent_path().string()] = ParentOf(dataset.root + "/" + PlaceOf(file, dataset.in_cache));
    }
  }
  return directories;
}

std::shared_ptr<const bpdir::KnownSums> SumsIn(const StoredDataset& dataset, const std::string& name) {
  auto sums = std::make_shared<bpdir::KnownSums>();
  for (const catalogue::Catalogue& catalogue : dataset.catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      const std::filesystem::path path(file.prefix_name());
      if (path.parent_path() == name) sums->emplace(path.filename().string(), SumsOf(file));
    }
  }
  return sums;
}

absl::StatusOr<MadeView> ViewInMemory(Disk& disk, StoredDataset dataset, const std::string& title) {
  for (catalogue::Catalogue& catalogue : dataset.catalogues) {
    for (catalogue::FileEntry& file : *catalogue.mutable_file()) file.set_prefix_name(PlaceOf(file, dataset.in_cache));
  }
  CAIRN_RETURN_IF_ERROR(view::Complete(disk, dataset.root, dataset.catalogues));
  MadeView made;
  auto sums = std::make_shared<bpdir::KnownSums>();
  for (const catalogue::Catalogue& catalogue : dataset.catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) sums->emplace(file.prefix_name(), SumsOf(file));
  }
  made.sums = std::move(sums);
  CAIRN_ASSIGN_OR_RETURN(const auto catalogues, OfAllRanks(std::move(dataset.catalogues), title, made));
  CAIRN_ASSIGN_OR_RETURN(view::ViewFiles view, view::BuildView(catalogues));
  if (const auto there = ViewOnDisk(disk, dataset.root, dataset.id); there && !dataset.in_cache) {
    const absl::Status same = view::CheckFolder(disk, *there, view);
    if (absl::IsDataLoss(same)) made.on_disk = same;
  }
  CAIRN_ASSIGN_OR_RETURN(made.directory, InMemory(std::move(view), dataset.id, title));
  return made;
}

}  // namespace cairn
