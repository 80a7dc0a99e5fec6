#include "daemon/data/write_queue.h"

#include <algorithm>
#include <utility>

namespace cairn {

WriteQueue::WriteQueue(WindowTable& table, std::uint64_t data_bytes)
    : table_(table), whole_blocks_end_(data_bytes / kDigestBlockBytes * kDigestBlockBytes) {
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

void WriteQueue::Complete(std::size_t window) {
  complete_.push_back(window);
}

void WriteQueue::Hashed(std::size_t window) {
  hashed_.push_back(window);
}

bool WriteQueue::ready() const {
  if (!committed_ && !table_.ring()) return false;
  if (base_.has_value()) return !hashed_.empty() || !runs_.empty();
  return table_.ring() ? !complete_.empty() : next_ < table_.windows().size();
}

std::optional<WriteQueue::Run> WriteQueue::Next() {
  if (!ready()) return std::nullopt;
  if (base_.has_value()) {
    if (runs_.empty()) {
      FindRuns(hashed_.front());
      hashed_.pop_front();
    }
    const Run run = runs_.front();
    runs_.pop_front();
    return run;
  }
  if (table_.ring()) {
    const std::size_t window = complete_.front();
    complete_.pop_front();
    return WindowsFrom(window, 1);
  }
  const Run run = WindowsFrom(next_, std::min(kWindowsOfRunMax, table_.windows().size() - next_));
  next_ += run.count;
  return run;
}

WriteQueue::Run WriteQueue::WindowsFrom(std::size_t first, std::size_t count) {
  for (std::size_t i = first; i < first + count; ++i) table_.windows()[i].runs_left = 1;
  const std::uint64_t offset = table_.WindowBegin(first);
  const std::uint64_t end = std::min(table_.WindowBegin(first + count), whole_blocks_end_);
  return {.first = first, .count = count, .begins = true, .offset = offset, .bytes = end - offset};
}

void WriteQueue::FindRuns(std::size_t window) {
  const std::uint64_t begin = table_.WindowBegin(window);
  const std::uint64_t end = std::min(table_.WindowBegin(window + 1), whole_blocks_end_);
  for (std::uint64_t at = begin; at < end; at += kDigestBlockBytes) {
    const std::uint64_t block = at / kDigestBlockBytes;
    if (base_->Holds(block, digests_->blocks[block])) continue;
    if (runs_.empty() || runs_.back().offset + runs_.back().bytes != at) {
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
