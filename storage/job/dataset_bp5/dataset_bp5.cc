#include "storage/job/dataset_bp5/dataset_bp5.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/format/view/view.h"
#include "storage/place/names.h"
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

absl::StatusOr<MadeView> ViewInMemory(Disk& disk, StoredDataset dataset, const std::string& title) {
  for (catalogue::Catalogue& catalogue : dataset.catalogues) {
    for (catalogue::FileEntry& file : *catalogue.mutable_file()) file.set_prefix_name(PlaceOf(file, dataset.in_cache));
  }
  CAIRN_RETURN_IF_ERROR(view::Complete(disk, dataset.root, dataset.catalogues));
  MadeView made;
  CAIRN_ASSIGN_OR_RETURN(const auto catalogues, OfAllRanks(std::move(dataset.catalogues), title, made));
  CAIRN_ASSIGN_OR_RETURN(view::ViewFiles view, view::BuildView(catalogues));
  CAIRN_ASSIGN_OR_RETURN(made.directory, InMemory(std::move(view), dataset.id, title));
  return made;
}

}  // namespace cairn
