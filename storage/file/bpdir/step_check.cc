#include "storage/file/bpdir/step_check.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "storage/base/status.h"

namespace cairn::bpdir {
namespace {

constexpr char kMetadata[] = "md.0";
constexpr std::uint64_t kStepBytesMin = 4096;  // of steps that are looked at
constexpr std::uint64_t kSlotBytesMin = 1024;  // of slots of which the format is looked at
constexpr std::uint64_t kSizesAtOnce = 8192;

class StepCheck {
 public:
  StepCheck(FileSource& files, const bp5::Metadata& known, const StepPlace& step) : files_(files), step_(step) {
    for (const bp5::Format* const format : known.formats()) ids_.push_back(format->id.bytes);
    std::ranges::sort(ids_);
  }

  absl::Status Run() {
    std::uint64_t length = 0;
    CAIRN_RETURN_IF_ERROR(files_.Read(kMetadata, step_.begin, std::as_writable_bytes(std::span(&length, 1))));
    if (length != step_.bytes - 8) return Bad(fmt::format("{} bytes by md.0, {} by md.idx", length, step_.bytes - 8));
    const std::uint64_t slots = 2 * step_.writers;
    slot_begin_ = step_.begin + 8 + 8 * slots;
    left_ = step_.bytes - 8 - 8 * slots;
    std::vector<std::uint64_t> sizes;
    for (std::uint64_t first = 0; first < slots; first += sizes.size()) {
      sizes.resize(std::min(slots - first, kSizesAtOnce));
      CAIRN_RETURN_IF_ERROR(
          files_.Read(kMetadata, step_.begin + 8 + 8 * first, std::as_writable_bytes(std::span(sizes))));
      for (std::size_t i = 0; i < sizes.size(); ++i) CAIRN_RETURN_IF_ERROR(TakeSlot(first + i, sizes[i]));
    }
    if (left_ != 0) return Bad(fmt::format("{} bytes behind the slots", left_));
    return absl::OkStatus();
  }

 private:
  absl::Status Bad(std::string_view what) const {
    return DataLoss("{}: step at {}: {}", files_.NameOf(kMetadata), step_.begin, what);
  }

  absl::Status TakeSlot(std::uint64_t slot, std::uint64_t bytes) {
    const bool attributes = slot >= step_.writers;
    if (bytes > left_ || bytes % 8 != 0 || (bytes == 0 && !attributes)) {
      return Bad(fmt::format("slot {} of {} bytes, {} are left", slot, bytes, left_));
    }
    if (bytes >= kSlotBytesMin) {
      std::array<std::uint8_t, 12> id;
      CAIRN_RETURN_IF_ERROR(files_.Read(kMetadata, slot_begin_, std::as_writable_bytes(std::span(id))));
      if (!std::ranges::binary_search(ids_, id)) {
        return Bad(fmt::format("slot {} at {}: its format is not in mmd.0", slot, slot_begin_));
      }
    }
    slot_begin_ += bytes;
    left_ -= bytes;
    return absl::OkStatus();
  }

  FileSource& files_;
  const StepPlace step_;
  std::vector<std::array<std::uint8_t, 12>> ids_;
  std::uint64_t slot_begin_ = 0, left_ = 0;
};

}  // namespace

absl::Status CheckStep(FileSource& files, const bp5::Metadata& known, const StepPlace& step) {
  return step.bytes < kStepBytesMin ? absl::OkStatus() : StepCheck(files, known, step).Run();
}

}  // namespace cairn::bpdir
