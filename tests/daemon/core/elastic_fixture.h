// A global array stored by ranks in one decomposition and asked for in another.
#ifndef CAIRN_TESTS_DAEMON_CORE_ELASTIC_FIXTURE_H_
#define CAIRN_TESTS_DAEMON_CORE_ELASTIC_FIXTURE_H_

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/daemon/core/fake_client.h"

namespace cairn {

class ElasticFixture : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kRows = 1201, kColumns = 1403;  // bytes: 1.6 MiB, so that blocks cut rows

  void SetUp() override {
    ASSERT_TRUE(harness_.Start().ok());
    global_ = RandomBytes(9, kRows * kColumns);
  }

  struct Field {
    std::uint64_t row = 0, column = 0, rows = 0, columns = 0;
  };
  // Bytes of the box in the global array.
  std::string BytesOf(const Field& box) const {
    std::string bytes;
    for (std::uint64_t row = 0; row < box.rows; ++row) {
      bytes += global_.substr((box.row + row) * kColumns + box.column, box.columns);
    }
    return bytes;
  }
  Protected ArrayAt(const Field& box) const {
    return ArrayOf(3, "u", {kRows, kColumns}, {box.row, box.column}, {box.rows, box.columns}, BytesOf(box));
  }
  // Strips of rows or of columns, uneven.
  static std::vector<Field> Strips(std::uint32_t nranks, bool of_columns) {
    std::vector<Field> boxes;
    const std::uint64_t extent = of_columns ? kColumns : kRows;
    std::uint64_t begin = 0;
    for (std::uint32_t rank = 0; rank < nranks; ++rank) {
      const std::uint64_t end = rank + 1 == nranks ? extent : extent * (rank + 1) / nranks + rank % 3;
      boxes.push_back(of_columns ? Field{0, begin, kRows, end - begin} : Field{begin, 0, end - begin, kColumns});
      begin = end;
    }
    return boxes;
  }
  std::vector<Memory> MemoryOf(const std::vector<Field>& boxes) const {
    std::vector<Memory> memory;
    for (const Field& box : boxes) memory.push_back({ValueOf(2, "step", 42), ArrayAt(box)});
    return memory;
  }
  static std::vector<Memory> BlankOf(std::vector<Memory> memory) {
    for (Memory& one : memory) one = Blank(std::move(one));
    return memory;
  }
  // Stored by launch `key`, which is gone when this returns.
  DatasetId Store(const std::vector<Memory>& memory, local::Level level, const std::string& key = "job.1",
                  std::uint64_t step = 1) {
    Ranks ranks(harness_, static_cast<std::uint32_t>(memory.size()), key);
    const DatasetId id = ranks.Checkpoint(step, memory);
    EXPECT_SAYS(ranks[0].Wait(id, level), local::OK, "");
    return id;
  }
  // Restored by another launch on so many ranks; the tier of each.
  std::vector<local::Tier> ExpectRestores(DatasetId id, const std::vector<Memory>& memory, const std::string& key,
                                          ClientOptions options = {}) {
    Ranks ranks(harness_, static_cast<std::uint32_t>(memory.size()), key, options);
    EXPECT_EQ(ranks[0].Latest().latest().dataset(), id);
    std::vector<Memory> back = BlankOf(memory);
    std::vector<local::Tier> tiers;
    for (const FakeClient::Restored& one : ranks.Restore(id, back)) {
      EXPECT_EQ(one.code, local::OK) << one.message;
      tiers.push_back(one.tier);
    }
    for (std::size_t rank = 0; rank < memory.size(); ++rank) {
      for (std::size_t i = 0; i < memory[rank].size(); ++i) {
        EXPECT_TRUE(back[rank][i].bytes == memory[rank][i].bytes) << "rank " << rank << ", variable " << i;
      }
    }
    return tiers;
  }
  void LoseCache() {
    harness_.Stop();
    harness_.config.cache.path = harness_.root() + "/another_node";
    ASSERT_TRUE(harness_.Start().ok());
  }

  CoreHarness harness_;
  std::string global_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_ELASTIC_FIXTURE_H_
