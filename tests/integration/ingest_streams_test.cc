// Broken streams and killed daemons under a client that shares no memory: it goes on, and what the daemon has is not
// sent again. A proxy breaks the connections, after numbers of bytes that are drawn from CAIRN_TEST_SEED.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <memory>

#include "client/cairn.h"
#include "tests/integration/ingest_fixture.h"
#include "tests/integration/tcp_proxy.h"

namespace cairn::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using enum TcpProxy::Cut::Direction;

constexpr std::uint64_t kMib = 1 << 20;
constexpr char kNoFlush[] = "--flush-every=0", kNoEviction[] = "--cache-keep=1000000";

int Instants() {
  return std::getenv("CAIRN_SOAK") != nullptr ? 100 : 4;
}

class IngestStreamsTest : public IngestTest {
 protected:
  // Not the default's half a minute: a cut that meets a client's Close leaves a session that the next client waits for.
  bool StartBehindProxy(Security security, const std::string& settings = "resume = \"5s\"\n") {
    if (!StartDaemon(security, {kNoFlush, kNoEviction}, settings)) return false;
    proxy = TcpProxy::Start(port());
    return proxy != nullptr;
  }
  std::string Address() const { return TcpAddress(proxy->port()); }

  std::unique_ptr<TcpProxy> proxy;
};

TEST_F(IngestStreamsTest, ACaptureGoesOnWhereItsStreamBroke) {
  ASSERT_TRUE(StartBehindProxy(Security::kTls));
  constexpr std::uint64_t kState = 48 * kMib;
  // Together two thirds of the state or more would be sent twice if it began anew.
  proxy->CutNext({{.direction = kToDaemon, .bytes = Draw(kState / 3, kState / 2)},
                  {.direction = kToDaemon, .bytes = Draw(kState / 4, kState / 3)},
                  {.direction = kToDaemon, .bytes = Draw(1, 4096)}});
  const Ending wrote = RunProcess(Client(Address(), {"--mib", "48", "--steps", "1"}));
  EXPECT_EQ(wrote.exit_code, 0) << wrote.output;
  EXPECT_EQ(proxy->cuts_made(), 3u);
  const Promises promised = ReadPromises(promises());
  EXPECT_THAT(promised.refused, IsEmpty());
  EXPECT_EQ(promised.by_kind.at("local").begin()->first, 1u) << "one dataset, never begun again";
  EXPECT_GE(proxy->bytes_to_daemon(), kState);
  EXPECT_LT(proxy->bytes_to_daemon(), kState + kState / 2);

  const Ending read = RunProcess(Client(Address(), {"--mib", "48", "--steps", "0"}));
  EXPECT_THAT(read.output, HasSubstr("resumed 1 1 "));
}

TEST_F(IngestStreamsTest, AnyByteMayBeTheDaemonsLast) {
  ASSERT_TRUE(StartBehindProxy(Security::kNone));
  constexpr std::size_t kSteps = 12;
  for (std::size_t done = kSteps; done <= kSteps * (1 + Instants() / 20); done += kSteps) {
    std::vector<TcpProxy::Cut> cuts;
    for (int i = 0; i < 40; ++i) cuts.push_back({.direction = kToClient, .bytes = Draw(1, 1500)});
    proxy->CutNext(cuts);
    const Ending wrote = RunProcess(Client(Address(), {"--mib", "2", "--steps", std::to_string(done)}));
    EXPECT_EQ(wrote.exit_code, 0) << wrote.output;
    const Promises promised = ReadPromises(promises());
    EXPECT_THAT(promised.refused, IsEmpty());
    EXPECT_EQ(promised.by_kind.at("local").size(), done);
  }
}

TEST_F(IngestStreamsTest, ARestoreIsDoneAgainAfterItsStreamBroke) {
  ASSERT_TRUE(StartBehindProxy(Security::kTls));
  constexpr std::uint64_t kState = 32 * kMib;
  ASSERT_EQ(RunProcess(Client(Address(), {"--mib", "32", "--steps", "2"})).exit_code, 0);
  for (int i = 0; i < Instants(); ++i) {
    proxy->CutNext({{.direction = kToClient, .bytes = Draw(1, kState)},
                    {.direction = kToClient, .bytes = Draw(1, kState)},
                    {.direction = kToDaemon, .bytes = Draw(2000, 6000)}});
    const Ending read = RunProcess(Client(Address(), {"--mib", "32", "--steps", "0"}));
    EXPECT_EQ(read.exit_code, 0) << read.output;
    EXPECT_THAT(read.output, HasSubstr("resumed 2 2 "));
  }
}

TEST_F(IngestStreamsTest, OneRanksBrokenStreamKeepsNoOtherRankFromItsRestore) {
  ASSERT_TRUE(StartBehindProxy(Security::kNone));
  constexpr std::uint64_t kState = 16 * kMib;
  for (const char* steps : {"1", "0"}) {
    if (*steps == '0') proxy->CutNext({{.direction = kToClient, .bytes = Draw(2000, kState)}});
    const std::string key = std::string("with ") + steps;
    auto near = Process::Start(Rank(0, 2, key, TcpAddress(port()), {"--mib", "16", "--steps", steps}));
    auto far = Process::Start(Rank(1, 2, key, Address(), {"--mib", "16", "--steps", steps}));
    for (Process* process : {near.get(), far.get()}) {
      const Ending ending = process->Wait();
      EXPECT_EQ(ending.exit_code, 0) << ending.output;
      EXPECT_THAT(ending.output, HasSubstr(*steps == '1' ? "fresh" : "resumed 1 1 "));
    }
  }
  EXPECT_EQ(proxy->cuts_made(), 1u);
}

// What breaks last is the daemon's word that all ranks have their memory back: for the others the restore is over.
TEST_F(IngestStreamsTest, ARankThatMissedTheEndOfARestoreIsServedWithoutTheOthers) {
  ASSERT_TRUE(StartBehindProxy(Security::kNone));
  const auto run = [&](const std::string& key, const char* steps) {
    auto near = Process::Start(Rank(0, 2, key, TcpAddress(port()), {"--mib", "1", "--steps", steps}));
    auto far = Process::Start(Rank(1, 2, key, Address(), {"--mib", "1", "--steps", steps}));
    for (Process* process : {near.get(), far.get()}) {
      const Ending ending = process->Wait();
      EXPECT_EQ(ending.exit_code, 0) << key << ": " << ending.output;
      EXPECT_THAT(ending.output, HasSubstr(*steps == '1' ? "fresh" : "resumed 1 1 ")) << key;
    }
  };
  run("writes", "1");
  std::uint64_t before = proxy->bytes_to_client();
  run("reads", "0");
  const std::uint64_t whole = proxy->bytes_to_client() - before;
  for (std::uint64_t missing = 20; missing < 240 && !HasFailure(); missing += 20) {
    proxy->CutNext({{.direction = kToClient, .bytes = whole - missing}});
    run("misses " + std::to_string(missing), "0");
  }
}

TEST_F(IngestStreamsTest, ASessionIsLostWhenNobodyResumesItInTime) {
  ASSERT_TRUE(StartBehindProxy(Security::kNone, "resume = \"50ms\"\n"));
  constexpr std::uint64_t kState = 8 * kMib;
  // In the middle of the second checkpoint; then the network is away until the daemon has given up.
  proxy->CutNext({{.direction = kToDaemon, .bytes = kState + Draw(kState / 4, kState / 4 * 3), .shut = true}});
  auto client = Process::Start(Client(Address(), {"--mib", "8", "--steps", "3"}));
  EXPECT_TRUE(harness.WaitForLog("lost rank 0"));
  EXPECT_TRUE(harness.WaitForLog("dataset 2 (step 2) failed: rank 0 was lost before its bytes were captured"));
  proxy->LetIn(true);
  const Ending ending = client->Wait();
  EXPECT_EQ(ending.exit_code, 0) << ending.output;
  // The call, which has time left, handed all of it over again as another dataset.
  const std::map<std::uint64_t, std::uint64_t> expected = {{1, 1}, {3, 2}, {4, 3}};
  EXPECT_EQ(ReadPromises(promises()).by_kind["local"], expected);
  EXPECT_GT(proxy->bytes_to_daemon(), 3 * kState + kState / 4);
}

TEST_F(IngestStreamsTest, ARankWhoseTimeIsUpFailsTheDatasetForTheOthersByName) {
  ASSERT_TRUE(StartBehindProxy(Security::kNone, "resume = \"50ms\"\n"));
  constexpr std::uint64_t kState = 8 * kMib;
  proxy->CutNext({{.direction = kToDaemon, .bytes = kState + Draw(kState / 4, kState / 4 * 3), .shut = true}});
  auto near = Process::Start(Rank(0, 2, "both", TcpAddress(port()), {"--mib", "8", "--steps", "2"}));
  auto far = Process::Start(Rank(1, 2, "both", Address(), {"--mib", "8", "--steps", "2"}));
  const Ending ending = near->Wait();
  EXPECT_EQ(ending.exit_code, 0) << ending.output;
  const Promises promised = ReadPromises(promises(0));
  ASSERT_EQ(promised.refused.size(), 1u);
  EXPECT_THAT(promised.refused[0], HasSubstr("refused 2 " + std::to_string(CAIRN_FAILED) + " "));
  EXPECT_THAT(promised.refused[0], HasSubstr("rank 1 was lost before its bytes were captured"));
}

TEST_F(IngestStreamsTest, ADaemonKilledAtAnyInstantOfACaptureIsFollowedByTheNext) {
  ASSERT_TRUE(StartDaemon(Security::kTls, {kNoFlush, kNoEviction}, "resume = \"1s\"\n"));
  auto client = Process::Start(Client(TcpAddress(port()), {"--mib", "8", "--steps", "1000000"}));
  std::size_t expected = 0;
  for (int instant = 0; instant < Instants(); ++instant) {
    expected = ReadPromises(promises()).by_kind["local"].size() + 2;
    ASSERT_TRUE(AwaitPromises(promises(), "local", expected))
        << "instant " << instant << ": " << (client->running() ? "" : client->Wait().output);
    LetItWorkFor(std::chrono::microseconds(Draw(0, 100000)));
    harness.KillDaemon();
    ASSERT_TRUE(StartAgain());
  }
  ASSERT_TRUE(AwaitPromises(promises(), "local", expected + 2));
  client->Signal(SIGKILL);
  client->Wait();
  const Promises promised = ReadPromises(promises());
  EXPECT_THAT(promised.lost, IsEmpty());
  // Its successor waits until the daemon no longer expects it back.
  const Ending read = RunProcess(Client(TcpAddress(port()), {"--mib", "8", "--steps", "0"}));
  EXPECT_THAT(read.output, HasSubstr("resumed "));
}

TEST_F(IngestStreamsTest, ADaemonKilledAtAnyInstantOfARestoreIsFollowedByTheNext) {
  ASSERT_TRUE(StartDaemon(Security::kTls, {kNoFlush}));
  ASSERT_EQ(RunProcess(Client(TcpAddress(port()), {"--mib", "32", "--steps", "1"})).exit_code, 0);
  for (int instant = 0; instant < Instants(); ++instant) {
    auto client = Process::Start(Client(TcpAddress(port()), {"--mib", "32", "--steps", "0"}));
    LetItWorkFor(std::chrono::microseconds(Draw(0, 200000)));
    harness.KillDaemon();
    ASSERT_TRUE(StartAgain());
    const Ending ending = client->Wait();
    ASSERT_EQ(ending.exit_code, 0) << "instant " << instant << ": " << ending.output;
    EXPECT_THAT(ending.output, HasSubstr("resumed 1 1 ")) << "instant " << instant;
  }
}

}  // namespace
}  // namespace cairn::testing
