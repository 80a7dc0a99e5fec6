#include "storage/job/flush/grown_directory.h"

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

absl::Status Place(const FlushTarget& target, const scr::Descriptor& descriptor, const std::string& name,
                   FlushOutcome* outcome) {
  CAIRN_RETURN_IF_ERROR(RealDirectory(target.disk, target.prefix.path(), name).status());
  const absl::Status begun = target.prefix.BeginFlush(descriptor);
  outcome->too_late = absl::IsAborted(begun);
  CAIRN_RETURN_IF_ERROR(begun);
  CAIRN_ASSIGN_OR_RETURN(const auto names, NamesThere(target.disk, target.prefix, name));
  const auto withdrawn = target.prefix.Withdraw(descriptor.id, names);
  outcome->too_late = absl::IsAborted(withdrawn.status());
  if (!withdrawn.ok()) return withdrawn.status();
  for (const auto& [id, catalogues] : *withdrawn) outcome->withdrawn.push_back(id);
  // Nobody finds a step there whose data is being removed.
  CAIRN_RETURN_IF_ERROR(bpdir::ClearPlace(target.disk, target.prefix.FilePath(name)));
  for (const auto& [id, catalogues] : *withdrawn) {
    if (catalogues.empty()) continue;  // SCR's own
    const absl::Status removed = target.prefix.Remove(id, catalogues);
    if (!removed.ok()) outcome->warnings.push_back(fmt::format("dataset {}: {}", id, MessageOf(removed)));
  }
  return absl::OkStatus();
}

// The application has taken the directory away since: so does the prefix, if it is still this dataset's.
absl::Status TakeAway(const FlushSource& source, const FlushTarget& target, const std::string& name,
                      FlushOutcome* outcome) {
  CAIRN_ASSIGN_OR_RETURN(const auto names, NamesThere(target.disk, target.prefix, name));
  const auto withdrawn = target.prefix.Withdraw(source.descriptor.id, names);
  if (absl::IsAborted(withdrawn.status())) return absl::OkStatus();  // a newer dataset has it
  if (!withdrawn.ok()) return withdrawn.status();
  for (const auto& [id, catalogues] : *withdrawn) outcome->withdrawn.push_back(id);
  return bpdir::ClearPlace(target.disk, target.prefix.FilePath(name));
}

Entries FilesIn(const FlushSource& source, const std::string& name) {
  Entries files;
  const std::string below = name + "/";
  for (const catalogue::Catalogue& catalogue : source.catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      if (!file.prefix_name().starts_with(below)) continue;
      const std::string base = file.prefix_name().substr(below.size());
      if (bpdir::IsOfDirectory(base)) files[base] = &file;
    }
  }
  return files;
}

absl::Status FinishOne(const FlushSource& source, const FlushTarget& target, const std::string& name,
                       const Entries& files, const bpdir::Allowance& allowance, FlushOutcome* outcome) {
  std::set<std::string> names;
  for (const auto& [base, entry] : files) names.insert(entry->prefix_name());
  const auto withdrawn = target.prefix.Withdraw(source.descriptor.id, names);
  outcome->too_late = absl::IsAborted(withdrawn.status());
  if (!withdrawn.ok()) return withdrawn.status();
  for (const auto& [id, catalogues] : *withdrawn) outcome->withdrawn.push_back(id);
  std::string damaged;
  const absl::Status finished = bpdir::Finish(
      {source.disk, source.folder + "/" + name, target.disk, target.prefix.FilePath(name)}, files, allowance, &damaged);
  if (!damaged.empty()) outcome->damaged_file = files.at(damaged)->name();
  CAIRN_RETURN_IF_ERROR(finished);
  for (const auto& [base, entry] : files) {
    const std::string path = target.prefix.FilePath(entry->prefix_name());
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, target.disk.Info(path));
    outcome->copied.push_back({.work = "", .to = path, .in_place = info});
  }
  return absl::OkStatus();
}

}  // namespace

FlushOutcome TakePlace(const FlushTarget& target, const scr::Descriptor& descriptor, const std::string& name) {
  FlushOutcome outcome;
  outcome.status = Place(target, descriptor, name, &outcome);
  return outcome;
}

FlushOutcome ClosePlace(Disk& disk, Prefix& prefix, DatasetId id, const std::string& name) {
  FlushOutcome outcome;
  outcome.status = [&]() -> absl::Status {
    CAIRN_ASSIGN_OR_RETURN(const auto names, NamesThere(disk, prefix, name));
    const auto withdrawn = prefix.Withdraw(id, names);
    outcome.too_late = absl::IsAborted(withdrawn.status());
    if (!withdrawn.ok()) return withdrawn.status();
    return bpdir::Close(disk, prefix.FilePath(name));
  }();
  return outcome;
}

FlushOutcome FinishGrown(const FlushSource& source, const FlushTarget& target, Throttle& throttle,
                         TransferProgress& progress, std::set<std::string>* done) {
  FlushOutcome outcome;
  const bpdir::Allowance allowance = [&](std::uint64_t bytes) {
    if (!throttle.Take(bytes, progress.stop)) return false;
    progress.bytes_done += bytes;
    return true;
  };
  for (const std::string& name : source.grown) {
    const Entries files = FilesIn(source, name);
    if (files.contains("md.idx")) {
      outcome.status = FinishOne(source, target, name, files, allowance, &outcome);
    } else {
      outcome.status = TakeAway(source, target, name, &outcome);
    }
    if (!outcome.status.ok()) return outcome;
    if (!files.contains("md.idx")) continue;
    for (const auto& [base, entry] : files) done->insert(entry->prefix_name());
  }
  return outcome;
}

}  // namespace cairn
