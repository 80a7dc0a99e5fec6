// Opening, closing, deadlines, forks, and a daemon that talks nonsense.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "proto/frame.h"
#include "tests/client/fake_daemon.h"
#include "tests/client/played_session.h"
#include "tests/support/strangers_socket.h"

namespace cairn {
namespace {

bool Says(const cairn_session* session, const std::string& text) {
  return std::string(cairn_error(session)).find(text) != std::string::npos;
}

using SessionTest = PlayedSessionTest;

TEST_F(SessionTest, HelloAndOpenSayWhoComesAndWhereItBelongs) {
  daemon_.Play([this] {
    FakePeer peer = daemon_.Accept();
    const local::Request hello = peer.Expect(local::Request::kHello);
    EXPECT_EQ(hello.hello().protocol_max(), CAIRN_PROTOCOL_NEWEST);
    EXPECT_EQ(hello.hello().pid(), static_cast<std::uint32_t>(getpid()));
    EXPECT_FALSE(hello.hello().program().empty());
    local::Reply reply;
    reply.mutable_hello()->set_protocol(CAIRN_PROTOCOL_NEWEST);
    peer.Answer(hello, std::move(reply));
    const local::Request open = peer.Expect(local::Request::kOpen);
    EXPECT_GT(open.call(), hello.call());
    EXPECT_EQ(open.open().prefix(), "/prefix");
    EXPECT_EQ(open.open().rank(), 1u);
    EXPECT_EQ(open.open().nranks(), 3u);
    EXPECT_EQ(open.open().launch_key(), "key");
    EXPECT_TRUE(open.open().takeover());
    EXPECT_EQ(open.open().launch(), 0u);
    local::Reply opened;
    opened.mutable_open()->set_launch(4);
    peer.Answer(open, std::move(opened));
    peer.Answer(peer.Expect(local::Request::kClose), {});
  });
  cairn_options options = daemon_.options();
  options.rank = 1;
  options.nranks = 3;
  options.takeover = 1;
  cairn_session* session = OpenOrDie(options);
  EXPECT_EQ(cairn_close(session), CAIRN_OK);
}

TEST_F(SessionTest, OpenWithoutADaemonFailsAtOnceAndNamesTheSocket) {
  daemon_.CloseSocket();
  cairn_session* session = nullptr;
  const cairn_options options = daemon_.options();
  EXPECT_EQ(cairn_open(&options, &session), CAIRN_UNAVAILABLE);
  EXPECT_EQ(session, nullptr);
  EXPECT_TRUE(Says(nullptr, daemon_.path())) << cairn_error(nullptr);
  EXPECT_TRUE(Says(nullptr, "Connection refused")) << cairn_error(nullptr);
}

TEST_F(SessionTest, AStrangerWhoListensInThePlaceOfTheDaemonIsNotTalkedTo) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  const testing::StrangersSocket stranger;
  const std::string address = "unix:" + stranger.path();
  cairn_options options = daemon_.options();
  options.address = address.c_str();
  cairn_session* session = nullptr;
  EXPECT_EQ(cairn_open(&options, &session), CAIRN_PERMISSION_DENIED);
  EXPECT_EQ(session, nullptr);
  EXPECT_TRUE(Says(nullptr, "user 65534 listens there, neither root nor this user, 0")) << cairn_error(nullptr);
}

TEST_F(SessionTest, OpenPassesOnWhatTheDaemonRefusesWith) {
  daemon_.Play([this] {
    FakePeer peer = daemon_.Accept();
    local::Reply hello;
    hello.mutable_hello()->set_protocol(CAIRN_PROTOCOL_NEWEST);
    peer.Answer(peer.Expect(local::Request::kHello), std::move(hello));
    peer.Refuse(peer.Expect(local::Request::kOpen), local::BUSY, "launch 3 is alive on host h, process 9");
  });
  cairn_session* session = nullptr;
  const cairn_options options = daemon_.options();
  EXPECT_EQ(cairn_open(&options, &session), CAIRN_BUSY);
  EXPECT_TRUE(Says(nullptr, "launch 3 is alive on host h, process 9")) << cairn_error(nullptr);
}

TEST_F(SessionTest, ARefusalOfTheConnectionItselfIsAnAnswerToo) {
  daemon_.Play([this] {
    FakePeer peer = daemon_.Accept();
    peer.Expect(local::Request::kHello);
    peer.Refuse(local::Request(), local::RESOURCE_EXHAUSTED, "too many connections");
  });
  cairn_session* session = nullptr;
  const cairn_options options = daemon_.options();
  EXPECT_EQ(cairn_open(&options, &session), CAIRN_RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Says(nullptr, "too many connections")) << cairn_error(nullptr);
}

TEST_F(SessionTest, ADaemonOfAnotherProtocolIsRefused) {
  daemon_.Play([this] {
    for (const std::uint32_t protocol : {CAIRN_PROTOCOL_OLDEST - 1, CAIRN_PROTOCOL_NEWEST + 1}) {
      FakePeer peer = daemon_.Accept();
      local::Reply hello;
      hello.mutable_hello()->set_protocol(protocol);
      peer.Answer(peer.Expect(local::Request::kHello), std::move(hello));
      EXPECT_FALSE(peer.Receive());
    }
  });
  cairn_session* session = nullptr;
  const cairn_options options = daemon_.options();
  EXPECT_EQ(cairn_open(&options, &session), CAIRN_UNSUPPORTED);
  EXPECT_EQ(cairn_open(&options, &session), CAIRN_UNSUPPORTED);
}

TEST_F(SessionTest, ADaemonThatDiesWhileOpeningIsAskedAgain) {
  daemon_.Play([this] {
    { FakePeer first = daemon_.Accept(); }
    FakePeer peer = daemon_.Accept();
    peer.Greet();
    peer.Answer(peer.Expect(local::Request::kClose), {});
  });
  cairn_session* session = OpenOrDie(daemon_.options());
  EXPECT_EQ(cairn_close(session), CAIRN_OK);
}

TEST_F(SessionTest, ASocketPathThatIsTooLongIsTheCallersError) {
  cairn_options options = daemon_.options();
  const std::string address = "unix:/" + std::string(200, 'a');
  options.address = address.c_str();
  cairn_session* session = nullptr;
  EXPECT_EQ(cairn_open(&options, &session), CAIRN_INVALID_ARGUMENT);
}

// Every call that waits, with what its error must name.
struct Waiting {
  const char* name;
  std::function<int(cairn_session*)> call;
  std::vector<const char*> says;
};

std::vector<Waiting> AllWaiting() {
  static std::uint64_t number;
  static std::int32_t reached;
  static cairn_stored_info info;
  static char path[64];
  info.struct_size = sizeof info;
  return {
      {"cairn_checkpoint", [](auto* s) { return cairn_checkpoint(s, 7, &number); }, {"step 7", "200 ms"}},
      {"cairn_test", [](auto* s) { return cairn_test(s, 3, CAIRN_LEVEL_LOCAL, &reached); }, {"200 ms"}},
      {"cairn_wait",
       [](auto* s) { return cairn_wait(s, 3, CAIRN_LEVEL_LOCAL, 150); },
       {"dataset 3 to reach local", "150 ms"}},
      {"cairn_latest", [](auto* s) { return cairn_latest(s, &number, &number); }, {"200 ms"}},
      {"cairn_find", [](auto* s) { return cairn_find(s, "best", &number, &number); }, {"200 ms"}},
      {"cairn_dataset_name", [](auto* s) { return cairn_dataset_name(s, 3, path, sizeof path); }, {"200 ms"}},
      {"cairn_reject", [](auto* s) { return cairn_reject(s, 3); }, {"200 ms"}},
      {"cairn_stored", [](auto* s) { return cairn_stored(s, 3, 0, &info); }, {"200 ms"}},
      {"cairn_stored_by_id", [](auto* s) { return cairn_stored_by_id(s, 3, 0, &info); }, {"200 ms"}},
      {"cairn_restore", [](auto* s) { return cairn_restore(s, 3); }, {"dataset 3 to be restored", "200 ms"}},
      {"cairn_output_begin", [](auto* s) { return cairn_output_begin(s, 3, CAIRN_OUTPUT, &number); }, {"200 ms"}},
      {"cairn_restart_file", [](auto* s) { return cairn_restart_file(s, 3, "f", path, sizeof path); }, {"200 ms"}},
  };
}

TEST_F(SessionTest, EveryCallEndsAtItsDeadlineAndSaysWhatItWaitedFor) {
  cairn_session* session = Open(
      [](FakePeer& peer) {
        while (peer.Receive()) {
        }
      },
      200);
  for (const Waiting& one : AllWaiting()) {
    EXPECT_EQ(one.call(session), CAIRN_DEADLINE_EXCEEDED) << one.name << ": " << cairn_error(session);
    EXPECT_TRUE(Says(session, std::string(one.name) + ": ")) << cairn_error(session);
    EXPECT_TRUE(Says(session, daemon_.address())) << cairn_error(session);
    for (const char* text : one.says) EXPECT_TRUE(Says(session, text)) << cairn_error(session);
  }
  EXPECT_EQ(cairn_close(session), CAIRN_OK);
}

TEST_F(SessionTest, TheDaemonIsGivenLessTimeThanTheCallHas) {
  cairn_session* session = Open([](FakePeer& peer) {
    const local::Request wait = peer.Expect(local::Request::kWait);
    EXPECT_GT(wait.deadline_ms(), 0u);
    EXPECT_LT(wait.deadline_ms(), 1000u);
    peer.Refuse(wait, local::DEADLINE_EXCEEDED, "rank 3 has not begun");
  });
  EXPECT_EQ(cairn_wait(session, 5, CAIRN_LEVEL_PREFIX, 1000), CAIRN_DEADLINE_EXCEEDED);
  EXPECT_TRUE(Says(session, "1000 ms for dataset 5 to reach prefix: rank 3 has not begun")) << cairn_error(session);
  daemon_.Join();
  cairn_close(session);
}

TEST_F(SessionTest, AnAnswerThatComesTooLateIsNotTakenForTheNextOnes) {
  cairn_session* session = Open([](FakePeer& peer) {
    const local::Request first = peer.Expect(local::Request::kWait);
    const local::Request second = peer.Expect(local::Request::kTest);
    local::Reply late, right;
    late.mutable_test()->set_reached(true);
    right.mutable_test()->set_reached(false);
    peer.Answer(first, std::move(late));
    peer.Answer(second, std::move(right));
  });
  std::int32_t reached = 1;
  EXPECT_EQ(cairn_wait(session, 1, CAIRN_LEVEL_LOCAL, 50), CAIRN_DEADLINE_EXCEEDED);
  EXPECT_EQ(cairn_test(session, 2, CAIRN_LEVEL_LOCAL, &reached), CAIRN_OK) << cairn_error(session);
  EXPECT_EQ(reached, 0);
  daemon_.Join();
  cairn_close(session);
}

TEST_F(SessionTest, AWaitWithoutTimeOnlyLooks) {
  cairn_session* session = Open([](FakePeer& peer) {
    local::Reply no, yes;
    no.mutable_test()->set_reached(false);
    yes.mutable_test()->set_reached(true);
    peer.Answer(peer.Expect(local::Request::kTest), std::move(no));
    peer.Answer(peer.Expect(local::Request::kTest), std::move(yes));
  });
  EXPECT_EQ(cairn_wait(session, 5, CAIRN_LEVEL_LOCAL, 0), CAIRN_DEADLINE_EXCEEDED);
  EXPECT_EQ(cairn_wait(session, 5, CAIRN_LEVEL_LOCAL, 0), CAIRN_OK);
  daemon_.Join();
  cairn_close(session);
}

TEST_F(SessionTest, AFailedDatasetEndsTheWaitWithTheDaemonsWords) {
  cairn_session* session = Open([](FakePeer& peer) {
    peer.Refuse(peer.Expect(local::Request::kWait), local::FAILED, "rank 2 was lost");
    peer.Refuse(peer.Expect(local::Request::kTest), local::SUPERSEDED, "dataset 9 is safe");
  });
  std::int32_t reached = 0;
  EXPECT_EQ(cairn_wait(session, 5, CAIRN_LEVEL_LOCAL, 1000), CAIRN_FAILED);
  EXPECT_TRUE(Says(session, "rank 2 was lost"));
  EXPECT_EQ(cairn_test(session, 5, CAIRN_LEVEL_LOCAL, &reached), CAIRN_SUPERSEDED);
  daemon_.Join();
  cairn_close(session);
}

TEST_F(SessionTest, ADaemonThatIsGoingAwayIsAskedAgainOnTheSameConnection) {
  cairn_session* session = Open([](FakePeer& peer) {
    peer.Refuse(peer.Expect(local::Request::kLatest), local::UNAVAILABLE, "going away");
    local::Reply reply;
    reply.mutable_latest()->set_dataset(3);
    peer.Answer(peer.Expect(local::Request::kLatest), std::move(reply));
  });
  std::uint64_t dataset = 0;
  EXPECT_EQ(cairn_latest(session, &dataset, nullptr), CAIRN_OK) << cairn_error(session);
  EXPECT_EQ(dataset, 3u);
  daemon_.Join();
  cairn_close(session);
}

TEST_F(SessionTest, AfterTheDaemonsDeathTheNextCallJoinsTheLaunchAgain) {
  daemon_.Play([this] {
    {
      FakePeer first = daemon_.Accept();
      first.Greet(11);
    }
    FakePeer peer = daemon_.Accept();
    const local::Open open = peer.Greet(11);
    EXPECT_EQ(open.launch(), 11u);
    EXPECT_EQ(open.token(), "token");
    EXPECT_FALSE(open.takeover());
    local::Reply reply;
    reply.mutable_latest()->set_dataset(3);
    peer.Answer(peer.Expect(local::Request::kLatest), std::move(reply));
    peer.Answer(peer.Expect(local::Request::kClose), {});
  });
  cairn_options options = daemon_.options();
  options.takeover = 1;
  cairn_session* session = OpenOrDie(options);
  std::uint64_t dataset = 0;
  EXPECT_EQ(cairn_latest(session, &dataset, nullptr), CAIRN_OK) << cairn_error(session);
  EXPECT_EQ(dataset, 3u);
  EXPECT_EQ(cairn_close(session), CAIRN_OK);
}

TEST_F(SessionTest, AWaitIsAskedAgainAfterTheDaemonsDeath) {
  daemon_.Play([this] {
    {
      FakePeer first = daemon_.Accept();
      first.Greet();
      first.Expect(local::Request::kWait);
    }
    FakePeer peer = daemon_.Accept();
    peer.Greet();
    local::Reply reply;
    reply.mutable_test()->set_reached(true);
    peer.Answer(peer.Expect(local::Request::kWait), std::move(reply));
  });
  cairn_session* session = OpenOrDie(daemon_.options());
  EXPECT_EQ(cairn_wait(session, 3, CAIRN_LEVEL_LOCAL, 5000), CAIRN_OK) << cairn_error(session);
  daemon_.Join();
  cairn_close(session);
}

TEST_F(SessionTest, WithoutASuccessorTheCallEndsAtItsDeadline) {
  cairn_session* session = Open([](FakePeer&) {}, 300);
  daemon_.Join();
  daemon_.CloseSocket();
  EXPECT_EQ(cairn_latest(session, nullptr, nullptr), CAIRN_UNAVAILABLE);
  EXPECT_TRUE(Says(session, "within 300 ms")) << cairn_error(session);
  EXPECT_TRUE(Says(session, daemon_.path())) << cairn_error(session);
  EXPECT_EQ(cairn_close(session), CAIRN_OK);
}

TEST_F(SessionTest, ASessionThatWasTakenOverIsToldSoWhenItReconnects) {
  daemon_.Play([this] {
    {
      FakePeer first = daemon_.Accept();
      first.Greet();
    }
    FakePeer peer = daemon_.Accept();
    local::Reply hello;
    hello.mutable_hello()->set_protocol(CAIRN_PROTOCOL_NEWEST);
    peer.Answer(peer.Expect(local::Request::kHello), std::move(hello));
    peer.Refuse(peer.Expect(local::Request::kOpen), local::FENCED, "launch 9 has taken over");
  });
  cairn_session* session = OpenOrDie(daemon_.options());
  EXPECT_EQ(cairn_latest(session, nullptr, nullptr), CAIRN_FENCED);
  EXPECT_TRUE(Says(session, "launch 9 has taken over"));
  cairn_close(session);
}

std::string Frame(const std::string& message) {
  const cairn_frame_header header{CAIRN_FRAME_MAGIC, static_cast<std::uint32_t>(message.size())};
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + message;
}

TEST_F(SessionTest, NonsenseIsAnsweredWithInternalAndTheNextCallConnectsAnew) {
  const cairn_frame_header oversized{CAIRN_FRAME_MAGIC, CAIRN_FRAME_BYTES_MAX + 1};
  local::Reply unasked, strange, unknown;
  unasked.set_call(1000000);
  strange.mutable_ready();
  unknown.mutable_status()->set_code(static_cast<local::Code>(99));
  const std::map<std::string, std::string> nonsense = {
      {"no magic", std::string(64, 'x')},
      {"an oversized frame", std::string(reinterpret_cast<const char*>(&oversized), sizeof oversized)},
      {"no message", Frame(std::string("\x0a\xff\xff\xff\xff", 5))},
      {"an answer to nothing", Frame(unasked.SerializeAsString())},
  };
  for (const auto& [name, bytes] : nonsense) {
    cairn_session* session = Open([bytes = bytes](FakePeer& peer) {
      peer.Expect(local::Request::kLatest);
      peer.SendRaw(bytes);
      EXPECT_FALSE(peer.Receive());
    });
    EXPECT_EQ(cairn_latest(session, nullptr, nullptr), CAIRN_INTERNAL) << name;
    EXPECT_TRUE(Says(session, "protocol")) << cairn_error(session);
    daemon_.PlayPeer([](FakePeer& peer) {
      local::Reply reply;
      reply.mutable_latest()->set_dataset(3);
      peer.Answer(peer.Expect(local::Request::kLatest), std::move(reply));
    });
    EXPECT_EQ(cairn_latest(session, nullptr, nullptr), CAIRN_OK) << name << ": " << cairn_error(session);
    daemon_.Join();
    cairn_close(session);
  }
  for (const local::Reply& reply : {strange, unknown}) {
    cairn_session* session = Open([reply](FakePeer& peer) {
      peer.Answer(peer.Expect(local::Request::kLatest), reply);
      EXPECT_FALSE(peer.Receive());
    });
    EXPECT_EQ(cairn_latest(session, nullptr, nullptr), CAIRN_INTERNAL) << reply.ShortDebugString();
    cairn_close(session);
  }
}

TEST_F(SessionTest, AnAnswerInManySmallPartsIsPutTogether) {
  cairn_session* session = Open([](FakePeer& peer) {
    const local::Request request = peer.Expect(local::Request::kLatest);
    local::Reply reply;
    reply.set_call(request.call());
    reply.mutable_latest()->set_dataset(3);
    for (const char byte : Frame(reply.SerializeAsString())) peer.SendRaw(std::string_view(&byte, 1));
  });
  std::uint64_t dataset = 0;
  EXPECT_EQ(cairn_latest(session, &dataset, nullptr), CAIRN_OK) << cairn_error(session);
  EXPECT_EQ(dataset, 3u);
  daemon_.Join();
  cairn_close(session);
}

TEST_F(SessionTest, AForkedChildIsToldSoAndItsCloseDisturbsNobody) {
  cairn_session* session = Open([](FakePeer& peer) {
    local::Reply reply;
    reply.mutable_latest()->set_dataset(3);
    peer.Answer(peer.Expect(local::Request::kLatest), std::move(reply));
    peer.Answer(peer.Expect(local::Request::kClose), {});
  });
  double value = 0;
  EXPECT_EQ(cairn_protect(session, 1, &value, 1, CAIRN_DOUBLE), CAIRN_OK);
  const pid_t child = fork();
  if (child == 0) {
    bool good = cairn_checkpoint(session, 0, nullptr) == CAIRN_FORKED && Says(session, "process");
    good = good && cairn_protect(session, 1, &value, 1, CAIRN_DOUBLE) == CAIRN_FORKED;
    good = good && cairn_latest(session, nullptr, nullptr) == CAIRN_FORKED;
    good = good && cairn_close(session) == CAIRN_FORKED;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(cairn_latest(session, nullptr, nullptr), CAIRN_OK) << cairn_error(session);
  EXPECT_EQ(cairn_close(session), CAIRN_OK);
}

TEST_F(SessionTest, NoCallRaisesSigpipeOrLeavesAnErrno) {
  cairn_session* session = Open([](FakePeer&) {}, 100);
  daemon_.Join();
  daemon_.CloseSocket();
  std::signal(SIGPIPE, SIG_DFL);  // would kill the test
  errno = 12345;
  EXPECT_EQ(cairn_checkpoint(session, 1, nullptr), CAIRN_UNAVAILABLE);
  EXPECT_EQ(errno, 12345);
  EXPECT_EQ(cairn_close(session), CAIRN_OK);
  EXPECT_EQ(errno, 12345);
}

TEST_F(SessionTest, SignalsOfTheApplicationDoNotEndAWait) {
  struct sigaction old, ignore_but_interrupt{};
  ignore_but_interrupt.sa_handler = [](int) {};
  sigaction(SIGALRM, &ignore_but_interrupt, &old);
  const pthread_t main_thread = pthread_self();
  cairn_session* session = Open([&](FakePeer& peer) {
    const local::Request request = peer.Expect(local::Request::kLatest);
    for (int i = 0; i < 20; ++i) pthread_kill(main_thread, SIGALRM);
    local::Reply reply;
    reply.mutable_latest()->set_dataset(3);
    peer.Answer(request, std::move(reply));
  });
  EXPECT_EQ(cairn_latest(session, nullptr, nullptr), CAIRN_OK) << cairn_error(session);
  daemon_.Join();
  cairn_close(session);
  sigaction(SIGALRM, &old, nullptr);
}

TEST_F(SessionTest, WithoutASessionEveryCallIsInvalid) {
  EXPECT_EQ(cairn_checkpoint(nullptr, 0, nullptr), CAIRN_INVALID_ARGUMENT);
  EXPECT_TRUE(Says(nullptr, "cairn_checkpoint: session is NULL"));
  EXPECT_EQ(cairn_close(nullptr), CAIRN_OK);
  EXPECT_EQ(cairn_open(nullptr, nullptr), CAIRN_INVALID_ARGUMENT);
}

TEST_F(SessionTest, ArgumentsAreCheckedBeforeTheDaemonIsAsked) {
  cairn_session* session = Open([](FakePeer& peer) { peer.Expect(local::Request::kClose); }, 300);
  cairn_stored_info info = {};
  std::int32_t reached = 0;
  char path[8];
  EXPECT_EQ(cairn_stored(session, 1, 0, nullptr), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_stored(session, 1, 0, &info), CAIRN_INVALID_ARGUMENT);
  EXPECT_TRUE(Says(session, "struct_size")) << cairn_error(session);
  EXPECT_EQ(cairn_test(session, 1, 6, &reached), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_wait(session, 1, -1, 0), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_test(session, 1, CAIRN_LEVEL_LOCAL, nullptr), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_restored_tier(session, nullptr), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_output_begin(session, 1, 0, nullptr), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_output_begin(session, 1, CAIRN_GROWING, nullptr), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_output_begin(session, 1, CAIRN_OUTPUT | 8, nullptr), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_restart_file(session, 1, "", path, sizeof path), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_restart_file(session, 1, "f", nullptr, 0), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_route_file(session, "f", path, sizeof path), CAIRN_FAILED_PRECONDITION);
  EXPECT_EQ(cairn_output_end(session, 1), CAIRN_FAILED_PRECONDITION);
  cairn_close(session);
}

TEST(StrerrorTest, EveryCodeHasWordsOfItsOwn) {
  std::map<std::string, int> seen;
  for (int code = CAIRN_OK; code <= CAIRN_DIRTY; ++code) {
    EXPECT_TRUE(seen.emplace(cairn_strerror(code), code).second) << code;
  }
  EXPECT_STREQ(cairn_strerror(-1), "no such code");
  EXPECT_STREQ(cairn_strerror(CAIRN_DIRTY + 1), "no such code");
}

}  // namespace
}  // namespace cairn
