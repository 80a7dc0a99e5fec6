// What a daemon has done costs it no memory once it is on the prefix and out of the cache: runs by the hundred,
// datasets by the thousand, with many arrays each.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "client/cairn.h"
#include "tests/integration/harness.h"

namespace cairn::testing {
namespace {

constexpr std::uint64_t kRuns = 100, kDatasets = 50;  // of each run
constexpr std::size_t kArrays = 20, kElements = 16;
constexpr double kMibMax = 64;

class MemoryTest : public ::testing::Test {
 protected:
  // Without the images, which are shared memory.
  double MibBeyondImages() {
    std::ifstream status("/proc/" + std::to_string(harness_.daemon()->pid()) + "/status");
    double kib = 0;
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("RssAnon:") || line.starts_with("RssFile:")) kib += std::atof(line.c_str() + 8);
    }
    EXPECT_GT(kib, 0);
    return kib / 1024;
  }
  cairn_session* Open(const std::string& prefix) {
    cairn_session* session = nullptr;
    const std::string address = harness_.address();
    cairn_options options = CAIRN_OPTIONS_INIT;
    options.address = address.c_str();
    options.prefix = prefix.c_str();
    options.rank = 0;
    options.nranks = 1;
    EXPECT_EQ(cairn_open(&options, &session), CAIRN_OK) << cairn_error(nullptr);
    for (std::size_t i = 0; session != nullptr && i < kArrays; ++i) {
      const std::uint64_t shape[] = {kElements}, start[] = {0};
      EXPECT_EQ(cairn_protect_array(session, static_cast<std::int32_t>(i), ("array" + std::to_string(i)).c_str(),
                                    arrays_[i].data(), CAIRN_DOUBLE, 1, shape, start, shape, nullptr, nullptr),
                CAIRN_OK);
    }
    return session;
  }
  // A run from its first to its last checkpoint, all of which stay on its prefix.
  void Live(const std::string& prefix) {
    std::filesystem::create_directory(prefix);
    cairn_session* const session = Open(prefix);
    ASSERT_NE(session, nullptr);
    std::uint64_t last = 0;
    for (std::uint64_t step = 1; step <= kDatasets; ++step) {
      ASSERT_EQ(cairn_checkpoint(session, step, &last), CAIRN_OK) << cairn_error(session);
    }
    ASSERT_EQ(cairn_wait(session, last, CAIRN_LEVEL_PREFIX, 60000), CAIRN_OK) << cairn_error(session);
    ASSERT_EQ(cairn_close(session), CAIRN_OK);
  }

  std::vector<std::vector<double>> arrays_{kArrays, std::vector<double>(kElements, 1.5)};
  Harness harness_;
};

TEST_F(MemoryTest, AfterFiveThousandDatasetsOfAHundredRunsItIsSmall) {
  harness_.WriteSettings("[flush]\nevery = 1\nsuperseded = \"keep\"\n[cache]\nkeep = 1\nlinger = \"1 s\"\n");
  ASSERT_TRUE(harness_.StartDaemon());
  double after_tenth = 0;
  for (std::uint64_t run = 0; run < kRuns && !HasFatalFailure(); ++run) {
    Live(harness_.folder() + "/prefix" + std::to_string(run));
    if (run == kRuns / 10) after_tenth = MibBeyondImages();
  }
  const double mib = MibBeyondImages();
  EXPECT_LT(mib, kMibMax) << after_tenth << " MiB after a tenth of it";
  RecordProperty("mib", std::to_string(mib));
  fmt::print("{:.1f} MiB after {} datasets, {:.1f} after a tenth of them\n", mib, kRuns * kDatasets, after_tenth);
}

}  // namespace
}  // namespace cairn::testing
