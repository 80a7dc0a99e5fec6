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
  sum_ = targets_ == 1 && sources_ >= 2 && std::all_of(flat.begin(), flat.end(), [](auto f) { return f == 1; });
  all_.resize(sources_ + targets_);
  tables_.resize(32 * sources_ * targets_);
  ec_init_tables(static_cast<int>(sources_), static_cast<int>(targets_), flat.data(), tables_.data());
}

void Mixer::Mix(std::span<const std::byte* const> sources, std::span<std::byte* const> targets, std::size_t bytes) {
  CAIRN_CHECK(sources.size() == sources_ && targets.size() == targets_);
  const auto as_kernels_take_it = [](const std::byte* at) {
    return reinterpret_cast<unsigned char*>(const_cast<std::byte*>(at));  // of sources they only read
  };
  std::ranges::transform(sources, all_.begin(), as_kernels_take_it);
  std::ranges::transform(targets, all_.begin() + static_cast<std::ptrdiff_t>(sources_), as_kernels_take_it);
  // The kernel for sums alone is faster, but takes aligned memory only, and at least two sources.
  const auto is_aligned = [](const unsigned char* at) { return reinterpret_cast<std::uintptr_t>(at) % kStride == 0; };
  if (sum_ && std::ranges::all_of(all_, is_aligned)) {
    CAIRN_CHECK(
        xor_gen(static_cast<int>(all_.size()), static_cast<int>(bytes), reinterpret_cast<void**>(all_.data())) == 0);
    return;
  }
  ec_encode_data(static_cast<int>(bytes), static_cast<int>(sources_), static_cast<int>(targets_), tables_.data(),
                 all_.data(), all_.data() + sources_);
}

}  // namespace cairn::redundancy
