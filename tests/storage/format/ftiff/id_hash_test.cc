#include "storage/format/ftiff/id_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace cairn::ftiff {
namespace {

std::size_t LargestBucket(const IdSet& ids) {
  std::size_t largest = 0;
  for (std::size_t i = 0; i < ids.bucket_count(); ++i) largest = std::max(largest, ids.bucket_size(i));
  return largest;
}

TEST(IdHashTest, MultiplesOfTheNumberOfBucketsDoNotMeet) {
  constexpr std::size_t kIds = 20'000;
  IdSet ids;
  ids.reserve(kIds);
  const std::size_t buckets = ids.bucket_count();
  for (std::size_t i = 0; i < kIds; ++i) ids.insert(static_cast<std::int32_t>(i * buckets % 0x7fffffff));
  ASSERT_EQ(ids.bucket_count(), buckets);
  EXPECT_LT(LargestBucket(ids), 40u);
}

TEST(IdHashTest, WhatMeetsDependsOnTheSeed) {
  const auto first_bucket = [](std::uint64_t seed) {
    std::set<std::int32_t> ids;
    for (std::int32_t id = 0; id < 10'000; ++id) {
      if (IdHash(seed)(id) % 1009 == 0) ids.insert(id);
    }
    return ids;
  };
  EXPECT_EQ(first_bucket(1), first_bucket(1));
  EXPECT_NE(first_bucket(1), first_bucket(2));
  EXPECT_EQ(IdHashSeed(), IdHashSeed());
  EXPECT_EQ(IdHash()(7), IdHash(IdHashSeed())(7));
}

TEST(IdHashTest, DifferentIdsHaveDifferentHashes) {
  std::set<std::size_t> hashes;
  for (std::int32_t id = -5000; id < 5000; ++id) hashes.insert(IdHash()(id));
  EXPECT_EQ(hashes.size(), 10'000u);
}

}  // namespace
}  // namespace cairn::ftiff
