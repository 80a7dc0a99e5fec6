// Any bytes as a catalogue's message, in a frame that is right: decoding answers with a status or with a catalogue that
// is sound and encodes and decodes to itself.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "storage/base/check.h"
#include "storage/base/checksum.h"
#include "storage/format/catalogue/catalogue.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string file("CAIRNCAT\1\0\0\0\0\0\0\0", 16);
  const std::uint64_t bytes = size;
  file.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
  file.append(reinterpret_cast<const char*>(data), size);
  const std::uint32_t crc = cairn::Crc32c(std::as_bytes(std::span(file)));
  file.append(reinterpret_cast<const char*>(&crc), sizeof crc);
  const auto catalogue = cairn::DecodeCatalogue("input", file);
  if (!catalogue.ok()) return 0;
  CAIRN_CHECK(cairn::ValidateCatalogue(*catalogue).ok());
  const auto again = cairn::DecodeCatalogue("again", cairn::EncodeCatalogue(*catalogue));
  CAIRN_CHECK(again.ok());
  CAIRN_CHECK(again->SerializeAsString() == catalogue->SerializeAsString());
  return 0;
}
