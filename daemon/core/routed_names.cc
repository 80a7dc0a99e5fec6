#include "daemon/core/routed_names.h"

#include <string_view>
#include <utility>

#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/io/file_tree.h"
#include "storage/place/names.h"

namespace cairn {
namespace {

// A name in `names` below `name`, or one that `name` is below; empty: none.
template <typename Names>
std::string NameInTheWay(const Names& names, const std::string& name) {
  const std::string below = name + "/";
  if (const auto at = names.lower_bound(below); at != names.end() && at->first.starts_with(below)) return at->first;
  for (std::size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    if (names.contains(name.substr(0, slash))) return name.substr(0, slash);
  }
  return {};
}

}  // namespace

const RoutedNames::Output* RoutedNames::Find(DatasetId id) const {
  const auto at = outputs_.find(id);
  return at == outputs_.end() ? nullptr : &at->second;
}

// A file's name is free of others' directories, and the other way round.
absl::Status RoutedNames::Check(DatasetId id, const std::string& name, bool directory) const {
  CAIRN_RETURN_IF_ERROR(CheckApplicationsName(name));
  const Output* const output = Find(id);
  if (output == nullptr) return absl::OkStatus();
  if (directory ? output->files.contains(name) : output->directories.contains(name)) {
    return InvalidArgument("{} is a {} of dataset {}", name, directory ? "file" : "directory", id);
  }
  if (const std::string other = NameInTheWay(output->files, name); !other.empty()) {
    return InvalidArgument("{} and {} are files of dataset {}: one cannot be the other's directory", name, other, id);
  }
  if (const std::string other = NameInTheWay(output->directories, name); !other.empty()) {
    return InvalidArgument("{} and {} of dataset {}: what is below a routed directory is part of it", name, other, id);
  }
  return absl::OkStatus();
}

// --- Files ---

absl::Status RoutedNames::Take(DatasetId id, const std::string& name, Rank rank, std::size_t own_files) {
  std::map<std::string, Rank>& files = outputs_[id].files;
  if (!files.contains(name) && (own_files >= kFilesMax || files.size() >= 8 * kFilesMax)) {
    return ResourceExhausted("more than {} files of a rank, or {} of a dataset", kFilesMax, 8 * kFilesMax);
  }
  CAIRN_RETURN_IF_ERROR(Check(id, name, /*directory=*/false));
  const auto [owner, first] = files.try_emplace(name, rank);
  if (!first && owner->second != rank) {
    return InvalidArgument("{} is rank {}'s file in dataset {}", name, owner->second, id);
  }
  return absl::OkStatus();
}

void RoutedNames::GiveBack(DatasetId id, const std::string& name) {
  const auto at = outputs_.find(id);
  if (at != outputs_.end()) at->second.files.erase(name);
}

// --- Directories ---

absl::Status RoutedNames::CheckDirectory(DatasetId id, const std::string& name) const {
  const Output* const output = Find(id);
  if (output != nullptr && output->directories.contains(name)) return absl::OkStatus();
  if (output != nullptr && output->directories.size() >= kDirectoriesMax) {
    return ResourceExhausted("more than {} directories of a dataset", kDirectoriesMax);
  }
  return Check(id, name, /*directory=*/true);
}

absl::Status RoutedNames::AddDirectory(DatasetId id, const std::string& name, RoutedFile routed, Rank rank) {
  std::map<std::string, RoutedDirectory>& known = outputs_[id].directories;
  if (!known.contains(name)) CAIRN_RETURN_IF_ERROR(Check(id, name, /*directory=*/true));
  RoutedDirectory& directory = known[name];
  if (directory.ranks.empty()) directory.routed = std::move(routed);
  directory.ranks.insert(rank);
  return absl::OkStatus();
}

absl::Status RoutedNames::AddDirectoryElsewhere(DatasetId id, const std::string& name) {
  CAIRN_RETURN_IF_ERROR(CheckDirectory(id, name));
  outputs_[id].directories.try_emplace(name);
  return absl::OkStatus();
}

std::map<std::string, RoutedDirectory> RoutedNames::Directories(DatasetId id) const {
  std::map<std::string, RoutedDirectory> here;
  if (const Output* const output = Find(id)) here = output->directories;
  std::erase_if(here, [](const auto& item) { return item.second.ranks.empty(); });
  return here;
}

absl::StatusOr<std::string> RoutedNames::DirectoryName(const std::string& prefix, std::string given) {
  while (given.ends_with('/')) given.pop_back();
  return NormalizeFileName(prefix, given);
}

absl::StatusOr<std::map<std::string, ListedFiles>> RoutedNames::List(
    Disk& disk, const std::map<std::string, RoutedDirectory>& directories) {
  std::map<std::string, ListedFiles> listed;
  for (const auto& [name, directory] : directories) {
    const std::string& root = directory.routed.path;
    std::string given = directory.routed.given;
    while (given.ends_with('/')) given.pop_back();
    CAIRN_ASSIGN_OR_RETURN(const auto files, ListFilesBelow(disk, root));
    for (const auto& [below, info] : files) {
      const std::string file = name + "/" + below;
      const auto normal = NormalizeFileName("", file);
      if (!normal.ok()) return Annotate(normal.status(), root);
      if (*normal != file) return InvalidArgument("{}: file name \"{}\" cannot be kept", root, below);
      listed[name][file] = {.routed = {.path = root + "/" + below, .given = given + "/" + below}, .info = info};
    }
  }
  return listed;
}

// --- The end of an output ---

bool RoutedNames::Ended(const Dataset& dataset, Rank rank) {
  std::set<Rank>& ended = outputs_[dataset.id].ended;
  ended.insert(rank);
  return ended.size() == dataset.nranks;
}

// The lowest rank that routed a directory has its files.
std::map<Rank, std::function<void()>> RoutedNames::DirectoriesListed(
    DatasetId id, std::map<std::string, ListedFiles> listed, const std::function<void(Rank, std::uint64_t)>& added) {
  Output& output = outputs_[id];
  for (const auto& [name, directory] : Directories(id)) {
    const Rank owner = *directory.ranks.begin();
    std::uint64_t bytes = 0;
    for (auto& [file, found] : listed[name]) {
      bytes += found.info.bytes;
      output.in_directories[owner][file] = std::move(found);
    }
    added(owner, bytes);
  }
  output.listed = true;
  return std::exchange(output.waiting, {});
}

bool RoutedNames::AreListed(DatasetId id) const {
  const Output* const output = Find(id);
  return output != nullptr && output->listed;
}

void RoutedNames::WhenListed(DatasetId id, Rank rank, std::function<void()> next) {
  outputs_[id].waiting[rank] = std::move(next);
}

ListedFiles RoutedNames::TakeListed(DatasetId id, Rank rank) {
  auto files = outputs_[id].in_directories.extract(rank);
  return files ? std::move(files.mapped()) : ListedFiles();
}

absl::Status RoutedNames::CheckApart(const Dataset& dataset) {
  std::map<std::string, Rank> names;
  for (const Part& part : dataset.parts) {
    const Rank rank = part.catalogue.rank();
    for (const catalogue::FileEntry& file : part.catalogue.file()) {
      const auto [owner, first] = names.try_emplace(file.prefix_name(), rank);
      if (first) continue;
      return InvalidArgument("{}: rank {} and rank {} have a file of this name, on two nodes", file.prefix_name(),
                             owner->second, rank);
    }
  }
  for (const auto& [name, rank] : names) {
    const std::string other = NameInTheWay(names, name);
    if (other.empty()) continue;
    return InvalidArgument("{} of rank {} and {} of rank {}: one cannot be the other's directory", name, rank, other,
                           names.at(other));
  }
  return absl::OkStatus();
}

// --- For growing outputs ---

OpenPlaces RoutedNames::Places(DatasetId id) const {
  constexpr std::string_view kIndex = "/md.idx";
  OpenPlaces places;
  const Output* const output = Find(id);
  if (output == nullptr) return places;
  for (const auto& [name, directory] : Directories(id)) places.roots[name] = directory.routed.path;
  for (const auto& [name, rank] : output->files) {
    if (name.ends_with(kIndex)) places.index_folders.insert(name.substr(0, name.size() - kIndex.size()));
  }
  return places;
}

}  // namespace cairn
