#include "storage/format/bp5/walk.h"

#include <algorithm>

namespace cairn::bp5 {
namespace {

std::uint8_t U8At(std::span<const std::byte> bytes, std::size_t at) {
  return std::to_integer<std::uint8_t>(bytes[at]);
}

std::uint64_t NumberOf(std::span<const std::byte> body, std::size_t number) {
  return body.size() / 8 > number ? U64At(body, 8 * number) : 0;
}

std::span<const std::byte> ListOf(std::span<const std::byte> body) {
  return body.subspan(std::min(body.size(), 8 * kIndexNumbersBeforeList));
}

}  // namespace

IndexHeader ReadIndexHeader(std::span<const std::byte> bytes) {
  const char* const text = reinterpret_cast<const char*>(bytes.data());
  IndexHeader header;
  header.text = {text + IndexHeader::kTextAt, strnlen(text + IndexHeader::kTextAt, IndexHeader::kTextBytes)};
  header.release = {text + IndexHeader::kReleaseAt, IndexHeader::kReleaseBytes};
  header.byte_order = U8At(bytes, IndexHeader::kByteOrderAt);
  header.version = U8At(bytes, IndexHeader::kVersionAt);
  header.minor_version = U8At(bytes, IndexHeader::kMinorVersionAt);
  header.active = U8At(bytes, IndexHeader::kActiveAt);
  header.row_order = text[IndexHeader::kRowOrderAt];
  header.flatten = U8At(bytes, IndexHeader::kFlattenAt);
  std::memcpy(&header.id, bytes.data() + IndexHeader::kIdAt, sizeof(header.id));
  return header;
}

std::optional<IndexRecordHead> ReadIndexRecordHead(std::span<const std::byte> bytes) {
  if (bytes.size() < kIndexRecordHeadBytes) return std::nullopt;
  return IndexRecordHead{static_cast<char>(bytes[0]), U64At(bytes, 1)};
}

WriterMapBody::WriterMapBody(std::span<const std::byte> body)
    : writers(NumberOf(body, 0)),
      aggregators(NumberOf(body, 1)),
      subfile_count(NumberOf(body, 2)),
      subfiles(ListOf(body)) {}

StepBody::StepBody(std::span<const std::byte> body)
    : metadata_begin(NumberOf(body, 0)),
      metadata_bytes(NumberOf(body, 1)),
      flushes(NumberOf(body, 2)),
      positions(ListOf(body)) {}

bool IndexWalk::Next() {
  const std::optional<IndexRecordHead> head = ReadIndexRecordHead(rest_);
  if (!head.has_value() || head->body_bytes > rest_.size() - kIndexRecordHeadBytes) return false;
  record_ = {*head, offset_, rest_.subspan(kIndexRecordHeadBytes, head->body_bytes)};
  rest_ = rest_.subspan(kIndexRecordHeadBytes + head->body_bytes);
  offset_ += kIndexRecordHeadBytes + head->body_bytes;
  return true;
}

std::optional<FormatEntryHead> ReadFormatEntryHead(std::span<const std::byte> bytes) {
  if (bytes.size() < kFormatEntryHeadBytes) return std::nullopt;
  return FormatEntryHead{U64At(bytes, 0), U64At(bytes, 8)};
}

bool FormatWalk::Next() {
  const std::optional<FormatEntryHead> head = ReadFormatEntryHead(rest_);
  if (!head.has_value() || !head->FitsIn(rest_.size())) return false;
  const std::span<const std::byte> behind = rest_.subspan(kFormatEntryHeadBytes);
  entry_ = {*head, offset_, behind.first(head->id_bytes), behind.subspan(head->id_bytes, head->block_bytes)};
  rest_ = behind.subspan(head->id_bytes + head->block_bytes);
  offset_ += kFormatEntryHeadBytes + head->id_bytes + head->block_bytes;
  return true;
}

}  // namespace cairn::bp5
