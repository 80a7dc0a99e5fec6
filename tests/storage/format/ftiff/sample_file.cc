#include "tests/storage/format/ftiff/sample_file.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>

#include "storage/base/status.h"

namespace cairn::ftiff::testing {

ReadAt ReaderOf(const std::string& bytes) {
  return [&bytes](std::uint64_t offset, std::span<std::byte> target) -> absl::Status {
    if (offset > bytes.size() || target.size() > bytes.size() - offset) {
      return DataLoss("read of {} bytes at {} in a file of {}", target.size(), offset, bytes.size());
    }
    std::memcpy(target.data(), bytes.data() + offset, target.size());
    return absl::OkStatus();
  };
}

std::string DataOf(const FileLayout& layout) {
  std::string data(layout.data_bytes, '\0');
  for (const Container& c : layout.containers) {
    for (std::uint64_t i = 0; i < c.chunk_bytes; ++i) {
      data[c.file_offset + i] =
          static_cast<char>(static_cast<std::uint64_t>(c.id) * 31 + (c.variable_offset + i) * 7 + 1);
    }
  }
  return data;
}

std::vector<Md5Digest> HashesOf(const FileLayout& layout, const std::string& data) {
  std::vector<Md5Digest> hashes;
  for (const Container& c : layout.containers) {
    // A container without content keeps the last hash that it had.
    const std::string_view chunk = c.has_content ? std::string_view(data).substr(c.file_offset, c.chunk_bytes) : "old";
    hashes.push_back(Md5(std::as_bytes(std::span(chunk.data(), chunk.size()))));
  }
  return hashes;
}

std::string FileOf(const FileLayout& layout, const FileHeader& header) {
  std::string file = DataOf(layout);
  const std::vector<std::byte> metadata = EncodeMetadata(layout, HashesOf(layout, file), header);
  file.append(reinterpret_cast<const char*>(metadata.data()), metadata.size());
  return file;
}

namespace {

Md5Digest Md5Of(std::string_view bytes) {
  return Md5(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

// Block and chunk records, each at the place that its layout gives it.
void PutRecords(Letter letter, const FileLayout& placed, std::span<const Md5Digest> hashes,
                std::span<const std::int32_t> registered, std::string* file) {
  const RecordTable& table = TableOf(letter);
  std::map<std::int32_t, std::int64_t> indexes;
  for (const std::int32_t id : registered) indexes.emplace(id, static_cast<std::int64_t>(indexes.size()));
  std::size_t next = 0;
  std::size_t at = BlockOffset(placed, 0, letter);
  for (const std::uint32_t chunks : placed.block_containers) {
    const std::size_t block = at;
    at += table.block_record_bytes;
    std::size_t data_bytes = 0;
    for (std::uint32_t i = 0; i < chunks; ++i, ++next) {
      const Container& c = placed.containers[next];
      const auto put = [&](FieldPlace place, std::uint64_t value) {
        Overwrite(file, at, place, static_cast<std::int64_t>(value));
      };
      put(table.chunk.id, static_cast<std::uint64_t>(c.id));
      put(table.chunk.index, indexes.emplace(c.id, static_cast<std::int64_t>(indexes.size())).first->second);
      put(table.chunk.container_id, static_cast<std::uint64_t>(c.index));
      put(table.chunk.has_content, c.has_content ? 1 : 0);
      put(table.chunk.has_checkpoint, c.in_file_before ? 1 : 0);
      put(table.chunk.variable_offset, c.variable_offset);
      put(table.chunk.file_offset, c.file_offset);
      put(table.chunk.chunk_bytes, c.chunk_bytes);
      put(table.chunk.container_bytes, c.container_bytes);
      std::memcpy(file->data() + at + table.chunk.hash_offset, hashes[next].data(), hashes[next].size());
      at += table.chunk_record_bytes;
      data_bytes += c.container_bytes;
    }
    const std::size_t records_bytes = at - block;
    if (table.metadata_first) at += data_bytes;
    Overwrite(file, block, table.block_chunks, chunks);
    const std::size_t bytes = data_bytes + (table.metadata_first ? records_bytes : 0);
    Overwrite(file, block, table.block_bytes, static_cast<std::int64_t>(bytes));
  }
}

// The file checksum (3.5).
Md5Digest ChecksumOf(Letter letter, const FileLayout& placed, std::span<const Md5Digest> hashes,
                     const std::string& file) {
  if (letter == Letter::kA) return Md5Of(std::string_view(file).substr(kFileRecordBytesA));
  std::string covered;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    const Container& c = placed.containers[i];
    if (!c.has_content) continue;
    if (letter == Letter::kB) {
      covered += file.substr(c.file_offset, c.chunk_bytes);
    } else {
      covered.append(reinterpret_cast<const char*>(hashes[i].data()), hashes[i].size());
    }
  }
  return Md5Of(covered);
}

void PutFileRecord(Letter letter, const Md5Digest& checksum, const FileHeader& header, std::uint64_t file_bytes,
                   std::uint64_t fs, std::uint64_t meta_bytes, std::uint64_t data_bytes, std::size_t offset,
                   std::string* file) {
  const RecordTable& table = TableOf(letter);
  file->replace(offset, 32, HexOf(checksum));
  Overwrite(file, offset, table.checkpoint_id, header.checkpoint_id);
  Overwrite(file, offset, table.file_bytes, static_cast<std::int64_t>(file_bytes));
  Overwrite(file, offset, table.meta_bytes, static_cast<std::int64_t>(meta_bytes));
  Overwrite(file, offset, table.data_bytes, static_cast<std::int64_t>(data_bytes));
  Overwrite(file, offset, table.fs, static_cast<std::int64_t>(fs));
  Overwrite(file, offset, table.max_fs, header.file_bytes_max);
  Overwrite(file, offset, table.partner_fs, header.partner_bytes);
  Overwrite(file, offset, table.timestamp, static_cast<std::int64_t>(header.timestamp_ns));
  ResealAt(file, letter, offset);
}

}  // namespace

std::string FileOf(Letter letter, const FileLayout& layout, const FileHeader& header,
                   std::span<const std::int32_t> registered) {
  const FileLayout in_f = Placed(layout, Letter::kF);
  const FileLayout placed = Placed(layout, letter);
  const std::string data = DataOf(in_f);
  std::vector<Md5Digest> hashes = HashesOf(in_f, data);
  std::string file(placed.file_bytes(letter), '\0');
  for (std::size_t i = 0; i < placed.containers.size(); ++i) {
    const Container& c = placed.containers[i];
    if (c.chunk_bytes > 0) {
      file.replace(c.file_offset, c.chunk_bytes, data, in_f.containers[i].file_offset, c.chunk_bytes);
    }
    if (letter == Letter::kA && !c.has_content) hashes[i] = Md5Of("");
  }
  PutRecords(letter, placed, hashes, registered, &file);
  PutFileRecord(letter, ChecksumOf(letter, placed, hashes, file), header, file.size(), file.size(),
                placed.meta_bytes(letter), placed.data_bytes, FileRecordOffset(letter, file), &file);
  return file;
}

std::string FileOfBThatClaims(std::uint64_t container_bytes) {
  const RecordTable& table = TableOf(Letter::kB);
  FileLayout layout;
  layout.containers = {{.id = 1, .chunk_bytes = 5, .container_bytes = 5}};
  layout.block_containers = {1};
  layout.data_bytes = 5;
  std::string file = FileOf(Letter::kB, layout, {.timestamp_ns = 7});
  file.replace(file.size() - 5, 5, "hello");
  const Md5Digest hash = Md5Of("hello");
  const std::size_t chunk = ChunkOffset(layout, 0, Letter::kB), block = BlockOffset(layout, 0, Letter::kB);
  std::memcpy(file.data() + chunk + table.chunk.hash_offset, hash.data(), hash.size());
  const std::uint64_t records_bytes = chunk + table.chunk_record_bytes - block;
  const auto fs = static_cast<std::int64_t>(table.file_record_bytes + records_bytes + container_bytes);
  Overwrite(&file, chunk, table.chunk.container_bytes, static_cast<std::int64_t>(container_bytes));
  Overwrite(&file, block, table.block_bytes, static_cast<std::int64_t>(records_bytes + container_bytes));
  Overwrite(&file, 0, table.file_bytes, fs);
  Overwrite(&file, 0, table.fs, fs);
  file.replace(0, 32, HexOf(hash));
  Reseal(&file, Letter::kB);
  return file;
}

std::string CodeFileOf(Letter letter, const std::string& code, std::uint64_t checkpoint_bytes) {
  std::string file = code + std::string(TableOf(letter).file_record_bytes, '\0');
  const FileHeader header = {.checkpoint_id = 12,
                             .timestamp_ns = 77,
                             .file_bytes_max = static_cast<std::int64_t>(code.size()),
                             .partner_bytes = -1};
  PutFileRecord(letter, Md5Of(code), header, checkpoint_bytes, code.size(), 0, 0, code.size(), &file);
  return file;
}

FileLayout MixedLayout() {
  FileLayout layout;
  layout.containers = {
      {.id = 3, .index = 0, .variable_offset = 0, .file_offset = 0, .chunk_bytes = 40, .container_bytes = 40},
      {.id = 9, .index = 0, .variable_offset = 0, .file_offset = 40, .chunk_bytes = 0, .container_bytes = 0},
      {.id = 5, .index = 0, .variable_offset = 0, .file_offset = 40, .chunk_bytes = 30, .container_bytes = 64},
      {.id = 3,
       .index = 1,
       .in_file_before = true,
       .variable_offset = 40,
       .file_offset = 104,
       .chunk_bytes = 17,
       .container_bytes = 20},
      {.id = 5, .index = 1, .has_content = false, .variable_offset = 64, .file_offset = 124, .container_bytes = 8}};
  layout.block_containers = {3, 2};
  layout.data_bytes = 132;
  return layout;
}

std::size_t FileRecordOffset(Letter letter, const std::string& file) {
  const RecordTable& table = TableOf(letter);
  return table.metadata_first ? 0 : file.size() - table.file_record_bytes;
}

std::size_t TrailerOffset(const std::string& file) {
  return FileRecordOffset(Letter::kF, file);
}

std::size_t BlockOffset(const FileLayout& layout, std::size_t block, Letter letter) {
  const RecordTable& table = TableOf(letter);
  std::size_t offset = table.metadata_first ? table.file_record_bytes : layout.data_bytes;
  std::size_t next = 0;
  for (std::size_t i = 0; i < block; ++i) {
    offset += table.block_record_bytes + layout.block_containers[i] * table.chunk_record_bytes;
    for (std::uint32_t c = 0; table.metadata_first && c < layout.block_containers[i]; ++c) {
      offset += layout.containers[next++].container_bytes;
    }
  }
  return offset;
}

std::size_t ChunkOffset(const FileLayout& layout, std::size_t chunk, Letter letter) {
  const RecordTable& table = TableOf(letter);
  std::size_t block = 0, first = 0;
  while (chunk >= first + layout.block_containers[block]) first += layout.block_containers[block++];
  return BlockOffset(layout, block, letter) + table.block_record_bytes + (chunk - first) * table.chunk_record_bytes;
}

void Overwrite(std::string* file, std::size_t offset, FieldPlace place, std::int64_t value) {
  PutField(std::as_writable_bytes(std::span(*file)).subspan(offset), place, value);
}

void Reseal(std::string* file, Letter letter) {
  ResealAt(file, letter, FileRecordOffset(letter, *file));
}

void ResealAt(std::string* file, Letter letter, std::size_t offset) {
  const RecordTable& table = TableOf(letter);
  const auto record = std::as_writable_bytes(std::span(*file)).subspan(offset, table.file_record_bytes);
  const Md5Digest hash = MetadataHash(table, record);
  std::memcpy(record.data() + kMetadataHashOffset, hash.data(), hash.size());
}

std::uint64_t TestSeed() {
  if (const char* given = std::getenv("CAIRN_TEST_SEED")) return std::strtoull(given, nullptr, 0);
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace cairn::ftiff::testing
