#include "storage/job/adopt/adopt.h"

#include "storage/base/path.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/clock.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/format/ftiff/layout.h"
#include "storage/format/ftiff/variables.h"
#include "storage/format/ftiff/write.h"
#include "storage/job/adopt/adoption.h"

namespace cairn {
namespace {

constexpr std::size_t kReasonsTold = 8;  // in one message

// "checkpoint 7 (level 3) is not whole: 2 of 4 ranks' files are lost"; each of them is a note of its own.
std::string TellLost(const fti::Checkpoint& checkpoint, const absl::Status& lost,
                     const std::function<void(const std::string&)>& note) {
  std::string_view lines = MessageOf(lost);
  std::string head;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    const std::string of = fmt::format("checkpoint {} ({})", checkpoint.id, fti::NameOf(checkpoint.level));
    const std::string text = fmt::format("{}{}: {}", of, head.empty() ? " is not whole" : "", line);
    note(text);
    if (head.empty()) head = text;
  }
  return head;
}

// --- One rank's file ---

// The file that a rank's file becomes: the same containers. Where it ends inside one, as B may, the rest of that is
// nowhere and may claim any size: then one container a variable, of what there is.
absl::StatusOr<ftiff::FileToWrite> PlanRank(Disk& disk, const fti::RankFile& from, DatasetId id) {
  const ftiff::FileMetadata& metadata = from.metadata;
  ftiff::FileToWrite file{
      .letter = ftiff::Letter::kF,
      .header = {.checkpoint_id = static_cast<std::int32_t>(id), .timestamp_ns = metadata.header.timestamp_ns},
      .layout = {},
      .chunk_hashes = {}};
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk.Info(from.path));
  if (metadata.file_bytes > info.bytes) {
    const ftiff::Variables variables(metadata.layout);
    CAIRN_ASSIGN_OR_RETURN(file.layout, ftiff::PlanFresh(variables.sizes(), ftiff::Packing::kExact));
  } else {
    file.layout = metadata.layout;
    file.chunk_hashes = metadata.chunk_hashes;
  }
  return file;
}

std::uint64_t AddUpTo(std::uint64_t sum, std::uint64_t more) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  return more > kMost - sum ? kMost : sum + more;
}

absl::Status CheckRoomFor(Disk& disk, const Prefix& prefix, const std::vector<fti::RankFile>& files) {
  std::uint64_t bytes = 0;
  for (const fti::RankFile& from : files) {
    CAIRN_ASSIGN_OR_RETURN(const ftiff::FileToWrite file, PlanRank(disk, from, 0));
    bytes = AddUpTo(bytes, file.layout.file_bytes(ftiff::Letter::kF));
  }
  return CheckRoom(disk, prefix, bytes);
}

absl::Status CopyRank(Disk& disk, const fti::RankFile& from, DatasetId id, const std::string& to, OwnLaunch* launch,
                      catalogue::FileEntry* entry) {
  CAIRN_ASSIGN_OR_RETURN(const ftiff::FileToWrite file, PlanRank(disk, from, id));
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> source, disk.Open(from.path, {}));
  CAIRN_ASSIGN_OR_RETURN(
      const std::unique_ptr<File> target,
      disk.Open(to, {.writable = true, .create = true, .exclusive = true, .mode = kAdoptedFileMode}));
  const ftiff::Variables variables(from.metadata.layout);
  const ftiff::ReadAt read_at = [&](std::uint64_t offset, std::span<std::byte> bytes) {
    return source->ReadAt(offset, bytes);
  };
  BlockWriter writer(*target, *entry, launch);
  const auto written = ftiff::WriteFile(
      file,
      [&](std::int32_t variable, std::uint64_t offset, std::span<std::byte> bytes) {
        return variables.Read(from.path, variable, offset, bytes, read_at);
      },
      [&](std::uint64_t offset, std::span<const std::byte> bytes) { return writer.Write(offset, bytes); });
  if (!written.ok()) return Annotate(written.status(), from.path);
  CAIRN_RETURN_IF_ERROR(writer.Finish());
  return target->Sync();
}

// --- The dataset ---

NewDataset MakeDataset(DatasetId id, std::int32_t checkpoint, std::size_t ranks) {
  NewDataset dataset;
  dataset.descriptor.id = id;
  dataset.descriptor.name = dataset.folder();
  dataset.descriptor.created_us = NowMicros();
  dataset.descriptor.launch = 0;
  dataset.descriptor.step = static_cast<std::uint64_t>(checkpoint);
  dataset.descriptor.ranks = static_cast<std::uint32_t>(ranks);
  return dataset;
}

catalogue::Catalogue CatalogueOfRank(const NewDataset& dataset, const RunId& run, Rank rank,
                                     const ftiff::FileMetadata& metadata) {
  catalogue::Catalogue catalogue = CatalogueOf(dataset, run, rank);
  std::map<std::int32_t, std::uint64_t> bytes;
  for (const ftiff::Container& container : metadata.layout.containers) bytes[container.id] += container.chunk_bytes;
  for (const std::int32_t id : metadata.registered) {
    local::Variable& variable = *catalogue.add_variables();
    variable.set_id(id);
    variable.set_count(bytes[id]);
    variable.set_bytes(bytes[id]);
  }
  catalogue::FileEntry& file = *catalogue.add_file();
  file.set_name(CheckpointFileName(dataset.id(), rank));
  file.set_prefix_name(dataset.folder() + "/" + file.name());
  file.set_verified_by(catalogue::CHECKSUM);  // recovered files have passed all of FTI's hashes
  return catalogue;
}

// A checkpoint file's name is its own: it goes to its place at once.
absl::Status CopyFiles(Disk& disk, Prefix& prefix, const std::vector<fti::RankFile>& files, NewDataset* dataset) {
  const std::string folder = prefix.FilePath(dataset->folder());
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, folder, kAdoptedFolderMode));
  for (Rank rank = 0; rank < files.size(); ++rank) {
    catalogue::Catalogue catalogue = CatalogueOfRank(*dataset, prefix.run(), rank, files[rank].metadata);
    catalogue::FileEntry& entry = *catalogue.mutable_file(0);
    const std::string path = prefix.FilePath(entry.prefix_name());
    const std::string work = WorkName(path);
    CAIRN_RETURN_IF_ERROR(CopyRank(disk, files[rank], dataset->id(), work, dataset->launch, &entry));
    CAIRN_RETURN_IF_ERROR(disk.Rename(work, path));
    dataset->catalogues.push_back(std::move(catalogue));
  }
  return disk.SyncDirectory(folder);
}

// --- Once only ---

// The same for the same bytes under the same id, whatever level and folder they are in.
std::string ClaimPathOf(const Prefix& prefix, std::int32_t checkpoint, const std::vector<fti::RankFile>& files) {
  std::string text = fmt::format("FTI {} {}\n", checkpoint, files.size());
  for (const fti::RankFile& file : files) {
    text += fmt::format("{} {} {}\n", static_cast<char>(file.metadata.letter), file.metadata.file_bytes,
                        file.metadata.checksum_hex);
  }
  return ClaimPath(prefix, text);
}

kvtree::Tree ClaimOf(const fti::Execution& execution, const fti::Checkpoint& checkpoint) {
  kvtree::Tree tree;
  tree.Set("SYSTEM", "FTI");
  tree.Set("EXECUTION", execution.id);
  tree.SetInt("CHECKPOINT", checkpoint.id);
  tree.Set("LEVEL", static_cast<std::uint64_t>(checkpoint.level));
  return tree;
}

absl::Status Take(Disk& disk, Prefix& prefix, const fti::Execution& execution, const fti::Checkpoint& checkpoint,
                  const std::vector<fti::RankFile>& files, const Claims& claims, const AdoptRequest& request,
                  Adopted* adopted) {
  const std::string claim = ClaimPathOf(prefix, checkpoint.id, files);
  if (const auto before = claims.find(claim); before != claims.end()) {
    adopted->dataset = before->second;
    adopted->before = true;
    return absl::OkStatus();
  }
  CAIRN_RETURN_IF_ERROR(CheckRoomFor(disk, prefix, files));
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<OwnLaunch> launch,
                         MakeAdoptLaunch(prefix, static_cast<std::uint32_t>(files.size()), request.wait, request.note));
  CAIRN_ASSIGN_OR_RETURN(const Prefix::IdBlock ids, prefix.ReserveIds(0, 1));
  NewDataset dataset = MakeDataset(ids.first, checkpoint.id, files.size());
  dataset.launch = launch.get();
  CAIRN_RETURN_IF_ERROR(AdoptDataset(
      disk, prefix, claim, ClaimOf(execution, checkpoint), &dataset,
      [&] { return CopyFiles(disk, prefix, files, &dataset); }, request.note));
  adopted->dataset = dataset.id();
  for (const catalogue::Catalogue& catalogue : dataset.catalogues) adopted->bytes += catalogue.file(0).bytes();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Adopted> AdoptCheckpoint(Disk& disk, Prefix& prefix, const fti::Execution& execution,
                                        const AdoptRequest& request) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Scratch> scratch, Scratch::Make(disk, prefix));
  CAIRN_ASSIGN_OR_RETURN(const Claims claims, CleanUp(disk, prefix));
  std::vector<std::string> reasons;
  for (const fti::Checkpoint& checkpoint : execution.checkpoints) {
    if (request.checkpoint && checkpoint.id != *request.checkpoint) continue;
    auto recovered = fti::Recover(disk, execution.topology, checkpoint, scratch->path());
    if (absl::IsDataLoss(recovered.status())) {
      reasons.push_back(TellLost(checkpoint, recovered.status(), request.note));
      CAIRN_RETURN_IF_ERROR(scratch->Clear());
      continue;
    }
    if (!recovered.ok()) return recovered.status();
    for (const std::string& warning : recovered->warnings) request.note(warning);
    Adopted adopted{.level = checkpoint.level, .checkpoint = checkpoint.id};
    adopted.ranks = static_cast<std::uint32_t>(recovered->files.size());
    adopted.rebuilt = static_cast<std::uint32_t>(
        std::count_if(recovered->files.begin(), recovered->files.end(), [](const auto& file) { return file.rebuilt; }));
    CAIRN_RETURN_IF_ERROR(Take(disk, prefix, execution, checkpoint, recovered->files, claims, request, &adopted));
    return adopted;
  }
  if (!reasons.empty()) {
    const std::size_t count = reasons.size();
    reasons.resize(std::min(count, kReasonsTold));
    return DataLoss("no checkpoint of FTI's execution {} can be adopted: {}{}", execution.id, fmt::join(reasons, "; "),
                    count > reasons.size() ? "; …" : "");
  }
  if (request.checkpoint) return NotFound("FTI's execution {} has no checkpoint {}", execution.id, *request.checkpoint);
  return NotFound("FTI's execution {} has no checkpoint", execution.id);
}

}  // namespace cairn
