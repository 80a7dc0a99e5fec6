#include "tests/fuzz/ftiff_input.h"

#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "storage/format/ftiff/records.h"

namespace cairn::ftiff {
namespace {

constexpr std::uint8_t kLetterBits = 0x07, kEncodedBit = 0x40, kThreadsBit = 0x80;

using Record = std::span<std::byte>;

// The hashes of chunks with content, as far as the records can be walked.
std::vector<Md5Digest> HashesOf(const RecordTable& table, std::span<const std::byte> records) {
  std::vector<Md5Digest> hashes;
  while (records.size() >= table.block_record_bytes) {
    std::int64_t chunks = GetField(records, table.block_chunks);
    records = records.subspan(table.block_record_bytes);
    for (; chunks > 0 && records.size() >= table.chunk_record_bytes; --chunks) {
      if (GetField(records, table.chunk.has_content) != 0) {
        std::memcpy(hashes.emplace_back().data(), &records[table.chunk.hash_offset], sizeof(Md5Digest));
      }
      records = records.subspan(table.chunk_record_bytes);
    }
  }
  return hashes;
}

void PutChecksum(const Md5Digest& checksum, Record record) {
  const std::string hex = HexOf(checksum);
  std::memcpy(record.data(), hex.c_str(), kChecksumBytes);
}

}  // namespace

InputKind InputKindOf(std::uint8_t byte) {
  InputKind kind{.letter = std::nullopt, .encoded = (byte & kEncodedBit) != 0, .threads = byte & kThreadsBit ? 2u : 1u};
  const int number = byte & kLetterBits;
  if (number >= 1 && number <= 6) kind.letter = static_cast<Letter>('A' + number - 1);
  return kind;
}

std::uint8_t ByteOf(const InputKind& kind) {
  const int number = kind.letter.has_value() ? static_cast<char>(*kind.letter) - 'A' + 1 : 0;
  return static_cast<std::uint8_t>(number | (kind.encoded ? kEncodedBit : 0) | (kind.threads > 1 ? kThreadsBit : 0));
}

void MakeRight(const InputKind& kind, std::string* file) {
  if (!kind.letter.has_value()) return;
  const RecordTable& table = TableOf(*kind.letter);
  if (file->size() < table.file_record_bytes) return;
  const auto bytes = std::as_writable_bytes(std::span(*file));
  const bool at_front = table.metadata_first && !kind.encoded;
  const Record record = at_front ? bytes.first(table.file_record_bytes) : bytes.last(table.file_record_bytes);
  const auto in_front = static_cast<std::int64_t>(file->size() - table.file_record_bytes);
  const auto file_bytes = static_cast<std::int64_t>(file->size());
  if (kind.encoded) {
    PutField(record, table.fs, in_front);
    PutField(record, table.max_fs, in_front);
    PutChecksum(Md5({}), record);
  } else {
    // Of B, what the record claims stays: the file may be shorter.
    const bool claims = kind.letter == Letter::kB && GetField(record, table.fs) > file_bytes;
    if (!claims) PutField(record, table.fs, file_bytes);
    PutField(record, table.file_bytes, GetField(record, table.fs));
    const std::int64_t data_bytes = GetField(record, table.data_bytes);
    const auto meta_bytes = static_cast<std::uint64_t>(file_bytes) - static_cast<std::uint64_t>(data_bytes);
    PutField(record, table.meta_bytes, static_cast<std::int64_t>(meta_bytes));
    Md5Digest checksum = Md5({});
    if (table.metadata_first) {
      checksum = Md5(bytes.subspan(table.file_record_bytes));
    } else if (data_bytes >= 0 && data_bytes <= in_front) {
      const auto begin = static_cast<std::size_t>(data_bytes);
      const auto end = static_cast<std::size_t>(in_front);
      const std::vector<Md5Digest> hashes = HashesOf(table, bytes.subspan(begin, end - begin));
      checksum = Md5(std::as_bytes(std::span(hashes)));
    }
    PutChecksum(checksum, record);
  }
  const Md5Digest hash = MetadataHash(table, record);
  std::memcpy(record.data() + kMetadataHashOffset, hash.data(), hash.size());
}

}  // namespace cairn::ftiff
