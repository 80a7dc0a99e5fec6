#include "tests/storage/ftiff/sample_file.h"

#include <chrono>
#include <cstdlib>
#include <cstring>

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

std::size_t TrailerOffset(const std::string& file) {
  return file.size() - kLayoutF.file_record_bytes;
}

std::size_t BlockOffset(const FileLayout& layout, std::size_t block) {
  std::size_t offset = layout.data_bytes;
  for (std::size_t i = 0; i < block; ++i) {
    offset += kLayoutF.block_record_bytes + layout.block_containers[i] * kLayoutF.chunk_record_bytes;
  }
  return offset;
}

std::size_t ChunkOffset(const FileLayout& layout, std::size_t chunk) {
  std::size_t block = 0, first = 0;
  while (chunk >= first + layout.block_containers[block]) first += layout.block_containers[block++];
  return BlockOffset(layout, block) + kLayoutF.block_record_bytes + (chunk - first) * kLayoutF.chunk_record_bytes;
}

void Overwrite(std::string* file, std::size_t offset, FieldPlace place, std::int64_t value) {
  PutField(std::as_writable_bytes(std::span(*file)).subspan(offset), place, value);
}

void Reseal(std::string* file) {
  const auto record = std::as_writable_bytes(std::span(*file)).subspan(TrailerOffset(*file));
  const Md5Digest hash = MetadataHash(kLayoutF, record);
  std::memcpy(record.data() + kMetadataHashOffset, hash.data(), hash.size());
}

std::uint64_t TestSeed() {
  if (const char* given = std::getenv("CAIRN_TEST_SEED")) return std::strtoull(given, nullptr, 0);
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace cairn::ftiff::testing
