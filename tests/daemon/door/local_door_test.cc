#include "daemon/door/local_door.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "daemon/data/image.h"
#include "daemon/door/frame_parser.h"
#include "proto/frame.h"
#include "tests/daemon/door/fake_receiver.h"
#include "tests/daemon/door/raw_client.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using testing::FakeReceiver;
using testing::RawClient;

local::Request Filled(std::uint64_t pieces) {
  local::Request request;
  request.mutable_filled()->set_pieces(pieces);
  return request;
}

local::Reply ReplyOfBytes(std::uint64_t call, std::size_t bytes) {
  local::Reply reply;
  reply.set_call(call);
  reply.mutable_piece()->set_data(std::string(bytes, 'x'));
  return reply;
}

class LocalDoorTest : public ::testing::Test {
 protected:
  LocalDoorTest() {
    std::string name = ::testing::TempDir() + "cairn-door-XXXXXX";
    folder_ = mkdtemp(name.data());
    options_.path = folder_ + "/run/cairnd.sock";
    options_.identity = {.name = "cairnd test", .incarnation = 42};
  }
  ~LocalDoorTest() override {
    door_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Open() {
    auto door = LocalDoor::Listen(options_, receiver_);
    ASSERT_OK(door);
    door_ = *std::move(door);
  }
  // A client that has said Hello and was answered.
  RawClient Greeted() {
    RawClient client(options_.path);
    EXPECT_TRUE(client.Hello());
    const auto reply = client.Receive();
    EXPECT_TRUE(reply.has_value() && reply->has_hello());
    return client;
  }
  // The door hangs up after telling why; the core never hears of it.
  void ExpectRefused(RawClient& client, local::Code code, std::string_view part) {
    const auto reply = client.Receive();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->status().code(), code) << reply->DebugString();
    EXPECT_NE(reply->status().message().find(part), std::string::npos) << reply->DebugString();
    EXPECT_TRUE(client.AtEnd());
    EXPECT_EQ(receiver_.attached(), 0u);
  }

  std::string folder_;
  LocalDoor::Options options_;
  FakeReceiver receiver_;
  std::unique_ptr<LocalDoor> door_;
};

TEST_F(LocalDoorTest, HelloIsAnsweredWithVersionAndIdentity) {
  ASSERT_NO_FATAL_FAILURE(Open());
  RawClient client(options_.path);
  ASSERT_TRUE(client.Hello(1, 99));
  const auto reply = client.Receive();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->call(), 1u);
  EXPECT_FALSE(reply->has_status());
  EXPECT_EQ(reply->hello().protocol(), CAIRN_PROTOCOL_NEWEST);
  EXPECT_EQ(reply->hello().daemon(), "cairnd test");
  EXPECT_EQ(reply->hello().pid(), static_cast<std::uint32_t>(getpid()));
  EXPECT_EQ(reply->hello().incarnation(), 42u);
}

TEST_F(LocalDoorTest, ThePeerIsWhoTheKernelSays) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const RawClient client = Greeted();
  const auto connection = receiver_.Attached(1);
  ASSERT_NE(connection, nullptr);
  EXPECT_EQ(connection->peer().pid, static_cast<std::uint32_t>(getpid()));
  EXPECT_EQ(connection->peer().program, std::string(program_invocation_short_name).substr(0, 15));
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  EXPECT_EQ(connection->peer().host, host);
  EXPECT_TRUE(connection->shares_memory());
  EXPECT_FALSE(connection->resumable());
}

TEST_F(LocalDoorTest, AClientOfTheVersionBeforeIsServedInThat) {
  ASSERT_NO_FATAL_FAILURE(Open());
  RawClient client(options_.path);
  ASSERT_TRUE(client.Hello(CAIRN_PROTOCOL_NEWEST - 1, CAIRN_PROTOCOL_NEWEST - 1));
  const auto reply = client.Receive();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->hello().protocol(), CAIRN_PROTOCOL_NEWEST - 1);
}

TEST_F(LocalDoorTest, NoCommonVersionIsRefusedNamingBothRanges) {
  ASSERT_NO_FATAL_FAILURE(Open());
  RawClient future(options_.path);
  ASSERT_TRUE(future.Hello(77, 99));
  ExpectRefused(future, local::FAILED_PRECONDITION,
                fmt::format("the client speaks 77 to 99, cairnd test speaks {} to {}; the daemon is too old",
                            CAIRN_PROTOCOL_OLDEST, CAIRN_PROTOCOL_NEWEST));
  RawClient past(options_.path);
  ASSERT_TRUE(past.Hello(0, 0));
  ExpectRefused(past, local::FAILED_PRECONDITION, "the client speaks 0 to 0");
  RawClient first(options_.path);
  ASSERT_TRUE(first.Hello(1, 1));
  ExpectRefused(first, local::FAILED_PRECONDITION,
                fmt::format("the client speaks 1 to 1, cairnd test speaks {} to {}; the client is too old",
                            CAIRN_PROTOCOL_OLDEST, CAIRN_PROTOCOL_NEWEST));
  RawClient inverted(options_.path);
  ASSERT_TRUE(inverted.Hello(3, 2));
  ExpectRefused(inverted, local::FAILED_PRECONDITION, "the client speaks 3 to 2");
}

TEST_F(LocalDoorTest, TheFirstMessageMustBeHello) {
  ASSERT_NO_FATAL_FAILURE(Open());
  RawClient client(options_.path);
  ASSERT_TRUE(client.Send(Filled(1)));
  ExpectRefused(client, local::FAILED_PRECONDITION, "Hello");
}

TEST_F(LocalDoorTest, ASecondHelloEndsTheConnection) {
  ASSERT_NO_FATAL_FAILURE(Open());
  RawClient client = Greeted();
  ASSERT_TRUE(client.Hello());
  const auto reply = client.Receive();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status().code(), local::FAILED_PRECONDITION);
  EXPECT_TRUE(client.AtEnd());
  EXPECT_TRUE(receiver_.WaitDetached(1));
}

TEST_F(LocalDoorTest, GarbageEndsOnlyItsOwnConnection) {
  ASSERT_NO_FATAL_FAILURE(Open());
  RawClient good = Greeted();
  RawClient early(options_.path);
  early.SendBytes("GET / HTTP/1.1\r\n\r\n");
  const auto early_reply = early.Receive();
  ASSERT_TRUE(early_reply.has_value());
  EXPECT_EQ(early_reply->status().code(), local::INVALID_ARGUMENT);
  EXPECT_TRUE(early.AtEnd());

  RawClient late = Greeted();
  const cairn_frame_header header{.magic = CAIRN_FRAME_MAGIC, .bytes = 4};
  late.SendBytes({reinterpret_cast<const char*>(&header), sizeof(header)});
  late.SendBytes("\xff\xff\xff\xff");
  const auto late_reply = late.Receive();
  ASSERT_TRUE(late_reply.has_value());
  EXPECT_EQ(late_reply->status().code(), local::INVALID_ARGUMENT);
  EXPECT_TRUE(late.AtEnd());

  ASSERT_TRUE(good.Send(Filled(7)));
  ASSERT_TRUE(receiver_.WaitRequests(1));
  EXPECT_EQ(receiver_.Request(0).filled().pieces(), 7u);
}

TEST_F(LocalDoorTest, TextThatIsNotUtf8IsRefusedSayingSo) {
  ASSERT_NO_FATAL_FAILURE(Open());
  RawClient client = Greeted();
  const std::string body = "\x5a\x03\x0a\x01\xff";  // Request.open, its prefix: one byte that begins no character
  const cairn_frame_header header{.magic = CAIRN_FRAME_MAGIC, .bytes = static_cast<std::uint32_t>(body.size())};
  client.SendBytes(std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + body);
  const auto reply = client.Receive();
  ASSERT_TRUE(reply.has_value());
  EXPECT_NE(reply->status().message().find("UTF-8"), std::string::npos) << reply->DebugString();
  EXPECT_TRUE(client.AtEnd());
}

TEST_F(LocalDoorTest, AnOversizedFrameIsRefusedByItsHeader) {
  ASSERT_NO_FATAL_FAILURE(Open());
  RawClient client(options_.path);
  const cairn_frame_header header{.magic = CAIRN_FRAME_MAGIC, .bytes = kRequestBytesMax + 1};
  client.SendBytes({reinterpret_cast<const char*>(&header), sizeof(header)});
  ExpectRefused(client, local::RESOURCE_EXHAUSTED, "16777217 bytes");
}

TEST_F(LocalDoorTest, FramesMayComeInAnyPieces) {
  ASSERT_NO_FATAL_FAILURE(Open());
  RawClient client = Greeted();
  std::string bytes = EncodeFrame(Filled(1));
  for (const char& byte : bytes) ASSERT_TRUE(client.SendBytes({&byte, 1}));
  bytes = EncodeFrame(Filled(2)) + EncodeFrame(Filled(3)) + EncodeFrame(Filled(4)).substr(0, 5);
  ASSERT_TRUE(client.SendBytes(bytes));
  ASSERT_TRUE(client.SendBytes(EncodeFrame(Filled(4)).substr(5)));
  ASSERT_TRUE(receiver_.WaitRequests(4));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(receiver_.Request(i).filled().pieces(), i + 1);
}

TEST_F(LocalDoorTest, AConnectionWithoutHelloIsDroppedInTime) {
  options_.hello_ms = 20;
  ASSERT_NO_FATAL_FAILURE(Open());
  RawClient silent(options_.path);
  RawClient half(options_.path);
  half.SendBytes("CRN1");
  EXPECT_TRUE(silent.AtEnd());
  EXPECT_TRUE(half.AtEnd());
  EXPECT_EQ(receiver_.attached(), 0u);
}

TEST_F(LocalDoorTest, AClientThatLeavesRepliesUnreadIsCutOff) {
  options_.queue_frames_max = 8;
  ASSERT_NO_FATAL_FAILURE(Open());
  RawClient client = Greeted();
  const auto connection = receiver_.Attached(1);
  ASSERT_NE(connection, nullptr);
  // More than any socket buffer holds; Send never blocks.
  for (std::uint64_t i = 0; i < 64; ++i) connection->Send(ReplyOfBytes(i, 1 << 20), nullptr);
  EXPECT_TRUE(receiver_.WaitDetached(1));
}

TEST_F(LocalDoorTest, UnreadBytesAreBoundedToo) {
  options_.queue_bytes_max = 8 << 20;
  ASSERT_NO_FATAL_FAILURE(Open());
  RawClient client = Greeted();
  const auto connection = receiver_.Attached(1);
  ASSERT_NE(connection, nullptr);
  for (std::uint64_t i = 0; i < 64; ++i) connection->Send(ReplyOfBytes(i, 1 << 20), nullptr);
  EXPECT_TRUE(receiver_.WaitDetached(1));
}

TEST_F(LocalDoorTest, RepliesLargerThanTheSocketsBufferArriveWholeAndInOrder) {
  ASSERT_NO_FATAL_FAILURE(Open());
  RawClient client = Greeted();
  const auto connection = receiver_.Attached(1);
  ASSERT_NE(connection, nullptr);
  for (std::uint64_t i = 0; i < 8; ++i) connection->Send(ReplyOfBytes(i, 3 << 20), nullptr);
  for (std::uint64_t i = 0; i < 8; ++i) {
    const auto reply = client.Receive();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->call(), i);
    EXPECT_EQ(reply->piece().data().size(), 3u << 20);
  }
}

TEST_F(LocalDoorTest, TheImagesDescriptorComesWithItsFrameAndNoOther) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ImageBudget budget(64 << 20);
  ASSERT_OK_AND_ASSIGN(const auto image, Image::Make(budget, 1 << 20));
  RawClient client = Greeted();
  const auto connection = receiver_.Attached(1);
  ASSERT_NE(connection, nullptr);
  // The socket is full when the image's frame is queued.
  for (std::uint64_t i = 0; i < 4; ++i) connection->Send(ReplyOfBytes(i, 1 << 20), nullptr);
  connection->Send(ReplyOfBytes(4, 1 << 20), Image::FdOf(image));
  connection->Send(ReplyOfBytes(5, 1), nullptr);
  for (std::uint64_t i = 0; i < 6; ++i) {
    UniqueFd received;
    const auto reply = client.Receive(&received);
    ASSERT_TRUE(reply.has_value());
    ASSERT_EQ(reply->call(), i);
    ASSERT_EQ(received.valid(), i == 4);
    if (i != 4) continue;
    struct stat ours {
    }, theirs{};
    ASSERT_EQ(fstat(image->fd(), &ours), 0);
    ASSERT_EQ(fstat(received.get(), &theirs), 0);
    EXPECT_EQ(ours.st_ino, theirs.st_ino);
  }
}

TEST_F(LocalDoorTest, AnAnswerBeyondTheFrameLimitBecomesAnError) {
  ASSERT_NO_FATAL_FAILURE(Open());
  RawClient client = Greeted();
  const auto connection = receiver_.Attached(1);
  ASSERT_NE(connection, nullptr);
  connection->Send(ReplyOfBytes(9, CAIRN_FRAME_BYTES_MAX), nullptr);
  const auto reply = client.Receive();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->call(), 9u);
  EXPECT_EQ(reply->status().code(), local::RESOURCE_EXHAUSTED);
}

TEST_F(LocalDoorTest, AnotherUserIsRefusedSayingWhoseDaemonThisIs) {
  options_.credentials = [](int) -> absl::StatusOr<PeerCredentials> {
    return PeerCredentials{.uid = 12345, .pid = getpid()};
  };
  ASSERT_NO_FATAL_FAILURE(Open());
  RawClient client(options_.path);
  client.Hello();
  ExpectRefused(client, local::PERMISSION_DENIED,
                "this daemon serves user " + std::to_string(geteuid()) + ", not user 12345");
}

TEST_F(LocalDoorTest, OneConnectionTooManyIsRefused) {
  options_.connections_max = 2;
  ASSERT_NO_FATAL_FAILURE(Open());
  const RawClient first = Greeted();
  auto second = std::make_unique<RawClient>(Greeted());
  RawClient third(options_.path);
  const auto reply = third.Receive();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status().code(), local::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(third.AtEnd());
  second.reset();
  ASSERT_TRUE(receiver_.WaitDetached(1));
  Greeted();
}

TEST_F(LocalDoorTest, CloseStillSendsWhatIsQueued) {
  ASSERT_NO_FATAL_FAILURE(Open());
  RawClient client = Greeted();
  const auto connection = receiver_.Attached(1);
  ASSERT_NE(connection, nullptr);
  for (std::uint64_t i = 0; i < 4; ++i) connection->Send(ReplyOfBytes(i, 2 << 20), nullptr);
  connection->Close();
  connection->Send(ReplyOfBytes(99, 1), nullptr);
  for (std::uint64_t i = 0; i < 4; ++i) {
    const auto reply = client.Receive();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->call(), i);
  }
  EXPECT_TRUE(client.AtEnd());
  EXPECT_TRUE(receiver_.WaitDetached(1));
  EXPECT_EQ(receiver_.detached(), 1u);
}

TEST_F(LocalDoorTest, CloseDoesNotWaitForeverForAClientThatDoesNotRead) {
  options_.drain_ms = 20;
  ASSERT_NO_FATAL_FAILURE(Open());
  const RawClient client = Greeted();
  const auto connection = receiver_.Attached(1);
  ASSERT_NE(connection, nullptr);
  for (std::uint64_t i = 0; i < 8; ++i) connection->Send(ReplyOfBytes(i, 2 << 20), nullptr);
  connection->Close();
  EXPECT_TRUE(receiver_.WaitDetached(1));
}

TEST_F(LocalDoorTest, ReadingStopsWhileTheCoreIsBehind) {
  options_.in_flight_max = 16;
  ASSERT_NO_FATAL_FAILURE(Open());
  receiver_.KeepPointers();
  RawClient client = Greeted();
  constexpr std::size_t kBytesMax = 64 << 20;
  std::string frames;
  std::uint64_t count = 0;
  std::size_t taken = 0;
  // Were the door still reading, all of it would go through.
  while (taken < kBytesMax) {
    while (frames.size() < (64 << 10)) frames += EncodeFrame(Filled(++count));
    const std::size_t sent = client.SendSome(frames, /*wait_ms=*/500);
    if (sent == 0) break;
    taken += sent;
    frames.erase(0, sent);
  }
  EXPECT_LT(taken, kBytesMax);
  receiver_.DropPointers();
  ASSERT_TRUE(client.SendBytes(frames));
  ASSERT_TRUE(receiver_.WaitRequests(count));
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(receiver_.Request(i).filled().pieces(), i + 1);
}

TEST_F(LocalDoorTest, ADeadClientIsDetachedAfterItsLastRequest) {
  ASSERT_NO_FATAL_FAILURE(Open());
  {
    RawClient client = Greeted();
    ASSERT_TRUE(client.Send(Filled(5)));
  }
  EXPECT_TRUE(receiver_.WaitDetached(1));
  EXPECT_EQ(receiver_.requests(), 1u);
}

TEST_F(LocalDoorTest, ClosingTheDoorDetachesAllAndLeavesHarmlessConnections) {
  ASSERT_NO_FATAL_FAILURE(Open());
  RawClient first = Greeted();
  RawClient second = Greeted();
  const auto connection = receiver_.Attached(2);
  ASSERT_NE(connection, nullptr);
  door_.reset();
  EXPECT_EQ(receiver_.detached(), 2u);
  EXPECT_TRUE(first.AtEnd());
  EXPECT_TRUE(second.AtEnd());
  connection->Send(ReplyOfBytes(1, 1), nullptr);
  connection->Close();
}

TEST_F(LocalDoorTest, StopAcceptingTakesTheNameAwayAndKeepsConnections) {
  ASSERT_NO_FATAL_FAILURE(Open());
  RawClient client = Greeted();
  door_->StopAccepting();
  ASSERT_TRUE(client.Send(Filled(1)));
  ASSERT_TRUE(receiver_.WaitRequests(1));  // handled after the stop, on the same thread
  EXPECT_FALSE(std::filesystem::exists(options_.path));
}

// A child that it has forked holds the socket open. What it had sent is heard before.
TEST_F(LocalDoorTest, AProcessThatIsGoneIsTakenLeaveOfThoughItsChildLives) {
  ASSERT_NO_FATAL_FAILURE(Open());
  int alive[2];
  ASSERT_EQ(pipe(alive), 0);
  const pid_t client = fork();
  if (client == 0) {
    RawClient greeted = Greeted();
    greeted.Send(Filled(1));
    if (fork() == 0) {
      close(alive[1]);
      char end = 0;
      _exit(read(alive[0], &end, 1) == 0 ? 0 : 1);  // until the test closes the other end
    }
    _exit(0);
  }
  close(alive[0]);
  EXPECT_EQ(waitpid(client, nullptr, 0), client);
  EXPECT_TRUE(receiver_.WaitRequests(1));
  EXPECT_TRUE(receiver_.WaitDetached(1));
  close(alive[1]);
}

TEST_F(LocalDoorTest, TheSocketIsForItsUserAlone) {
  ASSERT_NO_FATAL_FAILURE(Open());
  struct stat info {};
  ASSERT_EQ(stat(options_.path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(stat((folder_ + "/run").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(LocalDoorTest, ASecondDaemonIsToldWhoListens) {
  ASSERT_NO_FATAL_FAILURE(Open());
  FakeReceiver other;
  EXPECT_STATUS(StatusCode::kFailedPrecondition, LocalDoor::Listen(options_, other),
                "process " + std::to_string(getpid()));
  Greeted();  // the first one is as it was
}

TEST_F(LocalDoorTest, ASocketLeftBehindIsReplaced) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const std::string kept = folder_ + "/run/kept";
  ASSERT_EQ(link(options_.path.c_str(), kept.c_str()), 0);
  door_.reset();  // takes its name away; a crash would not have
  ASSERT_EQ(rename(kept.c_str(), options_.path.c_str()), 0);
  ASSERT_NO_FATAL_FAILURE(Open());
  Greeted();
}

TEST_F(LocalDoorTest, PlacesThatAreNotSafeAreRefused) {
  LocalDoor::Options relative = options_;
  relative.path = "cairnd.sock";
  EXPECT_STATUS(StatusCode::kInvalidArgument, LocalDoor::Listen(relative, receiver_), "not absolute");

  LocalDoor::Options long_path = options_;
  long_path.path = folder_ + "/" + std::string(100, 'x') + "/cairnd.sock";
  EXPECT_STATUS(StatusCode::kInvalidArgument, LocalDoor::Listen(long_path, receiver_), "at most 107");

  ASSERT_EQ(mkdir((folder_ + "/open").c_str(), 0755), 0);
  LocalDoor::Options open = options_;
  open.path = folder_ + "/open/cairnd.sock";
  EXPECT_STATUS(StatusCode::kPermissionDenied, LocalDoor::Listen(open, receiver_), "chmod 700");

  ASSERT_EQ(mkdir((folder_ + "/run").c_str(), 0700), 0);
  ASSERT_EQ(mkdir(options_.path.c_str(), 0700), 0);
  EXPECT_STATUS(StatusCode::kFailedPrecondition, LocalDoor::Listen(options_, receiver_), "not a socket");
}

}  // namespace
}  // namespace cairn
