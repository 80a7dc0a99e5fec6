#include "tests/support/cluster/cluster.h"

#include <signal.h>

#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "tests/support/cluster/control.h"
#include "tests/support/cluster/host.h"
#include "tests/support/cluster/node_process.h"
#include "tests/support/cluster/wiring.h"

namespace cairn::testing {
namespace {

constexpr std::chrono::seconds kStartDeadline{120}, kEndDeadline{120};

// The longest path of a socket has 107 bytes; this much is for what lies below the folder.
constexpr std::size_t kFolderNameMax = 107 - std::string_view("/n250/run/cairnd-grpc.sock.new").size();

// In TEST_TMPDIR, if that is short enough: Bazel kills whatever a killed test has left, the host, too, before it can
// remove its folder; but it removes that one.
std::string NewFolderName() {
  std::random_device random;
  const std::string name = fmt::format("cairn-{:08x}", random());
  const char* const folder = std::getenv("TEST_TMPDIR");
  const std::string path = fmt::format("{}/{}", folder == nullptr ? "/tmp" : folder, name);
  return path.size() <= kFolderNameMax ? path : "/tmp/" + name;
}

class ClusterImpl final : public Cluster {
 public:
  ClusterImpl(const Options& options, std::string folder) : options_(options), folder_(std::move(folder)) {}

  ~ClusterImpl() override {
    nodes_.clear();
    if (host_ == nullptr) return;
    host_->Signal(SIGTERM);
    const Ending ending = host_->Wait(kEndDeadline);
    // It does so itself, unless somebody has killed it.
    std::error_code ignored;
    if (ending.exit_code != kHostEnded) std::filesystem::remove_all(folder_, ignored);
    EXPECT_EQ(ending.output, "ready\n");
  }

  absl::Status Start() {
    std::vector<std::string> arguments = {agent_, "host", folder_, std::to_string(options_.nodes)};
    for (const auto& [node, ahead] : options_.clocks_ahead) {
      arguments.push_back(fmt::format("{}={}", node, ahead.count()));
    }
    host_ = Process::Start({.arguments = std::move(arguments), .environment = {}, .working_directory = {}});
    if (host_ == nullptr) return Unavailable("{} does not start", agent_);
    if (!host_->WaitForOutput("ready\n", kStartDeadline)) {
      const Ending ending = std::exchange(host_, nullptr)->Wait(std::chrono::seconds(30));
      return ending.exit_code == kHostNotAllowed ? PermissionDenied("{}", ending.output)
                                                 : Unavailable("{}", ending.output);
    }
    for (int node = 1; node <= options_.nodes; ++node) {
      nodes_.push_back(std::make_unique<Harness>(
          Harness::Place{.folder = fmt::format("{}/{}", folder_, host(node)), .prefix = prefix()},
          [this, node](const Process::Options& options) { return StartProgram(node, options); }));
    }
    return absl::OkStatus();
  }

  int nodes() const override { return options_.nodes; }
  const std::string& folder() const override { return folder_; }
  Harness& node(int node) override { return *nodes_.at(static_cast<std::size_t>(node - 1)); }

  std::unique_ptr<Process> StartProgram(int node, Process::Options options) override {
    const std::string there = Command("pid " + std::to_string(node));
    if (there.empty()) return nullptr;
    return StartOnNode(agent_, std::atoi(there.c_str()), folder_, std::move(options));
  }

  void PowerOff(int node) override {
    Command("off " + std::to_string(node));
    if (this->node(node).daemon() != nullptr) this->node(node).KillDaemon();
  }
  void PowerOn(int node) override { Command("on " + std::to_string(node)); }

 private:
  const Options options_;
  const std::string folder_, agent_ = DataPath("tests/support/cluster/cluster_agent");
  std::unique_ptr<Process> host_;
  std::vector<std::unique_ptr<Harness>> nodes_;
};

// Has every thread of it stopped?
bool IsStopped(pid_t pid) {
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid), error)) {
    std::string line;
    std::getline(std::ifstream(thread.path() / "stat"), line);
    // "PID (NAME) STATE …", and a name may hold anything.
    const std::size_t name_end = line.rfind(") ");
    if (name_end != std::string::npos && line[name_end + 2] != 'T') return false;
  }
  return !error;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Cluster>> Cluster::Start(const Options& options) {
  if (options.nodes < 1 || options.nodes > kNodesMax) {
    return InvalidArgument("a cluster has 1 to {} nodes, not {}", kNodesMax, options.nodes);
  }
  for (const auto& [node, ahead] : options.clocks_ahead) {
    if (node < 1 || node > options.nodes || ahead.count() < 0) {
      return InvalidArgument("the clocks of n{} cannot be {} s ahead", node, ahead.count());
    }
  }
  auto cluster = std::make_unique<ClusterImpl>(options, NewFolderName());
  CAIRN_RETURN_IF_ERROR(cluster->Start());
  return cluster;
}

std::string Cluster::address(int node) {
  return AddressOfNode(node);
}

Ending Cluster::Run(int node, Process::Options options, std::chrono::seconds deadline) {
  const std::unique_ptr<Process> program = StartProgram(node, std::move(options));
  return program ? program->Wait(deadline) : Ending();
}

void Cluster::PauseDaemon(int node) {
  Process& daemon = *this->node(node).daemon();
  daemon.Signal(SIGSTOP);
  // It may still run until the kernel says so.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!IsStopped(daemon.pid())) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "the daemon of " << host(node) << " does not stop";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Cluster::ResumeDaemon(int node) {
  this->node(node).daemon()->Signal(SIGCONT);
}

std::map<std::string, std::string> Cluster::CalendarAhead(std::chrono::seconds ahead) {
  return {{"LD_PRELOAD", DataPath("tests/support/cluster/libskewed_clock.so")},
          {"CAIRN_TEST_CALENDAR_AHEAD", std::to_string(ahead.count())}};
}

void Cluster::Partition(const std::vector<std::vector<int>>& groups) {
  std::string line = "partition";
  for (const std::vector<int>& group : groups) line += fmt::format(" {}", fmt::join(group, ","));
  Command(line);
}

void Cluster::Throttle(int node, std::uint64_t bits_per_second) {
  Command(fmt::format("throttle {} {}", node, bits_per_second));
}

void Cluster::Delay(int node, std::chrono::milliseconds delay) {
  Command(fmt::format("delay {} {}", node, delay.count()));
}

std::string Cluster::Command(const std::string& line) {
  const auto answer = Ask(folder(), line);
  if (answer.ok()) return *answer;
  ADD_FAILURE() << line << ": " << answer.status().ToString();
  return "";
}

bool MaySkip(const absl::Status& started) {
  const char* const ci = std::getenv("CI");
  const bool must_run = ci != nullptr && std::string_view(ci) == "true" && ::geteuid() == 0;
  return started.code() == absl::StatusCode::kPermissionDenied && !must_run;
}

}  // namespace cairn::testing
