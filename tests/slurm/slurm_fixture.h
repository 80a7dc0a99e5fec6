// What the tests under a real Slurm have in common: one site for all of a program's tests, users' scripts and logs, and
// what a scenario prints.
#ifndef CAIRN_TESTS_SLURM_SLURM_FIXTURE_H_
#define CAIRN_TESTS_SLURM_SLURM_FIXTURE_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/slurm/site.h"

namespace cairn::testing {

// It takes some seconds to start.
class OneSite : public ::testing::Environment {
 public:
  void SetUp() override;
  void TearDown() override;
  inline static std::unique_ptr<SlurmSite> site;
  inline static std::string more = "PrologFlags=Alloc\n";  // of slurm.conf; to be set before tests run
};

// A line of the solver's log (solver.cc).
struct Event {
  std::int64_t at_ms = 0;
  std::string rank, what;
  std::vector<std::uint64_t> numbers;
  std::string text;  // all behind `what`
};

class SlurmTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  static SlurmSite& site() { return *OneSite::site; }

  // A run of its own for each test: its prefix, and the solver's log.
  std::string Name() const;
  std::string PrefixOf(const std::string& user = "alice") const { return site().HomeOf(user) + "/runs/" + Name(); }
  std::string LogOf(const std::string& user = "alice", const std::string& what = "log") const {
    return site().HomeOf(user) + "/" + Name() + "." + what;
  }
  // Of the solver, after these many seconds at most; "" if there is none.
  std::vector<Event> Events(const std::string& log) const;
  bool AwaitEvent(const std::string& log, const std::string& what, std::size_t count = 1,
                  std::chrono::seconds deadline = std::chrono::seconds(60)) const;
  std::vector<Event> EventsNamed(const std::string& log, const std::string& what) const;
  std::uint64_t NewestCaptured(const std::string& log) const;  // step, by all ranks that have captured any
  // A batch script of the user's, that has these lines; its path.
  std::string Script(const std::string& lines, const std::string& user = "alice");
  // What user and operator see of a job, for the test's output.
  void Show(const std::string& user, int job, const std::vector<int>& nodes = {});
  bool IsOnPrefix(std::uint64_t dataset, const std::string& prefix) const {
    return std::filesystem::exists(prefix + "/.scr/scr.dataset." + std::to_string(dataset) + "/commit.cairn");
  }

  int scripts_ = 0;
  std::vector<int> jobs_;  // ended at the end of the test
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_SLURM_SLURM_FIXTURE_H_
