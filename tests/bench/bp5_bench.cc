// What BP5 metadata costs, against the project's bars and what memory allows: opening, walking, lookups in directories
// made by our encoder; what variables that come and go leave behind; what a selection reads; the view of a checkpoint.
// Each round measures ours and the limit, in turns which comes first. Quiet figures:
//   chrt -f 50 taskset -c 1 bp5_bench
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/box.h"
#include "storage/base/check.h"
#include "storage/format/bp5/encode.h"
#include "storage/format/bp5/image.h"
#include "storage/format/bp5/metadata.h"
#include "storage/format/bp5/selection.h"
#include "storage/format/view/view.h"
#include "storage/io/posix_disk.h"
#include "storage/place/view/folder.h"
#include "tests/bench/arguments.h"
#include "tests/bench/bp5_directory.h"
#include "tests/bench/ratio.h"

namespace cairn {
namespace {

volatile std::uint64_t g_sink = 0;  // what is computed must look wanted

struct Cost {
  double wall_s = 0, cpu_s = 0;
};

double Now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

Cost CostOf(const std::function<void()>& work) {
  const double wall = Now(CLOCK_MONOTONIC), cpu = Now(CLOCK_PROCESS_CPUTIME_ID);
  work();
  return {Now(CLOCK_MONOTONIC) - wall, Now(CLOCK_PROCESS_CPUTIME_ID) - cpu};
}

// Runs both in each round and prints the wall time per unit of ours against the bar (0: none), and against the limit.
void Compare(const std::string& what, int rounds, double units, const std::string& unit, double bar,
             const std::function<void()>& ours, const std::string& limit_name, const std::function<void()>& limit) {
  std::vector<double> wall, cpu;
  std::vector<bench::Ratio> ratios;
  ours();
  limit();
  for (int round = 0; round < rounds; ++round) {
    Cost measured, lowest;
    if (round % 2 == 0) measured = CostOf(ours);
    lowest = CostOf(limit);
    if (round % 2 != 0) measured = CostOf(ours);
    wall.push_back(measured.wall_s / units);
    cpu.push_back(measured.cpu_s / units);
    ratios.push_back({.measured = measured.wall_s, .limit = lowest.wall_s});
  }
  std::ranges::sort(wall);
  std::ranges::sort(cpu);
  const auto at = [&](const std::vector<double>& of, std::size_t quarter) { return of[(of.size() - 1) * quarter / 4]; };
  const std::string verdict =
      bar == 0 ? "" : fmt::format(", bar {:.3g}: {}", bar, at(wall, 2) <= bar ? "met" : "MISSED");
  fmt::print("{}: {:.3g} {} (quartiles {:.3g} to {:.3g}; CPU {:.3g}){}\n", what, at(wall, 2), unit, at(wall, 1),
             at(wall, 3), at(cpu, 2), verdict);
  bench::PrintRatios("  the same", std::move(ratios), limit_name);
}

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

bp5::Metadata::Tail TailOf(const bpdir::Image& image) {
  return {.index = BytesOf(image.index()),
          .formats = BytesOf(image.formats()),
          .metadata_begin = 0,
          .metadata = BytesOf(image.metadata())};
}

// --- opening, walking, looking up ---

// Reads the beginning of each record: the least that a reader must see of md.0.
std::uint64_t TouchRecords(const bpdir::Image& image, const std::vector<std::uint64_t>& records) {
  std::uint64_t sum = 0, number = 0;
  for (const std::uint64_t at : records) {
    std::memcpy(&number, image.metadata().data() + at, sizeof(number));
    sum += number;
  }
  return sum;
}

std::vector<std::uint64_t> RecordsOf(const bp5::Metadata& metadata) {
  std::vector<std::uint64_t> records;
  for (std::uint32_t step = 0; step < metadata.steps(); ++step) {
    for (std::uint32_t w = 0; w < metadata.writers(step); ++w) records.push_back(metadata.Record(step, w).offset);
  }
  return records;
}

// Calls visit(variable, step) for all: step by step, as listings go, or variable by variable, as minima and maxima over
// all steps do. The latter goes through all of md.0 for each variable, two pages that no TLB knows for each block: it
// has no bar but what reading in this order takes.
template <typename Visit>
void ForAll(const bp5::Metadata& metadata, bool by_step, Visit visit) {
  const std::uint32_t steps = metadata.steps(), variables = static_cast<std::uint32_t>(metadata.variables().size());
  for (std::uint32_t a = 0; a < (by_step ? steps : variables); ++a) {
    for (std::uint32_t b = 0; b < (by_step ? variables : steps); ++b) by_step ? visit(b, a) : visit(a, b);
  }
}

std::uint64_t WalkAll(const bp5::Metadata& metadata, bool by_step) {
  std::uint64_t sum = 0;
  ForAll(metadata, by_step, [&](bp5::VariableNumber v, std::uint32_t step) {
    bp5::BlockWalk walk = metadata.Blocks(v, step);
    while (walk.Next()) sum += walk.block().location + walk.block().count[0] + walk.block().StartOf(0);
    CAIRN_CHECK(walk.status().ok());
  });
  return sum;
}

// Where a block's record lies: 64 bytes of the fixed part, 48 behind it.
struct RecordParts {
  const std::byte *fixed, *behind;
};

std::vector<RecordParts> PartsOf(const bp5::Metadata& metadata, bool by_step) {
  std::vector<RecordParts> parts;
  ForAll(metadata, by_step, [&](bp5::VariableNumber v, std::uint32_t step) {
    bp5::BlockWalk walk = metadata.Blocks(v, step);
    while (walk.Next()) parts.push_back({metadata.Find(v, step, walk.block().writer), walk.block().min - 32});
  });
  return parts;
}

std::uint64_t ReadParts(const std::vector<RecordParts>& parts) {
  std::uint64_t sum = 0, numbers[8];
  for (const RecordParts& part : parts) {
    std::memcpy(numbers, part.fixed, 64);
    for (const std::uint64_t number : numbers) sum += number;
    std::memcpy(numbers, part.behind, 48);
    for (int i = 0; i < 6; ++i) sum += numbers[i];
  }
  return sum;
}

struct Question {
  bp5::VariableNumber variable;
  std::uint32_t step, writer;
};

std::vector<Question> RandomQuestions(const bp5::Metadata& metadata, std::size_t count) {
  std::mt19937_64 random(5);
  std::vector<Question> questions;
  for (std::size_t i = 0; i < count; ++i) {
    const auto step = static_cast<std::uint32_t>(random() % metadata.steps());
    questions.push_back({static_cast<bp5::VariableNumber>(random() % metadata.variables().size()), step,
                         static_cast<std::uint32_t>(random() % metadata.writers(step))});
  }
  return questions;
}

void MeasureReading(std::uint32_t variables, std::uint32_t writers, std::uint32_t steps, int rounds) {
  const bpdir::Image image = bench::MakeDirectory(variables, writers, steps);
  fmt::print("{} variables x {} writers x {} steps: md.0 {:.1f} MB, mmd.0 {:.1f} kB, md.idx {:.1f} kB\n", variables,
             writers, steps, 1e-6 * static_cast<double>(image.metadata().size()),
             1e-3 * static_cast<double>(image.formats().size()), 1e-3 * static_cast<double>(image.index().size()));
  bp5::Metadata metadata;
  CAIRN_CHECK(metadata.Extend(TailOf(image)).ok());
  CAIRN_CHECK(metadata.steps() == steps && metadata.variables().size() == variables);
  const std::vector<std::uint64_t> records = RecordsOf(metadata);
  std::string copy(image.metadata().size(), '\0');
  const auto copy_all = [&] { std::memcpy(copy.data(), image.metadata().data(), copy.size()); };

  const auto open = [&] {
    bp5::Metadata opened;
    CAIRN_CHECK(opened.Extend(TailOf(image)).ok());
    for (const bp5::Variable& variable : opened.variables()) g_sink = g_sink + variable.steps.size();
  };
  const auto touch = [&] { g_sink = g_sink + TouchRecords(image, records); };
  Compare("  open and validate", rounds, 1e-3, "ms", 5, open, "reading 8 bytes of each record", touch);
  Compare("  open and validate", rounds, 1e-3, "ms", 5, open, "memcpy of md.0", copy_all);
  fmt::print("  own memory: {:.3f} MB, bar 1: {}\n", 1e-6 * static_cast<double>(metadata.own_bytes()),
             metadata.own_bytes() <= 1'000'000 ? "met" : "MISSED");

  const double blocks = static_cast<double>(variables) * writers * steps;
  for (const bool by_step : {true, false}) {
    const std::vector<RecordParts> parts = PartsOf(metadata, by_step);
    CAIRN_CHECK(static_cast<double>(parts.size()) == blocks);
    Compare(
        by_step ? "  walk, step by step" : "  walk, variable by variable", rounds, 1e-9 * blocks, "ns per block",
        by_step ? 30 : 0, [&] { g_sink = g_sink + WalkAll(metadata, by_step); },
        "reading the same records in this order", [&] { g_sink = g_sink + ReadParts(parts); });
  }

  const std::vector<Question> questions = RandomQuestions(metadata, 1 << 20);
  std::vector<std::uint64_t> asked;
  for (const Question& q : questions) asked.push_back(metadata.Record(q.step, q.writer).offset);
  const auto look_up = [&] {
    std::uint64_t sum = 0;
    for (const Question& q : questions) {
      sum += reinterpret_cast<std::uintptr_t>(metadata.Find(q.variable, q.step, q.writer));
    }
    g_sink = g_sink + sum;
  };
  Compare("  lookup", rounds, 1e-9 * static_cast<double>(questions.size()), "ns", 20, look_up,
          "reading 8 bytes of the same records", [&] { g_sink = g_sink + TouchRecords(image, asked); });
}

// --- encoding ---

void MeasureEncoding(int rounds) {
  const std::vector<bp5::Put> puts = bench::PutsOf(1000, 0, 3, 64);
  bp5::WriterEncoder writer;
  std::string copy = writer.Encode(puts, 128'000)->record;
  const std::string record = copy;
  const auto copy_record = [&] { std::memcpy(copy.data(), record.data(), copy.size()); };
  Compare(
      "encode 1000 variables, a writer's next step", rounds, 1e-6, "us", 400,
      [&] { g_sink = g_sink + writer.Encode(puts, 128'000)->record.size(); }, "memcpy of the record", copy_record);
  Compare(
      "encode 1000 variables, a new writer", rounds, 1e-6, "us", 400,
      [&] { g_sink = g_sink + bp5::WriterEncoder().Encode(puts, 128'000)->record.size(); }, "memcpy of the record",
      copy_record);
}

// Twenty new variables in each step: what the metadata has beside the records of what was put.
void MeasureGrowth() {
  constexpr std::uint32_t kNew = 20, kWriters = 8, kSteps = 100;
  constexpr std::uint64_t kRecordBytes = 64 + 4 * 8 + 16;  // fixed part; shape, count, start, location; min and max
  bpdir::Image image({});
  std::vector<bp5::WriterEncoder> encoders(kWriters);
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    std::vector<bp5::EncodedStep> encoded;
    for (std::uint32_t w = 0; w < kWriters; ++w) {
      encoded.push_back(*encoders[w].Encode(bench::PutsOf(kNew, kNew * step, w, kWriters), 128 * kNew));
    }
    image.Append(encoded, std::vector<bp5::WriterData>(kWriters), std::vector<std::uint32_t>(kWriters));
  }
  const std::uint64_t used = kRecordBytes * kNew * kWriters * kSteps;
  const double ratio =
      static_cast<double>(image.metadata().size() + image.formats().size()) / static_cast<double>(used);
  fmt::print(
      "20 new variables per step, 8 writers, 100 steps: md.0 {:.2f} MB, mmd.0 {:.2f} MB, {:.2f} x the records "
      "used ({:.2f} MB), bar 2: {}\n",
      1e-6 * static_cast<double>(image.metadata().size()), 1e-6 * static_cast<double>(image.formats().size()), ratio,
      1e-6 * static_cast<double>(used), ratio < 2 ? "met" : "MISSED");
}

// --- selections ---

// Counts what is read of each subfile, of which there is one per block.
class CountingSource : public bp5::ByteSource {
 public:
  absl::Status Read(std::uint32_t subfile, std::uint64_t, std::span<std::byte> target) override {
    read_[subfile] += target.size();
    return absl::OkStatus();
  }
  const std::map<std::uint32_t, std::uint64_t>& read() const { return read_; }

 private:
  std::map<std::uint32_t, std::uint64_t> read_;
};

// A field of 1024 x 1024 doubles in 16 x 16 blocks of as many writers.
constexpr std::uint64_t kField = 1024, kBlock = 64, kBlocks = kField / kBlock;

bpdir::Image MakeField() {
  std::vector<bp5::EncodedStep> encoded;
  std::vector<std::uint32_t> subfiles;
  for (std::uint64_t i = 0; i < kBlocks * kBlocks; ++i) {
    bp5::Put put = bench::GlobalDoubles("field", 0, 0, 0);
    put.shape = {kField, kField};
    put.blocks[0].box.start = {i / kBlocks * kBlock, i % kBlocks * kBlock};
    put.blocks[0].box.count = {kBlock, kBlock};
    encoded.push_back(*bp5::WriterEncoder().Encode({&put, 1}, 8 * kBlock * kBlock));
    subfiles.push_back(static_cast<std::uint32_t>(i));
  }
  bpdir::Image image({});
  image.Append(encoded, std::vector<bp5::WriterData>(encoded.size()), subfiles);
  return image;
}

void MeasureSelections() {
  const bpdir::Image image = MakeField();
  bp5::Metadata metadata;
  CAIRN_CHECK(metadata.Extend(TailOf(image)).ok());
  std::mt19937_64 random(7);
  std::uint64_t read = 0, wanted = 0, touched = 0, outside = 0;
  constexpr int kSelections = 200;
  for (int i = 0; i < kSelections; ++i) {
    Box box;
    std::uint64_t blocks = 1;
    for (int d = 0; d < 2; ++d) {
      const std::uint64_t start = random() % kField,
                          count = 1 + random() % std::min<std::uint64_t>(kField - start, 300);
      box.start.push_back(start);
      box.count.push_back(count);
      blocks *= (start + count - 1) / kBlock - start / kBlock + 1;
    }
    std::vector<std::byte> target(8 * *Elements(box.count));
    CountingSource source;
    CAIRN_CHECK(bp5::ReadSelection(metadata, 0, 0, box, source, target).ok());
    for (const auto& [subfile, bytes] : source.read()) {
      const Box block{{subfile / kBlocks * kBlock, subfile % kBlocks * kBlock}, {kBlock, kBlock}};
      const auto common = Intersect(block, box);
      if (!common) ++outside;
      if (bytes > 8 * PatternOf(common.value_or(block), block, box).a_extent()) ++outside;
      read += bytes;
    }
    CAIRN_CHECK(source.read().size() == blocks);
    touched += blocks;
    wanted += target.size();
  }
  fmt::print(
      "{} selections of a field of {} blocks: {} blocks touched, {:.1f} MB read for {:.1f} MB wanted; reads of "
      "other blocks or beyond the wanted range: {}, bar 0: {}\n",
      kSelections, kBlocks * kBlocks, touched, 1e-6 * static_cast<double>(read), 1e-6 * static_cast<double>(wanted),
      outside, outside == 0 ? "met" : "MISSED");
}

// --- a view ---

// A rank that protected so many arrays, each in a piece of its own.
catalogue::Catalogue CatalogueOf(std::uint32_t rank, std::uint32_t ranks, std::uint32_t variables) {
  constexpr std::uint64_t kElements = 512;
  catalogue::Catalogue catalogue;
  catalogue.set_run("00112233445566778899aabbccddeeff");
  catalogue.set_launch(1);
  catalogue.set_dataset(7);
  catalogue.set_step(100);
  catalogue.set_rank(rank);
  catalogue.set_nranks(ranks);
  for (std::uint32_t v = 0; v < variables; ++v) {
    const bp5::Put put = bench::GlobalDoubles(fmt::format("variable_{:05}", v), kElements * rank, 0, 0);
    local::Variable& variable = *catalogue.add_variables();
    variable.set_id(static_cast<std::int32_t>(v));
    variable.set_name(put.name);
    variable.set_type(static_cast<std::uint32_t>(put.type));
    variable.set_kind(local::ARRAY);
    variable.set_count(kElements);
    variable.set_bytes(8 * kElements);
    variable.add_shape(kElements * ranks);
    variable.add_box_start(kElements * rank);
    variable.add_box_count(kElements);
    catalogue::Run& run = *catalogue.add_placement()->add_run();
    run.set_offset(8 * kElements * v);
    run.set_bytes(8 * kElements);
    run.set_min_max(put.blocks[0].min_max);
  }
  catalogue::FileEntry& file = *catalogue.add_file();
  file.set_name(fmt::format("Ckpt7-Rank{}.fti", rank));
  file.set_prefix_name("ckpt.7/" + file.name());
  file.set_bytes(8 * kElements * variables + 4096);
  return catalogue;
}

void MeasureView(const std::string& folder, int rounds) {
  constexpr std::uint32_t kRanks = 64, kVariables = 1000;
  std::vector<catalogue::Catalogue> catalogues;
  for (std::uint32_t r = 0; r < kRanks; ++r) catalogues.push_back(CatalogueOf(r, kRanks, kVariables));
  const view::ViewFiles files = *view::BuildView(catalogues);
  std::string copy(files.metadata.size(), '\0');
  Compare(
      fmt::format("view of {} ranks x {} variables, made", kRanks, kVariables), rounds, 1e-3, "ms", 50,
      [&] { g_sink = g_sink + view::BuildView(catalogues)->metadata.size(); },
      fmt::format("memcpy of its {:.1f} MB", 1e-6 * static_cast<double>(copy.size())),
      [&] { std::memcpy(copy.data(), files.metadata.data(), copy.size()); });
  const std::unique_ptr<PosixDisk> disk = MakePosixDisk();
  const std::string path = folder + "/bp5_bench.bp";
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) {
    CAIRN_CHECK(view::RemoveFolder(*disk, path).ok());
    seconds.push_back(CostOf([&] { CAIRN_CHECK(view::WriteFolder(*disk, path, files).ok()); }).wall_s);
  }
  CAIRN_CHECK(view::RemoveFolder(*disk, path).ok());
  std::ranges::sort(seconds);
  fmt::print("  written to {}: {:.1f} ms (quartiles {:.1f} to {:.1f})\n", folder, 1e3 * seconds[seconds.size() / 2],
             1e3 * seconds[seconds.size() / 4], 1e3 * seconds[seconds.size() * 3 / 4]);
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  int rounds = 15;
  std::string folder = "/dev/shm";  // where a sync costs nothing
  cairn::bench::ReadArguments(argc, argv, "What BP5 metadata costs.",
                              {{"ROUNDS", "so many times", cairn::bench::Number(rounds)},
                               {"FOLDER", "where the view is written", cairn::bench::Text(folder)}});
  cairn::MeasureReading(100, 64, 100, rounds);
  cairn::MeasureReading(1000, 8, 100, rounds);
  cairn::MeasureEncoding(rounds);
  cairn::MeasureGrowth();
  cairn::MeasureSelections();
  cairn::MeasureView(folder, rounds);
  return 0;
}
