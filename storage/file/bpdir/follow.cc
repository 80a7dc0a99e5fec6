#include "storage/file/bpdir/follow.h"

#include "storage/base/modes.h"
#include "storage/base/path.h"

#include <algorithm>
#include <span>
#include <utility>

#include "storage/base/status.h"
#include "storage/io/create_once.h"
#include "storage/io/lost_syncs.h"

namespace cairn::bpdir {
namespace {

// So much goes before readers see the next steps; a step that is larger goes alone.
constexpr std::uint64_t kStepsBytesMax = 64 << 20;

}  // namespace

absl::StatusOr<std::map<std::string, std::uint64_t>> NeedOf(const bp5::Metadata& metadata, std::uint32_t steps) {
  std::map<std::string, std::uint64_t> need = {{"md.idx", kIndexHeaderBytes}, {"md.0", 0}, {"mmd.0", 0}};
  if (steps == 0) return need;
  CAIRN_ASSIGN_OR_RETURN(const auto data, metadata.SubfileBytes(steps - 1));
  for (const auto& [subfile, bytes] : data) need[DataName(subfile)] = bytes;
  for (std::uint32_t step = 0; step < steps; ++step) {
    need["md.0"] = std::max(need["md.0"], metadata.metadata_end(step));
  }
  need["mmd.0"] = metadata.formats_end(steps - 1);
  need["md.idx"] = metadata.index_end(steps - 1);
  return need;
}

absl::Status Follower::Step() {
  followed_.more = false;
  CAIRN_ASSIGN_OR_RETURN(const bool any, LookAtSource());
  if (!any) return absl::OkStatus();
  if (!placed_) {
    CAIRN_RETURN_IF_ERROR(MakeDirectories(ends_.target, ends_.to, kPrefixFolderMode));
    CAIRN_RETURN_IF_ERROR(ends_.target.SyncDirectory(ParentOf(ends_.to)));  // if it was made and then something failed
    CAIRN_RETURN_IF_ERROR(ClearPlace(ends_.target, ends_.to));
    placed_ = true;
  }
  if (cut_) {
    CAIRN_RETURN_IF_ERROR(CutToCommon());
    cut_ = false;
  }
  const std::uint32_t seen = source().steps();
  while (followed_.flushed < seen && !cut_) {
    CAIRN_ASSIGN_OR_RETURN(const std::uint32_t end, GroupEnd(seen));
    if (end == followed_.flushed) break;
    CAIRN_RETURN_IF_ERROR(Bring(end));
  }
  followed_.more = cut_ || source().steps() > seen;
  return absl::OkStatus();
}

absl::StatusOr<bool> Follower::LookAtSource() {
  if (!directory_) {
    auto opened = Directory::Open(ReadFiles(ends_.source, ends_.from));
    if (absl::IsNotFound(opened.status())) return false;
    if (!opened.ok()) return opened.status();
    directory_ = *std::move(opened);
  } else {
    CAIRN_ASSIGN_OR_RETURN(const Directory::Change change, directory_->Refresh());
    cut_ |= change == Directory::Change::kReplaced;
    CAIRN_ASSIGN_OR_RETURN(const bool same, cut_ ? true : IsLastTheSame());
    if (!same) {  // what is known of the source is of what was there before
      directory_ = nullptr;
      cut_ = true;
      return LookAtSource();
    }
  }
  followed_.complete = source().steps();
  return source().steps() > 0 || cut_;
}

// Steps that were cut off and written again may leave md.idx as it was, if they are as large; not their metadata.
absl::StatusOr<bool> Follower::IsLastTheSame() {
  if (last_.empty()) return true;
  auto now = ReadSource("md.0", last_begin_, last_begin_ + last_.size());
  if (absl::IsDataLoss(now.status())) return false;  // shorter
  if (!now.ok()) return now.status();
  return *now == last_;
}

absl::Status Follower::RememberLast() {
  constexpr std::uint64_t kBytesMax = 1 << 20;
  last_.clear();
  if (followed_.flushed == 0) return absl::OkStatus();
  const std::uint64_t end = source().metadata_end(followed_.flushed - 1);
  const std::uint64_t before = followed_.flushed == 1 ? 0 : source().metadata_end(followed_.flushed - 2);
  last_begin_ = std::max(std::min(before, end), end - std::min(end, kBytesMax));
  CAIRN_ASSIGN_OR_RETURN(last_, ReadSource("md.0", last_begin_, end));
  return absl::OkStatus();
}

// The largest number of steps that go at once: all their data is in the source (a writer may be behind), and not more
// than readers should wait for.
absl::StatusOr<std::uint32_t> Follower::GroupEnd(std::uint32_t high) {
  std::uint32_t low = followed_.flushed;
  CAIRN_ASSIGN_OR_RETURN(const bool next, Fits(low + 1, UINT64_MAX));
  if (!next) return low;
  ++low;
  while (low < high) {
    const std::uint32_t middle = low + (high - low + 1) / 2;
    CAIRN_ASSIGN_OR_RETURN(const bool fits, Fits(middle, kStepsBytesMax));
    if (fits) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

absl::StatusOr<bool> Follower::Fits(std::uint32_t end, std::uint64_t bytes_max) {
  CAIRN_ASSIGN_OR_RETURN(const auto need, NeedOf(source(), end));
  std::uint64_t bytes = 0;
  for (const auto& [name, upto] : need) {
    const auto sent = sent_.find(name);
    const std::uint64_t have = sent == sent_.end() ? 0 : sent->second.bytes;
    if (upto <= have) continue;
    const auto info = ends_.source.Info(ends_.from + "/" + name);
    if (absl::IsNotFound(info.status())) return false;
    if (!info.ok()) return info.status();
    if (info->bytes < upto) return false;
    bytes += upto - have;
  }
  return bytes <= bytes_max;
}

absl::Status Follower::Bring(std::uint32_t end) {
  CAIRN_ASSIGN_OR_RETURN(const auto need, NeedOf(source(), end));
  std::vector<Appended> appended;
  for (const auto& [name, upto] : need) {
    if (name.starts_with("data.")) CAIRN_RETURN_IF_ERROR(Append(name, upto, &appended));
  }
  CAIRN_RETURN_IF_ERROR(SyncAll(appended));
  CAIRN_ASSIGN_OR_RETURN(const std::string formats, ReadSource("mmd.0", sent_["mmd.0"].bytes, need.at("mmd.0")));
  CAIRN_RETURN_IF_ERROR(AppendRecords("mmd.0", formats, kLengthInFormats));
  CAIRN_RETURN_IF_ERROR(Append("md.0", need.at("md.0"), &appended));
  CAIRN_RETURN_IF_ERROR(SyncAll(appended));
  if (std::exchange(made_any_, false)) {
    const absl::Status synced = ends_.target.SyncDirectory(ends_.to);
    made_any_ = !synced.ok();
    CAIRN_RETURN_IF_ERROR(synced);
  }
  CAIRN_RETURN_IF_ERROR(AppendIndex(need.at("md.idx")));
  if (cut_) return absl::OkStatus();
  followed_.flushed = end;
  return RememberLast();
}

// A name that is not ours any more is not written to, whoever has put it there.
absl::StatusOr<std::unique_ptr<File>> Follower::OpenTarget(const std::string& name) {
  const std::string path = ends_.to + "/" + name;
  Sent& sent = sent_[name];
  auto file = ends_.target.Open(
      path, {.writable = true, .create = !sent.made, .exclusive = !sent.made, .mode = kPrefixFileMode});
  if (!sent.made && absl::IsAlreadyExists(file.status())) return IsOthers(path);
  if (absl::IsNotFound(file.status())) return Aborted("{}: was taken away", path);
  if (!file.ok()) return Annotate(file.status(), "target");
  if (!std::exchange(sent.made, true)) made_any_ = true;
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, (*file)->Info());
  if (sent.inode == 0) sent.inode = info.inode;  // it was made just now, or failed to say
  if (info.inode != sent.inode) return IsOthers(path);
  return file;
}

absl::Status Follower::IsOthers(const std::string& path) {
  return Aborted("{}: someone else has put a file there", path);
}

absl::Status Follower::Append(const std::string& name, std::uint64_t end, std::vector<Appended>* appended) {
  const std::uint64_t have = sent_[name].bytes;
  if (end <= have) return absl::OkStatus();
  auto from = ends_.source.Open(ends_.from + "/" + name, {});
  if (!from.ok()) return Annotate(from.status(), "source");
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<File> to, OpenTarget(name));
  CAIRN_RETURN_IF_ERROR(CopyRange(**from, *to, have, end, allowance_));
  appended->push_back({.name = name, .file = std::move(to), .end = end});
  return absl::OkStatus();
}

// What a failed sync leaves is written once more from where the last good one ended.
absl::Status Follower::SyncAll(std::vector<Appended>& appended) {
  for (Appended& file : appended) {
    CAIRN_RETURN_IF_ERROR(Annotate(SyncOrDistrust(*file.file), "target"));
    followed_.bytes += file.end - sent_[file.name].bytes;
    sent_[file.name].bytes = file.end;
  }
  appended.clear();
  return absl::OkStatus();
}

absl::StatusOr<std::string> Follower::ReadSource(const std::string& name, std::uint64_t begin, std::uint64_t end) {
  if (begin >= end) return std::string();
  auto from = ends_.source.Open(ends_.from + "/" + name, {});
  if (!from.ok()) return Annotate(from.status(), "source");
  std::string bytes(end - begin, '\0');
  CAIRN_RETURN_IF_ERROR(Annotate((*from)->ReadAt(begin, std::as_writable_bytes(std::span(bytes))), "source"));
  return bytes;
}

absl::Status Follower::AppendRecords(const std::string& name, const std::string& records, std::size_t length_at) {
  if (records.empty()) return absl::OkStatus();
  if (!allowance_(records.size())) return Cancelled("{}: was stopped before step {}", ends_.to, followed_.flushed);
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> to, OpenTarget(name));
  CAIRN_RETURN_IF_ERROR(Annotate(AppendAtOnce(*to, sent_[name].bytes, records, length_at), "target"));
  followed_.bytes += records.size();
  sent_[name].bytes += records.size();
  return absl::OkStatus();
}

// The steps become visible. If the source was cut meanwhile, what was copied may be of either state: then they do not.
absl::Status Follower::AppendIndex(std::uint64_t end) {
  CAIRN_ASSIGN_OR_RETURN(std::string header, ReadSource("md.idx", 0, kIndexHeaderBytes));
  CAIRN_ASSIGN_OR_RETURN(const std::string records,
                         ReadSource("md.idx", std::max(kIndexHeaderBytes, sent_["md.idx"].bytes), end));
  CAIRN_ASSIGN_OR_RETURN(const Directory::Change change, directory_->Refresh());
  followed_.complete = source().steps();
  if (change == Directory::Change::kReplaced) {
    cut_ = true;
    return absl::OkStatus();
  }
  header[kActiveFlagAt] = 1;
  CAIRN_RETURN_IF_ERROR(MakeIndex(header));
  return AppendRecords("md.idx", records, kLengthInIndex);
}

// Its header is there whole, or not at all.
absl::Status Follower::MakeIndex(const std::string& header) {
  Sent& index = sent_["md.idx"];
  if (index.bytes > 0) return absl::OkStatus();
  const std::string path = ends_.to + "/md.idx";
  const bool again = std::exchange(index.made, true);
  const absl::Status made = CreateFileOnce(ends_.target, path, header, {.mode = kPrefixFileMode, .framed = false});
  if (absl::IsAlreadyExists(made)) {  // made by us, and then something failed
    const auto there = ReadWhole(ends_.target, path, kIndexHeaderBytes);
    if (!again || !there.ok() || *there != header) return IsOthers(path);
  } else if (!made.ok()) {
    return Annotate(made, "target");
  }
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, ends_.target.Info(path));
  index.inode = info.inode;
  index.bytes = kIndexHeaderBytes;
  return absl::OkStatus();
}

// How far a file of the target is what the source has now.
absl::StatusOr<std::uint64_t> Follower::Common(const std::string& name) {
  if (sent_[name].bytes == 0) return 0;
  auto from = ends_.source.Open(ends_.from + "/" + name, {});
  if (absl::IsNotFound(from.status())) return 0;
  if (!from.ok()) return Annotate(from.status(), "source");
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> to, OpenTarget(name));
  return FirstDifference(**from, *to, sent_[name].bytes, name == "md.idx");
}

// Steps that are the same in both stay, and of mmd.0 the entries that they use: what a writer has put behind those may
// be torn, and may be another by the next look. Data of steps whose metadata is the same is taken to be the same:
// writers do not go back into it, and what has come in spite of that is found by the check before the commit.
absl::Status Follower::CutToCommon() {
  std::map<std::string, std::uint64_t> same;
  for (const char* name : {"md.idx", "md.0", "mmd.0"}) {
    CAIRN_ASSIGN_OR_RETURN(same[name], Common(name));
  }
  std::uint32_t keep = std::min(followed_.flushed, source().steps());
  std::map<std::string, std::uint64_t> need;
  for (;; --keep) {
    CAIRN_ASSIGN_OR_RETURN(need, NeedOf(source(), keep));
    if (keep == 0 || std::ranges::all_of(same, [&](const auto& item) { return need.at(item.first) <= item.second; })) {
      break;
    }
  }
  const bool another = same["md.idx"] < kIndexHeaderBytes;  // its header is
  followed_.flushed = keep;
  CAIRN_RETURN_IF_ERROR(RememberLast());
  for (const bool index : {true, false}) {
    if (!index && !sent_["md.idx"].made) CAIRN_RETURN_IF_ERROR(ends_.target.SyncDirectory(ends_.to));
    for (auto& [name, sent] : sent_) {
      if (!sent.made || (name == "md.idx") != index) continue;
      if (index && another) {
        CAIRN_RETURN_IF_ERROR(RemoveIndex());
        continue;
      }
      CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, OpenTarget(name));
      const auto at = need.find(name);
      const std::uint64_t bytes = at == need.end() ? 0 : at->second;
      CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file->Info());
      sent.bytes = std::min(sent.bytes, bytes);
      if (info.bytes <= bytes) continue;
      CAIRN_RETURN_IF_ERROR(file->Truncate(bytes));
      CAIRN_RETURN_IF_ERROR(SyncOrDistrust(*file));
    }
  }
  return absl::OkStatus();
}

// A header is not changed in place: nobody reads half of one.
absl::Status Follower::RemoveIndex() {
  const auto index = OpenTarget("md.idx");
  if (!index.ok()) return index.status();
  CAIRN_RETURN_IF_ERROR(Annotate(ends_.target.Remove(ends_.to + "/md.idx"), "target"));
  sent_["md.idx"] = {};
  return absl::OkStatus();
}

}  // namespace cairn::bpdir
