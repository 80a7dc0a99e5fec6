// The pipeline from a filled image to a synced file, and back, against what the machine can do at best.
//   local     Commit to on_end / the larger of a raw direct write and hashing; with and without the raw write's sync
//   restore   Start to on_end, with the client's copies / raw direct read, then memcpy
// As many clients at once on both sides. Ratios are paired and alternate.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/data/capture.h"
#include "daemon/data/restore.h"
#include "storage/base/check.h"
#include "storage/base/md5_lanes.h"
#include "storage/io/posix_disk.h"
#include "tests/bench/arguments.h"
#include "tests/bench/raw_io.h"

namespace cairn {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Wall and processor time of `work`, done by so many threads at once; the wall time is that of the slowest.
struct Cost {
  double wall = 0;
  double cpu = 0;
};
Cost Measure(std::size_t threads, const std::function<void(std::size_t)>& work) {
  const double cpu = CpuSeconds();
  const auto begin = Clock::now();
  std::vector<std::thread> running;
  for (std::size_t i = 0; i < threads; ++i) running.emplace_back(work, i);
  for (std::thread& thread : running) thread.join();
  return {Seconds(begin), CpuSeconds() - cpu};
}

// One rank: its memory, its image, its file.
struct Client {
  std::vector<std::byte> memory, other_memory;
  std::shared_ptr<Image> image;
  ftiff::FileLayout layout;
  std::vector<PlanPiece> plan;
  std::string path;
  CaptureResult result;
};

struct Machine {
  ImageBudget budget{std::uint64_t{16} << 30};
  const std::unique_ptr<WorkPool> owned_pool = MakeWorkPool(std::max(1u, std::thread::hardware_concurrency()));
  WorkPool& pool = *owned_pool;
  std::unique_ptr<PosixDisk> disk = MakePosixDisk();
};

Client MakeClient(Machine& machine, std::size_t bytes, std::size_t number) {
  Client client;
  client.memory.resize(bytes);
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t word = i * 0x9E3779B97F4A7C15u + number;
    std::memcpy(client.memory.data() + i, &word, 8);
  }
  client.other_memory = client.memory;
  const std::vector<ftiff::VariableSize> variables = {{1, bytes}};
  client.layout = *ftiff::PlanFresh(variables, ftiff::Packing::kAligned);
  client.image = *Image::Make(machine.budget, client.layout.data_bytes);
  client.plan = *MakePlan(client.layout, variables, client.image->bytes().size());
  client.path = fmt::format("{}/cairn-bench-{}-{}", bench::BenchFolder(), getpid(), number);
  return client;
}

// Seconds from the commit to on_end.
double RunCapture(Machine& machine, Client& client) {
  std::promise<absl::StatusOr<CaptureResult>> end;
  auto ended = end.get_future();
  const auto capture =
      Capture::Start(*machine.disk, machine.pool,
                     {.layout = client.layout, .plan = client.plan, .image = client.image, .work_path = client.path},
                     {.on_released = {},
                      .on_end = [&end](absl::StatusOr<CaptureResult> result) { end.set_value(std::move(result)); }});
  for (std::size_t i = 0; i < client.plan.size(); ++i) {
    const PlanPiece& piece = client.plan[i];
    std::memcpy(client.image->bytes().data() + piece.image_offset, client.memory.data() + piece.variable_offset,
                piece.bytes);
    if ((i + 1) % 16 == 0) CAIRN_CHECK(capture->Filled(i + 1).ok());
  }
  CAIRN_CHECK(capture->Filled(client.plan.size()).ok());
  const auto commit = Clock::now();
  CAIRN_CHECK(capture->Commit().ok());
  absl::StatusOr<CaptureResult> result = ended.get();
  CAIRN_CHECK(result.ok());
  const double local = Seconds(commit);
  client.result = *std::move(result);
  return local;
}

void RunRestore(Machine& machine, Client& client) {
  struct Progress {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t ready = 0;
    bool ended = false;
  } progress;
  const auto restore = Restore::Start(
      *machine.disk, machine.pool,
      {{.path = client.path, .kept = nullptr, .file_bytes = client.result.file_bytes, .crc32c = client.result.crc32c}},
      {{.bytes = client.memory.size()}}, client.image,
      {.on_ready =
           [&progress](std::uint64_t pieces) {
             const std::lock_guard lock(progress.mutex);
             progress.ready = pieces;
             progress.changed.notify_one();
           },
       .on_end =
           [&progress](absl::Status status, std::size_t) {
             CAIRN_CHECK(status.ok());
             const std::lock_guard lock(progress.mutex);
             progress.ended = true;
             progress.changed.notify_one();
           }});
  const std::vector<PlanPiece>& plan = restore->plan();
  for (std::uint64_t copied = 0; copied < plan.size();) {
    std::uint64_t ready = 0;
    {
      std::unique_lock lock(progress.mutex);
      progress.changed.wait(lock, [&] { return progress.ready > copied; });
      ready = progress.ready;
    }
    for (; copied < ready; ++copied) {
      std::memcpy(client.other_memory.data() + plan[copied].variable_offset,
                  client.image->bytes().data() + plan[copied].image_offset, plan[copied].bytes);
    }
    CAIRN_CHECK(restore->Copied(copied).ok());
  }
  std::unique_lock lock(progress.mutex);
  progress.changed.wait(lock, [&] { return progress.ended; });
}

// MD5 of each container, by all cores.
void Hash(const std::vector<Client>& clients) {
  std::vector<Md5State> states;
  std::vector<Md5Lane> lanes;
  for (const Client& client : clients) states.resize(states.size() + client.layout.containers.size());
  for (const Client& client : clients) {
    for (const ftiff::Container& container : client.layout.containers) {
      lanes.push_back({&states[lanes.size()], client.image->bytes().data() + container.file_offset,
                       container.chunk_bytes / kMd5BlockBytes * kMd5BlockBytes});
    }
  }
  const std::size_t threads = std::max(1u, std::thread::hardware_concurrency());
  const std::size_t share = (lanes.size() + threads - 1) / threads;
  Measure(threads, [&lanes, share](std::size_t i) {
    const std::size_t from = std::min(lanes.size(), i * share);
    Md5Advance(std::span(lanes).subspan(from, std::min(share, lanes.size() - from)));
  });
}

class Table {
 public:
  void Add(const std::string& name, double value) { rows_[name].push_back(value); }
  void Print() {
    for (auto& [name, values] : rows_) {
      std::sort(values.begin(), values.end());
      const auto at = [&values = values](double part) {
        return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1) + 0.5)];
      };
      fmt::print("  {:<34} median {:7.3f}  quartiles {:7.3f} {:7.3f}\n", name, at(0.5), at(0.25), at(0.75));
    }
  }

 private:
  std::map<std::string, std::vector<double>> rows_;
};

struct Yardstick {
  Cost write, write_sync, hash, memcpy, read;
};

Yardstick MeasureRaw(std::vector<Client>& clients) {
  const std::size_t n = clients.size();
  const auto raw_path = [&clients](std::size_t i) { return clients[i].path + ".raw"; };
  Yardstick raw;
  raw.memcpy = Measure(n, [&clients](std::size_t i) {
    std::memcpy(clients[i].other_memory.data(), clients[i].memory.data(), clients[i].memory.size());
  });
  raw.hash = Measure(1, [&clients](std::size_t) { Hash(clients); });
  raw.write = Measure(n, [&](std::size_t i) { bench::RawWrite(raw_path(i), clients[i].image->bytes(), false); });
  for (std::size_t i = 0; i < n; ++i) unlink(raw_path(i).c_str());
  raw.write_sync = Measure(n, [&](std::size_t i) { bench::RawWrite(raw_path(i), clients[i].image->bytes(), true); });
  raw.read = Measure(n, [&](std::size_t i) { bench::RawRead(raw_path(i), clients[i].image->bytes()); });
  for (std::size_t i = 0; i < n; ++i) unlink(raw_path(i).c_str());
  return raw;
}

struct Ours {
  double local = 0;  // of the slowest
  double capture_cpu = 0;
  Cost restore;
};

Ours MeasureOurs(Machine& machine, std::vector<Client>& clients) {
  std::vector<double> local(clients.size());
  Ours ours;
  ours.capture_cpu = Measure(clients.size(), [&](std::size_t i) { local[i] = RunCapture(machine, clients[i]); }).cpu;
  ours.local = *std::max_element(local.begin(), local.end());
  ours.restore = Measure(clients.size(), [&](std::size_t i) { RunRestore(machine, clients[i]); });
  for (const Client& client : clients) {
    CAIRN_CHECK(client.memory == client.other_memory);
    unlink(client.path.c_str());
  }
  return ours;
}

void Run(Machine& machine, std::size_t count, std::size_t bytes, int rounds) {
  std::vector<Client> clients;
  for (std::size_t i = 0; i < count; ++i) clients.push_back(MakeClient(machine, bytes, i));
  MeasureOurs(machine, clients);  // second and later ones count
  Table table;
  for (int round = 0; round < rounds; ++round) {
    Yardstick raw;
    Ours ours;
    if (round % 2 == 0) raw = MeasureRaw(clients);
    ours = MeasureOurs(machine, clients);
    if (round % 2 != 0) raw = MeasureRaw(clients);
    table.Add("local / max(write, hash)", ours.local / std::max(raw.write.wall, raw.hash.wall));
    table.Add("local / max(write+sync, hash)", ours.local / std::max(raw.write_sync.wall, raw.hash.wall));
    table.Add("restore / (read + memcpy)", ours.restore.wall / (raw.read.wall + raw.memcpy.wall));
    table.Add("seconds: local", ours.local);
    table.Add("seconds: raw write", raw.write.wall);
    table.Add("seconds: raw write+sync", raw.write_sync.wall);
    table.Add("seconds: hash", raw.hash.wall);
    table.Add("seconds: restore", ours.restore.wall);
    table.Add("seconds: raw read + memcpy", raw.read.wall + raw.memcpy.wall);
    table.Add("seconds: memcpy", raw.memcpy.wall);
    table.Add("CPU seconds: capture", ours.capture_cpu);
    table.Add("CPU seconds: memcpy, write, hash", raw.memcpy.cpu + raw.write_sync.cpu + raw.hash.cpu);
    table.Add("CPU seconds: restore", ours.restore.cpu);
    table.Add("CPU seconds: raw read + memcpy", raw.read.cpu + raw.memcpy.cpu);
  }
  fmt::print("{} x {} MiB, {} rounds, {}\n", count, bytes >> 20, rounds, machine.disk->mechanisms().engine);
  table.Print();
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  int rounds = 15;
  std::vector<std::size_t> sizes = {256, 1024};
  cairn::bench::ReadArguments(argc, argv, "From a filled image to a synced file and back, without a daemon.",
                              {{"ROUNDS", "so many times", cairn::bench::Number(rounds)},
                               {"MIB...", "sizes of images", cairn::bench::Numbers(sizes, 1, cairn::bench::kMibMax)}});
  cairn::Machine machine;
  for (const std::size_t mib : sizes) {
    for (const std::size_t clients : {1, 2}) cairn::Run(machine, clients, mib << 20, rounds);
  }
}
