// The dataset descriptor, the same in cache index, flush file, prefix index and summary. SCR specification, section 5.
#ifndef CAIRN_STORAGE_FORMAT_SCR_DESCRIPTOR_H_
#define CAIRN_STORAGE_FORMAT_SCR_DESCRIPTOR_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "storage/base/ids.h"
#include "storage/base/number_ranges.h"
#include "storage/format/kvtree/tree.h"

namespace cairn::scr {

// Cairn adds its own keys: CAIRN_LAUNCH, CAIRN_MARK (which launch of that number; absent: release 0.1.0), CAIRN_STEP,
// CAIRN_RANKS, CAIRN_FILES (1: the application's files), CAIRN_UNVERIFIED, CAIRN_HELD ("0-3,8").
struct Descriptor {
  DatasetId id = 0;  // 1 … 2^31−1: SCR keeps it in an int
  std::string name;  // "ckpt.<id>"
  bool checkpoint = true;
  bool output = false;
  std::int64_t created_us = 0;
  std::string user, job_id, job_name, cluster;  // empty: absent
  std::uint64_t files = 0;                      // over all ranks; known when complete
  std::uint64_t bytes = 0;
  std::optional<bool> complete;  // absent while being written
  // SCR's count of checkpoints. Absent: a checkpoint is written with its id, anything else without.
  std::optional<std::uint64_t> checkpoint_id;
  // Cairn's own; nothing in a descriptor that SCR wrote.
  std::optional<LaunchId> launch;
  std::string mark;  // of the launch's secret (storage/base/launch_mark.h); empty: absent
  std::optional<std::uint64_t> step;
  std::optional<std::uint32_t> ranks;
  // Of a node's cache, when other nodes have the rest: the ranks whose parts lie here, some. Absent: all of them.
  std::optional<NumberRanges> held;
  bool own_files = false;
  std::uint64_t unverified_files = 0;  // adopted as they were found (VerifiedBy.NOTHING in proto/catalogue.proto)
};

// The ranks whose parts are meant, rising.
std::vector<Rank> RanksHeld(const Descriptor& descriptor);

// Writes every field into `tree`, removing keys of absent ones; other keys stay. FILES and SIZE are written once
// `complete` is known.
void PutDescriptor(const Descriptor& descriptor, kvtree::Tree& tree);

// Absent fields keep their defaults, with id 0; without FLAG_CKPT, a dataset with a CKPT is a checkpoint.
//   kDataLoss  a field is no such number or out of range
absl::StatusOr<Descriptor> GetDescriptor(const kvtree::Tree& tree);

// The descriptor below `key` of the entry of dataset `id` (none there: the default). Its ID, if any, must be `id`.
absl::StatusOr<Descriptor> GetDescriptorOf(DatasetId id, const kvtree::Tree& entry, std::string_view key);

}  // namespace cairn::scr

#endif  // CAIRN_STORAGE_FORMAT_SCR_DESCRIPTOR_H_
