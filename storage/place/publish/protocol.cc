#include "storage/place/publish/protocol.h"

#include <cstdint>
#include <utility>

#include "storage/base/modes.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/place/prefix/launches.h"
#include "storage/place/prefix/place.h"

namespace cairn {
namespace {

std::set<std::string> NamesOf(const std::vector<catalogue::Catalogue>& catalogues) {
  std::set<std::string> names;
  for (const catalogue::Catalogue& catalogue : catalogues) {
    if (!catalogue.files()) continue;
    for (const catalogue::FileEntry& file : catalogue.file()) names.insert(file.prefix_name());
  }
  return names;
}

// Answers the names whose owners give way. A checkpoint file's name is its dataset's own: nobody else has it.
absl::StatusOr<std::set<std::string>> CheckPlaces(Disk& disk, const std::string& prefix, const Publication& what) {
  CAIRN_RETURN_IF_ERROR(CheckDirectories(disk, prefix, what.catalogues));
  CAIRN_ASSIGN_OR_RETURN(std::set<std::string> names, NamesInTheWay(disk, prefix, what.files));
  if (!what.descriptor.own_files) names.clear();
  if (what.arrived) names.merge(NamesOf(what.catalogues));
  return names;
}

absl::Status MakeFolders(Disk& disk, const std::vector<CopiedFile>& files) {
  std::set<std::string> folders;
  for (const CopiedFile& file : files) {
    const std::string folder = ParentOf(file.to);
    if (!file.work.empty() && folders.insert(folder).second) {
      CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, folder, kPrefixFolderMode));
    }
  }
  return absl::OkStatus();
}

// What is left in there is in nobody's way.
void RemoveStage(Disk& disk, const Publication& what) {
  if (!what.stage.empty()) RemoveTree(disk, what.stage).IgnoreError();
}

// A removal that came between Withdraw and Commit is told as one that came before.
absl::Status Commit(PublishRecords& records, const Publication& what, Published* published) {
  const absl::Status committed = records.Commit(what.descriptor, what.catalogues);
  published->before = absl::IsAlreadyExists(committed);
  published->fenced = IsFenced(committed);
  if (published->fenced) return committed;
  if (published->before) return absl::OkStatus();
  if (absl::IsFailedPrecondition(committed)) {
    const absl::Status now = records.Withdraw(what.descriptor.id, {}).status();
    if (absl::IsAborted(now)) return now;
  }
  return committed;
}

// Steps 3 to 6 where files take others' names.
absl::Status Replace(Disk& disk, PublishRecords& records, const Publication& what, Published* published) {
  std::vector<CopiedFile> arrived;
  for (const CopiedFile& file : what.files) {
    if (file.work.empty()) arrived.push_back(file);
  }
  CAIRN_RETURN_IF_ERROR(PutInPlace(disk, arrived));  // they are still there, durably
  Replacement replacement;
  const absl::Status replaced = records.Replace(what.descriptor, what.catalogues, &replacement);
  published->withdrawn = std::move(replacement.withdrawn);
  published->placing = replacement.made;
  published->committed = replacement.committed;
  published->before = absl::IsAlreadyExists(replaced);
  published->too_late = absl::IsAborted(replaced);
  published->fenced = IsFenced(replaced);
  return published->before ? absl::OkStatus() : replaced;
}

absl::Status WithdrawPlaceCommit(Disk& disk, PublishRecords& records, const Publication& what, Published* published) {
  CAIRN_ASSIGN_OR_RETURN(const std::set<std::string> names, CheckPlaces(disk, records.path(), what));
  CAIRN_RETURN_IF_ERROR(MakeFolders(disk, what.files));
  if (!names.empty() && !what.arrived) return Replace(disk, records, what, published);
  auto withdrawn = records.Withdraw(what.descriptor.id, names);
  published->too_late = absl::IsAborted(withdrawn.status());
  published->fenced = IsFenced(withdrawn.status());
  if (!withdrawn.ok()) return withdrawn.status();
  published->withdrawn = *std::move(withdrawn);
  published->placing = true;
  CAIRN_RETURN_IF_ERROR(PutAllInPlace(disk, what.files));
  RemoveStage(disk, what);
  for (const catalogue::Catalogue& catalogue : what.catalogues) {
    if (!what.stored.contains(catalogue.rank())) CAIRN_RETURN_IF_ERROR(records.StoreCatalogue(catalogue));
  }
  const absl::Status committed = Commit(records, what, published);
  published->too_late = absl::IsAborted(committed);
  return committed;
}

}  // namespace

absl::Status CheckDirectories(Disk& disk, const std::string& prefix,
                              const std::vector<catalogue::Catalogue>& catalogues) {
  std::map<std::string, std::string> directories;  // what they really are
  for (const std::string& name : NamesOf(catalogues)) {
    const std::size_t slash = name.rfind('/');
    const std::string directory = slash == std::string::npos ? "" : name.substr(0, slash);
    auto known = directories.find(directory);
    if (known == directories.end()) {
      CAIRN_ASSIGN_OR_RETURN(std::string real, RealDirectory(disk, prefix, directory));
      known = directories.emplace(directory, std::move(real)).first;
    }
    // Beside the records the file's own name counts, too.
    if (known->second.empty()) CAIRN_RETURN_IF_ERROR(CheckPlace(disk, prefix, name));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::set<std::string>> NamesInTheWay(Disk& disk, const std::string& prefix,
                                                    const std::vector<CopiedFile>& files) {
  std::set<std::string> names;
  for (const CopiedFile& file : files) {
    if (file.work.empty()) continue;
    const auto info = disk.Info(file.to);
    if (absl::IsNotFound(info.status())) continue;
    if (!info.ok()) return info.status();
    if (info->is_directory()) return FailedPrecondition("{}: in the way: a directory", file.to);
    names.insert(file.to.substr(prefix.size() + 1));
  }
  return names;
}

void RemoveWithdrawn(PublishRecords& records, const Withdrawn& withdrawn, std::vector<std::string>* warnings) {
  for (const auto& [id, catalogues] : withdrawn) {
    if (catalogues.empty()) continue;
    const absl::Status removed = records.Remove(id, catalogues);
    if (!removed.ok()) warnings->push_back(fmt::format("dataset {}: {}", id, MessageOf(removed)));
  }
}

absl::Status Publish(Disk& disk, PublishRecords& records, const Publication& what, Published* published) {
  CAIRN_RETURN_IF_ERROR(WithdrawPlaceCommit(disk, records, what, published));
  // It is committed: from here on nothing is an error.
  if (what.gave_way != nullptr) RemoveWithdrawn(records, *what.gave_way, &published->warnings);
  RemoveWithdrawn(records, published->withdrawn, &published->warnings);
  if (what.view) records.MakeView(what.descriptor.id, what.catalogues);
  return absl::OkStatus();
}

}  // namespace cairn
