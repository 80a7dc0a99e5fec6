// Numbers as the files have them: of 8 bytes, little-endian, at any place.
#ifndef CAIRN_STORAGE_FILE_BPDIR_NUMBER_AT_H_
#define CAIRN_STORAGE_FILE_BPDIR_NUMBER_AT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace cairn::bpdir {

// REQUIRES: the bytes are there.
inline std::uint64_t NumberAt(std::span<const std::byte> bytes, std::uint64_t at) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

}  // namespace cairn::bpdir

#endif  // CAIRN_STORAGE_FILE_BPDIR_NUMBER_AT_H_
