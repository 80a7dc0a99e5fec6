#include "storage/file/fti/code.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "storage/base/check.h"
#include "storage/base/field_matrix.h"
#include "storage/base/status.h"

namespace cairn::fti {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint32_t kPolynomial = 0x1100B;
constexpr std::size_t kPieceBytes = 256 << 10;  // of each of up to 62 shards in memory
constexpr std::size_t kStripBytes = 16 << 10;   // all sources' strips stay in the second-level cache

using Matrix = FieldMatrix<std::uint16_t>;

// How shard `shard` is made of the data shards.
std::vector<std::uint16_t> RowOf(std::uint32_t k, std::uint32_t shard) {
  std::vector<std::uint16_t> row(k);
  if (shard < k) {
    row[shard] = 1;
    return row;
  }
  for (std::uint32_t j = 0; j < k; ++j) row[j] = Inverse(static_cast<std::uint16_t>((shard - k) ^ (k + j)));
  return row;
}

}  // namespace

std::uint16_t Multiply(std::uint16_t a, std::uint16_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t shifted = a; b != 0; b >>= 1) {
    if ((b & 1) != 0) product ^= shifted;
    shifted <<= 1;
    if ((shifted & 0x10000) != 0) shifted ^= kPolynomial;
  }
  return static_cast<std::uint16_t>(product);
}

std::uint16_t Inverse(std::uint16_t a) {
  CAIRN_CHECK(a != 0);
  // The multiplicative group has 2^16 − 1 elements: a^(2^16 − 2) is the inverse.
  std::uint16_t result = 1;
  for (int bit = 1; bit < 16; ++bit) {
    a = Multiply(a, a);
    result = Multiply(result, a);
  }
  return result;
}

absl::StatusOr<Recipe> MakeRecipe(std::uint32_t k, std::span<const std::uint32_t> present,
                                  std::span<const std::uint32_t> targets) {
  CAIRN_CHECK(k >= 1 && k <= kCodedGroupMax);
  if (present.size() < k) return DataLoss("{} of {} shards are there, {} are needed", present.size(), 2 * k, k);
  Recipe recipe;
  recipe.sources.assign(present.begin(), present.begin() + k);
  recipe.targets.assign(targets.begin(), targets.end());
  Matrix known;
  for (const std::uint32_t shard : recipe.sources) known.push_back(RowOf(k, shard));
  // The data shards, made of the sources: rows of any k are independent, since every square part of a Cauchy matrix is.
  const Matrix data = InvertedMatrix(std::move(known), Multiply, Inverse);
  for (const std::uint32_t target : targets) {
    const std::vector<std::uint16_t> row = RowOf(k, target);
    std::vector<std::uint16_t> factors(k);
    for (std::uint32_t j = 0; j < k; ++j) AddRow(factors, data[j], row[j], Multiply);
    recipe.factors.push_back(std::move(factors));
  }
  return recipe;
}

Mixer::Mixer(const Recipe& recipe) : sources_(recipe.sources.size()), avx2_(__builtin_cpu_supports("avx2") != 0) {
  for (const std::vector<std::uint16_t>& row : recipe.factors) {
    CAIRN_CHECK(row.size() == sources_);
    for (const std::uint16_t factor : row) factors_.push_back(FactorOf(factor));
  }
}

Mixer::Factor Mixer::FactorOf(std::uint16_t value) {
  Factor factor;
  factor.zero = value == 0;
  for (std::uint32_t i = 1; i < 256; ++i) {
    const std::uint32_t bit = std::bit_floor(i);
    if (i == bit) {
      factor.low[i] = Multiply(value, static_cast<std::uint16_t>(i));
      factor.high[i] = Multiply(value, static_cast<std::uint16_t>(i << 8));
    } else {
      factor.low[i] = factor.low[bit] ^ factor.low[i ^ bit];
      factor.high[i] = factor.high[bit] ^ factor.high[i ^ bit];
    }
  }
  for (std::uint32_t i = 0; i < 16; ++i) {
    const std::uint16_t products[] = {factor.low[i], factor.low[i << 4], factor.high[i], factor.high[i << 4]};
    for (std::uint32_t nibble = 0; nibble < 4; ++nibble) {
      factor.nibbles[nibble][i] = static_cast<std::uint8_t>(products[nibble]);
      factor.nibbles[nibble + 4][i] = static_cast<std::uint8_t>(products[nibble] >> 8);
    }
  }
  return factor;
}

void Mixer::AddScalar(const Factor& factor, const std::byte* source, std::byte* target, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += 2) {
    std::uint16_t sum;
    std::memcpy(&sum, target + i, 2);
    sum ^= factor.low[std::to_integer<std::uint8_t>(source[i])];
    sum ^= factor.high[std::to_integer<std::uint8_t>(source[i + 1])];
    std::memcpy(target + i, &sum, 2);
  }
}

// 32 words at a time: their low and their high bytes apart, so that a shuffle looks up 32 nibbles in a table of 16.
__attribute__((target("avx2"))) std::size_t Mixer::AddAvx2(const Factor& factor, const std::byte* source,
                                                           std::byte* target, std::size_t bytes) {
  __m256i tables[8];
  for (int i = 0; i < 8; ++i) {
    const auto* table = reinterpret_cast<const __m128i*>(factor.nibbles[i].data());
    tables[i] = _mm256_broadcastsi128_si256(_mm_loadu_si128(table));
  }
  const __m256i low_byte = _mm256_set1_epi16(0xff), low_nibble = _mm256_set1_epi8(0x0f);
  std::size_t done = 0;
  for (; done + 64 <= bytes; done += 64) {
    const auto* in = reinterpret_cast<const __m256i*>(source + done);
    auto* out = reinterpret_cast<__m256i*>(target + done);
    const __m256i first = _mm256_loadu_si256(in), second = _mm256_loadu_si256(in + 1);
    const __m256i low = _mm256_packus_epi16(_mm256_and_si256(first, low_byte), _mm256_and_si256(second, low_byte));
    const __m256i high = _mm256_packus_epi16(_mm256_srli_epi16(first, 8), _mm256_srli_epi16(second, 8));
    const __m256i nibbles[] = {
        _mm256_and_si256(low, low_nibble), _mm256_and_si256(_mm256_srli_epi16(low, 4), low_nibble),
        _mm256_and_si256(high, low_nibble), _mm256_and_si256(_mm256_srli_epi16(high, 4), low_nibble)};
    __m256i sum_low = _mm256_shuffle_epi8(tables[0], nibbles[0]);
    __m256i sum_high = _mm256_shuffle_epi8(tables[4], nibbles[0]);
    for (int i = 1; i < 4; ++i) {
      sum_low = _mm256_xor_si256(sum_low, _mm256_shuffle_epi8(tables[i], nibbles[i]));
      sum_high = _mm256_xor_si256(sum_high, _mm256_shuffle_epi8(tables[i + 4], nibbles[i]));
    }
    // Interleaving within the halves of a register undoes what packing did to the order.
    const __m256i first_sum = _mm256_unpacklo_epi8(sum_low, sum_high);
    const __m256i second_sum = _mm256_unpackhi_epi8(sum_low, sum_high);
    _mm256_storeu_si256(out, _mm256_xor_si256(_mm256_loadu_si256(out), first_sum));
    _mm256_storeu_si256(out + 1, _mm256_xor_si256(_mm256_loadu_si256(out + 1), second_sum));
  }
  return done;
}

void Mixer::Mix(std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                std::size_t bytes) const {
  CAIRN_CHECK(bytes % 2 == 0);
  CAIRN_CHECK(sources.size() == sources_ && targets.size() * sources_ == factors_.size());
  for (std::size_t begin = 0; begin < bytes; begin += kStripBytes) {
    const std::size_t strip = std::min(kStripBytes, bytes - begin);
    for (std::size_t t = 0; t < targets.size(); ++t) {
      std::byte* const target = targets[t] + begin;
      std::memset(target, 0, strip);
      for (std::size_t s = 0; s < sources_; ++s) {
        const Factor& factor = factors_[t * sources_ + s];
        if (factor.zero) continue;
        const std::byte* const source = sources[s] + begin;
        const std::size_t done = avx2_ ? AddAvx2(factor, source, target, strip) : 0;
        AddScalar(factor, source + done, target + done, strip - done);
      }
    }
  }
}

absl::Status MixShards(const Recipe& recipe, std::uint64_t bytes, std::span<const ReadShard> sources,
                       std::span<const WriteShard> targets) {
  CAIRN_CHECK(sources.size() == recipe.sources.size() && targets.size() == recipe.targets.size());
  const Mixer mixer(recipe);
  const std::size_t piece_max = static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, bytes + bytes % 2));
  std::vector<std::byte> memory(piece_max * (sources.size() + targets.size()));
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  for (std::size_t i = 0; i < sources.size(); ++i) inputs.push_back(memory.data() + i * piece_max);
  for (std::size_t i = 0; i < targets.size(); ++i) outputs.push_back(memory.data() + (sources.size() + i) * piece_max);
  for (std::uint64_t offset = 0; offset < bytes; offset += piece_max) {
    const auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(piece_max, bytes - offset));
    for (std::size_t i = 0; i < sources.size(); ++i) {
      std::byte* const input = memory.data() + i * piece_max;
      CAIRN_RETURN_IF_ERROR(sources[i](offset, {input, piece}));
      if (piece % 2 != 0) input[piece] = std::byte{0};
    }
    mixer.Mix(inputs, outputs, piece + piece % 2);
    for (std::size_t i = 0; i < targets.size(); ++i) {
      CAIRN_RETURN_IF_ERROR(targets[i](offset, {outputs[i], piece}));
    }
  }
  return absl::OkStatus();
}

}  // namespace cairn::fti
