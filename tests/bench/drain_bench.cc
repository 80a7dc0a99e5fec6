// A drain of many small files, and of one large one, against the better of `cp -a` and `rsync -a`, each followed by a
// sync of the file system: the whole process, from its start to its end, with all durable. The drain is measured as the
// command does it by default, with every byte read back past the page cache and compared, which the others do not; and
// without that (--no-check). Beside the large file a bare program is measured, which writes, syncs and reads back as
// overlapped as the disk allows, and does nothing else. Each round measures all of them, in turns, from the same
// source, which is in the page cache, to an empty target on the same disk; what came before is synced. Small files go
// to a new folder each time, and all are removed at the end: for minutes ext4 looks through the inodes that were
// deleted before it takes one, and that would be the one that comes after a removal to pay.
#include <fmt/format.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/check.h"
#include "tests/bench/arguments.h"
#include "tests/bench/overlapped_copy.h"
#include "tests/bench/ratio.h"
#include "tests/support/runfiles/runfiles.h"

namespace cairn {
namespace {

using Clock = std::chrono::steady_clock;
using Arguments = std::vector<std::string>;

constexpr std::size_t kSmallBytes = 4096;
constexpr int kFilesInAFolder = 1000;
constexpr char kBare[] = "bare";  // this program, as the bare one: from, to

// False: it is not here, or has failed. Adds the time of processors to *cpu.
bool RunProgram(Arguments arguments, double* cpu) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  if (posix_spawnp(&pid, argv[0], nullptr, nullptr, argv.data(), environ) != 0) return false;
  int status = 0;
  rusage usage{};
  if (::wait4(pid, &status, 0, &usage) != pid) return false;
  for (const timeval& time : {usage.ru_utime, usage.ru_stime}) {
    *cpu += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
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

// Of one measurement, or their sum.
struct Cost {
  double seconds = 0, cpu = 0;
};

class Bench {
 public:
  Bench(const std::string& folder, bool small) : from_(folder + "/from"), to_(folder + "/to"), small_(small) {
    const std::string cairn = testing::Runfile("client/cli/cairn");
    const Arguments drain{cairn, "drain", from_, "--settle", "0", "--to"};
    const auto drained = [drain](const std::string& to, const Arguments& more) {
      Arguments all = drain;
      all.push_back(to);
      all.insert(all.end(), more.begin(), more.end());
      return std::vector<Arguments>{all};
    };
    tools_.push_back({"cairn drain", [drained](const std::string& to) { return drained(to, {}); }});
    tools_.push_back(
        {"cairn drain --no-check", [drained](const std::string& to) { return drained(to, {"--no-check"}); }});
    if (!small) {
      bare_ = tools_.size();
      tools_.push_back({"bare program", [from = from_](const std::string& to) {
                          return std::vector<Arguments>{{"/proc/self/exe", kBare, from + "/large", to}};
                        }});
    }
    others_ = tools_.size();
    tools_.push_back({"cp -a", [from = from_](const std::string& to) {
                        return std::vector<Arguments>{{"cp", "-a", from, to}, {"sync", "-f", to}};
                      }});
    double cpu = 0;
    if (RunProgram({"rsync", "--version"}, &cpu)) {
      tools_.push_back({"rsync -a", [from = from_](const std::string& to) {
                          return std::vector<Arguments>{{"rsync", "-a", from + "/", to + "/"}, {"sync", "-f", to}};
                        }});
    } else {
      fmt::print("rsync is not here: cp -a alone is what the drain is compared with\n");
    }
  }

  void Run(int rounds) {
    std::vector<std::vector<bench::Ratio>> better(others_);
    std::vector<bench::Ratio> bare;  // of the drain that reads back
    std::vector<Cost> sums(tools_.size());
    for (int round = 0; round < rounds; ++round) {
      std::vector<double> now(tools_.size());
      for (std::size_t turn = 0; turn < tools_.size(); ++turn) {
        const std::size_t tool = (turn + static_cast<std::size_t>(round)) % tools_.size();
        const Cost cost = Measure(tools_[tool]);
        now[tool] = cost.seconds;
        sums[tool].seconds += cost.seconds;
        sums[tool].cpu += cost.cpu;
      }
      const double best = *std::min_element(now.begin() + static_cast<std::ptrdiff_t>(others_), now.end());
      for (std::size_t tool = 0; tool < others_; ++tool) {
        better[tool].push_back({.measured = best, .limit = now[tool]});
      }
      if (bare_) bare.push_back({.measured = now[*bare_], .limit = now[0]});
      fmt::print("round {}:", round + 1);
      for (std::size_t tool = 0; tool < tools_.size(); ++tool) fmt::print(" {} {:.2f} s", tools_[tool].name, now[tool]);
      fmt::print("\n");
      std::fflush(stdout);
    }
    for (std::size_t tool = 0; tool < others_; ++tool) {
      bench::PrintRatios(
          tools_[tool].name + (small_ ? " of many small files, throughput" : " of one large file, throughput"),
          better[tool], "the better of the others", true);
    }
    if (bare_) bench::PrintRatios(tools_[0].name + " of one large file, throughput", bare, "the bare program", true);
    for (std::size_t tool = 0; tool < tools_.size(); ++tool) {
      fmt::print("{}: on average {:.2f} s, and {:.2f} s of processors\n", tools_[tool].name,
                 sums[tool].seconds / rounds, sums[tool].cpu / rounds);
    }
  }

 private:
  struct Tool {
    std::string name;
    std::function<std::vector<Arguments>(const std::string& to)> programs;  // one after the other
  };

  Cost Measure(const Tool& tool) {
    if (!small_) std::filesystem::remove_all(to_);
    const std::string to = small_ ? fmt::format("{}{}", to_, targets_++) : to_;
    ::sync();
    Cost cost;
    const Clock::time_point begin = Clock::now();
    for (const Arguments& program : tool.programs(to)) CAIRN_CHECK(RunProgram(program, &cost.cpu));
    cost.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    return cost;
  }

  const std::string from_, to_;
  const bool small_;
  std::vector<Tool> tools_;
  std::optional<std::size_t> bare_;
  std::size_t others_ = 0;  // the first that a user could take instead
  int targets_ = 0;
};

int Main(int argc, char** argv) {
  if (argc == 4 && argv[1] == std::string_view(kBare)) {
    bench::OverlappedCopy(argv[2], argv[3]);
    return 0;
  }
  std::string kind = "small", folder = "/var/tmp";
  int rounds = 15, size = 0;
  bench::ReadArguments(
      argc, argv, "A drain, against the better of cp -a and rsync -a.",
      {{"small|large", "many small files, or one large one", bench::OneOf(kind, {"small", "large"})},
       {"ROUNDS", "so many times", bench::Number(rounds)},
       {"SIZE", "so many files, or MiB of the large one; 0: 100 000 files, or 4096 MiB", bench::Number(size, 0)},
       {"FOLDER", "where source and target are", bench::Text(folder)}});
  const bool small = kind == "small";
  if (size == 0) size = small ? 100'000 : 4096;
  folder += "/drain-bench-XXXXXX";
  CAIRN_CHECK(::mkdtemp(folder.data()) != nullptr);
  const std::string from = folder + "/from";
  std::filesystem::create_directory(from);
  small ? MakeSmall(from, size) : MakeLarge(from, size);
  ::sync();
  fmt::print("{} {}\n", size, small ? "files of 4 KiB" : "MiB in one file");
  Bench(folder, small).Run(rounds);
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  return cairn::Main(argc, argv);
}
