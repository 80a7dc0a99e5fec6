// What a kernel, a container, a file system or a limit may refuse is refused here, one by one and all together, to a
// daemon, an application and `cairn doctor`: a run is checkpointed, its daemon is killed, and the next one restores it
// from its cache, then from its prefix. Of io_uring, huge pages, pinned images and direct I/O the daemon itself says
// that it went without that one, and with the others; of the rest the doctor says that it was refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/cairn.h"
#include "tests/integration/application.h"
#include "tests/integration/harness.h"
#include "tests/support/refusals/refusals.h"
#include "tests/support/status_matchers.h"

namespace cairn::testing {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;

using Lines = std::map<std::string, std::string>;  // of the doctor: what each says, by its name

constexpr char kUring[] = "io_uring", kHuge[] = "huge pages for images", kTouch[] = "images touched at once",
               kPinned[] = "pinned images", kDirectCache[] = "direct I/O in the cache",
               kDirectPrefix[] = "direct I/O on the prefix", kReserved[] = "reserved blocks in the cache",
               kShared[] = "shared extents in the cache", kStraight[] = "restores straight into memory";

struct Case {
  std::string name;
  Refusals refusals;
  Lines refused;                      // what the doctor says of each that is refused, as regular expressions
  std::set<std::string> or_not = {};  // may go with them, by the kernel
  bool hard_links = true;             // false: the prefix makes its records without them
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}

constexpr char kThreads[] = "a few threads read and write instead";
const Lines kNoHuge = {{kHuge, "MADV_COLLAPSE: this kernel does not have it .6.1 does.: images use small pages"}};
const Lines kNoTouch = {{kTouch, "MADV_POPULATE_WRITE: this kernel does not have it .5.14 does.: .* zeros by writing"}};
const Lines kNoReserved = {{kReserved, "fallocate gives none in .*: writes beyond a file's end wait for each other"}};
const Lines kNoDirect = {{kDirectCache, "the file system of .*/cache has none: .* through the page cache"},
                         {kDirectPrefix, "the file system of .*/prefix has none: .* through the page cache"},
                         {kStraight, ".*/cache has no direct I/O, or .*: all goes through the daemon"}};
const Lines kNoShared = {{kShared, "the file system of .*/cache has none: .* are written over instead"}};
const Lines kNoPin = {{kPinned, "the kernel looks for their pages at each transfer instead"}};

Lines NoUring(const std::string& why) {
  return {{kUring, "io_uring_setup: " + why + ": " + kThreads}, {kPinned, "io_uring_setup: " + why}};
}

Case AllTogether() {
  Case all{.name = "AllTogether",
           .refusals = NoIoUring(ENOSYS),
           .refused = NoUring("Function not implemented"),
           .hard_links = false};
  for (const Refusals& more : {NoHugePages(), NoPopulate(), NoPinning(ENOMEM), NoLockedMemory(), NoReservation(),
                               NoDirectIo(), NoClones(), NoHardLinks()}) {
    all.refusals.Add(more);
  }
  for (const Lines& more : {kNoHuge, kNoTouch, kNoReserved, kNoDirect, kNoShared}) {
    all.refused.insert(more.begin(), more.end());
  }
  return all;
}

class FallBacksTest : public ::testing::TestWithParam<Case> {
 protected:
  // What the doctor says here, by name.
  static std::map<std::string, json> Doctor(const Harness& harness) {
    const Ending doctor = RunProcess(harness.Client("client/cli/cairn", {"doctor", "--json"}));
    EXPECT_EQ(doctor.exit_code, 0) << doctor.output;
    std::map<std::string, json> findings;
    const json report = json::parse(doctor.output);
    for (const json& finding : report["findings"]) findings[finding["name"]] = finding;
    return findings;
  }
  static json Mechanisms(const Harness& harness) {
    const Ending status = RunProcess(harness.Client("client/cli/cairn", {"status", "--json"}));
    EXPECT_EQ(status.exit_code, 0) << status.output;
    return json::parse(status.output)["mechanisms"];
  }

  // The daemon's own word: whether it has used this for all that it could, for nothing, or neither.
  struct Use {
    std::uint64_t used = 0, all = 0;
  };
  static std::map<std::string, Use> UsesOf(const json& told) {
    const auto use = [](const json& used, const json& all) { return Use{used, all}; };
    const auto engine = [&told](const char* disk) { return told[disk]["engine"] == "io_uring" ? 1u : 0u; };
    return {{kUring, {engine("cache") + engine("prefix"), 2}},
            {kHuge, use(told["images_huge"], told["images"])},
            {kPinned, use(told["images_pinned"], told["images"])},
            {kDirectCache, use(told["cache"]["files_direct"], told["cache"]["files"])},
            {kDirectPrefix, use(told["prefix"]["files_direct"], told["prefix"]["files"])},
            {kStraight, use(told["cache"]["files_handed"], told["cache"]["files_asked"])}};
  }
  // It is not refused, but nobody can say that it is used: it does not work here; it goes with what is refused; or it
  // is io_uring, and all processes of the user share so little locked memory that there may be none left for a ring.
  static bool MayGo(const std::string& name, const std::map<std::string, json>& works_here) {
    rlimit locked{};
    EXPECT_EQ(::getrlimit(RLIMIT_MEMLOCK, &locked), 0);
    const bool no_ring = name == kUring && locked.rlim_cur < (1 << 20);
    return no_ring || works_here.at(name)["works"] != true || GetParam().or_not.contains(name);
  }
  // What is refused is not used at all; what works here is used, and by all but for huge pages, which may run out.
  // `restored`: from the cache, by this daemon.
  static void ExpectUsed(const Harness& harness, const std::map<std::string, json>& works_here, bool restored) {
    const json told = Mechanisms(harness);
    for (const auto& [name, use] : UsesOf(told)) {
      EXPECT_EQ(use.all > 0, name != kStraight || restored) << name << ": " << told;
      if (GetParam().refused.contains(name)) {
        EXPECT_EQ(use.used, 0u) << name << ": " << told;
      } else if (!MayGo(name, works_here)) {
        EXPECT_GE(use.used, name == kHuge ? 1 : use.all) << name << ": " << told;
      }
    }
  }
  static void ExpectDoctorSaysSo(const Harness& harness, const std::map<std::string, json>& works_here) {
    const std::map<std::string, json> findings = Doctor(harness);
    for (const auto& [name, finding] : findings) {
      const auto refused = GetParam().refused.find(name);
      if (refused != GetParam().refused.end()) {
        EXPECT_EQ(finding["works"], false) << finding;
        EXPECT_THAT(finding["detail"].get<std::string>(), ContainsRegex(refused->second));
      } else if (!MayGo(name, works_here)) {
        EXPECT_EQ(finding["works"], true) << finding;
      }
    }
    if (GetParam().refused.contains(kUring)) {
      EXPECT_EQ(findings.at(kUring)["daemon"], "the daemon uses threads");
    } else if (!MayGo(kUring, works_here)) {
      EXPECT_EQ(findings.at(kUring)["daemon"], "the daemon uses io_uring");
    }
    const json creation = findings.at("prefix")["exclusive_creation"];
    if (GetParam().hard_links) {
      EXPECT_EQ(creation, works_here.at("prefix")["exclusive_creation"]);
    } else {
      EXPECT_NE(creation, "by hard links");
    }
    for (const std::string name : {kHuge, kPinned, kDirectCache, kDirectPrefix}) {
      if (GetParam().refused.contains(name)) {
        EXPECT_THAT(findings.at(name)["daemon"].get<std::string>(), ContainsRegex(" 0 of [1-9][0-9]* "));
      }
    }
  }

  // The whole life of a run.
  static void Live(const std::map<std::string, json>& works_here) {
    Harness harness;
    const std::vector<std::string> flags = {"--flush-every", "1"};
    ASSERT_TRUE(harness.StartDaemon(flags));
    Application application(harness, harness.prefix());
    ASSERT_EQ(application.Open(), CAIRN_OK) << application.error();
    for (std::uint64_t step = 1; step <= 3; ++step) {
      const std::uint64_t dataset = application.Checkpoint(step);
      application.ExpectReaches(dataset, CAIRN_LEVEL_LOCAL);
      application.ExpectReaches(dataset, CAIRN_LEVEL_PREFIX);
    }
    ExpectUsed(harness, works_here, /*restored=*/false);
    ExpectDoctorSaysSo(harness, works_here);

    harness.KillDaemon();
    ASSERT_TRUE(harness.StartDaemon(flags));
    ASSERT_EQ(application.Open(), CAIRN_OK) << application.error();
    application.ExpectRestart(3, CAIRN_TIER_CACHE);
    application.ExpectReaches(application.Checkpoint(4), CAIRN_LEVEL_PREFIX);
    ExpectUsed(harness, works_here, /*restored=*/true);

    harness.KillDaemon();
    harness.DeleteCache();
    ASSERT_TRUE(harness.StartDaemon(flags));
    ASSERT_EQ(application.Open(), CAIRN_OK) << application.error();
    application.ExpectRestart(4, CAIRN_TIER_PREFIX);
    application.Close();
    EXPECT_EQ(harness.StopDaemon().exit_code, 0);
  }
};

TEST_P(FallBacksTest, ARunIsCheckpointedAndRestoredByIt) {
  CAIRN_SKIP_UNLESS_REFUSED(GetParam().refusals);
  const std::map<std::string, json> works_here = Doctor(Harness());
  ASSERT_OK(RunRefused(GetParam().refusals, [&works_here] { Live(works_here); }));
}

INSTANTIATE_TEST_SUITE_P(
    Without, FallBacksTest,
    ::testing::Values(
        Case{.name = "Nothing", .refusals = {}, .refused = {}},
        Case{.name = "IoUringByAFilter", .refusals = NoIoUring(EPERM), .refused = NoUring("Operation not permitted")},
        Case{.name = "IoUring", .refusals = NoIoUring(ENOSYS), .refused = NoUring("Function not implemented")},
        Case{.name = "HugePages", .refusals = NoHugePages(), .refused = kNoHuge},
        Case{.name = "TouchingAtOnce", .refusals = NoPopulate(), .refused = kNoTouch, .or_not = {kHuge}},
        Case{.name = "PinnedImages", .refusals = NoPinning(ENOMEM), .refused = kNoPin},
        Case{.name = "NumberedMemory", .refusals = NoNumberedMemory(), .refused = kNoPin},
        // Linux 6.18 counts rings as locked memory, too.
        Case{.name = "LockedMemory", .refusals = NoLockedMemory(), .refused = kNoPin, .or_not = {kUring}},
        Case{.name = "ReservedBlocks", .refusals = NoReservation(), .refused = kNoReserved},
        Case{.name = "DirectIo", .refusals = NoDirectIo(), .refused = kNoDirect},
        Case{.name = "SharedExtents", .refusals = NoClones(), .refused = kNoShared},
        Case{.name = "HardLinks", .refusals = NoHardLinks(), .refused = {}, .hard_links = false}, AllTogether()),
    [](const auto& info) { return info.param.name; });

// --- That a fall-back is on the way at all where the daemon does not say it ---

// With an answer that nothing stands in for, a checkpoint fails at that call. The daemon goes on.
void ExpectFailsAt(const Refusals& refusals, const std::string& why) {
  CAIRN_SKIP_UNLESS_REFUSED(refusals);
  ASSERT_OK(RunRefused(refusals, [&why] {
    Harness harness;
    ASSERT_TRUE(harness.StartDaemon());
    Application application(harness, harness.prefix());
    ASSERT_EQ(application.Open(), CAIRN_OK) << application.error();
    std::uint64_t dataset = 0;
    int code = application.TryCheckpoint(1, &dataset);
    if (code == CAIRN_OK) code = application.Wait(dataset, CAIRN_LEVEL_LOCAL);
    EXPECT_NE(code, CAIRN_OK);
    EXPECT_THAT(application.error(), ::testing::HasSubstr(why));
    EXPECT_TRUE(harness.daemon()->running());
  }));
}

TEST(OnTheWayTest, ImagesAreTouchedByThatCall) {
  Refusals refusals = NoPopulate();
  refusals.calls.front().error = ENOMEM;
  ExpectFailsAt(refusals, "populate: Cannot allocate memory");
}

TEST(OnTheWayTest, WithoutSealedMemoryNothingIsCapturedAndTheDoctorKnowsIt) {
  const Refusals refusals{.calls = {{.call = SYS_memfd_create, .error = ENOSYS}}};
  CAIRN_SKIP_UNLESS_REFUSED(refusals);
  ExpectFailsAt(refusals, "memfd_create: Function not implemented");
  ASSERT_OK(RunRefused(refusals, [] {
    const Ending doctor = RunProcess(Harness().Client("client/cli/cairn", {"doctor"}));
    EXPECT_EQ(doctor.exit_code, 1);
    EXPECT_THAT(doctor.output, ::testing::HasSubstr("MISSING  sealed shared memory: memfd_create: Function not "
                                                    "implemented: a daemon to which it is refused captures nothing\n"));
    for (const std::string name : {kHuge, kTouch}) {  // they are tried with such memory, and nobody has refused them
      EXPECT_THAT(doctor.output,
                  ::testing::HasSubstr("unknown  " + name + ": memfd_create: Function not implemented\n"));
    }
  }));
}

// Bytes that this process has read from disks itself during `what`.
std::uint64_t ReadDuring(const std::function<void()>& what) {
  const auto blocks = [] {
    rusage used{};
    EXPECT_EQ(::getrusage(RUSAGE_SELF, &used), 0);
    return static_cast<std::uint64_t>(used.ru_inblock);
  };
  const std::uint64_t before = blocks();
  what();
  return (blocks() - before) * 512;
}

TEST(OnTheWayTest, RestoresReadStraightIntoMemoryByThatCall) {
  const Refusals refusals{.calls = {{.call = SYS_pread64, .error = EIO}}};
  CAIRN_SKIP_UNLESS_REFUSED(refusals);
  Harness harness;
  ASSERT_TRUE(harness.StartDaemon());
  Application application(harness, harness.prefix());
  ASSERT_EQ(application.Open(), CAIRN_OK) << application.error();
  application.ExpectReaches(application.Checkpoint(1), CAIRN_LEVEL_LOCAL);
  const auto restart = [&] {
    harness.KillDaemon();
    ASSERT_TRUE(harness.StartDaemon());
    ASSERT_EQ(application.Open(), CAIRN_OK) << application.error();
    application.ExpectRestart(1, CAIRN_TIER_CACHE);
  };
  const std::uint64_t straight = ReadDuring(restart);
  const json told = json::parse(RunProcess(harness.Client("client/cli/cairn", {"status", "--json"})).output);
  if (told["mechanisms"]["cache"]["files_handed"] == 0) GTEST_SKIP() << "no file of the cache can be handed out here";
  EXPECT_GE(straight, 2u << 20);
  harness.KillDaemon();
  ASSERT_TRUE(harness.StartDaemon());  // to which nothing is refused
  EXPECT_LT(ReadDuring([&] {
              ASSERT_OK(RunRefused(refusals, [&] {
                ASSERT_EQ(application.Open(), CAIRN_OK) << application.error();
                application.ExpectRestart(1, CAIRN_TIER_CACHE);
              }));
            }),
            1u << 20);  // a page of this program may still come
}

TEST(OnTheWayTest, BlocksAreReservedByThatCall) {
  Refusals refusals = NoReservation();
  refusals.calls.front().error = EIO;
  ExpectFailsAt(refusals, "Input/output error");
}

// --- What the settings have off ---

TEST(SwitchedOffTest, DirectIoWasNotRefused) {
  Harness harness;
  ASSERT_TRUE(harness.StartDaemon({"--cache-direct", "false"}));
  Application application(harness, harness.prefix());
  ASSERT_EQ(application.Open(), CAIRN_OK) << application.error();
  application.ExpectReaches(application.Checkpoint(1), CAIRN_LEVEL_LOCAL);
  const json told = json::parse(RunProcess(harness.Client("client/cli/cairn", {"status", "--json"})).output);
  EXPECT_EQ(told["mechanisms"]["cache"]["direct_off"], true);
  EXPECT_EQ(told["mechanisms"]["cache"]["files"], 0) << told["mechanisms"];
  EXPECT_EQ(told["mechanisms"]["prefix"]["direct_off"], false);
  EXPECT_THAT(RunProcess(harness.Client("client/cli/cairn", {"status"})).output,
              ::testing::Not(::testing::HasSubstr("direct I/O in the cache")));
}

}  // namespace
}  // namespace cairn::testing
