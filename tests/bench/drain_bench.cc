// A drain of many small files, and of one large one, against the better of `cp -a` and `rsync -a`, each followed by a
// sync of the file system: the whole process, from its start to its end, with all durable. The drain is as the command
// does it by default: every byte is read back past the page cache and compared, which the others do not. Each round
// measures all of them, in turns, from the same source, which is in the page cache, to an empty target on the same
// disk; what the one before has made is removed, and that is synced, between two measurements.
//   drain_bench [small|large] [rounds] [files, or MiB of the large one] [folder]
#include <fmt/format.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "storage/base/check.h"
#include "tests/bench/ratio.h"
#include "tests/support/runfiles/runfiles.h"

namespace cairn {
namespace {

using Clock = std::chrono::steady_clock;
using Arguments = std::vector<std::string>;

constexpr std::size_t kSmallBytes = 4096;
constexpr int kFilesInAFolder = 1000;

// False: it is not here, or has failed.
bool RunProgram(Arguments arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  if (posix_spawnp(&pid, argv[0], nullptr, nullptr, argv.data(), environ) != 0) return false;
  int status = 0;
  return ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string Filled(std::size_t bytes, std::uint64_t seed) {
  std::string text(bytes, '\0');
  std::uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (std::size_t at = 0; at < bytes; at += 8) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::copy_n(reinterpret_cast<const char*>(&state), std::min<std::size_t>(8, bytes - at), text.data() + at);
  }
  return text;
}

void MakeSmall(const std::string& from, int files) {
  for (int i = 0; i < files; ++i) {
    const std::string folder = fmt::format("{}/d{}", from, i / kFilesInAFolder);
    if (i % kFilesInAFolder == 0) std::filesystem::create_directory(folder);
    std::ofstream(fmt::format("{}/f{}", folder, i), std::ios::binary) << Filled(kSmallBytes, static_cast<unsigned>(i));
  }
}

void MakeLarge(const std::string& from, int mib) {
  const std::string block = Filled(1 << 20, 7);
  std::ofstream file(from + "/large", std::ios::binary);
  for (int i = 0; i < mib; ++i) file << block;
}

class Bench {
 public:
  Bench(std::string folder, bool small) : from_(folder + "/from"), to_(folder + "/to"), small_(small) {
    tools_ = {{"cairn drain", {{testing::Runfile("client/cli/cairn"), "drain", from_, "--to", to_, "--settle", "0"}}},
              {"cp -a", {{"cp", "-a", from_, to_}, {"sync", "-f", to_}}}};
    if (RunProgram({"rsync", "--version"})) {
      tools_.push_back({"rsync -a", {{"rsync", "-a", from_ + "/", to_ + "/"}, {"sync", "-f", to_}}});
    } else {
      fmt::print("rsync is not here: cp -a alone is what the drain is compared with\n");
    }
  }

  void Run(int rounds) {
    std::vector<bench::Ratio> better;
    std::vector<std::vector<double>> seconds(tools_.size());
    for (int round = 0; round < rounds; ++round) {
      std::vector<double> now(tools_.size());
      for (std::size_t turn = 0; turn < tools_.size(); ++turn) {
        const std::size_t tool = (turn + static_cast<std::size_t>(round)) % tools_.size();
        now[tool] = Measure(tools_[tool]);
        seconds[tool].push_back(now[tool]);
      }
      const double best = *std::min_element(now.begin() + 1, now.end());
      better.push_back({.measured = best, .limit = now[0]});
      fmt::print("round {}:", round + 1);
      for (std::size_t tool = 0; tool < tools_.size(); ++tool) fmt::print(" {} {:.2f} s", tools_[tool].name, now[tool]);
      fmt::print("\n");
      std::fflush(stdout);
    }
    bench::PrintRatios(small_ ? "many small files, throughput" : "one large file, throughput", better,
                       "the better of the others", true);
  }

 private:
  struct Tool {
    std::string name;
    std::vector<Arguments> programs;  // one after the other
  };

  double Measure(const Tool& tool) {
    std::filesystem::remove_all(to_);
    ::sync();
    const Clock::time_point begin = Clock::now();
    for (const Arguments& program : tool.programs) CAIRN_CHECK(RunProgram(program));
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  const std::string from_, to_;
  const bool small_;
  std::vector<Tool> tools_;
};

int Main(int argc, char** argv) {
  const bool small = argc < 2 || std::string_view(argv[1]) != "large";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 15;
  const int size = argc > 3 ? std::atoi(argv[3]) : small ? 100'000 : 4096;
  std::string folder = std::string(argc > 4 ? argv[4] : "/var/tmp") + "/drain-bench-XXXXXX";
  CAIRN_CHECK(::mkdtemp(folder.data()) != nullptr);
  const std::string from = folder + "/from";
  std::filesystem::create_directory(from);
  small ? MakeSmall(from, size) : MakeLarge(from, size);
  ::sync();
  fmt::print("{} {}\n", size, small ? "files of 4 KiB" : "MiB in one file");
  Bench(folder, small).Run(std::max(rounds, 1));
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  return cairn::Main(argc, argv);
}
