// Where clients on other hosts reach the daemon, told in the folders of its runs.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/daemon/core/fake_client.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

class AnnouncedTest : public ::testing::Test {
 protected:
  void Start() {
    ASSERT_TRUE(harness_.Start().ok());
    harness_.core().Announce("first life");
  }
  // The one file of this node; empty: there is none.
  std::string ToldIn(const std::string& folder) const {
    std::string text;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder + "/.cairn", none)) {
      const std::string name = entry.path().filename();
      if (!name.starts_with("ingest.") || name.size() != 7 + 32) continue;
      EXPECT_EQ(entry.status().permissions(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
      std::stringstream content;
      content << std::ifstream(entry.path()).rdbuf();
      text += content.str();
    }
    return text;
  }
  bool Tells(const std::string& folder, const std::string& text) {
    return harness_.Eventually([&] { return ToldIn(folder) == text; });
  }

  CoreHarness harness_;
};

TEST_F(AnnouncedTest, EachRunThatIsOpenedIsTold) {
  ASSERT_NO_FATAL_FAILURE(Start());
  FakeClient one(harness_), other(harness_);
  ASSERT_SAYS(one.Open({}), local::OK, "");
  EXPECT_TRUE(Tells(harness_.prefix(), "first life"));
  ASSERT_SAYS(other.Open({.prefix = harness_.root() + "/other"}), local::OK, "");
  EXPECT_TRUE(Tells(harness_.root() + "/other", "first life"));
}

TEST_F(AnnouncedTest, RunsThatAreThereAlreadyAreToldOnceThereIsSomethingToTell) {
  ASSERT_TRUE(harness_.Start().ok());
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  EXPECT_EQ(ToldIn(harness_.prefix()), "");
  harness_.core().Announce("late");
  EXPECT_TRUE(Tells(harness_.prefix(), "late"));
}

TEST_F(AnnouncedTest, TheNextLifeTellsAllRunsOfWhichItHasSomething) {
  ASSERT_NO_FATAL_FAILURE(Start());
  {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    const local::Reply done = client.Checkpoint(1, {PlainOf(1, "bytes")});
    ASSERT_SAYS(done, local::OK, "");
    ASSERT_SAYS(client.Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
    EXPECT_TRUE(Tells(harness_.prefix(), "first life"));
  }
  harness_.Restart();
  harness_.core().Announce("second life");
  EXPECT_TRUE(Tells(harness_.prefix(), "second life"));
}

// Nobody has its keys any more.
TEST_F(AnnouncedTest, WhatTheLastLifeHasToldGoesIfThisOneTellsNothing) {
  const std::string home = harness_.root() + "/home";
  std::filesystem::create_directory(home);
  harness_.config.ingest.announce = home;
  ASSERT_NO_FATAL_FAILURE(Start());
  {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    EXPECT_TRUE(Tells(harness_.prefix(), "first life"));
    EXPECT_TRUE(Tells(home, "first life"));
  }
  const std::string of_another = harness_.prefix() + "/.cairn/ingest." + std::string(32, 'b');
  std::ofstream(of_another) << "another node's";
  std::filesystem::permissions(of_another, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  harness_.Restart();
  EXPECT_EQ(ToldIn(home), "first life") << "nobody knows yet whether it tells anything";
  harness_.core().Announce("");
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  EXPECT_TRUE(Tells(home, ""));
  EXPECT_TRUE(harness_.Eventually([&] { return ToldIn(harness_.prefix()).find("life") == std::string::npos; }));
  EXPECT_TRUE(std::filesystem::exists(of_another));
}

TEST_F(AnnouncedTest, AFolderOfTheUsersIsToldBeforeAnyRun) {
  const std::string home = harness_.root() + "/home";
  std::filesystem::create_directory(home);
  harness_.config.ingest.announce = home;
  ASSERT_NO_FATAL_FAILURE(Start());
  EXPECT_TRUE(Tells(home, "first life"));
  EXPECT_FALSE(std::filesystem::exists(home + "/.cairn/run")) << "that makes no run of it";
}

TEST_F(AnnouncedTest, WithoutAHomeThatIsSaid) {
  harness_.config.ingest.announce = "~";
  ASSERT_NO_FATAL_FAILURE(Start());
  EXPECT_TRUE(harness_.Eventually([&] { return harness_.Warned("ingest.announce"); }));
}

// What the prefix is told; "": nothing.
std::string ToldOn(FakeDisk& prefix, CoreHarness& harness) {
  const auto names = prefix.List(harness.prefix() + "/.cairn");
  if (!names.ok()) return "";
  for (const std::string& name : *names) {
    if (!name.starts_with("ingest.") || name.size() != 7 + 32) continue;
    return harness.Read(prefix, harness.prefix() + "/.cairn/" + name);
  }
  return "";
}

TEST(AnnouncedFaultsTest, WhatFailsIsSaidAndTriedAgain) {
  FakeDisk prefix;
  CoreHarness harness(nullptr, &prefix);
  ASSERT_TRUE(harness.Start().ok());
  prefix.FailOn({.op = FakeOp::kRename, .path_part = "ingest.", .times = 3});
  harness.core().Announce("at last");
  FakeClient client(harness);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  EXPECT_TRUE(harness.Eventually([&] { return harness.Warned("are not told where this daemon is: "); }));
  EXPECT_TRUE(harness.Eventually([&] { return ToldOn(prefix, harness) == "at last"; }));
}

// The daemon has long given up (announced_tries_test.cc).
TEST(AnnouncedFaultsTest, APrefixThatComesBackIsTold) {
  FakeDisk prefix;
  CoreHarness harness(nullptr, &prefix);
  ASSERT_TRUE(harness.Start().ok());
  {
    FakeClient client(harness);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    const local::Reply done = client.Checkpoint(1, {PlainOf(1, "bytes")});
    ASSERT_SAYS(done, local::OK, "");
    ASSERT_SAYS(client.Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
  }
  harness.Stop();
  prefix.FailOn({.path_part = harness.prefix(), .times = UINT64_MAX, .status = absl::NotFoundError("not mounted")});
  ASSERT_TRUE(harness.Start().ok());
  harness.core().Announce("second life");
  EXPECT_TRUE(harness.Eventually([&] { return harness.Warned("are not told where this daemon is: "); }));
  const std::uint64_t before = prefix.operations();
  EXPECT_TRUE(harness.Eventually([&] { return prefix.operations() >= before + 100; }));
  prefix.ClearFaults();
  harness.Flush(1);  // whatever comes of it: it goes there
  EXPECT_TRUE(harness.Eventually([&] { return ToldOn(prefix, harness) == "second life"; }));
}

}  // namespace
}  // namespace cairn
