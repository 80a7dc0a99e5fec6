#include "storage/base/checksum.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {
namespace {

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::vector<std::byte> RandomBytes(std::size_t count) {
  std::mt19937_64 random(count);
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

TEST(Crc32cTest, VectorsOfRfc3720) {
  std::string up, down;
  for (int i = 0; i < 32; ++i) {
    up += static_cast<char>(i);
    down += static_cast<char>(31 - i);
  }
  EXPECT_EQ(Crc32c(Bytes(std::string(32, '\0'))), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(Bytes(std::string(32, '\xFF'))), 0x62A8AB43u);
  EXPECT_EQ(Crc32c(Bytes(up)), 0x46DD794Eu);
  EXPECT_EQ(Crc32c(Bytes(down)), 0x113FDB5Cu);
  // An iSCSI SCSI Read (10) command PDU.
  constexpr unsigned char kRead[48] = {0x01, 0xC0, 0, 0, 0, 0, 0,    0, 0,    0, 0, 0,    0, 0, 0, 0,     //
                                       0x14, 0,    0, 0, 0, 0, 0x04, 0, 0,    0, 0, 0x14, 0, 0, 0, 0x18,  //
                                       0x28, 0,    0, 0, 0, 0, 0,    0, 0x02, 0, 0, 0,    0, 0, 0, 0};
  EXPECT_EQ(Crc32c(std::as_bytes(std::span(kRead))), 0xD9963A56u);
  EXPECT_EQ(Crc32c(Bytes("123456789")), 0xE3069283u);
}

TEST(Crc32Test, CheckValueOfZlib) {
  EXPECT_EQ(Crc32(Bytes("123456789")), 0xCBF43926u);
  EXPECT_EQ(Crc32(Bytes("")), 0u);
  EXPECT_EQ(Crc32(Bytes("a")), 0xE8B7BE43u);
}

TEST(CrcTest, PartsGoOnFromWhatIsBefore) {
  const std::vector<std::byte> bytes = RandomBytes(5000);
  const std::span<const std::byte> all(bytes);
  for (const std::size_t cut : {0u, 1u, 7u, 64u, 4096u, 4999u, 5000u}) {
    EXPECT_EQ(Crc32c(all.subspan(cut), Crc32c(all.first(cut))), Crc32c(all)) << cut;
    EXPECT_EQ(Crc32(all.subspan(cut), Crc32(all.first(cut))), Crc32(all)) << cut;
  }
}

TEST(CrcTest, EveryFlippedBitShows) {
  std::vector<std::byte> bytes = RandomBytes(100);
  const std::uint32_t crc = Crc32(bytes), crc32c = Crc32c(bytes);
  for (std::size_t bit = 0; bit < 800; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_NE(Crc32(bytes), crc) << bit;
    EXPECT_NE(Crc32c(bytes), crc32c) << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
  }
}

TEST(Crc32CombineTest, IsTheCrcOfBothParts) {
  const std::vector<std::byte> bytes = RandomBytes(70000);
  const std::span<const std::byte> all(bytes);
  for (const std::size_t cut : {0u, 1u, 100u, 65536u, 69999u, 70000u}) {
    EXPECT_EQ(Crc32Combine(Crc32(all.first(cut)), Crc32(all.subspan(cut)), 70000 - cut), Crc32(all)) << cut;
  }
}

TEST(Crc32CombineTest, TakesLengthsThatNoMemoryHolds) {
  // Zeros of a length that doubles: the combination of both halves, 40 times, against combining at once.
  std::uint32_t zeros = Crc32(Bytes(std::string(1, '\0')));
  const std::uint32_t a = Crc32(Bytes("a"));
  std::uint64_t bytes = 1;
  for (int i = 0; i < 40; ++i) {
    const std::uint32_t halves = Crc32Combine(Crc32Combine(a, zeros, bytes), zeros, bytes);
    zeros = Crc32Combine(zeros, zeros, bytes);
    bytes *= 2;
    EXPECT_EQ(Crc32Combine(a, zeros, bytes), halves) << bytes;
  }
}

TEST(Crc32CombineTest, LengthsBeyondWhatZlibTakesAreReduced) {
  const std::uint32_t a = Crc32(Bytes("a")), b = Crc32(Bytes("b"));
  constexpr std::uint64_t kOrder = 0xFFFFFFFFu;  // appending so many zero bytes changes nothing
  for (const std::uint64_t bytes : {std::uint64_t{0}, kOrder, 7 * kOrder, std::uint64_t{UINT64_MAX}}) {
    EXPECT_EQ(Crc32Combine(a, b, bytes), a ^ b) << bytes;
  }
  // 2^63 is 2^31 modulo the order.
  EXPECT_EQ(Crc32Combine(a, b, std::uint64_t{1} << 63), Crc32Combine(a, b, std::uint64_t{1} << 31));
}

TEST(Md5Test, VectorsOfRfc1321) {
  EXPECT_EQ(HexOf(Md5(Bytes(""))), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(HexOf(Md5(Bytes("abc"))), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(HexOf(Md5(Bytes("message digest"))), "f96b697d7cb7938d525a2f31aaf161d0");
  EXPECT_EQ(HexOf(Md5(Bytes("abcdefghijklmnopqrstuvwxyz"))), "c3fcd3d76192e4007dfb496cca67e13b");
  EXPECT_EQ(HexOf(Md5(Bytes("12345678901234567890123456789012345678901234567890123456789012345678901234567890"))),
            "57edf4a22be3c955ac49da2e2107b67a");
}

TEST(HexOfTest, IsLowerCaseAndComplete) {
  EXPECT_EQ(HexOf(Bytes(std::string("\x00\x9F\xA0\xFF", 4))), "009fa0ff");
}

}  // namespace
}  // namespace cairn
