// How the plug-in finds a daemon where daemons tell in the run's folder where they are.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "client/cairn.h"
#include "daemon/door/ingest_door.h"
#include "proto/local.pb.h"
#include "tests/client/grpc/plugin_fixture.h"
#include "tests/daemon/door/fake_receiver.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using testing::FakeReceiver;
using testing::Hello;
using testing::PluginTest;
using testing::ReplyOfBytes;
using testing::Stream;

class ToldDaemonsTest : public PluginTest {
 protected:
  void SetUp() override {
    PluginTest::SetUp();
    options_.tcp.listen = "127.0.0.1:0";
    run_ = folder_ + "/run";
    std::filesystem::create_directories(run_ + "/.cairn");
    std::filesystem::permissions(run_ + "/.cairn", std::filesystem::perms::owner_all);
  }
  // As the daemon of `node` does, so many seconds ago.
  void Tell(char node, const std::string& text, int ago = 0) {
    const std::string path = run_ + "/.cairn/ingest." + std::string(32, node);
    std::ofstream(path) << text;
    std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - std::chrono::seconds(ago));
  }
  int Connect() { return stream_.Connect("grpc+run:" + run_); }
  // A session's stream with the daemon that `receiver` is behind: says hello, and gets so many replies. False: somebody
  // else was asked. `session`: that looks for the daemon that it had; 0: it has had none.
  bool Talk(FakeReceiver& receiver, int replies, std::uint64_t session = 0) {
    const std::size_t before = receiver.attached(), before_of_both = receiver_.attached() + other_receiver_.attached();
    Stream stream;
    local::Reply reply;
    EXPECT_EQ(stream.Connect("grpc+run:" + run_, session), CAIRN_OK) << stream.error();
    EXPECT_EQ(stream.Send(Hello()), CAIRN_OK) << stream.error();
    EXPECT_EQ(stream.Receive(&reply), CAIRN_OK) << stream.error();
    for (int i = 0; i < 2000 && receiver_.attached() + other_receiver_.attached() == before_of_both; ++i)
      ::usleep(10'000);
    if (receiver.attached() == before) return false;
    const auto connection = receiver.Attached(before + 1);
    for (int i = 1; i < replies; ++i) {
      connection->Send(ReplyOfBytes(static_cast<std::uint64_t>(i), 10), nullptr);
      EXPECT_EQ(stream.Receive(&reply), CAIRN_OK) << stream.error();
    }
    return true;
  }
  // A daemon of another node.
  void OpenOther() {
    IngestDoor::Options options = options_;
    options.node_socket = folder_ + "/other.sock";
    auto door = IngestDoor::Listen(options, other_receiver_, nullptr);
    ASSERT_OK(door);
    other_door_ = *std::move(door);
  }

  std::string run_;
  Stream stream_;
  FakeReceiver other_receiver_;
  std::unique_ptr<IngestDoor> other_door_;
};

TEST_F(ToldDaemonsTest, AClientWithTheRunsFolderAloneComesIn) {
  EXPECT_EQ(Connect(), CAIRN_UNAVAILABLE) << "nobody has told anything";
  ASSERT_NO_FATAL_FAILURE(Open());
  Tell('a', door_->announcement());
  ASSERT_EQ(Connect(), CAIRN_OK) << stream_.error();
  ASSERT_EQ(stream_.Send(Hello()), CAIRN_OK) << stream_.error();
  local::Reply reply;
  ASSERT_EQ(stream_.Receive(&reply), CAIRN_OK) << stream_.error();
  EXPECT_TRUE(reply.has_hello());
}

TEST_F(ToldDaemonsTest, WhatIsNotTrueAnyMoreAndWhatIsNoneIsPassedBy) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const std::string before = door_->announcement();
  ASSERT_NO_FATAL_FAILURE(Open());
  Tell('a', door_->announcement(), /*ago=*/100);
  Tell('b', before);
  Tell('c', "");
  Tell('d', "cairn ingest 1\naddress 127.0.0.1:1\n");
  Tell('e', std::string(100'000, 'x'));
  std::filesystem::create_directory(run_ + "/.cairn/ingest." + std::string(32, 'f'));
  ASSERT_EQ(::mkfifo((run_ + "/.cairn/ingest." + std::string(32, '0')).c_str(), 0600), 0);
  EXPECT_EQ(Connect(), CAIRN_OK) << stream_.error();
}

TEST_F(ToldDaemonsTest, WhoeverElseListensThereIsNotBelieved) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Tell('a', door_->announcement());
  options_.tcp.listen = "127.0.0.1:" + std::to_string(door_->tcp_port());
  ASSERT_NO_FATAL_FAILURE(Open());  // another daemon, at the same port
  EXPECT_EQ(Connect(), CAIRN_UNAVAILABLE) << "its successor may tell where it is";
  EXPECT_NE(stream_.error().find("as told in the run's folder"), std::string::npos) << stream_.error();
  EXPECT_EQ(receiver_.attached(), 0u);
  Tell('a', door_->announcement());
  EXPECT_EQ(Connect(), CAIRN_OK) << stream_.error();
}

TEST_F(ToldDaemonsTest, OfTwoTheOneThatHasServedIsAskedFirstAlsoIfTheOtherHasToldLater) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(OpenOther());
  Tell('a', door_->announcement(), /*ago=*/100);
  EXPECT_TRUE(Talk(receiver_, 3)) << "to the greeting, to the opening, and one more";
  Tell('b', other_door_->announcement());
  EXPECT_TRUE(Talk(receiver_, 1));
  door_.reset();
  EXPECT_TRUE(Talk(other_receiver_, 3)) << "the one that has served us does not answer";
  ASSERT_NO_FATAL_FAILURE(Open());
  Tell('a', door_->announcement());
  EXPECT_TRUE(Talk(other_receiver_, 1)) << "it is the last that has served us";
}

TEST_F(ToldDaemonsTest, ADaemonThatRefusesBehindTheGreetingIsNotRemembered) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(OpenOther());
  Tell('b', other_door_->announcement(), /*ago=*/100);
  EXPECT_TRUE(Talk(other_receiver_, 2)) << "the second is the refusal";
  Tell('a', door_->announcement());
  EXPECT_TRUE(Talk(receiver_, 1)) << "the one that has told last";
}

// The one that has told last answers Hello and Open, and then refuses or is gone, again and again.
TEST_F(ToldDaemonsTest, ASessionThatLooksForItsDaemonAsksEachInTurn) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(OpenOther());
  Tell('a', door_->announcement(), /*ago=*/100);
  Tell('b', other_door_->announcement());
  EXPECT_TRUE(Talk(other_receiver_, 2));
  EXPECT_TRUE(Talk(other_receiver_, 2, /*session=*/1)) << "whoever opens its session goes by what was told";
  EXPECT_TRUE(Talk(receiver_, 1, /*session=*/1)) << "the other one's turn";
  EXPECT_TRUE(Talk(other_receiver_, 2, /*session=*/1)) << "ours may have come there";
  EXPECT_TRUE(Talk(receiver_, 3, /*session=*/1));
  EXPECT_TRUE(Talk(receiver_, 2, /*session=*/1)) << "it has served us";
  EXPECT_TRUE(Talk(other_receiver_, 2, /*session=*/1)) << "and may have lost the session";
}

// Its first refusal would be for good.
TEST_F(ToldDaemonsTest, ASessionThatOpensGoesByNoOtherSessionsFailures) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(OpenOther());
  Tell('a', door_->announcement(), /*ago=*/100);
  EXPECT_TRUE(Talk(receiver_, 3));
  Tell('b', other_door_->announcement());
  EXPECT_TRUE(Talk(receiver_, 2, /*session=*/1)) << "in vain: it is going away";
  EXPECT_TRUE(Talk(receiver_, 1)) << "a session that opens";
  EXPECT_TRUE(Talk(receiver_, 2, /*session=*/2)) << "another one's search";
  EXPECT_TRUE(Talk(other_receiver_, 2, /*session=*/1));
}

TEST_F(ToldDaemonsTest, OfOneAloneTheWordIsTheLast) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Tell('a', door_->announcement());
  {
    Stream stream;
    ASSERT_EQ(stream.Connect("grpc+run:" + run_), CAIRN_OK) << stream.error();
    EXPECT_EQ(stream.others(), Stream::Others());
  }
  {
    Stream stream;
    ASSERT_EQ(stream.Connect("grpc+unix:" + options_.node_socket), CAIRN_OK) << stream.error();
    EXPECT_EQ(stream.others(), Stream::Others());
  }
  Tell('b', "what nobody can read");
  ASSERT_EQ(Connect(), CAIRN_OK) << stream_.error();
  EXPECT_EQ(stream_.others(), (Stream::Others{.all = 1, .unreached = 1})) << "who knows what that one knows?";
}

TEST_F(ToldDaemonsTest, WhoDidNotAnswerIsCountedAndWhoWasNotAskedIsNot) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(OpenOther());
  Tell('a', door_->announcement(), /*ago=*/100);
  Tell('b', other_door_->announcement());
  {
    Stream stream;
    ASSERT_EQ(stream.Connect("grpc+run:" + run_), CAIRN_OK) << stream.error();
    EXPECT_EQ(stream.others(), (Stream::Others{.all = 1, .unreached = 0}));
  }
  other_door_.reset();
  ASSERT_EQ(Connect(), CAIRN_OK) << stream_.error();
  EXPECT_EQ(stream_.others(), (Stream::Others{.all = 1, .unreached = 1}));
}

TEST_F(ToldDaemonsTest, OnlyWhatNobodyElseCanReadOrMakeIsBelieved) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Tell('a', door_->announcement());
  const std::string file = run_ + "/.cairn/ingest." + std::string(32, 'a');
  std::filesystem::permissions(file, std::filesystem::perms::group_read, std::filesystem::perm_options::add);
  EXPECT_EQ(Connect(), CAIRN_UNAVAILABLE);
  std::filesystem::rename(file, run_ + "/elsewhere");
  std::filesystem::permissions(run_ + "/elsewhere", std::filesystem::perms::group_read,
                               std::filesystem::perm_options::remove);
  std::filesystem::create_symlink(run_ + "/elsewhere", file);
  EXPECT_EQ(Connect(), CAIRN_UNAVAILABLE);
  std::filesystem::remove(file);
  std::filesystem::rename(run_ + "/elsewhere", file);
  std::filesystem::permissions(run_ + "/.cairn", std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  EXPECT_EQ(Connect(), CAIRN_PERMISSION_DENIED);
  std::filesystem::permissions(run_ + "/.cairn", std::filesystem::perms::others_write,
                               std::filesystem::perm_options::remove);
  EXPECT_EQ(Connect(), CAIRN_OK) << stream_.error();
}

}  // namespace
}  // namespace cairn
