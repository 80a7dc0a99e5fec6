#include "storage/job/export/export.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/checksum.h"
#include "storage/base/status.h"
#include "storage/file/checked/checked_blocks.h"
#include "storage/file/fti/names.h"
#include "storage/format/ftiff/variables.h"

namespace cairn {
namespace {

constexpr std::size_t kVerifyThreads = 2;

// A file of the prefix, read in blocks of the catalogue's checksums: what comes out of it has been compared with them.
class VerifiedFile {
 public:
  static absl::StatusOr<std::unique_ptr<VerifiedFile>> Open(Disk& disk, const std::string& path,
                                                            const catalogue::FileEntry& entry) {
    auto file = disk.Open(path, {});
    if (absl::IsNotFound(file.status())) return DataLoss("{}: missing", path);
    if (!file.ok()) return file.status();
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, (*file)->Info());
    if (info.bytes != entry.bytes()) {
      return DataLoss("{}: {} bytes, the catalogue says {}", path, info.bytes, entry.bytes());
    }
    return std::make_unique<VerifiedFile>(*std::move(file), entry);
  }
  VerifiedFile(std::unique_ptr<File> file, const catalogue::FileEntry& entry)
      : file_(std::move(file)), entry_(entry), block_(kCrcBlockBytes) {}

  absl::Status ReadAt(std::uint64_t offset, std::span<std::byte> target) {
    if (offset > entry_.bytes() || target.size() > entry_.bytes() - offset) {
      return DataLoss("{}: offset {}: {} bytes are wanted, the file ends at {}", file_->path(), offset, target.size(),
                      entry_.bytes());
    }
    while (!target.empty()) {
      CAIRN_RETURN_IF_ERROR(Load(offset / kCrcBlockBytes));
      const std::size_t begin = offset % kCrcBlockBytes;
      const std::size_t count = std::min(target.size(), bytes_ - begin);
      std::memcpy(target.data(), block_.data() + begin, count);
      target = target.subspan(count);
      offset += count;
    }
    return absl::OkStatus();
  }
  // As it is: for what is hashed in many places at once.
  absl::Status ReadRaw(std::uint64_t offset, std::span<std::byte> target) { return file_->ReadAt(offset, target); }
  const std::string& path() const { return file_->path(); }
  std::uint64_t bytes() const { return entry_.bytes(); }

 private:
  absl::Status Load(std::uint64_t index) {
    if (loaded_ && index_ == index) return absl::OkStatus();
    loaded_ = false;
    const std::uint64_t offset = index * kCrcBlockBytes;
    bytes_ = static_cast<std::size_t>(std::min(kCrcBlockBytes, entry_.bytes() - offset));
    const std::span<std::byte> bytes = std::span(block_).first(bytes_);
    CAIRN_RETURN_IF_ERROR(file_->ReadAt(offset, bytes));
    const std::uint32_t found = Crc32c(bytes), expected = entry_.crc32c(static_cast<int>(index));
    if (found != expected) return BlockDiffers(file_->path(), offset, bytes_, found, expected);
    loaded_ = true;
    index_ = index;
    return absl::OkStatus();
  }

  const std::unique_ptr<File> file_;
  const catalogue::FileEntry entry_;
  std::vector<std::byte> block_;
  std::size_t bytes_ = 0;    // in the block
  std::uint64_t index_ = 0;  // of the block, if `loaded_`
  bool loaded_ = false;
};

// One rank's part: what its file says, and the file itself, which is opened when it is read. At most one is open at a
// time, of however many ranks.
class Sources {
 public:
  Sources(Disk& disk, const Prefix& prefix, const std::vector<catalogue::Catalogue>& catalogues)
      : disk_(disk), prefix_(prefix), catalogues_(catalogues) {}

  absl::StatusOr<VerifiedFile*> Open(Rank rank) {
    if (open_ == nullptr || rank_ != rank) {
      open_ = nullptr;
      const catalogue::FileEntry& entry = catalogues_[rank].file(0);
      CAIRN_ASSIGN_OR_RETURN(open_, VerifiedFile::Open(disk_, prefix_.FilePath(entry.prefix_name()), entry));
      rank_ = rank;
    }
    return open_.get();
  }

 private:
  Disk& disk_;
  const Prefix& prefix_;
  const std::vector<catalogue::Catalogue>& catalogues_;
  std::unique_ptr<VerifiedFile> open_;
  Rank rank_ = 0;
};

// The metadata of a rank's file, all its chunks verified, its variables those of the catalogue.
absl::StatusOr<ftiff::FileMetadata> Examine(VerifiedFile& file, const catalogue::Catalogue& catalogue) {
  CAIRN_ASSIGN_OR_RETURN(
      ftiff::FileMetadata metadata,
      ftiff::DecodeMetadata(file.path(), file.bytes(), [&file](std::uint64_t offset, std::span<std::byte> target) {
        return file.ReadAt(offset, target);
      }));
  CAIRN_ASSIGN_OR_RETURN(const ftiff::Verdict verdict, ftiff::VerifyData(
                                                           file.path(), metadata,
                                                           [&file](std::uint64_t offset, std::span<std::byte> target) {
                                                             return file.ReadRaw(offset, target);
                                                           },
                                                           kVerifyThreads));
  if (!verdict.bad.empty()) {
    const ftiff::Container& container = metadata.layout.containers[verdict.bad[0].container];
    return DataLoss("{}: offset {}: container {} of variable {}: {}", file.path(), container.file_offset,
                    container.index, container.id, verdict.bad[0].why);
  }
  if (!verdict.ok()) return DataLoss("{}: {}", file.path(), verdict.bad_checksum);
  std::map<std::int32_t, std::uint64_t> there;
  const ftiff::Variables variables(metadata.layout);
  for (const ftiff::VariableSize& size : variables.sizes()) there[size.id] = size.bytes;
  for (const local::Variable& variable : catalogue.variables()) {
    const auto found = there.find(variable.id());
    if (found == there.end() || found->second != variable.bytes()) {
      return DataLoss("{}: variable {}: {} bytes, the catalogue says {}", file.path(), variable.id(),
                      found == there.end() ? 0 : found->second, variable.bytes());
    }
  }
  return metadata;
}

absl::StatusOr<CommittedDataset> Choose(Prefix& prefix, DatasetId wanted) {
  CAIRN_ASSIGN_OR_RETURN(const auto committed, prefix.Committed());
  if (wanted != 0) {
    const auto found = committed.find(wanted);
    if (found == committed.end()) return NotFound("{}: no dataset {} is committed there", prefix.path(), wanted);
    return found->second;
  }
  for (auto at = committed.rbegin(); at != committed.rend(); ++at) {
    const CommittedDataset& dataset = at->second;
    if (dataset.by_cairn && dataset.descriptor.checkpoint && !dataset.descriptor.own_files) return dataset;
  }
  return NotFound("{}: no checkpoint is committed there", prefix.path());
}

absl::Status CheckKind(const CommittedDataset& dataset) {
  const scr::Descriptor& descriptor = dataset.descriptor;
  if (!dataset.by_cairn) {
    return FailedPrecondition("dataset {} is SCR's own: its files are the application's", descriptor.id);
  }
  if (descriptor.own_files) {
    return FailedPrecondition("dataset {} holds the application's own files, no variables", descriptor.id);
  }
  return absl::OkStatus();
}

absl::StatusOr<fti::Topology> TopologyOf(const ExportRequest& request, std::uint32_t application_ranks) {
  fti::Topology topology{.node_size = request.node_size, .group_size = request.group_size, .heads = request.heads};
  const std::uint32_t writers = topology.node_size - (topology.heads ? 1 : 0);
  if (topology.node_size == 0 || writers == 0 || topology.group_size == 0) {
    return InvalidArgument(
        "{} processes a node{}, {} nodes a group: a node needs a process that writes, a group a node",
        topology.node_size, topology.heads ? ", one a head" : "", topology.group_size);
  }
  if (application_ranks % writers != 0) {
    return InvalidArgument("{} ranks do not fill nodes of {} each{}", application_ranks, writers,
                           topology.heads ? " and a head" : "");
  }
  const std::uint64_t ranks = std::uint64_t{application_ranks} / writers * topology.node_size;
  if (ranks > std::numeric_limits<std::int32_t>::max()) return InvalidArgument("{} processes are too many", ranks);
  topology.ranks = static_cast<std::uint32_t>(ranks);
  return topology;
}

std::int32_t CheckpointIdOf(const scr::Descriptor& descriptor) {
  const std::uint64_t step = descriptor.step.value_or(0);
  const bool fits = step > 0 && step <= std::uint64_t{fti::kCheckpointIdMax};
  return static_cast<std::int32_t>(fits ? step : descriptor.id);  // ids of datasets fit always
}

absl::StatusOr<fti::Export::Rank> PrepareRank(const std::shared_ptr<Sources>& sources, Rank rank,
                                              const catalogue::Catalogue& catalogue, const ExportRequest& request,
                                              Exported* exported) {
  if (catalogue.variables().empty() || catalogue.file_size() != 1) {
    return FailedPrecondition("rank {} has no variables in dataset {}: FTI has no file for such a rank", rank,
                              catalogue.dataset());
  }
  fti::Export::Rank prepared;
  for (const local::Variable& variable : catalogue.variables()) prepared.registered.push_back(variable.id());
  CAIRN_ASSIGN_OR_RETURN(VerifiedFile* const file, sources->Open(rank));
  CAIRN_ASSIGN_OR_RETURN(const ftiff::FileMetadata metadata, Examine(*file, catalogue));
  const auto variables = std::make_shared<const ftiff::Variables>(metadata.layout);
  for (const ftiff::VariableSize& size : variables->sizes()) {
    exported->bytes += size.bytes;
    exported->variable_id_max = std::max(exported->variable_id_max, size.id);
  }
  const std::vector<ftiff::VariableSize> registered = variables->SizesInOrder(prepared.registered);
  if (!request.keep_containers) {
    CAIRN_ASSIGN_OR_RETURN(prepared.layout, ftiff::PlanFresh(registered, ftiff::Packing::kExact));
  } else if (request.letter == ftiff::Letter::kA && !ftiff::AppearAsRegistered(metadata.layout, registered)) {
    return FailedPrecondition(
        "rank {} has stored its variables in another order than it registers them, and FTI 1.1 "
        "cannot restore these containers: --packing exact orders them anew",
        rank);
  } else {
    prepared.layout = ftiff::Placed(metadata.layout, ftiff::Letter::kF);
  }
  prepared.read = [sources, rank, variables](std::int32_t id, std::uint64_t offset,
                                             std::span<std::byte> target) -> absl::Status {
    CAIRN_ASSIGN_OR_RETURN(VerifiedFile* const open, sources->Open(rank));
    return variables->Read(open->path(), id, offset, target,
                           [open](std::uint64_t at, std::span<std::byte> bytes) { return open->ReadAt(at, bytes); });
  };
  return prepared;
}

}  // namespace

absl::StatusOr<Exported> ExportDataset(Disk& disk, Prefix& prefix, const ExportRequest& request) {
  CAIRN_ASSIGN_OR_RETURN(const CommittedDataset dataset, Choose(prefix, request.dataset));
  CAIRN_RETURN_IF_ERROR(CheckKind(dataset));
  const scr::Descriptor& descriptor = dataset.descriptor;
  CAIRN_ASSIGN_OR_RETURN(const std::vector<catalogue::Catalogue> catalogues, prefix.Catalogues(descriptor.id));
  Exported exported;
  exported.dataset = descriptor.id;
  exported.step = descriptor.step.value_or(0);
  exported.application_ranks = static_cast<std::uint32_t>(catalogues.size());
  exported.checkpoint = request.checkpoint.value_or(CheckpointIdOf(descriptor));
  CAIRN_ASSIGN_OR_RETURN(exported.topology, TopologyOf(request, exported.application_ranks));
  if (request.letter == ftiff::Letter::kA) {
    CAIRN_ASSIGN_OR_RETURN(exported.protect_order, ProtectOrder(catalogues));
  }
  fti::Export what;
  what.folder = request.folder;
  what.topology = exported.topology;
  what.level = request.level;
  what.id = exported.checkpoint;
  what.letter = request.letter;
  exported.execution = what.execution;
  const auto sources = std::make_shared<Sources>(disk, prefix, catalogues);
  for (Rank rank = 0; rank < catalogues.size(); ++rank) {
    CAIRN_ASSIGN_OR_RETURN(fti::Export::Rank prepared,
                           PrepareRank(sources, rank, catalogues[rank], request, &exported));
    what.ranks.push_back(std::move(prepared));
  }
  CAIRN_RETURN_IF_ERROR(fti::Write(disk, what));
  return exported;
}

}  // namespace cairn
