#include "daemon/data/write_queue.h"

#include <algorithm>
#include <utility>

namespace cairn {
namespace {

// A ring's windows are written one by one: then more of them, so that as many bytes are under way.
std::size_t WritesMax(const TransferShape& shape, bool ring) {
  const std::uint64_t bytes = ring ? std::min<std::uint64_t>(shape.bytes, kWindowBytes) : shape.bytes;
  return std::clamp<std::uint64_t>(shape.bytes_in_flight() / bytes, 1, TransferShape::kDepthMax);
}

}  // namespace

WriteQueue::WriteQueue(WindowTable& table, std::uint64_t data_bytes, const TransferShape& shape)
    : table_(table),
      run_bytes_max_(shape.bytes),
      windows_of_run_max_(std::max<std::size_t>(1, shape.bytes / kWindowBytes)),
      writes_max_(WritesMax(shape, table.ring())),
      whole_blocks_end_(data_bytes / kDigestBlockBytes * kDigestBlockBytes) {
  hashed_.reserve(table_.windows().size());
  if (table_.ring()) complete_.reserve(table_.windows().size());
  for (std::size_t i = 0; i < table_.windows().size(); ++i) {
    const bool empty = table_.windows()[i].content == 0;
    if (empty) hashed_.push_back(i);
    // In a new file that comes through a ring, windows without content are left as they are: zeros.
    if (!table_.ring() || !empty) ++unwritten_;
  }
}

void WriteQueue::Use(BaseFile base, const BlockDigests* digests) {
  base_ = std::move(base);
  digests_ = digests;
  unwritten_ = table_.windows().size();
}

void WriteQueue::UseOldFile() {
  for (std::size_t i = 0; table_.ring() && i < table_.windows().size(); ++i) {
    if (table_.windows()[i].content == 0) empty_.push_back(i);
  }
  unwritten_ = table_.windows().size();
}

void WriteQueue::Complete(std::size_t window) {
  complete_.push_back(window);
}

void WriteQueue::Hashed(std::size_t window) {
  hashed_.push_back(window);
}

bool WriteQueue::ready() const {
  if (!committed_ && !table_.ring()) return false;
  if (base_.has_value()) return !hashed_.empty() || !runs_.empty();
  if (!runs_.empty()) return true;
  return table_.ring() ? !complete_.empty() || !empty_.empty() : next_ < table_.windows().size();
}

std::optional<WriteQueue::Run> WriteQueue::Next() {
  if (!ready()) return std::nullopt;
  if (base_.has_value()) {
    if (runs_.empty()) {
      FindRuns(hashed_.front());
      hashed_.pop_front();
    }
    return FirstOfRuns();
  }
  if (!runs_.empty()) return FirstOfRuns();
  if (table_.ring()) {
    Fifo<std::size_t>& from = complete_.empty() ? empty_ : complete_;
    const std::size_t window = from.front();
    from.pop_front();
    return WindowsFrom(window, 1);
  }
  const Run run = WindowsFrom(next_, std::min(windows_of_run_max_, table_.windows().size() - next_));
  next_ += run.count;
  return run;
}

WriteQueue::Run WriteQueue::FirstOfRuns() {
  const Run run = runs_.front();
  runs_.pop_front();
  return run;
}

WriteQueue::Run WriteQueue::WindowsFrom(std::size_t first, std::size_t count) {
  if (run_bytes_max_ < kWindowBytes) {
    SplitWindow(first);
    return FirstOfRuns();
  }
  for (std::size_t i = first; i < first + count; ++i) table_.windows()[i].runs_left = 1;
  const std::uint64_t offset = table_.WindowBegin(first);
  const std::uint64_t end = std::min(table_.WindowBegin(first + count), whole_blocks_end_);
  return {.first = first, .count = count, .begins = true, .offset = offset, .bytes = end - offset};
}

void WriteQueue::SplitWindow(std::size_t window) {
  const std::uint64_t begin = table_.WindowBegin(window);
  const std::uint64_t end = std::min(table_.WindowBegin(window + 1), whole_blocks_end_);
  std::uint64_t at = begin;
  do {
    const std::uint64_t bytes = std::min(run_bytes_max_, end - at);
    runs_.push_back({.first = window, .count = 1, .begins = at == begin, .offset = at, .bytes = bytes});
    at += bytes;
  } while (at < end);
  table_.windows()[window].runs_left = static_cast<std::uint32_t>(runs_.size());
}

void WriteQueue::FindRuns(std::size_t window) {
  const std::uint64_t begin = table_.WindowBegin(window);
  const std::uint64_t end = std::min(table_.WindowBegin(window + 1), whole_blocks_end_);
  for (std::uint64_t at = begin; at < end; at += kDigestBlockBytes) {
    const std::uint64_t block = at / kDigestBlockBytes;
    if (base_->Holds(block, digests_->blocks[block])) continue;
    const bool goes_on =
        !runs_.empty() && runs_.back().offset + runs_.back().bytes == at && runs_.back().bytes < run_bytes_max_;
    if (!goes_on) {
      runs_.push_back({.first = window, .count = 1, .begins = runs_.empty(), .offset = at, .bytes = 0});
    }
    runs_.back().bytes += kDigestBlockBytes;
  }
  if (runs_.empty()) runs_.push_back({.first = window, .count = 1, .begins = true, .offset = begin, .bytes = 0});
  table_.windows()[window].runs_left = static_cast<std::uint32_t>(runs_.size());
}

void WriteQueue::Written(const Run& run) {
  bytes_written_ += run.bytes;
  for (std::size_t i = run.first; i < run.first + run.count; ++i) {
    WindowTable::Window& window = table_.windows()[i];
    if (--window.runs_left > 0) continue;
    window.written = true;
    --unwritten_;
  }
}

}  // namespace cairn
