// Arithmetic in GF(2^8) with x^8 + x^4 + x^3 + x^2 + 1, and SCR's checksum rows over it. SCR specification, 10.7.
// Pure. Used by storage/file/redundancy/ only.
#ifndef CAIRN_STORAGE_FILE_REDUNDANCY_GF256_H_
#define CAIRN_STORAGE_FILE_REDUNDANCY_GF256_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

namespace cairn::redundancy {

// Sums are XOR.
std::uint8_t Multiply(std::uint8_t a, std::uint8_t b);
std::uint8_t Inverse(std::uint8_t a);  // REQUIRES: a != 0

using Row = std::vector<std::uint8_t>;
using Matrix = std::vector<Row>;

// Row `checksum` below the identity in M = V * T^-1 for a set of n: factors by set rank. V[i] are the powers of i, so
// the row turns the values of a polynomial at 0 … n-1 into its value at n + checksum.
// REQUIRES: n + checksum <= 255.
Row ChecksumRow(std::uint32_t n, std::uint32_t checksum);

// REQUIRES: square, with independent rows.
Matrix Inverted(Matrix matrix);

// Memory for the shards of a stripe, aligned for the kernels, rounded up to whole strides of 64 bytes each.
class Shards {
 public:
  Shards(std::size_t count, std::size_t bytes);
  std::size_t bytes() const { return stride_; }  // of each
  std::byte* at(std::size_t shard) { return base_.get() + shard * stride_; }

 private:
  std::size_t stride_;
  std::unique_ptr<std::byte, decltype(&std::free)> base_;
};

// Sets targets to sums of sources times factors.
class Mixer {
 public:
  // factors[target][source]. REQUIRES: at least one of each; rows of one length.
  explicit Mixer(const Matrix& factors);
  // `bytes` of each, wherever they lie: fastest at multiples of 64 bytes. REQUIRES: as many as the factors have.
  void Mix(std::span<const std::byte* const> sources, std::span<std::byte* const> targets, std::size_t bytes);

 private:
  const std::size_t sources_, targets_;
  bool sum_ = false;  // one target, all factors 1
  std::vector<std::uint8_t> tables_;
  std::vector<unsigned char*> all_;  // sources, then targets, as the kernels take them
};

}  // namespace cairn::redundancy

#endif  // CAIRN_STORAGE_FILE_REDUNDANCY_GF256_H_
