// libcairn_grpc.so as libcairn.so uses it, dlopen and all, against the daemon's real door.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "client/cairn.h"
#include "client/grpc_transport.h"
#include "daemon/door/ingest_door.h"
#include "proto/frame.h"
#include "storage/base/unique_fd.h"
#include "tests/daemon/door/fake_receiver.h"
#include "tests/support/runfiles/runfiles.h"
#include "tests/support/status_matchers.h"
#include "tests/support/strangers_socket.h"

namespace cairn {
namespace {

using testing::FakeReceiver;

constexpr std::uint32_t kPatienceMs = 20'000;

// The functions of the plug-in, found as libcairn.so finds them.
struct Plugin {
  void* library = dlopen(testing::Runfile("client/grpc/libcairn_grpc.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  template <typename Function>
  Function* Find(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library, name));
  }
  cairn_grpc_abi_function* abi = Find<cairn_grpc_abi_function>("cairn_grpc_abi");
  cairn_grpc_connect_function* connect = Find<cairn_grpc_connect_function>("cairn_grpc_connect");
  cairn_grpc_others_function* others = Find<cairn_grpc_others_function>("cairn_grpc_others");
  cairn_grpc_send_function* send = Find<cairn_grpc_send_function>("cairn_grpc_send");
  cairn_grpc_receive_function* receive = Find<cairn_grpc_receive_function>("cairn_grpc_receive");
  cairn_grpc_free_function* free = Find<cairn_grpc_free_function>("cairn_grpc_free");
  cairn_grpc_close_function* close = Find<cairn_grpc_close_function>("cairn_grpc_close");
};

const Plugin& ThePlugin() {
  static const Plugin plugin;
  return plugin;
}

// A handle that closes itself and keeps the last code and sentence.
class Stream {
 public:
  ~Stream() { ThePlugin().close(handle_); }
  int Connect(const std::string& address, std::uint64_t session = 0) {
    return ThePlugin().connect(address.c_str(), session, kPatienceMs, &handle_, error_.data(), error_.size());
  }
  struct Others {
    std::uint32_t all = 0, unreached = 0;
    friend bool operator==(const Others&, const Others&) = default;
  };
  Others others() const {
    Others found;
    found.all = ThePlugin().others(handle_, &found.unreached);
    return found;
  }
  int Send(const local::Request& request, std::uint32_t deadline_ms = kPatienceMs) {
    const std::string bytes = request.SerializeAsString();
    return ThePlugin().send(handle_, bytes.data(), bytes.size(), deadline_ms, error_.data(), error_.size());
  }
  int Receive(local::Reply* reply, std::uint32_t deadline_ms = kPatienceMs) {
    void* bytes = nullptr;
    std::size_t count = 0;
    const int code = ThePlugin().receive(handle_, &bytes, &count, deadline_ms, error_.data(), error_.size());
    const bool parsed = code != CAIRN_OK || reply->ParseFromArray(bytes, static_cast<int>(count));
    EXPECT_TRUE(parsed);
    ThePlugin().free(bytes);
    return code;
  }
  std::string error() const { return error_.data(); }

 private:
  cairn_grpc* handle_ = nullptr;
  std::array<char, 400> error_{};
};

local::Request Hello() {
  local::Request request;
  request.set_call(1);
  request.mutable_hello()->set_protocol_min(CAIRN_PROTOCOL_OLDEST);
  request.mutable_hello()->set_protocol_max(CAIRN_PROTOCOL_NEWEST);
  return request;
}

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

class PluginTest : public ::testing::Test {
 protected:
  PluginTest() {
    std::string name = ::testing::TempDir() + "cairn-plugin-XXXXXX";
    folder_ = mkdtemp(name.data());
    options_.node_socket = folder_ + "/grpc.sock";
    options_.identity = {.name = "cairnd test", .incarnation = 1};
  }
  ~PluginTest() override {
    door_.reset();
    for (const char* name : {"CAIRN_TLS_CA", "CAIRN_TLS_CERT", "CAIRN_TLS_KEY"}) unsetenv(name);
    std::filesystem::remove_all(folder_);
  }
  void SetUp() override { ASSERT_NE(ThePlugin().library, nullptr) << dlerror(); }

  void Open() {
    door_.reset();
    auto door = IngestDoor::Listen(options_, receiver_, nullptr);
    ASSERT_OK(door);
    door_ = *std::move(door);
  }
  void Greet(Stream& stream) {
    ASSERT_EQ(stream.Connect("grpc+unix:" + options_.node_socket), CAIRN_OK) << stream.error();
    ASSERT_EQ(stream.Send(Hello()), CAIRN_OK) << stream.error();
    local::Reply reply;
    ASSERT_EQ(stream.Receive(&reply), CAIRN_OK) << stream.error();
    ASSERT_TRUE(reply.has_hello());
  }
  // Makes certificates for localhost in `folder_/name`.
  void MakeCertificates(const std::string& name, const std::string& host) {
    const std::string command =
        testing::Runfile("deploy/make-certs.sh") + " " + folder_ + "/" + name + " " + host + " >/dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0);
  }
  void OpenTls(const std::string& name) {
    options_.tcp.listen = "127.0.0.1:0";
    options_.tcp.tls_ca = folder_ + "/" + name + "/ca.pem";
    options_.tcp.tls_cert = folder_ + "/" + name + "/server.pem";
    options_.tcp.tls_key = folder_ + "/" + name + "/server.key";
    ASSERT_NO_FATAL_FAILURE(Open());
  }
  void UseCertificates(const std::string& authority, const std::string& client) {
    setenv("CAIRN_TLS_CA", (folder_ + "/" + authority + "/ca.pem").c_str(), 1);
    setenv("CAIRN_TLS_CERT", (folder_ + "/" + client + "/client.pem").c_str(), 1);
    setenv("CAIRN_TLS_KEY", (folder_ + "/" + client + "/client.key").c_str(), 1);
  }
  std::string TcpAddress() const { return "grpc://localhost:" + std::to_string(door_->tcp_port()); }

  std::string folder_;
  IngestDoor::Options options_;
  FakeReceiver receiver_;
  std::unique_ptr<IngestDoor> door_;
};

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

TEST_F(PluginTest, ATlsConnectionThatIsClosedOnceIsTriedAgain) {
  ASSERT_NO_FATAL_FAILURE(MakeCertificates("ours", "localhost"));
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), bytes), 0);
  ASSERT_EQ(::listen(listener.get(), 16), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  // As a daemon that is being stopped, then one that is not there.
  std::thread dying([&] {
    const UniqueFd taken(::accept(listener.get(), nullptr, nullptr));
    ::shutdown(listener.get(), SHUT_RDWR);
  });
  UseCertificates("ours", "ours");
  Stream stream;
  EXPECT_EQ(stream.Connect("grpc://localhost:" + std::to_string(ntohs(address.sin_port))), CAIRN_UNAVAILABLE)
      << stream.error();
  dying.join();
}

TEST_F(PluginTest, TlsWorksWithBothCertificates) {
  ASSERT_NO_FATAL_FAILURE(MakeCertificates("ours", "localhost"));
  ASSERT_NO_FATAL_FAILURE(OpenTls("ours"));
  UseCertificates("ours", "ours");
  Stream stream;
  ASSERT_EQ(stream.Connect(TcpAddress()), CAIRN_OK) << stream.error();
  ASSERT_EQ(stream.Send(Hello()), CAIRN_OK);
  local::Reply reply;
  EXPECT_EQ(stream.Receive(&reply), CAIRN_OK) << stream.error();
}

TEST_F(PluginTest, TlsThatEitherSideRefusesIsPermissionDenied) {
  ASSERT_NO_FATAL_FAILURE(MakeCertificates("ours", "localhost"));
  ASSERT_NO_FATAL_FAILURE(MakeCertificates("theirs", "localhost"));
  ASSERT_NO_FATAL_FAILURE(MakeCertificates("elsewhere", "other.example.org"));
  ASSERT_NO_FATAL_FAILURE(OpenTls("ours"));
  Stream stream;
  UseCertificates("ours", "theirs");  // the daemon does not know us
  EXPECT_EQ(stream.Connect(TcpAddress()), CAIRN_PERMISSION_DENIED) << stream.error();
  UseCertificates("theirs", "ours");  // we do not know the daemon
  EXPECT_EQ(stream.Connect(TcpAddress()), CAIRN_PERMISSION_DENIED) << stream.error();
  ASSERT_NO_FATAL_FAILURE(OpenTls("elsewhere"));  // a certificate for another name
  UseCertificates("elsewhere", "elsewhere");
  EXPECT_EQ(stream.Connect(TcpAddress()), CAIRN_PERMISSION_DENIED) << stream.error();
  EXPECT_EQ(receiver_.attached(), 0u);
}

// --- Where daemons tell in the run's folder where they are ---

class ToldTest : public PluginTest {
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

TEST_F(ToldTest, AClientWithTheRunsFolderAloneComesIn) {
  EXPECT_EQ(Connect(), CAIRN_UNAVAILABLE) << "nobody has told anything";
  ASSERT_NO_FATAL_FAILURE(Open());
  Tell('a', door_->announcement());
  ASSERT_EQ(Connect(), CAIRN_OK) << stream_.error();
  ASSERT_EQ(stream_.Send(Hello()), CAIRN_OK) << stream_.error();
  local::Reply reply;
  ASSERT_EQ(stream_.Receive(&reply), CAIRN_OK) << stream_.error();
  EXPECT_TRUE(reply.has_hello());
}

TEST_F(ToldTest, WhatIsNotTrueAnyMoreAndWhatIsNoneIsPassedBy) {
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

TEST_F(ToldTest, WhoeverElseListensThereIsNotBelieved) {
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

TEST_F(ToldTest, OfTwoTheOneThatHasServedIsAskedFirstAlsoIfTheOtherHasToldLater) {
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

TEST_F(ToldTest, ADaemonThatRefusesBehindTheGreetingIsNotRemembered) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(OpenOther());
  Tell('b', other_door_->announcement(), /*ago=*/100);
  EXPECT_TRUE(Talk(other_receiver_, 2)) << "the second is the refusal";
  Tell('a', door_->announcement());
  EXPECT_TRUE(Talk(receiver_, 1)) << "the one that has told last";
}

// The one that has told last answers Hello and Open, and then refuses or is gone, again and again.
TEST_F(ToldTest, ASessionThatLooksForItsDaemonAsksEachInTurn) {
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
TEST_F(ToldTest, ASessionThatOpensGoesByNoOtherSessionsFailures) {
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

TEST_F(ToldTest, OfOneAloneTheWordIsTheLast) {
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

TEST_F(ToldTest, WhoDidNotAnswerIsCountedAndWhoWasNotAskedIsNot) {
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

TEST_F(ToldTest, OnlyWhatNobodyElseCanReadOrMakeIsBelieved) {
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
