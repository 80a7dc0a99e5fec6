// Any bytes as a checkpoint file: decoding answers with a status or with metadata that encodes and decodes to itself.
//
// The trailer's own hash would turn nearly every input away at once. So the first byte chooses: even, the rest is the
// file as it is; odd, the trailer's sizes and hash are made right first.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/ftiff/codec.h"
#include "storage/ftiff/inspect.h"
#include "storage/ftiff/records.h"

namespace cairn::ftiff {
namespace {

ReadAt ReaderOf(const std::string& file) {
  return [&file](std::uint64_t offset, std::span<std::byte> target) -> absl::Status {
    CAIRN_CHECK(offset <= file.size() && target.size() <= file.size() - offset);  // nothing else may be asked for
    std::memcpy(target.data(), file.data() + offset, target.size());
    return absl::OkStatus();
  };
}

void MakeTrailerRight(std::string* file) {
  if (file->size() < kLayoutF.file_record_bytes) return;
  const auto bytes = std::as_writable_bytes(std::span(*file));
  const auto record = bytes.last(kLayoutF.file_record_bytes);
  const auto file_bytes = static_cast<std::int64_t>(file->size());
  PutField(record, kLayoutF.fs, file_bytes);
  PutField(record, kLayoutF.file_bytes, file_bytes);
  const auto data_bytes = static_cast<std::uint64_t>(GetField(record, kLayoutF.data_bytes));  // anything: may wrap
  PutField(record, kLayoutF.meta_bytes, static_cast<std::int64_t>(file->size() - data_bytes));
  const Md5Digest hash = MetadataHash(kLayoutF, record);
  std::memcpy(record.data() + kMetadataHashOffset, hash.data(), hash.size());
}

void DecodeAndBack(const std::string& file) {
  const auto metadata = DecodeMetadata("input", file.size(), ReaderOf(file));
  if (!metadata.ok()) return;
  CAIRN_CHECK(VerifyData("input", *metadata, ReaderOf(file)).ok());
  CAIRN_CHECK(!DescribeText(*metadata, "input").empty());
  const std::vector<std::byte> encoded = EncodeMetadata(metadata->layout, metadata->chunk_hashes, metadata->header);
  std::string again = file.substr(0, metadata->layout.data_bytes);
  again.append(reinterpret_cast<const char*>(encoded.data()), encoded.size());
  const auto decoded = DecodeMetadata("again", again.size(), ReaderOf(again));
  CAIRN_CHECK(decoded.ok());
  CAIRN_CHECK(decoded->layout.containers == metadata->layout.containers);
  CAIRN_CHECK(decoded->layout.block_containers == metadata->layout.block_containers);
  CAIRN_CHECK(decoded->chunk_hashes == metadata->chunk_hashes);
}

}  // namespace
}  // namespace cairn::ftiff

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string file(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 1) cairn::ftiff::MakeTrailerRight(&file);
  cairn::ftiff::DecodeAndBack(file);
  return 0;
}
