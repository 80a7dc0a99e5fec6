// Files that take turns: how many, how long they stay, and also when all is written. daemon/core/README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/daemon/core/gate.h"
#include "tests/daemon/core/reuse_fixture.h"

namespace cairn {
namespace {

class KeepTest : public ReuseTest, public ::testing::WithParamInterface<std::uint32_t> {};

TEST_P(KeepTest, SoManyStayAndFromThenOnFilesTakeTurns) {
  harness_.config.cache.keep = GetParam();
  Start();
  const std::size_t stay = std::max<std::size_t>(GetParam(), 1) + 1;
  std::vector<DatasetId> made;
  for (std::uint64_t step = 1; step <= 7; ++step) {
    made.push_back(Make(step));
    if (made.size() <= stay) {
      EXPECT_GT(Written(made.back()), 3 * kMiB) << step;
    } else {
      EXPECT_LT(Written(made.back()), kLittle) << step;
      EXPECT_TRUE(LosesFolder(made[made.size() - stay - 1]));
    }
    for (std::size_t i = made.size() - std::min(made.size(), stay); i < made.size(); ++i)
      EXPECT_TRUE(HasFolder(made[i]));
  }
  for (std::size_t i = made.size() - stay; i < made.size(); ++i) ExpectRestores(made[i], i + 1);
}

INSTANTIATE_TEST_SUITE_P(Each, KeepTest, ::testing::Values(0, 1, 2));

TEST_F(ReuseTest, SwitchedOffEverythingIsWrittenAndNoSpareStays) {
  harness_.config.cache.keep = 0;
  harness_.config.ftiff.differential = false;
  Start();
  for (std::uint64_t step = 1; step <= 3; ++step) {
    const DatasetId id = Make(step);
    EXPECT_GT(Written(id), 3 * kMiB);
    EXPECT_TRUE(step == 1 || LosesFolder(id - 1));
  }
  harness_.config.ftiff.differential = true;
  harness_.core().Reload(harness_.config);
  Make(4);
  EXPECT_LT(Written(Make(5)), kLittle);
}

TEST_F(ReuseTest, SwitchedOffFilesTakeTurnsAllTheSame) {
  harness_.config.ftiff.differential = false;
  Start();
  DatasetId before = Make(1), last = Make(2);
  for (std::uint64_t step = 3; step <= 5; ++step) {
    const std::uint64_t inode = Inode(before);
    const DatasetId next = Make(step);
    EXPECT_EQ(Inode(next), inode) << step;
    EXPECT_GT(Written(next), 3 * kMiB);
    EXPECT_TRUE(LosesFolder(before));
    before = std::exchange(last, next);
  }
  EXPECT_FALSE(harness_.Warned("new file"));
  ExpectRestores(before, 4);
  ExpectRestores(last, 5);
}

// The third has begun, and got the first one's files, when the settings are read anew: it is written over in full,
// since it was not to be compared then, or is not to be now.
class SwitchedTest : public ReuseTest, public ::testing::WithParamInterface<bool> {
 protected:
  void Switch(bool differential) {
    harness_.config.ftiff.differential = differential;
    harness_.core().Reload(harness_.config);
  }
};

TEST_P(SwitchedTest, WhileABaseIsMadeReadyItIsNotComparedAndWrittenOverAllTheSame) {
  const bool before = GetParam(), after = !before;
  harness_.config.ftiff.differential = before;
  Start();
  const DatasetId first = Make(1);
  Make(2);
  const std::uint64_t inode = Inode(first);
  Gate gate(FakeOp::kAny, "scr.dataset." + std::to_string(first));
  disk_.SetHook(gate.hook());
  const DatasetId third = Commit(3);
  gate.AwaitArrival();
  Switch(after);
  gate.Open();
  ASSERT_SAYS(client_->Wait(third, local::LOCAL), local::OK, "");
  disk_.SetHook(nullptr);
  EXPECT_EQ(Inode(third), inode);
  EXPECT_GT(Written(third), 3 * kMiB);
  EXPECT_FALSE(harness_.Warned("new file"));
  const DatasetId fourth = Make(4);
  EXPECT_EQ(Written(fourth) < kLittle, after);
  ExpectRestores(third, 3);
  ExpectRestores(fourth, 4);
}

INSTANTIATE_TEST_SUITE_P(OnAndOff, SwitchedTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "FromOnToOff" : "FromOffToOn"; });

// While one arrives, what is beyond cache.keep stays for those that are about to begin.
TEST_F(ReuseTest, OfSeveralOnTheirWayEachFindsFilesToWriteOver) {
  Start();
  Make(1);
  const DatasetId second = Make(2);
  Gate third_ends(FakeOp::kSync, "Ckpt3-Rank0"), fifth_ends(FakeOp::kSync, "Ckpt5-Rank0");
  disk_.SetHook([first = third_ends.hook(), then = fifth_ends.hook()](FakeOp op, const std::string& path) {
    first(op, path);
    then(op, path);
  });
  const DatasetId third = Commit(3), fourth = Commit(4), fifth = Commit(5);
  third_ends.Open();
  fifth_ends.AwaitArrival();
  ASSERT_SAYS(client_->Wait(fourth, local::LOCAL), local::OK, "");
  const std::uint64_t older = Inode(second), newer = Inode(third);
  ASSERT_NE(older, 0u);
  const DatasetId sixth = Commit(6), seventh = Commit(7);
  fifth_ends.Open();
  ASSERT_SAYS(client_->Wait(seventh, local::LOCAL), local::OK, "");
  disk_.SetHook(nullptr);
  EXPECT_EQ(Inode(sixth), older);
  EXPECT_EQ(Inode(seventh), newer);
  for (const DatasetId gone : {second, third, fourth, fifth}) EXPECT_TRUE(LosesFolder(gone)) << gone;
  ExpectRestores(sixth, 6);
  ExpectRestores(seventh, 7);
}

}  // namespace
}  // namespace cairn
