#include "storage/file/bpdir/step_check.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "storage/base/status.h"
#include "storage/file/bpdir/number_at.h"

namespace cairn::bpdir {
namespace {

constexpr std::uint64_t kSlotBytesMin = 1024;  // of slots of which the format is looked at
constexpr std::uint64_t kTableBegin = 8;       // of the sizes of slots, behind the step's length

}  // namespace

StepCheck::StepCheck(const bp5::Metadata& known, std::string file, const StepPlace& step)
    : file_(std::move(file)),
      step_(step),
      slots_(2 * step.writers),
      left_(step.bytes - kTableBegin - 8 * slots_),
      head_begin_(kTableBegin + 8 * slots_) {
  for (const bp5::Format* const format : known.formats()) ids_.push_back(format->id.bytes);
  std::ranges::sort(ids_);
}

absl::Status StepCheck::Bad(std::string_view what) const {
  return DataLoss("{}: step at {}: {}", file_, step_.begin, what);
}

absl::Status StepCheck::Take(std::span<const std::byte> so_far) {
  if (so_far.size() < kTableBegin) return absl::OkStatus();
  const std::uint64_t length = NumberAt(so_far, 0);
  if (length != step_.bytes - 8) return Bad(fmt::format("{} bytes by md.0, {} by md.idx", length, step_.bytes - 8));
  CAIRN_RETURN_IF_ERROR(TakeSizes(so_far));
  return sizes_ == slots_ ? TakeHeads(so_far) : absl::OkStatus();
}

absl::Status StepCheck::TakeSizes(std::span<const std::byte> so_far) {
  for (; sizes_ < slots_ && kTableBegin + 8 * (sizes_ + 1) <= so_far.size(); ++sizes_) {
    const std::uint64_t bytes = NumberAt(so_far, kTableBegin + 8 * sizes_);
    const bool attributes = sizes_ >= step_.writers;
    if (bytes > left_ || bytes % 8 != 0 || (bytes == 0 && !attributes)) {
      return Bad(fmt::format("slot {} of {} bytes, {} are left", sizes_, bytes, left_));
    }
    left_ -= bytes;
  }
  if (sizes_ == slots_ && left_ != 0) return Bad(fmt::format("{} bytes behind the slots", left_));
  return absl::OkStatus();
}

absl::Status StepCheck::TakeHeads(std::span<const std::byte> so_far) {
  std::array<std::uint8_t, 12> id;
  for (; heads_ < slots_ && head_begin_ + id.size() <= so_far.size(); ++heads_) {
    const std::uint64_t bytes = NumberAt(so_far, kTableBegin + 8 * heads_);
    if (bytes >= kSlotBytesMin) {
      std::memcpy(id.data(), &so_far[head_begin_], id.size());
      if (!std::ranges::binary_search(ids_, id)) {
        return Bad(fmt::format("slot {} at {}: its format is not in mmd.0", heads_, step_.begin + head_begin_));
      }
    }
    head_begin_ += bytes;
  }
  return absl::OkStatus();
}

}  // namespace cairn::bpdir
