// Where each dataset of a prefix is now: flush.scr. SCR specification, section 7.1.
#ifndef CAIRN_STORAGE_FORMAT_SCR_FLUSH_FILE_H_
#define CAIRN_STORAGE_FORMAT_SCR_FLUSH_FILE_H_

#include <absl/status/statusor.h>

#include <map>
#include <optional>
#include <string>

#include "storage/base/ids.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/descriptor.h"

namespace cairn::scr {

// One dataset's entry. Only the locations are always there: SCR's fetch writes nothing else.
struct FlushEntry {
  std::string name;
  bool in_cache = false, in_prefix = false, flushing = false, sync_flushing = false;
  bool checkpoint = false, output = false;
  std::optional<Descriptor> descriptor;
};

// The entry is then exactly this, but for keys and locations that are unknown.
void PutFlushEntry(DatasetId id, const FlushEntry& entry, kvtree::Tree& flush);

// kDataLoss, naming the dataset: an id that is none, or a bad field.
absl::StatusOr<std::map<DatasetId, FlushEntry>> GetFlushEntries(const kvtree::Tree& flush);

void EraseFlushEntry(DatasetId id, kvtree::Tree& flush);

}  // namespace cairn::scr

#endif  // CAIRN_STORAGE_FORMAT_SCR_FLUSH_FILE_H_
