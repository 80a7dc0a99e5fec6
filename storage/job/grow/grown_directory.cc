#include "storage/job/grow/grown_directory.h"

#include <map>
#include <utility>

#include "storage/base/status.h"
#include "storage/file/bpdir/follow.h"
#include "storage/place/prefix/place.h"

namespace cairn {
namespace {

using Entries = std::map<std::string, const catalogue::FileEntry*>;

// Of a BP5 directory, below the prefix.
absl::StatusOr<std::set<std::string>> NamesThere(Disk& disk, const Prefix& prefix, const std::string& name) {
  std::set<std::string> names;
  const auto there = disk.List(prefix.FilePath(name));
  if (absl::IsNotFound(there.status())) return names;
  if (!there.ok()) return there.status();
  for (const std::string& file : *there) {
    if (bpdir::IsOfDirectory(file)) names.insert(name + "/" + file);
  }
  return names;
}

// Those that have one of the names give way to dataset `by`.
absl::Status Withdraw(Prefix& prefix, DatasetId by, const std::set<std::string>& names, LaunchId committer,
                      GrowOutcome* outcome) {
  auto withdrawn = prefix.Withdraw(by, names, committer);
  outcome->too_late = absl::IsAborted(withdrawn.status());
  outcome->fenced = IsFenced(withdrawn.status());
  if (!withdrawn.ok()) return withdrawn.status();
  outcome->withdrawn.merge(*withdrawn);
  return absl::OkStatus();
}

absl::Status Place(Disk& disk, Prefix& prefix, const scr::Descriptor& descriptor, const std::string& name,
                   LaunchId committer, GrowOutcome* outcome) {
  CAIRN_RETURN_IF_ERROR(RealDirectory(disk, prefix.path(), name).status());
  const absl::Status begun = prefix.BeginFlush(descriptor);
  outcome->too_late = absl::IsAborted(begun);
  CAIRN_RETURN_IF_ERROR(begun);
  CAIRN_ASSIGN_OR_RETURN(const auto names, NamesThere(disk, prefix, name));
  CAIRN_RETURN_IF_ERROR(Withdraw(prefix, descriptor.id, names, committer, outcome));
  // Nobody finds a step there whose data is being removed.
  CAIRN_RETURN_IF_ERROR(bpdir::ClearPlace(disk, prefix.FilePath(name)));
  RemoveWithdrawn(prefix, outcome->withdrawn, &outcome->warnings);
  return absl::OkStatus();
}

// The application has taken the directory away since: so does the prefix, if it is still this dataset's.
absl::Status TakeAway(const GrownDataset& dataset, Disk& disk, Prefix& prefix, const std::string& name,
                      GrowOutcome* outcome) {
  CAIRN_ASSIGN_OR_RETURN(const auto names, NamesThere(disk, prefix, name));
  const absl::Status withdrawn = Withdraw(prefix, dataset.id, names, dataset.committer, outcome);
  if (std::exchange(outcome->too_late, false)) return absl::OkStatus();  // a newer dataset has it
  CAIRN_RETURN_IF_ERROR(withdrawn);
  return bpdir::ClearPlace(disk, prefix.FilePath(name));
}

Entries FilesIn(const GrownDataset& dataset, const std::string& name) {
  Entries files;
  const std::string below = name + "/";
  for (const catalogue::Catalogue& catalogue : dataset.catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      if (!file.prefix_name().starts_with(below)) continue;
      const std::string base = file.prefix_name().substr(below.size());
      if (bpdir::IsOfDirectory(base)) files[base] = &file;
    }
  }
  return files;
}

absl::Status FinishOne(const GrownDataset& dataset, Disk& disk, Prefix& prefix, const std::string& name,
                       const Entries& files, const bpdir::Allowance& allowance, GrowOutcome* outcome) {
  std::set<std::string> names;
  for (const auto& [base, entry] : files) names.insert(entry->prefix_name());
  CAIRN_RETURN_IF_ERROR(Withdraw(prefix, dataset.id, names, dataset.committer, outcome));
  std::string damaged;
  const absl::Status finished = bpdir::Finish({dataset.disk, dataset.folder + "/" + name, disk, prefix.FilePath(name)},
                                              files, allowance, &damaged);
  if (!damaged.empty()) outcome->damaged_file = files.at(damaged)->name();
  CAIRN_RETURN_IF_ERROR(finished);
  for (const auto& [base, entry] : files) {
    const std::string path = prefix.FilePath(entry->prefix_name());
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk.Info(path));
    outcome->in_place.push_back({.work = "", .to = path, .in_place = info});
  }
  return absl::OkStatus();
}

}  // namespace

GrowOutcome TakePlace(Disk& disk, Prefix& prefix, const scr::Descriptor& descriptor, const std::string& name,
                      LaunchId committer) {
  GrowOutcome outcome;
  outcome.status = Place(disk, prefix, descriptor, name, committer, &outcome);
  return outcome;
}

GrowOutcome ClosePlace(Disk& disk, Prefix& prefix, DatasetId id, const std::string& name, LaunchId committer) {
  GrowOutcome outcome;
  outcome.status = [&]() -> absl::Status {
    CAIRN_ASSIGN_OR_RETURN(const auto names, NamesThere(disk, prefix, name));
    CAIRN_RETURN_IF_ERROR(Withdraw(prefix, id, names, committer, &outcome));
    return bpdir::Close(disk, prefix.FilePath(name));
  }();
  return outcome;
}

GrowOutcome FinishGrown(const GrownDataset& dataset, Disk& disk, Prefix& prefix, Throttle& throttle,
                        TransferProgress& progress, std::set<std::string>* done) {
  GrowOutcome outcome;
  const bpdir::Allowance allowance = [&](std::uint64_t bytes) {
    if (!TakeBandwidth(throttle, bytes, progress)) return false;
    progress.bytes_done += bytes;
    return true;
  };
  for (const std::string& name : dataset.directories) {
    const Entries files = FilesIn(dataset, name);
    if (files.contains("md.idx")) {
      outcome.status = FinishOne(dataset, disk, prefix, name, files, allowance, &outcome);
    } else {
      outcome.status = TakeAway(dataset, disk, prefix, name, &outcome);
    }
    if (!outcome.status.ok()) return outcome;
    if (!files.contains("md.idx")) continue;
    for (const auto& [base, entry] : files) done->insert(entry->prefix_name());
  }
  return outcome;
}

}  // namespace cairn
