#include <immintrin.h>

#include "storage/base/md5_kernels.h"
#include "storage/base/md5_rounds.h"

namespace cairn {
namespace {

struct Lanes8 {
  using Vector = __m256i;

  static Vector Add(Vector a, Vector b) { return _mm256_add_epi32(a, b); }
  static Vector Set(std::uint32_t word) { return _mm256_set1_epi32(static_cast<int>(word)); }
  template <int kBits>
  static Vector Rotate(Vector a) {
    return _mm256_or_si256(_mm256_slli_epi32(a, kBits), _mm256_srli_epi32(a, 32 - kBits));
  }
  static Vector F(Vector b, Vector c, Vector d) {
    return _mm256_xor_si256(d, _mm256_and_si256(b, _mm256_xor_si256(c, d)));
  }
  static Vector G(Vector b, Vector c, Vector d) { return F(d, b, c); }
  static Vector H(Vector b, Vector c, Vector d) { return _mm256_xor_si256(b, _mm256_xor_si256(c, d)); }
  static Vector I(Vector b, Vector c, Vector d) {
    return _mm256_xor_si256(c, _mm256_or_si256(b, _mm256_xor_si256(d, _mm256_set1_epi32(-1))));
  }
};

constexpr std::size_t kGroups = 2;  // at once: more do not fit into the registers

// Words 8 * half .. 8 * half + 7 of the lanes of a group: a transposition of 8 x 8 words, in three stages of pairs.
[[gnu::always_inline]] inline void LoadHalf(const std::byte* const* data, std::size_t offset, int half,
                                            std::size_t group, __m256i (&message)[16][kGroups]) {
  __m256i row[8], by32[8], by64[8];
  for (int i = 0; i < 8; ++i) {
    row[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data[8 * group + i] + offset + 32 * half));
  }
  for (int i = 0; i < 8; i += 2) {
    by32[i] = _mm256_unpacklo_epi32(row[i], row[i + 1]);
    by32[i + 1] = _mm256_unpackhi_epi32(row[i], row[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    by64[i] = _mm256_unpacklo_epi64(by32[i], by32[i + 2]);
    by64[i + 1] = _mm256_unpackhi_epi64(by32[i], by32[i + 2]);
    by64[i + 2] = _mm256_unpacklo_epi64(by32[i + 1], by32[i + 3]);
    by64[i + 3] = _mm256_unpackhi_epi64(by32[i + 1], by32[i + 3]);
  }
  for (int k = 0; k < 4; ++k) {
    message[8 * half + k][group] = _mm256_permute2x128_si256(by64[k], by64[k + 4], 0x20);
    message[8 * half + k + 4][group] = _mm256_permute2x128_si256(by64[k], by64[k + 4], 0x31);
  }
}

// Of the lanes from `first` on.
void Blocks(Md5KernelState& state, const std::byte* const* data, std::size_t first, std::size_t blocks) {
  __m256i words[4][kGroups];
  for (int w = 0; w < 4; ++w) {
    for (std::size_t g = 0; g < kGroups; ++g) {
      words[w][g] = _mm256_load_si256(reinterpret_cast<const __m256i*>(state.words[w] + first + 8 * g));
    }
  }
  for (std::size_t offset = 0; offset < blocks * 64; offset += 64) {
    __m256i message[16][kGroups];
    for (std::size_t g = 0; g < kGroups; ++g) {
      LoadHalf(data + first, offset, 0, g, message);
      LoadHalf(data + first, offset, 1, g, message);
    }
    md5::Compress<Lanes8, kGroups>(words, message);
  }
  for (int w = 0; w < 4; ++w) {
    for (std::size_t g = 0; g < kGroups; ++g) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(state.words[w] + first + 8 * g), words[w][g]);
    }
  }
}

}  // namespace

void Md5BlocksAvx2(Md5KernelState& state, const std::byte* const* data, bool all, std::size_t blocks) {
  constexpr std::size_t kHalf = kMd5KernelLanes / 2;
  static_assert(kHalf == 8 * kGroups);
  Blocks(state, data, 0, blocks);
  if (all) Blocks(state, data, kHalf, blocks);
}

}  // namespace cairn
