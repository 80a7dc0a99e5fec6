// How many clients one daemon serves: 1 to 256 processes of one launch checkpoint as fast as they can, so much each; a
// real daemon with its default settings. One line for each number and size:
//
//   captured   rank datasets a second, from the first begin to the last return; beside it the same bytes copied by as
//              many processes at once, and how that compares
//   a call     median and p99 of all calls of all ranks
//   idle       private memory of the daemon for each client that has opened its session and protected its memory,
//              images left out
//
// Without --clients and --kib: a table of those that fit into 6 GiB of images. Copies come first in every other line.
#include <fmt/format.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "client/cairn.h"
#include "tests/bench/arguments.h"
#include "tests/bench/bench_daemon.h"
#include "tests/bench/raw_io.h"
#include "tests/bench/shared_memory.h"

namespace cairn::bench {
namespace {

constexpr int kClientsMax = 256;
constexpr int kCallsMax = 64;
constexpr std::size_t kTableBytesMax = std::size_t{6} << 30;  // two images for each client, and its own memory

struct Options {
  int clients = 0;  // 0: the table
  std::size_t kib = 0;
  int calls = 0;  // 0: as many as take about a second
  std::string config;
};

struct Load {
  int clients = 1;
  std::size_t bytes = 0;
  int calls = 1;
};

struct Shared {
  pthread_barrier_t barrier;
  double begin[kClientsMax], end[kClientsMax];
  double calls[kClientsMax][kCallsMax];
};

// What one client does; every step of it together with all others, and with the parent.
class Client {
 public:
  Client(const Daemon& daemon, const Load& load, Shared* shared, int rank)
      : daemon_(daemon), load_(load), shared_(shared), rank_(rank) {}

  void Run(bool copies_first) {
    data_ = Touched(load_.bytes, rank_ + 1);
    target_ = Touched(load_.bytes, 0);
    Together();
    cairn_session* session =
        OpenRank(daemon_, rank_, load_.clients, fmt::format("{} of {}", load_.clients, load_.bytes));
    Check(cairn_protect(session, 1, data_, load_.bytes, CAIRN_BYTE), session, "cairn_protect");
    Together();  // the parent looks at the daemon's memory
    Together();
    for (const bool copies : {copies_first, !copies_first}) {
      if (copies) {
        Repeat([&] { std::memcpy(target_, data_, load_.bytes); });
      } else {
        Checkpoints(session);
      }
    }
    Check(cairn_close(session), nullptr, "cairn_close");
    Together();
  }

 private:
  void Together() { pthread_barrier_wait(&shared_->barrier); }

  // The first two calls are not counted: their images may still be in the making.
  void Checkpoints(cairn_session* session) {
    std::uint64_t dataset = 0;
    const auto checkpoint = [&] {
      ChangeAll(data_, load_.bytes);
      Check(cairn_checkpoint(session, 0, &dataset), session, "cairn_checkpoint");
    };
    for (int i = 0; i < 2; ++i) checkpoint();
    Check(cairn_wait(session, dataset, CAIRN_LEVEL_LOCAL, 600000), session, "cairn_wait");
    Repeat(checkpoint);
    Check(cairn_wait(session, dataset, CAIRN_LEVEL_LOCAL, 600000), session, "cairn_wait");
  }

  void Repeat(const std::function<void()>& call) {
    Together();
    shared_->begin[rank_] = Now();
    for (int i = 0; i < load_.calls; ++i) {
      const double start = Now();
      call();
      shared_->calls[rank_][i] = Now() - start;
    }
    shared_->end[rank_] = Now();
    Together();
    Together();  // the parent has taken the times
  }

  const Daemon& daemon_;
  const Load& load_;
  Shared* const shared_;
  const int rank_;
  std::byte* data_ = nullptr;
  std::byte* target_ = nullptr;
};

struct Figures {
  double per_second = 0;
  double median = 0, p99 = 0;  // seconds
};

Figures Take(const Load& load, Shared* shared) {
  pthread_barrier_wait(&shared->barrier);
  pthread_barrier_wait(&shared->barrier);
  std::vector<double> calls;
  for (int rank = 0; rank < load.clients; ++rank) {
    calls.insert(calls.end(), shared->calls[rank], shared->calls[rank] + load.calls);
  }
  std::ranges::sort(calls);
  const double seconds = *std::max_element(shared->end, shared->end + load.clients) -
                         *std::min_element(shared->begin, shared->begin + load.clients);
  pthread_barrier_wait(&shared->barrier);
  return {.per_second = static_cast<double>(calls.size()) / seconds,
          .median = calls[calls.size() / 2],
          .p99 = calls[static_cast<std::size_t>(std::ceil(0.99 * static_cast<double>(calls.size()))) - 1]};
}

void Measure(const Load& load, const std::string& config, bool copies_first) {
  Daemon daemon(BenchFolder() + "/cairn-bench", config);
  Shared* shared = MakeShared<Shared>(load.clients + 1);
  std::vector<pid_t> clients;
  for (int rank = 0; rank < load.clients; ++rank) {
    const pid_t pid = ForkRank();
    if (pid == 0) {
      Client(daemon, load, shared, rank).Run(copies_first);
      std::_Exit(0);
    }
    clients.push_back(pid);
  }
  const auto together = [shared] { pthread_barrier_wait(&shared->barrier); };
  together();
  const double before = daemon.MibBeyondImages();
  together();
  const double idle = daemon.MibBeyondImages();
  together();
  Figures ours, copies;
  for (const bool of_copies : {copies_first, !copies_first}) (of_copies ? copies : ours) = Take(load, shared);
  together();
  for (const pid_t pid : clients) waitpid(pid, nullptr, 0);
  daemon.Stop();
  fmt::print("| {} | {} KiB | {:.0f} | {:.0f} | {:.2f} | {:.2f} ms | {:.2f} ms | {:.0f} KiB |\n", load.clients,
             load.bytes >> 10, ours.per_second, copies.per_second, ours.per_second / copies.per_second,
             ours.median * 1e3, ours.p99 * 1e3, (idle - before) * 1024 / load.clients);
  std::fflush(stdout);
}

int CallsFor(std::size_t bytes) {
  return bytes <= (1 << 20) ? 20 : bytes <= (64 << 20) ? 8 : 4;
}

void Table(const Options& options) {
  fmt::print("| clients | each | captured / s | copied / s | ratio | a call, median | p99 | idle, a client |\n");
  fmt::print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  bool copies_first = false;
  for (const int clients : {1, 4, 16, 64, 256}) {
    for (std::size_t kib = 1; kib <= (1 << 20); kib *= 32) {
      const std::size_t bytes = kib << 10;
      if (options.clients != 0 && options.clients != clients) continue;
      if (options.kib != 0 && options.kib != kib) continue;
      if (4 * bytes * static_cast<std::size_t>(clients) > 2 * kTableBytesMax) continue;
      const int calls = options.calls != 0 ? options.calls : CallsFor(bytes);
      Measure({.clients = clients, .bytes = bytes, .calls = calls}, options.config, copies_first);
      copies_first = !copies_first;
    }
  }
}

Options Parse(int argc, char** argv) {
  Options options;
  ReadArguments(
      argc, argv, "How many clients one daemon serves.",
      {{"--clients N", "processes; 0: a line for each of several numbers", Number(options.clients, 0, kClientsMax)},
       {"--kib N", "what each of them checkpoints; 0: a line for each of several sizes",
        Number(options.kib, 0, kMibMax << 10)},
       {"--calls N", "of each of them; 0: as many as take about a second", Number(options.calls, 0, kCallsMax)},
       {"--config TOML", "the daemon's settings", Text(options.config)}});
  return options;
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  const cairn::bench::Options options = cairn::bench::Parse(argc, argv);
  if (options.clients != 0 && options.kib != 0) {
    const std::size_t bytes = options.kib << 10;
    const int calls = options.calls != 0 ? options.calls : cairn::bench::CallsFor(bytes);
    cairn::bench::Measure({.clients = options.clients, .bytes = bytes, .calls = calls}, options.config, false);
  } else {
    cairn::bench::Table(options);
  }
}
