// One core, two doors: what a client without shared memory hands over and gets back, with real daemons.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "client/cairn.h"
#include "tests/integration/ingest_fixture.h"

namespace cairn::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

enum class Door { kNodeSocket, kLoopback, kTls };

std::string NameOf(Door door) {
  return door == Door::kNodeSocket ? "NodeSocket" : door == Door::kLoopback ? "Loopback" : "Tls";
}

class IngestDoorTest : public IngestTest, public ::testing::WithParamInterface<Door> {
 protected:
  bool Start(const std::vector<std::string>& flags = {}) {
    return StartDaemon(GetParam() == Door::kTls ? Security::kTls : Security::kNone, flags);
  }
  std::string Address() const { return GetParam() == Door::kNodeSocket ? NodeAddress() : TcpAddress(port()); }
  void ExpectRestores(int step, int tier) {
    const Ending ending = RunProcess(Client(Address(), {"--mib", "6", "--steps", "0"}));
    EXPECT_EQ(ending.exit_code, 0);
    std::istringstream words(ending.output);
    std::string resumed;
    int its_step = 0, dataset = 0, its_tier = 0;
    words >> resumed >> its_step >> dataset >> its_tier;
    EXPECT_EQ(resumed, "resumed") << ending.output;
    EXPECT_EQ(its_step, step);
    EXPECT_EQ(its_tier, tier);
  }
};

TEST_P(IngestDoorTest, EveryTierGivesBackWhatWasHandedOver) {
  ASSERT_TRUE(Start());
  const Ending wrote = RunProcess(Client(Address(), {"--mib", "6", "--steps", "3", "--flush-every", "3"}));
  ASSERT_EQ(wrote.exit_code, 0) << wrote.output;
  const Promises promised = ReadPromises(promises());
  EXPECT_THAT(promised.refused, IsEmpty());
  EXPECT_EQ(NewestStep(promised.by_kind.at("prefix")), 3u);

  ExpectRestores(3, CAIRN_TIER_IMAGE);
  harness.KillDaemon();
  ASSERT_TRUE(StartAgain());
  ExpectRestores(3, CAIRN_TIER_CACHE);
  harness.KillDaemon();
  harness.DeleteCache();
  ASSERT_TRUE(StartAgain());
  ExpectRestores(3, CAIRN_TIER_PREFIX);
}

TEST_P(IngestDoorTest, TheUnixSocketGivesBackWhatCameOverGrpcAndTheOtherWayRound) {
  ASSERT_TRUE(Start({"--flush-every", "0"}));
  for (int round = 0; round < 2; ++round) {
    const std::string steps = std::to_string(2 * round + 1), more = std::to_string(2 * round + 2);
    const Ending grpc = RunProcess(Client(Address(), {"--mib", "3", "--steps", steps}));
    EXPECT_EQ(grpc.exit_code, 0) << grpc.output;
    EXPECT_THAT(grpc.output, HasSubstr(round == 0 ? "fresh" : "resumed 2 2 "));
    if (round == 1) {  // now from the cache, no longer from the image
      harness.KillDaemon();
      ASSERT_TRUE(StartAgain());
    }
    const Ending local = RunProcess(Client(harness.address(), {"--mib", "3", "--steps", more}));
    EXPECT_EQ(local.exit_code, 0) << local.output;
    EXPECT_THAT(local.output, HasSubstr("resumed " + steps + " " + steps + (round == 0 ? " 1" : " 2")));
  }
  EXPECT_THAT(ReadPromises(promises()).refused, IsEmpty());
}

TEST_P(IngestDoorTest, RanksOfOneLaunchMayUseDifferentDoors) {
  ASSERT_TRUE(Start({"--flush-every", "0"}));
  for (const char* steps : {"2", "4"}) {
    const std::string key = std::string("until ") + steps;
    auto near = Process::Start(Rank(0, 2, key, harness.address(), {"--mib", "3", "--steps", steps}));
    auto far = Process::Start(Rank(1, 2, key, Address(), {"--mib", "3", "--steps", steps}));
    for (Process* process : {near.get(), far.get()}) {
      const Ending ending = process->Wait();
      EXPECT_EQ(ending.exit_code, 0) << ending.output;
      EXPECT_THAT(ending.output, HasSubstr(*steps == '2' ? "fresh" : "resumed 2 2 "));
    }
  }
  for (int rank : {0, 1}) {
    EXPECT_THAT(ReadPromises(promises(rank)).refused, IsEmpty());
    EXPECT_EQ(ReadPromises(promises(rank)).by_kind.at("local").size(), 4u);
  }
}

TEST_P(IngestDoorTest, AStateLargerThanTheImageBudgetGoesThroughARing) {
  ASSERT_TRUE(Start({"--flush-every", "0", "--image-bytes-max", "8MiB"}));
  const Ending wrote = RunProcess(Client(Address(), {"--mib", "48", "--steps", "2"}));
  EXPECT_EQ(wrote.exit_code, 0) << wrote.output;
  EXPECT_THAT(ReadPromises(promises()).refused, IsEmpty());
  const Ending read = RunProcess(Client(Address(), {"--mib", "48", "--steps", "0"}));
  EXPECT_THAT(read.output, HasSubstr("resumed 2 2 2"));
}

INSTANTIATE_TEST_SUITE_P(Doors, IngestDoorTest, ::testing::Values(Door::kNodeSocket, Door::kLoopback, Door::kTls),
                         [](const auto& param) { return NameOf(param.param); });

}  // namespace
}  // namespace cairn::testing
