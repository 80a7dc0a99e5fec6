// A capture's file: opened, written, brought to its end.
#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>

#include "daemon/data/base_file.h"
#include "daemon/data/capture_impl.h"
#include "daemon/data/layout_a.h"
#include "daemon/data/tail.h"
#include "storage/base/caught.h"
#include "storage/base/status.h"
#include "storage/format/ftiff/codec.h"

namespace cairn {
namespace {

// What a ring, which has no place for windows without content, writes over what a base has there.
alignas(kDirectAlignment) std::array<std::byte, kWindowBytes> zeros;  // never written, so that no page of it is made

}  // namespace

// --- Writing ---

void CaptureImpl::Open() {
  auto file = Caught([this] {
    PrepareDigests();
    auto opened = OpenFile();
    MakeFlights();  // how many depends on the base
    return opened;
  });
  const absl::MutexLock lock(&mutex_);
  --busy_;
  if (file.ok()) {
    file_ = *std::move(file);
    opened_ = true;
  } else {
    Fail(file.status());
  }
  PostWriting();
  Settle();
}

void CaptureImpl::PrepareDigests() {
  if (!digesting()) return;
  auto digests = std::make_shared<BlockDigests>(ZeroDigests(spec_.layout.data_bytes));
  const absl::MutexLock lock(&mutex_);
  digests_ = std::move(digests);
  hashes_.MakeDigests(digests_.get());
  PostHashing();
}

void CaptureImpl::MakeFlights() {
  const absl::MutexLock lock(&mutex_);
  flights_.resize(writes_.in_flight_max());
  for (Flight& flight : flights_) free_flights_.push_back(&flight);
}

// With the base in it, or new.
absl::StatusOr<std::unique_ptr<File>> CaptureImpl::OpenFile() {
  const std::uint64_t file_bytes = spec_.layout.file_bytes(ftiff::Letter::kF);
  if (spec_.letter == ftiff::Letter::kF && spec_.base.has_value()) {
    absl::StatusOr<BaseFile> base = TakeBase(disk_, *spec_.base, spec_.work_path, spec_.layout.data_bytes, file_bytes,
                                             [this] { return stopping_.load(); });
    const absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    base_status_ = base.status();
    new_file_ = !base.ok();
    if (base.ok()) {
      const auto damaged = std::count(base->damaged.begin(), base->damaged.end(), true);
      if (damaged > 0) {
        base_status_ =
            DataLoss("base {}: {} of its MiB are not what its catalogue says: written anew", spec_.base->path, damaged);
      }
      std::unique_ptr<File> file = std::move(base->file);
      spec_.base->compared ? writes_.Use(*std::move(base), digests_.get()) : writes_.UseOldFile();
      return file;
    }
  }
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<File> file,
                         disk_.Open(spec_.work_path, {.direct = true, .writable = true, .create = true}));
  // At its full length from the begin, no write has to extend it: extending ones exclude each other.
  CAIRN_RETURN_IF_ERROR(file->Truncate(file_bytes));
  return file;
}

void CaptureImpl::PostWriting() {
  if (!opened_ || !failure_.ok() || writer_posted_) return;
  if (flights_.size() - free_flights_.size() > writes_.in_flight_low()) return;
  if (!writes_.ready()) return;
  writer_posted_ = true;
  ++busy_;
  waiting_([self = Self()] { self->WriteSome(); });
}

void CaptureImpl::WriteSome() {
  while (true) {
    Flight* flight = nullptr;
    {
      const absl::MutexLock lock(&mutex_);
      absl::Status found = Caught([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { flight = NextFlight(); });
      if (!found.ok()) Fail(std::move(found));
      if (flight == nullptr) {
        writer_posted_ = false;
        --busy_;
        Settle();
        return;
      }
      ++busy_;
    }
    // Whoever throws has not taken the run over: Written does not.
    if (const absl::Status begun = Caught([&] { Write(*flight); }); !begun.ok()) Written(*flight, begun);
  }
}

CaptureImpl::Flight* CaptureImpl::NextFlight() {
  if (!failure_.ok() || free_flights_.empty()) return nullptr;
  const std::optional<Run> run = writes_.Next();
  if (!run.has_value()) return nullptr;
  Flight* const flight = free_flights_.back();
  free_flights_.pop_back();
  *flight = {.capture = Self(), .run = *run};
  return flight;
}

// The gaps become zeros, and the last bytes of data are kept for WriteTail, with the first of a window's writes.
void CaptureImpl::BeginWindows(const Run& run) {
  const std::size_t end = run.first + run.count;
  for (std::size_t i = run.first; i < end; ++i) places_.ZeroGaps(i, image_);
  if (end < places_.windows().size()) return;
  const WindowTable::Window& last = places_.windows().back();
  std::copy_n(image_.data() + last.image_offset + (last.bytes - data_rest_.size()), data_rest_.size(),
              data_rest_.begin());
}

void CaptureImpl::Write(Flight& flight) {
  const Run& run = flight.run;
  const bool in_image = !places_.ring() || places_.windows()[run.first].content > 0;
  if (run.begins && in_image) BeginWindows(run);
  if (run.bytes == 0) return Written(flight, absl::OkStatus());
  const std::span<const std::byte> from =
      in_image ? image_.subspan(places_.ImageOffset(run.offset), run.bytes) : std::span(zeros).first(run.bytes);
  file_->WriteAsync(run.offset, from, [this, &flight](const absl::Status& status) { Written(flight, status); });
}

void CaptureImpl::Written(Flight& flight, const absl::Status& status) {
  const std::shared_ptr<CaptureImpl> self = std::move(flight.capture);
  if (self == nullptr) return;  // it has ended already: it must not be free twice
  const absl::MutexLock lock(&mutex_);
  free_flights_.push_back(&flight);
  --busy_;
  absl::Status taken = status;
  if (status.ok()) {
    taken = Caught([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      writes_.Written(flight.run);
      Release();
    });
  }
  if (!taken.ok()) Fail(std::move(taken));
  PostWriting();
  Settle();
}

void CaptureImpl::Release() {
  if (!table_.ring() || !failure_.ok()) return;
  const std::uint64_t before = released_;
  while (released_ < completed_.size()) {
    const WindowTable::Window& window = table_.windows()[completed_[released_]];
    if (!window.written || window.unhashed > 0) break;
    ++released_;
  }
  if (released_ != before) callbacks_.on_released(released_);
}

// --- The end ---

void CaptureImpl::Fail(absl::Status status) {
  if (!failure_.ok() || ended_) return;
  failure_ = std::move(status);
  stopping_ = true;
}

void CaptureImpl::Settle() {
  if (finishing_ || busy_ > 0) return;
  if (failure_.ok() && (!committed_ || !writes_.all_written() || !hashes_.all_hashed())) return;
  waiting_([self = Self()] { self->Finish(); });
  finishing_ = true;  // not if that has thrown: the next one to settle tries again
}

void CaptureImpl::Finish() {
  absl::Status status;
  {
    const absl::MutexLock lock(&mutex_);
    status = failure_;
  }
  absl::StatusOr<CaptureResult> result = status.ok() ? Caught([this] { return WriteEnd(); }) : status;
  std::function<void(absl::StatusOr<CaptureResult>)> on_end;
  {
    const absl::MutexLock lock(&mutex_);
    if (result.ok() && !failure_.ok()) result = failure_;
    ended_ = true;
    on_end = std::move(callbacks_.on_end);
    callbacks_ = {};
  }
  file_ = nullptr;
  if (!result.ok()) {
    // Not there if it could not be made; a work name is garbage anyway.
    Caught([this] { return disk_.Remove(spec_.work_path); }).IgnoreError();
  }
  on_end(std::move(result));
}

std::vector<Md5Digest> CaptureImpl::ChunkHashes() {
  const std::vector<ftiff::Container>& containers = spec_.layout.containers;
  std::vector<Md5Digest> hashes(containers.size(), Md5({}));
  for (std::size_t i = 0; i < std::min(hashes.size(), spec_.last_hashes.size()); ++i) {
    if (!containers[i].has_content) hashes[i] = spec_.last_hashes[i];
  }
  for (const WindowTable::Chunk& chunk : table_.chunks()) hashes[chunk.container] = chunk.hash.Finish();
  return hashes;
}

std::vector<view::Bounds> CaptureImpl::ChunkBounds() {
  if (spec_.scans.empty()) return {};
  std::vector<view::Bounds> bounds(spec_.layout.containers.size());
  for (const WindowTable::Chunk& chunk : table_.chunks()) bounds[chunk.container] = chunk.scan.Finish();
  return bounds;
}

absl::StatusOr<CaptureResult> CaptureImpl::WriteEnd() {
  const ftiff::FileLayout& layout = spec_.layout;
  const ftiff::FileHeader header{.checkpoint_id = spec_.checkpoint_id, .timestamp_ns = spec_.timestamp_ns};
  std::vector<Md5Digest> hashes;
  std::vector<view::Bounds> bounds;
  std::vector<BlockCrc> windows;
  std::shared_ptr<const BlockDigests> digests;
  {
    const absl::MutexLock lock(&mutex_);
    hashes = ChunkHashes();
    bounds = ChunkBounds();
    digests = digests_;
    if (digests == nullptr) {
      windows.reserve(table_.windows().size());
      for (const WindowTable::Window& window : table_.windows()) windows.push_back(window.crc);
    }
  }
  // Nothing changes the digests any more.
  if (digests != nullptr) windows = WindowCrcs(*digests);
  CaptureResult result = SumUp(layout.data_bytes, windows, ftiff::EncodeMetadata(layout, hashes, header));
  CAIRN_RETURN_IF_ERROR(WriteTail(*file_, layout.data_bytes, data_rest_, result.metadata));
  if (spec_.letter == ftiff::Letter::kA) {
    file_ = nullptr;
    const ftiff::FileToWrite file{.letter = spec_.letter,
                                  .header = header,
                                  .layout = layout,
                                  .chunk_hashes = hashes,
                                  .registered = spec_.registered};
    CAIRN_ASSIGN_OR_RETURN(result, WriteLayoutA(disk_, spec_.work_path, file, [this] { return stopping_.load(); }));
  } else {
    CAIRN_RETURN_IF_ERROR(file_->Sync());
    const absl::MutexLock lock(&mutex_);
    result.bytes_written = writes_.bytes_written() + data_rest_.size() + result.metadata.size();
    if (spec_.want_digests) result.digests = std::move(digests);
    result.new_file = new_file_;
    result.base_status = base_status_;
  }
  result.layout = layout;
  result.chunk_hashes = std::move(hashes);
  result.bounds = std::move(bounds);
  return result;
}

}  // namespace cairn
