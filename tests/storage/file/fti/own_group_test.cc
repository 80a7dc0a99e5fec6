// All ranks' files out of what is left of a group, with files of our own, in all layouts.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "storage/file/fti/code.h"
#include "storage/file/fti/execution.h"
#include "storage/format/ftiff/layout.h"
#include "tests/storage/file/fti/fti_tree.h"
#include "tests/storage/format/ftiff/sample_file.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn::fti {
namespace {

constexpr absl::StatusCode kDataLoss = absl::StatusCode::kDataLoss;

// A level 3 group of three ranks with odd files, as FTI encodes it: in layouts A and B the last code words are cut.
class OwnGroup {
 public:
  enum Kind { kFull, kWithTails, kEmptyLastBlock };

  OwnGroup(ftiff::Letter letter, Kind kind) {
    for (std::uint32_t rank = 0; rank < 3; ++rank) layouts_.push_back(LayoutOf(rank, kind));
    std::uint64_t most = 0;
    for (const ftiff::FileLayout& layout : layouts_) most = std::max(most, layout.file_bytes(letter));
    if (most % 2 == 0) {  // one byte more in the largest file
      layouts_[2] = LayoutOf(2, kind, 1);
      most = layouts_[2].file_bytes(letter);
    }
    const bool length_word = letter != ftiff::Letter::kA && letter != ftiff::Letter::kB;
    shard_bytes = most + (length_word ? 8 : 0);
    Encode(letter, length_word);
    checkpoint = {.level = Level::kEncoded, .id = 5};
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      checkpoint.files[rank] = "/l3/Ckpt5-Rank" + std::to_string(rank) + ".fti";
      checkpoint.codes[rank] = "/l3/Ckpt5-RSed" + std::to_string(rank) + ".fti";
      testing::PutFile(disk, checkpoint.files[rank], files[rank]);
      testing::PutFile(disk, checkpoint.codes[rank],
                       ftiff::testing::CodeFileOf(letter, codes_[rank], files[rank].size()));
    }
    EXPECT_OK(MakeDirectories(disk, "/scratch"));
  }

  FakeDisk disk;
  Checkpoint checkpoint;
  std::vector<std::string> files;
  std::uint64_t shard_bytes = 0;

 private:
  static ftiff::FileLayout LayoutOf(std::uint32_t rank, Kind kind, std::uint64_t more = 0) {
    const std::vector<ftiff::VariableSize> first = {{.id = 1, .bytes = 100},
                                                    {.id = 2, .bytes = 300 + 200 * rank + more}};
    const auto fresh = ftiff::PlanFresh(first, ftiff::Packing::kExact);
    EXPECT_OK(fresh);
    if (kind == kFull) return *fresh;
    std::vector<ftiff::VariableSize> then = {{.id = 1, .bytes = 100}, {.id = 2, .bytes = 250 + 100 * rank}};
    if (kind == kEmptyLastBlock) {  // the file ends with records, in A and B
      then = first;
      then.push_back({.id = 3, .bytes = 0});
    }
    const auto next = ftiff::PlanNext(*fresh, false, then, ftiff::Packing::kExact);
    EXPECT_OK(next);
    return *next;
  }

  void Encode(ftiff::Letter letter, bool length_word) {
    std::vector<std::string> shards;
    for (const ftiff::FileLayout& layout : layouts_) {
      files.push_back(ftiff::testing::FileOf(
          letter, layout,
          {.checkpoint_id = 5, .timestamp_ns = 9, .file_bytes_max = static_cast<std::int64_t>(shard_bytes)}));
      shards.push_back(files.back());
      shards.back().resize(shard_bytes);
      const std::uint64_t length = files.back().size();
      if (length_word) std::memcpy(shards.back().data() + shard_bytes - 8, &length, 8);
    }
    const std::vector<std::uint32_t> data = {0, 1, 2}, code = {3, 4, 5};
    const auto recipe = MakeRecipe(3, data, code);
    EXPECT_OK(recipe);
    codes_.resize(3);
    std::vector<ReadShard> sources;
    std::vector<WriteShard> targets;
    for (std::size_t i = 0; i < 3; ++i) {
      sources.push_back([&shards, i](std::uint64_t offset, std::span<std::byte> target) {
        std::memcpy(target.data(), shards[i].data() + offset, target.size());
        return absl::OkStatus();
      });
      targets.push_back([this, i](std::uint64_t, std::span<const std::byte> bytes) {
        codes_[i].append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return absl::OkStatus();
      });
    }
    EXPECT_OK(MixShards(*recipe, shard_bytes, sources, targets));
  }

  std::vector<ftiff::FileLayout> layouts_;
  std::vector<std::string> codes_;
};

constexpr Topology kThreeNodes = {.ranks = 3, .node_size = 1, .group_size = 3, .heads = false};

class OwnGroupTest : public ::testing::TestWithParam<std::tuple<ftiff::Letter, OwnGroup::Kind>> {};

// Also the last byte, half of whose code words layouts A and B lose.
TEST_P(OwnGroupTest, AnOddGroupIsRestoredToItsLastByte) {
  OwnGroup group(std::get<0>(GetParam()), std::get<1>(GetParam()));
  ASSERT_EQ(group.shard_bytes % 2, 1u);
  for (std::uint32_t lost = 0; lost < 64; ++lost) {
    if (std::popcount(lost) > 3) continue;
    Checkpoint checkpoint = group.checkpoint;
    for (std::uint32_t i = 0; i < 3; ++i) {
      if ((lost >> i & 1) != 0) checkpoint.files.erase(i);
      if ((lost >> (3 + i) & 1) != 0) checkpoint.codes.erase(i);
    }
    ASSERT_OK_AND_ASSIGN(const Recovered recovered, Recover(group.disk, kThreeNodes, checkpoint, "/scratch"));
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      EXPECT_TRUE(testing::GetFile(group.disk, recovered.files[rank].path) == group.files[rank])
          << "rank " << rank << " of loss pattern " << lost;
    }
  }
}

TEST_P(OwnGroupTest, EveryDamagedFileIsALostOne) {
  OwnGroup group(std::get<0>(GetParam()), OwnGroup::kFull);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const std::string& path = group.checkpoint.files.at(rank);
    const std::string& whole = group.files[rank];
    for (std::uint64_t bit = 3; bit < 8 * whole.size(); bit += 8 * 29) {
      group.disk.FlipBit(path, bit);
      ASSERT_OK_AND_ASSIGN(const Recovered recovered, Recover(group.disk, kThreeNodes, group.checkpoint, "/scratch"));
      const std::string found = testing::GetFile(group.disk, recovered.files[rank].path);
      // What no hash covers is taken as it is: unused bytes.
      EXPECT_TRUE(found == whole || !recovered.files[rank].rebuilt) << path << " bit " << bit;
      group.disk.FlipBit(path, bit);
    }
  }
}

// What no hash covers is encoded, too: a file that is damaged only there is whole, but others cannot be made from it.
TEST_P(OwnGroupTest, ADamagedUnusedByteOfOneFileDoesNotCostAnother) {
  OwnGroup group(std::get<0>(GetParam()), std::get<1>(GetParam()));
  const std::string& path = group.checkpoint.files.at(1);
  group.checkpoint.files.erase(0);
  for (const bool all_codes : {true, false}) {
    if (!all_codes) group.checkpoint.codes.erase(2);
    for (std::uint64_t byte = 0; byte < group.files[1].size(); ++byte) {
      group.disk.FlipBit(path, 8 * byte + 3);
      const absl::StatusOr<Recovered> recovered = Recover(group.disk, kThreeNodes, group.checkpoint, "/scratch");
      EXPECT_OK(recovered) << path << " byte " << byte;
      group.disk.FlipBit(path, 8 * byte + 3);
    }
  }
}

TEST_P(OwnGroupTest, CodeFilesOfAnotherEncodingAreLeftOut) {
  OwnGroup group(std::get<0>(GetParam()), OwnGroup::kFull);
  const std::string other(1001, 'x');
  testing::PutFile(group.disk, group.checkpoint.codes.at(0),
                   ftiff::testing::CodeFileOf(std::get<0>(GetParam()), other, group.files[0].size()));
  group.checkpoint.files.erase(1);
  ASSERT_OK_AND_ASSIGN(const Recovered recovered, Recover(group.disk, kThreeNodes, group.checkpoint, "/scratch"));
  EXPECT_TRUE(testing::GetFile(group.disk, recovered.files[1].path) == group.files[1]);
  ASSERT_EQ(recovered.warnings.size(), 2u);
  EXPECT_NE((recovered.warnings[0] + recovered.warnings[1]).find("encoded with 1001 bytes"), std::string::npos);
}

// Sound by itself, but not of these files: what comes out has wrong hashes and is refused.
TEST_P(OwnGroupTest, CodeFilesOfOtherDataDoNotMakeFiles) {
  OwnGroup group(std::get<0>(GetParam()), OwnGroup::kFull);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    testing::PutFile(group.disk, group.checkpoint.codes.at(rank),
                     ftiff::testing::CodeFileOf(std::get<0>(GetParam()), std::string(group.shard_bytes, 'x'),
                                                group.files[rank].size()));
  }
  group.checkpoint.files.erase(1);
  EXPECT_STATUS(kDataLoss, Recover(group.disk, kThreeNodes, group.checkpoint, "/scratch"), "rank 1");
}

std::string NameOfGroup(const ::testing::TestParamInfo<std::tuple<ftiff::Letter, OwnGroup::Kind>>& info) {
  const auto [letter, kind] = info.param;
  constexpr const char* kNames[] = {"Full", "WithTails", "EmptyLastBlock"};
  return static_cast<char>(letter) + std::string(kNames[kind]);
}

INSTANTIATE_TEST_SUITE_P(All, OwnGroupTest,
                         ::testing::Combine(::testing::ValuesIn(ftiff::testing::kLetters),
                                            ::testing::Values(OwnGroup::kFull, OwnGroup::kWithTails,
                                                              OwnGroup::kEmptyLastBlock)),
                         NameOfGroup);

}  // namespace
}  // namespace cairn::fti
