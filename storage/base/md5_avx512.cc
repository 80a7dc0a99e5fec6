#include <immintrin.h>

#include "storage/base/md5_kernels.h"
#include "storage/base/md5_rounds.h"

namespace cairn {
namespace {

struct Lanes16 {
  using Vector = __m512i;

  static Vector Add(Vector a, Vector b) { return _mm512_add_epi32(a, b); }
  static Vector Set(std::uint32_t word) { return _mm512_set1_epi32(static_cast<int>(word)); }
  template <int kBits>
  static Vector Rotate(Vector a) {
    return _mm512_rol_epi32(a, kBits);
  }
  // The last argument is the truth table of the function: bit (4x + 2y + z) is its value.
  static Vector F(Vector b, Vector c, Vector d) { return _mm512_ternarylogic_epi32(b, c, d, 0xCA); }  // b ? c : d
  static Vector G(Vector b, Vector c, Vector d) { return _mm512_ternarylogic_epi32(b, c, d, 0xE4); }  // d ? b : c
  static Vector H(Vector b, Vector c, Vector d) { return _mm512_ternarylogic_epi32(b, c, d, 0x96); }  // b ^ c ^ d
  static Vector I(Vector b, Vector c, Vector d) { return _mm512_ternarylogic_epi32(b, c, d, 0x39); }  // c ^ (b | ~d)
};

// Message word w of a group's lanes into message[w]: a transposition of 16 x 16 words, in four stages of pairs.
template <std::size_t kGroups>
[[gnu::always_inline]] inline void LoadMessage(const std::byte* const* data, std::size_t offset, std::size_t group,
                                               __m512i (&message)[16][kGroups]) {
  __m512i row[16], by32[16], by64[16], by128[16];
  for (int i = 0; i < 16; ++i) row[i] = _mm512_loadu_si512(data[16 * group + i] + offset);
  for (int i = 0; i < 16; i += 2) {
    by32[i] = _mm512_unpacklo_epi32(row[i], row[i + 1]);
    by32[i + 1] = _mm512_unpackhi_epi32(row[i], row[i + 1]);
  }
  // by64[4q + k]: word 4j + k of lanes 4q .. 4q + 3 in the j-th quarter of the register
  for (int i = 0; i < 16; i += 4) {
    by64[i] = _mm512_unpacklo_epi64(by32[i], by32[i + 2]);
    by64[i + 1] = _mm512_unpackhi_epi64(by32[i], by32[i + 2]);
    by64[i + 2] = _mm512_unpacklo_epi64(by32[i + 1], by32[i + 3]);
    by64[i + 3] = _mm512_unpackhi_epi64(by32[i + 1], by32[i + 3]);
  }
  // by128[k]: quarters 0, 2 of lanes 0 .. 3, then of 4 .. 7; [k + 4]: quarters 1, 3; [k + 8], [k + 12]: lanes 8 .. 15
  for (int half = 0; half < 16; half += 8) {
    for (int k = 0; k < 4; ++k) {
      by128[half + k] = _mm512_shuffle_i32x4(by64[half + k], by64[half + k + 4], 0x88);
      by128[half + k + 4] = _mm512_shuffle_i32x4(by64[half + k], by64[half + k + 4], 0xDD);
    }
  }
  for (int k = 0; k < 8; ++k) {
    message[k][group] = _mm512_shuffle_i32x4(by128[k], by128[k + 8], 0x88);
    message[k + 8][group] = _mm512_shuffle_i32x4(by128[k], by128[k + 8], 0xDD);
  }
}

// Two groups take a third less time for each than one: a step of MD5 waits for the one before.
template <std::size_t kGroups>
void Blocks(Md5KernelState& state, const std::byte* const* data, std::size_t blocks) {
  __m512i words[4][kGroups];
  for (int w = 0; w < 4; ++w) {
    for (std::size_t g = 0; g < kGroups; ++g) words[w][g] = _mm512_load_si512(state.words[w] + 16 * g);
  }
  for (std::size_t offset = 0; offset < blocks * 64; offset += 64) {
    __m512i message[16][kGroups];
    for (std::size_t g = 0; g < kGroups; ++g) LoadMessage(data, offset, g, message);
    md5::Compress<Lanes16, kGroups>(words, message);
  }
  for (int w = 0; w < 4; ++w) {
    for (std::size_t g = 0; g < kGroups; ++g) _mm512_store_si512(state.words[w] + 16 * g, words[w][g]);
  }
}

}  // namespace

void Md5BlocksAvx512(Md5KernelState& state, const std::byte* const* data, bool all, std::size_t blocks) {
  all ? Blocks<kMd5KernelLanes / 16>(state, data, blocks) : Blocks<kMd5KernelLanes / 32>(state, data, blocks);
}

}  // namespace cairn
