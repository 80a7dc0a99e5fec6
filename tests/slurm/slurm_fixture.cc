#include "tests/slurm/slurm_fixture.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>

namespace cairn::testing {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

const auto* const kOneSite = ::testing::AddGlobalTestEnvironment(new OneSite);

std::string Tail(const std::string& text, std::size_t lines) {
  std::size_t at = text.size();
  for (std::size_t i = 0; i <= lines && at != std::string::npos && at > 0; ++i) at = text.rfind('\n', at - 1);
  return at == std::string::npos || at == 0 ? text : text.substr(at + 1);
}

std::string Indented(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) out += "    " + line + "\n";
  return out;
}

}  // namespace

void OneSite::SetUp() {
  auto started = SlurmSite::Start(more);
  // Root may lack what it takes (mounts, namespaces), or Slurm: then nothing is shown, and nothing is wrong.
  const char* const ci = std::getenv("CI");
  const bool must_run = ci != nullptr && std::string_view(ci) == "true" && ::geteuid() == 0;
  if (absl::IsFailedPrecondition(started.status()) && !must_run) {
    GTEST_SKIP() << "no Slurm here: " << started.status().ToString();
  }
  ASSERT_TRUE(started.ok()) << started.status().ToString();
  site = *std::move(started);
}

void OneSite::TearDown() {
  if (!site) return;
  site->ShowTimes();
  site.reset();
}

void SlurmTest::SetUp() {
  std::cout << "--- " << ::testing::UnitTest::GetInstance()->current_test_info()->name() << std::endl;
  for (const char* user : {"alice", "bob"}) {
    EXPECT_EQ(site().As(user, "mkdir -p runs").exit_code, 0);
  }
}

void SlurmTest::TearDown() {
  for (const int job : jobs_) {
    if (HasFailure()) Show("alice", job, {2, 3, 4, 5});
    site().AsRoot(SlurmSite::kController, "scancel " + std::to_string(job));
  }
  for (int node = SlurmSite::kFirst; HasFailure() && node <= SlurmSite::kLast; ++node) {
    std::istringstream lines(site().DaemonLogOf(node));
    std::cout << "--- daemon's log on n" << node << ", without what is usual:\n";
    for (std::string line; std::getline(lines, line);) {
      const bool usual = line.find("leaves the cache") != line.npos || line.find("protect each other") != line.npos ||
                         line.find("is redundant") != line.npos || line.find("linked, node") != line.npos;
      if (!usual && line.find(Name()) != line.npos) std::cout << line << "\n";
    }
  }
  site().Mend();
  site().Configure("");
  for (int node = SlurmSite::kFirst; node <= SlurmSite::kLast; ++node) {
    EXPECT_TRUE(site().AwaitIdle(node)) << "n" << node << " is " << site().NodeState(node) << ": "
                                        << site().NodeReason(node);
  }
}

std::string SlurmTest::Name() const {
  return ::testing::UnitTest::GetInstance()->current_test_info()->name();
}

std::vector<Event> SlurmTest::Events(const std::string& log) const {
  std::vector<Event> events;
  std::ifstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Event event;
    words >> event.at_ms >> event.rank >> event.what;
    std::getline(words >> std::ws, event.text);
    std::istringstream numbers(event.text);
    for (std::uint64_t number = 0; numbers >> number;) event.numbers.push_back(number);
    events.push_back(std::move(event));
  }
  return events;
}

std::vector<Event> SlurmTest::EventsNamed(const std::string& log, const std::string& what) const {
  std::vector<Event> events = Events(log);
  std::erase_if(events, [&](const Event& event) { return event.what != what; });
  return events;
}

bool SlurmTest::AwaitEvent(const std::string& log, const std::string& what, std::size_t count, seconds deadline) const {
  return Within([&] { return EventsNamed(log, what).size() >= count; }, deadline);
}

std::uint64_t SlurmTest::NewestCaptured(const std::string& log) const {
  std::map<std::string, std::uint64_t> newest;  // by rank
  for (const Event& event : EventsNamed(log, "captured")) {
    newest[event.rank] = std::max(newest[event.rank], event.numbers.at(0));
  }
  const auto least = std::ranges::min_element(newest, {}, [](const auto& rank) { return rank.second; });
  return least == newest.end() ? 0 : least->second;
}

std::string SlurmTest::Script(const std::string& lines, const std::string& user) {
  const std::string path = site().HomeOf(user) + "/" + Name() + "." + std::to_string(++scripts_) + ".sh";
  std::ofstream(path) << "#!/bin/bash\n" << lines << "\n";
  fs::permissions(path, fs::perms(0755));
  return path;
}

void SlurmTest::Show(const std::string& user, int job, const std::vector<int>& nodes) {
  const JobFacts facts = site().Job(job);
  const auto fact = [&](const char* name) {
    const auto at = facts.find(name);
    return at == facts.end() ? std::string("?") : at->second;
  };
  std::cout << "  the user sees of job " << job << ": " << fact("JobState") << ", reason " << fact("Reason") << ", "
            << fact("Restarts") << " restarts, exit " << fact("ExitCode") << "\n"
            << Indented(Tail(site().OutputOf(user, job), 14));
  for (const int node : nodes) {
    const std::string log = Tail(site().LogOf(node), 4);
    if (!log.empty()) std::cout << "  the operator sees on n" << node << ":\n" << Indented(log);
  }
  std::cout << std::flush;
}

}  // namespace cairn::testing
