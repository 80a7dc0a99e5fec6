#include "client/cli/adopt.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/check.h"
#include "storage/base/checksum.h"
#include "storage/base/status.h"
#include "storage/cache/catalogue.h"
#include "storage/cache/tree_file.h"
#include "storage/ftiff/layout.h"
#include "storage/ftiff/variables.h"
#include "storage/ftiff/write.h"

namespace cairn::cli {
namespace {

// As all that Cairn makes in the prefix: the umask says who may read it.
constexpr std::uint32_t kFileMode = 0666;
constexpr std::uint32_t kFolderMode = 0777;

std::string NameOf(const fti::Checkpoint& checkpoint) {
  const bool differential = checkpoint.level == fti::Level::kDifferential;
  return differential ? fmt::format("checkpoint {} (differential)", checkpoint.id)
                      : fmt::format("checkpoint {} (level {})", checkpoint.id, static_cast<int>(checkpoint.level));
}

// --- One rank's file ---

// A new file, written front to back in blocks, with the checksums of its catalogue entry.
class BlockWriter {
 public:
  BlockWriter(File& file, catalogue::FileEntry& entry) : file_(file), entry_(entry) { block_.reserve(kCrcBlockBytes); }

  absl::Status Write(std::uint64_t offset, std::span<const std::byte> bytes) {
    CAIRN_CHECK(offset == written_ + block_.size());  // WriteFile's promise for layout F
    while (!bytes.empty()) {
      const std::size_t count = std::min<std::size_t>(bytes.size(), kCrcBlockBytes - block_.size());
      block_.insert(block_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
      bytes = bytes.subspan(count);
      if (block_.size() == kCrcBlockBytes) CAIRN_RETURN_IF_ERROR(Flush());
    }
    return absl::OkStatus();
  }
  absl::Status Finish() {
    CAIRN_RETURN_IF_ERROR(Flush());
    entry_.set_bytes(written_);
    entry_.set_crc32(crc32_);
    entry_.set_has_crc32(true);
    return file_.Sync();
  }

 private:
  absl::Status Flush() {
    if (block_.empty()) return absl::OkStatus();
    entry_.add_crc32c(Crc32c(block_));
    crc32_ = Crc32(block_, crc32_);
    CAIRN_RETURN_IF_ERROR(file_.WriteAt(written_, block_));
    written_ += block_.size();
    block_.clear();
    return absl::OkStatus();
  }

  File& file_;
  catalogue::FileEntry& entry_;
  std::vector<std::byte> block_;
  std::uint64_t written_ = 0;
  std::uint32_t crc32_ = 0;
};

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

// Before the first byte is written: a disk that is full is everybody's trouble.
absl::Status CheckRoom(Disk& disk, const Prefix& prefix, const std::vector<fti::RankFile>& files) {
  std::uint64_t bytes = 0;
  for (const fti::RankFile& from : files) {
    CAIRN_ASSIGN_OR_RETURN(const ftiff::FileToWrite file, PlanRank(disk, from, 0));
    const std::uint64_t more = file.layout.file_bytes(ftiff::Letter::kF);
    bytes = more > std::numeric_limits<std::uint64_t>::max() - bytes ? std::numeric_limits<std::uint64_t>::max()
                                                                     : bytes + more;
  }
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t free_bytes, disk.FreeBytes(prefix.path()));
  if (bytes <= free_bytes) return absl::OkStatus();
  return ResourceExhausted("{}: the checkpoint takes {} bytes, {} are free", prefix.path(), bytes, free_bytes);
}

absl::Status CopyRank(Disk& disk, const fti::RankFile& from, DatasetId id, const std::string& to,
                      catalogue::FileEntry* entry) {
  CAIRN_ASSIGN_OR_RETURN(const ftiff::FileToWrite file, PlanRank(disk, from, id));
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> source, disk.Open(from.path, {}));
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> target,
                         disk.Open(to, {.writable = true, .create = true, .exclusive = true, .mode = kFileMode}));
  const ftiff::Variables variables(from.metadata.layout);
  const ftiff::ReadAt read_at = [&](std::uint64_t offset, std::span<std::byte> bytes) {
    return source->ReadAt(offset, bytes);
  };
  BlockWriter writer(*target, *entry);
  const auto written = ftiff::WriteFile(
      file,
      [&](std::int32_t variable, std::uint64_t offset, std::span<std::byte> bytes) {
        return variables.Read(from.path, variable, offset, bytes, read_at);
      },
      [&](std::uint64_t offset, std::span<const std::byte> bytes) { return writer.Write(offset, bytes); });
  if (!written.ok()) return Annotate(written.status(), from.path);
  return writer.Finish();
}

// --- The dataset ---

struct NewDataset {
  DatasetId id = 0;
  std::string folder;  // of its files, below the prefix
  scr::Descriptor descriptor;
  std::vector<catalogue::Catalogue> catalogues;
};

std::int64_t NowMicros() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

NewDataset MakeDataset(DatasetId id, std::int32_t checkpoint, std::size_t ranks) {
  NewDataset dataset;
  dataset.id = id;
  dataset.folder = fmt::format("ckpt.{}", id);
  dataset.descriptor.id = id;
  dataset.descriptor.name = dataset.folder;
  dataset.descriptor.created_us = NowMicros();
  dataset.descriptor.launch = 0;
  dataset.descriptor.step = static_cast<std::uint64_t>(checkpoint);
  dataset.descriptor.ranks = static_cast<std::uint32_t>(ranks);
  return dataset;
}

catalogue::Catalogue CatalogueOf(const NewDataset& dataset, const RunId& run, Rank rank,
                                 const ftiff::FileLayout& layout) {
  catalogue::Catalogue catalogue;
  catalogue.set_run(run.Hex());
  catalogue.set_dataset(dataset.id);
  catalogue.set_step(*dataset.descriptor.step);
  catalogue.set_rank(rank);
  catalogue.set_nranks(*dataset.descriptor.ranks);
  const ftiff::Variables variables(layout);
  for (const ftiff::VariableSize& size : variables.sizes()) {
    local::Variable& variable = *catalogue.add_variables();
    variable.set_id(size.id);
    variable.set_count(size.bytes);
    variable.set_bytes(size.bytes);
  }
  catalogue::FileEntry& file = *catalogue.add_file();
  file.set_name(CheckpointFileName(dataset.id, rank));
  file.set_prefix_name(dataset.folder + "/" + file.name());
  return catalogue;
}

absl::Status CopyFiles(Disk& disk, Prefix& prefix, const std::vector<fti::RankFile>& files, NewDataset* dataset) {
  const std::string folder = prefix.FilePath(dataset->folder);
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, folder, kFolderMode));
  for (Rank rank = 0; rank < files.size(); ++rank) {
    catalogue::Catalogue catalogue = CatalogueOf(*dataset, prefix.run(), rank, files[rank].metadata.layout);
    catalogue::FileEntry& entry = *catalogue.mutable_file(0);
    const std::string path = prefix.FilePath(entry.prefix_name());
    const std::string work = WorkName(path);
    CAIRN_RETURN_IF_ERROR(CopyRank(disk, files[rank], dataset->id, work, &entry));
    CAIRN_RETURN_IF_ERROR(disk.Rename(work, path));
    dataset->catalogues.push_back(std::move(catalogue));
  }
  return disk.SyncDirectory(folder);
}

// Nobody has moved or shortened them meanwhile.
absl::Status CheckFiles(Disk& disk, const Prefix& prefix, const NewDataset& dataset) {
  for (const catalogue::Catalogue& catalogue : dataset.catalogues) {
    const std::string path = prefix.FilePath(catalogue.file(0).prefix_name());
    const auto info = disk.Info(path);
    if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
    const std::uint64_t bytes = info.ok() ? info->bytes : 0;
    if (!info.ok() || bytes != catalogue.file(0).bytes()) {
      return FailedPrecondition("{}: {} of the {} bytes that were written are there: something else changes the prefix",
                                path, bytes, catalogue.file(0).bytes());
    }
  }
  return absl::OkStatus();
}

// Takes away what was made of a dataset that was not committed. Records of one that was committed or removed stay.
absl::Status RemoveUnfinished(Disk& disk, Prefix& prefix, DatasetId id) {
  const std::string records = prefix.FilePath(fmt::format(".scr/scr.dataset.{}", id));
  for (const char* decided : {"commit.cairn", "removed.cairn"}) {
    const auto info = disk.Info(fmt::format("{}/{}", records, decided));
    if (info.ok()) return absl::OkStatus();
    if (!absl::IsNotFound(info.status())) return info.status();
  }
  CAIRN_RETURN_IF_ERROR(RemoveTree(disk, prefix.FilePath(fmt::format("ckpt.{}", id))));
  return RemoveTree(disk, records);
}

// --- Once only ---

constexpr std::string_view kClaimName = "adopted.";
using Claims = std::map<std::string, DatasetId>;  // by path

// The same for the same bytes under the same id, whatever level and folder they are in.
std::string ClaimPath(const Prefix& prefix, std::int32_t checkpoint, const std::vector<fti::RankFile>& files) {
  std::string text = fmt::format("FTI {} {}\n", checkpoint, files.size());
  for (const fti::RankFile& file : files) {
    text += fmt::format("{} {} {}\n", static_cast<char>(file.metadata.letter), file.metadata.file_bytes,
                        file.metadata.checksum_hex);
  }
  return prefix.FilePath(fmt::format(".cairn/{}{}", kClaimName, HexOf(Md5(std::as_bytes(std::span(text))))));
}

kvtree::Tree ClaimOf(DatasetId id, const fti::Execution& execution, const fti::Checkpoint& checkpoint) {
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  tree.Set("SYSTEM", "FTI");
  tree.Set("EXECUTION", execution.id);
  tree.SetInt("CHECKPOINT", checkpoint.id);
  tree.Set("LEVEL", static_cast<std::uint64_t>(checkpoint.level));
  tree.Set("DATASET", id);
  return tree;
}

// The dataset of a claim; 0: there is none, or it cannot be read.
absl::StatusOr<DatasetId> ClaimedBy(Disk& disk, const std::string& claim) {
  const auto tree = ReadTree(disk, claim);
  if (absl::IsNotFound(tree.status()) || absl::IsDataLoss(tree.status())) return DatasetId{0};
  if (!tree.ok()) return tree.status();
  const auto id = tree->GetUnsigned("DATASET");
  return id.ok() ? *id : DatasetId{0};
}

// Claims that adopts before have left, with the datasets of them that are committed. What others left unfinished goes;
// the claim last, so that what the power takes away of this is done the next time.
absl::StatusOr<Claims> CleanUp(Disk& disk, Prefix& prefix) {
  CAIRN_ASSIGN_OR_RETURN(const auto committed, prefix.Committed());
  CAIRN_ASSIGN_OR_RETURN(const auto names, disk.List(prefix.FilePath(".cairn")));
  Claims claims;
  std::vector<std::string> done;
  for (const std::string& name : names) {
    if (!name.starts_with(kClaimName)) continue;
    const std::string claim = prefix.FilePath(".cairn/" + name);
    CAIRN_ASSIGN_OR_RETURN(const DatasetId id, ClaimedBy(disk, claim));
    if (!IsWorkName(name) && committed.contains(id)) {
      claims[claim] = id;
      continue;
    }
    if (id != 0 && !committed.contains(id)) CAIRN_RETURN_IF_ERROR(RemoveUnfinished(disk, prefix, id));
    done.push_back(claim);
  }
  if (done.empty()) return claims;
  CAIRN_RETURN_IF_ERROR(disk.SyncDirectory(prefix.path()));
  const absl::Status synced = disk.SyncDirectory(prefix.FilePath(".scr"));
  if (!synced.ok() && !absl::IsNotFound(synced)) return synced;
  for (const std::string& claim : done) CAIRN_RETURN_IF_ERROR(disk.Remove(claim));
  return claims;
}

absl::Status Take(Disk& disk, Prefix& prefix, const fti::Execution& execution, const fti::Checkpoint& checkpoint,
                  const std::vector<fti::RankFile>& files, const Claims& claims, Adopted* adopted) {
  const std::string claim = ClaimPath(prefix, checkpoint.id, files);
  if (const auto before = claims.find(claim); before != claims.end()) {
    adopted->dataset = before->second;
    adopted->before = true;
    return absl::OkStatus();
  }
  CAIRN_RETURN_IF_ERROR(CheckRoom(disk, prefix, files));
  CAIRN_ASSIGN_OR_RETURN(const Prefix::IdBlock ids, prefix.ReserveIds(0));
  NewDataset dataset = MakeDataset(ids.first, checkpoint.id, files.size());
  CAIRN_RETURN_IF_ERROR(ReplaceTree(disk, claim, ClaimOf(dataset.id, execution, checkpoint)));
  absl::Status done = CopyFiles(disk, prefix, files, &dataset);
  if (done.ok()) done = CheckFiles(disk, prefix, dataset);
  if (done.ok()) done = prefix.Commit(dataset.descriptor, dataset.catalogues);
  if (!done.ok()) {
    RemoveUnfinished(disk, prefix, dataset.id).IgnoreError();  // the next adopt does it, then; the first error counts
    return done;
  }
  adopted->dataset = dataset.id;
  for (const catalogue::Catalogue& catalogue : dataset.catalogues) adopted->bytes += catalogue.file(0).bytes();
  return absl::OkStatus();
}

// An empty folder for files that are rebuilt, which goes with this.
class Scratch {
 public:
  static absl::StatusOr<std::unique_ptr<Scratch>> Make(Disk& disk, const Prefix& prefix) {
    auto scratch = std::make_unique<Scratch>(disk, prefix.FilePath(".cairn/adopt.scratch"));
    CAIRN_RETURN_IF_ERROR(scratch->Clear());
    return scratch;
  }
  Scratch(Disk& disk, std::string path) : disk_(disk), path_(std::move(path)) {}
  ~Scratch() { RemoveTree(disk_, path_).IgnoreError(); }  // the next adopt removes what cannot be removed now
  Scratch(const Scratch&) = delete;

  const std::string& path() const { return path_; }
  absl::Status Clear() {
    CAIRN_RETURN_IF_ERROR(RemoveTree(disk_, path_));
    return disk_.MakeDirectory(path_, 0700);
  }

 private:
  Disk& disk_;
  const std::string path_;
};

}  // namespace

absl::StatusOr<Adopted> AdoptCheckpoint(Disk& disk, Prefix& prefix, const fti::Execution& execution,
                                        const AdoptRequest& request) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Scratch> scratch, Scratch::Make(disk, prefix));
  CAIRN_ASSIGN_OR_RETURN(const Claims claims, CleanUp(disk, prefix));
  std::string reasons;
  for (const fti::Checkpoint& checkpoint : execution.checkpoints) {
    if (request.checkpoint && checkpoint.id != *request.checkpoint) continue;
    auto recovered = fti::Recover(disk, execution.topology, checkpoint, scratch->path());
    if (absl::IsDataLoss(recovered.status())) {
      const std::string reason = fmt::format("{} is not whole: {}", NameOf(checkpoint), MessageOf(recovered.status()));
      request.note(reason);
      reasons += (reasons.empty() ? "" : "; ") + reason;
      CAIRN_RETURN_IF_ERROR(scratch->Clear());
      continue;
    }
    if (!recovered.ok()) return recovered.status();
    for (const std::string& warning : recovered->warnings) request.note(warning);
    Adopted adopted{.level = checkpoint.level, .checkpoint = checkpoint.id};
    adopted.ranks = static_cast<std::uint32_t>(recovered->files.size());
    adopted.rebuilt = static_cast<std::uint32_t>(
        std::count_if(recovered->files.begin(), recovered->files.end(), [](const auto& file) { return file.rebuilt; }));
    CAIRN_RETURN_IF_ERROR(Take(disk, prefix, execution, checkpoint, recovered->files, claims, &adopted));
    return adopted;
  }
  if (!reasons.empty()) {
    return DataLoss("no checkpoint of FTI's execution {} can be adopted: {}", execution.id, reasons);
  }
  if (request.checkpoint) return NotFound("FTI's execution {} has no checkpoint {}", execution.id, *request.checkpoint);
  return NotFound("FTI's execution {} has no checkpoint", execution.id);
}

}  // namespace cairn::cli
