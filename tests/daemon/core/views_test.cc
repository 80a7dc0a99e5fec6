// The BP5 views of what a daemon brings to the prefix.
#include <gtest/gtest.h>

#include <string>

#include "storage/place/prefix/prefix.h"
#include "storage/place/view/check.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/flush_fixture.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class ViewsTest : public FlushFixture {
 protected:
  std::string IndexOf(DatasetId id) { return harness_.prefix() + "/ckpt." + std::to_string(id) + ".bp/md.idx"; }
  bool HasView(DatasetId id) { return harness_.IsThere(prefix_disk_, IndexOf(id)); }
  void ExpectShown(DatasetId id) {
    ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::OpenReadOnly(prefix_disk_, harness_.prefix()));
    ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix->Catalogues(id));
    // So that nobody has to look into the files for it.
    EXPECT_EQ(catalogues[0].placement_size(), catalogues[0].variables_size());
    EXPECT_OK(view::CheckFolder(prefix_disk_, harness_.prefix(), catalogues));
  }
  DatasetId MakeOnPrefix(std::uint64_t step) {
    const DatasetId id = Make(step);
    EXPECT_SAYS(client_->Wait(id, local::PREFIX), local::OK, "");
    return id;
  }
};

TEST_F(ViewsTest, WhatIsOnThePrefixIsShownWhenItIsSaidToBeThere) {
  Start();
  const DatasetId id = MakeOnPrefix(1);
  ExpectShown(id);
  ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::OpenReadOnly(prefix_disk_, harness_.prefix()));
  ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix->Catalogues(id));
  const std::string seven("\x07\0\0\0\0\0\0\0", 8);
  EXPECT_EQ(catalogues[0].placement(0).run(0).min_max(), seven + seven);
  EXPECT_EQ(catalogues[0].placement(1).run(0).min_max(), "\x80\x7F") << "of random bytes";
}

TEST_F(ViewsTest, LayoutAIsShownToo) {
  harness_.config.ftiff.layout_a = true;
  harness_.config.ftiff.exact = true;
  Start();
  ExpectShown(MakeOnPrefix(1));
}

TEST_F(ViewsTest, PastTheCacheTheyAreMadeToo) {
  harness_.config.cache.bytes_max = 1 << 20;
  Start();
  const local::Reply done = client_->Checkpoint(1, memory_);
  ASSERT_SAYS(done, local::OK, "");
  const DatasetId id = done.committed().dataset();
  EXPECT_SAYS(client_->Wait(id, local::PREFIX), local::OK, "");
  ExpectShown(id);
}

TEST_F(ViewsTest, OneThatFailsIsAWarningAndIsMadeAtTheNextStart) {
  prefix_disk_.FailOn({.op = FakeOp::kSymlink, .times = 1000});
  Start();
  const DatasetId id = MakeOnPrefix(1);
  EXPECT_TRUE(harness_.Row(id).in_prefix());
  EXPECT_FALSE(HasView(id));
  EXPECT_TRUE(harness_.Warned("has no BP5 view: "));
  prefix_disk_.ClearFaults();
  client_ = nullptr;
  harness_.Restart();
  client_ = std::make_unique<FakeClient>(harness_);
  ASSERT_SAYS(client_->Open({.key = "job.2", .takeover = true}), local::OK, "");
  EXPECT_TRUE(harness_.Eventually([&] { return HasView(id); }));
  ExpectShown(id);
}

TEST_F(ViewsTest, SwitchedOffThereAreNone) {
  harness_.config.prefix.views = false;
  Start();
  const DatasetId id = MakeOnPrefix(1);
  EXPECT_FALSE(HasView(id));
  EXPECT_FALSE(harness_.Warned("view"));
}

TEST_F(ViewsTest, RemovedWithTheDataset) {
  Start();
  const DatasetId id = MakeOnPrefix(1);
  EXPECT_EQ(harness_.Remove(id).code(), local::OK);
  EXPECT_TRUE(harness_.Eventually([&] { return !HasView(id); }));
  EXPECT_FALSE(harness_.IsThere(prefix_disk_, harness_.PrefixFile(id, 0)));
}

}  // namespace
}  // namespace cairn
