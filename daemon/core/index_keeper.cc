#include "daemon/core/index_keeper.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr int kRestTimes = 10;
constexpr std::chrono::milliseconds kAfterError{5000};

}  // namespace

void IndexKeeper::Update() {
  if (!gate_.writable()) return;
  gate_.prefix()->LeaveIndexBehind();
  if (gate_.prefix()->IndexBehind() == 0 || working_ || timer_ != 0 || context_.quiescing()) return;
  since_ = context_.now();
  WaitForQuiet();
}

void IndexKeeper::WaitForQuiet() {
  timer_ = context_.loop().After(rest_, [this, seen = gate_.prefix()->IndexBehind()] {
    timer_ = 0;
    if (!gate_.writable()) return;
    const bool quiet = gate_.prefix()->IndexBehind() == seen;
    quiet || context_.now() - since_ >= kBehindMax ? CatchUp() : WaitForQuiet();
  });
}

bool IndexKeeper::Quiesced() {
  Stop();
  if (!working_ && !failed_) CatchUp();
  return !working_;
}

void IndexKeeper::Stop() {
  if (timer_ != 0) context_.loop().Cancel(std::exchange(timer_, 0));
}

void IndexKeeper::CatchUp() {
  if (!gate_.writable() || gate_.replaced() || gate_.prefix()->IndexBehind() == 0) return;
  working_ = true;
  context_.OnPrefix(
      gate_.path(),
      [prefix = gate_.prefix()] {
        const absl::Status status = prefix->IndexCatchUp();
        malloc_trim(0);  // what a long index takes while it is read and written is not wanted again soon
        return status;
      },
      [this, began = context_.now()](const absl::Status& status) { Ended(status, began); });
}

// What is not in the index is durable all the same, and read by whoever is Cairn's.
void IndexKeeper::Ended(const absl::Status& status, SteadyTime began) {
  working_ = false;
  failed_ = !status.ok();
  if (!status.ok() && !std::exchange(warned_, true)) {
    context_.Warn(fmt::format("run {}: SCR does not see the newest datasets yet: {}", run_name_, MessageOf(status)));
  }
  if (status.ok()) warned_ = false;
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(context_.now() - began);
  rest_ = status.ok() ? std::clamp(kRestTimes * took, kQuiet, kBehindMax) : kAfterError;
  Update();
  on_end_();
}

}  // namespace cairn
