#include "storage/place/prefix/identity.h"

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/base/clock.h"
#include "storage/base/host_name.h"
#include "storage/base/launch_mark.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/io/file_system_kind.h"
#include "storage/place/prefix/cairn_folder.h"

namespace cairn::identity {
namespace {

constexpr int kTriesMax = 100;  // records that others made between our look and our try
constexpr std::string_view kStem = "run.";
constexpr std::uint64_t kRecordsMax = 10'000;  // nobody copies so often: what is beyond is no record of ours

// The folder, as it can be told from a copy.
struct Place {
  std::string path;  // of the prefix
  std::optional<std::uint64_t> inode;
  std::optional<timespec> birth;
};

struct Record {
  RunId run;
  std::optional<RunId> parent;
  Place place;
  bool taken_back = false;
};

std::string NameOf(std::uint64_t number) {
  return number == 0 ? "run" : fmt::format("{}{}", kStem, number);
}

absl::StatusOr<Place> Look(Disk& disk, const std::string& prefix) {
  const std::string folder = cairn_folder::Of(prefix);
  Place place{.path = prefix, .inode = {}, .birth = {}};
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t type, disk.FileSystemType(folder));
  if (!InodesCount(type)) return place;
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk.Info(folder));
  place.inode = info.inode;
  place.birth = info.birth;
  return place;
}

kvtree::Tree ToTree(const Record& record) {
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  tree.Set("RUN", record.run.Hex());
  if (record.parent) tree.Set("PARENT", record.parent->Hex());
  tree.Set("PATH", record.place.path);
  if (record.place.inode) tree.Set("INODE", *record.place.inode);
  if (record.place.birth) {
    tree.Set("BIRTH", fmt::format("{}.{:09}", record.place.birth->tv_sec, record.place.birth->tv_nsec));
  }
  if (record.taken_back) tree.SetBool("MOVED", true);
  tree.Set("HOST", HostName());
  tree.SetInt("CREATED", NowMicros());
  return tree;
}

absl::StatusOr<std::optional<timespec>> ParseBirth(const std::string& path, const kvtree::Tree& tree) {
  const auto text = tree.Get("BIRTH");
  if (!text) return std::optional<timespec>();
  const std::size_t dot = text->find('.');
  const auto seconds = NumberAfter(text->substr(0, dot), "");
  kvtree::Tree digits;  // leading zeros are no number of a name
  digits.Set("NS", dot == text->npos ? "" : text->substr(dot + 1));
  const auto nanoseconds = digits.GetUnsigned("NS");
  if (!seconds || !nanoseconds.ok() || *nanoseconds > 999'999'999) {
    return DataLoss("{}: BIRTH \"{}\" is no time", path, *text);
  }
  return std::optional(timespec{.tv_sec = static_cast<time_t>(*seconds), .tv_nsec = static_cast<long>(*nanoseconds)});
}

absl::StatusOr<RunId> ParseRun(const std::string& path, std::string_view field, std::string_view hex) {
  const auto run = RunId::Parse(hex);
  if (!run.ok()) return DataLoss("{}: {}: {}", path, field, MessageOf(run.status()));
  return *run;
}

absl::StatusOr<Record> Parse(const std::string& path, const kvtree::Tree& tree) {
  CAIRN_RETURN_IF_ERROR(cairn_folder::CheckVersion(path, tree));
  Record record;
  CAIRN_ASSIGN_OR_RETURN(record.run, ParseRun(path, "RUN", tree.Get("RUN").value_or("")));
  if (const auto parent = tree.Get("PARENT")) {
    CAIRN_ASSIGN_OR_RETURN(record.parent, ParseRun(path, "PARENT", *parent));
  }
  record.place.path = tree.Get("PATH").value_or("");
  if (tree.Find("INODE") != nullptr) {
    const auto inode = tree.GetUnsigned("INODE");
    if (!inode.ok()) return cairn_folder::NamingFile(path, inode.status());
    record.place.inode = *inode;
  }
  CAIRN_ASSIGN_OR_RETURN(record.place.birth, ParseBirth(path, tree));
  record.taken_back = tree.GetBool("MOVED").value_or(false);
  return record;
}

// Release 0.1.0 wrote the number alone, and a line feed.
absl::StatusOr<Record> ReadRecord(Disk& disk, const std::string& prefix, std::uint64_t number) {
  constexpr std::size_t kHexDigits = 32;
  const std::string path = fmt::format("{}/{}", cairn_folder::Of(prefix), NameOf(number));
  CAIRN_ASSIGN_OR_RETURN(const std::string text, ReadWhole(disk, path, 64 << 10));
  if (number == 0 && text.size() <= kHexDigits + 1) {
    std::string_view hex = text;
    if (hex.ends_with('\n')) hex.remove_suffix(1);
    Record record;
    CAIRN_ASSIGN_OR_RETURN(record.run, ParseRun(path, "identity", hex));
    return record;
  }
  CAIRN_ASSIGN_OR_RETURN(const kvtree::Tree tree, kvtree::Decode(path, text));
  return Parse(path, tree);
}

// All records there are, in their order; kNotFound: none.
absl::StatusOr<std::map<std::uint64_t, Record>> ReadAll(Disk& disk, const std::string& prefix) {
  std::map<std::uint64_t, Record> records;
  CAIRN_ASSIGN_OR_RETURN(records[0], ReadRecord(disk, prefix, 0));
  CAIRN_ASSIGN_OR_RETURN(const auto names, cairn_folder::Names(disk, prefix, /*fresh=*/false));
  for (const std::uint64_t number : cairn_folder::Numbers(names, kStem, kRecordsMax)) {
    auto record = ReadRecord(disk, prefix, number);
    if (absl::IsNotFound(record.status())) continue;  // its maker has not come to the end, and may never
    if (!record.ok()) return record.status();
    records[number] = *std::move(record);
  }
  return records;
}

bool SameTime(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

// Does the record name the directory that it was read from?
bool Names(const Record& record, const Place& here, const KnownPath& known) {
  if (record.place.inode && here.inode) {
    if (*record.place.inode != *here.inode) return false;
    return !record.place.birth || !here.birth || SameTime(*record.place.birth, *here.birth);
  }
  if (record.taken_back && record.place.path == here.path) return true;
  const std::optional<std::string> path = known ? known(record.run) : std::nullopt;
  return !path || *path == here.path;
}

RunIdentity IdentityOf(const std::map<std::uint64_t, Record>& records) {
  const auto& [number, record] = *records.rbegin();
  RunIdentity identity(record.run);
  identity.number = number;
  identity.parent = record.parent;
  for (const auto& [k, other] : records) {
    identity.before.insert(other.run);
    if (other.parent) identity.before.insert(*other.parent);
  }
  identity.before.erase(record.run);
  return identity;
}

// Of a copy that cannot be written to: the same for all who look at it.
RunIdentity Derived(const std::map<std::uint64_t, Record>& records, const Place& here) {
  RunIdentity identity = IdentityOf(records);
  const std::string mark = LaunchMark(
      fmt::format("{} {} {}", identity.run.Hex(), here.inode.value_or(0), here.inode ? std::string() : here.path));
  identity.before.insert(identity.run);
  identity.parent = identity.run;
  identity.run = *RunId::Parse(mark);  // as many digits
  identity.provisional = true;
  return identity;
}

absl::Status MakeRecord(Disk& disk, const std::string& prefix, std::uint64_t number, const Record& record) {
  return cairn_folder::MakeRecord(disk, prefix, NameOf(number), ToTree(record));
}

// Does this run live at that place, and say so itself?
bool LivesAt(Disk& disk, const std::string& path, const RunId& run) {
  if (path.empty()) return false;
  const auto records = ReadAll(disk, path);
  if (!records.ok()) return false;
  const auto there = Look(disk, path);
  const Record& newest = records->rbegin()->second;
  return there.ok() && newest.run == run && Names(newest, *there, {});
}

}  // namespace

absl::StatusOr<RunIdentity> Read(Disk& disk, const std::string& prefix, const KnownPath& known) {
  CAIRN_ASSIGN_OR_RETURN(const auto records, ReadAll(disk, prefix));
  CAIRN_ASSIGN_OR_RETURN(const Place here, Look(disk, prefix));
  return Names(records.rbegin()->second, here, known) ? IdentityOf(records) : Derived(records, here);
}

absl::StatusOr<RunIdentity> Make(Disk& disk, const std::string& prefix, const KnownPath& known) {
  CAIRN_ASSIGN_OR_RETURN(const Place here, Look(disk, prefix));
  bool made_now = false;
  for (int i = 0; i < kTriesMax; ++i) {
    auto records = ReadAll(disk, prefix);
    if (!records.ok() && !absl::IsNotFound(records.status())) return records.status();
    Record next{.run = RunId::Random(), .parent = {}, .place = here};
    std::uint64_t number = 0;
    if (records.ok()) {
      const auto& [newest, record] = *records->rbegin();
      const bool names = Names(record, here, known);
      if (names && (record.place.inode || !here.inode)) {
        RunIdentity identity = IdentityOf(*records);
        identity.made_now = made_now;
        // Its maker may not have come to that, and another identity must not take its place.
        if (!made_now) CAIRN_RETURN_IF_ERROR(disk.SyncDirectory(cairn_folder::Of(prefix)));
        return identity;
      }
      number = newest + 1;
      next.parent = names ? record.parent : record.run;
      if (names) next.run = record.run;  // of a record that names no directory: from now on it does
    }
    const absl::Status made = MakeRecord(disk, prefix, number, next);
    if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
    made_now = made.ok();
  }
  return Aborted("{}: others made {} identities meanwhile", cairn_folder::Of(prefix), kTriesMax);
}

absl::StatusOr<RunIdentity> TakeBack(Disk& disk, const std::string& prefix) {
  CAIRN_ASSIGN_OR_RETURN(const auto records, ReadAll(disk, prefix));
  CAIRN_ASSIGN_OR_RETURN(const Place here, Look(disk, prefix));
  const auto& [number, record] = *records.rbegin();
  Record back{.run = record.run, .parent = {}, .place = here, .taken_back = true};
  std::string was_at = record.place.path;
  if (Names(record, here, {}) && (record.parent || record.place.inode || record.taken_back)) {
    if (!record.parent) {
      return FailedPrecondition("{}: is run {} as it was made here; there is nothing to take back", prefix,
                                record.run.Hex());
    }
    back.run = *record.parent;
    was_at.clear();
    for (const auto& [k, other] : records) {
      if (other.run == back.run) was_at = other.place.path;
    }
  }
  if (was_at != prefix && LivesAt(disk, was_at, back.run)) {
    return FailedPrecondition("{}: run {} still lives in {}; what was copied from it stays a branch", prefix,
                              back.run.Hex(), was_at);
  }
  const absl::Status made = MakeRecord(disk, prefix, number + 1, back);
  if (absl::IsAlreadyExists(made)) return Aborted("{}: somebody else has opened it meanwhile; try again", prefix);
  CAIRN_RETURN_IF_ERROR(made);
  return Read(disk, prefix);
}

absl::StatusOr<Opened> Opened::Open(Disk& disk, const std::string& prefix, RunIdentity identity) {
  Opened opened;
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk.Info(cairn_folder::Of(prefix)));
  opened.prefix_ = prefix;
  opened.identity_ = std::move(identity);
  opened.inode_ = info.inode;
  opened.device_ = info.device;
  return opened;
}

absl::StatusOr<RunId> Opened::Now(Disk& disk) const {
  const std::string folder = cairn_folder::Of(prefix_);
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk.Info(folder));
  const auto next = disk.Info(fmt::format("{}/{}", folder, NameOf(identity_.number + 1)));
  if (!next.ok() && !absl::IsNotFound(next.status())) return next.status();
  if (info.inode == inode_ && info.device == device_ && !next.ok() && !identity_.provisional) {
    CAIRN_ASSIGN_OR_RETURN(const Record record, ReadRecord(disk, prefix_, identity_.number));
    if (record.run == identity_.run) return record.run;
  }
  CAIRN_ASSIGN_OR_RETURN(const RunIdentity now, Read(disk, prefix_));
  return now.run;
}

}  // namespace cairn::identity
