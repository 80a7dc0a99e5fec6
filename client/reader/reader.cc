// The calls on a directory or a dataset.
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "client/reader/cairn_reader.h"
#include "client/reader/guard.h"
#include "client/reader/handle.h"
#include "storage/base/status.h"
#include "storage/format/bp5/metadata.h"
#include "storage/format/bp5/selection.h"

namespace cairn::reader {
namespace {

using bp5::Metadata;
using bp5::Variable;

static_assert(CAIRN_READER_STRUCT == static_cast<int>(bp5::Type::kStruct));
static_assert(CAIRN_READER_JOINED_ARRAY == static_cast<int>(bp5::Kind::kJoinedArray));

// Calls with the handle's directory, which stays as it is meanwhile.
template <typename Call>
int With(cairn_reader* reader, Call call) noexcept {
  return Guard([&]() -> absl::Status {
    if (reader == nullptr) return absl::InvalidArgumentError("no reader");
    absl::ReaderMutexLock lock(&reader->mutex);
    CAIRN_RETURN_IF_ERROR(reader->directory->CheckHeld());
    return call(*reader->directory);
  });
}

// A variable in a step.
struct Place {
  const Metadata& metadata;
  const Variable& variable;
  bp5::VariableNumber number;
  std::uint32_t step;
};

absl::StatusOr<Place> FindVariable(const Metadata& metadata, std::uint64_t variable) {
  const auto variables = metadata.variables();
  if (variable >= variables.size())
    return NotFound("there are {} variables, and no variable {}", variables.size(), variable);
  return Place{metadata, variables[variable], static_cast<bp5::VariableNumber>(variable), 0};
}

absl::StatusOr<Place> FindPlace(const Metadata& metadata, std::uint64_t variable, std::uint64_t step) {
  CAIRN_ASSIGN_OR_RETURN(Place place, FindVariable(metadata, variable));
  if (step >= metadata.steps()) return NotFound("there are {} steps, and no step {}", metadata.steps(), step);
  place.step = static_cast<std::uint32_t>(step);
  return place;
}

absl::StatusOr<Box> BoxOf(std::int32_t ndims, const std::uint64_t* start, const std::uint64_t* count) {
  if (ndims < 1 || ndims > CAIRN_READER_DIMS_MAX || start == nullptr || count == nullptr) {
    return InvalidArgument("a selection needs start and count of 1 to {} dimensions", CAIRN_READER_DIMS_MAX);
  }
  return Box{.start = Extents(start, start + ndims), .count = Extents(count, count + ndims)};
}

absl::StatusOr<std::optional<Box>> BoxWithin(std::int32_t ndims, const std::uint64_t* start,
                                             const std::uint64_t* count) {
  if (ndims == 0) return std::nullopt;
  return BoxOf(ndims, start, count);
}

absl::StatusOr<std::span<std::byte>> TargetOf(void* target, std::uint64_t bytes) {
  if (target == nullptr && bytes > 0) return absl::InvalidArgumentError("no memory to read into");
  return std::span(static_cast<std::byte*>(target), bytes);
}

absl::Status GiveVariable(const Metadata& metadata, std::uint64_t index, cairn_reader_variable_info* info) {
  CAIRN_RETURN_IF_ERROR(CheckSize(info));
  CAIRN_ASSIGN_OR_RETURN(const Place place, FindVariable(metadata, index));
  const Variable& variable = place.variable;
  cairn_reader_variable_info found{};
  found.name = variable.name.c_str();
  found.kind = static_cast<std::int32_t>(variable.kind);
  found.type = static_cast<std::int32_t>(variable.type);
  found.element_bytes = variable.element_bytes;
  found.nsteps = static_cast<std::uint32_t>(variable.steps.size());
  found.steps = variable.steps.data();
  found.expression = variable.expression.c_str();
  found.has_operator = variable.has_operator ? 1 : 0;
  // A damaged record does not hide the variable: who uses it is told.
  found.ndims = static_cast<std::int32_t>(variable.dimensions);
  Give(found, info);
  return absl::OkStatus();
}

void GiveElement(const std::byte* element, const Variable& variable, void* target) {
  if (target != nullptr) std::memcpy(target, element, std::min<std::size_t>(variable.element_bytes, 16));
}

absl::Status GiveMinMax(const Place& place, bool all_steps, std::int32_t* has, void* min, void* max) {
  if (has == nullptr) return absl::InvalidArgumentError("the pointer for the answer is NULL");
  *has = CAIRN_READER_NO_BOUNDS;
  CAIRN_ASSIGN_OR_RETURN(
      const std::optional<bp5::MinMax> found,
      all_steps ? place.metadata.MinMaxOf(place.number) : place.metadata.MinMaxOf(place.number, place.step));
  if (!found) return absl::OkStatus();
  *has = found->blocks_without > 0 ? CAIRN_READER_SOME_BOUNDS : CAIRN_READER_BOUNDS;
  GiveElement(found->min.data(), place.variable, min);
  GiveElement(found->max.data(), place.variable, max);
  return absl::OkStatus();
}

absl::Status GiveValue(const Place& place, std::uint32_t writer, const void** value, std::uint64_t* bytes) {
  if (value == nullptr || bytes == nullptr) return absl::InvalidArgumentError("the pointer for the value is NULL");
  if (IsArray(place.variable.kind)) return InvalidArgument("variable {}: an array", place.variable.name);
  if (writer == CAIRN_READER_FIRST_WRITER) {
    CAIRN_ASSIGN_OR_RETURN(writer, place.metadata.FirstWriter(place.number, place.step));
  }
  if (place.variable.type == bp5::Type::kString) {
    CAIRN_ASSIGN_OR_RETURN(const std::string_view text, place.metadata.String(place.number, place.step, writer));
    *value = text.empty() ? "" : text.data();
    *bytes = text.size();
    return absl::OkStatus();
  }
  CAIRN_ASSIGN_OR_RETURN(const auto element, place.metadata.Scalar(place.number, place.step, writer));
  *value = element.data();
  *bytes = element.size();
  return absl::OkStatus();
}

void GiveBlock(const bp5::Block& block, const Variable& variable, std::uint64_t place, cairn_reader_block* blocks,
               std::uint64_t* start, std::uint64_t* count) {
  const std::size_t dimensions = block.dimensions();
  for (std::size_t d = 0; d < dimensions; ++d) {
    if (start != nullptr) start[place * dimensions + d] = block.StartOf(d);
    if (count != nullptr) count[place * dimensions + d] = block.count[d];
  }
  if (blocks == nullptr) return;
  cairn_reader_block& given = blocks[place];
  given = {};
  given.writer = block.writer;
  given.has_min_max = block.min != nullptr && block.max != nullptr ? 1 : 0;
  if (given.has_min_max == 0) return;
  GiveElement(block.min, variable, given.min);
  GiveElement(block.max, variable, given.max);
}

}  // namespace
}  // namespace cairn::reader

namespace bp5 = cairn::bp5;
using cairn::Box;
using cairn::bpdir::Directory;
using cairn::reader::Place;
using cairn::reader::With;

const char* cairn_reader_version(void) {
  return CAIRN_VERSION;
}

int cairn_reader_open(const char* directory, cairn_reader** reader) {
  return cairn::reader::Guard([&]() -> absl::Status {
    if (reader == nullptr) return absl::InvalidArgumentError("the pointer for the handle is NULL");
    *reader = nullptr;
    if (directory == nullptr) return absl::InvalidArgumentError("no directory");
    CAIRN_ASSIGN_OR_RETURN(auto opened, Directory::Open(std::string(directory)));
    *reader = cairn::reader::MakeHandle(std::move(opened));
    return absl::OkStatus();
  });
}

void cairn_reader_close(cairn_reader* reader) {
  delete reader;
}

int cairn_reader_get_info(cairn_reader* reader, cairn_reader_info* info) {
  return With(reader, [&](Directory& directory) -> absl::Status {
    CAIRN_RETURN_IF_ERROR(cairn::reader::CheckSize(info));
    const bp5::Metadata& metadata = directory.metadata();
    cairn_reader_info found{};
    found.steps = metadata.steps();
    found.variables = metadata.variables().size();
    found.active = directory.active() ? 1 : 0;
    found.column_major = metadata.header().column_major ? 1 : 0;
    found.flatten = metadata.header().flatten ? 1 : 0;
    found.ends_early = directory.ending().ok() ? 0 : 1;
    cairn::reader::Give(found, info);
    return absl::OkStatus();
  });
}

const char* cairn_reader_note(cairn_reader* reader, uint64_t index) {
  if (reader == nullptr) return nullptr;
  absl::ReaderMutexLock lock(&reader->mutex);
  return index < reader->notes.size() ? reader->notes[index].c_str() : nullptr;
}

int cairn_reader_refresh(cairn_reader* reader, int32_t* change) {
  return cairn::reader::Guard([&]() -> absl::Status {
    if (reader == nullptr) return absl::InvalidArgumentError("no reader");
    absl::MutexLock lock(&reader->mutex);
    std::shared_ptr<const void> before = reader->directory->Pin();
    CAIRN_ASSIGN_OR_RETURN(const Directory::Change found, reader->directory->Refresh());
    if (found == Directory::Change::kReplaced && reader->shown_in_place.exchange(false)) {
      reader->left.push_back(std::move(before));
    }
    reader->Note();
    if (change != nullptr) *change = static_cast<std::int32_t>(found);
    return absl::OkStatus();
  });
}

int cairn_reader_writers(cairn_reader* reader, uint64_t step, uint32_t* writers) {
  return With(reader, [&](Directory& directory) -> absl::Status {
    const bp5::Metadata& metadata = directory.metadata();
    if (writers == nullptr) return absl::InvalidArgumentError("the pointer for the answer is NULL");
    if (step >= metadata.steps()) return cairn::NotFound("there are {} steps, and no step {}", metadata.steps(), step);
    *writers = metadata.writers(static_cast<std::uint32_t>(step));
    return absl::OkStatus();
  });
}

int cairn_reader_variable(cairn_reader* reader, uint64_t index, cairn_reader_variable_info* info) {
  return With(reader,
              [&](Directory& directory) { return cairn::reader::GiveVariable(directory.metadata(), index, info); });
}

int cairn_reader_find(cairn_reader* reader, const char* name, uint64_t* index) {
  return With(reader, [&](Directory& directory) -> absl::Status {
    if (name == nullptr || index == nullptr) return absl::InvalidArgumentError("name or index is NULL");
    const auto found = directory.metadata().FindVariable(name);
    if (!found) return cairn::NotFound("there is no variable {}", name);
    *index = *found;
    return absl::OkStatus();
  });
}

int cairn_reader_shape(cairn_reader* reader, uint64_t variable, uint64_t step, int32_t* ndims, uint64_t* shape) {
  return With(reader, [&](Directory& directory) -> absl::Status {
    CAIRN_ASSIGN_OR_RETURN(const Place place, cairn::reader::FindPlace(directory.metadata(), variable, step));
    if (ndims == nullptr) return absl::InvalidArgumentError("the pointer for the answer is NULL");
    if (place.variable.kind == bp5::Kind::kLocalArray) {
      return cairn::InvalidArgument("variable {}: a local array has no shape, but blocks", place.variable.name);
    }
    CAIRN_ASSIGN_OR_RETURN(const cairn::Extents found, place.metadata.Shape(place.number, place.step));
    if (*ndims < 0 || static_cast<std::size_t>(*ndims) < found.size() || (shape == nullptr && !found.empty())) {
      return cairn::InvalidArgument("variable {}: has {} dimensions", place.variable.name, found.size());
    }
    *ndims = static_cast<std::int32_t>(found.size());
    std::copy(found.begin(), found.end(), shape);
    return absl::OkStatus();
  });
}

int cairn_reader_min_max(cairn_reader* reader, uint64_t variable, uint64_t step, int32_t* has, void* min, void* max) {
  return With(reader, [&](Directory& directory) -> absl::Status {
    const bool all = step == CAIRN_READER_ALL_STEPS;
    CAIRN_ASSIGN_OR_RETURN(const Place place, all ? cairn::reader::FindVariable(directory.metadata(), variable)
                                                  : cairn::reader::FindPlace(directory.metadata(), variable, step));
    return cairn::reader::GiveMinMax(place, all, has, min, max);
  });
}

int cairn_reader_value(cairn_reader* reader, uint64_t variable, uint64_t step, uint32_t writer, const void** value,
                       uint64_t* bytes) {
  return With(reader, [&](Directory& directory) -> absl::Status {
    CAIRN_ASSIGN_OR_RETURN(const Place place, cairn::reader::FindPlace(directory.metadata(), variable, step));
    return cairn::reader::GiveValue(place, writer, value, bytes);
  });
}

int cairn_reader_blocks(cairn_reader* reader, uint64_t variable, uint64_t step, uint64_t first, uint64_t room,
                        cairn_reader_block* blocks, uint64_t* start, uint64_t* count, uint64_t* found) {
  return With(reader, [&](Directory& directory) -> absl::Status {
    CAIRN_ASSIGN_OR_RETURN(const Place place, cairn::reader::FindPlace(directory.metadata(), variable, step));
    if (found == nullptr) return absl::InvalidArgumentError("the pointer for the answer is NULL");
    if (!IsArray(place.variable.kind)) return cairn::InvalidArgument("variable {}: no array", place.variable.name);
    *found = 0;
    bp5::BlockWalk walk = place.metadata.Blocks(place.number, place.step);
    while (walk.Next()) {
      if (walk.block().id < first) continue;
      if (*found < room) cairn::reader::GiveBlock(walk.block(), place.variable, *found, blocks, start, count);
      ++*found;
    }
    return walk.status();
  });
}

int cairn_reader_read(cairn_reader* reader, uint64_t variable, uint64_t step, int32_t ndims, const uint64_t* start,
                      const uint64_t* count, void* target, uint64_t bytes, int32_t* whole) {
  return With(reader, [&](Directory& directory) -> absl::Status {
    CAIRN_ASSIGN_OR_RETURN(const Place place, cairn::reader::FindPlace(directory.metadata(), variable, step));
    CAIRN_ASSIGN_OR_RETURN(const Box box, cairn::reader::BoxOf(ndims, start, count));
    CAIRN_ASSIGN_OR_RETURN(const auto memory, cairn::reader::TargetOf(target, bytes));
    CAIRN_ASSIGN_OR_RETURN(const bool all,
                           bp5::ReadSelection(place.metadata, place.number, place.step, box, directory.data(), memory));
    if (whole != nullptr) *whole = all ? 1 : 0;
    return absl::OkStatus();
  });
}

int cairn_reader_read_block(cairn_reader* reader, uint64_t variable, uint64_t step, uint64_t block, int32_t ndims,
                            const uint64_t* start, const uint64_t* count, void* target, uint64_t bytes) {
  return With(reader, [&](Directory& directory) -> absl::Status {
    CAIRN_ASSIGN_OR_RETURN(const Place place, cairn::reader::FindPlace(directory.metadata(), variable, step));
    CAIRN_ASSIGN_OR_RETURN(const std::optional<Box> within, cairn::reader::BoxWithin(ndims, start, count));
    CAIRN_ASSIGN_OR_RETURN(const auto memory, cairn::reader::TargetOf(target, bytes));
    return bp5::ReadBlock(place.metadata, place.number, place.step, block, within, directory.data(), memory);
  });
}

int cairn_reader_in_place(cairn_reader* reader, uint64_t variable, uint64_t step, int32_t ndims, const uint64_t* start,
                          const uint64_t* count, const void** address) {
  return With(reader, [&](Directory& directory) -> absl::Status {
    if (address == nullptr) return absl::InvalidArgumentError("the pointer for the answer is NULL");
    *address = nullptr;
    CAIRN_ASSIGN_OR_RETURN(const Place place, cairn::reader::FindPlace(directory.metadata(), variable, step));
    CAIRN_ASSIGN_OR_RETURN(const Box box, cairn::reader::BoxOf(ndims, start, count));
    CAIRN_ASSIGN_OR_RETURN(const auto found,
                           bp5::SelectionInPlace(place.metadata, place.number, place.step, box, directory.data()));
    if (!found) return absl::OkStatus();
    reader->shown_in_place = true;
    *address = found->data();
    return absl::OkStatus();
  });
}

int cairn_reader_block_in_place(cairn_reader* reader, uint64_t variable, uint64_t step, uint64_t block, int32_t ndims,
                                const uint64_t* start, const uint64_t* count, const void** address) {
  return With(reader, [&](Directory& directory) -> absl::Status {
    if (address == nullptr) return absl::InvalidArgumentError("the pointer for the answer is NULL");
    *address = nullptr;
    CAIRN_ASSIGN_OR_RETURN(const Place place, cairn::reader::FindPlace(directory.metadata(), variable, step));
    CAIRN_ASSIGN_OR_RETURN(const std::optional<Box> within, cairn::reader::BoxWithin(ndims, start, count));
    CAIRN_ASSIGN_OR_RETURN(
        const auto found, bp5::BlockInPlace(place.metadata, place.number, place.step, block, within, directory.data()));
    if (!found) return absl::OkStatus();
    reader->shown_in_place = true;
    *address = found->data();
    return absl::OkStatus();
  });
}
