// deploy/systemd under a real systemd: what an operator does, what users see of it, and what a hostile one gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "storage/base/clock.h"
#include "tests/integration/process.h"
#include "tests/integration/promises.h"
#include "tests/systemd/machine.h"
#include "tests/systemd/units_fixture.h"

namespace cairn::testing {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

const auto* const kOneMachine = ::testing::AddGlobalTestEnvironment(new OneMachine);

TEST_F(UnitsTest, TheFirstConnectionStartsTheServiceWhichIsReadyWhenItSaysSo) {
  EXPECT_EQ(Property("ActiveState"), "inactive");
  const Ending first = Client("alice", {"--steps", "2"})->Wait();
  EXPECT_EQ(first.exit_code, 0) << first.output;
  EXPECT_EQ(Property("ActiveState"), "active");
  // Its folders are of tmpfiles and the unit, the group of sysusers.
  EXPECT_EQ(Run("stat -c '%U %a' /run/cairn /var/cache/cairn /run/cairn/cairnd.sock").output,
            "root 755\nroot 755\nroot 666\n");
  Must("getent group cairn");
  // Not before READY=1: what keeps it from serving fails the start, and is not tried again and again.
  Must("systemctl stop cairnd.socket cairnd");
  auto holder = Process::Start(machine().Command("root", {"flock", "-o", "/run/cairn/cairnd.lock", "sleep", "60"}));
  ASSERT_TRUE(Within([] { return Run("! flock -n /run/cairn/cairnd.lock true").exit_code == 0; }));
  EXPECT_NE(Run("systemctl start cairnd").exit_code, 0);
  EXPECT_EQ(Property("ExecMainStatus"), "3");
  EXPECT_EQ(Property("NRestarts"), "0");
  End(*holder);
  ASSERT_TRUE(Within([] { return Run("flock -n /run/cairn/cairnd.lock true").exit_code == 0; }));
  const Ending ready = Run("systemctl start cairnd && cairn status --all");
  EXPECT_EQ(ready.exit_code, 0) << ready.output;
  EXPECT_THAT(ready.output, HasSubstr("alice"));
}

TEST_F(UnitsTest, InsideTheUnitAllMechanismsWorkAndNoPrefixIsHidden) {
  Must("systemctl start cairnd");
  EXPECT_EQ(Client("alice", {"--steps", "1"})->Wait().exit_code, 0);
  const pid_t worker = WorkerOf(kAlice), supervisor = Supervisor();
  ASSERT_NE(worker, 0);
  ASSERT_NE(supervisor, 0);
  const auto of = [](pid_t pid, const char* file) { return Read("/proc/" + std::to_string(pid) + "/" + file); };
  EXPECT_EQ(Property("LimitMEMLOCK") + " " + Property("LimitNOFILE"), "infinity 524288");
  if (MayRaiseLimits()) {
    EXPECT_THAT(of(worker, "limits"), ContainsRegex("Max locked memory +unlimited +unlimited"));
    EXPECT_THAT(of(worker, "limits"), ContainsRegex("Max open files +65536"));
  } else {
    std::cout << "this machine's root has no CAP_SYS_RESOURCE: whether limits are raised is not seen here\n";
  }
  EXPECT_THAT(of(worker, "status"), HasSubstr("CapBnd:\t0000000000000000\n"));
  EXPECT_THAT(of(worker, "status"), HasSubstr("NoNewPrivs:\t1\n"));
  EXPECT_THAT(of(worker, "status"), HasSubstr("Seccomp:\t2\n"));
  EXPECT_THAT(of(supervisor, "status"), HasSubstr("NoNewPrivs:\t1\n"));
  EXPECT_THAT(of(supervisor, "status"),
              HasSubstr(MayRaiseLimits() ? "CapBnd:\t00000000010001eb\n" : "CapBnd:\t00000000000001eb\n"));

  // In a unit that has all of this one's settings, as a worker is: no capabilities, no new privileges.
  std::istringstream unit(Read(machine().PathOf("/usr/lib/systemd/system/cairnd.service")));
  std::ofstream same(machine().PathOf("/run/systemd/system/doctor.service"));
  for (std::string line; std::getline(unit, line);) {
    const bool own = line.starts_with("Type=") || line.starts_with("Exec") || line.starts_with("Restart") ||
                     line.starts_with("Watchdog") || line.starts_with("NotifyAccess=") ||
                     line.starts_with("Requires=") || line.starts_with("RuntimeDirectory");
    if (!own) same << line << "\n";
    if (line == "[Service]") {
      same << "Type=oneshot\nExecStart=/usr/bin/setpriv --reuid=alice --regid=alice --init-groups --inh-caps=-all "
              "--bounding-set=-all --no-new-privs sh /run/doctor.sh\n";
    }
  }
  same.close();
  auto other = Process::Start(machine().Command("alice", {"sleep", "100"}));
  std::ofstream(machine().PathOf("/run/doctor.sh"))
      << "cairn doctor --cache /var/cache/cairn/alice --prefix /home/alice/run\n"
         "p=$(pgrep -n -u alice sleep); python3 -c \"import ctypes,sys;b=ctypes.create_string_buffer(8)\n"
         "m=int(open('/proc/$p/maps').readline().split('-')[0],16)\n"
         "V=type('V',(ctypes.Structure,),{'_fields_':[('a',ctypes.c_void_p),('n',ctypes.c_size_t)]})\n"
         "l,r=V(ctypes.addressof(b),8),V(m,8)\n"
         "print('pulled',ctypes.CDLL(None).process_vm_readv($p,ctypes.byref(l),1,ctypes.byref(r),1,0))\"\n";
  const Ending doctor =
      Run("systemctl daemon-reload; systemctl start doctor; e=$?; journalctl -o cat -u doctor; exit $e");
  End(*other);
  std::cout << doctor.output;
  EXPECT_EQ(doctor.exit_code, 0);
  EXPECT_THAT(doctor.output, HasSubstr("Cairn can work here."));
  EXPECT_THAT(doctor.output, Not(HasSubstr("MISSING")));
  EXPECT_THAT(doctor.output, ContainsRegex("works +daemon: "));
  EXPECT_THAT(doctor.output, ContainsRegex("works +io_uring: [^\n]*; the daemon uses io_uring\n"));
  if (MayRaiseLimits()) {
    EXPECT_THAT(doctor.output, ContainsRegex("works +pinned images"));
  }
  EXPECT_THAT(doctor.output, HasSubstr("pulled 8\n"));

  // A prefix that is mounted while the service runs, in a place that is often hidden.
  Must("mount -t tmpfs -o mode=1777 prefix /home/bob && mkdir /home/bob/run && chown -R bob:bob /home/bob");
  const Ending late = Client("bob", {"--steps", "2", "--flush-every", "1"})->Wait();
  EXPECT_EQ(late.exit_code, 0) << late.output;
  EXPECT_EQ(ReadPromises(PromisesOf("bob")).by_kind["prefix"].size(), 2u);
  Must("test -e /home/bob/run/.scr/scr.dataset.2/commit.cairn");
  Must("systemctl stop cairnd && umount /home/bob");
}

TEST_F(UnitsTest, EachWorkerIsInAControlGroupOfItsOwnAsTheMachineHasThem) {
  // nspawn leaves the trees of version 1 for reading; a machine has them for writing.
  const std::string tree = "/sys/fs/cgroup/pids", group = "cairn-test-" + std::to_string(::getpid());
  if (!fs::exists(tree)) GTEST_SKIP() << "no tree of version 1 here; of version 2: tests/daemon/supervisor";
  Must("mount -o remount,bind,rw " + tree);
  Settings("[supervisor]\ntasks_max = 300\ncgroup = \"/" + group + "\"\n");
  Must("systemctl start cairnd");
  EXPECT_EQ(Client("alice", {"--steps", "1"})->Wait().exit_code, 0);
  EXPECT_THAT(Run("journalctl -o cat -u cairnd -n 20").output,
              HasSubstr("workers are limited by control groups: version 1"));
  const pid_t worker = WorkerOf(kAlice);
  EXPECT_THAT(Read("/proc/" + std::to_string(worker) + "/cgroup"), HasSubstr(":pids:/" + group + "/user-2001\n"));
  EXPECT_EQ(Run("cat " + tree + "/" + group + "/user-2001/pids.max").output, "300\n");
  Must("systemctl stop cairnd; mount -o remount,bind,ro " + tree);
  std::error_code ignored;
  EXPECT_FALSE(fs::exists(tree + "/" + group + "/user-2001")) << "it is gone with its worker";
  for (const auto& one : fs::directory_iterator("/sys/fs/cgroup")) ::rmdir((one.path() / group).c_str());
}

TEST_F(UnitsTest, AReloadReachesAllAndAStopInTheMiddleOfAFlushIsInOrder) {
  Settings("[flush]\nbandwidth = \"2MB/s\"\n[background]\nbeside_captures = \"2MB/s\"\n");
  Must("systemctl start cairnd");
  const Ending client = Client("alice", {"--mib", "24", "--steps", "1"})->Wait();
  EXPECT_EQ(client.exit_code, 0) << client.output;
  const std::string commit = machine().PathOf("/home/alice/run/.scr/scr.dataset.1/commit.cairn");
  EXPECT_FALSE(fs::exists(commit));
  const std::string log = machine().PathOf("/run/cairn/2001/cairnd.log");
  Must("systemctl reload cairnd");
  EXPECT_TRUE(Within([&] { return Read(log).find("settings reloaded") != std::string::npos; })) << Read(log);
  EXPECT_EQ(Property("ActiveState"), "active");
  const auto begin = SteadyNow();
  Must("systemctl stop cairnd.socket cairnd");
  EXPECT_LT(SteadyNow() - begin, seconds(60));
  EXPECT_EQ(Property("Result"), "success");
  EXPECT_FALSE(fs::exists(commit)) << "that was no stop in the middle";
  EXPECT_THAT(Read(log), ContainsRegex(" stopped\n$"));
  EXPECT_EQ(WorkerOf(kAlice), 0);
  Settings("");
  Must("systemctl start cairnd");
  EXPECT_TRUE(Within([&] { return fs::exists(commit); })) << "it goes on though nobody asks for it";
}

TEST_F(UnitsTest, AnUpgradeByRestartCostsItsClientsTimeOnly) {
  Settings("[cache]\nkeep = 100000\n");
  Must("systemctl start cairnd");
  auto alice = Client("alice", {"--mib", "2", "--steps", "1000000", "--no-check"});
  auto bob = Client("bob", {"--mib", "2", "--steps", "1000000", "--flush-every", "4", "--no-check"});
  for (int restart = 0; restart < 3; ++restart) {
    ASSERT_TRUE(Goes("alice")) << (alice->running() ? "" : alice->Wait().output);
    ASSERT_TRUE(Goes("bob")) << (bob->running() ? "" : bob->Wait().output);
    Must("systemctl restart cairnd");
    EXPECT_EQ(Property("Result"), "success");
  }
  EXPECT_TRUE(Goes("alice") && Goes("bob")) << "they go on by themselves";
  End(*alice);
  End(*bob);
  Must("systemctl restart cairnd");  // what they were only promised to be captured is local then
  // All that was promised, not the newest only.
  for (const std::string user : {"alice", "bob"}) {
    const Promises promised = ReadPromises(PromisesOf(user));
    for (const auto& [dataset, step] : promised.by_kind.at("captured")) {
      EXPECT_EQ(Run("ls /var/cache/cairn/" + user + "/*/scr.dataset." + std::to_string(dataset) + "/*.fti").exit_code,
                0)
          << user << ", dataset " << dataset << ", step " << step;
    }
    ExpectKept(user, "2");
  }
}

TEST_F(UnitsTest, AHungOrKilledSupervisorTakesNothingAlongThatWasCaptured) {
  Settings("quiesce = \"20s\"\n[flush]\nevery = 0\n");
  DropIn("[Service]\nWatchdogSec=2\n");
  Must("systemctl start cairnd");
  auto alice = Client("alice", {"--mib", "64", "--steps", "1000000", "--no-check"});
  for (int fault = 0; fault < 4; ++fault) {
    const std::size_t captured = ReadPromises(PromisesOf("alice")).by_kind["captured"].size();
    const std::string before = Property("NRestarts");
    const pid_t supervisor = Supervisor();
    ASSERT_NE(supervisor, 0);
    ASSERT_TRUE(AwaitPromises(PromisesOf("alice"), "captured", captured + 2));
    // Its worker has hardly begun to write.
    ::kill(supervisor, fault == 3 ? SIGSTOP : SIGKILL);
    if (fault == 2) End(*alice);  // nobody has the bytes any more
    ASSERT_TRUE(Within([&] { return Property("NRestarts") != before && Property("ActiveState") == "active"; }));
    if (fault == 2) {
      const Promises promised = ReadPromises(PromisesOf("alice"));
      const Ending next = Client("alice", {"--mib", "64", "--steps", "0"})->Wait();
      EXPECT_GE(Resumed(next), NewestStep(promised.by_kind.at("captured"))) << next.output;
      alice = Client("alice", {"--mib", "64", "--steps", "1000000", "--no-check"});
    }
  }
  EXPECT_TRUE(Goes("alice", 2));
  // Each worker but the last has ended in order.
  const std::string log = Read(machine().PathOf("/run/cairn/2001/cairnd.log"));
  EXPECT_EQ(Count(log, " info stopped\n") + 1, Count(log, " ready: socket ")) << log;
  EXPECT_THAT(Run("journalctl -o cat -u cairnd -n 200").output, HasSubstr("Watchdog timeout"));
  End(*alice);
}

TEST_F(UnitsTest, WhatWasOnlyCapturedOutlivesSupervisorAndWorkers) {
  Settings("[flush]\nevery = 0\n");
  Must("systemctl start cairnd");
  for (int fault = 0; fault < 3; ++fault) {
    auto alice = Client("alice", {"--mib", "64", "--steps", "1000000", "--no-check"});
    ASSERT_TRUE(Goes("alice", 2)) << (alice->running() ? "" : alice->Wait().output);
    const std::string before = Property("NRestarts");
    const pid_t supervisor = Supervisor(), worker = WorkerOf(kAlice);
    ASSERT_NE(supervisor, 0);
    ASSERT_NE(worker, 0);
    const std::size_t captured = ReadPromises(PromisesOf("alice")).by_kind["captured"].size();
    ASSERT_TRUE(AwaitPromises(PromisesOf("alice"), "captured", captured + 2));
    // Nobody has the bytes any more but the service manager.
    ::kill(supervisor, SIGKILL);
    ::kill(worker, SIGKILL);
    End(*alice);
    ASSERT_TRUE(Within([&] { return Property("NRestarts") != before && Property("ActiveState") == "active"; }));
    const Promises promised = ReadPromises(PromisesOf("alice"));
    const Ending next = Client("alice", {"--mib", "64", "--steps", "0"})->Wait();
    EXPECT_GE(Resumed(next), NewestStep(promised.by_kind.at("captured"))) << next.output;
  }
  const std::string log = Read(machine().PathOf("/run/cairn/2001/cairnd.log"));
  EXPECT_THAT(log, HasSubstr("which the last daemon had captured, is taken up: it is local"));
  // What was taken up is held no longer.
  Must("systemctl restart cairnd");
  EXPECT_TRUE(Within([&] { return Property("NFileDescriptorStore") == "0"; })) << Property("NFileDescriptorStore");
}

TEST_F(UnitsTest, AHostileUserReachesNothingAndHoldsUpNobody) {
  Settings("[supervisor]\ntasks_max = 300\n[flush]\nevery = 0\n");
  Must("systemctl start cairnd");
  auto alice = Client("alice", {"--mib", "1", "--steps", "1000000", "--no-check"});
  auto bob = Client("bob", {"--mib", "1", "--steps", "1000000", "--no-check"});
  ASSERT_TRUE(Goes("alice") && Goes("bob"));
  const std::string worker = std::to_string(There(WorkerOf(kAlice)));
  const Ending looked = Run("mallory look alice 2001 " + worker + " " + Property("MainPID"), "mallory");
  EXPECT_EQ(looked.output, "looked\n");
  // The same by its victim: what was tried is there to be reached.
  const Ending own = Run("mallory look alice 2001 " + worker + " " + Property("MainPID"), "alice");
  for (const char* what : {"runtime folder", "cache", "home", "log of the worker", "the worker, by a signal",
                           "the worker's pages", "the worker's descriptors"}) {
    EXPECT_THAT(own.output, HasSubstr(std::string("reached ") + what + "\n"));
  }
  EXPECT_THAT(own.output, Not(HasSubstr("reached the supervisor")));

  const auto begin = SteadyNow();
  const std::size_t before = ReadPromises(PromisesOf("alice")).by_kind["local"].size();
  auto rage = Process::Start(machine().Command("mallory", {"mallory", "rage", "12"}));
  auto forge = Process::Start(machine().Command("mallory", {"mallory", "forge", "2001", "12"}));
  ASSERT_TRUE(forge->WaitForOutput("listening"));
  EXPECT_TRUE(Goes("alice", 10) && Goes("bob", 10));
  // A new session of Alice's is not led to the forged socket either.
  const auto opened =
      Run("CAIRN_PREFIX=/home/alice/other CAIRN_RANK=0 CAIRN_NRANKS=1 CAIRN_LAUNCH=x crash_client "
          "--steps 1 --promises /home/alice/others",
          "alice");
  EXPECT_EQ(opened.exit_code, 0) << opened.output;
  const Ending raged = rage->Wait(seconds(60)), forged = forge->Wait(seconds(30));
  std::cout << raged.output
            << "alice, meanwhile: " << ReadPromises(PromisesOf("alice")).by_kind["local"].size() - before
            << " checkpoints in " << std::chrono::duration_cast<milliseconds>(SteadyNow() - begin).count() << " ms\n"
            << Run("cairn status --all").output;
  EXPECT_EQ(raged.exit_code, 0);
  EXPECT_THAT(raged.output, Not(ContainsRegex("'(connections|stopped|traced|killed)': 0[,}]")));
  EXPECT_EQ(forged.output, "listening\n");
  EXPECT_EQ(std::to_string(There(WorkerOf(kAlice))), worker) << "Alice's worker is the same";
  End(*alice);
  End(*bob);
  ExpectKept("alice", "1");
  ExpectKept("bob", "1");
  // And Mallory, having come to rest, is served again.
  const Ending again = Client("mallory", {"--steps", "1"})->Wait();
  EXPECT_EQ(again.exit_code, 0) << again.output;
  Must("rm -rf /tmp/cairn-2001");
}

TEST_F(UnitsTest, AUsersOwnDaemonRunsAsAUserUnit) {
  Must("systemctl stop cairnd.socket cairnd && systemctl start user@2001");
  const std::string user = "export XDG_RUNTIME_DIR=/run/user/2001 HOME=/home/alice; ";
  const Ending started = Run(user + "systemctl --user start cairnd-user && cairn doctor", "alice");
  EXPECT_EQ(started.exit_code, 0) << started.output;
  EXPECT_THAT(started.output, ContainsRegex("works +daemon: [^\n]*/run/user/2001/cairn/"));
  const std::string run = user + "export CAIRN_PREFIX=/home/alice/run CAIRN_RANK=0 CAIRN_NRANKS=1; ";
  EXPECT_EQ(Run(run + "CAIRN_LAUNCH=1 crash_client --steps 2 --promises /home/alice/promises", "alice").exit_code, 0);
  EXPECT_EQ(Run(user + "systemctl --user reload cairnd-user; systemctl --user stop cairnd-user; "
                       "systemctl --user show --value -p Result cairnd-user",
                "alice")
                .output,
            "success\n");
  EXPECT_EQ(Run(user + "systemctl --user start cairnd-user", "alice").exit_code, 0);
  EXPECT_THAT(Run(run + "CAIRN_LAUNCH=2 crash_client --steps 0 --promises /home/alice/promises", "alice").output,
              HasSubstr("resumed 2 "));
  // Killed, it is started again with what the user's manager has held.
  const auto client = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"crash_client", "--promises", "/home/alice/promises", "--mib", "64"});
    return Process::Start(machine().Command("alice", arguments,
                                            {{"XDG_RUNTIME_DIR", "/run/user/2001"},
                                             {"HOME", "/home/alice"},
                                             {"CAIRN_PREFIX", "/home/alice/big"},
                                             {"CAIRN_LAUNCH", "own" + std::to_string(launches_++)},
                                             {"CAIRN_RANK", "0"},
                                             {"CAIRN_NRANKS", "1"}}));
  };
  for (int fault = 0; fault < 2; ++fault) {
    Must("rm -f /home/alice/promises");
    auto alice = client({"--steps", "1000000", "--no-check"});
    ASSERT_TRUE(AwaitPromises(PromisesOf("alice"), "captured", 3)) << (alice->running() ? "" : alice->Wait().output);
    const pid_t daemon = WorkerOf(kAlice);
    ASSERT_NE(daemon, 0);
    ::kill(daemon, SIGKILL);
    End(*alice);
    ASSERT_TRUE(Within([&] { return WorkerOf(kAlice) != 0 && WorkerOf(kAlice) != daemon; }));
    const Promises promised = ReadPromises(PromisesOf("alice"));
    const Ending next = client({"--steps", "0"})->Wait();
    EXPECT_GE(Resumed(next), NewestStep(promised.by_kind.at("captured"))) << next.output;
  }
  EXPECT_THAT(Run("journalctl -o cat _UID=2001 -n 400").output,
              HasSubstr("which the last daemon had captured, is taken up: it is local"));
  Must("systemctl stop user@2001; rm -rf /var/tmp/cairn-2001");
}

TEST_F(UnitsTest, TheyAreAsClosedAsTheReadmeSays) {
  // deploy/README.md has these figures, and says why what remains does.
  for (const auto& [unit, figure] :
       {std::pair("system/cairnd", "4.2 OK"), std::pair("user/cairnd-user", "6.6 MEDIUM")}) {
    const Ending said =
        Run(std::string("systemd-analyze security --no-pager --offline=yes /usr/lib/systemd/") + unit + ".service");
    std::istringstream lines(said.output);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("✗") || line.starts_with("→")) std::cout << line << "\n";
    }
    EXPECT_THAT(said.output, ContainsRegex(std::string("Overall exposure level for [^\n]*: ") + figure)) << unit;
  }
}

}  // namespace
}  // namespace cairn::testing
