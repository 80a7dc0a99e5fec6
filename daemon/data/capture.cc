#include "daemon/data/capture.h"

#include <absl/synchronization/mutex.h>

#include <cstring>
#include <utility>

#include "daemon/data/capture_impl.h"
#include "storage/base/checksum.h"
#include "storage/base/status.h"

namespace cairn {

// --- What the client says ---

absl::Status CaptureImpl::CheckFilled(std::uint64_t pieces) const {
  if (pieces < filled_ || pieces > spec_.plan.size()) {
    return InvalidArgument("capture {}: {} pieces filled after {}, the plan has {}", spec_.work_path, pieces, filled_,
                           spec_.plan.size());
  }
  for (std::uint64_t i = filled_; table_.ring() && i < pieces; ++i) {
    if (spec_.plan[i].after_released > released_) {
      return InvalidArgument("capture {}: piece {} filled before {} windows were released, only {} are",
                             spec_.work_path, i, spec_.plan[i].after_released, released_);
    }
  }
  return absl::OkStatus();
}

void CaptureImpl::TakePieces(std::uint64_t pieces) {
  for (; filled_ < pieces; ++filled_) {
    const PlanPiece& piece = spec_.plan[filled_];
    const std::size_t chunk = table_.ChunkOfPiece(filled_);
    table_.chunks()[chunk].filled += piece.bytes;
    hashes_.Add(chunk);
    const std::size_t index = table_.WindowAt(piece.file_offset);
    WindowTable::Window& window = table_.windows()[index];
    window.unfilled -= piece.bytes;
    if (window.unfilled > 0 || !table_.ring()) continue;
    writes_.Complete(index);
    completed_.push_back(index);
  }
}

absl::Status CaptureImpl::Filled(std::uint64_t pieces) {
  const absl::MutexLock lock(&mutex_);
  CAIRN_RETURN_IF_ERROR(CheckFilled(pieces));
  TakePieces(pieces);
  PostHashing();
  PostWriting();
  return absl::OkStatus();
}

absl::Status CaptureImpl::Put(std::uint64_t index, std::span<const std::byte> bytes, std::uint32_t crc32c) {
  {
    const absl::MutexLock lock(&mutex_);
    if (index != filled_ || index >= spec_.plan.size()) {
      return InvalidArgument("capture {}: piece {} comes where {} of {} is due", spec_.work_path, index, filled_,
                             spec_.plan.size());
    }
    if (bytes.size() != spec_.plan[index].bytes) {
      return InvalidArgument("capture {}: piece {} has {} bytes, expected {}", spec_.work_path, index, bytes.size(),
                             spec_.plan[index].bytes);
    }
    CAIRN_RETURN_IF_ERROR(CheckFilled(index + 1));
  }
  if (const std::uint32_t found = Crc32c(bytes); found != crc32c) {
    return DataLoss("capture {}: piece {} has CRC32C {:08x}, expected {:08x}", spec_.work_path, index, found, crc32c);
  }
  std::memcpy(image_.data() + spec_.plan[index].image_offset, bytes.data(), bytes.size());
  return Filled(index + 1);
}

absl::Status CaptureImpl::Commit() {
  const absl::MutexLock lock(&mutex_);
  if (committed_) return FailedPrecondition("capture {}: committed twice", spec_.work_path);
  if (!failure_.ok()) return failure_;
  if (filled_ < spec_.plan.size()) {
    return FailedPrecondition("capture {}: committed with {} of {} pieces filled", spec_.work_path, filled_,
                              spec_.plan.size());
  }
  committed_ = true;
  GoOn();
  return absl::OkStatus();
}

void CaptureImpl::Go() {
  const absl::MutexLock lock(&mutex_);
  if (!std::exchange(waits_, false) || !committed_) return;
  GoOn();
}

// With what is committed.
void CaptureImpl::GoOn() {
  if (waits_) return;
  writes_.Committed();
  PostHashing();
  PostWriting();
  Settle();
}

void CaptureImpl::Abort() {
  const absl::MutexLock lock(&mutex_);
  Fail(Cancelled("capture {}: aborted", spec_.work_path));
  Settle();
}

// --- Hashing ---

bool CaptureImpl::digesting() const {
  return spec_.letter == ftiff::Letter::kF && (spec_.want_digests || (spec_.base.has_value() && spec_.base->compared));
}

void CaptureImpl::PostHashing() {
  if (stopping_ || ((!committed_ || waits_) && !table_.ring()) || (digesting() && digests_ == nullptr)) return;
  while (jobs_unclaimed_ < hashes_.jobs_wanted() && jobs_ < pool_.threads()) {
    ++jobs_;
    ++jobs_unclaimed_;
    company_->Post(Self());
  }
}

bool CaptureImpl::Claim(HashPart& part, std::size_t lanes_max) {
  const absl::MutexLock lock(&mutex_);
  if (part.posted) {  // the job that was posted begins
    --jobs_unclaimed_;
    --jobs_;
  }
  if (!stopping_) hashes_.Claim(lanes_max, part.work);
  if (part.work.claims.empty()) return false;
  ++jobs_;
  return true;
}

// It ends at once, unless something else of it is still under way.
void CaptureImpl::FailUnless(const absl::Status& status) {
  if (status.ok()) return;
  const absl::MutexLock lock(&mutex_);
  Fail(status);
  Settle();
}

void CaptureImpl::Publish(const HashPart& part) {
  const absl::MutexLock lock(&mutex_);
  --jobs_;
  if (stopping_) return;
  hashes_.Publish(part.work,
                  [this](std::size_t window) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { writes_.Hashed(window); });
  PostHashing();
  PostWriting();
  Release();
  Settle();
}

void CaptureImpl::GiveBack(const HashPart& part) {
  const absl::MutexLock lock(&mutex_);
  --jobs_;
  hashes_.GiveBack(part.work);
  PostHashing();
}

std::shared_ptr<HashCompany> MakeHashCompany(WorkPool& pool) {
  return std::make_shared<HashCompany>(pool);
}

std::shared_ptr<Capture> Capture::Start(Disk& disk, WorkPool& pool, Spec spec, Callbacks callbacks, Waiting waiting,
                                        std::shared_ptr<HashCompany> company) {
  auto capture = std::make_shared<CaptureImpl>(disk, pool, std::move(spec), std::move(callbacks), std::move(waiting),
                                               std::move(company));
  capture->Begin();
  return capture;
}

}  // namespace cairn
