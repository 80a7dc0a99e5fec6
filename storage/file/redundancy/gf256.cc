#include "storage/file/redundancy/gf256.h"

#include <isa-l/erasure_code.h>
#include <isa-l/raid.h>

#include <algorithm>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/field_matrix.h"

namespace cairn::redundancy {
namespace {

constexpr std::size_t kStride = 64;

}  // namespace

// ISA-L's field has this polynomial (0x11d), too.
std::uint8_t Multiply(std::uint8_t a, std::uint8_t b) {
  return gf_mul(a, b);
}

std::uint8_t Inverse(std::uint8_t a) {
  CAIRN_CHECK(a != 0);
  return gf_inv(a);
}

Row ChecksumRow(std::uint32_t n, std::uint32_t checksum) {
  CAIRN_CHECK(n >= 1 && n + checksum <= 255);
  const auto at = static_cast<std::uint8_t>(n + checksum);
  Row row(n);
  for (std::uint32_t node = 0; node < n; ++node) {  // Lagrange: the polynomial that is 1 at `node`, 0 at the others
    std::uint8_t above = 1, below = 1;
    for (std::uint32_t other = 0; other < n; ++other) {
      if (other == node) continue;
      above = Multiply(above, static_cast<std::uint8_t>(at ^ other));
      below = Multiply(below, static_cast<std::uint8_t>(node ^ other));
    }
    row[node] = Multiply(above, Inverse(below));
  }
  return row;
}

Matrix Inverted(Matrix matrix) {
  return InvertedMatrix(std::move(matrix), Multiply, Inverse);
}

Shards::Shards(std::size_t count, std::size_t bytes)
    : stride_((bytes + kStride - 1) / kStride * kStride),
      base_(static_cast<std::byte*>(std::aligned_alloc(kStride, std::max<std::size_t>(count, 1) * stride_)),
            &std::free) {
  CAIRN_CHECK(base_ != nullptr);
  std::fill_n(base_.get(), count * stride_, std::byte{0});
}

Mixer::Mixer(const Matrix& factors) : sources_(factors.at(0).size()), targets_(factors.size()) {
  CAIRN_CHECK(sources_ > 0);
  Row flat;
  for (const Row& row : factors) {
    CAIRN_CHECK(row.size() == sources_);
    flat.insert(flat.end(), row.begin(), row.end());
  }
  // The kernel for sums alone wants two sources, and is several times as fast.
  sum_ = targets_ == 1 && sources_ >= 2 && std::all_of(flat.begin(), flat.end(), [](auto f) { return f == 1; });
  inputs_.resize(sources_);
  outputs_.resize(targets_);
  if (sum_) return;
  tables_.resize(32 * sources_ * targets_);
  ec_init_tables(static_cast<int>(sources_), static_cast<int>(targets_), flat.data(), tables_.data());
}

void Mixer::Mix(Shards& shards, std::size_t bytes) {
  CAIRN_CHECK(bytes <= shards.bytes());
  for (std::size_t i = 0; i < sources_; ++i) inputs_[i] = reinterpret_cast<unsigned char*>(shards.at(i));
  for (std::size_t i = 0; i < targets_; ++i) outputs_[i] = reinterpret_cast<unsigned char*>(shards.at(sources_ + i));
  const auto length = static_cast<int>((bytes + kStride - 1) / kStride * kStride);
  if (sum_) {
    std::vector<void*> all(inputs_.begin(), inputs_.end());
    all.push_back(outputs_[0]);
    CAIRN_CHECK(xor_gen(static_cast<int>(all.size()), length, all.data()) == 0);
    return;
  }
  ec_encode_data(length, static_cast<int>(sources_), static_cast<int>(targets_), tables_.data(), inputs_.data(),
                 outputs_.data());
}

}  // namespace cairn::redundancy
