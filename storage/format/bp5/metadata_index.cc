#include <algorithm>
#include <limits>

#include "storage/format/bp5/metadata_extend.h"
#include "storage/format/bp5/walk.h"

namespace cairn::bp5 {
namespace {

constexpr std::uint8_t kFormatVersion = 5, kFormatMinorVersion = 2;

absl::Status CheckType(const IndexRecordHead& head, std::uint64_t offset) {
  if (head.is_writer_map() || head.is_step()) return absl::OkStatus();
  return DataLoss("md.idx: record at {}: type {:#04x}", offset, static_cast<unsigned char>(head.type));
}

absl::Status CheckIdentifier(const FormatEntryHead& head, std::uint64_t offset) {
  if (head.id_bytes == kIdBytes) return absl::OkStatus();
  return DataLoss("mmd.0: entry at {}: identifier of {} bytes", offset, head.id_bytes);
}

}  // namespace

Metadata::Impl::Extender::Extender(Impl& impl, const Tail& tail)
    : impl_(impl), tail_(tail), before_{impl.header,           impl.index_bytes,      impl.formats_bytes,
                                        impl.metadata_bytes,   impl.steps_bytes,      impl.formats.size(),
                                        impl.templates.size(), impl.variables.size(), impl.subfiles.size(),
                                        impl.maps.size(),      impl.steps.size(),     impl.records.size(),
                                        impl.positions.size(), impl.words.size()} {}

absl::Status Metadata::Impl::Extender::Run() {
  const absl::Status status = TakeAll();
  if (!status.ok()) GoBack();
  ShrinkIfMany();
  return status;
}

absl::Status Metadata::Impl::Extender::TakeAll() {
  if (impl_.index_bytes == 0 && tail_.index.size() < kIndexHeaderBytes) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(TakeFormats());
  if (impl_.index_bytes == 0) CAIRN_RETURN_IF_ERROR(TakeHeader());
  return TakeIndex();
}

absl::Status Metadata::Impl::Extender::TakeFormats() {
  FormatWalk walk(tail_.formats, impl_.formats_bytes);
  while (walk.Next()) {
    CAIRN_RETURN_IF_ERROR(CheckIdentifier(walk.entry().head, walk.entry().offset));
    CAIRN_RETURN_IF_ERROR(TakeFormat(walk.entry()));
    impl_.formats_bytes = walk.offset();
  }
  const std::optional<FormatEntryHead> unfinished = walk.unfinished();  // not all of it is there yet
  return unfinished.has_value() ? CheckIdentifier(*unfinished, walk.offset()) : absl::OkStatus();
}

absl::Status Metadata::Impl::Extender::TakeFormat(const bp5::FormatEntry& stored) {
  FormatId id;
  std::memcpy(id.bytes.data(), stored.id.data(), kIdBytes);
  if (impl_.formats_by_id.contains(id.bytes)) return absl::OkStatus();  // those of an append run
  const std::uint64_t block_offset = stored.block_offset();
  CAIRN_ASSIGN_OR_RETURN(Format format, DecodeFormat(fmt::format("mmd.0: format at {}", block_offset), stored.block));
  if (format.id != id) {
    return DataLoss("mmd.0: format at {}: its identifier is {}, but its bytes make {}", block_offset, id.Hex(),
                    format.id.Hex());
  }
  FormatEntry& entry = impl_.formats.emplace_back();
  entry.format = std::move(format);
  entry.begin = stored.offset;
  entry.end = block_offset + stored.block.size();
  impl_.formats_by_id.emplace(id.bytes, &entry);
  return absl::OkStatus();
}

absl::Status Metadata::Impl::Extender::TakeHeader() {
  const IndexHeader header = ReadIndexHeader(tail_.index);
  if (header.byte_order != 0)
    return FailedPrecondition("md.idx: byte order {} at 36 is not read here", header.byte_order);
  if (header.version != kFormatVersion || header.minor_version != kFormatMinorVersion) {
    return FailedPrecondition("md.idx: version {}.{} at 37 is not read here", header.version, header.minor_version);
  }
  impl_.header.text = header.text;
  impl_.header.active = header.active != 0;
  impl_.header.column_major = header.row_order == 'y';
  impl_.header.flatten = header.flatten != 0;
  impl_.header.id = header.id;
  impl_.index_bytes = kIndexHeaderBytes;
  return absl::OkStatus();
}

absl::Status Metadata::Impl::Extender::TakeIndex() {
  const std::uint64_t taken = impl_.index_bytes - before_.index_bytes;  // the header
  IndexWalk walk(tail_.index.subspan(taken), impl_.index_bytes);
  while (walk.Next()) {
    const IndexRecord& record = walk.record();
    record_offset_ = record.offset;
    CAIRN_RETURN_IF_ERROR(CheckType(record.head, record.offset));
    if (record.body.size() % 8 != 0) {
      return DataLoss("md.idx: record at {}: body of {} bytes", record.offset, record.body.size());
    }
    impl_.index_bytes = walk.offset();
    CAIRN_RETURN_IF_ERROR(record.head.is_writer_map() ? TakeWriterMap(record.body) : TakeStep(record.body));
  }
  const std::optional<IndexRecordHead> unfinished = walk.unfinished();  // not all of it is there yet
  return unfinished.has_value() ? CheckType(*unfinished, walk.offset()) : absl::OkStatus();
}

absl::Status Metadata::Impl::Extender::TakeWriterMap(Bytes body) {
  const WriterMapBody map(body);
  const std::uint64_t writers = map.writers, listed = map.subfiles.size() / 8;
  if (listed == 0 || writers != listed || writers > kWritersMax) {
    return DataLoss("md.idx: writer map at {}: {} writers in {} bytes", record_offset_, writers, body.size());
  }
  const std::size_t first = impl_.subfiles.size();
  for (std::uint64_t writer = 0; writer < writers; ++writer) {
    const std::uint64_t subfile = U64At(map.subfiles, 8 * writer);
    if (subfile > std::numeric_limits<std::uint32_t>::max()) {
      impl_.subfiles.resize(first);
      return DataLoss("md.idx: writer map at {}: writer {} has subfile {}", record_offset_, writer, subfile);
    }
    impl_.subfiles.push_back(static_cast<std::uint32_t>(subfile));
  }
  const std::span<const std::uint32_t> all = impl_.subfiles, added = all.subspan(first);
  // Some write one before every step.
  if (!impl_.maps.empty() &&
      std::ranges::equal(added, all.subspan(impl_.maps.back().first, first - impl_.maps.back().first))) {
    impl_.subfiles.resize(first);
    return absl::OkStatus();
  }
  impl_.maps.push_back({first, static_cast<std::uint32_t>(writers)});
  return absl::OkStatus();
}

absl::Status Metadata::Impl::Extender::TakeStep(Bytes body) {
  const StepBody step(body);
  if (impl_.maps.empty()) return DataLoss("md.idx: step at {}: no writer map came before", record_offset_);
  if (impl_.steps.size() == kNone) return DataLoss("md.idx: step at {}: too many steps", record_offset_);
  const WriterMap& map = impl_.maps.back();
  const std::uint64_t flushes = step.flushes, positions = step.positions.size() / 8;
  // An empty list fits no writer, so that all three numbers are there.
  const bool fits =
      flushes <= positions && positions % map.writers == 0 && positions / map.writers == step.PositionsEach();
  if (!fits) {
    return DataLoss("md.idx: step at {}: {} flushes of {} writers in {} bytes", record_offset_, flushes, map.writers,
                    body.size());
  }
  const std::uint64_t begin = step.metadata_begin, bytes = step.metadata_bytes;
  const std::uint64_t there = tail_.metadata_begin + tail_.metadata.size();
  if (begin % 8 != 0 || begin < tail_.metadata_begin || begin > there || bytes > there - begin ||
      bytes < 8 + 16 * std::uint64_t{map.writers}) {
    return DataLoss("md.idx: step at {}: {} bytes at {} of md.0, which has {} to {}", record_offset_, bytes, begin,
                    tail_.metadata_begin, there);
  }
  // Writers append. Steps that lie over each other would make the work more than the bytes, and show a step twice.
  if (begin < impl_.metadata_bytes) {
    return DataLoss("md.idx: step at {}: begins at {} of md.0, where the steps before have all up to {}",
                    record_offset_, begin, impl_.metadata_bytes);
  }
  step_ = {};
  step_.writers = map.writers;
  step_.map = static_cast<std::uint32_t>(impl_.maps.size() - 1);
  step_.flushes = static_cast<std::uint32_t>(flushes);
  step_.first_record = impl_.records.size();
  step_.first_position = impl_.positions.size();
  step_.metadata_begin = begin;
  step_.metadata_end = begin + bytes;
  step_.index_end = impl_.index_bytes;
  step_.formats_end = impl_.steps.empty() ? 0 : impl_.steps.back().formats_end;
  for (std::uint64_t i = 0; i < positions; ++i) impl_.positions.push_back(U64At(step.positions, 8 * i));
  CAIRN_RETURN_IF_ERROR(TakeStepMetadata(tail_.metadata.subspan(begin - tail_.metadata_begin, bytes)));
  impl_.steps.push_back(step_);
  impl_.steps_bytes += bytes;
  impl_.metadata_bytes = step_.metadata_end;
  return absl::OkStatus();
}

void Metadata::Impl::Extender::GoBack() {
  impl_.header = before_.header;
  impl_.index_bytes = before_.index_bytes;
  impl_.formats_bytes = before_.formats_bytes;
  impl_.metadata_bytes = before_.metadata_bytes;
  impl_.steps_bytes = before_.steps_bytes;
  for (std::size_t i = before_.variables; i < impl_.variables.size(); ++i) {
    impl_.variables_by_name.erase(impl_.variables[i].name);
  }
  impl_.variables.resize(before_.variables);
  // The first value kept of a variable is the one from before.
  for (auto kept = kept_.rbegin(); kept != kept_.rend(); ++kept) {
    impl_.variables[kept->variable].has_operator = kept->has_operator;
    impl_.variables[kept->variable].dimensions = kept->dimensions;
  }
  for (Variable& variable : impl_.variables) {
    while (!variable.steps.empty() && variable.steps.back() >= before_.steps) variable.steps.pop_back();
  }
  for (; impl_.formats.size() > before_.formats; impl_.formats.pop_back()) {
    impl_.formats_by_id.erase(impl_.formats.back().format.id.bytes);
  }
  for (FormatEntry& entry : impl_.formats) {
    if (entry.template_index != kNone && entry.template_index >= before_.templates) entry.template_index = kNone;
  }
  impl_.templates.resize(before_.templates);
  for (Used& used : impl_.templates) used.last_words = used.merged_step = used.merged_words = kNone;
  impl_.subfiles.resize(before_.subfiles);
  impl_.maps.resize(before_.maps);
  impl_.steps.resize(before_.steps);
  impl_.records.resize(before_.records);
  impl_.positions.resize(before_.positions);
  impl_.words.resize(before_.words);
}

// What grew by at least a half of itself gives back what it reserved: once per doubling, so all in all cheap.
void Metadata::Impl::Extender::ShrinkIfMany() {
  if (2 * (impl_.steps.size() - before_.steps) < impl_.steps.size()) return;
  for (Variable& variable : impl_.variables) variable.steps.shrink_to_fit();
  impl_.variables.shrink_to_fit();
  impl_.templates.shrink_to_fit();
  impl_.subfiles.shrink_to_fit();
  impl_.steps.shrink_to_fit();
  impl_.records.shrink_to_fit();
  impl_.positions.shrink_to_fit();
  impl_.words.shrink_to_fit();
}

}  // namespace cairn::bp5
