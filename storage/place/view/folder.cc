#include "storage/place/view/folder.h"

#include "storage/base/path.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "storage/base/modes.h"
#include "storage/base/status.h"
#include "storage/file/checked/checked_blocks.h"
#include "storage/format/ftiff/codec.h"
#include "storage/format/placement/bounds.h"
#include "storage/format/placement/placement.h"

namespace cairn::view {
namespace {

constexpr char kIndexName[] = "md.idx";
constexpr char kMetadataName[] = "md.0";
constexpr char kFormatsName[] = "mmd.0";

// --- What a catalogue does not have ---

absl::Status PlaceByFile(const std::string& path, const ftiff::ReadAt& read, catalogue::Catalogue& catalogue) {
  auto metadata = ftiff::DecodeMetadata(path, catalogue.file(0).bytes(), read);
  if (absl::IsFailedPrecondition(metadata.status())) return DataLoss("{}", MessageOf(metadata.status()));
  if (!metadata.ok()) return metadata.status();
  for (catalogue::Placement& placement : PlacementOf(catalogue, metadata->layout)) {
    *catalogue.add_placement() = std::move(placement);
  }
  return absl::OkStatus();
}

// Of a value with one element: it is to be in the metadata itself.
bool WantsBytes(const local::Variable& variable, const catalogue::Placement& placement) {
  return variable.kind() == local::VALUE && variable.count() == 1 && placement.run_size() == 1 &&
         placement.run(0).min_max().empty() && placement.run(0).bytes() == ElementBytesOf(variable.type());
}

absl::Status ReadValues(const ftiff::ReadAt& read, catalogue::Catalogue& catalogue) {
  for (int v = 0; v < catalogue.variables_size(); ++v) {
    if (!WantsBytes(catalogue.variables(v), catalogue.placement(v))) continue;
    catalogue::Run& run = *catalogue.mutable_placement(v)->mutable_run(0);
    std::string bytes(run.bytes(), '\0');
    CAIRN_RETURN_IF_ERROR(read(run.offset(), std::as_writable_bytes(std::span(bytes))));
    run.set_min_max(bytes + bytes);
  }
  return absl::OkStatus();
}

bool HasAll(const catalogue::Catalogue& catalogue) {
  if (catalogue.placement_size() != catalogue.variables_size()) return false;
  for (int v = 0; v < catalogue.variables_size(); ++v) {
    if (WantsBytes(catalogue.variables(v), catalogue.placement(v))) return false;
  }
  return true;
}

absl::Status CompleteOne(Disk& disk, const std::string& prefix, catalogue::Catalogue& catalogue) {
  if (catalogue.files() || HasAll(catalogue)) return absl::OkStatus();
  if (catalogue.file_size() != 1) {
    return DataLoss("dataset {}, rank {}: {} variables in no file", catalogue.dataset(), catalogue.rank(),
                    catalogue.variables_size());
  }
  const std::string path = prefix + "/" + catalogue.file(0).prefix_name();
  const auto file = disk.Open(path, {});
  if (absl::IsNotFound(file.status())) return DataLoss("{}: missing", path);
  if (!file.ok()) return file.status();
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, (*file)->Info());
  if (info.bytes != catalogue.file(0).bytes()) {
    return DataLoss("{}: {} bytes, expected {}", path, info.bytes, catalogue.file(0).bytes());
  }
  // What is read here becomes metadata, which nothing compares later.
  const FileSums sums = SumsOf(catalogue.file(0));
  CheckedBlocks blocks(sums);
  const ftiff::ReadAt read = [&](std::uint64_t offset, std::span<std::byte> target) {
    return blocks.Read(path, offset, target,
                       [&](std::uint64_t at, std::span<std::byte> bytes) { return (*file)->ReadAt(at, bytes); });
  };
  if (catalogue.placement_size() == 0) CAIRN_RETURN_IF_ERROR(PlaceByFile(path, read, catalogue));
  if (const absl::Status fits = CheckPlacement(catalogue); !fits.ok()) return Annotate(fits, path);
  return ReadValues(read, catalogue);
}

// --- The folder ---

absl::Status WriteOne(Disk& disk, const std::string& path, std::string_view bytes) {
  CAIRN_ASSIGN_OR_RETURN(
      const std::unique_ptr<File> file,
      disk.Open(path, {.writable = true, .create = true, .exclusive = true, .mode = kPrefixFileMode}));
  CAIRN_RETURN_IF_ERROR(file->WriteAt(0, std::as_bytes(std::span(bytes))));
  return file->Sync();
}

absl::Status Fill(Disk& disk, const std::string& folder, const ViewFiles& files) {
  for (const Link& link : files.links) CAIRN_RETURN_IF_ERROR(disk.Symlink(link.target, folder + "/" + link.name));
  CAIRN_RETURN_IF_ERROR(WriteOne(disk, folder + "/" + kFormatsName, files.formats));
  CAIRN_RETURN_IF_ERROR(WriteOne(disk, folder + "/" + kMetadataName, files.metadata));
  CAIRN_RETURN_IF_ERROR(WriteOne(disk, folder + "/" + kIndexName, files.index));
  return disk.SyncDirectory(folder);
}

absl::Status Place(Disk& disk, const std::string& work, const std::string& path) {
  CAIRN_RETURN_IF_ERROR(RemoveFolder(disk, path));
  CAIRN_RETURN_IF_ERROR(disk.Rename(work, path));
  return disk.SyncDirectory(ParentOf(path));
}

// Files of the application's never get in here (storage/place/prefix/place.h), people's may.
absl::StatusOr<bool> IsOurs(Disk& disk, const std::string& folder, const std::string& name) {
  if (name == kIndexName || name == kMetadataName || name == kFormatsName) return true;
  if (!NumberAfter(name, "data.")) return false;
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk.Info(folder + "/" + name));
  return info.is_symlink();
}

absl::Status OkIfGone(const absl::Status& status) {
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

}  // namespace

bool IsComplete(std::span<const catalogue::Catalogue> catalogues) {
  return std::ranges::all_of(catalogues, HasAll);
}

absl::Status Complete(Disk& disk, const std::string& prefix, std::vector<catalogue::Catalogue>& catalogues) {
  for (catalogue::Catalogue& catalogue : catalogues) CAIRN_RETURN_IF_ERROR(CompleteOne(disk, prefix, catalogue));
  return absl::OkStatus();
}

absl::Status WriteFolder(Disk& disk, const std::string& path, const ViewFiles& files) {
  const std::string work = WorkName(path);
  CAIRN_RETURN_IF_ERROR(disk.MakeDirectory(work, kPrefixFolderMode));
  absl::Status status = Fill(disk, work, files);
  if (status.ok()) status = Place(disk, work, path);
  if (!status.ok()) RemoveTree(disk, work).IgnoreError();  // a work name is garbage anyway
  return status;
}

absl::Status RemoveFolder(Disk& disk, const std::string& path) {
  const auto info = disk.Info(path);
  if (absl::IsNotFound(info.status())) return absl::OkStatus();
  if (!info.ok()) return info.status();
  if (!info->is_directory()) return absl::OkStatus();
  const absl::Status hidden = disk.Remove(path + "/" + kIndexName);
  if (!hidden.ok() && !absl::IsNotFound(hidden)) return hidden;
  // A directory whose other files are gone must not have an index after a crash.
  if (hidden.ok()) CAIRN_RETURN_IF_ERROR(OkIfGone(disk.SyncDirectory(path)));
  const auto names = disk.List(path);
  if (!names.ok()) return OkIfGone(names.status());
  for (const std::string& name : *names) {
    const auto ours = IsOurs(disk, path, name);
    if (!ours.ok() && !absl::IsNotFound(ours.status())) return ours.status();
    if (ours.ok() && *ours) CAIRN_RETURN_IF_ERROR(OkIfGone(disk.Remove(path + "/" + name)));
  }
  const absl::Status removed = disk.Remove(path);
  if (absl::IsAlreadyExists(removed)) return absl::OkStatus();  // not empty: what is in it is not ours
  CAIRN_RETURN_IF_ERROR(OkIfGone(removed));
  return disk.SyncDirectory(ParentOf(path));
}

}  // namespace cairn::view
