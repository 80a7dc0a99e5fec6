// A solver for jobs of the tests: one rank of a launch under srun. It resumes, checks what came back, computes steps,
// checkpoints, asks whether it is to stop, and writes down what it sees.
//
//   solver --log FILE [--steps N] [--every N] [--ms N] [--mib N] [--done FILE] [--linger] [--deadline MS]
//          [--safe N] [--safe-at redundant|prefix] [--wait local|prefix]
//
// Lines of the log, each with the time in milliseconds since the epoch in front, and the rank:
//   "fresh" | "resumed STEP DATASET TIER"    "captured STEP DATASET"    "stops STEP WHY"    "done STEP"    "fenced
//   STEP"
// --done FILE: rank 0 makes it when all steps are done.   --linger: then it sleeps on.
// --wait LEVEL: the last checkpoint is waited for, before "done".   --safe N: each N-th step's is waited for until it
// has the level of --safe-at (prefix), and then "safe STEP DATASET" is written down. Exit: 0 done, or told to stop;
// 3 wrong bytes came back; 6 shut out by a newer launch; 1 anything else.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "client/cairn.h"

namespace {

struct Options {
  std::string log, done, wait, safe_at = "prefix";
  std::uint64_t steps = 10, every = 1, safe = 0;
  int ms = 20;
  std::size_t mib = 4;
  bool linger = false;
  std::uint32_t deadline_ms = 0;
};

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto next = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (name == "--log") options.log = next();
    if (name == "--done") options.done = next();
    if (name == "--wait") options.wait = next();
    if (name == "--steps") options.steps = std::stoull(next());
    if (name == "--every") options.every = std::stoull(next());
    if (name == "--ms") options.ms = std::stoi(next());
    if (name == "--mib") options.mib = std::stoull(next());
    if (name == "--safe") options.safe = std::stoull(next());
    if (name == "--safe-at") options.safe_at = next();
    if (name == "--deadline") options.deadline_ms = static_cast<std::uint32_t>(std::stoul(next()));
    if (name == "--linger") options.linger = true;
  }
  return options;
}

std::string Rank() {
  const char* const rank = std::getenv("SLURM_PROCID");
  return rank == nullptr ? "0" : rank;
}

class Log {
 public:
  explicit Log(const std::string& path) : fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {}
  void Write(const std::string& what) const {
    using std::chrono::milliseconds;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const std::string line =
        fmt::format("{} {} {}\n", std::chrono::duration_cast<milliseconds>(now).count(), Rank(), what);
    if (write(fd_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::_Exit(5);
    fmt::print("rank {} {}\n", Rank(), what);
    std::fflush(stdout);
  }

 private:
  const int fd_;
};

struct State {
  std::uint64_t step = 0;
  std::vector<std::uint64_t> field;
};

std::uint64_t WordAt(std::uint64_t step, std::size_t i) {
  return step * 0x9E3779B97F4A7C15ull + std::stoull(Rank()) * 0xC2B2AE3D27D4EB4Full + i;
}

int Complain(const char* what, const cairn_session* session) {
  fmt::print("rank {}: {}: {}\n", Rank(), what, cairn_error(session));
  std::fflush(stdout);
  return 1;
}

int Resume(cairn_session* session, State& state, const Log& log) {
  const int code = cairn_resume(session, nullptr);
  if (code == CAIRN_NOT_FOUND) {
    log.Write("fresh");
    return 0;
  }
  if (code != CAIRN_OK) return Complain("resume", session);
  std::uint64_t dataset = 0;
  std::int32_t tier = 0;
  cairn_restored_dataset(session, &dataset);
  cairn_restored_tier(session, &tier);
  log.Write(fmt::format("resumed {} {} {}", state.step, dataset, tier));
  for (std::size_t i = 0; i < state.field.size(); ++i) {
    if (state.field[i] != WordAt(state.step, i)) return 3;
  }
  return 0;
}

// True: it is in the daemon's hands. A checkpoint that fails costs that one only.
bool Save(cairn_session* session, State& state, const Log& log, int* code, std::uint64_t* dataset) {
  *code = cairn_checkpoint(session, state.step, dataset);
  if (*code == CAIRN_OK) log.Write(fmt::format("captured {} {}", state.step, *dataset));
  if (*code != CAIRN_OK) Complain("checkpoint", session);
  return *code == CAIRN_OK;
}

int Run(const Options& options) {
  const Log log(options.log);
  cairn_session* session = nullptr;
  cairn_options opening = CAIRN_OPTIONS_INIT;
  opening.deadline_ms = options.deadline_ms;
  if (cairn_open(&opening, &session) != CAIRN_OK) return Complain("open", nullptr);
  State state;
  state.field.resize((options.mib << 20) / 8);
  cairn_protect_value(session, 1, "step", &state.step, 1, CAIRN_UINT64);
  cairn_protect(session, 2, state.field.data(), state.field.size(), CAIRN_UINT64);
  if (const int failed = Resume(session, state, log); failed != 0) return failed;

  const auto safe_at = options.safe_at == "redundant" ? CAIRN_LEVEL_REDUNDANT : CAIRN_LEVEL_PREFIX;
  std::uint64_t dataset = 0;
  bool stops = false;
  int code = CAIRN_OK;
  while (state.step < options.steps && !stops) {
    std::this_thread::sleep_for(std::chrono::milliseconds(options.ms));
    ++state.step;
    for (std::size_t i = 0; i < state.field.size(); ++i) state.field[i] = WordAt(state.step, i);
    std::int32_t stop = 0;
    if (cairn_should_exit(session, &stop) == CAIRN_OK && stop != 0) {
      log.Write(fmt::format("stops {} {}", state.step, cairn_error(session)));
      stops = true;
    }
    const bool due = stops || state.step % options.every == 0 || state.step == options.steps;
    if (due && !Save(session, state, log, &code, &dataset) && code == CAIRN_FENCED) {
      log.Write(fmt::format("fenced {}", state.step));
      return 6;
    }
    const bool to_be_safe = options.safe != 0 && state.step % options.safe == 0;
    if (to_be_safe && cairn_wait(session, dataset, safe_at, 60'000) == CAIRN_OK) {
      log.Write(fmt::format("safe {} {}", state.step, dataset));
    }
  }
  const auto level = options.wait == "prefix" ? CAIRN_LEVEL_PREFIX : CAIRN_LEVEL_LOCAL;
  if (!options.wait.empty() && dataset != 0 && cairn_wait(session, dataset, level, 60'000) != CAIRN_OK) {
    return Complain("wait", session);
  }
  if (!stops) log.Write(fmt::format("done {}", state.step));
  if (!stops && !options.done.empty() && Rank() == "0") close(open(options.done.c_str(), O_CREAT | O_WRONLY, 0644));
  while (options.linger) std::this_thread::sleep_for(std::chrono::seconds(1));
  cairn_close(session);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return Run(Parse(argc, argv));
}
