#include "storage/job/drain/copy.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "storage/base/checksum.h"
#include "storage/base/clock.h"
#include "storage/base/status.h"
#include "storage/job/drain/identity.h"

namespace cairn::drain {
namespace {

constexpr char kChanged[] = "it changed while it was read";
constexpr char kOpen[] = "somebody has it open for writing";

std::uint64_t Down(std::uint64_t offset) {
  return offset / kDirectAlignment * kDirectAlignment;
}
std::uint64_t Up(std::uint64_t offset) {
  return Down(offset + kDirectAlignment - 1);
}

void Say(CopyJob& job, Outcome outcome, std::string why = {}) {
  job.outcome = outcome;
  job.why = std::move(why);
}

// What one window of a file came to.
enum class Moved : std::uint8_t { kWell, kShort };

// Copies the window at `begin`; the buffer then holds its bytes, holes as zeros. *crc32c is of all of them.
absl::StatusOr<Moved> MoveWindow(FileBelow& from, FileBelow& to, const FileInfo& info, bool sparse, bool direct,
                                 std::uint64_t begin, std::span<std::byte> buffer, std::uint32_t* crc32c,
                                 bool* of_source) {
  const std::uint64_t end = std::min<std::uint64_t>(begin + kWindowBytes, info.bytes);
  const std::span<std::byte> window = buffer.first(end - begin);
  for (std::uint64_t at = begin, filled = begin; at < end;) {
    std::optional<FileBelow::Stretch> data = FileBelow::Stretch{.begin = at, .end = end};
    *of_source = true;
    if (sparse) {
      CAIRN_ASSIGN_OR_RETURN(data, from.DataFrom(at));
    }
    const bool none = !data || data->begin >= end;
    const std::uint64_t first = none ? end : std::max(Down(data->begin), at);
    std::memset(window.data() + (filled - begin), 0, first - filled);
    if (none) break;
    const std::uint64_t last = std::min(Up(data->end), end);
    const std::span<std::byte> part = window.subspan(first - begin, last - first);
    CAIRN_ASSIGN_OR_RETURN(const std::size_t n, from.ReadAt(first, part));
    if (n != part.size()) return Moved::kShort;
    *of_source = false;
    // The end of the file may lie in a block, and the buffer ends at one.
    const std::size_t padded = direct ? static_cast<std::size_t>(Up(part.size())) : part.size();
    std::memset(part.data() + part.size(), 0, padded - part.size());
    CAIRN_RETURN_IF_ERROR(to.WriteAt(first, std::span<const std::byte>(part.data(), padded)));
    at = filled = last;
  }
  *crc32c = Crc32c(window);
  return Moved::kWell;
}

// The same bytes again? Short reads are not.
absl::StatusOr<bool> IsWindow(FileBelow& file, std::uint64_t bytes, std::uint64_t begin, std::span<std::byte> buffer,
                              std::uint32_t crc32c) {
  const std::size_t expected = std::min<std::uint64_t>(kWindowBytes, bytes - begin);
  CAIRN_ASSIGN_OR_RETURN(const std::size_t n, file.ReadAt(begin, buffer.first(Up(expected))));
  return n >= expected && Crc32c(buffer.first(expected)) == crc32c;
}

// A second change within one tick of the file system's clock leaves the times as they are. What is read after that tick
// cannot change without their telling.
void OutwaitTick(const FileInfo& info) {
  const std::chrono::milliseconds tick(info.ctime.tv_nsec == 0 ? 1010 : 20);  // whole seconds: not a finer clock
  const auto age = WallNow().time_since_epoch() - std::chrono::nanoseconds(Nanoseconds(info.ctime));
  if (age >= age.zero() && age < tick) SleepFor(std::chrono::duration_cast<std::chrono::nanoseconds>(tick - age));
}

// One file under two names, or by two mounts, which may tell of different devices; nobody can set a ctime.
bool IsThisVeryFile(const FileInfo& there, const FileInfo& here) {
  if (there.inode != here.inode) return false;
  return there.device == here.device || Nanoseconds(there.ctime) == Nanoseconds(here.ctime);
}

// Its owner must be able to read it back; only its owner gets so far, until it has its name.
std::uint32_t WorkMode(const FileInfo& info) {
  return (info.mode & 0777) | 0400;
}

bool IsSparse(const FileInfo& info) {
  return info.allocated_bytes < info.bytes;
}

}  // namespace

Buffers::Buffers(std::size_t count)
    : base_(static_cast<std::byte*>(std::aligned_alloc(kDirectAlignment, count * kWindowBytes)), std::free) {
  if (base_ == nullptr) throw std::bad_alloc();
}

bool LeadsOut(const std::string& path, const std::string& target) {
  if (target.starts_with('/')) return true;
  std::int64_t depth = std::ranges::count(path, '/');
  for (std::size_t at = 0; at <= target.size();) {
    const std::size_t end = std::min(target.find('/', at), target.size());
    const std::string_view part = std::string_view(target).substr(at, end - at);
    if (part == "..") --depth;
    if (part != ".." && part != "." && !part.empty()) ++depth;
    if (depth < 0) return true;
    at = end + 1;
  }
  return false;
}

// Whose fault it is decides what follows.
absl::Status Copier::Blame(CopyJob& job, const absl::Status& status, bool of_source) {
  if (status.ok()) return status;
  if (of_source && absl::IsNotFound(status)) {
    Say(job, Outcome::kGone);
  } else if (!of_source && absl::IsResourceExhausted(status)) {
    Say(job, Outcome::kFull, std::string(MessageOf(status)));
  } else {
    Say(job, Outcome::kFailed, std::string(MessageOf(status)));
  }
  return status;
}

bool Copier::OpenSource(CopyJob& job, std::unique_ptr<FileBelow>* file) {
  OutwaitTick(job.item->info);
  auto opened = source_.Open(job.item->path);
  if (!Blame(job, opened.status(), true).ok()) return false;
  *file = *std::move(opened);
  return IsAsBefore(job, **file, (*file)->opened());
}

bool Copier::IsAsBefore(CopyJob& job, FileBelow& file, const FileInfo& info) {
  // A further name that comes or goes moves ctime, too.
  const bool same = info.links == job.item->info.links && job.item->info.links == 1
                        ? IdentityOf(info) == IdentityOf(job.item->info)
                        : IdentityOf(info).SameContent(IdentityOf(job.item->info));
  if (!same) {
    Say(job, Outcome::kWaits, kChanged);
    return false;
  }
  if (file.LookForWriters() == FileBelow::Writers::kSome) {
    Say(job, Outcome::kWaits, kOpen);
    return false;
  }
  return true;
}

bool Copier::IsStillAsBefore(CopyJob& job, FileBelow& file) {
  const auto info = file.Info();
  return Blame(job, info.status(), true).ok() && IsAsBefore(job, file, *info);
}

// What follows the bytes: attributes, the look whether the source is still the same, the sync.
bool Copier::Finish(CopyJob& job, FileBelow& from, FileBelow& to, bool sync) {
  const auto attributes = from.Attributes();
  job.attributes_lost = !attributes.ok();
  const auto set = to.SetAttributes(job.item->info, attributes.ok() ? *attributes : TreeAttributes());
  if (!Blame(job, set.status(), false).ok()) return false;
  job.attributes_lost = job.attributes_lost || !*set;
  if (!IsStillAsBefore(job, from)) return false;
  if (sync && !Blame(job, to.Sync(), false).ok()) return false;
  const auto info = to.Info();
  if (!Blame(job, info.status(), false).ok()) return false;
  job.there = MadeOf(*info);
  return true;
}

void Copier::CopyFile(CopyJob& job, std::span<std::byte> buffer, bool sync) {
  const FileInfo& info = job.item->info;
  std::unique_ptr<FileBelow> from;
  if (!OpenSource(job, &from)) return;
  if (!throttle_.Take(info.bytes, stop_)) return Say(job, Outcome::kStopped);
  auto to = target_.Create(job.work, WorkMode(info));
  if (!Blame(job, to.status(), false).ok()) return;
  const bool sparse = IsSparse(info);
  if (sparse && !Blame(job, (*to)->Truncate(info.bytes), false).ok()) return;
  bool of_source = false;
  const auto moved = MoveWindow(*from, **to, info, sparse, false, 0, buffer, &job.crc32c, &of_source);
  if (!Blame(job, moved.status(), of_source).ok()) return;
  if (*moved == Moved::kShort) return Say(job, Outcome::kWaits, kChanged);
  if (!Finish(job, *from, **to, sync)) return;
  progress_.bytes += info.bytes;
  Say(job, Outcome::kCopied);
}

void Copier::CopyLink(CopyJob& job) {
  const auto text = source_.ReadLink(job.item->path);
  if (!Blame(job, text.status(), true).ok()) return;
  if (!Blame(job, target_.Symlink(*text, job.work), false).ok()) return;
  job.attributes_lost = !target_.SetLinkTimes(job.work, job.item->info).ok();
  const auto info = target_.Info(job.work);
  if (!Blame(job, info.status(), false).ok()) return;
  job.there = MadeOf(*info);
  job.outward = LeadsOut(job.item->path, *text);
  Say(job, Outcome::kCopied);
}

void Copier::MakeHardLink(CopyJob& job, std::span<std::byte> buffer, bool sync) {
  const absl::Status linked = target_.Link(job.leader, job.work);
  job.link_copied = absl::IsFailedPrecondition(linked);
  if (job.link_copied && job.item->info.bytes <= kWindowBytes) return CopyFile(job, buffer, sync);
  job.leader_changed = absl::IsNotFound(linked);
  if (!Blame(job, linked, false).ok()) return;
  const auto info = target_.Info(job.work);
  if (!Blame(job, info.status(), false).ok()) return;
  job.there = MadeOf(*info);
  if (job.there != job.leader_there) {
    job.leader_changed = true;
    return Say(job, Outcome::kFailed, "the target's file of another of its names was changed by somebody else");
  }
  Say(job, Outcome::kCopied);
}

void Copier::Copy(CopyJob& job, std::span<std::byte> buffer, bool sync) {
  if (stop_) return Say(job, Outcome::kStopped);
  if (job.mode == CopyJob::Mode::kCompare) {
    Compare(job, buffer);
    if (job.outcome != Outcome::kFailed || !job.replace) return;
    job.mode = CopyJob::Mode::kCopy;  // not the same, and ours to replace
  }
  if (job.mode == CopyJob::Mode::kLink) return MakeHardLink(job, buffer, sync);
  if (job.item->kind == Item::Kind::kSymlink) return CopyLink(job);
  CopyFile(job, buffer, sync);
}

void Copier::Check(CopyJob& job, std::span<std::byte> buffer) {
  if (job.outcome != Outcome::kCopied || job.item->kind != Item::Kind::kFile) return;
  if (job.item->info.bytes == 0 || (job.mode == CopyJob::Mode::kLink && !job.link_copied)) return;
  const auto file = target_.Open(job.work);
  if (!Blame(job, file.status(), false).ok()) return;
  job.through_cache = !(*file)->BypassCache();
  const auto same = IsWindow(**file, job.item->info.bytes, 0, buffer, job.crc32c);
  if (!Blame(job, same.status(), false).ok()) return;
  if (!*same) Say(job, Outcome::kDamaged, "what was read back differs from what was written");
}

// --- Files of many windows ---

// Which windows have data, and what each came to.
struct Copier::Windows {
  std::vector<std::uint64_t> begins;
  std::vector<std::uint32_t> sums;
  absl::Mutex mutex;
  bool over ABSL_GUARDED_BY(mutex) = false;  // the first trouble ends it

  bool Over() {
    const absl::MutexLock lock(&mutex);
    return over;
  }
};

void Copier::CopyLarge(CopyJob& job, Workers& workers, const Buffers& buffers, bool check) {
  const FileInfo& info = job.item->info;
  std::unique_ptr<FileBelow> from;
  if (!OpenSource(job, &from)) return;
  auto to = target_.Create(job.work, WorkMode(info));
  if (!Blame(job, to.status(), false).ok()) return;
  const bool sparse = IsSparse(info);
  Windows windows;
  for (std::uint64_t at = 0; at < info.bytes;) {
    if (sparse) {
      const auto data = from->DataFrom(at);
      if (!Blame(job, data.status(), true).ok()) return;
      if (!*data) break;
      at = (*data)->begin / kWindowBytes * kWindowBytes;
    }
    windows.begins.push_back(at);
    at += kWindowBytes;
  }
  windows.sums.resize(windows.begins.size());
  if (!Blame(job, sparse ? (*to)->Truncate(info.bytes) : (*to)->Reserve(info.bytes), false).ok()) return;
  const bool direct = (*to)->BypassCache();
  job.through_cache = !direct;
  Say(job, Outcome::kCopied);

  const auto trouble = [&](Outcome outcome, const absl::Status& status, bool of_source, const char* why) {
    const absl::MutexLock lock(&windows.mutex);
    if (std::exchange(windows.over, true)) return;
    if (!Blame(job, status, of_source).ok()) return;
    Say(job, outcome, why);
  };
  workers.Run(windows.begins.size(), [&](std::size_t number, std::size_t worker) {
    if (windows.Over()) return;
    const std::uint64_t begin = windows.begins[number];
    const std::uint64_t bytes = std::min<std::uint64_t>(kWindowBytes, info.bytes - begin);
    if (stop_ || !throttle_.Take(bytes, stop_)) return trouble(Outcome::kStopped, absl::OkStatus(), false, "");
    bool of_source = false;
    const auto moved =
        MoveWindow(*from, **to, info, sparse, direct, begin, buffers.at(worker), &windows.sums[number], &of_source);
    if (!moved.ok()) return trouble(Outcome::kFailed, moved.status(), of_source, "");
    if (*moved == Moved::kShort) return trouble(Outcome::kWaits, absl::OkStatus(), true, kChanged);
    progress_.bytes += bytes;
  });
  if (job.outcome != Outcome::kCopied) return;
  if (direct && info.bytes % kDirectAlignment != 0 && !Blame(job, (*to)->Truncate(info.bytes), false).ok()) return;
  if (!Finish(job, *from, **to, true)) return;
  job.crc32c = Crc32c(std::as_bytes(std::span(windows.sums)));
  if (!check) return;
  if (!direct) (*to)->BypassCache();  // what was synced can be dropped
  workers.Run(windows.begins.size(), [&](std::size_t number, std::size_t worker) {
    if (windows.Over()) return;
    if (stop_) return trouble(Outcome::kStopped, absl::OkStatus(), false, "");
    const std::uint64_t begin = windows.begins[number];
    const auto same = IsWindow(**to, info.bytes, begin, buffers.at(worker), windows.sums[number]);
    if (!same.ok()) return trouble(Outcome::kFailed, same.status(), false, "");
    if (!*same) trouble(Outcome::kDamaged, absl::OkStatus(), false, "what was read back differs from what was written");
  });
}

// --- What is there already ---

bool Copier::CompareLinks(CopyJob& job) {
  const auto text = source_.ReadLink(job.item->path);
  if (!Blame(job, text.status(), true).ok()) return false;
  job.outward = LeadsOut(job.item->path, *text);
  const auto there = target_.ReadLink(job.item->path);
  if (absl::IsInvalidArgument(there.status())) return false;
  if (!Blame(job, there.status(), false).ok() || *there != *text) return false;
  const auto info = target_.Info(job.item->path);
  if (!Blame(job, info.status(), false).ok() || IsThisVeryFile(*info, job.item->info)) return false;
  job.there = MadeOf(*info);
  return true;
}

bool Copier::CompareFiles(CopyJob& job, std::span<std::byte> buffer) {
  std::unique_ptr<FileBelow> from;
  if (!OpenSource(job, &from)) return false;
  const auto to = target_.Open(job.item->path);
  if (absl::IsInvalidArgument(to.status())) return false;
  if (!Blame(job, to.status(), false).ok()) return false;
  const FileInfo there = (*to)->opened();
  if (IsThisVeryFile(there, job.item->info)) {
    Say(job, Outcome::kFailed, "the target has this very file, under another mount");
    return false;
  }
  if (there.bytes != job.item->info.bytes) return false;
  // Whoever has written it may not have synced it, and a write that was lost on its way still lies in the page cache.
  if (!Blame(job, (*to)->Sync(), false).ok()) return false;
  job.through_cache = !(*to)->BypassCache();
  const std::span<std::byte> ours = buffer.first(buffer.size() / 2), theirs = buffer.subspan(buffer.size() / 2);
  std::uint32_t sum = 0;
  for (std::uint64_t at = 0; at < there.bytes; at += ours.size()) {
    if (stop_ || !throttle_.Take(ours.size(), stop_)) return Say(job, Outcome::kStopped), false;
    const auto n = from->ReadAt(at, ours);
    if (!Blame(job, n.status(), true).ok()) return false;
    const auto m = (*to)->ReadAt(at, theirs.first(Up(*n)));
    if (!Blame(job, m.status(), false).ok()) return false;
    if (*m < *n || std::memcmp(ours.data(), theirs.data(), *n) != 0) return false;
    sum = Crc32c(ours.first(*n), sum);
  }
  if (!IsStillAsBefore(job, *from)) return false;
  job.crc32c = sum;
  if (job.replace) {
    const auto attributes = from->Attributes();
    const auto set = (*to)->SetAttributes(job.item->info, attributes.ok() ? *attributes : TreeAttributes());
    job.attributes_lost = !attributes.ok() || !set.ok() || !*set;
    if (!Blame(job, (*to)->Sync(), false).ok()) return false;
  }
  const auto now = (*to)->Info();
  if (!Blame(job, now.status(), false).ok() || now->bytes != there.bytes) return false;
  job.there = MadeOf(*now);
  return true;
}

void Copier::Compare(CopyJob& job, std::span<std::byte> buffer) {
  Say(job, Outcome::kFailed, "the target has another file of this name, which no drain of this folder has made");
  const bool same = job.item->kind == Item::Kind::kSymlink ? CompareLinks(job) : CompareFiles(job, buffer);
  if (same) Say(job, Outcome::kThere);
}

}  // namespace cairn::drain
