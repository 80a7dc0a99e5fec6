// The index and the formats, byte by byte. Source: BP5 specification, sections 3 to 5.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "client/cli/bp/raw.h"
#include "client/cli/bp/value.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/format/bp5/format.h"

namespace cairn::cli {
namespace {

constexpr std::uint64_t kHeaderBytes = 64;
constexpr std::uint64_t kRecordHeadBytes = 9;
constexpr std::uint64_t kEntryHeadBytes = 16;
constexpr std::uint64_t kPieceBytesMax = 1 << 28;  // of one record or format: far above what is sensible

absl::StatusOr<std::vector<std::byte>> ReadPiece(bpdir::FileSource& files, const char* name, std::uint64_t offset,
                                                 std::uint64_t bytes) {
  if (bytes > kPieceBytesMax) return DataLoss("{}: {} bytes at {}", files.NameOf(name), bytes, offset);
  std::vector<std::byte> piece(bytes);
  CAIRN_RETURN_IF_ERROR(files.Read(name, offset, piece));
  return piece;
}

std::uint64_t U64(std::span<const std::byte> bytes, std::uint64_t at) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data() + at, 8);
  return number;
}
unsigned U8(std::span<const std::byte> bytes, std::uint64_t at) {
  return std::to_integer<unsigned>(bytes[at]);
}

void WriteHeader(std::span<const std::byte> header, TextOut& out) {
  const char* const text = reinterpret_cast<const char*>(header.data());
  std::uint32_t id = 0;
  std::memcpy(&id, header.data() + 42, 4);
  out.Write(fmt::format("  0   text            {}\n", Quoted({text, strnlen(text, 32)})));
  out.Write(fmt::format("  32  version         {}\n", Quoted({text + 32, 3})));
  out.Write(fmt::format("  36  byte order      {}\n", U8(header, 36)));
  out.Write(fmt::format("  37  format version  {}\n", U8(header, 37)));
  out.Write(fmt::format("  38  minor version   {}\n", U8(header, 38)));
  out.Write(fmt::format("  39  active          {}\n", U8(header, 39)));
  out.Write(fmt::format("  40  order of rows   {}\n", Quoted({text + 40, 1})));
  out.Write(fmt::format("  41  flatten         {}\n", U8(header, 41)));
  out.Write(fmt::format("  42  identifier      {:#010x}\n", id));
}

// A list of numbers, a limited number of them on a line.
void WriteNumbers(std::string_view what, std::uint64_t offset, std::span<const std::byte> body, std::uint64_t first,
                  std::uint64_t count, TextOut& out) {
  constexpr std::uint64_t kOnLine = 16;
  for (std::uint64_t done = 0; done < count; done += kOnLine) {
    std::string line = fmt::format("  {:<8} {} {}..:", offset + 8 * (first + done), what, done);
    for (std::uint64_t i = done; i < std::min(count, done + kOnLine); ++i)
      line += fmt::format(" {}", U64(body, 8 * (first + i)));
    out.Write(line + "\n");
  }
}

// What both kinds of records begin with; the rest is by writer. `writers` is that of the last map.
absl::Status WriteIndexRecord(char type, std::uint64_t offset, std::span<const std::byte> body, std::uint64_t& writers,
                              std::uint64_t& steps, TextOut& out) {
  const std::uint64_t at = offset + kRecordHeadBytes;
  if (body.size() % 8 != 0 || body.size() < 24) return DataLoss("a record of {} bytes at {}", body.size(), offset);
  const std::uint64_t count = body.size() / 8 - 3;
  if (type == 'w') {
    writers = U64(body, 0);
    out.Write(fmt::format("at {}: writer map, {} bytes: writers {}, aggregators {}, subfiles {}\n", offset, body.size(),
                          writers, U64(body, 8), U64(body, 16)));
    WriteNumbers("subfile of writer", at, body, 3, count, out);
    return absl::OkStatus();
  }
  out.Write(fmt::format("at {}: step {}, {} bytes: md.0 position {}, bytes {}, flushes {}\n", offset, steps++,
                        body.size(), U64(body, 0), U64(body, 8), U64(body, 16)));
  const std::uint64_t flushes = U64(body, 16);
  if (flushes > count || writers > count) {
    WriteNumbers("number", at, body, 3, count, out);
    return absl::OkStatus();
  }
  if (flushes == 0) {
    WriteNumbers("position of writer", at, body, 3, count, out);
  } else {
    const std::uint64_t each = 2 * flushes + 1;
    for (std::uint64_t writer = 0; writer < count / each; ++writer) {
      WriteNumbers(fmt::format("writer {}: position, bytes, …, position", writer), at, body, 3 + writer * each, each,
                   out);
    }
  }
  return absl::OkStatus();
}

void WriteStructure(const bp5::Structure& structure, TextOut& out) {
  out.Write(fmt::format("  {}: fixed part {} bytes, alignment {}, {}\n", Clean(structure.name), structure.fixed_bytes,
                        structure.alignment, Count(structure.fields.size(), "field")));
  for (const bp5::Field& field : structure.fields) {
    out.Write(fmt::format("    {:<6} {}  {}, element size {}\n", field.offset, Quoted(field.name), Clean(field.type),
                          field.element_bytes));
  }
}

}  // namespace

absl::Status WriteRawIndex(bpdir::FileSource& files, TextOut& out) {
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t bytes, files.Bytes("md.idx"));
  out.Write(fmt::format("{}: {} bytes\n", Clean(files.NameOf("md.idx")), bytes));
  if (bytes < kHeaderBytes) {
    out.Write("  no header yet\n");
    return absl::OkStatus();
  }
  CAIRN_ASSIGN_OR_RETURN(const auto header, ReadPiece(files, "md.idx", 0, kHeaderBytes));
  WriteHeader(header, out);
  std::uint64_t writers = 0, steps = 0, at = kHeaderBytes;
  while (bytes - at >= kRecordHeadBytes && !out.broken()) {
    CAIRN_ASSIGN_OR_RETURN(const auto head, ReadPiece(files, "md.idx", at, kRecordHeadBytes));
    const char type = static_cast<char>(head[0]);
    const std::uint64_t length = U64(head, 1);
    if (type != 'w' && type != 's') {
      return DataLoss("{}: record type {:#04x} at {}", files.NameOf("md.idx"), U8(head, 0), at);
    }
    if (length > bytes - at - kRecordHeadBytes) break;
    CAIRN_ASSIGN_OR_RETURN(const auto body, ReadPiece(files, "md.idx", at + kRecordHeadBytes, length));
    CAIRN_RETURN_IF_ERROR(Annotate(WriteIndexRecord(type, at, body, writers, steps, out), files.NameOf("md.idx")));
    at += kRecordHeadBytes + length;
  }
  if (at < bytes) out.Write(fmt::format("at {}: {} bytes of a record that is not whole yet\n", at, bytes - at));
  return absl::OkStatus();
}

absl::Status WriteRawFormats(bpdir::FileSource& files, TextOut& out) {
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t bytes, files.Bytes("mmd.0"));
  out.Write(fmt::format("{}: {} bytes\n", Clean(files.NameOf("mmd.0")), bytes));
  std::uint64_t at = 0;
  while (at < bytes && !out.broken()) {
    const std::uint64_t left = bytes - at;
    std::uint64_t id_bytes = 0, block_bytes = 0;
    if (left >= kEntryHeadBytes) {
      CAIRN_ASSIGN_OR_RETURN(const auto head, ReadPiece(files, "mmd.0", at, kEntryHeadBytes));
      id_bytes = U64(head, 0);
      block_bytes = U64(head, 8);
    }
    if (left < kEntryHeadBytes || id_bytes > left - kEntryHeadBytes ||
        block_bytes > left - kEntryHeadBytes - id_bytes) {
      out.Write(fmt::format("at {}: {} bytes of an entry that is not whole\n", at, left));
      return absl::OkStatus();
    }
    CAIRN_ASSIGN_OR_RETURN(const auto id, ReadPiece(files, "mmd.0", at + 16, id_bytes));
    CAIRN_ASSIGN_OR_RETURN(const auto block, ReadPiece(files, "mmd.0", at + 16 + id_bytes, block_bytes));
    out.Write(
        fmt::format("at {}: format {}, block of {} bytes at {}\n", at, HexOf(id), block_bytes, at + 16 + id_bytes));
    const std::string where = fmt::format("{}: format at byte {}", files.NameOf("mmd.0"), at + 16 + id_bytes);
    const auto format = bp5::DecodeFormat(where, block);
    if (!format.ok()) return format.status();
    if (HexOf(id) != format->id.Hex()) out.Write(fmt::format("  by its content it is {}\n", format->id.Hex()));
    for (const bp5::Structure& structure : format->structures) WriteStructure(structure, out);
    at += 16 + id_bytes + block_bytes;
  }
  return absl::OkStatus();
}

}  // namespace cairn::cli
