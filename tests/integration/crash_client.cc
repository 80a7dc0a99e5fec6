// An application for the crash tests: checkpoints a pattern that step and rank determine, writes every promise that it
// was given to a file outside the daemon, and goes on whatever happens to the daemon.
//
//   crash_client --promises FILE [--mib N] [--steps N] [--flush-every N] [--guard-step S --guard-mib K] [--no-check]
//               [--tries N] [--sparse] [--line L] [--takeover]
//               [--wait-busy] [--outputs] [--redundant]
//
// Prints "resumed STEP DATASET TIER" or "fresh". Lines of the promises: "captured|local|redundant|prefix|output DATASET
// STEP", "refused STEP CODE TEXT" (the call said so: no promise), "lost DATASET STEP TEXT" (a promise was broken). With
// a guard, the memory K MiB into the protected block is taken away before step S's checkpoint, so that the process dies
// exactly while the library copies that window. Without a daemon an open is tried N times (600), one each 100 ms; with
// --wait-busy also while an older launch lives.
// --sparse: from step to step only one word in 32 KiB changes.
// --outputs: before each checkpoint an output of one file, out/<step>.<rank>, of lines "step STEP rank RANK"; its
// promise is that it is local.
// --redundant: each checkpoint is waited for until it is that.
// --line L: each checkpoint carries L, and its pattern depends on it; "resumed STEP DATASET TIER L" tells whose it was.
// Exit: 0 done, 3 wrong bytes came back, 4 a promise was broken, 6 a newer launch shut this one out.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "client/cairn.h"

namespace {

struct Options {
  std::string promises;
  std::size_t mib = 8;
  std::uint64_t steps = 10;
  std::uint64_t flush_every = 0;
  std::uint64_t guard_step = 0;
  std::size_t guard_mib = 0;
  bool check = true;
  bool sparse = false;
  int tries = 600;
  std::uint64_t line = 0;  // 0: none
  bool takeover = false;
  bool busy = false;
  bool outputs = false;
  bool redundant = false;
};

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto next = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (name == "--promises") options.promises = next();
    if (name == "--mib") options.mib = std::stoull(next());
    if (name == "--steps") options.steps = std::stoull(next());
    if (name == "--flush-every") options.flush_every = std::stoull(next());
    if (name == "--guard-step") options.guard_step = std::stoull(next());
    if (name == "--guard-mib") options.guard_mib = std::stoull(next());
    if (name == "--no-check") options.check = false;
    if (name == "--sparse") options.sparse = true;
    if (name == "--tries") options.tries = std::stoi(next());
    if (name == "--line") options.line = std::stoull(next());
    if (name == "--takeover") options.takeover = true;
    if (name == "--wait-busy") options.busy = true;
    if (name == "--outputs") options.outputs = true;
    if (name == "--redundant") options.redundant = true;
  }
  return options;
}

std::uint64_t Word(std::uint64_t step, std::uint64_t rank, std::uint64_t i) {
  return (step * 0x9E3779B97F4A7C15ull) ^ (rank * 0xC2B2AE3D27D4EB4Full) ^ (i * 0x165667B19E3779F9ull);
}

// The protected state: a counter and a block.
class State {
 public:
  State(std::size_t mib, std::uint64_t rank, bool sparse) : words_((mib << 20) / 8), rank_(rank), sparse_(sparse) {
    void* at = mmap(nullptr, words_ * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) std::_Exit(5);
    block_ = static_cast<std::uint64_t*>(at);
  }
  void Fill(std::uint64_t step, std::uint64_t line) {
    step_ = step;
    line_ = line;
    for (std::size_t i = 0; i < words_; ++i) block_[i] = WordAt(i);
  }
  bool IsWhole() const {
    for (std::size_t i = 0; i < words_; ++i) {
      if (block_[i] != WordAt(i)) return false;
    }
    return true;
  }
  bool Protect(cairn_session* session, bool with_line) {
    if (with_line && cairn_protect_value(session, 3, "line", &line_, 1, CAIRN_UINT64) != CAIRN_OK) return false;
    return cairn_protect_value(session, 1, "step", &step_, 1, CAIRN_UINT64) == CAIRN_OK &&
           cairn_protect(session, 2, block_, words_, CAIRN_UINT64) == CAIRN_OK;
  }
  void TakeAway(std::size_t at_mib) {
    std::signal(SIGSEGV, SIG_DFL);  // a sanitizer would report it, and end the process by an exit code
    mprotect(reinterpret_cast<char*>(block_) + (at_mib << 20), 4096, PROT_NONE);
  }
  std::uint64_t step() const { return step_; }
  std::uint64_t line() const { return line_; }

 private:
  std::uint64_t WordAt(std::size_t i) const { return Word(sparse_ && i % 4096 != 0 ? 0 : step_, rank_, i) + line_; }

  std::uint64_t* block_ = nullptr;
  std::size_t words_;
  std::uint64_t rank_;
  bool sparse_;
  std::uint64_t step_ = 0, line_ = 0;
};

class Promises {
 public:
  explicit Promises(const std::string& path)
      : fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
    if (fd_ < 0) std::_Exit(5);
  }
  void Log(const std::string& line) {
    const std::string text = line + "\n";
    if (write(fd_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) std::_Exit(5);
  }

 private:
  int fd_;
};

// As far as it goes: the code of the call that was refused.
int Output(cairn_session* session, std::uint64_t step, const std::string& rank, std::uint64_t* dataset) {
  int code = cairn_output_begin(session, step, CAIRN_OUTPUT, dataset);
  if (code != CAIRN_OK) return code;
  char path[4096];
  code = cairn_route_file(session, fmt::format("out/{}.{}", step, rank).c_str(), path, sizeof path);
  std::FILE* const file = code == CAIRN_OK ? std::fopen(path, "w") : nullptr;
  for (int i = 0; file != nullptr && i < 20'000; ++i) fmt::print(file, "step {} rank {}\n", step, rank);
  const bool written = file != nullptr && std::fclose(file) == 0;
  const int ended = cairn_output_end(session, written ? 1 : 0);
  if (code != CAIRN_OK || ended != CAIRN_OK) return code != CAIRN_OK ? code : ended;
  return cairn_wait(session, *dataset, CAIRN_LEVEL_LOCAL, 60000);
}

void Await(cairn_session* session, int32_t level, const char* name, std::uint64_t dataset, std::uint64_t step,
           Promises& promises) {
  const int code = cairn_wait(session, dataset, level, 60000);
  promises.Log(code == CAIRN_OK ? fmt::format("{} {} {}", name, dataset, step)
                                : fmt::format("refused {} {} {}", step, code, cairn_error(session)));
}

int Run(const Options& options) {
  static cairn_session* session = nullptr;  // some ways out of here leave it open, on purpose: no leak
  cairn_options opening = CAIRN_OPTIONS_INIT;
  opening.takeover = options.takeover ? 1 : 0;
  // Without a daemon an open fails at once; here one is coming back.
  int opened = cairn_open(&opening, &session);
  const auto again = [&] { return opened == CAIRN_UNAVAILABLE || (options.busy && opened == CAIRN_BUSY); };
  for (int tries = 1; again() && tries < options.tries; ++tries) {
    poll(nullptr, 0, 100);
    opened = cairn_open(&opening, &session);
  }
  if (opened != CAIRN_OK) {
    fmt::print("open: {} {}\n", opened, cairn_error(nullptr));
    return 1;
  }
  const char* rank = std::getenv("CAIRN_RANK");
  State state(options.mib, rank != nullptr ? std::strtoull(rank, nullptr, 10) : 0, options.sparse);
  if (!state.Protect(session, options.line != 0)) return 1;
  Promises promises(options.promises);

  std::uint64_t dataset = 0, step = 0;
  int code = cairn_resume(session, &step);
  if (code == CAIRN_OK) {
    int32_t tier = 0;
    cairn_restored_dataset(session, &dataset);
    cairn_restored_tier(session, &tier);
    if (state.step() != step || !state.IsWhole()) return 3;
    fmt::print("resumed {} {} {}{}\n", step, dataset, tier, options.line != 0 ? fmt::format(" {}", state.line()) : "");
  } else if (code == CAIRN_NOT_FOUND) {
    fmt::print("fresh\n");
  } else {
    fmt::print("resume: {} {}\n", code, cairn_error(session));
    return code == CAIRN_FENCED ? 6 : 1;
  }
  std::fflush(stdout);

  std::map<std::uint64_t, std::uint64_t> local;  // promised: dataset -> step
  bool broken = false;
  for (std::uint64_t s = state.step() + 1; s <= options.steps; ++s) {
    if (options.outputs) {
      code = Output(session, s, rank != nullptr ? rank : "0", &dataset);
      promises.Log(code == CAIRN_OK ? fmt::format("output {} {}", dataset, s)
                                    : fmt::format("refused {} {} {}", s, code, cairn_error(session)));
    }
    state.Fill(s, options.line);
    if (s == options.guard_step) state.TakeAway(options.guard_mib);
    code = cairn_checkpoint(session, s, &dataset);
    if (code != CAIRN_OK) {
      promises.Log(fmt::format("refused {} {} {}", s, code, cairn_error(session)));
      if (code == CAIRN_FENCED) return 6;
      continue;
    }
    promises.Log(fmt::format("captured {} {}", dataset, s));
    if ((code = cairn_wait(session, dataset, CAIRN_LEVEL_LOCAL, 60000)) != CAIRN_OK) {
      promises.Log(fmt::format("refused {} {} {}", s, code, cairn_error(session)));
      continue;
    }
    promises.Log(fmt::format("local {} {}", dataset, s));
    local[dataset] = s;
    if (options.redundant) Await(session, CAIRN_LEVEL_REDUNDANT, "redundant", dataset, s, promises);
    if (options.flush_every != 0 && s % options.flush_every == 0) {
      Await(session, CAIRN_LEVEL_PREFIX, "prefix", dataset, s, promises);
    }
    for (const auto& [promised, at_step] : local) {
      int32_t reached = 0;
      if (!options.check) break;
      if ((code = cairn_test(session, promised, CAIRN_LEVEL_LOCAL, &reached)) == CAIRN_OK && reached) continue;
      if (code == CAIRN_UNAVAILABLE) break;  // the connection broke, which says nothing of it; it is asked again
      promises.Log(fmt::format("lost {} {} {} {}", promised, at_step, code, cairn_error(session)));
      broken = true;
    }
  }
  cairn_close(session);
  return broken ? 4 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  return Run(Parse(argc, argv));
}
