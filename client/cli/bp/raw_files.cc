// The index and the formats, byte by byte. Source: BP5 specification, sections 3 to 5.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/bp/raw.h"
#include "client/cli/bp/value.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/format/bp5/format.h"
#include "storage/format/bp5/walk.h"

namespace cairn::cli {
namespace {

constexpr std::uint64_t kPieceBytes = 1 << 20;     // read at once, if a record is not longer
constexpr std::uint64_t kPieceBytesMax = 1 << 28;  // of one record or format: far above what is sensible

using Piece = std::vector<std::byte>;

absl::StatusOr<Piece> ReadPiece(bpdir::FileSource& files, const char* name, std::uint64_t offset, std::uint64_t bytes) {
  Piece piece(bytes);
  CAIRN_RETURN_IF_ERROR(files.Read(name, offset, piece));
  return piece;
}

absl::Status CheckPiece(bpdir::FileSource& files, const char* name, std::uint64_t offset, std::uint64_t bytes) {
  if (bytes <= kPieceBytesMax) return absl::OkStatus();
  return DataLoss("{}: {} bytes at {}", files.NameOf(name), bytes, offset);
}

void WriteHeader(std::span<const std::byte> bytes, TextOut& out) {
  using Header = bp5::IndexHeader;
  const Header header = bp5::ReadIndexHeader(bytes);
  const auto write = [&out](std::size_t at, std::string_view what, const std::string& value) {
    out.Write(fmt::format("  {:<3} {:<15} {}\n", at, what, value));
  };
  write(Header::kTextAt, "text", Quoted(header.text));
  write(Header::kReleaseAt, "version", Quoted(header.release));
  write(Header::kByteOrderAt, "byte order", std::to_string(header.byte_order));
  write(Header::kVersionAt, "format version", std::to_string(header.version));
  write(Header::kMinorVersionAt, "minor version", std::to_string(header.minor_version));
  write(Header::kActiveAt, "active", std::to_string(header.active));
  write(Header::kRowOrderAt, "order of rows", Quoted({&header.row_order, 1}));
  write(Header::kFlattenAt, "flatten", std::to_string(header.flatten));
  write(Header::kIdAt, "identifier", fmt::format("{:#010x}", header.id));
}

// A list of numbers, a limited number of them on a line. `at`: where it begins in md.idx.
void WriteNumbers(std::string_view what, std::uint64_t at, std::span<const std::byte> list, TextOut& out) {
  constexpr std::uint64_t kOnLine = 16;
  const std::uint64_t count = list.size() / 8;
  for (std::uint64_t done = 0; done < count; done += kOnLine) {
    std::string line = fmt::format("  {:<8} {} {}..:", at + 8 * done, what, done);
    for (std::uint64_t i = done; i < std::min(count, done + kOnLine); ++i) {
      line += fmt::format(" {}", bp5::U64At(list, 8 * i));
    }
    out.Write(line + "\n");
  }
}

class IndexText {
 public:
  IndexText(std::string name, TextOut& out) : name_(std::move(name)), out_(out) {}

  absl::Status Write(const bp5::IndexRecord& record) {
    if (record.body.size() % 8 != 0 || record.body.size() < 8 * bp5::kIndexNumbersBeforeList) {
      return DataLoss("{}: a record of {} bytes at {}", name_, record.body.size(), record.offset);
    }
    record.head.is_writer_map() ? WriteWriterMap(record) : WriteStep(record);
    return absl::OkStatus();
  }

  absl::Status CheckType(const bp5::IndexRecordHead& head, std::uint64_t offset) const {
    if (head.is_writer_map() || head.is_step()) return absl::OkStatus();
    return DataLoss("{}: record type {:#04x} at {}", name_, static_cast<unsigned char>(head.type), offset);
  }

 private:
  static std::uint64_t ListAt(const bp5::IndexRecord& record) {
    return record.body_offset() + 8 * bp5::kIndexNumbersBeforeList;
  }

  void WriteWriterMap(const bp5::IndexRecord& record) {
    const bp5::WriterMapBody map(record.body);
    writers_ = map.writers;
    out_.Write(fmt::format("at {}: writer map, {} bytes: writers {}, aggregators {}, subfiles {}\n", record.offset,
                           record.body.size(), map.writers, map.aggregators, map.subfile_count));
    WriteNumbers("subfile of writer", ListAt(record), map.subfiles, out_);
  }

  void WriteStep(const bp5::IndexRecord& record) {
    const bp5::StepBody step(record.body);
    out_.Write(fmt::format("at {}: step {}, {} bytes: md.0 position {}, bytes {}, flushes {}\n", record.offset,
                           steps_++, record.body.size(), step.metadata_begin, step.metadata_bytes, step.flushes));
    const std::uint64_t count = step.positions.size() / 8;
    if (step.flushes > count || writers_ > count) return WriteNumbers("number", ListAt(record), step.positions, out_);
    if (step.flushes == 0) return WriteNumbers("position of writer", ListAt(record), step.positions, out_);
    const std::uint64_t each = 8 * step.PositionsEach();
    for (std::uint64_t writer = 0; writer < step.positions.size() / each; ++writer) {
      WriteNumbers(fmt::format("writer {}: position, bytes, …, position", writer), ListAt(record) + writer * each,
                   step.positions.subspan(writer * each, each), out_);
    }
  }

  const std::string name_;
  TextOut& out_;
  std::uint64_t writers_ = 0;  // by the last map
  std::uint64_t steps_ = 0;
};

void WriteStructure(const bp5::Structure& structure, TextOut& out) {
  out.Write(fmt::format("  {}: fixed part {} bytes, alignment {}, {}\n", Clean(structure.name), structure.fixed_bytes,
                        structure.alignment, Count(structure.fields.size(), "field")));
  for (const bp5::Field& field : structure.fields) {
    out.Write(fmt::format("    {:<6} {}  {}, element size {}\n", field.offset, Quoted(field.name), Clean(field.type),
                          field.element_bytes));
  }
}

absl::Status WriteFormat(const bp5::FormatEntry& entry, const std::string& file, TextOut& out) {
  out.Write(fmt::format("at {}: format {}, block of {} bytes at {}\n", entry.offset, HexOf(entry.id),
                        entry.block.size(), entry.block_offset()));
  const auto format = bp5::DecodeFormat(fmt::format("{}: format at byte {}", file, entry.block_offset()), entry.block);
  if (!format.ok()) return format.status();
  if (HexOf(entry.id) != format->id.Hex()) out.Write(fmt::format("  by its content it is {}\n", format->id.Hex()));
  for (const bp5::Structure& structure : format->structures) WriteStructure(structure, out);
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteRawIndex(bpdir::FileSource& files, TextOut& out) {
  const std::string name = files.NameOf("md.idx");
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t bytes, files.Bytes("md.idx"));
  out.Write(fmt::format("{}: {} bytes\n", Clean(name), bytes));
  if (bytes < bp5::kIndexHeaderBytes) {
    out.Write("  no header yet\n");
    return absl::OkStatus();
  }
  CAIRN_ASSIGN_OR_RETURN(const Piece header, ReadPiece(files, "md.idx", 0, bp5::kIndexHeaderBytes));
  WriteHeader(header, out);
  IndexText text(name, out);
  std::uint64_t at = bp5::kIndexHeaderBytes, wanted = kPieceBytes;
  while (bytes - at >= bp5::kIndexRecordHeadBytes && !out.broken()) {
    CAIRN_ASSIGN_OR_RETURN(const Piece piece, ReadPiece(files, "md.idx", at, std::min(bytes - at, wanted)));
    bp5::IndexWalk walk(piece, at);
    while (!out.broken() && walk.Next()) {
      CAIRN_RETURN_IF_ERROR(text.CheckType(walk.record().head, walk.record().offset));
      CAIRN_RETURN_IF_ERROR(text.Write(walk.record()));
    }
    at = walk.offset();
    const auto next = walk.unfinished();
    if (!next) continue;  // its head is in the next piece, or nowhere
    CAIRN_RETURN_IF_ERROR(text.CheckType(*next, at));
    if (next->body_bytes > bytes - at - bp5::kIndexRecordHeadBytes) break;
    CAIRN_RETURN_IF_ERROR(CheckPiece(files, "md.idx", at + bp5::kIndexRecordHeadBytes, next->body_bytes));
    wanted = std::max(kPieceBytes, bp5::kIndexRecordHeadBytes + next->body_bytes);
  }
  if (at < bytes) out.Write(fmt::format("at {}: {} bytes of a record that is not whole yet\n", at, bytes - at));
  return absl::OkStatus();
}

absl::Status WriteRawFormats(bpdir::FileSource& files, TextOut& out) {
  const std::string name = files.NameOf("mmd.0");
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t bytes, files.Bytes("mmd.0"));
  out.Write(fmt::format("{}: {} bytes\n", Clean(name), bytes));
  std::uint64_t at = 0, wanted = kPieceBytes;
  while (at < bytes && !out.broken()) {
    CAIRN_ASSIGN_OR_RETURN(const Piece piece, ReadPiece(files, "mmd.0", at, std::min(bytes - at, wanted)));
    bp5::FormatWalk walk(piece, at);
    while (!out.broken() && walk.Next()) CAIRN_RETURN_IF_ERROR(WriteFormat(walk.entry(), name, out));
    at = walk.offset();
    const auto next = walk.unfinished();
    if (out.broken() || at == bytes) break;
    if (bytes - at < bp5::kFormatEntryHeadBytes || (next && !next->FitsIn(bytes - at))) {
      out.Write(fmt::format("at {}: {} bytes of an entry that is not whole\n", at, bytes - at));
      break;
    }
    if (!next) continue;  // its head is in the next piece
    CAIRN_RETURN_IF_ERROR(CheckPiece(files, "mmd.0", next->id_offset(at), next->id_bytes));
    CAIRN_RETURN_IF_ERROR(CheckPiece(files, "mmd.0", next->block_offset(at), next->block_bytes));
    wanted = std::max(kPieceBytes, bp5::kFormatEntryHeadBytes + next->id_bytes + next->block_bytes);
  }
  return absl::OkStatus();
}

}  // namespace cairn::cli
