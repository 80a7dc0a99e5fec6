#include "daemon/core/restore_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "daemon/core/assembly.h"
#include "daemon/core/rows.h"
#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/format/ftiff/codec.h"

namespace cairn {
namespace {

const local::Variable* FindStored(const catalogue::Catalogue& catalogue, std::int32_t id) {
  for (const local::Variable& variable : catalogue.variables()) {
    if (variable.id() == id) return &variable;
  }
  return nullptr;
}

bool SameDims(const google::protobuf::RepeatedField<std::uint64_t>& a,
              const google::protobuf::RepeatedField<std::uint64_t>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// All but counts and boxes.
absl::Status CompareKind(const local::Variable& stored, const local::Variable& asked) {
  auto differs = [&](std::string_view what, const auto& had, const auto& wants) {
    return FailedPrecondition("variable {} differs: it was stored with {} {}, here it has {}", asked.id(), what, had,
                              wants);
  };
  if (stored.kind() != asked.kind())
    return differs("kind", local::Kind_Name(stored.kind()), local::Kind_Name(asked.kind()));
  if (stored.kind() != local::PLAIN && stored.name() != asked.name())
    return differs("name", stored.name(), asked.name());
  if (stored.type() != asked.type()) return differs("type", stored.type(), asked.type());
  if (stored.kind() == local::ARRAY && !SameDims(stored.shape(), asked.shape())) {
    return FailedPrecondition("variable {} (\"{}\") differs: the array was stored with another shape", asked.id(),
                              asked.name());
  }
  return absl::OkStatus();
}

absl::Status Compare(const local::Variable& stored, const local::Variable& asked) {
  CAIRN_RETURN_IF_ERROR(CompareKind(stored, asked));
  if (stored.count() == asked.count()) return absl::OkStatus();
  return FailedPrecondition("variable {} differs: it was stored with count {}, here it has {}", asked.id(),
                            stored.count(), asked.count());
}

// Of another system's checkpoint nothing is known but ids and sizes.
bool TypeIsUnknown(const local::Variable& stored) {
  return stored.type() == 0;
}

absl::Status CompareBytes(const local::Variable& stored, const local::Variable& asked) {
  if (stored.bytes() == asked.bytes()) return absl::OkStatus();
  return FailedPrecondition("variable {} differs: it was stored with {} bytes of unknown type, here it has {}",
                            asked.id(), stored.bytes(), asked.bytes());
}

// A value comes from the lowest rank that stored it. One of unknown type was nobody's promise to be the same on all
// ranks: each rank gets its own, as in the system that it came from.
const local::Variable* FindValue(const Dataset& dataset, std::int32_t id, Rank rank, Rank* from) {
  for (Rank other = 0; other < dataset.nranks; ++other) {
    const local::Variable* stored = FindStored(dataset.parts[other].catalogue, id);
    if (stored == nullptr) continue;
    *from = TypeIsUnknown(*stored) ? rank : other;
    return stored;
  }
  return nullptr;
}

// --- Arrays ---

// Which ranks have stored an array, in their order.
struct Storer {
  Rank rank = 0;
  const local::Variable* variable = nullptr;
};
using Storers = std::unordered_map<std::int32_t, std::vector<Storer>>;  // by id

void FindStorers(const Dataset& dataset, Storers& storers) {
  if (storers.empty()) return;
  for (Rank rank = 0; rank < dataset.nranks; ++rank) {
    for (const local::Variable& variable : dataset.parts[rank].catalogue.variables()) {
      const auto of = storers.find(variable.id());
      if (of != storers.end()) of->second.push_back({rank, &variable});
    }
  }
}

Box BoxOf(const local::Variable& array) {
  return {.start = Extents(array.box_start().begin(), array.box_start().end()),
          .count = Extents(array.box_count().begin(), array.box_count().end())};
}

std::string TextOf(const Extents& numbers) {
  return fmt::format("({})", fmt::join(numbers, ", "));
}

// What the catalogues say of boxes was validated when they were read; what follows relies on it.
absl::StatusOr<std::vector<StoredBox>> BoxesOf(const std::vector<Storer>& storers, const local::Variable& asked) {
  std::vector<StoredBox> boxes;
  boxes.reserve(storers.size());
  for (const Storer& storer : storers) {
    const local::Variable& stored = *storer.variable;
    CAIRN_RETURN_IF_ERROR(CompareKind(stored, asked));
    StoredBox box{.rank = storer.rank, .box = BoxOf(stored)};
    const std::optional<std::uint64_t> elements = Elements(box.box.count);
    std::uint64_t bytes = 0;
    if (!Sound(box.box) || box.box.dimensions() != static_cast<std::size_t>(asked.box_start_size()) || !elements ||
        __builtin_mul_overflow(*elements, std::uint64_t{ElementBytes(asked.type())}, &bytes) ||
        bytes != stored.bytes()) {
      return DataLoss("variable {} (\"{}\"): the catalogue of rank {} contradicts itself", asked.id(), asked.name(),
                      storer.rank);
    }
    if (!Empty(box.box)) boxes.push_back(std::move(box));
  }
  return boxes;
}

// Is this rank's own part just what it asks for? It is that also where other ranks have stored some of it.
bool IsOwn(const local::Variable& stored, const local::Variable& asked) {
  return SameDims(stored.box_start(), asked.box_start()) && SameDims(stored.box_count(), asked.box_count());
}

// What one request may take, over all its variables: this runs on the strand.
struct Budget {
  std::uint64_t work = 8u << 20;  // boxes held against parts that are missing: some 0.2 s
  std::uint64_t pieces = kRestorePiecesMax;
};

absl::Status AppendArray(const std::vector<Storer>& storers, const local::Variable& asked, std::uint32_t index,
                         Budget& budget, std::vector<Wanted>& wanted) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<StoredBox> stored, BoxesOf(storers, asked));
  const Box box = BoxOf(asked);
  auto assembly = Assemble(box, stored, budget.work);
  if (!assembly.ok()) {
    return FailedPrecondition("variable {} (\"{}\"): {}", asked.id(), asked.name(), MessageOf(assembly.status()));
  }
  budget.work -= assembly->work;
  if (assembly->hole && !asked.holes()) {
    return FailedPrecondition("variable {} (\"{}\"): no rank has stored element {}, the first of {} that are missing",
                              asked.id(), asked.name(), TextOf(assembly->hole->start), TextOf(assembly->hole->count));
  }
  const std::uint64_t element = ElementBytes(asked.type());
  std::uint64_t pieces = 0;
  for (const Share& share : assembly->shares) {
    Wanted one{.variable = index, .id = asked.id(), .rank = share.from.rank, .bytes = 0};
    one.bytes = Elements(share.from.box.count).value_or(0) * element;
    const bool whole = share.parts.front() == share.from.box && share.from.box == box;
    for (const Box& part : share.parts) {
      if (whole) break;
      one.rows.push_back(InBytes(PatternOf(part, share.from.box, box), element));
      pieces += PiecesOf(one.rows.back());
    }
    wanted.push_back(std::move(one));
  }
  if (pieces > budget.pieces) {
    return FailedPrecondition(
        "variable {} (\"{}\"): the box falls apart into {} pieces, with those of all variables at most {} are possible",
        asked.id(), asked.name(), pieces, kRestorePiecesMax);
  }
  budget.pieces -= pieces;
  return absl::OkStatus();
}

// --- One variable ---

absl::Status OfOtherRanks(const Dataset& dataset, std::uint32_t nranks, const local::Variable& asked) {
  return FailedPrecondition(
      "variable {} belongs to one rank each: dataset {} was stored by {} ranks, this launch has {}", asked.id(),
      dataset.id, dataset.nranks, nranks);
}

absl::Status NotStored(const Dataset& dataset, const local::Variable& asked) {
  return NotFound("variable {} is not in dataset {}", asked.id(), dataset.id);
}

// As it was stored, from one rank.
absl::StatusOr<Wanted> MatchWhole(const Dataset& dataset, Rank rank, std::uint32_t nranks,
                                  const local::Variable& asked) {
  Wanted wanted{.id = asked.id(), .rank = rank, .bytes = asked.bytes()};
  const local::Variable* stored = nullptr;
  if (asked.kind() == local::VALUE) stored = FindValue(dataset, asked.id(), rank, &wanted.rank);
  if (asked.kind() != local::VALUE || (stored != nullptr && TypeIsUnknown(*stored))) {
    if (nranks != dataset.nranks) return OfOtherRanks(dataset, nranks, asked);
    stored = FindStored(dataset.parts[rank].catalogue, asked.id());
  }
  if (stored == nullptr) return NotStored(dataset, asked);
  CAIRN_RETURN_IF_ERROR(TypeIsUnknown(*stored) ? CompareBytes(*stored, asked) : Compare(*stored, asked));
  return wanted;
}

// An array that is not just what this rank has stored.
absl::Status MatchArray(const Dataset& dataset, std::uint32_t nranks, const std::vector<Storer>& storers,
                        const local::Variable& asked, std::uint32_t index, Budget& budget,
                        std::vector<Wanted>& wanted) {
  if (storers.empty()) return NotStored(dataset, asked);
  const bool unknown =
      std::any_of(storers.begin(), storers.end(), [](const Storer& storer) { return TypeIsUnknown(*storer.variable); });
  if (!unknown) return AppendArray(storers, asked, index, budget, wanted);
  return nranks != dataset.nranks ? OfOtherRanks(dataset, nranks, asked) : NotStored(dataset, asked);
}

}  // namespace

absl::StatusOr<ftiff::FileMetadata> ReadMetadata(Disk& disk, const RestoreSource& source) {
  if (!source.kept) {
    CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<File> file, disk.Open(source.path, {}));
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file->Info());
    if (info.bytes != source.file_bytes) {
      return DataLoss("{}: {} bytes, the catalogue says {}", source.path, info.bytes, source.file_bytes);
    }
    return ftiff::DecodeMetadata(source.path, info.bytes, [&file](std::uint64_t offset, std::span<std::byte> target) {
      return file->ReadAt(offset, target);
    });
  }
  const KeptImage& kept = *source.kept;
  const std::uint64_t bytes = kept.data_bytes + kept.metadata.size();
  return ftiff::DecodeMetadata("image", bytes, [&kept, bytes](std::uint64_t offset, std::span<std::byte> target) {
    if (offset > bytes || target.size() > bytes - offset) return DataLoss("image: ends at byte {}", bytes);
    // Metadata may be asked for together with data in front of it; the image is the client's, so this is a copy.
    const std::size_t in_data =
        offset < kept.data_bytes ? std::min<std::uint64_t>(target.size(), kept.data_bytes - offset) : 0;
    if (in_data > 0) std::memcpy(target.data(), kept.image->bytes().data() + offset, in_data);
    if (in_data < target.size()) {
      std::memcpy(target.data() + in_data, kept.metadata.data() + (offset + in_data - kept.data_bytes),
                  target.size() - in_data);
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<Wanted>> Match(const Dataset& dataset, Rank rank, std::uint32_t nranks,
                                          const VariableList& variables) {
  std::unordered_map<std::int32_t, const local::Variable*> own;
  if (nranks == dataset.nranks) {
    for (const local::Variable& stored : dataset.parts[rank].catalogue.variables()) own[stored.id()] = &stored;
  }
  const auto elsewhere = [&own](const local::Variable& asked) {
    if (asked.kind() != local::ARRAY) return false;
    const auto stored = own.find(asked.id());
    if (stored == own.end()) return true;
    return stored->second->kind() == local::ARRAY && !IsOwn(*stored->second, asked);
  };
  Storers storers;
  for (const local::Variable& asked : variables) {
    if (elsewhere(asked)) storers[asked.id()];
  }
  FindStorers(dataset, storers);
  Budget budget;
  std::vector<Wanted> wanted;
  for (int i = 0; i < variables.size(); ++i) {
    const local::Variable& asked = variables.at(i);
    const auto index = static_cast<std::uint32_t>(i);
    if (const auto of = storers.find(asked.id()); of != storers.end()) {
      CAIRN_RETURN_IF_ERROR(MatchArray(dataset, nranks, of->second, asked, index, budget, wanted));
      continue;
    }
    CAIRN_ASSIGN_OR_RETURN(Wanted one, MatchWhole(dataset, rank, nranks, asked));
    one.variable = index;
    wanted.push_back(std::move(one));
  }
  return wanted;
}

// --- Reads ---

namespace {

constexpr std::string_view kPlainName = "var_";  // as views call them

absl::StatusOr<const local::Variable*> FindByName(const Dataset& dataset, const std::string& name) {
  const local::Variable* found = nullptr;
  bool plain = false;
  for (Rank rank = 0; rank < dataset.nranks; ++rank) {
    for (const local::Variable& variable : dataset.parts[rank].catalogue.variables()) {
      if (variable.kind() == local::PLAIN) {
        plain = plain || fmt::format("{}{}", kPlainName, variable.id()) == name;
      } else if (variable.name() == name && (found == nullptr || variable.id() < found->id())) {
        found = &variable;
      }
    }
  }
  if (found != nullptr) return found;
  if (plain) {
    return FailedPrecondition("{} of dataset {} is a plain variable: each rank has its own, restore it", name,
                              dataset.id);
  }
  return NotFound("dataset {} has neither array nor value \"{}\"", dataset.id, name);
}

// The selection as an array of `shape`; without start and count all of it, if `all` may be.
absl::StatusOr<Box> SelectionOf(const local::Read& read, const Extents& shape, bool all) {
  if (all && read.start_size() == 0 && read.count_size() == 0)
    return Box{.start = Extents(shape.size(), 0), .count = shape};
  const Box box{.start = Extents(read.start().begin(), read.start().end()),
                .count = Extents(read.count().begin(), read.count().end())};
  if (box.start.size() != shape.size() || box.count.size() != shape.size()) {
    return InvalidArgument("\"{}\" has {} dimensions, the selection has {} and {}", read.name(), shape.size(),
                           box.start.size(), box.count.size());
  }
  if (!Inside(box, {.start = Extents(shape.size(), 0), .count = shape}) || !Elements(box.count)) {
    return InvalidArgument("\"{}\": {} elements from {} on do not lie in the shape {}", read.name(), TextOf(box.count),
                           TextOf(box.start), TextOf(shape));
  }
  return box;
}

}  // namespace

absl::StatusOr<ReadMatch> MatchRead(const Dataset& dataset, const local::Read& read) {
  CAIRN_ASSIGN_OR_RETURN(const local::Variable* const stored, FindByName(dataset, read.name()));
  ReadMatch match{.variable = *stored, .wanted = {}};
  local::Variable& asked = match.variable;
  asked.clear_memory();  // a selection is not read straight, whatever its Begin has said
  if (read.type() != 0 && read.type() != stored->type()) {
    return FailedPrecondition("\"{}\" has type {}, not {}", read.name(), stored->type(), read.type());
  }
  const bool is_array = stored->kind() == local::ARRAY;
  const Extents shape = is_array ? Extents(stored->shape().begin(), stored->shape().end()) : Extents{stored->count()};
  CAIRN_ASSIGN_OR_RETURN(const Box box, SelectionOf(read, shape, !is_array));
  std::uint64_t bytes = 0;
  const std::uint64_t elements = Elements(box.count).value_or(0);
  const std::uint64_t element = ElementBytes(stored->type());
  if (element == 0 || __builtin_mul_overflow(elements, element, &bytes)) {
    return InvalidArgument("\"{}\": {} elements cannot be counted in bytes", read.name(), elements);
  }
  if (is_array) {
    Storers storers;
    storers[stored->id()];
    FindStorers(dataset, storers);
    asked.set_count(elements);
    asked.set_bytes(bytes);
    asked.set_holes(read.holes());
    asked.mutable_box_start()->Assign(box.start.begin(), box.start.end());
    asked.mutable_box_count()->Assign(box.count.begin(), box.count.end());
    Budget budget;
    CAIRN_RETURN_IF_ERROR(AppendArray(storers[stored->id()], asked, 0, budget, match.wanted));
    return match;
  }
  Rank rank = 0;
  FindValue(dataset, stored->id(), 0, &rank);
  Wanted one{.variable = 0, .id = stored->id(), .rank = rank, .bytes = stored->bytes()};
  if (elements != stored->count() && elements > 0) {
    one.rows.push_back(InBytes(PatternOf(box, {.start = {0}, .count = shape}, box), element));
  }
  asked.set_count(elements);
  asked.set_bytes(bytes);
  if (elements > 0) match.wanted.push_back(std::move(one));
  return match;
}

// --- Pieces ---

namespace {

// What is wanted of one source, by id, and where its file holds what is wanted in rows.
struct Hunt {
  const Wanted* wanted = nullptr;
  std::uint64_t found = 0;  // bytes
  std::vector<Extent> extents;
};

absl::Status AppendSelected(const std::string& path, std::size_t source, Hunt& hunt,
                            std::vector<RestorePiece>& pieces) {
  std::sort(hunt.extents.begin(), hunt.extents.end(),
            [](const Extent& a, const Extent& b) { return a.stored_offset < b.stored_offset; });
  std::uint64_t next = 0;
  for (const Extent& extent : hunt.extents) {
    if (extent.stored_offset != next) {
      return DataLoss("{}: variable {}: a container begins at {}, expected {}", path, hunt.wanted->id,
                      extent.stored_offset, next);
    }
    next += extent.bytes;
  }
  for (const RowPattern& pattern : hunt.wanted->rows) {
    AppendRows(pattern, hunt.extents, {.variable = hunt.wanted->variable, .source = source}, pieces);
  }
  return absl::OkStatus();
}

absl::Status AppendPieces(const std::string& path, std::size_t source, const ftiff::FileLayout& layout,
                          std::map<std::int32_t, Hunt>& hunts, std::vector<RestorePiece>& pieces) {
  for (const ftiff::Container& container : layout.containers) {
    const auto at = hunts.find(container.id);
    if (at == hunts.end() || !container.has_content || container.chunk_bytes == 0) continue;
    Hunt& hunt = at->second;
    const std::uint64_t bytes = hunt.wanted->bytes;
    if (container.variable_offset > bytes || container.chunk_bytes > bytes - container.variable_offset) {
      return DataLoss("{}: variable {}: a container at {} + {} leaves its {} bytes", path, container.id,
                      container.variable_offset, container.chunk_bytes, bytes);
    }
    hunt.found += container.chunk_bytes;
    if (!hunt.wanted->rows.empty()) {
      hunt.extents.push_back({container.variable_offset, container.file_offset, container.chunk_bytes});
      continue;
    }
    pieces.push_back({.variable = hunt.wanted->variable,
                      .variable_offset = container.variable_offset,
                      .source = source,
                      .file_offset = container.file_offset,
                      .bytes = container.chunk_bytes});
  }
  for (auto& [id, hunt] : hunts) {
    if (hunt.found != hunt.wanted->bytes) {
      return DataLoss("{}: variable {}: {} of {} bytes are there", path, id, hunt.found, hunt.wanted->bytes);
    }
    if (!hunt.wanted->rows.empty()) CAIRN_RETURN_IF_ERROR(AppendSelected(path, source, hunt, pieces));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<RestorePiece>> FindPieces(Disk& disk, const std::vector<RestoreSource>& sources,
                                                     const std::vector<Rank>& ranks, const std::vector<Wanted>& wanted,
                                                     std::size_t* bad, std::vector<ftiff::FileMetadata>* metadata_of) {
  std::map<Rank, std::map<std::int32_t, Hunt>> hunts;
  for (const Wanted& one : wanted) hunts[one.rank][one.id].wanted = &one;
  std::vector<RestorePiece> pieces;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    *bad = s;
    Disk& its_disk = sources[s].disk != nullptr ? *sources[s].disk : disk;
    CAIRN_ASSIGN_OR_RETURN(ftiff::FileMetadata metadata, ReadMetadata(its_disk, sources[s]));
    CAIRN_RETURN_IF_ERROR(AppendPieces(sources[s].path, s, metadata.layout, hunts[ranks[s]], pieces));
    if (metadata_of != nullptr) metadata_of->push_back(std::move(metadata));
  }
  return pieces;
}

}  // namespace cairn
