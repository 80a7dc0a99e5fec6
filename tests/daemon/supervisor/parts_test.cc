// The parts of the supervisor that need no process.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "daemon/supervisor/deposits.h"
#include "daemon/supervisor/folders.h"
#include "daemon/supervisor/hand_over.h"
#include "daemon/supervisor/listeners.h"
#include "daemon/supervisor/pace.h"
#include "daemon/supervisor/page.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"
#include "tests/daemon/supervisor/parts_fixture.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

// --- pace.h ---

TEST(PaceTest, PausesDoubleAndEnd) {
  BackOff pace(milliseconds(10), milliseconds(50));
  SteadyTime now{milliseconds(1'000'000)};
  EXPECT_TRUE(pace.Forgotten(now));
  for (const int pause : {10, 20, 40, 50, 50}) {
    pace.Lost(now, now);
    EXPECT_EQ(pace.until() - now, milliseconds(pause));
    EXPECT_FALSE(pace.Forgotten(now));
  }
  pace.Lost(now, now + milliseconds(50));
  EXPECT_EQ(pace.until() - now, milliseconds(60)) << "it has lived long enough";
  EXPECT_TRUE(pace.Forgotten(now + milliseconds(110)));
}

TEST(PaceTest, StartsComeInABurstAndThenOneByOne) {
  StartRate rate(3, milliseconds(10));
  SteadyTime now{milliseconds(1'000'000)};
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(rate.Take(now));
  EXPECT_FALSE(rate.Take(now));
  EXPECT_TRUE(rate.Take(now + milliseconds(10)));
  EXPECT_FALSE(rate.Take(now + milliseconds(10)));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(rate.Take(now + milliseconds(1000)));
  EXPECT_FALSE(rate.Take(now + milliseconds(1000))) << "time that was not used is not saved up";
}

// --- page.h, hand_over.h ---

TEST(PageTest, WhatIsWrittenIsRead) {
  auto page = CountersPage::Make();
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->Read().magic, 0u);
  auto writer = CountersWriter::Map(UniqueFd(::dup(page->fd())));
  ASSERT_TRUE(writer.ok());
  writer->Set(&WorkerCounters::runs, 7);
  writer->Add(&WorkerCounters::taken, 2);
  EXPECT_EQ(page->Read().runs, 7u);
  EXPECT_EQ(page->Read().taken, 2u);
  writer->Set(&WorkerCounters::magic, 1);
  EXPECT_EQ(page->Read().runs, 0u);
  EXPECT_NE(::ftruncate(page->fd(), 0), 0) << "reading it would kill the supervisor";
}

TEST_F(PartsTest, WhatIsNoPageIsNotMapped) {
  Write("short", "x");
  EXPECT_FALSE(CountersWriter::Map(UniqueFd(::open((folder_ + "/short").c_str(), O_RDWR))).ok());
  EXPECT_FALSE(CountersWriter::Map(UniqueFd()).ok());
}

TEST(HandOverTest, ConnectionsArriveInOrderUntilTheOtherEndIsGone) {
  auto link = MakeLink();
  ASSERT_TRUE(link.ok());
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const UniqueFd one(ends[0]), other(ends[1]);
  EXPECT_EQ(SendConnection(link->supervisor.get(), Door::kGrpc, other.get()), 0);
  EXPECT_EQ(::send(link->supervisor.get(), "L", 1, 0), 1);  // without a descriptor
  const auto first = ReceiveConnection(link->worker.get());
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->door, Door::kGrpc);
  EXPECT_EQ(::write(first->connection.get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(::read(one.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  const auto second = ReceiveConnection(link->worker.get());
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(second->connection.valid());
  link->supervisor.Reset();
  EXPECT_EQ(ReceiveConnection(link->worker.get()).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReceiveConnection(-1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(HandOverTest, OneWhoTakesNothingIsHandedAHandfulAndNobodyHearsOfIt) {
  auto link = MakeLink();
  ASSERT_TRUE(link.ok());
  int sent = 0;
  while (sent < 1000 && SendConnection(link->supervisor.get(), Door::kLocal, 0) == 0) ++sent;
  EXPECT_GE(sent, 1);
  EXPECT_LE(sent, 16);
  EXPECT_LT(::send(link->worker.get(), "x", 1, MSG_NOSIGNAL), 0) << "nobody would read it";
}

// --- deposits.h ---

TEST(DepositsTest, SoManyOfSoManyBytesAreHeld) {
  HeldDeposits held;
  const HeldDeposits::Max max{.count = 2, .bytes = 10'000};
  EXPECT_FALSE(held.Make(0, max).ok());
  EXPECT_FALSE(held.Make(10'001, max).ok());
  EXPECT_FALSE(held.Make(~std::uint64_t{0}, max).ok());
  const auto first = held.Make(6000, max);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(held.Make(4001, max).status().code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(held.Make(1000, max).ok());
  EXPECT_FALSE(held.Make(1, max).ok()) << "a third";
  EXPECT_TRUE(held.LetGo(*first));
  EXPECT_FALSE(held.LetGo(*first));
  EXPECT_TRUE(held.Make(9000, max).ok()) << "its room is free again";
}

TEST(DepositsTest, MemoryIsOfASizeThatStays) {
  HeldDeposits held;
  const auto made = held.Make(6000, {.count = 1, .bytes = 6000});
  ASSERT_TRUE(made.ok());
  EXPECT_NE(::ftruncate(held.Of(*made), 0), 0);
  EXPECT_NE(::ftruncate(held.Of(*made), 7000), 0);
}

TEST(DepositsTest, NoMemoryIsHeldTwice) {
  HeldDeposits held;
  const HeldDeposits::Max max{.count = 9, .bytes = 1 << 20};
  const auto made = held.Make(6000, max);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(held.Add(UniqueFd(::dup(held.Of(*made)))).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(held.inodes().size(), 1u);
}

TEST(DepositsTest, OnlySealedMemoryIsTakenBack) {
  HeldDeposits held;
  EXPECT_FALSE(held.Add(UniqueFd()).ok());
  EXPECT_FALSE(held.Add(UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC))).ok());
  UniqueFd open(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(open.get(), 100), 0);
  EXPECT_FALSE(held.Add(std::move(open)).ok()) << "it could still grow";
  EXPECT_TRUE(held.empty());
}

// The administrator may have made it less since: nobody takes a user's checkpoints away for that.
TEST(DepositsTest, WhatWasHeldIsTakenBackWhateverTheMaximumIsNow) {
  std::vector<std::string> told;
  DepositDesk desk({.count = 2, .bytes = 10'000}, [&](std::string_view state, int) {
    told.emplace_back(state);
    return true;
  });
  HeldDeposits before, held;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(before.Make(6000, {.count = 3, .bytes = 18'000}).ok());
  for (const int fd : before.fds()) EXPECT_TRUE(desk.TakeBack(held, {.user = 1, .fd = UniqueFd(::dup(fd))}).ok());
  EXPECT_EQ(held.inodes(), before.inodes());
  EXPECT_TRUE(told.empty()) << "the service manager holds all of them as before";
  const HeldDeposits::Max max{.count = 2, .bytes = 10'000};
  EXPECT_FALSE(held.Make(1, max).ok());
  EXPECT_TRUE(held.LetGo(held.inodes().front()));
  EXPECT_FALSE(held.Make(1, max).ok()) << "there are two";
  EXPECT_TRUE(held.LetGo(held.inodes().front()));
  EXPECT_FALSE(held.Make(4001, max).ok());
  EXPECT_TRUE(held.Make(4000, max).ok());
}

// The limit that is not configured.
TEST(DepositsTest, FiveHundredAndTwelveAreHeldAndTheNextIsRefused) {
  auto link = MakeDepositLink();
  ASSERT_TRUE(link.ok());
  DepositDesk desk({.bytes = 1 << 20}, nullptr);
  HeldDeposits held;
  const auto ask = [&](const DepositRequest& request) {
    ASSERT_EQ(::send(link->worker.get(), &request, sizeof request, MSG_NOSIGNAL), 16);
    ASSERT_EQ(desk.Answer(1, held, link->supervisor.get()), DepositDesk::Asked::kSome);
  };
  const auto answer = [&] { return ReceiveConnection(link->worker.get()); };
  for (int i = 0; i < 512; ++i) {
    ask({.bytes = 1, .inode = 0});
    const auto got = answer();
    ASSERT_TRUE(got.ok() && got->connection.valid()) << i;
  }
  const std::vector<std::uint64_t> all = held.inodes();
  ask({.bytes = 1, .inode = 0});
  const auto refused = answer();
  ASSERT_TRUE(refused.ok());
  EXPECT_FALSE(refused->connection.valid()) << "the worker is told, and goes on without";
  EXPECT_EQ(held.inodes(), all) << "nothing gives way to it";
  ask({.bytes = 0, .inode = all.front()});
  ask({.bytes = 1, .inode = 0});
  const auto next = answer();
  EXPECT_TRUE(next.ok() && next->connection.valid());
  EXPECT_EQ(held.inodes().size(), 512u);
}

TEST(DepositsTest, ADescriptorThatComesWithARequestIsNotTaken) {
  auto link = MakeDepositLink();
  ASSERT_TRUE(link.ok());
  DepositDesk desk({.count = 9, .bytes = 1 << 20}, nullptr);
  HeldDeposits held;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  ASSERT_EQ(SendConnection(link->worker.get(), Door::kLocal, writer.get()), 0);  // no request either: too short
  writer.Reset();
  EXPECT_EQ(desk.Answer(1, held, link->supervisor.get()), DepositDesk::Asked::kSome);
  EXPECT_TRUE(held.empty());
  char byte = 0;
  EXPECT_EQ(::read(reader.get(), &byte, 1), 0) << "nobody has the other end any more";
  link->worker.Reset();
  EXPECT_EQ(desk.Answer(1, held, link->supervisor.get()), DepositDesk::Asked::kEnded);
}

TEST(DepositsTest, WhoAsksWithoutEndIsNotListenedToForAWhile) {
  auto link = MakeDepositLink();
  ASSERT_TRUE(link.ok());
  DepositDesk desk({.count = 9, .bytes = 1 << 20}, nullptr);
  HeldDeposits held;
  const DepositRequest request{.bytes = 0, .inode = 1};
  DepositDesk::Asked asked = DepositDesk::Asked::kSome;
  int asks = 0;
  for (; asks < 100'000 && asked == DepositDesk::Asked::kSome; ++asks) {
    ASSERT_EQ(::send(link->worker.get(), &request, sizeof request, MSG_NOSIGNAL), 16);
    asked = desk.Answer(1, held, link->supervisor.get());
  }
  EXPECT_EQ(asked, DepositDesk::Asked::kLater);
  EXPECT_GE(asks, 1024) << "a worker may make all of its deposits, and let go of them";
}

TEST(DepositsTest, WhatTheServiceManagerDoesNotTakeItIsToldAgain) {
  bool takes = true;
  std::vector<std::string> told;
  DepositDesk desk({.count = 9, .bytes = 1 << 20}, [&](std::string_view state, int) {
    if (takes) told.emplace_back(state);
    return takes;
  });
  HeldDeposits before, held;
  const auto old = before.Make(6000, {.count = 9, .bytes = 1 << 20});
  ASSERT_TRUE(old.ok());
  const auto made = desk.TakeBack(held, {.user = 1, .fd = UniqueFd(::dup(before.Of(*old)))});
  ASSERT_TRUE(made.ok()) << made.status();
  takes = false;
  desk.LetGoOfAll(1, held);
  EXPECT_TRUE(held.empty());
  takes = true;
  desk.TellPending();
  desk.TellPending();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0], "FDSTOREREMOVE=1\nFDNAME=" + DepositName(1, *made));
}

TEST(DepositsTest, OfWhatTheServiceManagerNeverTookItIsNotTold) {
  auto link = MakeDepositLink();
  ASSERT_TRUE(link.ok());
  std::vector<std::string> told;
  DepositDesk desk({.count = 9, .bytes = 1 << 20}, [&](std::string_view state, int) {
    told.emplace_back(state);
    return state.find("FDSTORE=1") == std::string_view::npos;
  });
  HeldDeposits held;
  const DepositRequest request{.bytes = 6000, .inode = 0};
  ASSERT_EQ(::send(link->worker.get(), &request, sizeof request, MSG_NOSIGNAL), 16);
  EXPECT_EQ(desk.Answer(1, held, link->supervisor.get()), DepositDesk::Asked::kSome);
  ASSERT_FALSE(held.empty());
  desk.LetGoOfAll(1, held);
  desk.TellPending();
  EXPECT_EQ(told.size(), 1u) << "only what was refused";
}

TEST(DepositsTest, NamesSayWhoseTheyAre) {
  EXPECT_EQ(DepositName(1000, 77), "cairn-1000-77");
  EXPECT_TRUE(IsDepositName("cairn-1000-77"));
  for (const char* name : {"", "cairnd.socket", "cairn-", "cairn-x-7", "cairn-7", "cairn--7", "cairn-99999999999-7"}) {
    EXPECT_FALSE(IsDepositName(name)) << name;
  }
}

TEST_F(PartsTest, GivenDepositsAreTakenByTheirNamesAndSocketsStay) {
  std::vector<Listener> made;
  ASSERT_TRUE(MakeListeners(folder_, &made).ok());
  const pid_t child = ::fork();
  if (child == 0) {
    const UniqueFd socket(::fcntl(made[2].fd.get(), F_DUPFD, 100));
    HeldDeposits held;
    const auto memory = held.Make(4096, {.count = 1, .bytes = 4096});
    const UniqueFd copy(::fcntl(held.Of(*memory), F_DUPFD, 100));
    ::dup2(socket.get(), 3), ::dup2(copy.get(), 4);
    ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    ::setenv("LISTEN_FDS", "2", 1);
    ::setenv("LISTEN_FDNAMES", ("cairnd.socket:" + DepositName(1234, *memory)).c_str(), 1);
    const auto deposits = TakeGivenDeposits();
    if (deposits.size() != 1 || deposits[0].user != 1234 || deposits[0].fd.get() != 4) std::_Exit(1);
    if ((::fcntl(4, F_GETFD) & FD_CLOEXEC) == 0) std::_Exit(2);
    const auto given = TakeGivenListeners();
    if (!given.ok() || given->size() != 1 || given->front().fd.get() != 3) std::_Exit(3);
    std::_Exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// --- folders.h ---

TEST_F(PartsTest, NamesThatAreNoneAreRefused) {
  const auto parent = OpenSharedFolder(folder_ + "/a/b", 0755);
  ASSERT_TRUE(parent.ok()) << parent.status();
  const Owner me{.user = ::geteuid(), .group = ::getegid()};
  for (const char* name : {"", ".", "..", "a/b", "/etc"}) {
    EXPECT_FALSE(MakeUserFolder(parent->get(), name, me).ok()) << name;
    EXPECT_FALSE(MakeUserFile(parent->get(), name, me).ok()) << name;
  }
  EXPECT_FALSE(MakeUserFolder(parent->get(), std::string(300, 'x'), me).ok());
  EXPECT_TRUE(MakeUserFolder(parent->get(), "mine", me).ok());
  EXPECT_TRUE(MakeUserFolder(parent->get(), "mine", me).ok());
}

TEST_F(PartsTest, LinksAndFilesInTheWayAreRefused) {
  const auto parent = OpenSharedFolder(folder_ + "/a", 0755);
  ASSERT_TRUE(parent.ok());
  const Owner me{.user = ::geteuid(), .group = ::getegid()};
  Write("target", "kept");
  fs::create_symlink(folder_ + "/target", folder_ + "/a/link");
  fs::create_hard_link(folder_ + "/target", folder_ + "/a/second");
  fs::create_directory_symlink(folder_, folder_ + "/a/there");
  fs::create_directory_symlink(folder_ + "/a", folder_ + "/shared");
  ASSERT_EQ(::mkfifo((folder_ + "/a/fifo").c_str(), 0600), 0);
  EXPECT_EQ(MakeUserFile(parent->get(), "link", me).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(MessageOf(MakeUserFile(parent->get(), "second", me))), HasSubstr("other names"));
  EXPECT_THAT(std::string(MessageOf(MakeUserFile(parent->get(), "fifo", me))), HasSubstr("not a regular file"));
  EXPECT_EQ(MakeUserFolder(parent->get(), "there", me).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(OpenSharedFolder(folder_ + "/shared", 0755).status().code(), absl::StatusCode::kPermissionDenied);
  fs::permissions(folder_ + "/a", fs::perms::owner_all);
  EXPECT_THAT(std::string(MessageOf(OpenSharedFolder(folder_ + "/a", 0755).status())), HasSubstr("cannot pass it"));
}

// --- listeners.h ---

TEST_F(PartsTest, GivenSocketsAreTakenByTheirNames) {
  std::vector<Listener> made;
  ASSERT_TRUE(MakeListeners(folder_, &made).ok());
  ASSERT_EQ(made.size(), 3u);
  const pid_t child = ::fork();
  if (child == 0) {
    const UniqueFd at(::fcntl(made[2].fd.get(), F_DUPFD, 100));
    ::dup2(at.get(), 3);
    ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    ::setenv("LISTEN_FDS", "1", 1);
    auto given = TakeGivenListeners();
    if (!given.ok() || given->size() != 1 || given->front().door != Door::kLocal) std::_Exit(1);
    if (std::getenv("LISTEN_FDS") != nullptr || (::fcntl(3, F_GETFD) & FD_CLOEXEC) == 0) std::_Exit(2);
    ::setenv("LISTEN_PID", "1", 1);
    ::setenv("LISTEN_FDS", "1", 1);
    if (given = TakeGivenListeners(); !given.ok() || !given->empty()) std::_Exit(3);
    ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    ::setenv("LISTEN_FDS", "1", 1);
    const int other = ::open("/dev/null", O_RDONLY);
    ::dup2(other, 3);
    if (TakeGivenListeners().ok()) std::_Exit(4);
    std::_Exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(PartsTest, WhatIsNoSocketStaysWhereItIs) {
  Write("cairnd.sock", "mine");
  std::vector<Listener> made;
  EXPECT_EQ(MakeListeners(folder_, &made).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Read("cairnd.sock"), "mine");
}

}  // namespace
}  // namespace cairn
