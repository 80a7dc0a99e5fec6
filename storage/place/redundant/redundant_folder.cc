#include "storage/place/redundant/redundant_folder.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/names.h"
#include "storage/place/own_folder.h"
#include "storage/place/redundant/folder_mark.h"
#include "storage/place/redundant/whole_record.h"

namespace cairn {
namespace {

constexpr std::uint32_t kRedundantFolderMode = 0700;
constexpr std::string_view kAsideStem = "damaged.", kLeavingStem = "going.";

// damaged.<id>.<n>, going.<id>.<n>.
bool IsAway(std::string_view name) {
  return name.starts_with(kAsideStem) || name.starts_with(kLeavingStem);
}

// Which file of the cache is missing.
absl::Status WhatIsMissing(Disk& disk, const std::vector<CopyJob>& jobs, const absl::Status& why,
                           std::string* missing) {
  for (const CopyJob& job : jobs) {
    if (!absl::IsNotFound(disk.Info(job.from).status())) continue;
    *missing = job.entry->name();
    return DataLoss("{}: missing", job.from);
  }
  return Unavailable("{}", MessageOf(why));  // the folder has gone from under it
}

}  // namespace

RedundantFolder::RedundantFolder(Disk& disk, const std::string& root, std::string_view user, const RunIdentity& run,
                                 Checks checks)
    : disk_(disk),
      root_(root),
      user_folder_(fmt::format("{}/{}", root, user)),
      path_(fmt::format("{}/run.{}", user_folder_, run.run.Hex())),
      run_(run),
      checks_(std::move(checks)) {}

std::string RedundantFolder::DatasetPath(DatasetId id) const {
  return path_ + "/" + RecordsFolderName(id);
}

// --- The folders on the way ---

absl::Status RedundantFolder::CheckRoot() const {
  CAIRN_RETURN_IF_ERROR(CheckMounted());
  return checks_.marked ? CheckMark() : absl::OkStatus();
}

absl::Status RedundantFolder::CheckMounted() const {
  const auto real = disk_.RealPath(root_);
  if (absl::IsNotFound(real.status())) return Unavailable("{}: is not there; is it mounted?", root_);
  CAIRN_RETURN_IF_ERROR(real.status());
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk_.Info(*real));
  if (!info.is_directory()) return FailedPrecondition("{}: is no directory", root_);
  for (const auto& [disk, path] : checks_.apart_from) {
    const auto place = disk->RealPath(path);
    if (absl::IsNotFound(place.status())) continue;
    CAIRN_RETURN_IF_ERROR(place.status());
    CAIRN_ASSIGN_OR_RETURN(const auto other, disk->Info(*place));
    if (other.device != info.device) continue;
    return Unavailable("{}: is on the device of {}, and protects from nothing; is it mounted? (redundant.apart)", root_,
                       path);
  }
  return absl::OkStatus();
}

//   kNotFound  there is none
absl::StatusOr<std::string> RedundantFolder::MarkThere() const {
  CAIRN_RETURN_IF_ERROR(CheckOwnFolder(disk_, user_folder_));
  return ReadFolderMark(disk_, user_folder_);
}

absl::Status RedundantFolder::CheckMark() const {
  const Expected expected = this->expected();
  if (expected.mark.empty()) return absl::OkStatus();
  const auto there = MarkThere();
  if (there.ok() && *there == expected.mark) return absl::OkStatus();
  if (!there.ok() && !absl::IsNotFound(there.status())) return there.status();
  differed_ = true;
  return Unavailable("{}: {} that this run has used; is it mounted? (redundant.marked; {})", user_folder_,
                     there.ok() ? "is another folder than the one" : "lacks the mark of the folder",
                     expected.noted_in.empty() ? "as it was found before" : "noted in " + expected.noted_in);
}

RedundantFolder::Expected RedundantFolder::expected() const {
  const absl::MutexLock lock(&mutex_);
  return expected_;
}

bool RedundantFolder::Expect(const std::string& mark, const std::string& noted_in) {
  const absl::MutexLock lock(&mutex_);
  const bool another = !expected_.mark.empty() && expected_.mark != mark;
  expected_ = {.mark = mark, .noted_in = noted_in};
  return another;
}

absl::StatusOr<std::string> RedundantFolder::Mark() {
  CAIRN_RETURN_IF_ERROR(CheckMounted());
  // One that was found by a look has gone. One whose note was taken away is to be replaced.
  if (expected().noted_in.empty()) CAIRN_RETURN_IF_ERROR(CheckMark());
  CAIRN_RETURN_IF_ERROR(MakeOwnFolder(user_folder_));
  CAIRN_ASSIGN_OR_RETURN(std::string mark, EnsureFolderMark(disk_, user_folder_));
  CAIRN_RETURN_IF_ERROR(disk_.SyncDirectory(root_));
  return mark;
}

absl::Status RedundantFolder::MakeOwnFolder(const std::string& folder) const {
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk_, folder, kRedundantFolderMode));
  return CheckOwnFolder(disk_, folder);
}

absl::Status RedundantFolder::MakeFolders() const {
  CAIRN_RETURN_IF_ERROR(CheckRoot());
  CAIRN_RETURN_IF_ERROR(MakeOwnFolder(user_folder_));
  return MakeOwnFolder(path_);
}

absl::StatusOr<std::vector<std::string>> RedundantFolder::Names() const {
  CAIRN_RETURN_IF_ERROR(CheckRoot());
  for (const std::string& folder : {user_folder_, path_}) {
    const absl::Status own = CheckOwnFolder(disk_, folder);
    if (absl::IsNotFound(own)) return std::vector<std::string>();
    CAIRN_RETURN_IF_ERROR(own);
  }
  return disk_.List(path_);
}

// Directories below the dataset's folder, in which the application has its files.
absl::Status RedundantFolder::CheckNoLinks(DatasetId id, const std::vector<catalogue::Catalogue>& ranks) const {
  std::set<std::string> seen;
  for (const catalogue::Catalogue& rank : ranks) {
    for (const catalogue::FileEntry& file : rank.file()) {
      for (std::size_t end = file.name().find('/'); end != std::string::npos; end = file.name().find('/', end + 1)) {
        if (!seen.insert(file.name().substr(0, end)).second) continue;
        const std::string directory = DatasetPath(id) + "/" + file.name().substr(0, end);
        const auto info = disk_.Info(directory);
        if (absl::IsNotFound(info.status())) break;
        CAIRN_RETURN_IF_ERROR(info.status());
        if (!info->is_directory()) return FailedPrecondition("{}: is no directory", directory);
      }
    }
  }
  return absl::OkStatus();
}

// --- What is there ---

//   kNotFound  it is not whole
absl::StatusOr<RedundantFolder::Found> RedundantFolder::LookAt(DatasetId id) const {
  const std::string folder = DatasetPath(id);
  for (const std::string& part : {folder, folder + "/.scr"}) {
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk_.Info(part));
    if (!info.is_directory()) return DataLoss("{}: is no directory", part);
  }
  Found found;
  CAIRN_ASSIGN_OR_RETURN(found.record, ReadWholeRecord(disk_, folder, run_.run, id));
  CAIRN_ASSIGN_OR_RETURN(found.ranks,
                         ReadCatalogues(disk_, folder, run_, DescriptorOf(found.record), checks_.catalogues_bytes_max));
  for (const catalogue::Catalogue& rank : found.ranks) {
    if (rank.step() != found.record.step()) return DataLoss("{}: rank {} is of another step", folder, rank.rank());
  }
  const absl::Status links = CheckNoLinks(id, found.ranks);
  if (absl::IsFailedPrecondition(links)) return DataLoss("{}", MessageOf(links));
  CAIRN_RETURN_IF_ERROR(links);
  return found;
}

absl::StatusOr<RedundantFolder::Contents> RedundantFolder::Look() {
  Contents contents;
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names());
  if (checks_.marked) {
    const auto there = MarkThere();
    if (!there.ok() && !absl::IsNotFound(there.status())) return there.status();
    const absl::MutexLock lock(&mutex_);
    if (there.ok() && expected_.mark.empty()) expected_.mark = *there;
  }
  for (const std::string& name : names) {
    const auto id = DatasetOfRecords(name);
    if (!id) continue;
    auto found = LookAt(*id);
    if (found.ok()) {
      contents.whole.emplace(*id, *std::move(found));
    } else if (absl::IsDataLoss(found.status())) {
      contents.damaged.emplace(*id, found.status());
    } else if (!absl::IsNotFound(found.status())) {
      contents.unknown.emplace(*id, found.status());
    }
  }
  return contents;
}

// --- Into it ---

absl::Status RedundantFolder::CopyParts(DatasetId id, const Source& source, Throttle& throttle,
                                        TransferProgress& progress, std::string* damaged) {
  std::vector<CopyJob> jobs;
  for (const catalogue::Catalogue& rank : source.ranks) {
    for (const catalogue::FileEntry& file : rank.file()) {
      jobs.push_back(
          {.from = source.folder + "/" + file.name(), .to = DatasetPath(id) + "/" + file.name(), .entry = &file});
    }
  }
  std::size_t bad = jobs.size();
  const absl::Status copied = CopyFiles(source.disk, disk_, jobs, throttle, progress, &bad);
  if (absl::IsNotFound(copied)) return WhatIsMissing(source.disk, jobs, copied, damaged);
  if (absl::IsDataLoss(copied) && bad < jobs.size()) *damaged = jobs[bad].entry->name();
  return copied;
}

// What differs goes, so that the next try writes it anew.
absl::Status RedundantFolder::ReadBack(const std::string& path, const catalogue::FileEntry& entry,
                                       TransferProgress& progress) {
  const absl::Status read = VerifyFile(disk_, path, entry, &progress);
  if (!absl::IsDataLoss(read) && !absl::IsNotFound(read)) return read;
  disk_.Remove(path).IgnoreError();  // it is not counted on
  return Unavailable("what was written is read back differently: {}", MessageOf(read));
}

absl::Status RedundantFolder::Bring(DatasetId id, const Source& source, Throttle& throttle, TransferProgress& progress,
                                    std::string* damaged) {
  CAIRN_RETURN_IF_ERROR(MakeFolders());
  CAIRN_RETURN_IF_ERROR(MakeOwnFolder(DatasetPath(id)));
  CAIRN_RETURN_IF_ERROR(CheckNoLinks(id, source.ranks));
  CAIRN_RETURN_IF_ERROR(CopyParts(id, source, throttle, progress, damaged));
  for (const catalogue::Catalogue& rank : source.ranks) {
    const std::string path = DatasetPath(id) + "/" + CatalogueName(rank.rank());
    const std::string text = EncodeCatalogue(rank);
    // The catalogue comes last: where it is, all that it names has been read back.
    for (const catalogue::FileEntry& file : rank.file()) {
      CAIRN_RETURN_IF_ERROR(ReadBack(DatasetPath(id) + "/" + file.name(), file, progress));
    }
    CAIRN_RETURN_IF_ERROR(ReplaceFile(disk_, path, text));
    const auto there = ReadWhole(disk_, path, kCatalogueBytesMax);
    if (!there.ok() && !absl::IsNotFound(there.status())) return there.status();
    if (!there.ok() || *there != text) return Unavailable("{}: is read back differently", path);
  }
  return absl::OkStatus();
}

absl::Status RedundantFolder::Complete(const kept::Whole& record) {
  const DatasetId id = record.dataset();
  CAIRN_RETURN_IF_ERROR(CheckRoot());
  CAIRN_RETURN_IF_ERROR(CheckOwnFolder(disk_, DatasetPath(id)));
  const auto ranks = ReadCatalogues(disk_, DatasetPath(id), run_, DescriptorOf(record), checks_.catalogues_bytes_max);
  if (absl::IsDataLoss(ranks.status())) {
    return Unavailable("not all parts are there: is {} the same folder on all nodes? {}", root_,
                       MessageOf(ranks.status()));
  }
  CAIRN_RETURN_IF_ERROR(ranks.status());
  // Whoever has made these may not have synced them yet.
  for (const std::string& folder : {root_, user_folder_, path_}) CAIRN_RETURN_IF_ERROR(disk_.SyncDirectory(folder));
  return MakeWholeRecord(disk_, DatasetPath(id), run_.run, record);
}

// --- Out of it ---

absl::Status RedundantFolder::MoveAway(DatasetId id, bool goes) {
  constexpr int kTriesMax = 1000;
  CAIRN_RETURN_IF_ERROR(CheckRoot());
  std::vector<std::string> going;
  for (int n = 1; n <= kTriesMax; ++n) {
    const std::string away = fmt::format("{}/{}{}.{}", path_, goes ? kLeavingStem : kAsideStem, id, n);
    const auto taken = disk_.Info(away);
    if (!taken.ok() && !absl::IsNotFound(taken.status())) return taken.status();
    going.push_back(away);
    if (taken.ok()) continue;
    const absl::Status moved = disk_.Rename(DatasetPath(id), away);
    if (!moved.ok() && !absl::IsNotFound(moved)) return moved;
    // Also if it is not there: a try before this one may have failed here.
    const absl::Status synced = disk_.SyncDirectory(path_);
    if (absl::IsNotFound(synced)) return absl::OkStatus();  // the run has no folder
    CAIRN_RETURN_IF_ERROR(synced);
    for (const std::string& tree : goes ? going : std::vector<std::string>()) {
      CAIRN_RETURN_IF_ERROR(RemoveTree(disk_, tree));
    }
    return absl::OkStatus();
  }
  return ResourceExhausted("{}: {} folders of dataset {} lie aside", path_, kTriesMax, id);
}

absl::Status RedundantFolder::Tidy(DatasetId end, const std::set<DatasetId>& stay) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names());
  if (std::ranges::any_of(names, IsAway)) CAIRN_RETURN_IF_ERROR(disk_.SyncDirectory(path_));  // as MoveAway
  for (const std::string& name : names) {
    if (IsAway(name)) CAIRN_RETURN_IF_ERROR(RemoveTree(disk_, path_ + "/" + name));
    const auto id = DatasetOfRecords(name);
    if (!id || *id >= end || stay.contains(*id)) continue;
    const auto record = ReadWholeRecord(disk_, DatasetPath(*id), run_.run, *id);
    if (absl::IsNotFound(record.status())) {
      CAIRN_RETURN_IF_ERROR(Remove(*id));
    } else if (!record.ok() && !absl::IsDataLoss(record.status())) {
      return record.status();
    }
  }
  return absl::OkStatus();
}

}  // namespace cairn
