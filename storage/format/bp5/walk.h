// The records of md.idx and the entries of mmd.0 where they are, one after the other, unchecked: for Metadata, which
// checks them, for whoever reads a directory piece by piece, and for whoever shows a damaged one. Pure.
// Source: BP5 specification, sections 3 and 4.
#ifndef CAIRN_STORAGE_FORMAT_BP5_WALK_H_
#define CAIRN_STORAGE_FORMAT_BP5_WALK_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace cairn::bp5 {

inline constexpr std::size_t kIndexHeaderBytes = 64;
inline constexpr std::size_t kIndexRecordHeadBytes = 9;   // type, length of the body
inline constexpr std::size_t kFormatEntryHeadBytes = 16;  // lengths of identifier and block

// Little-endian, aligned or not. REQUIRES: at + 8 <= bytes.size().
inline std::uint64_t U64At(std::span<const std::byte> bytes, std::size_t at) {
  std::uint64_t number;
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

// The header of md.idx, its fields as they stand there.
struct IndexHeader {
  static constexpr std::size_t kTextAt = 0, kTextBytes = 32;
  static constexpr std::size_t kReleaseAt = 32, kReleaseBytes = 3;
  static constexpr std::size_t kByteOrderAt = 36, kVersionAt = 37, kMinorVersionAt = 38, kActiveAt = 39;
  static constexpr std::size_t kRowOrderAt = 40, kFlattenAt = 41, kIdAt = 42;

  std::string_view text;     // up to its NUL
  std::string_view release;  // of ADIOS2: three characters
  std::uint8_t byte_order = 0, version = 0, minor_version = 0, active = 0;
  char row_order = 0;  // 'y': column-major
  std::uint8_t flatten = 0;
  std::uint32_t id = 0;
};
// What it answers points into `bytes`. REQUIRES: kIndexHeaderBytes are there.
IndexHeader ReadIndexHeader(std::span<const std::byte> bytes);

// What stands before the body of a record of md.idx.
struct IndexRecordHead {
  char type = 0;
  std::uint64_t body_bytes = 0;

  bool is_writer_map() const { return type == 'w'; }
  bool is_step() const { return type == 's'; }
};
// nullopt: not all of it is there.
std::optional<IndexRecordHead> ReadIndexRecordHead(std::span<const std::byte> bytes);

struct IndexRecord {
  IndexRecordHead head;
  std::uint64_t offset = 0;  // of the head in md.idx
  std::span<const std::byte> body;

  std::uint64_t body_offset() const { return offset + kIndexRecordHeadBytes; }
};

// Both kinds of bodies: three numbers, then a list. A number that is not in `body` is 0.
inline constexpr std::size_t kIndexNumbersBeforeList = 3;
struct WriterMapBody {
  explicit WriterMapBody(std::span<const std::byte> body);
  std::uint64_t writers, aggregators, subfile_count;
  std::span<const std::byte> subfiles;  // a number for each writer
};
struct StepBody {
  explicit StepBody(std::span<const std::byte> body);
  // Of a list that is what it should be: those of one writer.
  std::uint64_t PositionsEach() const { return 2 * flushes + 1; }
  std::uint64_t metadata_begin, metadata_bytes, flushes;
  // For each writer position and bytes of each flush, then the position of what came behind the last one.
  std::span<const std::byte> positions;
};

// Goes over the records in a piece of md.idx, whatever types they have.
//   IndexWalk walk(bytes, offset);
//   while (walk.Next()) use(walk.record());
//   if (walk.unfinished()) …   // the head of a record of which not all is in the piece
class IndexWalk {
 public:
  // `bytes`: of md.idx from `offset` on, where a record begins. Borrowed.
  IndexWalk(std::span<const std::byte> bytes, std::uint64_t offset) : rest_(bytes), offset_(offset) {}

  // False: the end, or not all of the next record is there.
  bool Next();
  const IndexRecord& record() const { return record_; }
  // Behind the records so far: where the next one begins.
  std::uint64_t offset() const { return offset_; }
  // Once Next was false: what the next record says of itself; nullopt: not even all of its head is there.
  std::optional<IndexRecordHead> unfinished() const { return ReadIndexRecordHead(rest_); }

 private:
  std::span<const std::byte> rest_;
  std::uint64_t offset_;
  IndexRecord record_;
};

// What stands before the identifier of an entry of mmd.0, and the block behind that.
struct FormatEntryHead {
  std::uint64_t id_bytes = 0, block_bytes = 0;

  std::uint64_t id_offset(std::uint64_t entry) const { return entry + kFormatEntryHeadBytes; }
  std::uint64_t block_offset(std::uint64_t entry) const { return id_offset(entry) + id_bytes; }
  // Whether the entry ends within `bytes` from its begin on.
  bool FitsIn(std::uint64_t bytes) const {
    return bytes >= kFormatEntryHeadBytes && id_bytes <= bytes - kFormatEntryHeadBytes &&
           block_bytes <= bytes - kFormatEntryHeadBytes - id_bytes;
  }
};
std::optional<FormatEntryHead> ReadFormatEntryHead(std::span<const std::byte> bytes);

struct FormatEntry {
  FormatEntryHead head;
  std::uint64_t offset = 0;  // in mmd.0
  std::span<const std::byte> id, block;

  std::uint64_t block_offset() const { return head.block_offset(offset); }
};

// As IndexWalk, over the entries of mmd.0.
class FormatWalk {
 public:
  FormatWalk(std::span<const std::byte> bytes, std::uint64_t offset) : rest_(bytes), offset_(offset) {}

  bool Next();
  const FormatEntry& entry() const { return entry_; }
  std::uint64_t offset() const { return offset_; }
  std::optional<FormatEntryHead> unfinished() const { return ReadFormatEntryHead(rest_); }

 private:
  std::span<const std::byte> rest_;
  std::uint64_t offset_;
  FormatEntry entry_;
};

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_WALK_H_
