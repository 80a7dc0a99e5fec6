// What every arbiter promises (storage/place/arbiter/arbiter.h), as tests over a site that the including test gives:
//   INSTANTIATE_TEST_SUITE_P(Some, ArbiterContractTest, ::testing::Values(…), NameOfSite);
#ifndef CAIRN_TESTS_STORAGE_PLACE_ARBITER_ARBITER_CONTRACT_H_
#define CAIRN_TESTS_STORAGE_PLACE_ARBITER_ARBITER_CONTRACT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "storage/base/status.h"
#include "storage/place/arbiter/arbiter.h"
#include "tests/storage/place/arbiter/arbiter_site.h"
#include "tests/support/status_matchers.h"

namespace cairn {

struct ArbiterSiteMaker {
  std::string name;
  std::function<std::unique_ptr<ArbiterSite>()> make;
};
inline void PrintTo(const ArbiterSiteMaker& maker, std::ostream* stream) {
  *stream << maker.name;
}
inline std::string NameOfSite(const ::testing::TestParamInfo<ArbiterSiteMaker>& info) {
  return info.param.name;
}

class ArbiterContractTest : public ::testing::TestWithParam<ArbiterSiteMaker> {
 protected:
  static constexpr int kThreads = 6;

  // What each of several arbiters of one run does at the same time, with its number.
  void AtOnce(const std::function<void(int, Arbiter&)>& work) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([this, i, &work] { work(i, *site->Make()); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  static bool Has(const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  }

  const std::unique_ptr<ArbiterSite> site = GetParam().make();
};

TEST_P(ArbiterContractTest, OfManyThatMakeTheSameNameOneSucceedsAndAllSeeItsRecord) {
  constexpr int kNames = 12;
  std::vector<std::vector<int>> winners(kNames, std::vector<int>(kThreads, 0));
  AtOnce([&](int me, Arbiter& arbiter) {
    for (int i = 0; i < kNames; ++i) {
      const std::string name = fmt::format("launch.{}", i + 1);
      const absl::Status made = arbiter.Create(name, fmt::format("by {}", me));
      if (!made.ok()) {
        EXPECT_STATUS(absl::StatusCode::kAlreadyExists, made, name);
      }
      winners[i][me] = made.ok() ? 1 : 0;
      // Whoever has been answered finds it.
      const std::string record = site->RecordOf(name);
      EXPECT_TRUE(record.starts_with("by ")) << record;
      EXPECT_EQ(record == fmt::format("by {}", me), made.ok()) << name << ": " << record;
    }
  });
  for (int i = 0; i < kNames; ++i) EXPECT_EQ(std::ranges::count(winners[i], 1), 1) << "launch." << i + 1;
}

TEST_P(ArbiterContractTest, NamesAreAllThereAreSortedAndTheirRecordsAreInTheFolder) {
  const auto maker = site->Make(), other = site->Make();
  ASSERT_OK_AND_ASSIGN(const auto none, other->Names());
  EXPECT_FALSE(Has(none, "launch.1"));
  for (const std::string name : {"launch.2", "ids.1", "launch.10", "launch.1"}) {
    ASSERT_OK(maker->Create(name, "record of " + name));
    ASSERT_OK_AND_ASSIGN(const auto names, other->Names());
    EXPECT_TRUE(Has(names, name));
    EXPECT_TRUE(std::ranges::is_sorted(names));
    EXPECT_EQ(site->RecordOf(name), "record of " + name);
  }
}

TEST_P(ArbiterContractTest, RecordsAreDurableWhenTheyAreMade) {
  ASSERT_OK(site->Make()->Create("launch.1", "mine"));
  site->PowerFailure();
  EXPECT_EQ(site->RecordOf("launch.1"), "mine");
  const auto arbiter = site->Make();
  ASSERT_OK_AND_ASSIGN(const auto names, arbiter->Names());
  EXPECT_TRUE(Has(names, "launch.1"));
  EXPECT_STATUS(absl::StatusCode::kAlreadyExists, arbiter->Create("launch.1", "another"), "launch.1");
}

TEST_P(ArbiterContractTest, RecordsOfAllBytesUpToTheLimit) {
  const auto arbiter = site->Make();
  std::string bytes(Arbiter::kRecordBytesMax, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
  ASSERT_OK(arbiter->Create("launch.1", bytes));
  EXPECT_EQ(site->RecordOf("launch.1"), bytes);
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, arbiter->Create("launch.2", bytes + "x"), "launch.2");
  ASSERT_OK_AND_ASSIGN(const auto names, arbiter->Names());
  EXPECT_FALSE(Has(names, "launch.2"));
}

TEST_P(ArbiterContractTest, RunsDoNotSeeEachOthersNames) {
  const auto one = site->Make(), two = site->Make(1);
  ASSERT_OK(one->Create("launch.1", "of run 0"));
  ASSERT_OK(one->CreateLease("launch.1.1.lease", "of run 0"));
  ASSERT_OK_AND_ASSIGN(const auto names, two->Names());
  EXPECT_FALSE(Has(names, "launch.1"));
  EXPECT_FALSE(Has(names, "launch.1.1.lease"));
  EXPECT_STATUS(absl::StatusCode::kNotFound, two->ReadLease("launch.1.1.lease", 100), "");
  ASSERT_OK(two->Create("launch.1", "of run 1"));
  ASSERT_OK(two->CreateLease("launch.1.1.lease", "of run 1"));
  EXPECT_EQ(site->RecordOf("launch.1", 0), "of run 0");
  EXPECT_EQ(site->RecordOf("launch.1", 1), "of run 1");
  EXPECT_EQ(*one->ReadLease("launch.1.1.lease", 100), "of run 0");
}

TEST_P(ArbiterContractTest, ALeaseIsMadeOnceThenWrittenAndReadByAnybody) {
  const auto holder = site->Make(), other = site->Make();
  const std::string name = "launch.7.1.lease";
  EXPECT_STATUS(absl::StatusCode::kNotFound, holder->WriteLease(name, "beat 0"), name);
  EXPECT_STATUS(absl::StatusCode::kNotFound, other->ReadLease(name, 100), name);
  ASSERT_OK(holder->CreateLease(name, "beat 1"));
  EXPECT_EQ(*other->ReadLease(name, 100), "beat 1");
  EXPECT_STATUS(absl::StatusCode::kAlreadyExists, other->CreateLease(name, "beat x"), name);
  ASSERT_OK(holder->WriteLease(name, "beat 2"));
  EXPECT_EQ(*other->ReadLease(name, 100), "beat 2");
  ASSERT_OK_AND_ASSIGN(const auto names, other->Names());
  EXPECT_TRUE(Has(names, name));
}

TEST_P(ArbiterContractTest, ALeaseThatIsTooLongIsTold) {
  const auto arbiter = site->Make();
  ASSERT_OK(arbiter->CreateLease("launch.7.1.lease", std::string(20, 'x')));
  EXPECT_EQ(*arbiter->ReadLease("launch.7.1.lease", 20), std::string(20, 'x'));
  EXPECT_EQ(*arbiter->ReadLease("launch.7.1.lease", 10), std::string(11, 'x'));
}

TEST_P(ArbiterContractTest, OfManyThatMakeTheSameLeaseOneSucceeds) {
  std::vector<int> made(kThreads, 0);
  AtOnce([&](int me, Arbiter& arbiter) {
    const absl::Status status = arbiter.CreateLease("launch.7.1.lease", fmt::format("by {}", me));
    if (!status.ok()) {
      EXPECT_STATUS(absl::StatusCode::kAlreadyExists, status, "launch.7.1.lease");
    }
    made[me] = status.ok() ? 1 : 0;
  });
  ASSERT_EQ(std::ranges::count(made, 1), 1);
  const auto winner = std::ranges::find(made, 1) - made.begin();
  EXPECT_EQ(*site->Make()->ReadLease("launch.7.1.lease", 100), fmt::format("by {}", winner));
}

}  // namespace cairn

#endif  // CAIRN_TESTS_STORAGE_PLACE_ARBITER_ARBITER_CONTRACT_H_
