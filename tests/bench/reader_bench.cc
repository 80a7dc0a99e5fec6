// What it costs a reader of a run that its bytes are compared with the catalogues: the same calls of libcairn_reader on
// handles that check and on handles that do not, in pairs, the one or the other first in turn. Each time a new handle
// is opened, so that nothing is known to be good yet. Warm: the file is in the page cache; cold (as root, if asked
// for): the caches are dropped before each of the two.
// And what opening and listing a large directory costs (reader_open.h).
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "client/reader/cairn_reader.h"
#include "storage/base/check.h"
#include "storage/format/bp5/types.h"
#include "storage/io/posix_disk.h"
#include "storage/place/prefix/prefix.h"
#include "tests/bench/arguments.h"
#include "tests/bench/ratio.h"
#include "tests/bench/reader_open.h"
#include "tests/bench/reader_support.h"
#include "tests/storage/place/view/sample.h"

namespace cairn {
namespace {

using bench::CheckOk;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kColumns = 1024;  // of doubles: rows of 8 KiB
constexpr std::uint64_t kRowBytes = kColumns * sizeof(double);
constexpr DatasetId kDataset = 1;

// A run with one checkpoint of one rank: "u", a global array of doubles, as large as wanted.
void MakeRun(const std::string& folder, std::uint64_t rows) {
  const auto disk = MakePosixDisk();
  auto prefix = Prefix::Open(*disk, folder);
  CAIRN_CHECK(prefix.ok());
  std::string bytes(rows * kRowBytes, '\0');
  std::mt19937_64 random(1);
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(double)) {
    const double value = static_cast<double>(random() >> 11);
    std::memcpy(bytes.data() + at, &value, sizeof(value));
  }
  const auto type = static_cast<std::uint32_t>(bp5::Type::kDouble);
  view::SampleDataset dataset = view::MakeDataset(
      {{view::Array(1, "u", type, {rows, kColumns}, {0, 0}, {rows, kColumns}, bytes)}}, {.dataset = kDataset});
  catalogue::Catalogue& catalogue = dataset.catalogues[0];
  catalogue.set_run((*prefix)->run().Hex());
  const std::string path = (*prefix)->FilePath(catalogue.file(0).prefix_name());
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << dataset.files[0];
  scr::Descriptor descriptor;
  descriptor.id = kDataset;
  descriptor.name = "ckpt.1";
  descriptor.launch = catalogue.launch();
  descriptor.step = catalogue.step();
  descriptor.ranks = 1;
  descriptor.checkpoint = true;
  descriptor.complete = true;
  CAIRN_CHECK((*prefix)->Commit(descriptor, dataset.catalogues).ok());
  (*prefix)->MakeView(kDataset, dataset.catalogues);
  ::sync();
}

// One handle, and memory for what it reads.
struct Subject {
  cairn_reader* reader = nullptr;
  std::uint64_t u = 0, rows = 0;
  std::vector<double>& memory;

  void Read(std::uint64_t row, std::uint64_t count, std::uint64_t column = 0, std::uint64_t columns = kColumns) {
    const std::uint64_t start[] = {row, column}, extent[] = {count, columns};
    CheckOk(
        cairn_reader_read(reader, u, 0, 2, start, extent, memory.data(), count * columns * sizeof(double), nullptr));
  }
};

void Whole(Subject& subject) {
  subject.Read(0, subject.rows);
}

// Looks at every element, as an analysis would.
void WholeInPlace(Subject& subject) {
  const std::uint64_t start[] = {0, 0}, extent[] = {subject.rows, kColumns};
  const void* address = nullptr;
  CheckOk(cairn_reader_in_place(subject.reader, subject.u, 0, 2, start, extent, &address));
  CAIRN_CHECK(address != nullptr);
  const auto* const values = static_cast<const double*>(address);
  double sums[8] = {};
  for (std::uint64_t i = 0; i < subject.rows * kColumns; ++i) sums[i % 8] += values[i];
  subject.memory[0] = sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
}

// A quarter of the array in 64 slices, spread evenly.
void Slices(Subject& subject) {
  for (std::uint64_t slice = 0; slice < 64; ++slice) subject.Read(slice * subject.rows / 64, subject.rows / 256);
}

// The worst case: little of each block.
void SingleRows(Subject& subject) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 2000; ++i) subject.Read(random() % subject.rows, 1);
}

void OneRow(Subject& subject) {
  subject.Read(subject.rows / 3, 1);
}

void OneColumn(Subject& subject) {
  subject.Read(0, subject.rows, 7, 1);
}

void Nothing(Subject&) {}

class Bench {
 public:
  Bench(std::string folder, std::uint64_t mebibytes, bool cold)
      : folder_(std::move(folder)), rows_((mebibytes << 20) / kRowBytes), cold_(cold), memory_(rows_ * kColumns, 1) {
    MakeRun(folder_, rows_);
    CheckOk(cairn_reader_open_run(folder_.c_str(), &run_));
  }
  ~Bench() {
    cairn_reader_close_run(run_);
    std::filesystem::remove_all(folder_);
  }

  void Measure(const std::string& what, void (*call)(Subject&), int rounds) {
    std::vector<bench::Ratio> pairs;
    if (!cold_) Seconds(call, /*check=*/false);  // so that all that it reads is in the cache
    for (int round = 0; round < rounds; ++round) {
      bench::Ratio& pair = pairs.emplace_back();
      for (const bool check : {round % 2 == 0, round % 2 != 0}) {
        (check ? pair.measured : pair.limit) = Seconds(call, check);
      }
    }
    bench::PrintRatios(fmt::format("{}, {}", what, cold_ ? "cold" : "warm"), pairs, "without checks");
  }

 private:
  double Seconds(void (*call)(Subject&), bool check) {
    if (cold_) bench::DropCaches();
    const cairn_reader_options options = {.struct_size = sizeof(options), .no_check = check ? 0 : 1};
    Subject subject{.rows = rows_, .memory = memory_};
    const Clock::time_point begin = Clock::now();
    CheckOk(cairn_reader_open_dataset_with(run_, kDataset, &options, &subject.reader));
    CheckOk(cairn_reader_find(subject.reader, "u", &subject.u));
    call(subject);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    cairn_reader_close(subject.reader);
    return seconds;
  }

  const std::string folder_;
  const std::uint64_t rows_;
  const bool cold_;
  std::vector<double> memory_;
  cairn_reader_run* run_ = nullptr;
};

void Run(std::uint64_t mebibytes, int rounds, bool cold, const std::string& parent) {
  std::string folder = parent + "/cairn-reader-bench-XXXXXX";
  CAIRN_CHECK(::mkdtemp(folder.data()) != nullptr);
  Bench bench(std::filesystem::canonical(folder).string(), mebibytes, cold);
  fmt::print("one variable of {} MiB, {} pairs\n", mebibytes, rounds);
  bench.Measure("open only", Nothing, rounds);
  bench.Measure("whole, copied", Whole, rounds);
  bench.Measure("whole, in place, summed", WholeInPlace, rounds);
  bench.Measure("64 slices, a quarter of it", Slices, rounds);
  bench.Measure("2000 single rows of 8 KiB", SingleRows, rounds);
  bench.Measure("one row of 8 KiB", OneRow, rounds);
  bench.Measure("one column", OneColumn, rounds);
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  constexpr std::uint64_t kOpen = 0;
  std::uint64_t mebibytes = 512;
  int rounds = 21;
  std::string cache = "warm", folder = std::filesystem::temp_directory_path();
  cairn::bench::Value what = cairn::bench::Number(mebibytes, 2, cairn::bench::kMibMax);
  what.take = [&mebibytes, number = what.take](std::string_view text) {
    if (text != "open") return number(text);
    mebibytes = kOpen;
    return true;
  };
  cairn::bench::ReadArguments(
      argc, argv, "What it costs a reader that bytes are compared with catalogues, or to open a large directory.",
      {{"MIB|open", "that are read; open: a large directory is opened and listed instead", std::move(what)},
       {"ROUNDS", "so many times", cairn::bench::Number(rounds)},
       {"warm|cold", "is it in the page cache?", cairn::bench::OneOf(cache, {"warm", "cold"})},
       {"FOLDER", "where the files are made", cairn::bench::Text(folder)}});
  const bool cold = cache == "cold";
  if (mebibytes == kOpen) {
    cairn::bench::MeasureOpening(rounds, cold, folder);
    return 0;
  }
  cairn::Run(mebibytes, rounds, cold, folder);
  return 0;
}
