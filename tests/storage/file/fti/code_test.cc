// The erasure code of level 3: against FTI's own code files, and every loss that it must make good.
#include "storage/file/fti/code.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <random>
#include <string>

#include "storage/base/status.h"
#include "tests/storage/file/fti/fti_vectors.h"
#include "tests/support/status_matchers.h"

namespace cairn::fti {
namespace {

using Shards = std::map<std::uint32_t, std::string>;

ReadShard ReaderOf(const std::string& shard) {
  return [&shard](std::uint64_t offset, std::span<std::byte> target) -> absl::Status {
    if (offset + target.size() > shard.size()) return Internal("read beyond the end");
    std::memcpy(target.data(), shard.data() + offset, target.size());
    return absl::OkStatus();
  };
}

WriteShard WriterTo(std::string& shard) {
  return [&shard](std::uint64_t offset, std::span<const std::byte> bytes) -> absl::Status {
    if (offset != shard.size()) return Internal("not front to back");
    shard.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return absl::OkStatus();
  };
}

// Makes `targets` out of what is in `shards`, all of the same size.
Shards Make(std::uint32_t k, const Shards& shards, const std::vector<std::uint32_t>& targets) {
  std::vector<std::uint32_t> present;
  for (const auto& [shard, bytes] : shards) present.push_back(shard);
  const absl::StatusOr<Recipe> recipe = MakeRecipe(k, present, targets);
  EXPECT_OK(recipe);
  if (!recipe.ok()) return {};
  std::vector<ReadShard> sources;
  for (const std::uint32_t source : recipe->sources) sources.push_back(ReaderOf(shards.at(source)));
  Shards made;
  std::vector<WriteShard> writers;
  for (const std::uint32_t target : targets) writers.push_back(WriterTo(made[target]));
  EXPECT_OK(MixShards(*recipe, shards.begin()->second.size(), sources, writers));
  return made;
}

std::vector<std::uint32_t> Range(std::uint32_t begin, std::uint32_t end) {
  std::vector<std::uint32_t> range;
  for (std::uint32_t i = begin; i < end; ++i) range.push_back(i);
  return range;
}

std::string RandomBytes(std::size_t bytes, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

// Takes every choice of up to k shards away and expects all data back.
void ExpectEveryLossMadeGood(std::uint32_t k, const Shards& whole) {
  for (std::uint32_t lost = 1; lost < (1u << (2 * k)); ++lost) {
    if (static_cast<std::uint32_t>(std::popcount(lost)) > k) continue;
    Shards left;
    std::vector<std::uint32_t> wanted;
    for (const auto& [shard, bytes] : whole) {
      if ((lost >> shard & 1) == 0) {
        left[shard] = bytes;
      } else {
        wanted.push_back(shard);
      }
    }
    for (const auto& [shard, bytes] : Make(k, left, wanted)) {
      ASSERT_TRUE(bytes == whole.at(shard)) << "shard " << shard << " of loss pattern " << lost;
    }
  }
}

TEST(CodeTest, TheFieldIsThatOfThePolynomial) {
  EXPECT_EQ(Multiply(0x8000, 2), 0x100B);  // x^16 = x^12 + x^3 + x + 1
  EXPECT_EQ(Multiply(0, 0xFFFF), 0);
  EXPECT_EQ(Multiply(1, 0xABCD), 0xABCD);
  EXPECT_EQ(Multiply(0x1234, 0xFEDC), Multiply(0xFEDC, 0x1234));
  for (std::uint32_t a = 1; a < 0x10000; a += 7) {
    ASSERT_EQ(Multiply(static_cast<std::uint16_t>(a), Inverse(static_cast<std::uint16_t>(a))), 1) << a;
  }
}

TEST(CodeTest, FactorsAreThoseOfTheCauchyMatrix) {
  const std::vector<std::uint32_t> data = {0, 1, 2}, code = {3, 4, 5};
  const absl::StatusOr<Recipe> recipe = MakeRecipe(3, data, code);
  ASSERT_OK(recipe);
  for (std::uint32_t i = 0; i < 3; ++i) {
    for (std::uint32_t j = 0; j < 3; ++j) {
      EXPECT_EQ(recipe->factors[i][j], Inverse(static_cast<std::uint16_t>(i ^ (3 + j))));
    }
  }
}

TEST(CodeTest, EveryLossOfUpToHalfTheShardsIsMadeGood) {
  for (std::uint32_t k = 1; k <= 4; ++k) {
    Shards whole;
    for (std::uint32_t j = 0; j < k; ++j) whole[j] = RandomBytes(130, j);
    for (auto& [shard, bytes] : Make(k, whole, Range(k, 2 * k))) whole[shard] = bytes;
    ExpectEveryLossMadeGood(k, whole);
  }
}

TEST(CodeTest, TheLargestGroupLosesAllItsData) {
  Shards data;
  for (std::uint32_t j = 0; j < kCodedGroupMax; ++j) data[j] = RandomBytes(1000, j);
  const Shards code = Make(kCodedGroupMax, data, Range(kCodedGroupMax, 2 * kCodedGroupMax));
  EXPECT_EQ(Make(kCodedGroupMax, code, Range(0, kCodedGroupMax)), data);
}

TEST(CodeTest, TooFewShardsAreDataLoss) {
  const std::vector<std::uint32_t> present = {0, 5}, wanted = {1};
  EXPECT_STATUS(absl::StatusCode::kDataLoss, MakeRecipe(3, present, wanted), "2 of 6 shards are there, 3 are needed");
}

// The vector unit and the tables agree, whatever the length and the place in memory.
TEST(CodeTest, AMixIsTheSumOfProductsWordByWord) {
  Recipe recipe{.sources = {0, 1}, .targets = {2, 3}, .factors = {{0xBEEF, 1}, {0, 0x8001}}};
  const Mixer mixer(recipe);
  for (const std::size_t bytes : {0, 2, 62, 64, 66, 190, 40000}) {
    const std::string a = RandomBytes(bytes + 1, 1), b = RandomBytes(bytes, 2);
    std::string c = RandomBytes(bytes, 3), d = RandomBytes(bytes + 3, 4);
    const std::byte* sources[] = {reinterpret_cast<const std::byte*>(a.data()) + 1,
                                  reinterpret_cast<const std::byte*>(b.data())};
    std::byte* targets[] = {reinterpret_cast<std::byte*>(c.data()), reinterpret_cast<std::byte*>(d.data()) + 3};
    mixer.Mix(sources, targets, bytes);
    for (std::size_t i = 0; i < bytes; i += 2) {
      std::uint16_t words[4];
      std::memcpy(&words[0], sources[0] + i, 2);
      std::memcpy(&words[1], sources[1] + i, 2);
      std::memcpy(&words[2], targets[0] + i, 2);
      std::memcpy(&words[3], targets[1] + i, 2);
      ASSERT_EQ(words[2], Multiply(words[0], 0xBEEF) ^ words[1]) << i << " of " << bytes;
      ASSERT_EQ(words[3], Multiply(words[1], 0x8001)) << i << " of " << bytes;
    }
  }
}

TEST(CodeTest, ShardsOfSeveralPiecesAreMadeWhole) {
  Shards data = {{0, RandomBytes((600 << 10) + 1, 1)}, {1, RandomBytes((600 << 10) + 1, 2)}};
  data[0].back() = data[1].back() = '\0';  // so that nothing is lost with the last word's upper byte
  const Shards code = Make(2, data, {2, 3});
  EXPECT_EQ(code.at(2).size(), data[0].size());
  EXPECT_TRUE(Make(2, {{1, data[1]}, {3, code.at(3)}}, {0}).at(0) == data[0]);
}

TEST(CodeTest, EmptyShardsAreLegal) {
  EXPECT_EQ(Make(2, {{0, ""}, {1, ""}}, {2, 3}), (Shards{{2, ""}, {3, ""}}));
}

TEST(CodeTest, ErrorsOfTheFunctionsPassThrough) {
  const std::vector<std::uint32_t> present = {0, 1}, wanted = {2};
  const absl::StatusOr<Recipe> recipe = MakeRecipe(2, present, wanted);
  ASSERT_OK(recipe);
  const std::string a = "abcd", b = "efgh";
  std::string made;
  const WriteShard broken_writer = [](std::uint64_t, std::span<const std::byte>) { return ResourceExhausted("full"); };
  const ReadShard broken_reader = [](std::uint64_t, std::span<std::byte>) { return Unavailable("gone"); };
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted,
                MixShards(*recipe, 4, std::vector{ReaderOf(a), ReaderOf(b)}, std::vector{broken_writer}), "full");
  EXPECT_STATUS(absl::StatusCode::kUnavailable,
                MixShards(*recipe, 4, std::vector{ReaderOf(a), broken_reader}, std::vector{WriterTo(made)}), "gone");
}

// FTI's files: the data shards are the checkpoint files with zeros behind, in layouts C to F their length at the end.
class CodeVectorsTest : public ::testing::TestWithParam<std::pair<const char*, bool>> {
 protected:
  // The groups of the run's level 3 checkpoint, each with all its shards.
  static std::vector<Shards> Groups(const testing::VectorRun& run, bool has_length) {
    std::map<std::uint32_t, Shards> groups;  // by first rank
    for (const testing::VectorFile& file : run.files) {
      if (file.bytes_max < 0) continue;
      const std::uint32_t node = file.rank / run.node_size, place = file.rank % run.node_size;
      const std::uint32_t member = node % run.group_size;
      Shards& group = groups[(node - member) * run.node_size + place];
      std::string bytes = file.bytes;
      if (file.kind == "rs") {
        group[run.group_size + member] = bytes.substr(0, static_cast<std::size_t>(file.bytes_max));
        continue;
      }
      bytes.resize(static_cast<std::size_t>(file.bytes_max));
      const std::uint64_t length = file.bytes.size();
      if (has_length) std::memcpy(bytes.data() + bytes.size() - sizeof length, &length, sizeof length);
      group[member] = bytes;
    }
    std::vector<Shards> all;
    for (auto& [first, shards] : groups) all.push_back(std::move(shards));
    return all;
  }
};

TEST_P(CodeVectorsTest, CodeFilesComeOutByteForByteAndMakeEveryLossGood) {
  const auto run = testing::LoadRun(GetParam().first);
  if (!run) return;
  const std::vector<Shards> groups = Groups(*run, GetParam().second);
  ASSERT_EQ(groups.size(), run->ranks / run->group_size);
  for (const Shards& whole : groups) {
    const std::uint32_t k = run->group_size;
    ASSERT_EQ(whole.size(), 2 * k);
    Shards data(whole.begin(), whole.find(k));
    for (const auto& [shard, bytes] : Make(k, data, Range(k, 2 * k))) {
      EXPECT_TRUE(bytes == whole.at(shard)) << "code file of group rank " << shard - k;
    }
    ExpectEveryLossMadeGood(k, whole);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CodeVectorsTest,
                         ::testing::Values(std::pair("levels-n1g4-A", false), std::pair("levels-n1g4-F", true),
                                           std::pair("levels-n2g2-F", true), std::pair("rs-odd-F", true),
                                           std::pair("rs-g3-E", true)),
                         [](const auto& info) {
                           std::string name = info.param.first;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace cairn::fti
