// Copying, committing and telling of batches of files.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "storage/base/status.h"
#include "storage/job/drain/pass.h"

namespace cairn::drain {
namespace {

// So few are synced one by one; one sync of all would also write what others have written to this file system.
constexpr std::size_t kSyncedEachMax = 16;

}  // namespace

absl::Status Pass::CopyBatch(std::vector<CopyJob> jobs) {
  if (jobs.empty()) return absl::OkStatus();
  const bool each = !ground_.target->syncs_as_a_whole() || jobs.size() <= kSyncedEachMax;
  return Round({.jobs = std::move(jobs), .synced_each = each});
}

absl::Status Pass::Finish() {
  while (!copied_.jobs.empty() || !durable_.jobs.empty() || !checked_.jobs.empty()) {
    CAIRN_RETURN_IF_ERROR(Round({}));
  }
  return absl::OkStatus();
}

// A batch takes four rounds: the workers copy it; this thread makes it durable; the workers read it back; this thread
// gives it its names. So four of them are under way at once, and neither processors nor disk wait for each other.
// Names are given by one thread: two that rename between folders only wait for each other in the kernel.
absl::Status Pass::Round(Batch next) {
  const std::uint64_t first = std::exchange(ground_.works, ground_.works + next.jobs.size());
  CopyAndCheck(next, first, durable_);
  absl::Status status = Publish(checked_);
  if (status.ok()) status = MakeDurable(copied_);
  ground_.workers->Wait();
  checked_ = std::exchange(durable_, {});
  durable_ = std::exchange(copied_, {});
  copied_ = std::move(next);
  // What a sync has failed on once may be lost, however well the next one goes: it never gets its name.
  CAIRN_RETURN_IF_ERROR(status);
  for (CopyJob& job : checked_.jobs) {
    if (job.outcome == Outcome::kDamaged) CAIRN_RETURN_IF_ERROR(CopyAgain(job));
  }
  const auto is_full = [](const CopyJob& job) { return job.outcome == Outcome::kFull; };
  ended_ = ended_ || std::ranges::any_of(copied_.jobs, is_full);
  return absl::OkStatus();
}

// Begins it; `first`: the number of the first work name. Mixed, since copying needs the processors, and reading back
// waits for the disk.
void Pass::CopyAndCheck(Batch& copied, std::uint64_t first, Batch& checked) {
  const std::size_t checks = options_.check ? checked.jobs.size() : 0;
  const std::size_t all = copied.jobs.size() + checks;
  ground_.workers->Begin(all, [=, this, &copied, &checked](std::size_t number, std::size_t worker) {
    const std::size_t before = number * checks / all, after = (number + 1) * checks / all;
    if (after > before) return copier_->Check(checked.jobs[before], ground_.buffers->at(worker));
    CopyJob& job = copied.jobs[number - before];
    // A folder for each worker: two that make files in one wait for each other.
    job.work = fmt::format("{}/{}/{}", ground_.work_folder, worker, first + number - before);
    copier_->Copy(job, ground_.buffers->at(worker), copied.synced_each);
  });
}

void Pass::Note(const CopyJob& job) {
  // What was found and was the same stays somebody else's, unless it was ours before.
  const bool ours = job.outcome == Outcome::kCopied || job.replace;
  ground_.journal->Add(job.item->path,
                       {.source = IdentityOf(job.item->info), .there = job.there, .ours = ours, .crc32c = job.crc32c});
}

// Bytes and records, not yet names.
absl::Status Pass::MakeDurable(Batch& batch) {
  bool any = false;
  for (const CopyJob& job : batch.jobs) {
    if (job.outcome != Outcome::kCopied) continue;
    Note(job);
    any = true;
  }
  if (!any) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(ground_.journal->Write());
  if (batch.synced_each) return ground_.journal->Sync();
  CAIRN_RETURN_IF_ERROR(ground_.target->SyncAll());
  names_unsynced_ = false;
  return absl::OkStatus();
}

// A disk that returns something else may have had a bad moment: once more, on another place of it.
absl::Status Pass::CopyAgain(CopyJob& job) {
  ground_.target->Remove(job.work).IgnoreError();  // else its name is taken, which the copy says
  job.work = fmt::format("{}/0/{}", ground_.work_folder, ground_.works++);
  copier_->Copy(job, OwnBuffer(), true);
  if (job.outcome != Outcome::kCopied) return absl::OkStatus();
  Note(job);
  CAIRN_RETURN_IF_ERROR(ground_.journal->Write());
  CAIRN_RETURN_IF_ERROR(ground_.journal->Sync());
  copier_->Check(job, OwnBuffer());
  return absl::OkStatus();
}

// What is there was ours when the pass began; is it still?
absl::Status Pass::Replace(const CopyJob& job) {
  const std::string& path = job.item->path;
  const auto there = ground_.target->Info(path);
  if (absl::IsNotFound(there.status())) return ground_.target->RenameNew(job.work, path);
  CAIRN_RETURN_IF_ERROR(there.status());
  if (MadeOf(*there) == job.replaced) return ground_.target->Rename(job.work, path);
  return FailedPrecondition("the target's file of this name was changed by somebody else during the drain");
}

// REQUIRES: its bytes and its record are durable.
void Pass::Publish(CopyJob& job) {
  if (job.outcome == Outcome::kCopied) {
    const std::string& path = job.item->path;
    const absl::Status named = job.replace ? Replace(job) : ground_.target->RenameNew(job.work, path);
    if (named.ok()) return;
    if (absl::IsAlreadyExists(named)) {
      copier_->Compare(job, OwnBuffer());
    } else {
      job.outcome = Outcome::kFailed;
      job.why = MessageOf(named);
    }
  }
  if (!job.work.empty()) ground_.target->Remove(job.work).IgnoreError();  // the next drain's beginning removes it, too
}

absl::Status Pass::Publish(Batch& batch) {
  for (CopyJob& job : batch.jobs) {
    Publish(job);
    const bool named = job.outcome == Outcome::kCopied;
    if (named && batch.synced_each) unsynced_folders_.insert(FolderOf(job.item->path));
    if (named && !batch.synced_each) names_unsynced_ = true;
    Account(job);
  }
  return ground_.journal->Write();
}

absl::Status Pass::CopyLarge(CopyJob& job) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    job.work = fmt::format("{}/0/{}", ground_.work_folder, ground_.works++);
    copier_->CopyLarge(job, *ground_.workers, *ground_.buffers, options_.check);
    if (job.outcome != Outcome::kDamaged || attempt > 0) break;
    ground_.target->Remove(job.work).IgnoreError();  // the next drain's beginning removes it, too
  }
  ended_ = ended_ || job.outcome == Outcome::kFull;
  return PublishOne(job);
}

// REQUIRES: it is copied and durable, and needs no more checks.
absl::Status Pass::PublishOne(const CopyJob& job) {
  Batch one{.jobs = {job}, .synced_each = true};
  CAIRN_RETURN_IF_ERROR(MakeDurable(one));
  return Publish(one);
}

absl::Status Pass::SyncNames() {
  if (std::exchange(names_unsynced_, false)) {
    unsynced_folders_.clear();
    return ground_.target->SyncAll();
  }
  for (const std::string& folder : std::exchange(unsynced_folders_, {})) {
    CAIRN_RETURN_IF_ERROR(ground_.target->SyncFolder(folder));
  }
  return absl::OkStatus();
}

void Pass::Account(CopyJob& job) {
  const Item& item = *job.item;
  ++ground_.progress.files;
  if (job.outward) {
    report_.outward.Add(item.path, "leads out of the folder; brought as a link, not followed");
  }
  switch (job.outcome) {
    case Outcome::kCopied:
      ground_.journal->Confirm(item.path);
      report_.attributes_lost += job.attributes_lost ? 1 : 0;
      report_.read_through_cache += options_.check && job.through_cache ? 1 : 0;
      report_.links_copied += job.link_copied ? 1 : 0;
      if (item.kind == Item::Kind::kSymlink) {
        ++report_.symlinks;
      } else if (job.mode == CopyJob::Mode::kLink && !job.link_copied) {
        ++report_.hard_links;
      } else {
        ++report_.files;
        report_.bytes += item.info.bytes;
        ground_.progress.brought_bytes += item.info.bytes;
      }
      states_[job.at] = State::kDone;
      ++ground_.progress.brought_files;
      return NoLongerLeft(item);
    case Outcome::kThere:
      Note(job);
      ground_.journal->Confirm(item.path);
      report_.read_through_cache += job.through_cache ? 1 : 0;
      ++report_.there_files;
      report_.there_bytes += item.info.bytes;
      states_[job.at] = State::kDone;
      return NoLongerLeft(item);
    case Outcome::kWaits:
      ++report_.busy;
      return NotDone(job.at, report_.waiting, std::move(job.why));
    case Outcome::kGone:
      ++report_.gone;
      states_[job.at] = State::kNotDone;
      return NoLongerLeft(item);
    case Outcome::kFailed:
      if (job.leader_changed) {
        ground_.journal->Doubt(job.leader);
        ++report_.busy;
      }
      NoLongerLeft(item);
      return NotDone(job.at, report_.failed, std::move(job.why));
    case Outcome::kDamaged:
      NoLongerLeft(item);
      return NotDone(job.at, report_.damaged, std::move(job.why));
    case Outcome::kFull:
      report_.stopped = report_.full = true;
      report_.stopped_why = "the target is full: " + job.why;
      return NotDone(job.at, report_.waiting, "the target is full");
    case Outcome::kStopped:
      states_[job.at] = State::kNotDone;
      return;
  }
}

}  // namespace cairn::drain
