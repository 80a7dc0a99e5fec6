#include "storage/job/adopt/adopt_bp.h"

#include "storage/base/path.h"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/base/md5_stream.h"
#include "storage/base/status.h"
#include "storage/file/bpdir/directory.h"
#include "storage/file/bpdir/follow.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/job/adopt/adoption.h"
#include "storage/place/names.h"
#include "storage/place/prefix/place.h"

namespace cairn {
namespace {

constexpr std::string_view kIndex = "md.idx";

// What is taken of a directory.
struct Taken {
  std::string name;
  std::uint32_t steps = 0;
  bool close = false;
  std::map<std::string, std::uint64_t> files;  // bytes of each
  std::uint64_t bytes = 0;
};

class BpAdopter {
 public:
  BpAdopter(Disk& disk, Prefix& prefix, const AdoptBpRequest& request)
      : disk_(disk), prefix_(prefix), request_(request) {}
  absl::StatusOr<AdoptedBp> Run();

 private:
  std::string From(const std::string& name) const { return request_.directory + "/" + name; }
  absl::Status Look();
  absl::Status ListFiles(const bp5::Metadata& metadata);
  absl::StatusOr<std::string> Claim();
  absl::Status CheckPlaceIsFree();
  NewDataset MakeDataset(DatasetId id) const;
  absl::Status CopyFile(const std::string& name, std::uint64_t bytes, const std::string& to,
                        catalogue::FileEntry* entry);
  absl::Status CopyFiles(NewDataset* dataset);

  Disk& disk_;
  Prefix& prefix_;
  const AdoptBpRequest& request_;
  Taken taken_;
  std::unique_ptr<OwnLaunch> launch_;
};

absl::Status BpAdopter::Look() {
  CAIRN_ASSIGN_OR_RETURN(taken_.name, NormalizeFileName("", BaseOf(request_.directory)));
  CAIRN_RETURN_IF_ERROR(CheckApplicationsName(taken_.name));
  CAIRN_ASSIGN_OR_RETURN(const auto directory, bpdir::Directory::Open(bpdir::ReadFiles(disk_, request_.directory)));
  CAIRN_RETURN_IF_ERROR(directory->ending());
  const bp5::Metadata& metadata = directory->metadata();
  taken_.close = directory->active();
  CAIRN_ASSIGN_OR_RETURN(taken_.steps, bpdir::StepsWithData(disk_, request_.directory, metadata));
  if (taken_.steps < metadata.steps() && !taken_.close) {
    return DataLoss("{}: the data of step {} is not all there", request_.directory, taken_.steps);
  }
  if (taken_.steps < metadata.steps()) {
    request_.note(
        fmt::format("{}: step {} and those behind it lack data, and are left out", request_.directory, taken_.steps));
  }
  if (taken_.steps == 0) return FailedPrecondition("{}: there is no step in it", request_.directory);
  if (taken_.close) {
    request_.note(fmt::format("{}: its writer has not closed it; up to step {} it is taken, and closed",
                              request_.directory, taken_.steps - 1));
  }
  return ListFiles(metadata);
}

absl::Status BpAdopter::ListFiles(const bp5::Metadata& metadata) {
  CAIRN_ASSIGN_OR_RETURN(const auto need, bpdir::NeedOf(metadata, taken_.steps));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk_.List(request_.directory));
  for (const std::string& name : names) {
    if (!bpdir::IsOfDirectory(name)) {
      request_.note(fmt::format("{} is not part of the directory, and is left out", From(name)));
      continue;
    }
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk_.Info(From(name)));
    if (!info.is_regular()) return FailedPrecondition("{}: not a regular file", From(name));
    const auto needed = need.find(name);
    std::uint64_t bytes = info.bytes;
    if (taken_.close && name != "profiling.json") bytes = needed == need.end() ? 0 : needed->second;
    taken_.files[name] = bytes;
    taken_.bytes += bytes;
  }
  return absl::OkStatus();
}

// The steps are told apart by their metadata: it says where each writer's bytes lie, and mostly what they are.
absl::StatusOr<std::string> BpAdopter::Claim() {
  std::string what = fmt::format("BP5 {}\n", taken_.name);
  for (const std::string name : {"md.idx", "md.0"}) {
    CAIRN_ASSIGN_OR_RETURN(const auto file, disk_.Open(From(name), {}));
    Md5Stream sum;
    std::vector<std::byte> buffer(1 << 20);
    for (std::uint64_t at = 0, end = taken_.files[name]; at < end; at += buffer.size()) {
      const std::span<std::byte> part = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), end - at));
      CAIRN_RETURN_IF_ERROR(file->ReadAt(at, part));
      sum.Append(part);
    }
    what += HexOf(sum.Finish());
  }
  return ClaimPath(prefix_, what);
}

absl::Status BpAdopter::CheckPlaceIsFree() {
  CAIRN_RETURN_IF_ERROR(RealDirectory(disk_, prefix_.path(), taken_.name).status());
  const auto names = disk_.List(prefix_.FilePath(taken_.name));
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  if (!names.ok()) return names.status();
  if (std::ranges::none_of(*names, bpdir::IsOfDirectory)) return absl::OkStatus();
  return AlreadyExists("{}: the prefix has a directory of that name: move it away, or give this one another",
                       prefix_.FilePath(taken_.name));
}

NewDataset BpAdopter::MakeDataset(DatasetId id) const {
  NewDataset dataset;
  scr::Descriptor& descriptor = dataset.descriptor;
  descriptor.id = id;
  descriptor.name = dataset.folder();
  descriptor.checkpoint = false;
  descriptor.output = true;
  descriptor.launch = 0;
  descriptor.step = request_.step.value_or(taken_.steps);
  descriptor.ranks = 1;
  descriptor.own_files = true;
  if (const auto info = disk_.Info(From(std::string(kIndex))); info.ok()) {
    descriptor.created_us = info->mtime.tv_sec * 1'000'000 + info->mtime.tv_nsec / 1000;
  }
  return dataset;
}

absl::Status BpAdopter::CopyFile(const std::string& name, std::uint64_t bytes, const std::string& to,
                                 catalogue::FileEntry* entry) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> source, disk_.Open(From(name), {}));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo before, source->Info());
  CAIRN_ASSIGN_OR_RETURN(
      const std::unique_ptr<File> target,
      disk_.Open(to, {.writable = true, .create = true, .exclusive = true, .mode = kAdoptedFileMode}));
  BlockWriter writer(*target, *entry, launch_.get());
  std::vector<std::byte> block(std::min<std::uint64_t>(kCrcBlockBytes, bytes));
  for (std::uint64_t at = 0; at < bytes; at += block.size()) {
    const std::span<std::byte> piece(block.data(), std::min<std::uint64_t>(block.size(), bytes - at));
    CAIRN_RETURN_IF_ERROR(source->ReadAt(at, piece));
    if (name == kIndex && at == 0 && taken_.close) piece[bpdir::kActiveFlagAt] = std::byte{0};
    CAIRN_RETURN_IF_ERROR(writer.Write(at, piece));
  }
  CAIRN_RETURN_IF_ERROR(writer.Finish());
  CAIRN_ASSIGN_OR_RETURN(const FileInfo after, source->Info());
  if (before.bytes != after.bytes || before.mtime.tv_sec != after.mtime.tv_sec ||
      before.mtime.tv_nsec != after.mtime.tv_nsec) {
    return FailedPrecondition("{}: it changed while it was copied: its writer is at work", From(name));
  }
  entry->set_mode(before.mode);
  entry->set_atime_s(before.atime.tv_sec);
  entry->set_atime_ns(static_cast<std::uint32_t>(before.atime.tv_nsec));
  entry->set_mtime_s(before.mtime.tv_sec);
  entry->set_mtime_ns(static_cast<std::uint32_t>(before.mtime.tv_nsec));
  // Before the sync: by its times a file that is in its place is told from others.
  CAIRN_RETURN_IF_ERROR(disk_.SetModeAndTimes(to, before.mode & 07777, before.atime, before.mtime));
  return target->Sync();
}

// All of them wait until the last is there, and who they are is known.
absl::Status BpAdopter::CopyFiles(NewDataset* dataset) {
  CAIRN_RETURN_IF_ERROR(MakeStage(disk_, prefix_, *dataset));
  catalogue::Catalogue catalogue = CatalogueOf(*dataset, prefix_.run(), 0);
  for (const auto& [name, bytes] : taken_.files) {
    const std::string staged = StagedPath(prefix_, *dataset, 0, catalogue.file_size());
    catalogue::FileEntry& entry = *catalogue.add_file();
    CAIRN_RETURN_IF_ERROR(CopyFile(name, bytes, staged, &entry));
    entry.set_name(taken_.name + "/" + name);
    entry.set_prefix_name(entry.name());
    if (bytes > 0) entry.set_verified_by(catalogue::NOTHING);  // BP5 has no checksums
    dataset->files.push_back({.work = staged, .to = prefix_.FilePath(entry.prefix_name()), .in_place = {}});
  }
  dataset->catalogues.push_back(std::move(catalogue));
  return SyncStage(disk_, prefix_, *dataset);
}

absl::StatusOr<AdoptedBp> BpAdopter::Run() {
  CAIRN_ASSIGN_OR_RETURN(const Claims claims, CleanUp(disk_, prefix_));
  CAIRN_RETURN_IF_ERROR(Look());
  AdoptedBp adopted{.name = taken_.name, .steps = taken_.steps, .closed = taken_.close};
  CAIRN_ASSIGN_OR_RETURN(const std::string claim, Claim());
  if (const auto before = claims.find(claim); before != claims.end()) {
    adopted.dataset = before->second;
    adopted.before = true;
    return adopted;
  }
  CAIRN_RETURN_IF_ERROR(CheckPlaceIsFree());
  CAIRN_RETURN_IF_ERROR(CheckRoom(disk_, prefix_, taken_.bytes));
  CAIRN_ASSIGN_OR_RETURN(launch_, MakeAdoptLaunch(prefix_, /*ranks=*/1, request_.wait, request_.note));
  CAIRN_ASSIGN_OR_RETURN(const Prefix::IdBlock ids, prefix_.ReserveIds(0, 1));
  NewDataset dataset = MakeDataset(ids.first);
  dataset.launch = launch_.get();
  kvtree::Tree tree;
  tree.Set("SYSTEM", "BP5");
  tree.Set("NAME", taken_.name);
  CAIRN_RETURN_IF_ERROR(AdoptDataset(
      disk_, prefix_, claim, std::move(tree), &dataset, [&] { return CopyFiles(&dataset); }, request_.note));
  adopted.dataset = dataset.id();
  adopted.step = *dataset.descriptor.step;
  adopted.files = taken_.files.size();
  adopted.bytes = taken_.bytes;
  return adopted;
}

}  // namespace

absl::StatusOr<AdoptedBp> AdoptBp(Disk& disk, Prefix& prefix, const AdoptBpRequest& request) {
  return BpAdopter(disk, prefix, request).Run();
}

}  // namespace cairn
