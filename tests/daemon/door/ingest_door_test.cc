#include "daemon/door/ingest_door.h"

#include <absl/cleanup/cleanup.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "proto/announcement.h"
#include "proto/frame.h"
#include "storage/base/unique_fd.h"
#include "tests/daemon/door/fake_receiver.h"
#include "tests/daemon/door/ingest_client.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using testing::Certificates;
using testing::FakeReceiver;
using testing::IngestClient;
using Code = IngestClient::Code;

local::Request Piece(std::uint64_t index, std::size_t bytes) {
  local::Request request;
  request.mutable_piece()->set_index(index);
  request.mutable_piece()->set_data(std::string(bytes, 'p'));
  return request;
}

local::Reply ReplyOfBytes(std::uint64_t call, std::size_t bytes) {
  local::Reply reply;
  reply.set_call(call);
  reply.mutable_piece()->set_data(std::string(bytes, 'x'));
  return reply;
}

class IngestDoorTest : public ::testing::Test {
 protected:
  IngestDoorTest() {
    std::string name = ::testing::TempDir() + "cairn-ingest-XXXXXX";
    folder_ = mkdtemp(name.data());
    options_.node_socket = folder_ + "/cairnd-grpc.sock";
    options_.identity = {.name = "cairnd test", .incarnation = 42};
  }
  ~IngestDoorTest() override {
    door_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Open() {
    auto door = IngestDoor::Listen(options_, receiver_, nullptr);
    ASSERT_OK(door);
    door_ = *std::move(door);
  }
  std::unique_ptr<IngestClient> Connect() { return IngestClient::Connect("unix:" + options_.node_socket); }
  std::unique_ptr<IngestClient> Greeted() {
    auto client = Connect();
    EXPECT_TRUE(client->Hello());
    const auto reply = client->Receive();
    EXPECT_TRUE(reply.has_value() && reply->has_hello());
    return client;
  }

  std::string folder_;
  IngestDoor::Options options_;
  FakeReceiver receiver_;
  std::unique_ptr<IngestDoor> door_;
};

TEST_F(IngestDoorTest, HelloIsAnsweredAndTellsThePeer) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const auto client = Connect();
  ASSERT_TRUE(client->Hello(1, 99));
  const auto reply = client->Receive();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->call(), 1u);
  EXPECT_EQ(reply->hello().protocol(), CAIRN_PROTOCOL_NEWEST);
  EXPECT_EQ(reply->hello().incarnation(), 42u);
  const auto connection = receiver_.Attached(1);
  ASSERT_NE(connection, nullptr);
  EXPECT_EQ(connection->peer().host, "far away");
  EXPECT_EQ(connection->peer().pid, 4711u);
  EXPECT_EQ(connection->peer().program, "solver?[31m");
  EXPECT_FALSE(connection->shares_memory());
  EXPECT_FALSE(connection->resumable());  // on the node a stream breaks only with its client
}

TEST_F(IngestDoorTest, RequestsAndRepliesKeepTheirOrder) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const auto client = Greeted();
  const auto connection = receiver_.Attached(1);
  ASSERT_NE(connection, nullptr);
  for (std::uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(client->Send(Piece(i, i * 100)));
  ASSERT_TRUE(receiver_.WaitRequests(200));
  for (std::uint64_t i = 0; i < 200; ++i) {
    ASSERT_EQ(receiver_.Request(i).piece().index(), i);
    ASSERT_EQ(receiver_.Request(i).piece().data().size(), i * 100);
  }
  for (std::uint64_t i = 0; i < 200; ++i) connection->Send(ReplyOfBytes(i, i * 1000), nullptr);
  for (std::uint64_t i = 0; i < 200; ++i) {
    const auto reply = client->Receive();
    ASSERT_TRUE(reply.has_value());
    ASSERT_EQ(reply->call(), i);
    ASSERT_EQ(reply->piece().data().size(), i * 1000);
  }
}

TEST_F(IngestDoorTest, NamesAndRejectionsTravelAsOverTheSocket) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const auto client = Greeted();
  const auto connection = receiver_.Attached(1);
  ASSERT_NE(connection, nullptr);
  local::Request begin, find, reject;
  begin.mutable_begin()->set_name("best");
  find.mutable_find()->set_name("best");
  reject.mutable_reject()->set_dataset(12);
  for (const local::Request& request : {begin, find, reject}) ASSERT_TRUE(client->Send(request));
  ASSERT_TRUE(receiver_.WaitRequests(3));
  EXPECT_EQ(receiver_.Request(0).begin().name(), "best");
  EXPECT_EQ(receiver_.Request(1).find().name(), "best");
  EXPECT_EQ(receiver_.Request(2).reject().dataset(), 12u);
  local::Reply found;
  found.mutable_find()->set_name("best");
  connection->Send(found, nullptr);
  EXPECT_EQ(client->Receive().value_or(local::Reply()).find().name(), "best");
}

TEST_F(IngestDoorTest, TheFirstMessageMustBeAHelloWithACommonVersion) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const auto eager = Connect();
  ASSERT_TRUE(eager->Send(Piece(0, 1)));
  const auto to_eager = eager->Receive();
  ASSERT_TRUE(to_eager.has_value());
  EXPECT_EQ(to_eager->status().code(), local::FAILED_PRECONDITION);
  EXPECT_FALSE(eager->Receive().has_value());

  const auto future = Connect();
  ASSERT_TRUE(future->Hello(50, 60));
  const auto to_future = future->Receive();
  ASSERT_TRUE(to_future.has_value());
  EXPECT_EQ(to_future->status().code(), local::FAILED_PRECONDITION);
  EXPECT_NE(to_future->status().message().find("50 to 60"), std::string::npos);
  EXPECT_FALSE(future->Receive().has_value());
  EXPECT_EQ(future->Finish(), Code::kOk);
  EXPECT_EQ(receiver_.attached(), 0u);
}

TEST_F(IngestDoorTest, AStreamWithoutHelloIsCutInTime) {
  options_.hello_ms = 20;
  ASSERT_NO_FATAL_FAILURE(Open());
  const auto client = Connect();
  EXPECT_FALSE(client->Receive().has_value());
  std::string message;
  EXPECT_EQ(client->Finish(&message), Code::kDeadlineExceeded);
  EXPECT_EQ(message, "no Hello in time");
}

TEST_F(IngestDoorTest, AMessageOverTheLimitEndsOnlyItsOwnStream) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const auto good = Greeted();
  const auto bad = Greeted();
  ASSERT_TRUE(bad->Send(Piece(0, kRequestBytesMax - 64)));  // just fits
  ASSERT_TRUE(receiver_.WaitRequests(1));
  bad->Send(Piece(1, kRequestBytesMax));
  EXPECT_FALSE(bad->Receive().has_value());
  EXPECT_EQ(bad->Finish(), Code::kResourceExhausted);
  EXPECT_TRUE(receiver_.WaitDetached(1));
  ASSERT_TRUE(good->Send(Piece(2, 1)));
  EXPECT_TRUE(receiver_.WaitRequests(2));
}

TEST_F(IngestDoorTest, ReadingStopsWhileTheCoreIsBehind) {
  options_.in_flight_bytes_max = 4 << 20;
  ASSERT_NO_FATAL_FAILURE(Open());
  receiver_.KeepPointers();
  const auto client = Greeted();
  std::thread sender([&] {
    for (std::uint64_t i = 0; i < 40; ++i) client->Send(Piece(i, 1 << 20));
  });
  // The fourth brings it just over the limit, with the objects' own sizes.
  EXPECT_TRUE(receiver_.WaitRequests(4));
  // Others are served meanwhile; a door that still read would have handed over more by now.
  for (int i = 0; i < 20; ++i) Greeted();
  EXPECT_EQ(receiver_.requests(), 4u);
  receiver_.DropPointers();
  EXPECT_TRUE(receiver_.WaitRequests(40));
  sender.join();
  for (std::uint64_t i = 0; i < 40; ++i) EXPECT_EQ(receiver_.Request(i).piece().index(), i);
}

TEST_F(IngestDoorTest, AStreamThatBreaksWhileReadingIsPausedIsDetached) {
  options_.in_flight_bytes_max = 1;
  ASSERT_NO_FATAL_FAILURE(Open());
  receiver_.KeepPointers();
  const auto client = Greeted();
  ASSERT_TRUE(client->Send(Piece(0, 100)));
  ASSERT_TRUE(receiver_.WaitRequests(1));
  client->Cancel();
  EXPECT_TRUE(receiver_.WaitDetached(1));
  receiver_.DropPointers();  // late, and harmless
}

TEST_F(IngestDoorTest, AClientThatLeavesRepliesUnreadIsCutOff) {
  options_.queue_frames_max = 8;
  ASSERT_NO_FATAL_FAILURE(Open());
  const auto client = Greeted();
  const auto connection = receiver_.Attached(1);
  ASSERT_NE(connection, nullptr);
  for (std::uint64_t i = 0; i < 64; ++i) connection->Send(ReplyOfBytes(i, 1 << 20), nullptr);
  EXPECT_TRUE(receiver_.WaitDetached(1));
}

TEST_F(IngestDoorTest, ARestoreOfManySmallVariablesFitsIntoTheQueue) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const auto client = Greeted();
  const auto connection = receiver_.Attached(1);
  ASSERT_NE(connection, nullptr);
  for (std::uint64_t i = 0; i < CAIRN_VARIABLES_MAX; ++i) connection->Send(ReplyOfBytes(i, 8), nullptr);
  for (std::uint64_t i = 0; i < CAIRN_VARIABLES_MAX; ++i) {
    const auto reply = client->Receive();
    ASSERT_TRUE(reply.has_value());
    ASSERT_EQ(reply->call(), i);
  }
}

TEST_F(IngestDoorTest, CloseStillSendsWhatIsQueued) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const auto client = Greeted();
  const auto connection = receiver_.Attached(1);
  ASSERT_NE(connection, nullptr);
  for (std::uint64_t i = 0; i < 10; ++i) connection->Send(ReplyOfBytes(i, 1 << 20), nullptr);
  connection->Close();
  connection->Send(ReplyOfBytes(99, 1), nullptr);
  for (std::uint64_t i = 0; i < 10; ++i) {
    const auto reply = client->Receive();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->call(), i);
  }
  EXPECT_FALSE(client->Receive().has_value());
  EXPECT_EQ(client->Finish(), Code::kOk);
  EXPECT_TRUE(receiver_.WaitDetached(1));
  EXPECT_EQ(receiver_.detached(), 1u);
}

TEST_F(IngestDoorTest, CloseDoesNotWaitForeverForAClientThatDoesNotRead) {
  options_.drain_ms = 20;
  ASSERT_NO_FATAL_FAILURE(Open());
  const auto client = Greeted();
  const auto connection = receiver_.Attached(1);
  ASSERT_NE(connection, nullptr);
  for (std::uint64_t i = 0; i < 10; ++i) connection->Send(ReplyOfBytes(i, 4 << 20), nullptr);
  connection->Close();
  EXPECT_TRUE(receiver_.WaitDetached(1));
}

TEST_F(IngestDoorTest, OneStreamTooManyIsRefused) {
  options_.connections_max = 1;
  ASSERT_NO_FATAL_FAILURE(Open());
  const auto first = Greeted();
  const auto second = Connect();
  EXPECT_FALSE(second->Receive().has_value());
  std::string message;
  EXPECT_EQ(second->Finish(&message), Code::kResourceExhausted);
  EXPECT_EQ(message, "1 clients are connected already");
}

TEST_F(IngestDoorTest, StopAcceptingRefusesNewStreamsAndKeepsOld) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const auto client = Greeted();
  door_->StopAccepting();
  EXPECT_FALSE(Connect()->Receive().has_value());
  ASSERT_TRUE(client->Send(Piece(0, 1)));
  EXPECT_TRUE(receiver_.WaitRequests(1));
}

TEST_F(IngestDoorTest, ClosingTheDoorDetachesAllAndLeavesHarmlessConnections) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const auto first = Greeted();
  const auto second = Greeted();
  const auto connection = receiver_.Attached(2);
  ASSERT_NE(connection, nullptr);
  door_.reset();
  EXPECT_EQ(receiver_.detached(), 2u);
  EXPECT_FALSE(first->Receive().has_value());
  connection->Send(ReplyOfBytes(1, 1), nullptr);
  connection->Close();
}

TEST_F(IngestDoorTest, TheNodesSocketIsForItsUserAlone) {
  ASSERT_NO_FATAL_FAILURE(Open());
  struct stat info {};
  ASSERT_EQ(stat(options_.node_socket.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  FakeReceiver other;
  EXPECT_STATUS(StatusCode::kFailedPrecondition, IngestDoor::Listen(options_, other, nullptr), "listens there already");
}

TEST_F(IngestDoorTest, WithoutTlsOnlyOnLoopbackAndOnlyIfAskedForByName) {
  const auto listen = [&](const std::string& address, bool insecure_loopback) {
    IngestDoor::Options options = options_;
    options.node_socket.clear();
    options.tcp.listen = address;
    options.tcp.insecure_loopback = insecure_loopback;
    return IngestDoor::Listen(options, receiver_, nullptr);
  };
  EXPECT_STATUS(StatusCode::kInvalidArgument, listen("0.0.0.0:0", true), "ingest.insecure_loopback");
  EXPECT_STATUS(StatusCode::kInvalidArgument, listen("127.example.org:0", true), "ingest.insecure_loopback");
  EXPECT_STATUS(StatusCode::kInvalidArgument, listen("127.0.0.1", true), "host:port");
  EXPECT_STATUS(StatusCode::kInvalidArgument, listen("127.0.0.1:http", true), "host:port");

  ASSERT_OK_AND_ASSIGN(const auto door, listen("127.0.0.1:0", true));
  ASSERT_GT(door->tcp_port(), 0);
  const auto client = IngestClient::Connect("127.0.0.1:" + std::to_string(door->tcp_port()));
  ASSERT_TRUE(client->Hello());
  EXPECT_TRUE(client->Receive().has_value());
  ASSERT_NE(receiver_.Attached(1), nullptr);
  EXPECT_TRUE(receiver_.Attached(1)->resumable());
  // The port is ours alone.
  EXPECT_STATUS(StatusCode::kUnavailable, listen("127.0.0.1:" + std::to_string(door->tcp_port()), true), "taken");
}

// --- With keys of its own ---

class OwnKeysTest : public IngestDoorTest {
 protected:
  OwnKeysTest() {
    options_.node_socket.clear();
    options_.host = "node7";
  }
  std::unique_ptr<IngestDoor> ListenAt(const std::string& address) {
    options_.tcp.listen = address;
    auto door = IngestDoor::Listen(options_, receiver_, nullptr);
    EXPECT_OK(door);
    return door.ok() ? *std::move(door) : nullptr;
  }
  static Announcement ToldBy(const IngestDoor& door) {
    Announcement told;
    EXPECT_TRUE(ParseAnnouncement(door.announcement(), &told)) << door.announcement();
    return told;
  }
  static Certificates KeysOf(const IngestDoor& door) {
    const Announcement told = ToldBy(door);
    return {.ca = told.authority, .cert = told.certificate, .key = told.key, .name = told.name};
  }
  static bool ComesIn(const IngestDoor& door, const Certificates* keys) {
    const auto client = IngestClient::Connect("127.0.0.1:" + std::to_string(door.tcp_port()), keys);
    client->Hello();
    return client->Receive().has_value();
  }
};

TEST_F(OwnKeysTest, WhatItTellsIsAllThatAClientNeeds) {
  const auto door = ListenAt("127.0.0.1:0");
  ASSERT_NE(door, nullptr);
  EXPECT_EQ(ToldBy(*door).address, "127.0.0.1:" + std::to_string(door->tcp_port()));
  const Certificates keys = KeysOf(*door);
  EXPECT_TRUE(ComesIn(*door, &keys));
}

TEST_F(OwnKeysTest, WithoutThemNobodyComesInAndNobodyIsTakenForIt) {
  const auto door = ListenAt("127.0.0.1:0"), other = ListenAt("127.0.0.1:0");
  ASSERT_TRUE(door != nullptr && other != nullptr);
  const Certificates ours = KeysOf(*door), theirs = KeysOf(*other);
  EXPECT_FALSE(ComesIn(*door, nullptr));
  Certificates wrong = ours;
  wrong.cert.clear(), wrong.key.clear();
  EXPECT_FALSE(ComesIn(*door, &wrong)) << "without a certificate";
  wrong = ours;
  wrong.cert = theirs.cert, wrong.key = theirs.key;
  EXPECT_FALSE(ComesIn(*door, &wrong)) << "with the certificate of another daemon's client";
  EXPECT_FALSE(ComesIn(*door, &theirs)) << "another daemon answers for it";
  wrong = ours;
  wrong.name = theirs.name;
  EXPECT_FALSE(ComesIn(*door, &wrong)) << "under another name";
  EXPECT_EQ(receiver_.attached(), 0u);
  EXPECT_TRUE(ComesIn(*door, &ours));
}

// Another process connects and says nothing.
TEST_F(OwnKeysTest, StrangersLeaveHalfOfTheDescriptors) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const absl::Cleanup back = [&before] { setrlimit(RLIMIT_NOFILE, &before); };
  rlimit few = before;
  few.rlim_cur = 400;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto door = ListenAt("127.0.0.1:0");
  ASSERT_NE(door, nullptr);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(door->tcp_port()));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t stranger = fork();
  if (stranger == 0) {
    setrlimit(RLIMIT_NOFILE, &before);
    for (int i = 0; i < 350; ++i) {
      const int fd = socket(AF_INET, SOCK_STREAM, 0);
      if (fd < 0 || connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) _exit(1);
    }
    if (write(told[1], "x", 1) != 1) _exit(1);
    pause();
  }
  char x;
  close(told[1]);
  ASSERT_EQ(read(told[0], &x, 1), 1) << "fewer than 512 descriptors are allowed here";
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  std::vector<UniqueFd> ours;
  for (int i = 0; i < 150; ++i) ours.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (const UniqueFd& one : ours) EXPECT_TRUE(one.valid());
  ours.clear();
  kill(stranger, SIGKILL);
  waitpid(stranger, nullptr, 0);
  close(told[0]);
  const Certificates keys = KeysOf(*door);
  bool in = false;
  for (int i = 0; i < 100 && !in; ++i) in = ComesIn(*door, &keys);
  EXPECT_TRUE(in) << "clients come in again";
}

TEST_F(OwnKeysTest, EachLifeHasOthers) {
  auto door = ListenAt("127.0.0.1:0");
  ASSERT_NE(door, nullptr);
  const Certificates before = KeysOf(*door);
  door.reset();
  door = ListenAt("127.0.0.1:0");
  ASSERT_NE(door, nullptr);
  EXPECT_FALSE(ComesIn(*door, &before));
}

TEST_F(OwnKeysTest, AHostThatStandsForAnyIsToldByName) {
  auto door = ListenAt("0.0.0.0:0");
  ASSERT_NE(door, nullptr);
  EXPECT_EQ(ToldBy(*door).address, "node7:" + std::to_string(door->tcp_port()));
  options_.tcp.name = "login.example.org";
  door = ListenAt("127.0.0.1:0");
  ASSERT_NE(door, nullptr);
  EXPECT_EQ(ToldBy(*door).address, "login.example.org:" + std::to_string(door->tcp_port()));
}

TEST_F(OwnKeysTest, OfARangeTheFirstFreePortIsTaken) {
  const int first = 21'000 + getpid() % 900 * 3;
  const std::string range = "127.0.0.1:" + std::to_string(first) + "-" + std::to_string(first + 2);
  const auto one = ListenAt(range);
  auto two = ListenAt(range);
  const auto three = ListenAt(range);
  ASSERT_TRUE(one != nullptr && two != nullptr && three != nullptr);
  EXPECT_EQ(one->tcp_port(), first);
  EXPECT_EQ(two->tcp_port(), first + 1);
  EXPECT_EQ(three->tcp_port(), first + 2);
  const Certificates keys = KeysOf(*three);
  EXPECT_TRUE(ComesIn(*three, &keys));
  // None is left: that is said, and a daemon that can do without goes on.
  EXPECT_STATUS(StatusCode::kUnavailable, IngestDoor::Listen(options_, receiver_, nullptr), "no port of ingest.listen");
  options_.without_tcp = true;
  ASSERT_OK_AND_ASSIGN(const auto without, IngestDoor::Listen(options_, receiver_, nullptr));
  EXPECT_STATUS(StatusCode::kUnavailable, without->tcp_status(), range);
  EXPECT_EQ(without->tcp_port(), 0);
  EXPECT_EQ(without->announcement(), "");
  two.reset();
  const auto next = ListenAt(range);
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->tcp_port(), first + 1);
}

TEST_F(OwnKeysTest, AHostOfAnotherMachineIsAnErrorAndNotAPortThatIsTaken) {
  options_.tcp.listen = "192.0.2.1:7100-7101";
  EXPECT_STATUS(StatusCode::kInvalidArgument, IngestDoor::Listen(options_, receiver_, nullptr), "192.0.2.1:7100");
}

}  // namespace
}  // namespace cairn
