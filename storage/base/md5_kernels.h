// The compression function of MD5 (RFC 1321) in the lanes of vector registers: what md5_lanes.cc chooses from.
// The kernels are compiled for processors that not every machine has; so this header has no function of its own.
#ifndef CAIRN_STORAGE_BASE_MD5_KERNELS_H_
#define CAIRN_STORAGE_BASE_MD5_KERNELS_H_

#include <cstddef>
#include <cstdint>

namespace cairn {

inline constexpr std::size_t kMd5KernelLanes = 32;

// Word w of lane l is at [w][l].
struct alignas(64) Md5KernelState {
  std::uint32_t words[4][kMd5KernelLanes];
};

// Feeds `blocks` blocks of 64 bytes from data[l] to each of the first half of the lanes, or to all. The data need not
// be aligned, nor be distinct.
void Md5BlocksAvx512(Md5KernelState& state, const std::byte* const* data, bool all, std::size_t blocks);
void Md5BlocksAvx2(Md5KernelState& state, const std::byte* const* data, bool all, std::size_t blocks);

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_MD5_KERNELS_H_
