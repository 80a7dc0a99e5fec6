#include "storage/job/adopt/adoption.h"

#include "storage/base/path.h"

#include <algorithm>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/checksum.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/catalogue/catalogue.h"

namespace cairn {
namespace {

constexpr std::string_view kClaimName = "adopted.";
constexpr std::string_view kStageName = "adopting";

// Nobody has moved or shortened them meanwhile.
absl::Status CheckFiles(Disk& disk, const Prefix& prefix, const NewDataset& dataset) {
  for (const catalogue::Catalogue& catalogue : dataset.catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      const std::string path = prefix.FilePath(file.prefix_name());
      const auto info = disk.Info(path);
      if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
      const std::uint64_t bytes = info.ok() ? info->bytes : 0;
      if (info.ok() && bytes == file.bytes()) continue;
      return FailedPrecondition("{}: {} of the {} bytes that were written are there: something else changes the prefix",
                                path, bytes, file.bytes());
    }
  }
  return absl::OkStatus();
}

// The application's files that are in their places: those that do not wait any more.
absl::Status TakeBack(Disk& disk, const Prefix& prefix, const catalogue::Catalogue& catalogue) {
  NewDataset dataset;
  dataset.descriptor.id = catalogue.dataset();
  for (int i = 0; i < catalogue.file_size(); ++i) {
    const catalogue::FileEntry& file = catalogue.file(i);
    const auto staged = disk.Info(prefix.FilePath(StagedName(dataset, catalogue.rank(), i)));
    if (staged.ok()) continue;
    if (!absl::IsNotFound(staged.status())) return staged.status();
    const std::string path = prefix.FilePath(file.prefix_name());
    const auto info = disk.Info(path);
    if (absl::IsNotFound(info.status())) continue;
    if (!info.ok()) return info.status();
    const bool ours = info->is_regular() && info->bytes == file.bytes() && info->mtime.tv_sec == file.mtime_s() &&
                      static_cast<std::uint64_t>(info->mtime.tv_nsec) == file.mtime_ns();
    if (!ours) continue;
    CAIRN_RETURN_IF_ERROR(disk.Remove(path));
    CAIRN_RETURN_IF_ERROR(disk.SyncDirectory(ParentOf(path)));
  }
  return absl::OkStatus();
}

// Files are put in their places only after all catalogues are stored: one that cannot be read is of no such dataset.
// The catalogues go before the files that wait, since what does not wait any more is taken for put in its place.
absl::Status TakeBackAll(Disk& disk, const Prefix& prefix, DatasetId id) {
  const std::string folder = prefix.FilePath(fmt::format("ckpt.{}", id));
  const auto names = disk.List(folder);
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  if (!names.ok()) return names.status();
  std::vector<std::string> done;
  for (const std::string& name : *names) {
    if (!name.starts_with("rank_") || !name.ends_with(".cat")) continue;
    const std::string path = folder + "/" + name;
    done.push_back(path);
    const auto text = ReadWhole(disk, path, kCatalogueBytesMax);
    if (!text.ok()) return text.status();
    const auto catalogue = DecodeCatalogue(path, *text);
    if (!catalogue.ok() || catalogue->dataset() != id || !catalogue->files()) continue;
    CAIRN_RETURN_IF_ERROR(TakeBack(disk, prefix, *catalogue));
  }
  for (const std::string& path : done) CAIRN_RETURN_IF_ERROR(disk.Remove(path));
  return disk.SyncDirectory(folder);
}

// Takes away what was made of a dataset that was not committed. Records of one that was committed or removed stay.
absl::Status RemoveUnfinished(Disk& disk, Prefix& prefix, DatasetId id) {
  const std::string records = prefix.FilePath(fmt::format(".scr/scr.dataset.{}", id));
  for (const char* decided : {"commit.cairn", "removed.cairn"}) {
    const auto info = disk.Info(fmt::format("{}/{}", records, decided));
    if (info.ok()) return absl::OkStatus();
    if (!absl::IsNotFound(info.status())) return info.status();
  }
  CAIRN_RETURN_IF_ERROR(TakeBackAll(disk, prefix, id));
  CAIRN_RETURN_IF_ERROR(RemoveTree(disk, prefix.FilePath(fmt::format("ckpt.{}", id))));
  return RemoveTree(disk, records);
}

// Where files waited. Not there: OK.
absl::Status RemoveStage(Disk& disk, const Prefix& prefix, DatasetId id) {
  return RemoveTree(disk, prefix.FilePath(fmt::format("ckpt.{}/{}", id, kStageName)));
}

// The dataset of a claim; 0: there is none, or it cannot be read.
absl::StatusOr<DatasetId> ClaimedBy(Disk& disk, const std::string& claim) {
  const auto tree = ReadTree(disk, claim);
  if (absl::IsNotFound(tree.status()) || absl::IsDataLoss(tree.status())) return DatasetId{0};
  if (!tree.ok()) return tree.status();
  const auto id = tree->GetUnsigned("DATASET");
  return id.ok() ? *id : DatasetId{0};
}

}  // namespace

BlockWriter::BlockWriter(File& file, catalogue::FileEntry& entry) : file_(file), entry_(entry) {
  block_.reserve(kCrcBlockBytes);
}

absl::Status BlockWriter::Write(std::uint64_t offset, std::span<const std::byte> bytes) {
  CAIRN_CHECK(offset == written_ + block_.size());
  while (!bytes.empty()) {
    const std::size_t count = std::min<std::size_t>(bytes.size(), kCrcBlockBytes - block_.size());
    block_.insert(block_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
    bytes = bytes.subspan(count);
    if (block_.size() == kCrcBlockBytes) CAIRN_RETURN_IF_ERROR(Flush());
  }
  return absl::OkStatus();
}

absl::Status BlockWriter::Finish() {
  CAIRN_RETURN_IF_ERROR(Flush());
  entry_.set_bytes(written_);
  entry_.set_crc32(crc32_);
  entry_.set_has_crc32(true);
  return absl::OkStatus();
}

absl::Status BlockWriter::Flush() {
  if (block_.empty()) return absl::OkStatus();
  entry_.add_crc32c(Crc32c(block_));
  crc32_ = Crc32(block_, crc32_);
  CAIRN_RETURN_IF_ERROR(file_.WriteAt(written_, block_));
  written_ += block_.size();
  block_.clear();
  return absl::OkStatus();
}

std::string NewDataset::folder() const {
  return fmt::format("ckpt.{}", id());
}

catalogue::Catalogue CatalogueOf(const NewDataset& dataset, const RunId& run, Rank rank) {
  catalogue::Catalogue catalogue;
  catalogue.set_run(run.Hex());
  catalogue.set_dataset(dataset.id());
  catalogue.set_step(*dataset.descriptor.step);
  catalogue.set_rank(rank);
  catalogue.set_nranks(*dataset.descriptor.ranks);
  catalogue.set_files(dataset.descriptor.own_files);
  return catalogue;
}

std::string StagedName(const NewDataset& dataset, Rank rank, int file) {
  return fmt::format("{}/{}/{}.{}", dataset.folder(), kStageName, rank, file);
}

std::string ClaimPath(const Prefix& prefix, std::string_view what) {
  return prefix.FilePath(fmt::format(".cairn/{}{}", kClaimName, HexOf(Md5(std::as_bytes(std::span(what))))));
}

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
      CAIRN_RETURN_IF_ERROR(RemoveStage(disk, prefix, id));
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

absl::Status CheckRoom(Disk& disk, const Prefix& prefix, std::uint64_t bytes) {
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t free_bytes, disk.FreeBytes(prefix.path()));
  if (bytes <= free_bytes) return absl::OkStatus();
  return ResourceExhausted("{}: the checkpoint takes {} bytes, {} are free", prefix.path(), bytes, free_bytes);
}

absl::Status AdoptDataset(Disk& disk, Prefix& prefix, const std::string& claim, kvtree::Tree claim_tree,
                          NewDataset* dataset, const std::function<absl::Status()>& copy) {
  claim_tree.Set("VERSION", std::uint64_t{1});
  claim_tree.Set("DATASET", dataset->id());
  CAIRN_RETURN_IF_ERROR(ReplaceTree(disk, claim, claim_tree));
  absl::Status done = copy();
  if (done.ok()) done = CheckFiles(disk, prefix, *dataset);
  if (done.ok()) done = prefix.Commit(dataset->descriptor, dataset->catalogues);
  // What cannot be removed now, the next adopt removes; the first error counts.
  if (!done.ok()) RemoveUnfinished(disk, prefix, dataset->id()).IgnoreError();
  if (!done.ok()) return done;
  RemoveStage(disk, prefix, dataset->id()).IgnoreError();
  prefix.MakeView(dataset->id(), dataset->catalogues);
  return done;
}

absl::StatusOr<std::unique_ptr<Scratch>> Scratch::Make(Disk& disk, const Prefix& prefix) {
  auto scratch = std::make_unique<Scratch>(disk, prefix.FilePath(".cairn/adopt.scratch"));
  CAIRN_RETURN_IF_ERROR(scratch->Clear());
  return scratch;
}

Scratch::~Scratch() {
  RemoveTree(disk_, path_).IgnoreError();  // the next adopt removes what cannot be removed now
}

absl::Status Scratch::Clear() {
  CAIRN_RETURN_IF_ERROR(RemoveTree(disk_, path_));
  return disk_.MakeDirectory(path_, 0700);
}

}  // namespace cairn
