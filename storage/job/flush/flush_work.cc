#include "storage/job/flush/flush_work.h"

#include <optional>
#include <set>
#include <utility>

#include "storage/base/status.h"
#include "storage/io/lost_syncs.h"
#include "storage/job/grow/grown_directory.h"
#include "storage/place/prefix/waiting.h"

namespace cairn {
namespace {

// `done`: names that are in place.
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
  return jobs;
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

// Another node's good sync of the same file says nothing of what this node's kernel has given up.
absl::Status LostSync(const std::string& path) {
  return Aborted("{}: another node has brought it, and a sync of it has failed on this one", path);
}

absl::StatusOr<CopiedFile> FileBrought(Disk& disk, const Prefix& prefix, const catalogue::Catalogue& catalogue,
                                       int number, Throttle& throttle, TransferProgress& progress) {
  const catalogue::FileEntry& entry = catalogue.file(number);
  CopiedFile file{.work = "", .to = prefix.FilePath(entry.prefix_name()), .in_place = {}};
  CAIRN_ASSIGN_OR_RETURN(std::optional<std::string> waits, FindWaiting(disk, prefix.path(), catalogue, number));
  if (waits) {
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk.Info(*waits));
    if (info.bytes != entry.bytes()) return Aborted("{}: {} bytes of {}", *waits, info.bytes, entry.bytes());
    if (HasLostSync(info)) return LostSync(*waits);
    file.work = *std::move(waits);
    return file;
  }
  const absl::Status there = VerifyFile(disk, file.to, entry, throttle, progress);
  if (absl::IsNotFound(there) || absl::IsDataLoss(there)) {
    return Aborted("another node has brought it, and it is not there: {}", MessageOf(there));
  }
  CAIRN_RETURN_IF_ERROR(there);
  CAIRN_ASSIGN_OR_RETURN(file.in_place, disk.Info(file.to));
  if (HasLostSync(file.in_place)) return LostSync(file.to);
  return file;
}

void Tell(const FlushSource& source, const FlushTarget& target, std::vector<std::string>* warnings) {
  target.flush_file.Put(source.descriptor, FlushFile::Place::kCacheAndPrefix);
  const absl::Status told = target.flush_file.Write(target.prefix);
  if (!told.ok()) warnings->push_back(std::string(MessageOf(told)));  // it is committed all the same
}

}  // namespace

FlushOutcome CopyDataset(const FlushSource& source, const FlushTarget& target, Throttle& throttle,
                         TransferProgress& progress) {
  FlushOutcome outcome;
  outcome.status = [&]() -> absl::Status {
    target.flush_file.Put(source.descriptor, FlushFile::Place::kFlushing);
    CAIRN_RETURN_IF_ERROR(target.flush_file.Write(target.prefix));
    CAIRN_RETURN_IF_ERROR(CheckDirectories(target.disk, target.prefix.path(), source.catalogues));
    const absl::Status begun = target.prefix.BeginFlush(source.descriptor);
    outcome.too_late = absl::IsAborted(begun);
    // Committed before: its copy there was found damaged, or a crash came before this was known here.
    if (!begun.ok() && !absl::IsAlreadyExists(begun)) return begun;
    std::set<std::string> done;
    GrowOutcome grown = FinishGrown(
        {source.disk, source.folder, source.descriptor.id, source.catalogues, source.grown, target.committer},
        target.disk, target.prefix, throttle, progress, &done);
    outcome.too_late = grown.too_late;
    outcome.fenced = grown.fenced;
    outcome.damaged_file = std::move(grown.damaged_file);
    outcome.copied = std::move(grown.in_place);
    outcome.withdrawn = std::move(grown.withdrawn);
    if (absl::IsNotFound(grown.status)) {
      return WhatIsMissing(source, JobsOf(source, target.prefix, {}), grown.status, &outcome.damaged_file);
    }
    CAIRN_RETURN_IF_ERROR(grown.status);
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

FlushOutcome CopyPart(const FlushSource& source, Disk& disk, Prefix& prefix, Throttle& throttle,
                      TransferProgress& progress) {
  FlushOutcome outcome;
  outcome.status = [&]() -> absl::Status {
    CAIRN_RETURN_IF_ERROR(CheckDirectories(disk, prefix.path(), source.catalogues));
    const std::vector<CopyJob> jobs = JobsOf(source, prefix, {});
    std::size_t damaged = jobs.size();
    const auto copied = CopyToWork(source.disk, disk, jobs, throttle, progress, &damaged);
    if (absl::IsNotFound(copied.status())) {
      return WhatIsMissing(source, jobs, copied.status(), &outcome.damaged_file);
    }
    if (absl::IsDataLoss(copied.status()) && damaged < jobs.size()) outcome.damaged_file = jobs[damaged].entry->name();
    CAIRN_RETURN_IF_ERROR(copied.status());
    if (source.descriptor.own_files) return absl::OkStatus();
    CAIRN_RETURN_IF_ERROR(PutInPlace(disk, *copied));
    for (const catalogue::Catalogue& catalogue : source.catalogues) {
      CAIRN_RETURN_IF_ERROR(prefix.StoreCatalogue(catalogue));
    }
    return absl::OkStatus();
  }();
  return outcome;
}

absl::StatusOr<std::vector<CopiedFile>> FilesBrought(Disk& disk, const Prefix& prefix,
                                                     const std::vector<catalogue::Catalogue>& catalogues,
                                                     Throttle& throttle, TransferProgress& progress) {
  std::vector<CopiedFile> files;
  for (const catalogue::Catalogue& catalogue : catalogues) {
    for (int i = 0; i < catalogue.file_size(); ++i) {
      CAIRN_ASSIGN_OR_RETURN(CopiedFile file, FileBrought(disk, prefix, catalogue, i, throttle, progress));
      files.push_back(std::move(file));
    }
  }
  return files;
}

FlushOutcome CommitCopied(const FlushSource& source, const FlushTarget& target, const std::vector<CopiedFile>& copied,
                          const Withdrawn& gave_way) {
  FlushOutcome outcome;
  Published published;
  outcome.status = Publish(target.disk, target.prefix,
                           {.descriptor = source.descriptor,
                            .catalogues = source.catalogues,
                            .files = copied,
                            .stored = source.descriptor.own_files ? std::set<Rank>() : source.there,
                            .gave_way = &gave_way,
                            .view = target.views,
                            .committer = target.committer},
                           &published);
  outcome.too_late = published.too_late;
  outcome.fenced = published.fenced;
  outcome.there = published.fenced && published.placing;
  outcome.withdrawn = std::move(published.withdrawn);
  outcome.warnings = std::move(published.warnings);
  if (outcome.status.ok()) Tell(source, target, &outcome.warnings);
  for (std::string& warning : target.prefix.TakeWarnings()) outcome.warnings.push_back(std::move(warning));
  return outcome;
}

}  // namespace cairn
