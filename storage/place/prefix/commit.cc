#include "storage/place/prefix/commit.h"

#include "storage/base/clock.h"
#include "storage/base/modes.h"
#include "storage/base/path.h"
#include "storage/place/names.h"

#include <utility>

#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/format/catalogue/verified_by.h"
#include "storage/io/create_once.h"
#include "storage/place/prefix/fence_names.h"
#include "storage/place/prefix/identity.h"
#include "storage/place/prefix/index_rules.h"

namespace cairn {
namespace {

// SCR leaves the access to its files to the umask (SCR specification, section 2).
constexpr char kTakenPayload[] = "cairn/taken-by-scr";

std::string CataloguePath(const std::string& prefix, DatasetId id, Rank rank) {
  return prefix + "/" + CataloguePrefixName(id, rank);
}

// `run`: that all catalogues of the dataset name.
absl::Status CheckRank(const std::string& run, const scr::Descriptor& descriptor, const catalogue::Catalogue& catalogue,
                       std::size_t rank) {
  if (const absl::Status sound = ValidateCatalogue(catalogue); !sound.ok()) {
    return Annotate(sound, fmt::format("dataset {}, catalogue {}", descriptor.id, rank));
  }
  if (catalogue.run() != run || catalogue.dataset() != descriptor.id || catalogue.launch() != descriptor.launch ||
      catalogue.rank() != rank || catalogue.nranks() != descriptor.ranks) {
    return InvalidArgument("catalogue {} is of run {}, dataset {}, launch {}, rank {} of {}; not of run {}, dataset {}",
                           rank, catalogue.run(), catalogue.dataset(), catalogue.launch(), catalogue.rank(),
                           catalogue.nranks(), run, descriptor.id);
  }
  return absl::OkStatus();
}

// Answers the run that it was made under: this one, or one that this directory was before.
absl::StatusOr<RunId> CheckDataset(const RunIdentity& identity, const scr::Descriptor& descriptor,
                                   const std::vector<catalogue::Catalogue>& catalogues) {
  if (descriptor.id == 0 || descriptor.id > identity::kDatasetIdMax || descriptor.name.empty()) {
    return InvalidArgument("dataset {} of name \"{}\"", descriptor.id, descriptor.name);
  }
  if (!descriptor.launch || !descriptor.ranks || *descriptor.ranks == 0 || *descriptor.ranks != catalogues.size()) {
    return InvalidArgument("dataset {}: {} catalogues; a launch and as many ranks are needed", descriptor.id,
                           catalogues.size());
  }
  const auto run = RunId::Parse(catalogues[0].run());
  const RunId made_under = run.ok() && (identity.run == RunId() || identity.Includes(*run)) ? *run : identity.run;
  for (std::size_t rank = 0; rank < catalogues.size(); ++rank) {
    CAIRN_RETURN_IF_ERROR(CheckRank(made_under.Hex(), descriptor, catalogues[rank], rank));
  }
  return made_under;
}

// SCR counts every file of the filemaps, hence the catalogues.
void CountFiles(const std::vector<catalogue::Catalogue>& catalogues, scr::Descriptor* descriptor) {
  descriptor->files = 0;
  descriptor->bytes = 0;
  descriptor->unverified_files = UnverifiedFiles(catalogues).size();
  for (const catalogue::Catalogue& catalogue : catalogues) {
    descriptor->files += static_cast<std::uint64_t>(catalogue.file_size()) + 1;
    descriptor->bytes += CatalogueFileBytes(catalogue);
    for (const catalogue::FileEntry& file : catalogue.file()) descriptor->bytes += file.bytes();
  }
}

// Catalogues that are there in their size are taken as stored: what reads them checks them.
absl::Status StoreMissingCatalogues(Disk& disk, const std::string& prefix,
                                    const std::vector<catalogue::Catalogue>& catalogues) {
  for (const catalogue::Catalogue& catalogue : catalogues) {
    const auto info = disk.Info(CataloguePath(prefix, catalogue.dataset(), catalogue.rank()));
    if (info.ok() && info->is_regular() && info->bytes == CatalogueFileBytes(catalogue)) continue;
    CAIRN_RETURN_IF_ERROR(StoreCatalogue(disk, prefix, catalogue));
  }
  return absl::OkStatus();
}

// By rank, with the catalogues.
std::vector<std::vector<std::string>> FileLists(DatasetId id, const std::vector<catalogue::Catalogue>& catalogues) {
  std::vector<std::vector<std::string>> files(catalogues.size());
  for (std::size_t rank = 0; rank < catalogues.size(); ++rank) {
    for (const catalogue::FileEntry& file : catalogues[rank].file()) files[rank].push_back(file.prefix_name());
    files[rank].push_back(CataloguePrefixName(id, static_cast<Rank>(rank)));
  }
  return files;
}

absl::Status Taken(DatasetId id, const std::string& name) {
  absl::Status status = Aborted("SCR has given the number of dataset {} to a dataset of its own, {}", id, name);
  status.SetPayload(kTakenPayload, absl::Cord(name));
  return status;
}

// It was committed before, and all its files are whole again: if a restart has failed on it, the next one need not.
// What was taken out of the index stays out, and what the application has refused stays so.
absl::Status Repaired(SharedRecords& records, const CommitRecord& commit) {
  return records.ChangeIndex([&](kvtree::Tree& index) -> absl::Status {
    CAIRN_ASSIGN_OR_RETURN(const auto entry, index_rules::EntryOf(commit.descriptor.id, index));
    if (!entry || entry->failed.empty() || !entry->descriptor.launch) return absl::OkStatus();
    if (index_rules::IsRefused(*entry, index)) return absl::OkStatus();
    return SharedRecords::MergeCommit(commit, true, index);
  });
}

absl::Status Removed(const std::string& prefix, DatasetId id) {
  return FailedPrecondition("{}: dataset {} was removed and cannot be committed", prefix, id);
}

absl::Status Fenced(const std::string& prefix, DatasetId id, LaunchId committer) {
  return FencedStatus(
      fmt::format("{}: dataset {} is there, but a launch newer than {} was made before it: no restart chooses it; it "
                  "can be restored by its number",
                  prefix, id, committer));
}

// Its maker may have died before the index.
absl::Status CommittedBefore(const std::string& prefix, SharedRecords& records, const CommitRecord& commit) {
  CAIRN_RETURN_IF_ERROR(records.Mend());
  CAIRN_RETURN_IF_ERROR(Repaired(records, commit));
  return AlreadyExists("{}: dataset {} is committed", prefix, commit.descriptor.id);
}

// `made`: how the creation of the record `name` went. OK: it counts, whoever made it.
absl::Status LookAfterCommit(const std::string& prefix, SharedRecords& records, const CommitRecord& commit,
                             std::string_view name, const absl::Status& made) {
  const DatasetId id = commit.descriptor.id;
  // A removal that came between counts, even if it left both records, or took away what was being made.
  if (const auto removed = records.IsRemoved(id); removed.ok() && *removed) {
    return Removed(prefix, id);
  } else if (made.ok() && !removed.ok()) {
    return removed.status();
  }
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  LaunchId committer = commit.committer;
  if (!made.ok() && name == fence_names::kCommit) {  // a later one has its launch in its name
    CAIRN_ASSIGN_OR_RETURN(const CommitRecord other, records.ReadCommit(id));
    committer = other.committer;
  }
  CAIRN_ASSIGN_OR_RETURN(const bool counts, records.launches().CommitCounts(id, committer));
  return counts ? absl::OkStatus() : Fenced(prefix, id, committer);
}

}  // namespace

absl::Status StoreCatalogue(Disk& disk, const std::string& prefix, const catalogue::Catalogue& catalogue) {
  const std::string path = CataloguePath(prefix, catalogue.dataset(), catalogue.rank());
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, ParentOf(path), kPrefixFolderMode));
  return ReplaceFile(disk, path, EncodeCatalogue(catalogue), kPrefixFileMode);
}

absl::Status CheckNotScrs(DatasetId id, const kvtree::Tree& index) {
  CAIRN_ASSIGN_OR_RETURN(const auto entry, index_rules::EntryOf(id, index));
  return !entry || entry->descriptor.launch ? absl::OkStatus() : Taken(id, entry->descriptor.name);
}

absl::Status CheckNumber(SharedRecords& records, DatasetId id, const kvtree::Tree& index) {
  if (index.FindPath({"DSET", fmt::format("{}", id)}) != nullptr) return CheckNotScrs(id, index);
  if (IsMerged(id, index)) return absl::OkStatus();
  const auto summary = records.ReadScrSummary(id);
  if (absl::IsUnavailable(summary.status())) return summary.status();
  return summary.ok() ? Taken(id, summary->name) : absl::OkStatus();
}

std::optional<std::string> TakenByScr(const absl::Status& status) {
  const auto name = status.GetPayload(kTakenPayload);
  if (!name) return std::nullopt;
  return std::string(*name);
}

absl::Status CheckMayCommit(SharedRecords& records, DatasetId id) {
  CAIRN_ASSIGN_OR_RETURN(const bool removed, records.IsRemoved(id));
  if (removed) return Aborted("dataset {} was removed from the prefix and cannot come back", id);
  const auto commit = records.ReadCommit(id);
  if (!commit.ok() && !absl::IsNotFound(commit.status())) return commit.status();
  const auto index = records.ReadIndex();
  if (absl::IsDataLoss(index.status())) return absl::OkStatus();  // whoever changes it moves it aside
  if (!index.ok()) return index.status();
  return CheckNumber(records, id, *index);
}

absl::StatusOr<MadeCommit> MakeCommit(Disk& disk, const std::string& prefix, SharedRecords& records,
                                      const scr::Descriptor& descriptor,
                                      const std::vector<catalogue::Catalogue>& catalogues, LaunchId committer) {
  using Before = MadeCommit::Before;
  CommitRecord commit{.run = {}, .committer = committer, .committed_us = NowMicros(), .descriptor = descriptor};
  CAIRN_ASSIGN_OR_RETURN(commit.run, CheckDataset(records.identity(), descriptor, catalogues));
  const DatasetId id = descriptor.id;
  CAIRN_ASSIGN_OR_RETURN(const bool removed, records.IsRemoved(id));
  if (removed) return Removed(prefix, id);
  CAIRN_RETURN_IF_ERROR(CheckMayCommit(records, id));
  const auto before = records.ReadCommit(id);
  if (!before.ok() && !absl::IsNotFound(before.status())) return before.status();
  std::string name(fence_names::kCommit);
  if (before.ok()) {
    CAIRN_ASSIGN_OR_RETURN(bool counts, records.launches().CommitCounts(id, before->committer));
    if (!counts) {  // another one beside it may, by the launches just seen
      CAIRN_ASSIGN_OR_RETURN(counts, records.Counts(*before));
    }
    if (counts) return MadeCommit{.commit = *before, .before = Before::kFound};
    if (committer <= before->committer) return Fenced(prefix, id, before->committer);
    name = fence_names::CommitOf(committer);
  }

  commit.descriptor.complete = true;
  CountFiles(catalogues, &commit.descriptor);
  CAIRN_RETURN_IF_ERROR(StoreMissingCatalogues(disk, prefix, catalogues));
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, records.DatasetFolder(id), kPrefixFolderMode));
  CAIRN_RETURN_IF_ERROR(WriteFileLists(disk, records.DatasetFolder(id), commit.descriptor, FileLists(id, catalogues)));
  const absl::Status made = CreateFileOnce(disk, fmt::format("{}/{}", records.DatasetFolder(id), name),
                                           kvtree::Encode(ToTree(commit)), kPrefixFileMode);
  const absl::Status looked = LookAfterCommit(prefix, records, commit, name, made);
  // Another was first, and is fenced. If that was under an older launch, a commit beside it may count.
  if (IsFenced(looked) && absl::IsAlreadyExists(made) && !before.ok()) {
    return MakeCommit(disk, prefix, records, descriptor, catalogues, committer);
  }
  CAIRN_RETURN_IF_ERROR(looked);
  return MadeCommit{.commit = std::move(commit), .before = made.ok() ? Before::kNo : Before::kMeanwhile};
}

absl::Status EnterMade(const std::string& prefix, SharedRecords& records, const MadeCommit& made) {
  if (made.before == MadeCommit::Before::kFound) return CommittedBefore(prefix, records, made.commit);
  const DatasetId id = made.commit.descriptor.id;
  CAIRN_RETURN_IF_ERROR(records.ChangeIndex([&](kvtree::Tree& index) -> absl::Status {
    CAIRN_RETURN_IF_ERROR(CheckNotScrs(id, index));
    return SharedRecords::MergeCommit(made.commit, true, index);
  }));
  if (made.before == MadeCommit::Before::kNo) return absl::OkStatus();
  return AlreadyExists("{}: dataset {} is committed", prefix, id);
}

absl::Status CommitDataset(Disk& disk, const std::string& prefix, SharedRecords& records,
                           const scr::Descriptor& descriptor, const std::vector<catalogue::Catalogue>& catalogues,
                           LaunchId committer) {
  CAIRN_ASSIGN_OR_RETURN(const MadeCommit made, MakeCommit(disk, prefix, records, descriptor, catalogues, committer));
  return EnterMade(prefix, records, made);
}

absl::Status CommitAgain(Disk& disk, SharedRecords& records, const CommitRecord& fenced) {
  CAIRN_ASSIGN_OR_RETURN(const Launches::State state, records.launches().Now());
  CommitRecord commit = fenced;
  commit.committer = state.newest;
  commit.committed_us = NowMicros();
  const std::string path =
      fmt::format("{}/{}", records.DatasetFolder(fenced.descriptor.id), fence_names::CommitOf(commit.committer));
  const absl::Status made = CreateFileOnce(disk, path, kvtree::Encode(ToTree(commit)), kPrefixFileMode);
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  CAIRN_ASSIGN_OR_RETURN(const bool counts, records.launches().CommitCounts(commit.descriptor.id, commit.committer));
  if (counts) return absl::OkStatus();
  return Aborted("dataset {}: a launch was made meanwhile; try again", commit.descriptor.id);
}

absl::Status WriteFileLists(Disk& disk, const std::string& folder, const scr::Descriptor& descriptor,
                            const std::vector<std::vector<std::string>>& files) {
  const std::map<std::string, kvtree::Tree> trees = scr::MakeRank2File(files);
  const std::string stem = folder + "/rank2file";
  for (const auto& [suffix, tree] : trees) {
    if (!suffix.empty()) CAIRN_RETURN_IF_ERROR(ReplaceTree(disk, stem + suffix, tree, kPrefixFileMode));
  }
  CAIRN_RETURN_IF_ERROR(ReplaceTree(disk, stem, trees.at(""), kPrefixFileMode));
  return ReplaceTree(disk, folder + "/summary.scr", scr::MakeSummary(descriptor), kPrefixFileMode);
}

absl::StatusOr<std::vector<catalogue::Catalogue>> ReadCatalogues(Disk& disk, const std::string& prefix,
                                                                 SharedRecords& records, DatasetId id) {
  CAIRN_ASSIGN_OR_RETURN(const CommitRecord commit, records.ReadCommit(id));
  std::vector<catalogue::Catalogue> catalogues;
  for (Rank rank = 0; rank < *commit.descriptor.ranks; ++rank) {
    const std::string path = CataloguePath(prefix, id, rank);
    const auto text = ReadWhole(disk, path, kCatalogueBytesMax);
    if (absl::IsNotFound(text.status())) return DataLoss("{}: missing, though dataset {} is committed", path, id);
    if (absl::IsInvalidArgument(text.status())) return DataLoss("{}", MessageOf(text.status()));  // no regular file
    if (!text.ok()) return text.status();
    CAIRN_ASSIGN_OR_RETURN(catalogue::Catalogue catalogue, DecodeCatalogue(path, *text));
    const absl::Status fits = CheckRank(commit.run.Hex(), commit.descriptor, catalogue, rank);
    if (!fits.ok()) return DataLoss("{}: {}", path, MessageOf(fits));
    catalogues.push_back(std::move(catalogue));
  }
  return catalogues;
}

absl::StatusOr<std::vector<catalogue::Catalogue>> StoredCatalogues(Disk& disk, const std::string& prefix,
                                                                   const RunIdentity& identity, DatasetId id) {
  std::vector<catalogue::Catalogue> catalogues;
  const std::string folder = fmt::format("{}/{}", prefix, DatasetName(id));
  const auto names = disk.List(folder);
  if (absl::IsNotFound(names.status())) return catalogues;
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (!IsCatalogueName(name)) continue;
    const std::string path = folder + "/" + name;
    const auto text = ReadWhole(disk, path, kCatalogueBytesMax);
    if (absl::IsUnavailable(text.status())) return text.status();
    if (!text.ok()) continue;
    auto catalogue = DecodeCatalogue(path, *text);
    if (!catalogue.ok() || catalogue->dataset() != id || !identity.Includes(catalogue->run())) continue;
    catalogues.push_back(*std::move(catalogue));
  }
  return catalogues;
}

}  // namespace cairn
