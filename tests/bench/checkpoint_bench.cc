// What a checkpoint costs its application, and how fast it climbs: a real daemon, real ranks, compared in the same run
// with what the machine gives at best. Every figure is the median of paired, alternated rounds, with quartiles.
//
//   blocked   cairn_checkpoint against memcpy of the same bytes into touched memory, all ranks at the same time
//   local     from the call's return to `local` against the larger of a raw direct write over a file, synced, and
//             hashing (16 MD5 lanes, as many threads as cores)
//   flush     from asking to `prefix` against a copy of the file with sync (as a throughput: more is better);
//             and the daemon's CPU seconds per GB, besides what the checksums of the same bytes take alone
//   restore   from the cache, by a daemon just started, against a raw read, alone and with a memcpy; and from the image
//   elastic   a global array stored by 2 ranks: restored by 3, in strips of rows and of columns, against 2 as it was;
//             all from the cache, by a daemon just started
//   small     64 clients x 1 MiB x 10 checkpoints: datasets per second at `local`
//
// All files are written in full: of what differs only, differential_bench tells.
#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "client/cairn.h"
#include "storage/base/checksum.h"
#include "storage/base/md5_lanes.h"
#include "tests/bench/arguments.h"
#include "tests/bench/bench_daemon.h"
#include "tests/bench/ratio.h"
#include "tests/bench/raw_io.h"
#include "tests/bench/shared_memory.h"

namespace cairn::bench {
namespace {

constexpr char kConfig[] = "[flush]\nevery = 0\n[cache]\nkeep = 1\n";
constexpr char kAllWritten[] = "[flush]\nevery = 0\n[cache]\nkeep = 1\n[ftiff]\ndifferential = false\n";

constexpr int kRanksMax = 64;

constexpr std::size_t kPageBytes = 4096;

struct Options {
  int ranks = 1;
  std::size_t mib = 256;
  int rounds = 15;
  std::size_t offset = 0;
  std::string only;
  std::size_t bytes() const { return mib << 20; }
};

// Memory that parent and ranks share: a barrier and each rank's last time.
struct Shared {
  pthread_barrier_t barrier;
  double seconds[kRanksMax];
  std::uint64_t dataset;
};

// Hashing the ranks' bytes at the machine's speed: all lanes in each thread, a thread a core.
double HashSeconds(const std::byte* data, std::size_t bytes, std::size_t copies) {
  const std::size_t threads = std::max(1u, std::thread::hardware_concurrency());
  const double start = Now();
  for (std::size_t copy = 0; copy < copies; ++copy) {
    std::vector<std::thread> running;
    const std::size_t share = bytes / threads;
    for (std::size_t t = 0; t < threads; ++t) {
      running.emplace_back([=] {
        std::vector<Md5State> states(kMd5LanesMax);
        std::vector<Md5Lane> lanes;
        const std::size_t lane = share / kMd5LanesMax / kMd5BlockBytes * kMd5BlockBytes;
        for (std::size_t i = 0; i < kMd5LanesMax; ++i) lanes.push_back({&states[i], data + t * share + i * lane, lane});
        Md5Advance(lanes);
      });
    }
    for (std::thread& thread : running) thread.join();
  }
  return Now() - start;
}

// --- blocked, local ---

void RankOfCheckpoints(const Options& options, const Daemon& daemon, Shared* shared, int rank, bool with_local) {
  cairn_session* session = OpenRank(daemon, rank, options.ranks, "blocked");
  std::byte* data = Touched(options.bytes(), rank + 1);
  std::byte* target = Touched(options.bytes(), 0);
  Check(cairn_protect(session, 1, data, options.bytes(), CAIRN_BYTE), session, "cairn_protect");
  std::uint64_t dataset = 0;
  for (int warm = 0; warm < 4; ++warm) {  // until images are made and mapped, and files are written over
    ChangeAll(data, options.bytes());
    Check(cairn_checkpoint(session, 0, &dataset), session, "cairn_checkpoint");
    Check(cairn_wait(session, dataset, CAIRN_LEVEL_LOCAL, 120000), session, "cairn_wait");
  }
  auto copy = [&] {
    pthread_barrier_wait(&shared->barrier);
    const double start = Now();
    std::memcpy(target, data, options.bytes());
    shared->seconds[rank] = Now() - start;
    pthread_barrier_wait(&shared->barrier);
  };
  auto checkpoint = [&] {
    ChangeAll(data, options.bytes());
    pthread_barrier_wait(&shared->barrier);
    const double start = Now();
    Check(cairn_checkpoint(session, 0, &dataset), session, "cairn_checkpoint");
    const double returned = Now();
    shared->seconds[rank] = returned - start;
    pthread_barrier_wait(&shared->barrier);  // the parent reads
    Check(cairn_wait(session, dataset, CAIRN_LEVEL_LOCAL, 120000), session, "cairn_wait");
    pthread_barrier_wait(&shared->barrier);
    shared->seconds[rank] = Now() - returned;
    pthread_barrier_wait(&shared->barrier);
    pthread_barrier_wait(&shared->barrier);
  };
  for (int round = 0; round < options.rounds; ++round) {
    if (round % 2 == 0) copy();
    checkpoint();
    if (round % 2 == 1) copy();
    if (with_local) pthread_barrier_wait(&shared->barrier);  // the parent measures the disk alone
  }
  cairn_close(session);
}

void BlockedAndLocal(const Options& options) {
  Daemon daemon(BenchFolder() + "/cairn-bench", kConfig);
  Shared* shared = MakeShared<Shared>(options.ranks + 1);
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      RankOfCheckpoints(options, daemon, shared, rank, true);
      std::_Exit(0);
    }
    ranks.push_back(pid);
  }
  std::vector<Ratio> blocked, local;
  const std::size_t total = options.bytes() * static_cast<std::size_t>(options.ranks);
  std::byte* data = Touched(options.bytes(), 7);
  std::vector<std::string> raw;
  for (int rank = 0; rank < options.ranks; ++rank) {
    raw.push_back(fmt::format("{}/cairn-bench-raw-{}", BenchFolder(), rank));
    RawWrite(raw.back(), {data, options.bytes()}, /*sync=*/true);
  }
  auto slowest = [&] { return *std::max_element(shared->seconds, shared->seconds + options.ranks); };
  for (int round = 0; round < options.rounds; ++round) {
    double copied = 0, checkpointed = 0, climbed = 0;
    auto copy = [&] {
      pthread_barrier_wait(&shared->barrier);
      pthread_barrier_wait(&shared->barrier);
      copied = slowest();
    };
    auto checkpoint = [&] {
      pthread_barrier_wait(&shared->barrier);
      pthread_barrier_wait(&shared->barrier);
      checkpointed = slowest();
      pthread_barrier_wait(&shared->barrier);
      pthread_barrier_wait(&shared->barrier);
      climbed = slowest();
      pthread_barrier_wait(&shared->barrier);
    };
    if (round % 2 == 0) copy();
    checkpoint();
    if (round % 2 == 1) copy();
    const double start = Now();
    for (const std::string& file : raw) RawOverwrite(file, {data, options.bytes()});
    const double wrote = Now() - start;
    const double hashed = HashSeconds(data, options.bytes(), static_cast<std::size_t>(options.ranks));
    blocked.push_back({checkpointed, copied});
    local.push_back({climbed, std::max(wrote, hashed)});
    pthread_barrier_wait(&shared->barrier);
  }
  for (const std::string& file : raw) std::filesystem::remove(file);
  const double mib = daemon.MibBeyondImages();
  for (pid_t pid : ranks) waitpid(pid, nullptr, 0);
  daemon.Stop();
  PrintRatios(fmt::format("blocked, {} x {} MiB (bar 1.05)", options.ranks, options.mib), blocked, "memcpy");
  PrintRatios(fmt::format("local, {} x {} MiB (bar 1.15)", options.ranks, options.mib), local, "raw write or hash");
  fmt::print("  {:.1f} GB/s in cairn_checkpoint; daemon: {:.2f} CPU s for {:.1f} GiB, {:.0f} MiB beyond images\n",
             static_cast<double>(total) / Median(blocked).measured / 1e9, daemon.cpu_seconds(),
             static_cast<double>(total) * (options.rounds + 4) / (1u << 30), mib);
}

// --- flush, restore ---

// A plain copy with sync, buffered, 1 MiB at a time: what a careful script would do.
double CopySeconds(const std::string& from, const std::string& to) {
  const double start = Now();
  const int in = open(from.c_str(), O_RDONLY | O_CLOEXEC);
  const int out = open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (in < 0 || out < 0) Die("cannot copy " + from);
  std::vector<char> buffer(1 << 20);
  for (ssize_t n; (n = read(in, buffer.data(), buffer.size())) > 0;) {
    if (write(out, buffer.data(), static_cast<std::size_t>(n)) != n) Die("cannot write " + to);
  }
  if (fsync(out) != 0) Die("cannot sync " + to);
  close(in);
  close(out);
  return Now() - start;
}

// Folders of older datasets may go while one looks: then the look begins anew.
std::string FileOf(const Daemon& daemon, std::uint64_t dataset) {
  namespace fs = std::filesystem;
  for (int look = 0; look < 100; ++look) {
    std::error_code gone;
    for (fs::recursive_directory_iterator at(daemon.folder() + "/cache", gone), end; !gone && at != end;
         at.increment(gone)) {
      if (at->path().filename() == fmt::format("Ckpt{}-Rank0.fti", dataset)) return at->path();
    }
  }
  Die("no file of the dataset");
}

// So that the next read of the file comes from the disk.
void DropFromPageCache(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  fdatasync(fd);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
}

void FlushAndRestore(const Options& options) {
  Daemon daemon(BenchFolder() + "/cairn-bench", kAllWritten);
  std::byte* data = Touched(options.bytes(), 3);
  std::byte* whole = Touched(options.bytes() + kPageBytes, 0);
  std::byte* target = whole + options.offset;
  std::vector<Ratio> flush, restore, restore_and_copy, image;
  for (int round = 0; round < options.rounds; ++round) {
    std::uint64_t dataset = 0, step = 0;
    cairn_session* session = OpenRank(daemon, 0, 1, fmt::format("write {}", round));
    Check(cairn_protect(session, 1, data, options.bytes(), CAIRN_BYTE), session, "cairn_protect");
    Check(cairn_checkpoint(session, 0, &dataset), session, "cairn_checkpoint");
    Check(cairn_wait(session, dataset, CAIRN_LEVEL_LOCAL, 120000), session, "cairn_wait");
    const std::string file = FileOf(daemon, dataset);
    const std::string copy = BenchFolder() + "/cairn-bench-copy";
    double copied = 0;
    auto plain = [&] {
      DropFromPageCache(file);
      copied = CopySeconds(file, copy);
      std::filesystem::remove(copy);
    };
    if (round % 2 == 0) plain();
    DropFromPageCache(file);
    double start = Now();
    Check(cairn_wait(session, dataset, CAIRN_LEVEL_PREFIX, 120000), session, "cairn_wait prefix");
    const double flushed = Now() - start;
    if (round % 2 == 1) plain();
    flush.push_back({copied, flushed});

    auto restored = [&](const std::string& launch, int tier) {
      cairn_session* reader = OpenRank(daemon, 0, 1, launch);
      Check(cairn_protect(reader, 1, target, options.bytes(), CAIRN_BYTE), reader, "cairn_protect");
      Check(cairn_latest(reader, &dataset, &step), reader, "cairn_latest");
      const double begun = Now();
      Check(cairn_restore(reader, dataset), reader, "cairn_restore");
      const double seconds = Now() - begun;
      int32_t served = 0;
      cairn_restored_tier(reader, &served);
      if (served != tier || std::memcmp(data, target, options.bytes()) != 0) Die("the restore is wrong");
      cairn_close(reader);
      return seconds;
    };
    struct Limit {
      double read = 0, copy = 0;
    } bound;
    auto limit = [&] {
      DropFromPageCache(file);
      const double start = Now();
      RawRead(file, {whole, options.bytes()});
      const double read = Now();
      std::memcpy(target, data, options.bytes());
      bound = {.read = read - start, .copy = Now() - read};
    };
    cairn_close(session);
    std::memset(target, 0, options.bytes());
    const double from_image = restored(fmt::format("image {}", round), CAIRN_TIER_IMAGE);
    if (round % 2 == 0) limit();
    daemon.Stop();
    daemon.Start();
    DropFromPageCache(file);
    std::memset(target, 0, options.bytes());
    const double from_cache = restored(fmt::format("cache {}", round), CAIRN_TIER_CACHE);
    if (round % 2 != 0) limit();
    restore.push_back({from_cache, bound.read});
    restore_and_copy.push_back({from_cache, bound.read + bound.copy});
    image.push_back({from_image, bound.read + bound.copy});
  }
  daemon.Stop();
  PrintRatios(fmt::format("flush, {} MiB, throughput (bar 0.8 or more)", options.mib), flush, "copy with sync", true);
  PrintRatios(fmt::format("restore from the cache, {} MiB (bar 1.2)", options.mib), restore, "raw read");
  PrintRatios("  the same", restore_and_copy, "raw read + memcpy");
  PrintRatios(fmt::format("restore from the image, {} MiB", options.mib), image, "raw read + memcpy");
  fmt::print("  daemon: {:.2f} CPU s\n", daemon.cpu_seconds());
}

// What the checksums of a flush cost alone, in CPU seconds: both of each block, which is in no cache before.
double ChecksumSeconds(std::span<const std::byte> bytes) {
  const auto cpu = [] {
    timespec used{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
  };
  const double start = cpu();
  std::uint32_t blocks = 0, all = 0;
  for (std::size_t at = 0; at < bytes.size(); at += kCrcBlockBytes) {
    const auto block = bytes.subspan(at, std::min<std::size_t>(kCrcBlockBytes, bytes.size() - at));
    blocks ^= Crc32c(block);
    all = Crc32(block, all);
  }
  const double used = cpu() - start;
  if (blocks == 1 && all == 1) fmt::print("\n");  // or the compiler might leave it all out
  return used;
}

// One daemon, whose buffers have been used before.
void FlushCpu(const Options& options) {
  Daemon daemon(BenchFolder() + "/cairn-bench", kAllWritten);
  std::byte* data = Touched(options.bytes(), 3);
  cairn_session* session = OpenRank(daemon, 0, 1, "flushes");
  Check(cairn_protect(session, 1, data, options.bytes(), CAIRN_BYTE), session, "cairn_protect");
  const double gb = static_cast<double>(options.bytes()) / 1e9;
  std::vector<double> all, besides;  // CPU seconds per GB
  for (int round = -1; round < options.rounds; ++round) {
    std::uint64_t dataset = 0;
    Check(cairn_checkpoint(session, static_cast<std::uint64_t>(round + 1), &dataset), session, "cairn_checkpoint");
    Check(cairn_wait(session, dataset, CAIRN_LEVEL_LOCAL, 120000), session, "cairn_wait");
    const double sums = ChecksumSeconds({data, options.bytes()});
    const double before = daemon.CpuSecondsSoFar();
    Check(cairn_wait(session, dataset, CAIRN_LEVEL_PREFIX, 120000), session, "cairn_wait prefix");
    const double used = daemon.CpuSecondsSoFar() - before;
    if (round < 0) continue;
    all.push_back(used / gb);
    besides.push_back((used - sums) / gb);
  }
  cairn_close(session);
  daemon.Stop();
  const Quartiles flush = QuartilesOf(all), rest = QuartilesOf(besides);
  fmt::print(
      "flush, {} MiB: {:.3f} CPU s per GB (quartiles {:.3f} to {:.3f}, {} rounds); besides what its checksums "
      "take alone: {:.3f} ({:.3f} to {:.3f}; bar 0.02)\n",
      options.mib, flush.median, flush.low, flush.high, all.size(), rest.median, rest.low, rest.high);
}

// --- elastic ---

constexpr std::uint64_t kColumns = 4096;  // doubles

// This rank's strip of a global array of `mib`, over all rows or all columns, at `data`.
void ProtectStrip(cairn_session* session, std::byte* data, const Options& options, int rank, int nranks, bool columns) {
  const std::uint64_t shape[] = {options.bytes() / (kColumns * sizeof(double)), kColumns};
  const std::uint64_t extent = shape[columns ? 1 : 0], r = static_cast<std::uint64_t>(rank);
  const std::uint64_t begin = extent * r / static_cast<std::uint64_t>(nranks);
  const std::uint64_t end = extent * (r + 1) / static_cast<std::uint64_t>(nranks);
  const std::uint64_t start[] = {columns ? 0 : begin, columns ? begin : 0};
  const std::uint64_t count[] = {columns ? shape[0] : end - begin, columns ? end - begin : shape[1]};
  Check(cairn_protect_array(session, 1, "u", data, CAIRN_DOUBLE, 2, shape, start, count, nullptr, nullptr), session,
        "cairn_protect_array");
}

// All ranks at the same time: the slowest one's seconds.
double RestoreStrips(const Options& options, const Daemon& daemon, std::byte* memory, int nranks, bool columns,
                     const std::string& launch) {
  std::vector<cairn_session*> sessions;
  const std::size_t room = (options.bytes() / static_cast<std::size_t>(nranks) + (1 << 20)) & ~std::size_t{63};
  for (int rank = 0; rank < nranks; ++rank) {
    sessions.push_back(OpenRank(daemon, rank, nranks, launch));
    ProtectStrip(sessions.back(), memory + static_cast<std::size_t>(rank) * room, options, rank, nranks, columns);
  }
  std::uint64_t dataset = 0, step = 0;
  Check(cairn_latest(sessions[0], &dataset, &step), sessions[0], "cairn_latest");
  std::vector<std::thread> running;
  const double start = Now();
  for (cairn_session* session : sessions) {
    running.emplace_back([=] { Check(cairn_restore(session, dataset), session, "cairn_restore"); });
  }
  for (std::thread& thread : running) thread.join();
  const double seconds = Now() - start;
  for (cairn_session* session : sessions) cairn_close(session);
  return seconds;
}

void Elastic(const Options& options) {
  Daemon daemon(BenchFolder() + "/cairn-bench", kAllWritten);
  std::byte* memory = Touched(options.bytes() + (64 << 20), 3);
  std::vector<std::thread> running;
  for (int rank = 0; rank < 2; ++rank) {
    running.emplace_back([&, rank] {
      cairn_session* session = OpenRank(daemon, rank, 2, "write");
      ProtectStrip(session, memory, options, rank, 2, false);
      std::uint64_t made = 0;
      Check(cairn_checkpoint(session, 1, &made), session, "cairn_checkpoint");
      Check(cairn_wait(session, made, CAIRN_LEVEL_LOCAL, 120000), session, "cairn_wait");
      cairn_close(session);
    });
  }
  for (std::thread& thread : running) thread.join();
  const auto measure = [&](int nranks, bool columns, int round) {
    daemon.Stop();
    daemon.Start();
    return RestoreStrips(options, daemon, memory, nranks, columns, fmt::format("{} {} {}", nranks, columns, round));
  };
  std::vector<Ratio> rows, columns;
  for (int round = 0; round < options.rounds; ++round) {
    const double before = round % 2 == 0 ? measure(2, false, round) : 0;
    const double of_rows = measure(3, false, round), of_columns = measure(3, true, round);
    const double same = round % 2 == 0 ? before : measure(2, false, round);
    rows.push_back({of_rows, same});
    columns.push_back({of_columns, same});
  }
  daemon.Stop();
  PrintRatios(fmt::format("elastic restore, {} MiB, 2 to 3 ranks, rows", options.mib), rows, "2 ranks as stored");
  PrintRatios(fmt::format("elastic restore, {} MiB, 2 to 3 ranks, columns", options.mib), columns, "2 ranks as stored");
}

// --- many small ones ---

constexpr int kSmallFlushes = 9;

struct SmallTimes {
  pthread_barrier_t barrier;
  double all_local = 0;  // rank 0's
  double flush[kSmallFlushes] = {};
};

// One more checkpoint of all ranks; how long its flush takes, which rank 0 asks for once it is `local`.
double FlushOfAll(cairn_session* session, int rank, pthread_barrier_t* barrier) {
  std::uint64_t dataset = 0;
  Check(cairn_checkpoint(session, 0, &dataset), session, "cairn_checkpoint");
  Check(cairn_wait(session, dataset, CAIRN_LEVEL_LOCAL, 120000), session, "cairn_wait");
  pthread_barrier_wait(barrier);
  const double start = Now();
  if (rank == 0) Check(cairn_wait(session, dataset, CAIRN_LEVEL_PREFIX, 120000), session, "cairn_wait prefix");
  pthread_barrier_wait(barrier);
  return Now() - start;
}

void Small() {
  constexpr int kClients = 64;
  constexpr int kCheckpoints = 10;
  Daemon daemon(BenchFolder() + "/cairn-bench", kAllWritten);
  auto* const times = MakeShared<SmallTimes>(kClients);
  const double start = Now();
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < kClients; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      std::vector<char> data(1 << 20, static_cast<char>(rank));
      cairn_session* session = OpenRank(daemon, rank, kClients, "small");
      Check(cairn_protect(session, 1, data.data(), data.size(), CAIRN_BYTE), session, "cairn_protect");
      std::uint64_t dataset = 0;
      for (int i = 0; i < kCheckpoints; ++i) {
        Check(cairn_checkpoint(session, 0, &dataset), session, "cairn_checkpoint");
        Check(cairn_wait(session, dataset, CAIRN_LEVEL_LOCAL, 120000), session, "cairn_wait");
      }
      pthread_barrier_wait(&times->barrier);
      if (rank == 0) times->all_local = Now();
      for (double& seconds : times->flush) {
        const double flush = FlushOfAll(session, rank, &times->barrier);
        if (rank == 0) seconds = flush;
      }
      cairn_close(session);
      std::_Exit(0);
    }
    ranks.push_back(pid);
  }
  int errors = 0;
  for (pid_t pid : ranks) {
    int status = 0;
    waitpid(pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) ++errors;
  }
  const double seconds = times->all_local - start;
  const double mib = daemon.MibBeyondImages();
  daemon.Stop();
  const Quartiles flush = QuartilesOf({times->flush, times->flush + kSmallFlushes});
  fmt::print(
      "small: {} clients x 1 MiB x {}: {} errors, {:.1f} datasets/s ({:.0f} files/s), daemon {:.2f} CPU s, "
      "{:.0f} MiB beyond images (bar 64)\n  flush of one: {:.0f} ms (quartiles {:.0f} to {:.0f}, {} flushes)\n",
      kClients, kCheckpoints, errors, kCheckpoints / seconds, kClients * kCheckpoints / seconds, daemon.cpu_seconds(),
      mib, flush.median * 1e3, flush.low * 1e3, flush.high * 1e3, kSmallFlushes);
  if (errors > 0) std::_Exit(1);
}

int Main(int argc, char** argv) {
  Options options;
  ReadArguments(
      argc, argv, "What a checkpoint costs its application on an idle daemon, and how fast it climbs.",
      {{"--ranks N", "processes", Number(options.ranks, 1, kRanksMax)},
       {"--mib N", "what each of them checkpoints", Number(options.mib, 1, kMibMax)},
       {"--rounds N", "so many times", Number(options.rounds)},
       {"--offset N", "what is restored begins so many bytes behind a page: 0 fits the disk, 16 as malloc has it",
        Number(options.offset, 0, kPageBytes - 1)},
       {"--only NAME", "blocked, restore (and flush), flush (its CPU), elastic, small; default: all of them",
        OneOf(options.only, {"blocked", "restore", "flush", "elastic", "small"})}});
  const auto wanted = [&](const char* name) { return options.only.empty() || options.only == name; };
  if (wanted("blocked")) BlockedAndLocal(options);
  if (wanted("restore")) FlushAndRestore(options);
  if (wanted("flush")) FlushCpu(options);
  if (wanted("elastic")) Elastic(options);
  if (wanted("small")) Small();
  return 0;
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  return cairn::bench::Main(argc, argv);
}
