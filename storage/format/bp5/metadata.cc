#include "storage/format/bp5/metadata.h"

#include <algorithm>

#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/format/bp5/metadata_extend.h"
#include "storage/format/bp5/metadata_impl.h"

namespace cairn::bp5 {
namespace {

template <typename T>
std::uint64_t BytesOf(const std::vector<T>& vector) {
  return vector.capacity() * sizeof(T);
}

template <typename Map>
std::uint64_t BytesOfMap(const Map& map) {
  return map.capacity() * (sizeof(typename Map::value_type) + 1);
}

std::uint64_t BytesOf(const std::string& text) {
  return text.capacity() < sizeof(std::string) / 2 ? 0 : text.capacity() + 1;
}

}  // namespace

Metadata::Metadata() : impl_(std::make_unique<Impl>()) {}
Metadata::~Metadata() = default;
Metadata::Metadata(Metadata&&) noexcept = default;
Metadata& Metadata::operator=(Metadata&&) noexcept = default;

absl::Status Metadata::Extend(const Tail& tail) {
  return Impl::Extender(*impl_, tail).Run();
}

std::uint64_t Metadata::index_bytes() const {
  return impl_->index_bytes;
}
std::uint64_t Metadata::formats_bytes() const {
  return impl_->formats_bytes;
}
std::uint64_t Metadata::metadata_bytes() const {
  return impl_->metadata_bytes;
}

std::uint64_t Metadata::steps_bytes() const {
  return impl_->steps_bytes;
}

std::uint64_t Metadata::own_bytes() const {
  std::uint64_t bytes = sizeof(Impl) + BytesOfMap(impl_->formats_by_id) + BytesOfMap(impl_->variables_by_name) +
                        BytesOf(impl_->templates) + BytesOf(impl_->variables) + BytesOf(impl_->subfiles) +
                        BytesOf(impl_->maps) + BytesOf(impl_->steps) + BytesOf(impl_->records) +
                        BytesOf(impl_->positions) + BytesOf(impl_->words);
  {
    absl::MutexLock lock(&impl_->bounds_mutex);
    bytes += BytesOf(impl_->bounds);
    for (const StepBounds& step : impl_->bounds) bytes += step.own_bytes();
  }
  for (const Impl::FormatEntry& entry : impl_->formats) {
    bytes += sizeof(entry) + BytesOf(entry.format.structures);
    for (const Structure& structure : entry.format.structures) bytes += BytesOf(structure.fields);
  }
  for (const Impl::Used& used : impl_->templates) bytes += used.places.own_bytes() + BytesOf(used.merged);
  for (const Variable& variable : impl_->variables) {
    bytes += BytesOf(variable.name) + BytesOf(variable.expression) + BytesOf(variable.steps);
  }
  return bytes;
}

const Metadata::Header& Metadata::header() const {
  return impl_->header;
}

std::uint32_t Metadata::steps() const {
  return static_cast<std::uint32_t>(impl_->steps.size());
}

std::uint32_t Metadata::writers(std::uint32_t step) const {
  return step < impl_->steps.size() ? impl_->steps[step].writers : 0;
}
std::uint32_t Metadata::flushes(std::uint32_t step) const {
  return step < impl_->steps.size() ? impl_->steps[step].flushes : 0;
}
std::uint64_t Metadata::index_end(std::uint32_t step) const {
  return step < impl_->steps.size() ? impl_->steps[step].index_end : 0;
}
std::uint64_t Metadata::metadata_end(std::uint32_t step) const {
  return step < impl_->steps.size() ? impl_->steps[step].metadata_end : 0;
}
std::uint64_t Metadata::formats_end(std::uint32_t step) const {
  return step < impl_->steps.size() ? impl_->steps[step].formats_end : 0;
}
std::uint32_t Metadata::subfile(std::uint32_t step, std::uint32_t writer) const {
  if (writer >= writers(step)) return 0;
  return impl_->subfiles[impl_->maps[impl_->steps[step].map].first + writer];
}

std::span<const Variable> Metadata::variables() const {
  return impl_->variables;
}

std::optional<VariableNumber> Metadata::FindVariable(std::string_view name) const {
  const auto found = impl_->variables_by_name.find(name);
  return found == impl_->variables_by_name.end() ? std::nullopt : std::optional(found->second);
}

std::uint64_t Metadata::data_block_bytes(std::uint32_t step, std::uint32_t writer) const {
  constexpr std::size_t kDataBlockSizeOffset = 16;
  const Impl::Record* const record = impl_->RecordOf(step, writer);
  return record == nullptr ? 0 : LoadU64(record->base + kDataBlockSizeOffset);
}

absl::StatusOr<DataPlace> Metadata::Place(std::uint32_t step, std::uint32_t writer, std::uint64_t location,
                                          std::uint64_t bytes) const {
  if (writer >= writers(step)) return NotFound("there is no writer {} in step {}", writer, step);
  const auto bad = [&](std::string_view what) {
    return DataLoss("md.0: step {}, writer {}: {} bytes of data at {}: {}", step, writer, bytes, location, what);
  };
  const std::uint64_t whole = data_block_bytes(step, writer);
  if (location > whole || bytes > whole - location) return bad(fmt::format("the writer has {} in the step", whole));
  const std::span<const std::uint64_t> positions = impl_->PositionsOf(impl_->steps[step], writer);
  std::uint64_t position = positions.back(), within = location;
  for (std::size_t pair = 0; pair + 1 < positions.size(); pair += 2) {
    const std::uint64_t part = positions[pair + 1];
    if (within < part) {
      if (bytes > part - within) return bad(fmt::format("its part of {} bytes ends before", part));
      position = positions[pair];
      break;
    }
    within -= part;
  }
  std::uint64_t end = 0;
  DataPlace place{subfile(step, writer), 0};
  if (__builtin_add_overflow(position, within, &place.offset) || __builtin_add_overflow(place.offset, bytes, &end)) {
    return bad(fmt::format("its position {} leads beyond what can be counted", position));
  }
  return place;
}

absl::StatusOr<std::map<std::uint32_t, std::uint64_t>> Metadata::SubfileBytes(std::uint32_t step) const {
  std::map<std::uint32_t, std::uint64_t> needed;
  for (std::uint32_t s = 0; s <= step && s < impl_->steps.size(); ++s) {
    for (std::uint32_t writer = 0; writer < impl_->steps[s].writers; ++writer) {
      const std::span<const std::uint64_t> positions = impl_->PositionsOf(impl_->steps[s], writer);
      std::uint64_t& bytes = needed[subfile(s, writer)];
      std::uint64_t left = data_block_bytes(s, writer);
      for (std::size_t i = 0; i < positions.size(); i += 2) {
        const std::uint64_t part = i + 1 < positions.size() ? positions[i + 1] : left;
        std::uint64_t end = 0;
        if (part > left || __builtin_add_overflow(positions[i], part, &end)) {
          return DataLoss("md.idx: step {}, writer {}: {} bytes at {} of its subfile, of {} left", s, writer, part,
                          positions[i], left);
        }
        left -= part;
        if (part > 0) bytes = std::max(bytes, end);
      }
    }
  }
  return needed;
}

Metadata::RecordPlace Metadata::Record(std::uint32_t step, std::uint32_t writer) const {
  const Impl::Record* const record = impl_->RecordOf(step, writer);
  if (record == nullptr) return {};
  const Format& format = impl_->templates[record->used].entry->format;
  const Impl::Step& from = impl_->steps[step];
  const std::uint64_t base = from.metadata_begin + static_cast<std::uint64_t>(record->base - from.at);
  return {&format, base - HeadBytes(format), {record->base, record->length}};
}

std::vector<const Format*> Metadata::formats() const {
  std::vector<const Format*> formats;
  for (const Impl::FormatEntry& entry : impl_->formats) formats.push_back(&entry.format);
  return formats;
}

bool StepCursor::Has(VariableNumber variable) const {
  if (variable >= metadata_->variables().size() || begun_ == 0) return false;
  return std::ranges::binary_search(metadata_->variables()[variable].steps, step());
}

}  // namespace cairn::bp5
