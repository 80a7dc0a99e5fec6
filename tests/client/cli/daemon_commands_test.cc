// The commands that ask a daemon, against the real Admin service with a core that answers as it was told.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "storage/base/status.h"
#include "tests/client/cli/daemon_fixture.h"
#include "tests/client/cli/run_cairn.h"
#include "tests/support/strangers_socket.h"

namespace cairn {
namespace {

using nlohmann::json;
using testing::CairnRun;
using testing::RunCairn;

using DaemonCommandsTest = testing::DaemonFixture;

TEST_F(DaemonCommandsTest, StatusShowsHowTheRunIsSteered) {
  admin::RunStatus& run = *core_.status.mutable_runs(0);
  run.mutable_halt();
  run.mutable_rhythm();
  EXPECT_EQ(Run({"status"}).out.find("is to stop"), std::string::npos) << "nothing is set";
  run.mutable_halt()->set_reason("SCR_FINALIZE_CALLED");
  EXPECT_EQ(Run({"status"}).out.find("is to stop"), std::string::npos) << "that is the last launch's end";
  run.mutable_halt()->set_reason("");
  run.mutable_halt()->set_counts_checkpoints(true);
  run.mutable_halt()->set_checkpoints_left(2);
  run.mutable_halt()->set_exit_before_s(INT64_MAX);
  run.mutable_halt()->set_halt_seconds(300);
  ExpectSaid(Run({"status"}), 0,
             "is to stop after 2 more checkpoints; before second 9223372036854775807; 300 s before");
  run.mutable_halt()->set_why("EXIT_AFTER_TIME: it is \x1b[31mred");
  ExpectSaid(Run({"status"}), 0, "is to stop now: EXIT_AFTER_TIME: it is ?[31mred; after 2");
  run.mutable_halt()->set_error("halt.scr: damaged");
  ExpectSaid(Run({"status"}), 0, "as last read: halt.scr: damaged");
  run.mutable_rhythm()->set_checkpoints(10);
  run.mutable_rhythm()->set_cost_us(850'000);
  run.mutable_rhythm()->set_cost_total_us(9'000'000);
  run.mutable_rhythm()->set_elapsed_ms(123'000);
  run.mutable_rhythm()->set_interval_ms(60'000);
  ExpectSaid(Run({"status"}), 0,
             "10 checkpoints held the application up for 850 ms each, in all 9 s of 2 m 3 s; due every 1 m");
  const json status = json::parse(Run({"--json", "status"}).out);
  EXPECT_EQ(status["runs"][0]["halt"]["checkpoints_left"], 2);
  EXPECT_EQ(status["runs"][0]["rhythm"]["cost_us"], 850'000);
  EXPECT_EQ(status["runs"][0]["rhythm"]["interval_ms"], 60'000);
  run.mutable_halt()->set_counts_checkpoints(false);
  EXPECT_TRUE(json::parse(Run({"--json", "status"}).out)["runs"][0]["halt"]["checkpoints_left"].is_null());
}

TEST_F(DaemonCommandsTest, AStrangerWhoListensInThePlaceOfTheDaemonIsNotAsked) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  const testing::StrangersSocket stranger;
  const CairnRun run = RunCairn({"--address", stranger.path(), "status"});
  ExpectSaid(run, 3, "user 65534 listens there, neither root nor this user, 0");
}

TEST_F(DaemonCommandsTest, WhatIsNeitherADirectoryNorARunIsToldAsBoth) {
  core_.list = NotFound("no run nonexist.bp is known to this daemon");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"vars", "nonexist.bp"}, {"index", "nonexist.bp"}, {"verify", "nonexist.bp"}}) {
    ExpectSaid(Run(arguments), 4, "nonexist.bp: no such directory");
    ExpectSaid(Run(arguments), 4, "no run nonexist.bp is known to this daemon");
  }
}

TEST_F(DaemonCommandsTest, StatusInAPipeIsPlainLines) {
  const CairnRun run = Run({"status"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out,
            "cairn test on node1, process 4711, up 1 m 1 s\n"
            "cache   1.0 MiB of 1.0 GiB in /ssd/cache\n"
            "images  0 B of 0 B of memory\n"
            "run 01234567  /scratch/?[31mheat\n"
            "  launch 3: 4 of 4 ranks connected; newest whole step: 120\n"
            "  flush of dataset 17 (step 120): running, 100.0 MiB of 400.0 MiB (25 %), 50.0 MiB/s, 6 s left\n");
}

TEST_F(DaemonCommandsTest, TheLastSecondOfAFlushIsASecond) {
  admin::FlushStatus& flush = *core_.status.mutable_runs(0)->mutable_flushes(0);
  flush.set_bytes_done((400 << 20) - 1);
  ExpectSaid(Run({"status"}), 0, "50.0 MiB/s, 1 s left\n");
  flush.set_bytes_done(400 << 20);
  ExpectSaid(Run({"status"}), 0, "50.0 MiB/s\n");
}

TEST_F(DaemonCommandsTest, StatusOnATerminalDrawsBars) {
  const CairnRun run = testing::RunCairnOnTerminal({"status"}, Environment());
  ExpectSaid(run, 0, "flush of dataset 17: [###.........] 25 %, 100.0 MiB of 400.0 MiB, 50.0 MiB/s, 6 s left");
  // What came from elsewhere does not steer the terminal.
  EXPECT_EQ(run.out.find('\x1b'), std::string::npos);
}

TEST_F(DaemonCommandsTest, StatusAsJsonHasEveryField) {
  const CairnRun run = Run({"--json", "status"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const json status = json::parse(run.out);
  EXPECT_EQ(status["pid"], 4711);
  EXPECT_EQ(status["runs"][0]["flushes"][0]["bytes_done"], 100 << 20);
  EXPECT_EQ(status["warnings"], json::array());
}

TEST_F(DaemonCommandsTest, ADaemonThatIsGoingAwaySaysSo) {
  core_.status.set_quiescing(true);
  ExpectSaid(Run({"status"}), 0, "going away");
}

TEST_F(DaemonCommandsTest, WatchLooksOnUntilTheDaemonGoes) {
  CairnRun run;
  std::thread watcher([&] { run = Run({"status", "--watch", "--interval", "10ms"}); });
  while (core_.status_count < 3) std::this_thread::yield();
  door_.reset();
  watcher.join();
  EXPECT_EQ(run.exit_code, 3) << run.err;
  EXPECT_NE(run.out.find("process 4711", run.out.find("process 4711") + 1), std::string::npos);  // more than once
  EXPECT_EQ(run.out.find('\x1b'), std::string::npos);
}

TEST_F(DaemonCommandsTest, ListAndShowSayWhatTheDaemonKnows) {
  const CairnRun list = Run({"ls", "heat"});
  EXPECT_EQ(list.exit_code, 0) << list.err;
  EXPECT_EQ(list.out,
            "run 01234567  /scratch/heat\n"
            "DATASET  STEP  LAUNCH  RANKS  KIND        LEVEL  STATE          WHERE       SIZE  CREATED\n"
            "     17   120       0      4  checkpoint  local  whole, pinned  cache  400.0 MiB  2023-11-14 22:13:20\n");
  const CairnRun show = Run({"show", "heat", "17"});
  ExpectSaid(show, 0, "4 ranks, 400.0 MiB, of which 4.0 MiB written (1 %)");
  ExpectSaid(show, 0, "rank 0: local, 50.0 MiB, of which 1.0 MiB written (2 %)");
  ExpectSaid(show, 0, "5  double[6]  array 'temperature' [4,3], box [2,3] at [2,0]  48 B");
  EXPECT_EQ(core_.asked(), (std::vector<std::string>{"list heat", "show heat 17"}));
}

TEST_F(DaemonCommandsTest, ShowSaysWhichRedundancyWasAskedFor) {
  core_.show->set_asked_scheme(local::SCHEME_PARTNER);
  ExpectSaid(Run({"show", "heat", "17"}), 0, "its application has asked for redundancy partner");
  EXPECT_EQ(json::parse(Run({"show", "heat", "17", "--json"}).out)["asked_scheme"], "partner");
  ExpectSaid(Run({"redundancy", "heat", "17"}), 0, "its application has asked for redundancy partner");
}

TEST_F(DaemonCommandsTest, ListAndShowAsJson) {
  const json list = json::parse(Run({"ls", "--json"}).out);
  EXPECT_EQ(list["from"], "daemon");
  EXPECT_EQ(list["datasets"][0]["level"], "local");
  const json show = json::parse(Run({"show", "heat", "17", "--json"}).out);
  EXPECT_EQ(list["datasets"][0]["bytes_written"], 4 << 20);
  EXPECT_EQ(show["dataset"], 17);
  EXPECT_EQ(show["bytes_written"], 4 << 20);
  EXPECT_EQ(show["ranks"][0]["bytes_written"], 1 << 20);
  EXPECT_EQ(show["ranks"][0]["variables"][0]["box_start"], json({2, 0}));
}

TEST_F(DaemonCommandsTest, RunsThatAreDirectoriesGoAsAbsolutePaths) {
  std::filesystem::create_directory(folder_ + "/real");
  std::filesystem::create_directory_symlink(folder_ + "/real", folder_ + "/link");
  Run({"pin", folder_ + "/link/../link", "17"});
  const std::string real = std::filesystem::canonical(folder_ + "/real").string();
  EXPECT_EQ(core_.asked(), (std::vector<std::string>{"pin " + real + " 17 on"}));
}

TEST_F(DaemonCommandsTest, NotFoundHasItsExitCode) {
  core_.list = NotFound("no run tepid is known to this daemon");
  ExpectSaid(Run({"ls", "tepid"}), 4, "no run tepid is known");
  core_.remove.mutable_status()->set_code(local::NOT_FOUND);
  core_.remove.mutable_status()->set_message("run heat has no whole dataset 9");
  ExpectSaid(Run({"rm", "heat", "9"}), 4, "no whole dataset 9");
}

TEST_F(DaemonCommandsTest, WaitTellsReachedFailedAndTooLateApart) {
  core_.wait.set_level(local::PREFIX);
  ExpectSaid(Run({"wait", "heat", "17", "prefix"}), 0, "dataset 17 is at level prefix");
  EXPECT_EQ(core_.asked().back(), "wait heat 17 5 2000");

  core_.wait.set_level(local::CAPTURED);
  core_.wait.mutable_status()->set_code(local::DEADLINE_EXCEEDED);
  ExpectSaid(Run({"wait", "heat", "17", "local", "--timeout", "50ms"}), 6, "its level is captured");

  core_.wait.mutable_status()->set_code(local::FAILED);
  core_.wait.mutable_status()->set_message("dataset 17 failed: rank 3 was lost");
  ExpectSaid(Run({"wait", "heat", "17", "local"}), 1, "rank 3 was lost");
}

TEST_F(DaemonCommandsTest, FlushCanWait) {
  core_.flush.set_dataset(18);
  ExpectSaid(Run({"flush", "heat"}), 0, "dataset 18 will be flushed");
  EXPECT_EQ(core_.asked(), (std::vector<std::string>{"flush heat 0"}));
  core_.wait.set_level(local::PREFIX);
  ExpectSaid(Run({"flush", "heat", "18", "--wait"}), 0, "dataset 18 is at level prefix");
  EXPECT_EQ(core_.asked().back(), "wait heat 18 5 2000");

  core_.wait.set_level(local::LOCAL);
  core_.wait.mutable_status()->set_code(local::DEADLINE_EXCEEDED);
  core_.wait.set_held_up_by("write /pfs/heat/x: No space left on device");
  const CairnRun late = Run({"flush", "heat", "18", "--wait", "--timeout", "5s"});
  ExpectSaid(late, 6, "its level is local: write /pfs/heat/x: No space left on device");
  const std::string note = "note: dataset 18 is not on the prefix yet: write /pfs/heat/x: No space";
  EXPECT_NE(late.err.find(note), std::string::npos) << late.err;
  EXPECT_EQ(late.err.find(note, late.err.find(note) + 1), std::string::npos) << "once: " << late.err;
}

TEST_F(DaemonCommandsTest, LeaveSaysThatNothingWouldBeMissedOrWhatAndWhy) {
  ExpectSaid(Run({"leave"}), 0, "it may go");
  EXPECT_EQ(core_.asked(), (std::vector<std::string>{"leave "}));
  EXPECT_EQ(json::parse(Run({"leave", "heat", "--json"}).out)["may_go"], true);

  admin::OnlyHere& one = *core_.leave.add_only_here();
  one.set_prefix("/scratch/\x1b[31mheat");
  one.set_dataset(17);
  one.set_step(120);
  one.set_bytes(400 << 20);
  one.set_why("the file system does not answer");
  const CairnRun late = Run({"leave", "heat", "--timeout", "2s"});
  EXPECT_EQ(late.exit_code, 6);
  EXPECT_EQ(late.out,
            "1 dataset would be missed if this node went now:\n"
            "  /scratch/?[31mheat: dataset 17 (step 120, 400.0 MiB here): the file system does not answer\n");
  const json late_too = json::parse(Run({"leave", "heat", "--timeout", "1s", "--json"}).out);
  EXPECT_EQ(late_too["may_go"], false);
  EXPECT_EQ(late_too["only_here"][0]["dataset"], 17);

  core_.leave.mutable_status()->set_code(local::FAILED_PRECONDITION);
  core_.leave.mutable_status()->set_message("ranks 0 of launch 3 are at work here");
  ExpectSaid(Run({"leave"}), 1, "ranks 0 of launch 3 are at work");
}

TEST_F(DaemonCommandsTest, PinAndRemove) {
  ExpectSaid(Run({"pin", "heat", "17"}), 0, "pinned");
  ExpectSaid(Run({"pin", "heat", "17", "--off"}), 0, "no longer pinned");
  EXPECT_EQ(json::parse(Run({"rm", "heat", "17", "--json"}).out)["removed"], true);
  EXPECT_EQ(core_.asked(), (std::vector<std::string>{"pin heat 17 on", "pin heat 17 off", "rm heat 17"}));
}

// One that brings, as the daemon tells of it.
void AddDrain(admin::StatusReply& status) {
  admin::DrainStatus& drain = *status.add_drains();
  drain.set_from("/bb/me");
  drain.set_to("/scratch/\x1bme");
  drain.set_state("bringing");
  drain.set_files(1234);
  drain.set_bytes(std::uint64_t{56} << 30);
  drain.set_files_left(331);
  drain.set_bytes_left(3 << 20);
  admin::DrainPass& pass = *drain.mutable_pass();
  pass.set_files(12);
  pass.set_files_all(340);
  pass.set_bytes(1 << 20);
  pass.set_bytes_all(4 << 20);
  pass.set_bytes_per_s(200 << 10);
  pass.set_left_ms(15'000);
}

TEST_F(DaemonCommandsTest, StatusTellsOfFoldersThatAreDrained) {
  AddDrain(core_.status);
  ExpectSaid(Run({"status"}), 0,
             "drain /bb/me to /scratch/?me: bringing, 12 of 340 files, 1.0 MiB of 4.0 MiB, 200.0 KiB/s, 15 s left\n"
             "  brought 1234 files, 56.0 GiB; still to come: 331 files, 3.0 MiB; the last pass ended: none has yet\n");
  admin::DrainStatus& drain = *core_.status.mutable_drains(0);
  drain.mutable_pass()->set_files_all(0);
  drain.set_state("looking");
  drain.mutable_pass()->set_began_us(1'700'000'000'000'000);
  drain.set_passed_us(1'700'000'000'000'000);
  ExpectSaid(Run({"status"}), 0, ": looking, since 2023-11-1");
  ExpectSaid(Run({"status"}), 0, "the last pass ended: 2023-11-1");
  drain.clear_pass();
  drain.set_state("waiting");
  drain.set_deleted(7);
  drain.set_waiting(3);
  drain.set_waits_first("a\nb\xff");
  drain.set_waits_why("somebody has it open for writing");
  drain.set_failed(2);
  drain.set_failed_last("c");
  drain.set_failed_why("Permission\tdenied");
  drain.set_left_out(1);
  drain.set_trouble("no news, only looks");
  drain.set_trouble_since_us(1'700'000'000'000'000);
  CairnRun run = Run({"status"});
  for (const char* line :
       {": waiting\n", "56.0 GiB, 7 deleted from the source; still",
        "  3 waiting, first a?b\xff: somebody has it open for writing\n", "  2 FAILED, last c: Permission?denied\n",
        "  1 left out: no files, folders or links\n", ": no news, only looks\n"}) {
    ExpectSaid(run, 0, line);
  }
  drain.set_state("failed");
  drain.set_trouble("/bb/me: gone");
  run = Run({"status"});
  ExpectSaid(run, 0, "drain /bb/me to /scratch/?me: failed\n");
  ExpectSaid(run, 0, ": /bb/me: gone; it is tried again\n");
  const json told = json::parse(Run({"--json", "status"}).out)["drains"][0];
  EXPECT_EQ(told["failed"], 2);
  EXPECT_EQ(told["waits_first"], "a\nb\ufffd");
  EXPECT_TRUE(told["pass"].is_null());
}

TEST_F(DaemonCommandsTest, DrainsAtATerminalHaveBars) {
  AddDrain(core_.status);
  const CairnRun run = testing::RunCairnOnTerminal({"status"}, Environment());
  ExpectSaid(run, 0, "bringing [###.........] 12 of 340 files, 1.0 MiB of 4.0 MiB, 200.0 KiB/s, 15 s left");
  EXPECT_EQ(run.out.find('\x1b'), std::string::npos);
}

TEST_F(DaemonCommandsTest, StatusTellsWhatLiesAsideAndWhenItGoes) {
  admin::RunStatus& run = *core_.status.add_runs();
  run.set_run("0123456789abcdef0123456789abcdef");
  run.set_prefix("/pfs/aside");
  run.set_cache_folder("/ssd/me/scr.aside");
  admin::AsideStatus& aside = *run.mutable_aside();
  aside.set_damaged(2);
  aside.set_damaged_bytes(3 << 20);
  aside.set_damaged_since_us(1'700'000'000'000'000);
  ExpectSaid(Run({"status"}), 0, "set aside as damaged in /ssd/me/scr.aside: 2 items, 3.0 MiB, the oldest since 20");
  ExpectSaid(Run({"status"}), 0, "; the daemon removes this when space is needed\n");
  aside.set_goes_us(1'800'000'000'000'000);
  ExpectSaid(Run({"status"}), 0, "; the daemon removes this on 2027-01-");
  aside.clear_damaged();
  aside.set_taken(1);
  aside.set_taken_bytes(50);
  const CairnRun told = Run({"status"});
  ExpectSaid(
      told, 0,
      "  kept as /ssd/me/scr.aside/taken.*: 1 whole dataset, 50 B; other datasets now have the same numbers; `cairn "
      "rm 01234567 --set-aside all` removes this\n");
  EXPECT_EQ(told.out.find("as damaged"), std::string::npos);
}

TEST_F(DaemonCommandsTest, WhatLiesAsideIsRemovedWhenAsked) {
  core_.remove.set_set_aside(2);
  core_.remove.set_set_aside_bytes(3 << 20);
  ExpectSaid(Run({"rm", "heat", "--set-aside", "damaged"}), 0, "removed from the cache: 2 items, 3.0 MiB\n");
  core_.remove.set_in_use(1);
  const json told = json::parse(Run({"rm", "heat", "--set-aside", "all", "--json"}).out);
  EXPECT_EQ(told, (json{{"removed", 2}, {"bytes", 3 << 20}, {"in_use", 1}}));
  core_.remove.clear_set_aside();
  ExpectSaid(Run({"rm", "heat", "--set-aside", "all"}), 0, "nothing that was set aside can be removed; in use");
  EXPECT_EQ(core_.asked(), (std::vector<std::string>{"rm heat 0 aside 1", "rm heat 0 aside 2", "rm heat 0 aside 2"}));
  EXPECT_EQ(Run({"rm", "heat"}).exit_code, 2);
  EXPECT_EQ(Run({"rm", "heat", "3", "--set-aside", "all"}).exit_code, 2);
  EXPECT_EQ(Run({"rm", "heat", "--set-aside", "some"}).exit_code, 2);
}

TEST_F(DaemonCommandsTest, TheDaemonIsFoundWhereTheLibraryLooks) {
  const CairnRun run = RunCairn({"status"}, {{"XDG_RUNTIME_DIR", folder_}});
  ExpectSaid(run, 0, "process 4711");
  const CairnRun given = RunCairn({"--address", socket_, "status"});
  ExpectSaid(given, 0, "process 4711");
}

TEST_F(DaemonCommandsTest, TheSocketBesideTheApplicationsIsFoundByTheApplicationsAddress) {
  const std::string address = "unix:" + folder_ + "/cairn/cairnd.sock";
  ExpectSaid(RunCairn({"status"}, {{"CAIRN_ADDRESS", address}}), 0, "process 4711");
  ExpectSaid(RunCairn({"status"}, {{"CAIRN_ADDRESS", "grpc+unix:" + socket_}}), 0, "process 4711");
  const std::string other = folder_ + "/none.sock";
  ExpectSaid(RunCairn({"status"}, {{"CAIRN_ADDRESS", address}, {"CAIRN_ADMIN_ADDRESS", other}}), 3, other);
}

TEST_F(DaemonCommandsTest, NoDaemonHasItsExitCodeAndSaysWhereItLooked) {
  const CairnRun run = RunCairn({"status"}, {{"CAIRN_ADMIN_ADDRESS", "grpc+unix:" + folder_ + "/none.sock"}});
  ExpectSaid(run, 3, folder_ + "/none.sock (No such file or directory)");
  EXPECT_EQ(run.out, "");
  ExpectSaid(RunCairn({"--address", "tcp:1", "status"}), 1, "no address of a daemon");
}

TEST_F(DaemonCommandsTest, CommandsOnAPrefixFindItByTheRunsNameAlsoBeforeItHasDatasets) {
  const std::string prefix = std::filesystem::canonical(folder_).string() + "/heat";
  std::filesystem::create_directories(prefix + "/.cairn");
  core_.status.mutable_runs(0)->set_prefix(prefix);
  core_.status.mutable_runs(0)->set_cache_folder("/ssd/cache/me/scr.heat-01234567");
  core_.list->clear_datasets();
  for (const char* name : {"heat", "heat-01234567", "0123"}) {
    ExpectSaid(Run({"halt", name, "-c", "1"}), 0, prefix + ": goes on");
    ExpectSaid(Run({"index", "list", name}), 0, "DSET  VALID");
  }
  for (const char* name : {"cool", "012", "scr.heat-01234567"}) {
    ExpectSaid(Run({"halt", name}), 4, std::string("run ") + name + " has no datasets");
  }
  core_.list->add_datasets()->set_prefix(prefix);
  ExpectSaid(Run({"halt", "whatever the daemon knows", "--list"}), 0, "CheckpointsLeft 1");
}

}  // namespace
}  // namespace cairn
