#include "storage/place/node_record.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include "storage/base/path.h"
#include "storage/format/catalogue/catalogue.h"

namespace cairn {
namespace {

constexpr std::array<std::pair<const char*, bool NodeNote::*>, 12> kFlags = {{
    {"PREFIX", &NodeNote::in_prefix},
    {"PINNED", &NodeNote::pinned},
    {"DROPPED", &NodeNote::dropped},
    {"GAVE_WAY", &NodeNote::gave_way},
    {"FOREIGN", &NodeNote::foreign},
    {"FENCED", &NodeNote::fenced},
    {"ANOTHERS", &NodeNote::anothers},
    {"ID_TAKEN", &NodeNote::id_taken},
    {"DOUBTED", &NodeNote::doubted},
    {"BEGUN", &NodeNote::begun},
    {"REJECTED", &NodeNote::rejected},
    {"MARKED", &NodeNote::marked},
}};

// The daemon writes below these names: one that leads out of the prefix must not come in.
bool IsDirectoryName(const std::string& name) {
  const std::string file = name + "/f";
  const auto normalized = NormalizeFileName("", file);
  return normalized.ok() && *normalized == file;
}

NodeNote NoteOf(const kvtree::Tree& entry) {
  NodeNote note;
  for (const auto& [key, flag] : kFlags) note.*flag = entry.GetBool(key).value_or(false);
  note.ordinal = entry.GetUnsigned("ORDINAL").value_or(0);
  if (const kvtree::Tree* grown = entry.Find("GROWING")) {
    for (const auto& [name, nothing] : grown->elements()) {
      if (IsDirectoryName(name)) note.grown.insert(name);
    }
  }
  return note;
}

}  // namespace

NodeNotes DecodeNodeRecord(const kvtree::Tree& record) {
  NodeNotes notes;
  const kvtree::Tree* datasets = record.Find("DATASET");
  if (datasets == nullptr) return notes;
  for (const auto& [key, entry] : datasets->elements()) {
    const std::optional<std::uint64_t> id = NumberAfter(key, "");
    if (id && *id != 0) notes[*id] = NoteOf(entry);
  }
  return notes;
}

kvtree::Tree EncodeNodeRecord(const NodeNotes& notes) {
  kvtree::Tree record;
  for (const auto& [id, note] : notes) {
    kvtree::Tree& entry = record.At("DATASET").At(fmt::format("{}", id));
    for (const auto& [key, flag] : kFlags) {
      if (note.*flag) entry.SetBool(key, true);
    }
    if (note.ordinal != 0) entry.Set("ORDINAL", note.ordinal);
    for (const std::string& name : note.grown) entry.At("GROWING").At(name);
  }
  return record;
}

}  // namespace cairn
