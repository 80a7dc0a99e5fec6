// What `cairn index list` costs from the start of the process to its end, in a prefix of many datasets, against the
// limit: a process that only starts and ends (`cairn --version`), and reading the index file as it is. Each round
// measures all of them, by the wall and by the CPU clock. Also `--all`, `--json`, and `cairn print` of the same file.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/check.h"
#include "storage/base/unique_fd.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/records.h"
#include "tests/bench/arguments.h"
#include "tests/bench/ratio.h"
#include "tests/support/runfiles/runfiles.h"

namespace cairn {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// As Cairn and SCR would have left it after so many checkpoints, every tenth of them also an output.
std::string IndexOf(int datasets) {
  kvtree::Tree tree;
  for (int id = 1; id <= datasets; ++id) {
    scr::IndexEntry entry;
    entry.descriptor.id = static_cast<DatasetId>(id);
    entry.descriptor.name = fmt::format("ckpt.{}", id);
    entry.descriptor.output = id % 10 == 0;
    entry.descriptor.created_us = 1'795'160'231'316'929 + id;
    entry.descriptor.user = "alice";
    entry.descriptor.job_id = "4242";
    entry.descriptor.job_name = "demo_job";
    entry.descriptor.files = 128;
    entry.descriptor.bytes = 5'000'000'000;
    entry.descriptor.complete = true;
    entry.descriptor.launch = 1;
    entry.descriptor.step = 10u * static_cast<unsigned>(id);
    entry.descriptor.ranks = 64;
    entry.complete = true;
    entry.flushed = "2026-11-20T07:37:12";
    scr::PutIndexEntry(entry, tree);
  }
  scr::SetCurrent(fmt::format("ckpt.{}", datasets), tree);
  return kvtree::Encode(tree);
}

struct Cost {
  double wall_s = 0, cpu_s = 0;
};

// What the command takes; its output goes to a file, as into a pager or a script.
Cost RunCost(std::vector<std::string> arguments, const std::string& output) {
  arguments.insert(arguments.begin(), testing::Runfile("client/cli/cairn"));
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  const Clock::time_point begin = Clock::now();
  pid_t pid = -1;
  CAIRN_CHECK(posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ) == 0);
  int status = -1;
  rusage usage{};
  CAIRN_CHECK(wait4(pid, &status, 0, &usage) == pid);
  const double wall_s = SecondsSince(begin);
  posix_spawn_file_actions_destroy(&actions);
  CAIRN_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return {.wall_s = wall_s, .cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime)};
}

double RawReadSeconds(const std::string& path, std::uint64_t bytes) {
  std::string buffer(bytes, '\0');
  const Clock::time_point begin = Clock::now();
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  CAIRN_CHECK(file.get() >= 0);
  CAIRN_CHECK(read(file.get(), buffer.data(), bytes) == static_cast<ssize_t>(bytes));
  return SecondsSince(begin);
}

void Report(const std::string& what, std::vector<double> seconds) {
  std::ranges::sort(seconds);
  const auto ms = [&](std::size_t quarter) { return 1e3 * seconds[(seconds.size() - 1) * quarter / 4]; };
  fmt::print("{:<30} {:7.2f} ms (quartiles {:.2f} to {:.2f}, {} samples)\n", what, ms(2), ms(1), ms(3), seconds.size());
}

void Report(const std::string& what, const std::vector<Cost>& costs) {
  std::vector<double> wall, cpu;
  for (const Cost& cost : costs) {
    wall.push_back(cost.wall_s);
    cpu.push_back(cost.cpu_s);
  }
  Report(what + ", wall", std::move(wall));
  Report(what + ", cpu", std::move(cpu));
}

void Measure(int datasets, int rounds) {
  std::string folder = (std::filesystem::temp_directory_path() / "cairn-index-bench-XXXXXX").string();
  CAIRN_CHECK(mkdtemp(folder.data()) != nullptr);
  std::filesystem::create_directory(folder + "/.scr");
  const std::string index = folder + "/.scr/index.scr", output = folder + "/output", bytes = IndexOf(datasets);
  std::ofstream(index, std::ios::binary) << bytes;
  fmt::print("{} datasets, {} bytes of index\n", datasets, bytes.size());
  const std::vector<std::pair<std::string, std::vector<std::string>>> commands = {
      {"cairn --version", {"--version"}},
      {"cairn index list", {"index", "list", folder}},
      {"cairn index list --all", {"index", "list", folder, "--all"}},
      {"cairn index list --json", {"index", "list", folder, "--json"}},
      {"cairn print", {"print", index}}};
  std::vector<std::vector<Cost>> costs(commands.size());
  std::vector<double> raw;
  std::vector<bench::Ratio> ratios;
  for (int round = 0; round < rounds; ++round) {
    raw.push_back(RawReadSeconds(index, bytes.size()));
    for (std::size_t i = 0; i < commands.size(); ++i) costs[i].push_back(RunCost(commands[i].second, output));
    ratios.push_back({.measured = costs[1].back().wall_s, .limit = costs[0].back().wall_s + raw.back()});
  }
  Report("reading index.scr", raw);
  for (std::size_t i = 0; i < commands.size(); ++i) Report(commands[i].first, costs[i]);
  bench::PrintRatios("cairn index list", ratios, "an empty process and the read");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  int datasets = 10'000, rounds = 15;
  cairn::bench::ReadArguments(argc, argv, "What cairn index list costs.",
                              {{"DATASETS", "in the index", cairn::bench::Number(datasets)},
                               {"ROUNDS", "so many times", cairn::bench::Number(rounds)}});
  cairn::Measure(datasets, rounds);
  return 0;
}
