// Random histories against a plain model of what was promised (run_model.h). Every one comes from its seed alone:
// CAIRN_TEST_SEED=<number> runs that one again, step by step the same.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>

#include "daemon/data/image_reuse.h"
#include "tests/daemon/core/history.h"
#include "tests/support/sparser.h"

namespace cairn {
namespace {

class ModelTest : public ::testing::Test {
 protected:
  ModelTest() {
    spdlog::set_level(std::getenv("CAIRN_TEST_LOG") != nullptr ? spdlog::level::trace : spdlog::level::off);
    std::string name = ::testing::TempDir() + "/cairn_model_XXXXXX";
    root_ = std::filesystem::canonical(::mkdtemp(name.data())).string();
    for (const char* run : {"/run0", "/run1"}) std::filesystem::create_directories(root_ + run);
  }
  ~ModelTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  std::string root_;
  const ScopedImageReuse images_;
};

TEST_F(ModelTest, WhatWasPromisedHoldsInRandomHistories) {
  const char* given = std::getenv("CAIRN_TEST_SEED");
  const bool soak = std::getenv("CAIRN_SOAK") != nullptr;
  const std::uint64_t rounds = given != nullptr ? 1 : soak ? 100'000 : 1'000 / kSparser;
  // The short form is the same every time, so that it fails for a change and not by chance; the long one looks further.
  std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : soak ? std::random_device()() : 1;
  History::Counts sum;
  const auto begun = std::chrono::steady_clock::now();
  std::uint64_t round = 0;
  std::size_t kept = 0;  // images
  for (; round < rounds && !HasFailure(); ++round, ++seed) {
    SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(seed) + ", history " + std::to_string(round + 1));
    History history(seed, root_);
    history.Run();
    // A process that is killed lets go of all that it has; of a core that is dropped in mid-air something may stay.
    if (history.counts().kills == 0) {
      EXPECT_EQ(images_.in_use(), kept) << "somebody has kept an image";
    }
    kept = images_.in_use();
    for (const std::string& what : history.violations()) ADD_FAILURE() << what;
    sum.checkpoints += history.counts().checkpoints;
    sum.at_prefix += history.counts().at_prefix;
    sum.kills += history.counts().kills;
    sum.faults += history.counts().faults;
    sum.hurt += history.counts().hurt;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  std::printf(
      "%llu histories, %.0f a second: %llu datasets at `local`, %llu at `prefix`, %llu kills, %llu faults, "
      "%llu times damage\n",
      static_cast<unsigned long long>(round), static_cast<double>(round) / took.count(),
      static_cast<unsigned long long>(sum.checkpoints), static_cast<unsigned long long>(sum.at_prefix),
      static_cast<unsigned long long>(sum.kills), static_cast<unsigned long long>(sum.faults),
      static_cast<unsigned long long>(sum.hurt));
}

TEST_F(ModelTest, TheSameSeedIsTheSameHistory) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::uint64_t traces[2];
    for (std::uint64_t& trace : traces) {
      History history(seed, root_);
      history.Run();
      trace = history.trace();
    }
    EXPECT_EQ(traces[0], traces[1]) << "seed " << seed;
  }
}

}  // namespace
}  // namespace cairn
