// What people see at a terminal: `cairn status`, redrawn in place, and `cairn ls`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <map>
#include <string>
#include <thread>

#include "tests/client/cli/daemon_fixture.h"
#include "tests/client/cli/run_cairn.h"

namespace cairn {
namespace {

using testing::CairnOnTerminal;
using testing::CairnRun;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RunCairnOnTerminal;

constexpr const char* kTakeWindow = "\x1b[?1049h\x1b[?25l";
constexpr const char* kGiveBackWindow = "\x1b[?25h\x1b[?1049l";
constexpr const char* kHome = "\x1b[H";

class WatchTest : public testing::DaemonFixture {
 protected:
  std::map<std::string, std::string> Colourful() const {
    auto environment = Environment();
    environment["TERM"] = "xterm";
    environment["LANG"] = "C.UTF-8";
    return environment;
  }
};

TEST_F(WatchTest, ListShowsTheLadderAndWhatIsNotUsual) {
  const CairnRun run = RunCairnOnTerminal({"ls"}, Colourful());
  EXPECT_THAT(run.out, HasSubstr("\x1b[1mrun 01234567\x1b[0m  /scratch/heat\r\n"));
  EXPECT_THAT(run.out, HasSubstr("\x1b[36m▂▄\x1b[0m\x1b[2m··\x1b[0m \x1b[36mlocal\x1b[0m  400.0 MiB"));
  EXPECT_THAT(run.out, HasSubstr("  cache  pinned\r\n"));
  auto plain = Colourful();
  plain["NO_COLOR"] = "1";
  EXPECT_EQ(RunCairnOnTerminal({"ls"}, plain).out,
            "run 01234567  /scratch/heat\r\n"
            "DATASET  STEP  LAUNCH  RANKS  SAFE             SIZE         AGE  WHERE\r\n"
            "     17   120       0      4  ▂▄·· local  400.0 MiB  2023-11-14  cache  pinned\r\n");
  plain["LANG"] = "C";
  EXPECT_THAT(RunCairnOnTerminal({"ls"}, plain).out, HasSubstr("4  [##..] local  400.0 MiB"));
}

TEST_F(WatchTest, ColoursAreAskedForOrForbidden) {
  EXPECT_THAT(Run({"ls", "--color", "always"}).out, HasSubstr("\x1b[36m##\x1b[0m"));
  EXPECT_THAT(Run({"--color", "auto", "ls"}).out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(RunCairnOnTerminal({"ls", "--color", "never"}, Colourful()).out, Not(HasSubstr("\x1b")));
  EXPECT_EQ(Run({"ls", "--color", "sometimes"}).exit_code, 2);
  EXPECT_EQ(Run({"ls", "--json", "--color", "always"}).out, Run({"ls", "--json"}).out);
}

TEST_F(WatchTest, StatusShowsTheNewestDatasetsOfEachRun) {
  core_.status.mutable_runs(0)->set_prefix("/scratch/heat");
  for (std::uint64_t id = 18; id < 25; ++id) {
    admin::DatasetRow& row = *core_.list->add_datasets();
    row = core_.list->datasets(0);
    row.set_dataset(id);
    row.set_level(local::PREFIX);
    row.set_in_prefix(true);
  }
  core_.list->mutable_datasets(7)->set_state("failed");
  core_.list->mutable_datasets(7)->set_level(local::NONE);
  const CairnRun run = RunCairnOnTerminal({"status"}, Colourful());
  EXPECT_THAT(run.out, HasSubstr(" 24   120       0      4  \x1b[2m····\x1b[0m \x1b[2mnone\x1b[0m"));
  EXPECT_THAT(run.out, HasSubstr("\x1b[1;31mfailed\x1b[0m, pinned"));
  EXPECT_THAT(run.out, HasSubstr(" 20   120       0      4  \x1b[32m▂▄▆█\x1b[0m \x1b[32mprefix\x1b[0m"));
  EXPECT_THAT(run.out, Not(HasSubstr(" 19   120")));
  EXPECT_THAT(run.out, HasSubstr("and 3 older datasets, 2 of them on the prefix"));
  EXPECT_LT(run.out.find(" 24   120"), run.out.find(" 20   120")) << "newest first";

  core_.list->mutable_datasets(0)->set_in_prefix(true);
  EXPECT_THAT(RunCairnOnTerminal({"status"}, Colourful()).out, HasSubstr("and 3 older datasets, all on the prefix"));
}

TEST_F(WatchTest, WatchDrawsInPlaceAndGivesTheWindowBackOnCtrlC) {
  CairnOnTerminal cairn({"status", "--watch", "--interval", "10ms"}, Colourful());
  cairn.WaitFor(kTakeWindow);
  for (int frame = 0; frame < 3; ++frame) {
    cairn.WaitFor(kHome);
    const std::string drawn = cairn.WaitFor("Ctrl-C ends\x1b[0m\x1b[K\x1b[J");
    EXPECT_THAT(drawn, HasSubstr("process 4711"));
    EXPECT_THAT(drawn, Not(HasSubstr("\x1b[2J"))) << "clearing all of it first flickers";
  }
  cairn.Send(SIGINT);
  cairn.WaitFor(kGiveBackWindow);
  const CairnRun run = cairn.End();
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("process 4711")) << "the last frame stays";
  EXPECT_THAT(run.out, Not(HasSubstr(kTakeWindow)));
}

TEST_F(WatchTest, WatchIsEndedAlsoWhileTheDaemonDoesNotAnswer) {
  core_.hold_status = true;
  CairnOnTerminal cairn({"status", "--watch"}, Colourful());
  while (core_.status_count < 1) std::this_thread::yield();
  cairn.Send(SIGTERM);
  cairn.WaitFor(kGiveBackWindow);
  EXPECT_EQ(cairn.End().exit_code, 0);
  core_.AnswerHeld();
}

TEST_F(WatchTest, WatchGivesTheWindowBackWhileItIsStopped) {
  CairnOnTerminal cairn({"status", "--watch", "--interval", "1h"}, Colourful());
  cairn.WaitFor("Ctrl-C ends");
  cairn.Send(SIGTSTP);
  cairn.WaitFor(kGiveBackWindow);
  cairn.WaitForState('T');
  cairn.Send(SIGCONT);
  cairn.WaitFor(kTakeWindow);
  cairn.WaitFor("Ctrl-C ends");  // at once, not after an hour
  cairn.Send(SIGHUP);
  EXPECT_EQ(cairn.End().exit_code, 0);
}

TEST_F(WatchTest, WatchEndsWithTheDaemonAndSaysSoInTheWindowAsItWas) {
  CairnOnTerminal cairn({"status", "--watch", "--interval", "10ms"}, Colourful());
  cairn.WaitFor("Ctrl-C ends");
  door_.reset();
  cairn.WaitFor(kGiveBackWindow);
  const CairnRun run = cairn.End();
  EXPECT_EQ(run.exit_code, 3) << run.err;
  EXPECT_THAT(run.err, HasSubstr("cairn: "));
}

TEST_F(WatchTest, WhatDoesNotFitIsCutAtTheEdge) {
  CairnOnTerminal cairn({"status", "--watch", "--interval", "1h"}, Colourful(), /*rows=*/4, /*columns=*/20);
  cairn.WaitFor("\x1b[1mcairn test on node1\x1b[0m,\x1b[K\r");
  const std::string rest = cairn.WaitFor(" lines more");
  EXPECT_THAT(rest, HasSubstr("images  "));
  EXPECT_THAT(rest, Not(HasSubstr("run 01234567"))) << "there are four lines";
}

TEST_F(WatchTest, ADumbTerminalGetsFrameAfterFrame) {
  CairnOnTerminal cairn({"status", "--watch", "--interval", "10ms"}, Environment());
  cairn.WaitFor("process 4711");
  EXPECT_THAT(cairn.WaitFor("process 4711"), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace cairn
