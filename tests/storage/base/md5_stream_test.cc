#include "storage/base/md5_stream.h"

#include <gtest/gtest.h>

#include <vector>

#include "storage/base/checksum.h"

namespace cairn {
namespace {

std::vector<std::byte> Sample(std::size_t bytes) {
  std::vector<std::byte> sample(bytes);
  for (std::size_t i = 0; i < bytes; ++i) sample[i] = static_cast<std::byte>(i * 7 + (i >> 8));
  return sample;
}

TEST(Md5StreamTest, OfNothingIsTheMd5OfNothing) {
  Md5Stream stream;
  EXPECT_EQ(stream.Finish(), Md5({}));
  stream.Append({});
  EXPECT_EQ(stream.Finish(), Md5({}));
}

TEST(Md5StreamTest, AnyPartsGiveTheMd5OfTheWhole) {
  const std::vector<std::byte> sample = Sample(300);
  for (std::size_t first = 0; first <= sample.size(); ++first) {
    for (std::size_t second = 0; first + second <= sample.size(); second += 1 + second / 4) {
      Md5Stream stream;
      stream.Append(std::span(sample).first(first));
      stream.Append(std::span(sample).subspan(first, second));
      stream.Append(std::span(sample).subspan(first + second));
      ASSERT_EQ(stream.Finish(), Md5(sample)) << first << " + " << second;
    }
  }
}

TEST(Md5StreamTest, BytesMayFollowAfterAFinishAndCopiesGoTheirOwnWay) {
  const std::vector<std::byte> sample = Sample(200);
  Md5Stream stream;
  stream.Append(std::span(sample).first(70));
  EXPECT_EQ(stream.Finish(), Md5(std::span(sample).first(70)));
  Md5Stream copy = stream;
  stream.Append(std::span(sample).subspan(70));
  EXPECT_EQ(stream.Finish(), Md5(sample));
  copy.Append(std::span(sample).subspan(70, 1));
  EXPECT_EQ(copy.Finish(), Md5(std::span(sample).first(71)));
}

TEST(Md5StreamTest, TakenLanesOfManyStreamsAreHashedAtOnce) {
  const std::vector<std::byte> sample = Sample(1000);
  std::vector<Md5Stream> streams(37);
  for (int round = 0; round < 3; ++round) {
    std::vector<Md5Lane> lanes;
    for (std::size_t i = 0; i < streams.size(); ++i) lanes.push_back(streams[i].Take(std::span(sample).first(i * 9)));
    Md5Advance(lanes);
  }
  for (std::size_t i = 0; i < streams.size(); ++i) {
    std::vector<std::byte> whole;
    for (int round = 0; round < 3; ++round) whole.insert(whole.end(), sample.begin(), sample.begin() + i * 9);
    EXPECT_EQ(streams[i].Finish(), Md5(whole)) << i;
  }
}

}  // namespace
}  // namespace cairn
