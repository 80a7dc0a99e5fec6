// What a launch over nodes costs in messages (daemon/core, "A launch over nodes"): 100, 300 and 1 000 real cores on one
// thread, one rank on each, with a network, a prefix and caches in memory. Frames and bytes are what each daemon's
// links carry; CPU is of all cores, clients and disks together, by nodes. The first node's daemon is the home.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <time.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "storage/base/check.h"
#include "tests/bench/arguments.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/simulated_nodes.h"

namespace cairn {
namespace {

double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// As a solver of a few fields has it: 8 variables, 64 KiB.
Memory StateOf(Rank rank, std::uint64_t step) {
  Memory memory = {ValueOf(1, "step", step)};
  for (int field = 2; field <= 8; ++field) {
    memory.push_back(PlainOf(field, RandomBytes(1000 * step + 10 * rank + static_cast<unsigned>(field), 9'000)));
  }
  return memory;
}

class Launches {
 public:
  explicit Launches(int nodes) : nodes_(7, nodes) {
    for (int i = 0; i < nodes; ++i) nodes_[i].config.image.bytes_max = 4 << 20;
    nodes_.StartAll();
  }
  ~Launches() { clients_.clear(); }

  void Measure() {
    Tell("all nodes come, and ranks open", [this] { Open("job.1"); });
    Tell("a minute in which nothing happens", [this] { nodes_.Pass(std::chrono::minutes(1)); });
    DatasetId id = 0;
    for (std::uint64_t step : {1, 2}) {  // the first one makes what the next ones find
      Tell(step == 1 ? "the first checkpoint to `local`" : "the second", [&] { id = Checkpoint(step); });
    }
    Tell("to `prefix`", [&] { Everybody([this, id](Rank rank) { Expect(clients_[rank]->Wait(id, local::PREFIX)); }); });
    Everybody([this](Rank rank) { Expect(clients_[rank]->Close()); });
    clients_.clear();
    Tell("all open again", [this] { Open("job.2"); });
    Tell("and restore", [&] {
      Everybody([this, id](Rank rank) {
        Memory memory = Blank(StateOf(rank, 2));
        Expect(clients_[rank]->Latest());
        CAIRN_CHECK(clients_[rank]->Restore(id, memory).code == local::OK);
      });
    });
  }

 private:
  static void Expect(const local::Reply& reply) {
    if (CodeOfReply(reply) == local::OK) return;
    fmt::print(stderr, "{}\n", reply.status().message());
    std::abort();
  }
  Rank count() const { return static_cast<Rank>(clients_.size()); }
  void Everybody(const std::function<void(Rank rank)>& does) {
    std::vector<std::function<void()>> all;
    for (Rank rank = 0; rank < count(); ++rank) all.push_back([&does, rank] { does(rank); });
    nodes_.Together(std::move(all));
  }
  void Open(const std::string& key) {
    const int nodes = nodes_.count();
    for (int i = 0; i < nodes; ++i) clients_.push_back(std::make_unique<FakeClient>(nodes_[i]));
    const auto open = [&](Rank rank) {
      Expect(clients_[rank]->Open({.rank = rank, .nranks = static_cast<std::uint32_t>(nodes), .key = key}));
    };
    open(0);  // so that the first node is the home
    Everybody([&](Rank rank) {
      if (rank != 0) open(rank);
    });
  }
  DatasetId Checkpoint(std::uint64_t step) {
    DatasetId id = 0;
    Everybody([&](Rank rank) {
      const local::Reply committed = clients_[rank]->Checkpoint(step, StateOf(rank, step));
      Expect(committed);
      id = committed.committed().dataset();
      Expect(clients_[rank]->Wait(id, local::LOCAL));
    });
    return id;
  }
  void Tell(const char* what, const std::function<void()>& happens) {
    const int nodes = nodes_.count();
    for (int i = 0; i < nodes; ++i) nodes_.network.traffic(nodes_[i].address()) = {};
    const double begun = CpuSeconds();
    happens();
    const double cpu = CpuSeconds() - begun;
    SimNetwork::Traffic others;
    const SimNetwork::Traffic home = nodes_.network.traffic(nodes_[0].address());
    for (int i = 1; i < nodes; ++i) {
      const SimNetwork::Traffic& one = nodes_.network.traffic(nodes_[i].address());
      others.frames_in += one.frames_in + one.frames_out;
      others.bytes_in += one.bytes_in + one.bytes_out;
    }
    const double followers = nodes - 1;
    fmt::print("| {:>5} | {:<34} | {:>8.1f} | {:>8.1f} | {:>8} | {:>9.1f} | {:>8.2f} |\n", nodes, what,
               static_cast<double>(others.frames_in) / followers,
               static_cast<double>(others.bytes_in) / followers / 1024, home.frames_in + home.frames_out,
               static_cast<double>(home.bytes_in + home.bytes_out) / 1024, 1e3 * cpu / nodes);
    std::fflush(stdout);
  }

  SimulatedNodes nodes_;
  std::vector<std::unique_ptr<FakeClient>> clients_;
};

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  std::vector<int> sizes = {100, 300, 1000};
  cairn::bench::ReadArguments(argc, argv, "Messages of a launch over many nodes, counted.",
                              {{"NODES...", "so many; a simulation for each number", cairn::bench::Numbers(sizes)}});
  spdlog::set_level(spdlog::level::off);
  fmt::print(
      "| nodes | what                               |   frames |      KiB |   frames |  KiB of   |   CPU ms |\n");
  fmt::print(
      "|       |                                    |   a node |   a node | of home  |  home     |   a node |\n");
  fmt::print("| ---: | --- | ---: | ---: | ---: | ---: | ---: |\n");
  for (const int nodes : sizes) cairn::Launches(nodes).Measure();
  return 0;
}
