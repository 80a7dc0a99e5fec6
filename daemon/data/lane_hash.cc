#include "daemon/data/lane_hash.h"

#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <cstring>

namespace cairn {
namespace {

// Of each lane: together they stay in the second-level cache for the checksums that follow.
constexpr std::size_t kSliceBytes = (768 << 10) / kMd5LanesMax;
static_assert(kSliceBytes % kMd5BlockBytes == 0);

// Of most jobs, whose lanes are full ones: without memory of their own.
using Done = absl::InlinedVector<std::size_t, kMd5LanesMax>;
using Md5Lanes = absl::InlinedVector<Md5Lane, kMd5LanesMax>;

constexpr std::uint32_t kCastagnoli = 0x82F63B78;  // reflected (RFC 3720, 12.1)

constexpr std::uint32_t kZlib = 0xEDB88320;  // reflected

// The product of two polynomials modulo a third. Reflected: bit 31 is the coefficient of x^0.
constexpr std::uint32_t Multiply(std::uint32_t a, std::uint32_t b, std::uint32_t modulo = kCastagnoli) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = 0x80000000u; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b & 1) != 0 ? (b >> 1) ^ modulo : b >> 1;
  }
  return product;
}

// x^(8 * 2^k) for k = 0…63.
constexpr std::array<std::uint32_t, 64> MakeBytePowers() {
  std::array<std::uint32_t, 64> powers{};
  powers[0] = 0x80000000u >> 8;
  for (std::size_t k = 1; k < powers.size(); ++k) powers[k] = Multiply(powers[k - 1], powers[k - 1]);
  return powers;
}
constexpr std::array<std::uint32_t, 64> kBytePowers = MakeBytePowers();

std::uint32_t ShiftCrc32c(std::uint32_t crc, std::uint64_t bytes) {
  for (std::size_t k = 0; bytes != 0; ++k, bytes >>= 1) {
    if ((bytes & 1) != 0) crc = Multiply(kBytePowers[k], crc);
  }
  return crc;
}

// What kHashBlockBytes zero bytes behind it make of a CRC, by its four bytes: a shift is linear, too.
using BlockShift = std::array<std::array<std::uint32_t, 256>, 4>;
constexpr BlockShift MakeBlockShift(std::uint32_t modulo) {
  std::uint32_t factor = 0x80000000u >> 8;  // x^8
  for (std::size_t bytes = 1; bytes < kHashBlockBytes; bytes *= 2) factor = Multiply(factor, factor, modulo);
  BlockShift shift{};
  for (std::size_t place = 0; place < 4; ++place) {
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      shift[place][byte] = Multiply(factor, byte << (8 * place), modulo);
    }
  }
  return shift;
}
static_assert((kHashBlockBytes & (kHashBlockBytes - 1)) == 0);
constexpr BlockShift kShift32c = MakeBlockShift(kCastagnoli);
constexpr BlockShift kShift32 = MakeBlockShift(kZlib);

std::uint32_t ShiftByBlock(const BlockShift& shift, std::uint32_t crc) {
  return shift[0][crc & 0xFF] ^ shift[1][crc >> 8 & 0xFF] ^ shift[2][crc >> 16 & 0xFF] ^ shift[3][crc >> 24];
}

// Adding n zero bytes without the complements that a CRC begins and ends with.
BlockCrc Shift(const BlockCrc& crc, std::uint64_t bytes) {
  if (bytes == kHashBlockBytes) return {ShiftByBlock(kShift32c, crc.crc32c), ShiftByBlock(kShift32, crc.crc32)};
  return {ShiftCrc32c(crc.crc32c, bytes), Crc32Combine(crc.crc32, 0, bytes)};
}

// Fills up the block that each lane carries.
void FeedCarries(std::span<HashLane> lanes, Done& done) {
  Md5Lanes blocks;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    ChunkHash& hash = lanes[i].hash;
    if (hash.carried == 0 || lanes[i].data.empty()) continue;
    done[i] = std::min(kMd5BlockBytes - hash.carried, lanes[i].data.size());
    std::memcpy(hash.carry.data() + hash.carried, lanes[i].data.data(), done[i]);
    hash.carried += done[i];
    if (hash.carried < kMd5BlockBytes) continue;
    blocks.push_back({&hash.md5, hash.carry.data(), kMd5BlockBytes});
    hash.carried = 0;
  }
  if (!blocks.empty()) Md5Advance(blocks);
}

void Add(std::span<const std::byte> bytes, BlockCrc& crc) {
  crc.crc32c = Crc32c(bytes, crc.crc32c);
  crc.crc32 = Crc32(bytes, crc.crc32);
}

// While they are in the cache.
void LookAt(HashLane& lane, std::size_t from, std::size_t bytes) {
  lane.scan.Add(lane.data.subspan(from, bytes));
  if (!lane.in_block.has_value()) return Add(lane.data.subspan(from, bytes), lane.crc);
  for (const std::size_t end = from + bytes; from < end;) {
    const std::size_t at = *lane.in_block + from;
    const std::size_t part = std::min(end - from, kHashBlockBytes - at % kHashBlockBytes);
    Add(lane.data.subspan(from, part), lane.parts[at / kHashBlockBytes]);
    from += part;
  }
}

// One slice of each lane; false if none has whole blocks left.
bool FeedSlices(std::span<HashLane> lanes, Done& done) {
  Md5Lanes slices;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    HashLane& lane = lanes[i];
    const std::size_t whole = (lane.data.size() - done[i]) / kMd5BlockBytes * kMd5BlockBytes;
    if (whole == 0) continue;
    slices.push_back({&lane.hash.md5, lane.data.data() + done[i], std::min(whole, kSliceBytes)});
  }
  if (slices.empty()) return false;
  Md5Advance(slices);
  std::size_t slice = 0;
  for (std::size_t i = 0; i < lanes.size() && slice < slices.size(); ++i) {
    if (slices[slice].state != &lanes[i].hash.md5) continue;
    LookAt(lanes[i], done[i], slices[slice].bytes);
    done[i] += slices[slice].bytes;
    ++slice;
  }
  return true;
}

}  // namespace

BlockCrc ZeroCrc(std::uint64_t bytes) {
  BlockCrc crc = Shift({0xFFFFFFFFu, 0xFFFFFFFFu}, bytes);
  crc ^= {0xFFFFFFFFu, 0xFFFFFFFFu};
  return crc;
}

BlockCrc CrcOf(std::span<const std::byte> bytes) {
  BlockCrc crc;
  Add(bytes, crc);
  return crc;
}

BlockCrc JoinCrc(const BlockCrc& before, const BlockCrc& next, std::uint64_t bytes) {
  BlockCrc crc = Shift(before, bytes);
  crc ^= next;
  return crc;
}

BlockCrc ShareOf(const BlockCrc& part, std::uint64_t part_bytes, std::uint64_t behind) {
  BlockCrc change = ZeroCrc(part_bytes);
  change ^= part;
  return Shift(change, behind);
}

void HashLanes(std::span<HashLane> lanes, const std::function<bool()>& stop) {
  Done done(lanes.size(), 0);
  for (HashLane& lane : lanes) {
    lane.crc = {};
    std::ranges::fill(lane.parts, BlockCrc());
  }
  FeedCarries(lanes, done);
  for (std::size_t i = 0; i < lanes.size(); ++i) LookAt(lanes[i], 0, done[i]);
  do {
    if (stop()) return;
  } while (FeedSlices(lanes, done));
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    HashLane& lane = lanes[i];
    const std::size_t rest = lane.data.size() - done[i];
    if (rest == 0) continue;
    LookAt(lane, done[i], rest);
    std::memcpy(lane.hash.carry.data(), lane.data.data() + done[i], rest);
    lane.hash.carried = rest;
  }
}

}  // namespace cairn
