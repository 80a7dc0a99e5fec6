#include <bit>
#include <cstring>

#include "storage/format/bp5/format.h"

namespace cairn::bp5 {
namespace {

struct Hashes {
  std::uint32_t primary, secondary;
};

struct Words {
  std::uint32_t a, b, c;

  void Add(const std::byte* at) {
    std::uint32_t words[3];
    std::memcpy(words, at, sizeof(words));
    a += words[0];
    b += words[1];
    c += words[2];
  }
};

void Mix(Words& w) {
  const auto round = [](std::uint32_t& x, std::uint32_t& y, std::uint32_t& z, int bits) {
    x -= z;
    x ^= std::rotl(z, bits);
    z += y;
  };
  round(w.a, w.b, w.c, 4);
  round(w.b, w.c, w.a, 6);
  round(w.c, w.a, w.b, 8);
  round(w.a, w.b, w.c, 16);
  round(w.b, w.c, w.a, 19);
  round(w.c, w.a, w.b, 4);
}

Hashes Finish(Words w) {
  const auto round = [](std::uint32_t& x, std::uint32_t y, int bits) {
    x ^= y;
    x -= std::rotl(y, bits);
  };
  round(w.c, w.b, 14);
  round(w.a, w.c, 11);
  round(w.b, w.a, 25);
  round(w.c, w.b, 16);
  round(w.a, w.c, 4);
  round(w.b, w.a, 14);
  round(w.c, w.b, 24);
  return {w.c, w.b};
}

// Bob Jenkins' lookup3 (hashlittle2) with both seeds 0, as section 4 gives it. The words are little-endian.
static_assert(std::endian::native == std::endian::little);
Hashes Lookup3(std::span<const std::byte> bytes) {
  constexpr std::size_t kRoundBytes = 12;
  const std::uint32_t begin = 0xdeadbeef + static_cast<std::uint32_t>(bytes.size());
  Words words{begin, begin, begin};
  if (bytes.empty()) return {words.c, words.b};
  while (bytes.size() > kRoundBytes) {
    words.Add(bytes.data());
    Mix(words);
    bytes = bytes.subspan(kRoundBytes);
  }
  std::byte last[kRoundBytes] = {};
  std::memcpy(last, bytes.data(), bytes.size());
  words.Add(last);
  return Finish(words);
}

}  // namespace

FormatId IdOf(std::span<const std::byte> block) {
  const Hashes hashes = Lookup3(block);
  const std::size_t length = block.size() / 4;
  FormatId id;
  id.bytes[0] = 2;
  for (std::size_t i = 0; i < 3; ++i) id.bytes[1 + i] = static_cast<std::uint8_t>(length >> (16 - 8 * i));
  for (std::size_t i = 0; i < 4; ++i) {
    id.bytes[4 + i] = static_cast<std::uint8_t>(hashes.primary >> (24 - 8 * i));
    id.bytes[8 + i] = static_cast<std::uint8_t>(hashes.secondary >> (24 - 8 * i));
  }
  return id;
}

}  // namespace cairn::bp5
