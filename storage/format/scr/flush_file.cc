#include "storage/format/scr/flush_file.h"

#include <string_view>
#include <utility>

#include "storage/base/status.h"
#include "storage/format/scr/fields.h"

namespace cairn::scr {
namespace {

// Each location and the member of an entry that says it.
constexpr std::pair<std::string_view, bool FlushEntry::*> kLocations[] = {
    {"CACHE", &FlushEntry::in_cache},
    {"PFS", &FlushEntry::in_prefix},
    {"FLUSHING", &FlushEntry::flushing},
    {"SYNC_FLUSHING", &FlushEntry::sync_flushing},
};

void PutMark(std::string_view key, bool set, kvtree::Tree& tree) {
  PutText(key, set ? "1" : "", tree);
}

absl::StatusOr<FlushEntry> GetFlushEntry(DatasetId id, const kvtree::Tree& tree) {
  FlushEntry entry;
  CAIRN_RETURN_IF_ERROR(Take(tree.GetString("NAME"), entry.name));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetBool("CKPT"), entry.checkpoint));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetBool("OUTPUT"), entry.output));
  for (const auto& [key, member] : kLocations) entry.*member = tree.FindPath({"LOCATION", key}) != nullptr;
  if (tree.Find("DSETDESC") != nullptr) {
    CAIRN_ASSIGN_OR_RETURN(entry.descriptor, GetDescriptorOf(id, tree, "DSETDESC"));
  }
  return entry;
}

}  // namespace

void PutFlushEntry(DatasetId id, const FlushEntry& entry, kvtree::Tree& flush) {
  kvtree::Tree& tree = flush.At("DATASET").At(std::to_string(id));
  PutText("NAME", entry.name, tree);
  kvtree::Tree& location = tree.At("LOCATION");
  for (const auto& [key, member] : kLocations) {
    if (entry.*member) {
      location.At(key);
    } else {
      location.Erase(key);
    }
  }
  PutMark("CKPT", entry.checkpoint, tree);
  PutMark("OUTPUT", entry.output, tree);
  if (entry.descriptor) {
    PutDescriptor(*entry.descriptor, tree.At("DSETDESC"));
  } else {
    tree.Erase("DSETDESC");
  }
}

absl::StatusOr<std::map<DatasetId, FlushEntry>> GetFlushEntries(const kvtree::Tree& flush) {
  std::map<DatasetId, FlushEntry> entries;
  const kvtree::Tree* datasets = flush.Find("DATASET");
  if (datasets == nullptr) return entries;
  for (const auto& [key, tree] : datasets->elements()) {
    CAIRN_ASSIGN_OR_RETURN(const DatasetId id, NumberKey(key, "flush file: dataset", 1));
    absl::StatusOr<FlushEntry> entry = GetFlushEntry(id, tree);
    if (!entry.ok()) return Annotate(entry.status(), fmt::format("flush file: dataset {}", id));
    entries.emplace(id, *std::move(entry));
  }
  return entries;
}

void EraseFlushEntry(DatasetId id, kvtree::Tree& flush) {
  if (kvtree::Tree* datasets = flush.Find("DATASET"); datasets != nullptr) datasets->Erase(std::to_string(id));
}

}  // namespace cairn::scr
