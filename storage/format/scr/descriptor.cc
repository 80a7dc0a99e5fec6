#include "storage/format/scr/descriptor.h"

#include "proto/frame.h"
#include "storage/base/status.h"
#include "storage/format/scr/fields.h"

namespace cairn::scr {
namespace {

template <typename T>
void PutOptional(std::string_view key, const std::optional<T>& value, kvtree::Tree& tree) {
  if (value) {
    tree.Set(key, std::uint64_t{*value});
  } else {
    tree.Erase(key);
  }
}

}  // namespace

std::vector<Rank> RanksHeld(const Descriptor& descriptor) {
  NumberRanges held;
  if (descriptor.held) {
    held = *descriptor.held;
  } else if (descriptor.ranks.value_or(0) > 0) {
    held.AddRange(0, *descriptor.ranks - 1);
  }
  const std::vector<std::uint64_t> numbers = held.Numbers();
  return {numbers.begin(), numbers.end()};
}

void PutDescriptor(const Descriptor& descriptor, kvtree::Tree& tree) {
  tree.Set("ID", descriptor.id);
  PutText("NAME", descriptor.name, tree);
  tree.SetBool("FLAG_CKPT", descriptor.checkpoint);
  tree.SetBool("FLAG_OUTPUT", descriptor.output);
  tree.SetInt("CREATED", descriptor.created_us);
  PutText("USER", descriptor.user, tree);
  PutText("JOBNAME", descriptor.job_name, tree);
  PutText("JOBID", descriptor.job_id, tree);
  PutText("CLUSTER", descriptor.cluster, tree);
  std::optional<std::uint64_t> checkpoint_id = descriptor.checkpoint_id;
  if (!checkpoint_id && descriptor.checkpoint) checkpoint_id = descriptor.id;
  PutOptional("CKPT", checkpoint_id, tree);

  const bool counted = descriptor.complete.has_value();
  PutOptional("FILES", counted ? std::optional(descriptor.files) : std::nullopt, tree);
  PutOptional("SIZE", counted ? std::optional(descriptor.bytes) : std::nullopt, tree);
  PutOptional("COMPLETE", descriptor.complete, tree);

  PutOptional("CAIRN_LAUNCH", descriptor.launch, tree);
  PutText("CAIRN_MARK", descriptor.mark, tree);
  PutOptional("CAIRN_STEP", descriptor.step, tree);
  PutOptional("CAIRN_RANKS", descriptor.ranks, tree);
  PutOptional("CAIRN_FILES", descriptor.own_files ? std::optional(true) : std::nullopt, tree);
  PutText("CAIRN_HELD", descriptor.held ? TextOf(*descriptor.held) : "", tree);
  const std::uint64_t unverified = descriptor.unverified_files;
  PutOptional("CAIRN_UNVERIFIED", unverified > 0 ? std::optional(unverified) : std::nullopt, tree);
}

absl::StatusOr<Descriptor> GetDescriptor(const kvtree::Tree& tree) {
  Descriptor descriptor;
  CAIRN_RETURN_IF_ERROR(TakeUpTo(kIntMax, tree, "ID", descriptor.id));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetString("NAME"), descriptor.name));
  CAIRN_RETURN_IF_ERROR(TakeUpTo(kIntMax, tree, "CKPT", descriptor.checkpoint_id));
  descriptor.checkpoint = descriptor.checkpoint_id.has_value();
  CAIRN_RETURN_IF_ERROR(Take(tree.GetBool("FLAG_CKPT"), descriptor.checkpoint));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetBool("FLAG_OUTPUT"), descriptor.output));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetInt("CREATED"), descriptor.created_us));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetString("USER"), descriptor.user));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetString("JOBNAME"), descriptor.job_name));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetString("JOBID"), descriptor.job_id));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetString("CLUSTER"), descriptor.cluster));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetUnsigned("FILES"), descriptor.files));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetUnsigned("SIZE"), descriptor.bytes));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetBool("COMPLETE"), descriptor.complete));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetUnsigned("CAIRN_LAUNCH"), descriptor.launch));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetString("CAIRN_MARK"), descriptor.mark));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetUnsigned("CAIRN_STEP"), descriptor.step));
  CAIRN_RETURN_IF_ERROR(TakeUpTo(CAIRN_RANKS_MAX, tree, "CAIRN_RANKS", descriptor.ranks));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetBool("CAIRN_FILES"), descriptor.own_files));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetUnsigned("CAIRN_UNVERIFIED"), descriptor.unverified_files));
  std::string held;
  CAIRN_RETURN_IF_ERROR(Take(tree.GetString("CAIRN_HELD"), held));
  if (!held.empty()) {
    descriptor.held = ParseNumberRanges(held, descriptor.ranks.value_or(0));
    if (!descriptor.held) return DataLoss("CAIRN_HELD is no set of {} ranks", descriptor.ranks.value_or(0));
  }
  return descriptor;
}

absl::StatusOr<Descriptor> GetDescriptorOf(DatasetId id, const kvtree::Tree& entry, std::string_view key) {
  Descriptor descriptor;
  if (const kvtree::Tree* tree = entry.Find(key); tree != nullptr) {
    CAIRN_ASSIGN_OR_RETURN(descriptor, GetDescriptor(*tree));
  } else {
    descriptor.checkpoint = false;
  }
  if (descriptor.id != 0 && descriptor.id != id) return DataLoss("its descriptor is that of dataset {}", descriptor.id);
  descriptor.id = id;
  return descriptor;
}

}  // namespace cairn::scr
