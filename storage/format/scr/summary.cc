#include "storage/format/scr/summary.h"

#include <string_view>

#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/format/scr/fields.h"

namespace cairn::scr {
namespace {

constexpr std::uint64_t kSummaryVersion = 6;

}  // namespace

kvtree::Tree MakeSummary(const Descriptor& descriptor) {
  kvtree::Tree tree;
  tree.Set("VERSION", kSummaryVersion);
  tree.SetBool("COMPLETE", descriptor.complete.value_or(false));
  PutDescriptor(descriptor, tree.At("DSET"));
  return tree;
}

absl::StatusOr<Descriptor> GetSummary(const kvtree::Tree& tree) {
  const std::optional<std::string_view> version = tree.Get("VERSION");
  if (version != std::to_string(kSummaryVersion)) {
    return FailedPrecondition("summary: VERSION is {}, not {}", Quoted(version.value_or("")), kSummaryVersion);
  }
  const kvtree::Tree* found = tree.Find("DSET");
  if (found == nullptr) return DataLoss("summary: no DSET");
  absl::StatusOr<Descriptor> descriptor = GetDescriptor(*found);
  if (!descriptor.ok()) return Annotate(descriptor.status(), "summary: DSET");
  bool complete = false;
  if (absl::Status status = Take(tree.GetBool("COMPLETE"), complete); !status.ok()) return Annotate(status, "summary");
  descriptor->complete = complete && descriptor->complete.value_or(false);
  return descriptor;
}

}  // namespace cairn::scr
