#include "storage/job/adopt/adoption.h"

#include <algorithm>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/checksum.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/place/names.h"
#include "storage/place/publish/unfinished.h"

namespace cairn {
namespace {

constexpr std::string_view kClaimName = "adopted.";
constexpr std::string_view kPurpose = "adopt";

// Nobody has moved or shortened them meanwhile.
absl::Status CheckFiles(Disk& disk, const Prefix& prefix, const NewDataset& dataset) {
  std::size_t number = 0;
  for (const catalogue::Catalogue& catalogue : dataset.catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      std::string path = prefix.FilePath(file.prefix_name());
      if (number < dataset.files.size() && !dataset.files[number].work.empty()) path = dataset.files[number].work;
      ++number;
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

// Takes away what was made of a dataset that was not committed, or when another launch had been made already: that one
// was told as an error.
absl::Status TakeAway(Disk& disk, Prefix& prefix, const PrefixContents& contents, DatasetId id) {
  if (id == 0 || (WasCommitted(contents, id) && !contents.fenced.contains(id))) return absl::OkStatus();
  const absl::Status removed = RemoveUnfinished(disk, prefix, id, {.alone = true});
  return absl::IsFailedPrecondition(removed) ? absl::OkStatus() : removed;  // the number is SCR's by now
}

// After an error. It may have come when all was committed.
absl::Status TakeAwayFailed(Disk& disk, Prefix& prefix, DatasetId id) {
  CAIRN_ASSIGN_OR_RETURN(const PrefixContents contents, prefix.Contents());
  return TakeAway(disk, prefix, contents, id);
}

// Where files waited. Not there: OK.
absl::Status RemoveStage(Disk& disk, const Prefix& prefix, DatasetId id) {
  return RemoveTree(disk, prefix.FilePath(AdoptedFolder(id)));
}

absl::Status PublishAdopted(Disk& disk, Prefix& prefix, const NewDataset& dataset,
                            const std::function<void(const std::string&)>& note) {
  CAIRN_RETURN_IF_ERROR(CheckFiles(disk, prefix, dataset));
  Publication what{.descriptor = dataset.descriptor,
                   .catalogues = dataset.catalogues,
                   .files = dataset.files,
                   .committer = dataset.launch == nullptr ? 0 : dataset.launch->id()};
  if (dataset.descriptor.own_files) {
    for (const catalogue::Catalogue& catalogue : dataset.catalogues) {
      CAIRN_RETURN_IF_ERROR(prefix.StoreCatalogue(catalogue));
      what.stored.insert(catalogue.rank());
    }
  }
  Published published;
  const absl::Status done = Publish(disk, prefix, what, &published);
  if (published.fenced) {
    return FailedPrecondition("{}: another launch was made while this was adopted, and would not find it: end it first",
                              prefix.path());
  }
  CAIRN_RETURN_IF_ERROR(done);
  for (const std::string& warning : published.warnings) note(warning);
  return absl::OkStatus();
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

absl::StatusOr<std::unique_ptr<OwnLaunch>> MakeAdoptLaunch(Prefix& prefix, std::uint32_t ranks, LaunchWait wait,
                                                           const std::function<void(const std::string&)>& note) {
  OwnLaunchRequest request{.purpose = std::string(kPurpose), .nranks = ranks, .wait = std::move(wait), .note = note};
  request.wait.own_key_stem = fmt::format("{}:", kPurpose);
  return OwnLaunch::Make(prefix, request);
}

BlockWriter::BlockWriter(File& file, catalogue::FileEntry& entry, OwnLaunch* launch)
    : file_(file), entry_(entry), launch_(launch) {
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
  if (launch_ != nullptr) launch_->StillHere();
  entry_.add_crc32c(Crc32c(block_));
  crc32_ = Crc32(block_, crc32_);
  CAIRN_RETURN_IF_ERROR(file_.WriteAt(written_, block_));
  written_ += block_.size();
  block_.clear();
  return absl::OkStatus();
}

std::string NewDataset::folder() const {
  return DatasetName(id());
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

absl::Status MakeStage(Disk& disk, const Prefix& prefix, const NewDataset& dataset) {
  return MakeDirectories(disk, prefix.FilePath(AdoptedFolder(dataset.id())), kAdoptedFolderMode);
}

absl::Status SyncStage(Disk& disk, const Prefix& prefix, const NewDataset& dataset) {
  return disk.SyncDirectory(prefix.FilePath(AdoptedFolder(dataset.id())));
}

std::string StagedPath(const Prefix& prefix, const NewDataset& dataset, Rank rank, int file) {
  return prefix.FilePath(AdoptedName(dataset.id(), rank, file));
}

std::string ClaimPath(const Prefix& prefix, std::string_view what) {
  return prefix.FilePath(fmt::format(".cairn/{}{}", kClaimName, HexOf(Md5(std::as_bytes(std::span(what))))));
}

absl::StatusOr<Claims> CleanUp(Disk& disk, Prefix& prefix) {
  CAIRN_ASSIGN_OR_RETURN(const PrefixContents contents, prefix.Contents());
  CAIRN_ASSIGN_OR_RETURN(const auto names, disk.List(prefix.FilePath(".cairn")));
  Claims claims;
  std::vector<std::string> done;
  for (const std::string& name : names) {
    if (!name.starts_with(kClaimName)) continue;
    const std::string claim = prefix.FilePath(".cairn/" + name);
    CAIRN_ASSIGN_OR_RETURN(const DatasetId id, ClaimedBy(disk, claim));
    const auto committed = contents.datasets.find(id);
    if (!IsWorkName(name) && committed != contents.datasets.end() && committed->second.by_cairn) {
      claims[claim] = id;
      CAIRN_RETURN_IF_ERROR(RemoveStage(disk, prefix, id));
      continue;
    }
    CAIRN_RETURN_IF_ERROR(TakeAway(disk, prefix, contents, id));
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
                          NewDataset* dataset, const std::function<absl::Status()>& copy,
                          const std::function<void(const std::string&)>& note) {
  claim_tree.Set("VERSION", std::uint64_t{1});
  claim_tree.Set("DATASET", dataset->id());
  CAIRN_RETURN_IF_ERROR(ReplaceTree(disk, claim, claim_tree));
  absl::Status done = copy();
  if (done.ok()) done = PublishAdopted(disk, prefix, *dataset, note);
  // What cannot be removed now, the next adopt removes; the first error counts.
  if (!done.ok()) TakeAwayFailed(disk, prefix, dataset->id()).IgnoreError();
  if (!done.ok()) return done;
  // Not before the commit: after a crash it says which files were in their places before.
  RemoveStage(disk, prefix, dataset->id()).IgnoreError();
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
