#include "tests/bench/reader_open.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "client/reader/cairn_reader.h"
#include "storage/base/check.h"
#include "tests/bench/bp5_directory.h"
#include "tests/bench/ratio.h"
#include "tests/bench/reader_support.h"

namespace cairn::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kFiles[] = {"md.idx", "mmd.0", "md.0"};

void WriteDirectory(const std::string& path, std::uint32_t variables, std::uint32_t writers, std::uint32_t steps,
                    bool active) {
  std::filesystem::create_directories(path);
  const bpdir::Image image = MakeDirectory(variables, writers, steps, active);
  const std::string* const files[] = {&image.index(), &image.formats(), &image.metadata()};
  for (std::size_t i = 0; i < std::size(kFiles); ++i) {
    std::ofstream(path + "/" + kFiles[i], std::ios::binary) << *files[i];
  }
  ::sync();
}

// The least that whoever opens a directory from a cold cache must wait for.
void ReadMetadata(const std::string& path) {
  std::vector<char> buffer(std::size_t{1} << 20);
  for (const char* const name : kFiles) {
    const int file = ::open((path + "/" + name).c_str(), O_RDONLY | O_CLOEXEC);
    CAIRN_CHECK(file >= 0);
    while (::read(file, buffer.data(), buffer.size()) > 0) {
    }
    ::close(file);
  }
}

// How much of a directory is looked at.
enum class Depth {
  kOpen,
  kBounds,      // and of each variable: its steps, its shape in each, its bounds over all
  kStepBounds,  // and its bounds in each
};

void List(cairn_reader* reader, bool step_bounds) {
  cairn_reader_info info{};
  info.struct_size = sizeof info;
  CheckOk(cairn_reader_get_info(reader, &info));
  for (std::uint64_t v = 0; v < info.variables; ++v) {
    cairn_reader_variable_info variable{};
    variable.struct_size = sizeof variable;
    CheckOk(cairn_reader_variable(reader, v, &variable));
    std::uint64_t shape[8];
    std::int32_t has = 0;
    double min = 0, max = 0;
    for (std::uint32_t s = 0; s < variable.nsteps; ++s) {
      std::int32_t ndims = 8;
      CheckOk(cairn_reader_shape(reader, v, variable.steps[s], &ndims, shape));
      if (step_bounds) CheckOk(cairn_reader_min_max(reader, v, variable.steps[s], &has, &min, &max));
    }
    CheckOk(cairn_reader_min_max(reader, v, CAIRN_READER_ALL_STEPS, &has, &min, &max));
    CAIRN_CHECK(has == CAIRN_READER_BOUNDS && min == -1 && max > 0);
  }
}

cairn_reader* Open(const std::string& path, Depth depth) {
  cairn_reader* reader = nullptr;
  CheckOk(cairn_reader_open(path.c_str(), &reader));
  if (depth != Depth::kOpen) List(reader, depth == Depth::kStepBounds);
  return reader;
}

// Of this process, in MB: what nothing but it has.
double PrivateMegabytes() {
  std::ifstream status("/proc/self/status");
  std::uint64_t kibibytes = 0;
  for (std::string word; status >> word;) {
    if (word == "RssAnon:") status >> kibibytes;
  }
  return 1e-6 * 1024 * static_cast<double>(kibibytes);
}

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void Measure(const std::string& what, const std::string& path, Depth depth, int rounds, bool cold) {
  std::vector<Ratio> pairs;
  std::vector<double> private_megabytes;
  cairn_reader_close(Open(path, depth));
  for (int round = 0; round < rounds; ++round) {
    Ratio& pair = pairs.emplace_back();
    for (const bool ours : {round % 2 == 0, round % 2 != 0}) {
      if (cold) DropCaches();
      const double before = PrivateMegabytes();
      const Clock::time_point begin = Clock::now();
      if (!ours) {
        ReadMetadata(path);
        pair.limit = SecondsSince(begin);
        continue;
      }
      cairn_reader* const reader = Open(path, depth);
      pair.measured = SecondsSince(begin);
      private_megabytes.push_back(PrivateMegabytes() - before);
      cairn_reader_close(reader);
    }
  }
  PrintRatios(what, pairs, "reading md.*");
  std::ranges::sort(pairs, {}, &Ratio::measured);
  std::ranges::sort(private_megabytes);
  const auto at = [&](std::size_t quarter) { return 1e3 * pairs[(pairs.size() - 1) * quarter / 4].measured; };
  fmt::print("  by itself: {:.2f} ms (quartiles {:.2f} to {:.2f}), private memory {:.1f} MB\n", at(2), at(1), at(3),
             private_megabytes[private_megabytes.size() / 2]);
}

}  // namespace

void MeasureOpening(int rounds, bool cold, const std::string& parent) {
  std::string folder = parent + "/cairn-reader-bench-XXXXXX";
  CAIRN_CHECK(::mkdtemp(folder.data()) != nullptr);
  struct Size {
    std::uint32_t variables, writers, steps;
  };
  for (const Size size : {Size{100, 64, 100}, Size{20, 1024, 60}}) {
    for (const bool active : {false, true}) {
      const std::string path = folder + "/fields.bp";
      WriteDirectory(path, size.variables, size.writers, size.steps, active);
      fmt::print("{} variables x {} writers x {} steps, {}, {}: md.0 of {:.1f} MB\n", size.variables, size.writers,
                 size.steps, active ? "active" : "closed", cold ? "cold" : "warm",
                 1e-6 * static_cast<double>(std::filesystem::file_size(path + "/md.0")));
      Measure("open", path, Depth::kOpen, rounds, cold);
      Measure("open and list", path, Depth::kBounds, rounds, cold);
      Measure("open and list, bounds of each step too", path, Depth::kStepBounds, rounds, cold);
    }
  }
  std::filesystem::remove_all(folder);
}

}  // namespace cairn::bench
