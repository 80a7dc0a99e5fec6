// A capture's state. Its functions: what a client says and hashing are in capture.cc, the file is in capture_file.cc.
#ifndef CAIRN_DAEMON_DATA_CAPTURE_IMPL_H_
#define CAIRN_DAEMON_DATA_CAPTURE_IMPL_H_

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "daemon/data/block_digests.h"
#include "daemon/data/capture.h"
#include "daemon/data/hash_company.h"
#include "daemon/data/hash_queue.h"
#include "daemon/data/window_table.h"
#include "daemon/data/work_pool.h"
#include "daemon/data/write_queue.h"
#include "storage/io/disk.h"

namespace cairn {

class CaptureImpl final : public Capture, public HashPartner {
 public:
  CaptureImpl(Disk& disk, WorkPool& pool, Spec spec, Callbacks callbacks, Waiting waiting,
              std::shared_ptr<HashCompany> company)
      : disk_(disk),
        pool_(pool),
        waiting_(OrPoolsOwn(std::move(waiting), pool)),
        company_(company ? std::move(company) : std::make_shared<HashCompany>(pool)),
        spec_(std::move(spec)),
        image_(spec_.image == nullptr ? std::span<std::byte>() : spec_.image->bytes()),
        places_(table_),
        data_rest_(spec_.layout.data_bytes % kDirectAlignment),
        callbacks_(std::move(callbacks)),
        table_(spec_.layout, spec_.plan, image_.size()),
        waits_(spec_.waits && !table_.ring()),
        hashes_(table_, image_),
        writes_(table_, spec_.layout.data_bytes, disk.shapes().write) {
    if (table_.ring()) completed_.reserve(table_.windows().size());
    for (WindowTable::Chunk& chunk : table_.chunks()) {
      if (chunk.container < spec_.scans.size()) chunk.scan = spec_.scans[chunk.container];
    }
  }

  void Begin() {
    const absl::MutexLock lock(&mutex_);
    ++busy_;
    waiting_([self = Self()] { self->Open(); });
  }

  const std::vector<PlanPiece>& plan() const override { return spec_.plan; }
  absl::Status Filled(std::uint64_t pieces) override;
  absl::Status Put(std::uint64_t index, std::span<const std::byte> bytes, std::uint32_t crc32c) override;
  std::uint64_t pieces_filled() const override {
    const absl::MutexLock lock(&mutex_);
    return filled_;
  }
  absl::Status Commit() override;
  void Go() override;
  void Abort() override;

  bool Claim(HashPart& part, std::size_t lanes_max) override;
  void Publish(const HashPart& part) override;
  void GiveBack(const HashPart& part) override;
  bool NoMore() const override { return stopping_; }
  void HashingFailed(const absl::Status& why) override { FailUnless(why); }

 private:
  using Run = WriteQueue::Run;
  // Room for a write under way.
  struct Flight {
    std::shared_ptr<CaptureImpl> capture;  // kept alive by it
    Run run;
  };

  std::shared_ptr<CaptureImpl> Self() { return std::static_pointer_cast<CaptureImpl>(shared_from_this()); }

  bool digesting() const;

  absl::Status CheckFilled(std::uint64_t pieces) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakePieces(std::uint64_t pieces) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GoOn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PostHashing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PostWriting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Release() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fail(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Once all is hashed.
  std::vector<Md5Digest> ChunkHashes() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<view::Bounds> ChunkBounds() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Without the lock, on threads of the pool or of the disk.
  void FailUnless(const absl::Status& status);
  void Open();
  void PrepareDigests();
  void MakeFlights();
  absl::StatusOr<std::unique_ptr<File>> OpenFile();
  void WriteSome();
  Flight* NextFlight() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);  // null: nothing is to be written now
  void BeginWindows(const Run& run);
  void Write(Flight& flight);
  void Written(Flight& flight, const absl::Status& status);
  void Finish();
  absl::StatusOr<CaptureResult> WriteEnd();

  Disk& disk_;
  WorkPool& pool_;
  const Waiting waiting_;
  const std::shared_ptr<HashCompany> company_;
  const Spec spec_;
  const std::span<std::byte> image_;

  // table_, to be read without the lock: only where the windows lie, which never changes.
  const WindowTable& places_;

  // Each of one thread after the other.
  std::vector<std::byte> data_rest_;  // what the last window leaves to WriteTail; of its writer, then of Finish
  std::unique_ptr<File> file_;        // set by Open before any other waiter runs

  mutable absl::Mutex mutex_;
  Callbacks callbacks_ ABSL_GUARDED_BY(mutex_);
  WindowTable table_ ABSL_GUARDED_BY(mutex_);

  std::uint64_t filled_ ABSL_GUARDED_BY(mutex_) = 0;
  bool committed_ ABSL_GUARDED_BY(mutex_) = false;
  bool waits_ ABSL_GUARDED_BY(mutex_);  // for Go

  HashQueue hashes_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<BlockDigests> digests_ ABSL_GUARDED_BY(mutex_);  // null: none are made, or not yet
  std::size_t jobs_ ABSL_GUARDED_BY(mutex_) = 0;                   // posted, or running for it
  std::size_t jobs_unclaimed_ ABSL_GUARDED_BY(mutex_) = 0;         // of these, not begun

  WriteQueue writes_ ABSL_GUARDED_BY(mutex_);
  bool opened_ ABSL_GUARDED_BY(mutex_) = false;
  bool writer_posted_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Flight> flights_;  // as many as there may be; made with the file
  std::vector<Flight*> free_flights_ ABSL_GUARDED_BY(mutex_);
  bool new_file_ ABSL_GUARDED_BY(mutex_) = true;
  absl::Status base_status_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::size_t> completed_ ABSL_GUARDED_BY(mutex_);  // ring: windows, in this order
  std::uint64_t released_ ABSL_GUARDED_BY(mutex_) = 0;          // so many of these

  // The end. `busy_` counts what still uses the file: the opening, the writer, writes in flight.
  std::size_t busy_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> stopping_{false};  // failure_ is set; changes under the lock
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_CAPTURE_IMPL_H_
