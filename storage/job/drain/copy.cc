#include "storage/job/drain/copy.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

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
#include "storage/job/drain/windows.h"

namespace cairn::drain {
namespace {

constexpr char kChanged[] = "it changed while it was read";
constexpr char kDiffers[] = "what was read back differs from what was written";
constexpr char kOpen[] = "somebody has it open for writing";

std::uint64_t Down(std::uint64_t offset) {
  return offset / kDirectAlignment * kDirectAlignment;
}
std::uint64_t Up(std::uint64_t offset) {
  return Down(offset + kDirectAlignment - 1);
}

// Whose fault it is decides what follows.
Verdict VerdictOf(const absl::Status& error, bool of_source) {
  if (of_source && absl::IsNotFound(error)) return {.outcome = Outcome::kGone};
  const bool full = !of_source && absl::IsResourceExhausted(error);
  return {.outcome = full ? Outcome::kFull : Outcome::kFailed, .why = std::string(MessageOf(error))};
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

absl::Status Copier::Blame(CopyJob& job, const absl::Status& status, bool of_source) {
  if (status.ok()) return status;
  Verdict verdict = VerdictOf(status, of_source);
  Say(job, verdict.outcome, std::move(verdict.why));
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
  if (!*same) Say(job, Outcome::kDamaged, kDiffers);
}

// --- Files of many windows ---

// One that is under way, as its workers share it.
struct Copier::Large {
  const FileInfo& info;
  std::unique_ptr<FileBelow> from = nullptr, to = nullptr;
  bool check = false, sparse = false, direct = false;
  std::vector<std::uint64_t> begins = {};  // of the windows that have data
  std::vector<std::uint32_t> sums = {};    // of their bytes
  absl::Mutex mutex = {};
  std::optional<Verdict> trouble ABSL_GUARDED_BY(mutex) = std::nullopt;  // the first

  void Fail(Verdict verdict) {
    const absl::MutexLock lock(&mutex);
    if (!trouble) trouble = std::move(verdict);
  }
  std::optional<Verdict> Trouble() {
    const absl::MutexLock lock(&mutex);
    return trouble;
  }
};

bool Copier::OpenLarge(CopyJob& job, Large& large) {
  const FileInfo& info = large.info;
  if (!OpenSource(job, &large.from)) return false;
  auto to = target_.Create(job.work, WorkMode(info));
  if (!Blame(job, to.status(), false).ok()) return false;
  large.to = *std::move(to);
  large.sparse = IsSparse(info);
  for (std::uint64_t at = 0; at < info.bytes; at += kWindowBytes) {
    if (large.sparse) {
      const auto data = large.from->DataFrom(at);
      if (!Blame(job, data.status(), true).ok()) return false;
      if (!*data) break;
      at = (*data)->begin / kWindowBytes * kWindowBytes;
    }
    large.begins.push_back(at);
  }
  large.sums.resize(large.begins.size());
  const absl::Status sized = large.sparse ? large.to->Truncate(info.bytes) : large.to->Reserve(info.bytes);
  if (!Blame(job, sized, false).ok()) return false;
  large.direct = large.to->BypassCache();
  job.through_cache = !large.direct;
  return true;
}

Verdict Copier::WriteWindow(Large& large, std::size_t number, std::span<std::byte> buffer) {
  const std::uint64_t begin = large.begins[number];
  const std::uint64_t bytes = std::min<std::uint64_t>(kWindowBytes, large.info.bytes - begin);
  if (!throttle_.Take(bytes, stop_)) return {.outcome = Outcome::kStopped};
  bool of_source = false;
  const auto moved = MoveWindow(*large.from, *large.to, large.info, large.sparse, large.direct, begin, buffer,
                                &large.sums[number], &of_source);
  if (!moved.ok()) return VerdictOf(moved.status(), of_source);
  if (*moved == Moved::kShort) return {.outcome = Outcome::kWaits, .why = kChanged};
  progress_.bytes += bytes;
  return {};
}

Verdict Copier::ReadBackWindow(Large& large, std::size_t number, std::span<std::byte> buffer) {
  const auto same = IsWindow(*large.to, large.info.bytes, large.begins[number], buffer, large.sums[number]);
  if (!same.ok()) return VerdictOf(same.status(), false);
  return *same ? Verdict() : Verdict{.outcome = Outcome::kDamaged, .why = kDiffers};
}

// With the last part all is written: the file gets its size and attributes before that is synced.
bool Copier::SyncParts(CopyJob& job, Large& large, Windows& windows) {
  for (std::size_t part = 0; part + 1 < windows.parts(); ++part) {
    if (!windows.AwaitWritten(part) || !Blame(job, large.to->Sync(), false).ok()) return false;
    windows.Synced(part);
  }
  const std::size_t last = windows.parts() - 1;
  if (!windows.AwaitWritten(last)) return false;
  const bool padded = large.direct && large.info.bytes % kDirectAlignment != 0;
  if (padded && !Blame(job, large.to->Truncate(large.info.bytes), false).ok()) return false;
  if (!Finish(job, *large.from, *large.to, true)) return false;
  if (large.check && !large.direct) large.to->BypassCache();  // what was synced can be dropped
  windows.Synced(last);
  return true;
}

void Copier::CopyLarge(CopyJob& job, Workers& workers, const Buffers& buffers, bool check) {
  Large large{.info = job.item->info, .check = check};
  if (!OpenLarge(job, large)) return;
  // Only where the disk itself gives it back, a part is worth a sync of its own.
  Windows windows({.windows = large.begins.size(),
                   .per_part = check && large.direct ? kPartWindows : std::max<std::size_t>(large.begins.size(), 1),
                   .read_back = check,
                   .readers_max = std::max<std::size_t>(workers.count() / 2, 1)});
  workers.Begin(workers.count(), [&](std::size_t, std::size_t worker) {
    while (const auto step = windows.Next()) {
      const bool writes = step->what == Windows::Step::What::kWrite;
      const std::span<std::byte> buffer = buffers.at(worker);
      Verdict verdict = stop_    ? Verdict{.outcome = Outcome::kStopped}
                        : writes ? WriteWindow(large, step->window, buffer)
                                 : ReadBackWindow(large, step->window, buffer);
      if (verdict.outcome != Outcome::kCopied) {
        large.Fail(std::move(verdict));
        return windows.End();
      }
      windows.Done(*step);
    }
  });
  Say(job, Outcome::kCopied);
  if (!SyncParts(job, large, windows)) windows.End();
  workers.Wait();
  auto trouble = large.Trouble();
  if (job.outcome == Outcome::kCopied && trouble) Say(job, trouble->outcome, std::move(trouble->why));
  job.crc32c = Crc32c(std::as_bytes(std::span(large.sums)));
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
