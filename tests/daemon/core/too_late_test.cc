// A flush whose names a newer dataset has taken by then: it is given up, and leaves nothing on the prefix.
#include <gtest/gtest.h>

#include "storage/file/trees/tree_file.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

class TooLateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    harness_.config.flush.every = 0;
    ASSERT_TRUE(harness_.Start().ok());
  }
  DatasetId MakeFile(FakeClient& client, std::uint64_t step) {
    const local::Reply begun = client.OutputBegin(step, /*checkpoint=*/true, /*output=*/false);
    EXPECT_SAYS(begun, local::OK, "");
    const local::Reply routed = client.RouteFile("out/x");
    EXPECT_SAYS(routed, local::OK, "");
    harness_.Write(harness_.cache_disk(), routed.route_file().path(), RandomBytes(step, 1000));
    EXPECT_SAYS(client.OutputEnd(), local::OK, "");
    const DatasetId id = begun.output_begin().dataset();
    EXPECT_SAYS(client.Wait(id, local::LOCAL), local::OK, "");
    return id;
  }
  bool IsInIndex(DatasetId id) {
    const auto tree = ReadTree(prefix_disk_, harness_.prefix() + "/.scr/index.scr");
    return tree.ok() && tree->FindPath({"DSET", std::to_string(id)}) != nullptr;
  }

  FakeDisk prefix_disk_;
  CoreHarness harness_{nullptr, &prefix_disk_};
};

TEST_F(TooLateTest, NothingOfItIsLeft) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const DatasetId older = MakeFile(client, 1);
  const DatasetId newer = MakeFile(client, 2);
  ASSERT_SAYS(client.Wait(newer, local::PREFIX), local::OK, "");
  EXPECT_EQ(CodeOfReply(client.Wait(older, local::PREFIX)), local::SUPERSEDED);
  EXPECT_TRUE(harness_.Eventually([&] { return !IsInIndex(older); }));
  EXPECT_TRUE(IsInIndex(newer));
  EXPECT_TRUE(harness_.Eventually([&] {
    const auto names = prefix_disk_.List(harness_.prefix() + "/out");
    return names.ok() && *names == std::vector<std::string>{"x"};
  }));
  EXPECT_TRUE(harness_.Read(prefix_disk_, harness_.prefix() + "/out/x") == RandomBytes(2, 1000));
}

}  // namespace
}  // namespace cairn
