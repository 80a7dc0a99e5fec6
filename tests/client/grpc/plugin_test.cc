// libcairn_grpc.so as libcairn.so uses it, dlopen and all, against the daemon's real door.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include "client/cairn.h"
#include "client/grpc_transport.h"
#include "proto/local.pb.h"
#include "tests/client/grpc/plugin_fixture.h"
#include "tests/support/runfiles/runfiles.h"
#include "tests/support/strangers_socket.h"

namespace cairn {
namespace {

using testing::Hello;
using testing::PluginTest;
using testing::ReplyOfBytes;
using testing::Stream;
using testing::ThePlugin;

local::Request Piece(std::uint64_t index, std::size_t bytes) {
  local::Request request;
  request.mutable_piece()->set_index(index);
  request.mutable_piece()->set_data(std::string(bytes, 'p'));
  return request;
}

TEST_F(PluginTest, ExportsItsSevenFunctionsAndNothingElse) {
  EXPECT_EQ(ThePlugin().abi(), CAIRN_GRPC_ABI);
  const std::string command = "nm -D --defined-only " + testing::Runfile("client/grpc/libcairn_grpc.so");
  FILE* const pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::array<char, 4096> line{};
  std::size_t symbols = 0;
  while (fgets(line.data(), line.size(), pipe) != nullptr) {
    ++symbols;
    EXPECT_NE(std::string(line.data()).find(" T cairn_grpc_"), std::string::npos) << line.data();
  }
  pclose(pipe);
  EXPECT_EQ(symbols, 7u);
}

TEST_F(PluginTest, CarriesMessagesBothWaysInOrder) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Stream stream;
  ASSERT_NO_FATAL_FAILURE(Greet(stream));
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_EQ(stream.Send(Piece(i, i * 1000)), CAIRN_OK) << stream.error();
  ASSERT_TRUE(receiver_.WaitRequests(100));
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(receiver_.Request(i).piece().index(), i);
  const auto connection = receiver_.Attached(1);
  ASSERT_NE(connection, nullptr);
  for (std::uint64_t i = 0; i < 100; ++i) connection->Send(ReplyOfBytes(i, i * 10'000), nullptr);
  for (std::uint64_t i = 0; i < 100; ++i) {
    local::Reply reply;
    ASSERT_EQ(stream.Receive(&reply), CAIRN_OK) << stream.error();
    ASSERT_EQ(reply.call(), i);
    ASSERT_EQ(reply.piece().data().size(), i * 10'000);
  }
}

TEST_F(PluginTest, ADeadlineThatPassesLosesNoReply) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Stream stream;
  ASSERT_NO_FATAL_FAILURE(Greet(stream));
  local::Reply reply;
  EXPECT_EQ(stream.Receive(&reply, 0), CAIRN_DEADLINE_EXCEEDED);
  EXPECT_EQ(stream.Receive(&reply, 5), CAIRN_DEADLINE_EXCEEDED);
  EXPECT_NE(stream.error().find("no answer in time"), std::string::npos) << stream.error();
  const auto connection = receiver_.Attached(1);
  ASSERT_NE(connection, nullptr);
  for (std::uint64_t i = 0; i < 50; ++i) connection->Send(ReplyOfBytes(i, 100'000), nullptr);
  for (std::uint64_t i = 0; i < 50; ++i) {
    int code = CAIRN_DEADLINE_EXCEEDED;
    while (code == CAIRN_DEADLINE_EXCEEDED) code = stream.Receive(&reply, 0);
    ASSERT_EQ(code, CAIRN_OK) << stream.error();
    ASSERT_EQ(reply.call(), i);
  }
}

TEST_F(PluginTest, ADaemonThatDoesNotReadStopsTheSenderByItsDeadline) {
  options_.in_flight_bytes_max = 1;
  ASSERT_NO_FATAL_FAILURE(Open());
  receiver_.KeepPointers();
  Stream stream;
  ASSERT_NO_FATAL_FAILURE(Greet(stream));
  int code = CAIRN_OK;
  int sent = 0;
  for (; code == CAIRN_OK && sent < 200; ++sent) code = stream.Send(Piece(0, 1 << 20), 200);
  EXPECT_EQ(code, CAIRN_DEADLINE_EXCEEDED);
  EXPECT_NE(stream.error().find("did not take the message in time"), std::string::npos) << stream.error();
  receiver_.DropPointers();
}

TEST_F(PluginTest, RepliesWaitOutsideOnceEnoughAreUnread) {
  options_.queue_bytes_max = 300u << 20;
  ASSERT_NO_FATAL_FAILURE(Open());
  Stream stream;
  ASSERT_NO_FATAL_FAILURE(Greet(stream));
  const auto connection = receiver_.Attached(1);
  ASSERT_NE(connection, nullptr);
  // More than the plug-in keeps: it must take up reading again as the caller does.
  for (std::uint64_t i = 0; i < 100; ++i) connection->Send(ReplyOfBytes(i, 1 << 20), nullptr);
  for (std::uint64_t i = 0; i < 100; ++i) {
    local::Reply reply;
    ASSERT_EQ(stream.Receive(&reply), CAIRN_OK) << stream.error();
    ASSERT_EQ(reply.call(), i);
  }
}

TEST_F(PluginTest, NobodyThereIsUnavailableAndSoIsADaemonThatGoes) {
  Stream none;
  EXPECT_EQ(none.Connect("grpc+unix:" + folder_ + "/none.sock"), CAIRN_UNAVAILABLE);
  EXPECT_FALSE(none.error().empty());
  EXPECT_EQ(none.Connect("grpc://127.0.0.1:1"), CAIRN_UNAVAILABLE);
  EXPECT_EQ(none.Connect("nonsense"), CAIRN_INVALID_ARGUMENT);

  ASSERT_NO_FATAL_FAILURE(Open());
  Stream stream;
  ASSERT_NO_FATAL_FAILURE(Greet(stream));
  door_.reset();
  local::Reply reply;
  EXPECT_EQ(stream.Receive(&reply), CAIRN_UNAVAILABLE);
  EXPECT_EQ(stream.Send(Hello()), CAIRN_UNAVAILABLE);

  // Its successor is there at once for a new stream.
  ASSERT_NO_FATAL_FAILURE(Open());
  Stream again;
  Greet(again);
}

TEST_F(PluginTest, AStrangerWhoListensInThePlaceOfTheDaemonIsNotTalkedTo) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  const testing::StrangersSocket stranger;
  Stream stream;
  EXPECT_EQ(stream.Connect("grpc+unix:" + stranger.path()), CAIRN_PERMISSION_DENIED);
  EXPECT_NE(stream.error().find("user 65534 listens there, neither root nor this user, 0"), std::string::npos)
      << stream.error();
}

TEST_F(PluginTest, CloseEndsTheStreamAtTheDaemon) {
  ASSERT_NO_FATAL_FAILURE(Open());
  {
    Stream stream;
    ASSERT_NO_FATAL_FAILURE(Greet(stream));
  }
  EXPECT_TRUE(receiver_.WaitDetached(1));
  ThePlugin().close(nullptr);
}

TEST_F(PluginTest, ErrorsAreCutToTheirBuffer) {
  cairn_grpc* handle = nullptr;
  std::array<char, 8> error;
  error.fill('#');
  EXPECT_EQ(ThePlugin().connect("nonsense", 0, 1, &handle, error.data(), 5), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(error.data()), "'non");
  EXPECT_EQ(error[5], '#');
  EXPECT_EQ(ThePlugin().connect("nonsense", 0, 1, &handle, nullptr, 0), CAIRN_INVALID_ARGUMENT);
}

// No channel but its own is in use here: the end of each must not end the threads that it comes on.
TEST_F(PluginTest, TheEndOfTheOnlyConnectionMayComeOnAnyThread) {
  for (int i = 0; i < 2000; ++i) {
    Stream stream;
    ASSERT_EQ(stream.Connect("grpc+unix:" + folder_ + "/nobody"), CAIRN_UNAVAILABLE) << stream.error();
  }
}

}  // namespace
}  // namespace cairn
