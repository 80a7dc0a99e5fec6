#include "storage/job/flush/flush_work.h"

#include "storage/base/path.h"

#include <algorithm>
#include <set>
#include <utility>

#include "storage/base/status.h"
#include "storage/job/flush/grown_directory.h"
#include "storage/place/prefix/place.h"

namespace cairn {
namespace {

// `done`: names that are in place. What shows a BP5 directory's steps goes last, since names are given in this order.
std::vector<CopyJob> JobsOf(const FlushSource& source, const Prefix& prefix, const std::set<std::string>& done) {
  std::vector<CopyJob> jobs;
  for (const catalogue::Catalogue& catalogue : source.catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      if (done.contains(file.prefix_name())) continue;
      jobs.push_back({.from = source.folder + "/" + file.name(),
                      .to = prefix.FilePath(file.prefix_name()),
                      .entry = &file,
                      .owner = catalogue.files() ? source.descriptor.id : 0});
    }
  }
  std::stable_partition(jobs.begin(), jobs.end(), [](const CopyJob& job) { return BaseOf(job.to) != "md.idx"; });
  return jobs;
}

// Once for each directory.
absl::Status CheckPlaces(const FlushSource& source, const FlushTarget& target) {
  std::set<std::string> directories;
  for (const catalogue::Catalogue& catalogue : source.catalogues) {
    if (!catalogue.files()) continue;
    for (const catalogue::FileEntry& file : catalogue.file()) {
      const std::size_t slash = file.prefix_name().rfind('/');
      const std::string directory = slash == std::string::npos ? "" : file.prefix_name().substr(0, slash);
      if (!directories.insert(directory).second) continue;
      CAIRN_RETURN_IF_ERROR(RealDirectory(target.disk, target.prefix.path(), directory).status());
    }
  }
  return absl::OkStatus();
}

// A file of the cache that is not there is damage of that copy; which one is found out here.
absl::Status WhatIsMissing(const FlushSource& source, const std::vector<CopyJob>& jobs, const absl::Status& why,
                           std::string* missing) {
  for (const CopyJob& job : jobs) {
    if (!absl::IsNotFound(source.disk.Info(job.from).status())) continue;
    *missing = job.entry->name();
    return DataLoss("{}: missing", job.from);
  }
  return why;
}

// The names below the prefix whose files are about to be replaced by others.
absl::StatusOr<std::set<std::string>> ReplacedNames(const FlushTarget& target, const std::vector<CopiedFile>& copied) {
  std::set<std::string> names;
  const std::string root = target.prefix.path() + "/";
  for (const CopiedFile& file : copied) {
    if (file.work.empty()) continue;
    const auto info = target.disk.Info(file.to);
    if (absl::IsNotFound(info.status())) continue;
    if (!info.ok()) return info.status();
    if (info->is_directory()) return FailedPrecondition("{}: in the way: a directory", file.to);
    names.insert(file.to.substr(root.size()));
  }
  return names;
}

absl::Status PutAndCommit(const FlushSource& source, const FlushTarget& target, const std::vector<CopiedFile>& copied,
                          FlushOutcome* outcome) {
  // Whatever entry says COMPLETE names its own bytes at every instant: first those that give way are taken out.
  std::set<std::string> names;
  if (source.descriptor.own_files) {
    CAIRN_ASSIGN_OR_RETURN(names, ReplacedNames(target, copied));
  }
  const auto withdrawn = target.prefix.Withdraw(source.descriptor.id, names);
  outcome->too_late = absl::IsAborted(withdrawn.status());
  if (!withdrawn.ok()) return withdrawn.status();
  for (const auto& [id, catalogues] : *withdrawn) outcome->withdrawn.push_back(id);
  CAIRN_RETURN_IF_ERROR(PutInPlace(target.disk, copied));
  // The catalogues go last: what they describe is there then.
  for (const catalogue::Catalogue& catalogue : source.catalogues) {
    CAIRN_RETURN_IF_ERROR(target.prefix.StoreCatalogue(catalogue));
  }
  const absl::Status committed = target.prefix.Commit(source.descriptor, source.catalogues);
  outcome->too_late = absl::IsAborted(committed);
  if (!committed.ok() && !absl::IsAlreadyExists(committed)) return committed;
  for (const auto& [id, catalogues] : *withdrawn) {
    if (catalogues.empty()) continue;  // SCR's own
    const absl::Status removed = target.prefix.Remove(id, catalogues);
    if (!removed.ok()) outcome->warnings.push_back(fmt::format("dataset {}: {}", id, MessageOf(removed)));
  }
  target.flush_file.Put(source.descriptor, FlushFile::Place::kCacheAndPrefix);
  const absl::Status told = target.flush_file.Write(target.prefix);
  if (!told.ok()) outcome->warnings.push_back(std::string(MessageOf(told)));  // it is committed all the same
  if (target.views) target.prefix.MakeView(source.descriptor.id, source.catalogues);
  return absl::OkStatus();
}

}  // namespace

FlushOutcome CopyDataset(const FlushSource& source, const FlushTarget& target, Throttle& throttle,
                         TransferProgress& progress) {
  FlushOutcome outcome;
  outcome.status = [&]() -> absl::Status {
    target.flush_file.Put(source.descriptor, FlushFile::Place::kFlushing);
    CAIRN_RETURN_IF_ERROR(target.flush_file.Write(target.prefix));
    CAIRN_RETURN_IF_ERROR(CheckPlaces(source, target));
    const absl::Status begun = target.prefix.BeginFlush(source.descriptor);
    outcome.too_late = absl::IsAborted(begun);
    // Committed before: its copy there was found damaged, or a crash came before this was known here.
    if (!begun.ok() && !absl::IsAlreadyExists(begun)) return begun;
    std::set<std::string> done;
    outcome = FinishGrown(source, target, throttle, progress, &done);
    if (absl::IsNotFound(outcome.status)) {
      return WhatIsMissing(source, JobsOf(source, target.prefix, {}), outcome.status, &outcome.damaged_file);
    }
    CAIRN_RETURN_IF_ERROR(outcome.status);
    const std::vector<CopyJob> jobs = JobsOf(source, target.prefix, done);
    std::size_t damaged = jobs.size();
    auto copied = CopyToWork(source.disk, target.disk, jobs, throttle, progress, &damaged);
    if (copied.ok()) {
      for (CopiedFile& file : *copied) outcome.copied.push_back(std::move(file));
      return absl::OkStatus();
    }
    if (absl::IsNotFound(copied.status())) {
      return WhatIsMissing(source, jobs, copied.status(), &outcome.damaged_file);
    }
    if (absl::IsDataLoss(copied.status()) && damaged < jobs.size()) outcome.damaged_file = jobs[damaged].entry->name();
    return copied.status();
  }();
  return outcome;
}

FlushOutcome CommitCopied(const FlushSource& source, const FlushTarget& target, const std::vector<CopiedFile>& copied) {
  FlushOutcome outcome;
  outcome.status = PutAndCommit(source, target, copied, &outcome);
  for (std::string& warning : target.prefix.TakeWarnings()) outcome.warnings.push_back(std::move(warning));
  return outcome;
}

}  // namespace cairn
