#include "tests/support/gunzip.h"

#include <isa-l/igzip_lib.h>

#include <cstdint>

namespace cairn::testing {

std::optional<std::string> Gunzip(std::string packed, std::size_t bytes_max) {
  std::string plain(bytes_max, '\0');
  inflate_state state;
  isal_inflate_init(&state);
  state.crc_flag = ISAL_GZIP;
  state.next_in = reinterpret_cast<std::uint8_t*>(packed.data());
  state.avail_in = static_cast<std::uint32_t>(packed.size());
  state.next_out = reinterpret_cast<std::uint8_t*>(plain.data());
  state.avail_out = static_cast<std::uint32_t>(plain.size());
  if (isal_inflate(&state) != ISAL_DECOMP_OK || state.block_state != ISAL_BLOCK_FINISH) return std::nullopt;
  plain.resize(plain.size() - state.avail_out);
  return plain;
}

}  // namespace cairn::testing
