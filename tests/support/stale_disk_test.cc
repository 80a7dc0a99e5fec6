#include "tests/support/stale_disk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "storage/io/disk.h"
#include "storage/io/fresh_list.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using Names = std::vector<std::string>;

void Put(Disk& disk, const std::string& path, std::string_view text = "text") {
  ASSERT_OK_AND_ASSIGN(const auto file, disk.Open(path, {.writable = true, .create = true, .exclusive = true}));
  ASSERT_OK(file->WriteAt(0, std::as_bytes(std::span(text))));
}

// A server whose answers are under way when something happens.
class SlowDisk final : public FakeDisk {
 public:
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    auto names = FakeDisk::List(path);
    Happen(path);
    return names;
  }
  absl::StatusOr<FileInfo> Info(const std::string& path) override {
    auto info = FakeDisk::Info(path);
    Happen(path);
    return info;
  }
  // After each answer about `path`, until it returns true.
  void MeanwhileAt(const std::string& path, std::function<bool()> meanwhile) {
    path_ = path;
    meanwhile_ = std::move(meanwhile);
  }

 private:
  void Happen(const std::string& path) {
    if (path != path_ || meanwhile_ == nullptr) return;
    const auto meanwhile = std::exchange(meanwhile_, nullptr);
    if (!meanwhile()) meanwhile_ = meanwhile;
  }
  std::string path_;
  std::function<bool()> meanwhile_;
};

class StaleDiskTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(server_.MakeDirectory("/d", 0700)); }

  FakeDisk server_;
  StaleDisk ours_{server_}, theirs_{server_};
};

TEST_F(StaleDiskTest, AListingStaysAsItWasUnlessItIsMadeFresh) {
  Put(theirs_, "/d/a");
  EXPECT_EQ(ours_.List("/d").value(), Names{"a"});
  Put(theirs_, "/d/b");
  ASSERT_OK(theirs_.Remove("/d/a"));
  EXPECT_EQ(ours_.List("/d").value(), Names{"a"});
  EXPECT_EQ(theirs_.List("/d").value(), Names{"b"});
  EXPECT_EQ(FreshList(ours_, "/d").value(), Names{"b"});
  EXPECT_EQ(ours_.List("/d").value(), Names{"b"});
}

TEST_F(StaleDiskTest, AnAbsentNameStaysAbsentUnlessTheDirectoryIsListedFresh) {
  const auto expect_absent = [this] {
    EXPECT_STATUS(StatusCode::kNotFound, ours_.Info("/d/a"), "/d/a");
    EXPECT_STATUS(StatusCode::kNotFound, ours_.Open("/d/a", {}), "/d/a");
    EXPECT_STATUS(StatusCode::kNotFound, ours_.Open("/d/a", {.writable = true}), "/d/a");
    EXPECT_STATUS(StatusCode::kNotFound, ours_.ReadLink("/d/a"), "/d/a");
    EXPECT_STATUS(StatusCode::kNotFound, ours_.RealPath("/d/a"), "/d/a");
    EXPECT_STATUS(StatusCode::kNotFound, ours_.List("/d/a"), "/d/a");
  };
  expect_absent();
  Put(theirs_, "/d/a");
  expect_absent();
  EXPECT_OK(theirs_.Info("/d/a"));
  ASSERT_OK(FreshList(ours_, "/d").status());
  EXPECT_OK(ours_.Info("/d/a"));
  EXPECT_OK(ours_.Open("/d/a", {}).status());
  EXPECT_EQ(ours_.RealPath("/d/a").value(), "/d/a");
}

TEST_F(StaleDiskTest, EachQuestionAboutAnAbsentNameIsRemembered) {
  const std::vector<std::function<absl::Status(const std::string&)>> questions = {
      [this](const std::string& path) { return ours_.Info(path).status(); },
      [this](const std::string& path) { return ours_.Open(path, {}).status(); },
      [this](const std::string& path) { return ours_.ReadLink(path).status(); },
      [this](const std::string& path) { return ours_.RealPath(path).status(); },
      [this](const std::string& path) { return ours_.List(path).status(); },
  };
  for (const auto& question : questions) {
    EXPECT_STATUS(StatusCode::kNotFound, question("/d/a"), "/d/a");
    Put(theirs_, "/d/a");
    EXPECT_STATUS(StatusCode::kNotFound, ours_.Info("/d/a"), "remembers");
    ASSERT_OK(theirs_.Remove("/d/a"));
    ours_.Expire();
  }
}

TEST_F(StaleDiskTest, WhatLiesBelowAnAbsentNameIsAbsent) {
  EXPECT_STATUS(StatusCode::kNotFound, ours_.Info("/d/e/f"), "/d/e/f");
  ASSERT_OK(theirs_.MakeDirectory("/d/e", 0700));
  Put(theirs_, "/d/e/f");
  EXPECT_STATUS(StatusCode::kNotFound, ours_.Info("/d/e/f"), "/d/e/f");
  EXPECT_STATUS(StatusCode::kNotFound, ours_.List("/d/e/."), "/d/e");
  ASSERT_OK(FreshList(ours_, "/d").status());
  EXPECT_OK(ours_.Info("/d/e/f"));  // it was never asked whether `f` is there
}

TEST_F(StaleDiskTest, AnAbsentNameThatAListingFromTheServerShowsIsThere) {
  EXPECT_STATUS(StatusCode::kNotFound, ours_.Info("/d/a"), "/d/a");
  EXPECT_STATUS(StatusCode::kNotFound, ours_.Info("/d/b"), "/d/b");
  Put(theirs_, "/d/a");
  EXPECT_EQ(ours_.List("/d").value(), Names{"a"});  // the first time
  Put(theirs_, "/d/b");
  EXPECT_OK(ours_.Info("/d/a"));
  EXPECT_STATUS(StatusCode::kNotFound, ours_.Info("/d/b"), "/d/b");
}

TEST_F(StaleDiskTest, NamesThatWereFoundAreTheServers) {
  Put(theirs_, "/d/a", "1");
  EXPECT_EQ(ours_.List("/d").value(), Names{"a"});
  EXPECT_EQ(ours_.Info("/d/a")->bytes, 1u);
  ASSERT_OK(ReplaceFile(theirs_, "/d/a", "1234"));
  EXPECT_EQ(ours_.Info("/d/a")->bytes, 4u);
  EXPECT_EQ(ReadWhole(ours_, "/d/a", 100).value(), "1234");
  ASSERT_OK(theirs_.Remove("/d/a"));
  EXPECT_STATUS(StatusCode::kNotFound, ours_.Info("/d/a"), "/d/a");
  EXPECT_EQ(ours_.List("/d").value(), Names{"a"});
}

TEST_F(StaleDiskTest, ANameThatWasNeverAskedForIsFoundAlthoughTheListingDoesNotShowIt) {
  EXPECT_EQ(ours_.List("/d").value(), Names{});
  Put(theirs_, "/d/a");
  EXPECT_OK(ours_.Info("/d/a"));
  EXPECT_EQ(ours_.List("/d").value(), Names{});
}

TEST_F(StaleDiskTest, EachChangeOfOnesOwnMakesItAskAnew) {
  const FakeDiskOptions options{.shares_extents = true};
  const std::vector<std::pair<const char*, std::function<absl::Status(Disk&)>>> changes = {
      {"create", [](Disk& d) { return d.Open("/d/new", {.writable = true, .create = true}).status(); }},
      {"create exclusively",
       [](Disk& d) { return d.Open("/d/new", {.writable = true, .create = true, .exclusive = true}).status(); }},
      {"rename into", [](Disk& d) { return d.Rename("/elsewhere", "/d/new"); }},
      {"rename out of", [](Disk& d) { return d.Rename("/d/old", "/new"); }},
      {"rename new into", [](Disk& d) { return d.RenameNew("/elsewhere", "/d/new"); }},
      {"rename new out of", [](Disk& d) { return d.RenameNew("/d/old", "/new"); }},
      {"link", [](Disk& d) { return d.Link("/elsewhere", "/d/new"); }},
      {"clone", [](Disk& d) { return d.Clone("/elsewhere", "/d/new"); }},
      {"symlink", [](Disk& d) { return d.Symlink("x", "/d/new"); }},
      {"remove", [](Disk& d) { return d.Remove("/d/old"); }},
      {"make directory", [](Disk& d) { return d.MakeDirectory("/d/new", 0700); }},
      {"through a link", [](Disk& d) { return d.MakeDirectory("/to_d/new", 0700); }},
  };
  for (const auto& [what, change] : changes) {
    SCOPED_TRACE(what);
    FakeDisk server(options);
    StaleDisk ours(server);
    ASSERT_OK(server.MakeDirectory("/d", 0700));
    ASSERT_OK(server.Symlink("d", "/to_d"));
    Put(server, "/elsewhere");
    Put(server, "/d/old");
    ASSERT_EQ(ours.List("/d").value(), Names{"old"});
    ASSERT_STATUS(StatusCode::kNotFound, ours.Info("/d/other"), "/d/other");
    Put(server, "/d/other");
    ASSERT_EQ(ours.List("/d").value(), Names{"old"});
    ASSERT_OK(change(ours));
    EXPECT_OK(ours.Info("/d/other"));
    EXPECT_EQ(ours.List("/d").value(), server.List("/d").value());
  }
}

TEST_F(StaleDiskTest, WhatChangesNoNamesLeavesTheListingStale) {
  Put(ours_, "/d/a");
  EXPECT_EQ(ours_.List("/d").value(), Names{"a"});
  Put(theirs_, "/d/b");
  ASSERT_OK_AND_ASSIGN(const auto file, ours_.Open("/d/a", {.writable = true, .create = true}));
  ASSERT_OK(file->WriteAt(0, std::as_bytes(std::span("x"))));
  ASSERT_OK(file->Sync());
  ASSERT_OK(ours_.SyncDirectory("/d"));
  ASSERT_OK(ours_.SetModeAndTimes("/d/a", 0640, {}, {}));
  ASSERT_OK(ours_.MakeDirectory("/e", 0700));
  EXPECT_STATUS(StatusCode::kNotFound, ours_.Remove("/d/none"), "/d/none");
  EXPECT_EQ(ours_.List("/d").value(), Names{"a"});
}

TEST_F(StaleDiskTest, WhoCannotMakeANameLearnsThatItIsThere) {
  EXPECT_EQ(ours_.List("/d").value(), Names{});
  for (const char* const path : {"/d/a", "/d/b", "/d/c", "/d/e"}) {
    EXPECT_STATUS(StatusCode::kNotFound, ours_.Info(path), path);
  }
  Put(theirs_, "/d/a");
  Put(theirs_, "/d/b");
  EXPECT_STATUS(StatusCode::kAlreadyExists,
                ours_.Open("/d/a", {.writable = true, .create = true, .exclusive = true}).status(), "/d/a");
  EXPECT_OK(ours_.Info("/d/a"));
  EXPECT_STATUS(StatusCode::kNotFound, ours_.Info("/d/b"), "/d/b");
  EXPECT_STATUS(StatusCode::kAlreadyExists, ours_.Symlink("x", "/d/b"), "/d/b");
  EXPECT_OK(ours_.Info("/d/b"));
  EXPECT_EQ(ours_.List("/d").value(), Names{});
  Put(theirs_, "/d/c");
  ASSERT_OK(ours_.Open("/d/c", {.writable = true, .create = true}).status());  // it was made empty, no more
  EXPECT_OK(ours_.Info("/d/c"));
  EXPECT_EQ(ours_.List("/d").value(), Names{});
}

TEST_F(StaleDiskTest, TimePassesWhenItExpires) {
  EXPECT_EQ(ours_.List("/d").value(), Names{});
  EXPECT_STATUS(StatusCode::kNotFound, ours_.Info("/d/a"), "/d/a");
  Put(theirs_, "/d/a");
  ours_.Expire();
  EXPECT_OK(ours_.Info("/d/a"));
  EXPECT_EQ(ours_.List("/d").value(), Names{"a"});
}

TEST_F(StaleDiskTest, WhatIsRememberedGoesWithADirectoryThatIsMoved) {
  EXPECT_EQ(ours_.List("/d").value(), Names{});
  ASSERT_OK(theirs_.Rename("/d", "/e"));
  Put(theirs_, "/e/a");
  EXPECT_EQ(ours_.List("/e").value(), Names{});
  ASSERT_OK(theirs_.MakeDirectory("/d", 0700));
  Put(theirs_, "/d/b");
  EXPECT_EQ(ours_.List("/d").value(), Names{"b"});  // another directory
}

TEST_F(StaleDiskTest, AFailureOfTheServerIsNotRemembered) {
  server_.FailOn({.op = FakeOp::kList, .path_part = "/d"});
  EXPECT_STATUS(StatusCode::kUnavailable, ours_.List("/d"), "/d");
  server_.FailOn({.op = FakeOp::kInfo, .path_part = "/d/a"});
  Put(theirs_, "/d/a");
  EXPECT_STATUS(StatusCode::kUnavailable, ours_.Info("/d/a"), "/d/a");
  EXPECT_OK(ours_.Info("/d/a"));
  EXPECT_EQ(ours_.List("/d").value(), Names{"a"});
}

TEST_F(StaleDiskTest, AnAnswerFromBeforeAChangeOfOnesOwnIsNotRemembered) {
  SlowDisk server;
  StaleDisk ours(server);
  ASSERT_OK(server.MakeDirectory("/d", 0700));
  const auto make = [&ours](const std::string& path) {
    return [&ours, path] { return ours.MakeDirectory(path, 0700).ok(); };
  };
  server.MeanwhileAt("/d", make("/d/a"));
  EXPECT_EQ(ours.List("/d").value(), Names{});
  EXPECT_EQ(ours.List("/d").value(), Names{"a"});

  int answers = 0;
  server.MeanwhileAt("/d/b", [&] { return ++answers == 2 && make("/d/b")(); });  // 1: to us, 2: to be remembered
  EXPECT_STATUS(StatusCode::kNotFound, ours.Info("/d/b"), "/d/b");
  EXPECT_EQ(answers, 2);
  EXPECT_OK(ours.Info("/d/b"));
}

// Any answer was true at some instant since this client last changed the directory; a fresh one is true now.
TEST_F(StaleDiskTest, RandomChangesByTwoClientsShowNoStateThatNeverWas) {
  std::mt19937_64 random(7);
  struct Client {
    StaleDisk& disk;
    std::vector<Names> since_own_change = {};
    int stale = 0;
  };
  Client clients[] = {{ours_}, {theirs_}};
  for (Client& client : clients) client.since_own_change = {Names{}};
  for (int step = 0; step < 2000; ++step) {
    Client& client = clients[random() % 2];
    const std::string path = "/d/" + std::to_string(random() % 4);
    const Names before = server_.List("/d").value();
    switch (random() % 4) {
      case 0:
        client.disk.Open(path, {.writable = true, .create = true, .exclusive = true}).IgnoreError();
        break;
      case 1:
        client.disk.Remove(path).IgnoreError();
        break;
      case 2:
        client.disk.Info(path).IgnoreError();
        break;
      default:
        EXPECT_EQ(FreshList(client.disk, "/d").value(), before);
        client.since_own_change.clear();
    }
    const Names now = server_.List("/d").value();
    if (now != before) client.since_own_change.clear();
    for (Client& each : clients) each.since_own_change.push_back(now);
    const Names seen = client.disk.List("/d").value();
    EXPECT_EQ(std::ranges::count(client.since_own_change, seen) > 0, true) << "step " << step;
    client.stale += seen != now;
  }
  for (const Client& client : clients) EXPECT_GT(client.stale, 100);
}

// However the threads of one client run, each sees what it has made itself.
TEST_F(StaleDiskTest, ThreadsOfOneClientSeeTheirOwnChanges) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string name = std::to_string(t) + "." + std::to_string(i);
        EXPECT_FALSE(ours_.Info("/d/" + name).ok());
        Put(ours_, "/d/" + name);
        EXPECT_OK(ours_.Info("/d/" + name));
        const Names names = ours_.List("/d").value();
        EXPECT_TRUE(std::ranges::binary_search(names, name)) << name;
        if (i % 16 == 0) ours_.Expire();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace cairn
