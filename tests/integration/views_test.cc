// What a daemon flushes is shown as BP5: read by BP5's own reader from the prefix, without a daemon.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <semaphore>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "client/cairn.h"
#include "storage/file/bpdir/directory.h"
#include "storage/format/bp5/selection.h"
#include "tests/integration/harness.h"
#include "tests/integration/rank_session.h"
#include "tests/support/status_matchers.h"

namespace cairn::testing {
namespace {

constexpr std::size_t kRanks = 3;
constexpr std::uint64_t kRows = 600, kColumns = 1000;  // of each of the first two ranks

class ViewsTest : public ::testing::Test {
 protected:
  static double ElementOf(std::uint64_t row, std::uint64_t column, std::uint64_t step) {
    return static_cast<double>(row * kColumns + column) + 0.5 * static_cast<double>(step);
  }

  // Ranks 0 and 1 have half of a field each, a value and something plain; rank 2 has nothing. The dataset's id.
  std::uint64_t Checkpoint(const std::string& key, std::uint64_t step) {
    std::vector<std::uint64_t> datasets(kRanks, 0);
    std::vector<std::thread> ranks;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      ranks.emplace_back([&, rank] { datasets[rank] = RankCheckpoint(key, rank, step); });
    }
    for (std::thread& rank : ranks) rank.join();
    EXPECT_EQ(datasets[0], datasets[2]);
    return datasets[0];
  }
  std::uint64_t RankCheckpoint(const std::string& key, std::size_t rank, std::uint64_t step) {
    cairn_session* session = nullptr;
    std::vector<double> field(kRows * kColumns);
    for (std::uint64_t i = 0; i < field.size(); ++i) {
      field[i] = ElementOf(rank * kRows + i / kColumns, i % kColumns, step);
    }
    double time = 0.25 * static_cast<double>(step);
    std::vector<std::int32_t> own(100 + rank);
    std::iota(own.begin(), own.end(), static_cast<std::int32_t>(rank));
    const std::uint64_t shape[] = {2 * kRows, kColumns}, start[] = {rank * kRows, 0}, count[] = {kRows, kColumns};
    bool done = OpenRank(harness_, key, rank, kRanks, &session) == CAIRN_OK;
    if (rank < 2) {
      done = done &&
             cairn_protect_array(session, 1, "temperature", field.data(), CAIRN_DOUBLE, 2, shape, start, count, nullptr,
                                 nullptr) == CAIRN_OK &&
             cairn_protect_value(session, 2, "time", &time, 1, CAIRN_DOUBLE) == CAIRN_OK &&
             cairn_protect(session, 3, own.data(), own.size(), CAIRN_INT32) == CAIRN_OK;
    }
    std::uint64_t dataset = 0;
    // Who has nothing to save comes last: by the first one's size it is told whether the dataset goes past the cache.
    if (rank == 2) first_has_begun_.acquire();
    done = done && cairn_checkpoint(session, step, &dataset) == CAIRN_OK;
    if (rank == 0) first_has_begun_.release();
    done = done && cairn_wait(session, dataset, CAIRN_LEVEL_PREFIX, 60000) == CAIRN_OK;
    EXPECT_TRUE(done) << "rank " << rank << ": " << cairn_error(session);
    cairn_close(session);
    return dataset;
  }

  std::string ViewOf(std::uint64_t dataset) const {
    return harness_.prefix() + "/ckpt." + std::to_string(dataset) + ".bp";
  }

  static void ExpectShown(const std::string& path, std::uint64_t dataset, std::uint64_t step) {
    SCOPED_TRACE(path);
    ASSERT_OK_AND_ASSIGN(const auto directory, bpdir::Directory::Open(path));
    const bp5::Metadata& metadata = directory->metadata();
    ASSERT_EQ(metadata.steps(), 1u);
    ASSERT_EQ(metadata.writers(0), kRanks);
    const auto number = [&](const char* name) { return metadata.FindVariable(name).value_or(999); };
    ASSERT_EQ(metadata.variables().size(), 3u);

    std::vector<double> found(20 * kColumns);
    ASSERT_OK(bp5::ReadSelection(metadata, number("temperature"), 0, {{kRows - 10, 0}, {20, kColumns}},
                                 directory->data(), std::as_writable_bytes(std::span(found)))
                  .status());
    for (std::uint64_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i], ElementOf(kRows - 10 + i / kColumns, i % kColumns, step)) << i;
    }
    ASSERT_OK_AND_ASSIGN(const auto bounds, metadata.MinMaxOf(number("temperature"), 0));
    ASSERT_TRUE(bounds.has_value());
    double low, high;
    std::memcpy(&low, bounds->min.data(), sizeof low);
    std::memcpy(&high, bounds->max.data(), sizeof high);
    EXPECT_EQ(low, ElementOf(0, 0, step));
    EXPECT_EQ(high, ElementOf(2 * kRows - 1, kColumns - 1, step));

    ASSERT_OK_AND_ASSIGN(const auto time, metadata.Scalar(number("time"), 0, 0));
    double value;
    ASSERT_EQ(time.size(), sizeof value);
    std::memcpy(&value, time.data(), sizeof value);
    EXPECT_EQ(value, 0.25 * static_cast<double>(step));

    std::vector<std::int32_t> own(101), expected(101);
    std::iota(expected.begin(), expected.end(), 1);
    ASSERT_OK(
        bp5::ReadBlock(metadata, number("var_3"), 0, 1, {}, directory->data(), std::as_writable_bytes(std::span(own))));
    EXPECT_EQ(own, expected);

    ASSERT_OK_AND_ASSIGN(const auto attributes, metadata.Attributes(0));
    std::uint64_t number_of[2];
    std::memcpy(&number_of[0], attributes.at("cairn/dataset").values.data(), sizeof(std::uint64_t));
    std::memcpy(&number_of[1], attributes.at("cairn/step").values.data(), sizeof(std::uint64_t));
    EXPECT_EQ(number_of[0], dataset);
    EXPECT_EQ(number_of[1], step);
  }

  Ending Cairn(std::vector<std::string> arguments) {
    return RunProcess(harness_.Client("client/cli/cairn", std::move(arguments)));
  }

  Harness harness_;
  std::counting_semaphore<> first_has_begun_{0};
};

TEST_F(ViewsTest, ACheckpointIsShownOnceItIsOnThePrefixUntilItIsRemoved) {
  ASSERT_TRUE(harness_.StartDaemon());
  const std::uint64_t dataset = Checkpoint("job.1", 40);
  ExpectShown(ViewOf(dataset), dataset, 40);
  EXPECT_FALSE(std::filesystem::exists(ViewOf(dataset) + "/data.2")) << "rank 2 has no file";
  const Ending verified = Cairn({"verify", harness_.prefix()});
  EXPECT_EQ(verified.exit_code, 0) << verified.output;

  const Ending removed = Cairn({"rm", harness_.prefix(), std::to_string(dataset)});
  EXPECT_EQ(removed.exit_code, 0) << removed.output;
  EXPECT_FALSE(std::filesystem::exists(ViewOf(dataset)));
}

TEST_F(ViewsTest, WithLayoutAAndPastTheCacheItIsTheSame) {
  harness_.WriteSettings("[ftiff]\nlayout = \"A\"\npacking = \"exact\"\n");
  ASSERT_TRUE(harness_.StartDaemon());
  const std::uint64_t first = Checkpoint("job.1", 7);
  ExpectShown(ViewOf(first), first, 7);
  EXPECT_EQ(harness_.StopDaemon().exit_code, 0);
  harness_.WriteSettings("[cache]\nbytes_max = \"2MiB\"\nbypass = true\n");
  ASSERT_TRUE(harness_.StartDaemon());
  const std::uint64_t second = Checkpoint("job.2", 8);
  ExpectShown(ViewOf(second), second, 8);
}

TEST_F(ViewsTest, AMissingOneIsMadeWhenTheRunIsOpened) {
  harness_.WriteSettings("[prefix]\nviews = false\n");
  ASSERT_TRUE(harness_.StartDaemon());
  const std::uint64_t dataset = Checkpoint("job.1", 3);
  EXPECT_FALSE(std::filesystem::exists(ViewOf(dataset)));
  EXPECT_EQ(Cairn({"verify", harness_.prefix()}).exit_code, 0) << "it need not be there";
  EXPECT_EQ(harness_.StopDaemon().exit_code, 0);
  harness_.WriteSettings("");
  ASSERT_TRUE(harness_.StartDaemon());
  const std::uint64_t next = Checkpoint("job.2", 4);
  ExpectShown(ViewOf(next), next, 4);
  // The older one's was begun before the flush of the newer one, and what is begun there is done before the daemon
  // ends.
  EXPECT_EQ(harness_.StopDaemon().exit_code, 0);
  ExpectShown(ViewOf(dataset), dataset, 3);
}

TEST_F(ViewsTest, OneThatMisleadsIsFoundByVerify) {
  ASSERT_TRUE(harness_.StartDaemon());
  const std::uint64_t dataset = Checkpoint("job.1", 40);
  std::filesystem::remove(ViewOf(dataset) + "/data.1");
  std::filesystem::create_symlink("../elsewhere", ViewOf(dataset) + "/data.1");
  const Ending verified = Cairn({"verify", harness_.prefix()});
  EXPECT_EQ(verified.exit_code, 5) << verified.output;
  EXPECT_NE(verified.output.find("data.1: leads to ../elsewhere"), std::string::npos) << verified.output;
}

}  // namespace
}  // namespace cairn::testing
