#include "storage/job/drain/windows.h"

#include <algorithm>

#include "storage/base/check.h"

namespace cairn::drain {

Windows::Windows(const Shape& shape)
    : shape_(shape), parts_(std::max<std::size_t>(1, (shape.windows + shape.per_part - 1) / shape.per_part)) {
  for (std::size_t part = 0; part < parts_; ++part) unwritten_.push_back(EndOf(part) - part * shape.per_part);
}

std::size_t Windows::EndOf(std::size_t part) const {
  return std::min((part + 1) * shape_.per_part, shape_.windows);
}

std::size_t Windows::waiting() const {
  const absl::MutexLock lock(&mutex_);
  return waiting_;
}

void Windows::WaitForChange() {
  ++waiting_;
  changed_.Wait(&mutex_);
  --waiting_;
}

std::optional<Windows::Step> Windows::Next() {
  const absl::MutexLock lock(&mutex_);
  for (;;) {
    const bool all_written = next_write_ == shape_.windows;
    const bool all_read = !shape_.read_back || next_read_ == shape_.windows;
    if (over_ || (all_written && all_read)) return std::nullopt;
    if (!all_read && next_read_ < synced_ && (all_written || readers_ < shape_.readers_max)) {
      ++readers_;
      return Step{.what = Step::What::kReadBack, .window = next_read_++};
    }
    if (!all_written) return Step{.what = Step::What::kWrite, .window = next_write_++};
    WaitForChange();
  }
}

void Windows::Done(const Step& step) {
  const absl::MutexLock lock(&mutex_);
  if (step.what == Step::What::kReadBack) {
    --readers_;
  } else if (--unwritten_[step.window / shape_.per_part] == 0) {
    changed_.SignalAll();
  }
}

bool Windows::AwaitWritten(std::size_t part) {
  const absl::MutexLock lock(&mutex_);
  while (!over_ && unwritten_[part] > 0) WaitForChange();
  return !over_;
}

void Windows::Synced(std::size_t part) {
  const absl::MutexLock lock(&mutex_);
  CAIRN_CHECK(unwritten_[part] == 0);
  synced_ = EndOf(part);
  changed_.SignalAll();
}

void Windows::End() {
  const absl::MutexLock lock(&mutex_);
  over_ = true;
  changed_.SignalAll();
}

}  // namespace cairn::drain
