#include "storage/place/arbiter/arbiter.h"

#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr char kSilent[] = "cairn/arbiter-silent";

}  // namespace

absl::Status ArbiterIsSilent(std::string_view text) {
  absl::Status status = Unavailable("{}", text);
  status.SetPayload(kSilent, absl::Cord());
  return status;
}

bool IsArbiterSilent(const absl::Status& status) {
  return status.GetPayload(kSilent).has_value();
}

}  // namespace cairn
