// Any bytes as a checkpoint file or a level 3 code file of any layout: decoding answers with a status or with metadata
// that verifies, is shown, and encodes in F and A to files of the same content.
//
// The file record's own hash would turn nearly every input away at once. So the first byte chooses (ftiff_input.h): the
// rest is the file as it is, or its file record is made right for a layout first.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/format/ftiff/codec.h"
#include "storage/format/ftiff/inspect.h"
#include "storage/format/ftiff/records.h"
#include "tests/fuzz/ftiff_input.h"

namespace cairn::ftiff {
namespace {

ReadAt ReaderOf(const std::string& file) {
  return [&file](std::uint64_t offset, std::span<std::byte> target) -> absl::Status {
    CAIRN_CHECK(offset <= file.size() && target.size() <= file.size() - offset);  // nothing else may be asked for
    std::memcpy(target.data(), file.data() + offset, target.size());
    return absl::OkStatus();
  };
}

void Put(std::string* file, std::uint64_t offset, std::span<const std::byte> bytes) {
  file->replace(offset, bytes.size(), reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// The file of layout F or A with the same containers and data.
std::string Encoded(const std::string& file, const FileMetadata& metadata, const FileLayout& placed, Letter letter) {
  std::string made(placed.file_bytes(letter), '\0');
  for (std::size_t i = 0; i < placed.containers.size(); ++i) {
    const Container& from = metadata.layout.containers[i];
    if (from.chunk_bytes > 0) {
      made.replace(placed.containers[i].file_offset, from.chunk_bytes, file, from.file_offset, from.chunk_bytes);
    }
  }
  if (letter == Letter::kF) {
    Put(&made, placed.data_bytes, EncodeMetadata(placed, metadata.chunk_hashes, metadata.header));
    return made;
  }
  std::size_t first = 0;
  const std::vector<std::vector<std::byte>> blocks = EncodeBlocksA(placed, metadata.registered, metadata.chunk_hashes);
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    Put(&made, placed.containers[first].file_offset - blocks[b].size(), blocks[b]);
    first += placed.block_containers[b];
  }
  const Md5Digest checksum = Md5(std::as_bytes(std::span(made)).subspan(kFileRecordBytesA));
  Put(&made, 0, EncodeFileRecordA(placed, metadata.header, checksum));
  return made;
}

void EncodeAndBack(const std::string& file, const FileMetadata& metadata, std::size_t bad_chunks, Letter letter) {
  FileLayout placed = Placed(metadata.layout, letter);
  const std::string made = Encoded(file, metadata, placed, letter);
  const auto again = DecodeMetadata("again", made.size(), ReaderOf(made));
  CAIRN_CHECK(again.ok() && again->letter == letter);
  if (letter == Letter::kA) {  // does not have it
    for (Container& container : placed.containers) container.in_file_before = false;
  }
  CAIRN_CHECK(again->layout.containers == placed.containers);
  CAIRN_CHECK(again->layout.block_containers == placed.block_containers);
  CAIRN_CHECK(again->header.file_bytes_max == metadata.header.file_bytes_max);
  for (std::size_t i = 0; i < placed.containers.size(); ++i) {
    const bool kept = letter == Letter::kF || placed.containers[i].has_content;
    CAIRN_CHECK(!kept || again->chunk_hashes[i] == metadata.chunk_hashes[i]);
  }
  const auto verdict = VerifyData("again", *again, ReaderOf(made));
  CAIRN_CHECK(verdict.ok() && verdict->bad.size() == bad_chunks && verdict->bad_checksum.empty());
}

void DecodeAndBack(const std::string& file, std::size_t threads) {
  const auto metadata = DecodeMetadata("input", file.size(), ReaderOf(file));
  if (!metadata.ok()) return;
  const auto verdict = VerifyData("input", *metadata, ReaderOf(file), threads);
  CAIRN_CHECK(verdict.ok());
  CAIRN_CHECK(!DescribeText(*metadata, "input").empty() && !DescribeJson(*metadata, "input").empty());
  // A file of B may claim more bytes than it has.
  if (metadata->layout.data_bytes > 1 << 20) return;
  for (const Letter letter : {Letter::kF, Letter::kA}) EncodeAndBack(file, *metadata, verdict->bad.size(), letter);
}

void DecodeCodeAndBack(const std::string& file) {
  const auto encoded = DecodeEncoded("input", file.size(), ReaderOf(file));
  if (!encoded.ok()) return;
  CAIRN_CHECK(encoded->code_bytes < file.size());
  if (encoded->letter != Letter::kA && encoded->letter != Letter::kF) return;
  std::string made = file.substr(0, encoded->code_bytes);
  const std::vector<std::byte> record = EncodeEncodedRecord(*encoded);
  made.append(reinterpret_cast<const char*>(record.data()), record.size());
  const auto again = DecodeEncoded("again", made.size(), ReaderOf(made));
  CAIRN_CHECK(again.ok() && again->checkpoint_bytes == encoded->checkpoint_bytes &&
              again->checksum_hex == encoded->checksum_hex && again->timestamp_ns == encoded->timestamp_ns);
}

}  // namespace
}  // namespace cairn::ftiff

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cairn::ftiff;
  if (size == 0) return 0;
  std::string file(reinterpret_cast<const char*>(data) + 1, size - 1);
  const InputKind kind = InputKindOf(data[0]);
  MakeRight(kind, &file);
  DecodeAndBack(file, kind.threads);
  DecodeCodeAndBack(file);
  return 0;
}
