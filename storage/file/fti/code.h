// The erasure code of level 3: of k data shards and k code shards any k give the others.
// Words of 16 bits, little-endian, in GF(2^16) with x^16 + x^12 + x^3 + x + 1; code shard i is the sum over the data
// shards j of 1 / (i XOR (k + j)) times the shard: a Cauchy matrix. Source: FTI-FF specification, section 7.3.
// Pure: no I/O but through functions. Thread-safe: const methods may run concurrently.
//
// libgf-complete (1.0.2) has the same field, but takes 1.4 times as long (10 to 12 GB/s of products on a core; our AVX2
// code 15 to 17), and ends the process if source and target are not equally aligned to 16 bytes.
#ifndef CAIRN_STORAGE_FILE_FTI_CODE_H_
#define CAIRN_STORAGE_FILE_FTI_CODE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace cairn::fti {

inline constexpr std::uint32_t kCodedGroupMax = 31;  // data shards; as many code shards

// Sums in the field are XOR. Multiply is slow: for factors, not for data.
std::uint16_t Multiply(std::uint16_t a, std::uint16_t b);
std::uint16_t Inverse(std::uint16_t a);  // REQUIRES: a != 0

// Shards are numbered 0 … k−1 (data, by group rank) and k … 2k−1 (code, by group rank).
struct Recipe {
  std::vector<std::uint32_t> sources, targets;
  std::vector<std::vector<std::uint16_t>> factors;  // by target, then by source
};

// How to make `targets` out of k of the shards that are there (the first k in `present`).
// REQUIRES: 1 <= k <= kCodedGroupMax; shards < 2k, none twice in `present`.
//   kDataLoss  fewer than k are there
absl::StatusOr<Recipe> MakeRecipe(std::uint32_t k, std::span<const std::uint32_t> present,
                                  std::span<const std::uint32_t> targets);

// Applies a recipe to bytes.
class Mixer {
 public:
  explicit Mixer(const Recipe& recipe);

  // Sets each target to the sum of the sources times its factors. All are `bytes` long and do not overlap.
  // REQUIRES: bytes is even; as many pointers as the recipe has sources and targets.
  void Mix(std::span<const std::byte* const> sources, std::span<std::byte* const> targets, std::size_t bytes) const;

 private:
  struct Factor {  // a product is the XOR of those of its parts
    bool zero = false;
    std::array<std::uint16_t, 256> low{}, high{};           // of the word's bytes
    std::array<std::array<std::uint8_t, 16>, 8> nibbles{};  // of its four nibbles: low bytes, then high bytes
  };
  static Factor FactorOf(std::uint16_t value);
  static void AddScalar(const Factor& factor, const std::byte* source, std::byte* target, std::size_t bytes);
  static std::size_t AddAvx2(const Factor& factor, const std::byte* source, std::byte* target, std::size_t bytes);

  std::size_t sources_ = 0;
  std::vector<Factor> factors_;  // by target, then by source
  bool avx2_ = false;
};

using ReadShard = std::function<absl::Status(std::uint64_t offset, std::span<std::byte> target)>;
using WriteShard = std::function<absl::Status(std::uint64_t offset, std::span<const std::byte> bytes)>;

// Makes whole shards of `bytes` bytes piece by piece, front to back, in some MiB of memory: `sources` and `targets` in
// the recipe's order. The last word of an odd number of bytes is taken with a zero upper byte, and only its low byte is
// written: what is rebuilt from code shards then has its last byte wrong, unless it is 0 in all data shards.
// Errors of the functions pass through.
absl::Status MixShards(const Recipe& recipe, std::uint64_t bytes, std::span<const ReadShard> sources,
                       std::span<const WriteShard> targets);

}  // namespace cairn::fti

#endif  // CAIRN_STORAGE_FILE_FTI_CODE_H_
