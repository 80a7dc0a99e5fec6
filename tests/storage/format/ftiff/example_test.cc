// The worked example of FTI-FF section 5.1 entry by entry, and runs of FTI itself done again: the files of the engine
// and the writer against the real ones, byte by byte. Masked is only what section 10 lists.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "storage/base/status.h"
#include "storage/format/ftiff/layout.h"
#include "storage/format/ftiff/records.h"
#include "tests/storage/format/ftiff/replay.h"
#include "tests/support/vectors.h"

namespace cairn::ftiff {
namespace {

using ::cairn::testing::ReadVector;
using ::cairn::testing::VectorsPath;
using nlohmann::json;
using testing::LoadVector;
using testing::Replay;

// The columns of the table; dbsize is that of A, in F it lacks the block's records.
struct Entry {
  std::int32_t id, index;
  std::uint64_t variable_offset, offset_a, offset_f, chunk_bytes, container_bytes;
  bool has_content = true;
};
struct Block {
  std::uint64_t bytes_a;
  std::vector<Entry> entries;
};
struct Step {
  std::vector<VariableSize> variables;
  std::uint64_t file_bytes_a, file_bytes_f;
  std::vector<Block> blocks;
};

std::vector<Step> WorkedExample() {
  const Block b1{24'000'204,
                 {{1, 0, 0, 300, 0, 4'000'000, 4'000'000},
                  {2, 0, 0, 4'000'300, 4'000'000, 8'000'000, 8'000'000},
                  {3, 0, 0, 12'000'300, 12'000'000, 12'000'000, 12'000'000}}};
  const Block b2{16'000'076, {{4, 0, 0, 24'000'376, 24'000'000, 16'000'000, 16'000'000}}};
  const Block b3{32'000'140,
                 {{2, 1, 8'000'000, 40'000'516, 40'000'000, 16'000'000, 16'000'000},
                  {3, 1, 12'000'000, 56'000'516, 56'000'000, 16'000'000, 16'000'000}}};
  const Block b4{20'000'076, {{5, 0, 0, 72'000'592, 72'000'000, 20'000'000, 20'000'000}}};
  Block b3_of_5 = b3;
  b3_of_5.entries[0].chunk_bytes = b3_of_5.entries[1].chunk_bytes = 12'000'000;
  const Block b5{16'000'140,
                 {{2, 2, 24'000'000, 92'000'732, 92'000'000, 8'000'000, 8'000'000},
                  {3, 2, 28'000'000, 100'000'732, 100'000'000, 8'000'000, 8'000'000}}};
  Block b1_of_7 = b1, b3_of_7 = b3, b5_of_7 = b5;
  b1_of_7.entries[1].chunk_bytes = 4'000'000;
  b1_of_7.entries[2].chunk_bytes = 8'000'000;
  for (Block* block : {&b3_of_7, &b5_of_7}) {
    for (Entry& entry : block->entries) {
      entry.chunk_bytes = 0;
      entry.has_content = false;
    }
  }
  constexpr std::uint64_t kM = 4'000'000;  // a million elements
  return {
      {{{1, kM}, {2, 2 * kM}, {3, 3 * kM}}, 24'000'300, 24'000'292, {b1}},
      {{{1, kM}, {2, 2 * kM}, {3, 3 * kM}, {4, 4 * kM}}, 40'000'376, 40'000'362, {b1, b2}},
      {{{1, kM}, {2, 6 * kM}, {3, 7 * kM}, {4, 4 * kM}}, 72'000'516, 72'000'490, {b1, b2, b3}},
      {{{1, kM}, {2, 6 * kM}, {3, 7 * kM}, {4, 4 * kM}, {5, 5 * kM}}, 92'000'592, 92'000'560, {b1, b2, b3, b4}},
      {{{1, kM}, {2, 5 * kM}, {3, 6 * kM}, {4, 4 * kM}, {5, 5 * kM}}, 92'000'592, 92'000'560, {b1, b2, b3_of_5, b4}},
      {{{1, kM}, {2, 8 * kM}, {3, 9 * kM}, {4, 4 * kM}, {5, 5 * kM}}, 108'000'732, 108'000'688, {b1, b2, b3, b4, b5}},
      {{{1, kM}, {2, kM}, {3, 2 * kM}, {4, 4 * kM}, {5, 5 * kM}},
       108'000'732,
       108'000'688,
       {b1_of_7, b2, b3_of_7, b4, b5_of_7}}};
}

TEST(WorkedExampleTest, EveryEntryOfTheTableInLayoutsAAndF) {
  FileLayout layout;
  for (const Step& step : WorkedExample()) {
    const auto next = PlanNext(layout, false, step.variables, Packing::kExact);
    ASSERT_TRUE(next.ok()) << next.status();
    layout = *next;
    std::vector<std::uint32_t> block_containers;
    std::vector<Container> in_a, in_f;
    for (const Block& block : step.blocks) {
      std::uint64_t block_bytes = 0;
      for (const Entry& e : block.entries) {
        const Container c{.id = e.id,
                          .index = e.index,
                          .has_content = e.has_content,
                          .variable_offset = e.variable_offset,
                          .file_offset = e.offset_f,
                          .chunk_bytes = e.chunk_bytes,
                          .container_bytes = e.container_bytes};
        in_f.push_back(c);
        in_a.push_back(c);
        in_a.back().file_offset = e.offset_a;
        block_bytes += e.container_bytes;
      }
      block_containers.push_back(static_cast<std::uint32_t>(block.entries.size()));
      EXPECT_EQ(block.bytes_a, block_bytes + 12 + 64 * block.entries.size());
    }
    EXPECT_EQ(layout.containers, in_f);
    EXPECT_EQ(Placed(layout, Letter::kA).containers, in_a);
    EXPECT_EQ(Placed(layout, Letter::kF).containers, in_f);
    EXPECT_EQ(layout.block_containers, block_containers);
    EXPECT_EQ(layout.file_bytes(Letter::kA), step.file_bytes_a);
    EXPECT_EQ(layout.file_bytes(Letter::kF), step.file_bytes_f);
  }
  EXPECT_EQ(layout.meta_bytes(Letter::kF), 688u);
}

Md5Digest Md5Of(std::string_view bytes) {
  return Md5(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

// Copies bytes that section 10 lets differ from the real file.
void Mask(const std::string& real, std::size_t offset, std::size_t bytes, std::string* made) {
  ASSERT_LE(offset + bytes, made->size());
  std::memcpy(made->data() + offset, real.data() + offset, bytes);
}

// Of layout A: the gaps, and the two hashes over them, which are made anew by the format's rules.
void MaskA(const std::string& real, const FileLayout& placed, std::string* made) {
  const RecordTable& table = TableOf(Letter::kA);
  Mask(real, 49, 7, made);
  std::size_t next = 0, at = table.file_record_bytes;
  for (const std::uint32_t chunks : placed.block_containers) {
    at += table.block_record_bytes;
    for (std::uint32_t i = 0; i < chunks; ++i, at += table.chunk_record_bytes) Mask(real, at + 13, 3, made);
    for (std::uint32_t i = 0; i < chunks; ++i) at += placed.containers[next++].container_bytes;
  }
  const std::string checksum = HexOf(Md5Of(std::string_view(*made).substr(table.file_record_bytes)));
  std::memcpy(made->data(), checksum.data(), checksum.size());
  const auto record = std::as_writable_bytes(std::span(*made)).first(table.file_record_bytes);
  const Md5Digest hash = MetadataHash(table, record);
  std::memcpy(record.data() + kMetadataHashOffset, hash.data(), hash.size());
}

bool HasEmptied(const FileLayout& layout) {
  const auto is_emptied = [](const Container& c) { return !c.has_content; };
  return std::any_of(layout.containers.begin(), layout.containers.end(), is_emptied);
}

// Of layout F: the last byte; checksum and the record's hash over it where FTI has covered containers without content;
// the unused tails in a file that FTI wrote differentially.
void MaskF(const json& file, const std::string& real, const FileLayout& placed, std::string* made) {
  Mask(real, real.size() - 1, 1, made);
  if (HasEmptied(placed)) {
    EXPECT_EQ(file["checks"]["reader_ok"], false);
    Mask(real, real.size() - TableOf(Letter::kF).file_record_bytes, kMetadataHashOffset + sizeof(Md5Digest), made);
  }
  if (file["kind"] != "dcp") return;
  for (const Container& c : placed.containers) {
    Mask(real, c.file_offset + c.chunk_bytes, c.container_bytes - c.chunk_bytes, made);
  }
}

std::string BytesOfHex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

// The real file; of one that is too large to be a vector, the given metadata between the bytes that were made. Of these
// the hashes in the metadata tell that they are the real ones, but in F for the tails, for which the file's digest
// does.
std::string RealFile(const std::string& root, Letter letter, const json& file, const std::string& made) {
  if (!file["stored"].is_null()) return LoadVector(root, file);
  std::string real = made;
  for (const json& region : file["meta_regions"]) {
    const std::string bytes = BytesOfHex(region["hex"]);
    real.replace(region["offset"], bytes.size(), bytes);
  }
  if (letter == Letter::kF) {
    EXPECT_EQ(HexOf(Md5Of(real)), file["md5"].get<std::string>());
  }
  return real;
}

void ExpectSameFile(const std::string& root, Letter letter, const json& file, const Replay& replay) {
  const json& meta = file["file_meta"];
  const FileHeader header{.checkpoint_id = replay.checkpoint_id(),
                          .timestamp_ns = meta["timestamp"],
                          .file_bytes_max = meta["maxFs"],
                          .partner_bytes = meta["ptFs"]};
  const FileLayout placed = Placed(replay.layout(), letter);
  const bool full_size = file["stored"].is_null();
  const bool hashes_given = full_size || (letter == Letter::kF && HasEmptied(placed));
  std::string made = replay.File(letter, header, hashes_given);
  const std::string real = RealFile(root, letter, file, made);
  ASSERT_EQ(made.size(), real.size());
  letter == Letter::kA ? MaskA(real, placed, &made) : MaskF(file, real, placed, &made);
  std::size_t from = 0;
  if (!file["checks"]["chunk_hash_ok"]) from = placed.data_bytes;  // FTI did not write all of the data
  if (std::memcmp(made.data() + from, real.data() + from, made.size() - from) == 0) return;
  const auto [differs, in_real] = std::mismatch(made.begin() + static_cast<std::ptrdiff_t>(from), made.end(),
                                                real.begin() + static_cast<std::ptrdiff_t>(from));
  ADD_FAILURE() << "differs first at offset " << differs - made.begin() << " of " << made.size();
}

void ExpectSameLayout(Letter letter, const json& file, const Replay& replay) {
  const FileLayout placed = Placed(replay.layout(), letter);
  std::size_t next = 0;
  ASSERT_EQ(placed.block_containers.size(), file["blocks"].size());
  for (std::size_t b = 0; b < file["blocks"].size(); ++b) {
    ASSERT_EQ(placed.block_containers[b], file["blocks"][b]["numvars"].get<std::uint32_t>());
    for (const json& chunk : file["blocks"][b]["vars"]) {
      const Container& found = placed.containers[next];
      EXPECT_EQ(found, (Container{.id = chunk["id"],
                                  .index = chunk["containerid"],
                                  .has_content = chunk["hascontent"],
                                  .in_file_before = chunk.value("hasCkpt", found.in_file_before),
                                  .variable_offset = chunk["dptr"],
                                  .file_offset = chunk["fptr"],
                                  .chunk_bytes = chunk["chunksize"],
                                  .container_bytes = chunk["containersize"]}));
      if (letter != Letter::kB || found.has_content) {  // B stores undefined bytes for those without content
        const bool none = letter == Letter::kA && !found.has_content;
        EXPECT_EQ(HexOf(none ? Md5({}) : replay.chunk_hashes()[next]), chunk["hash"].get<std::string>());
      }
      ++next;
    }
  }
  EXPECT_EQ(placed.file_bytes(letter), file["file_meta"]["ckptSize"].get<std::uint64_t>());
}

// Does all runs of a scenario again and compares each of its checkpoint files. Returns how many there were.
int ExpectSameRuns(const std::string& root, Letter letter, const json& scenario) {
  std::set<std::int64_t> app_ranks;
  std::set<std::size_t> compared;
  for (const json& file : scenario["files"]) {
    if (file["kind"] != "rs") app_ranks.insert(file["app_rank"].get<std::int64_t>());
  }
  for (const std::int64_t app_rank : app_ranks) {
    const auto visit = [&](std::int32_t id, auto with) {
      for (std::size_t i = 0; i < scenario["files"].size(); ++i) {
        const json& file = scenario["files"][i];
        if (file["kind"] != "rs" && file["app_rank"] == app_rank && file["ckpt_id"] == id) with(i, file);
      }
    };
    Replay replay(scenario, app_rank, [&](std::int32_t id) {
      std::string found;
      visit(id, [&](std::size_t, const json& file) { found = LoadVector(root, file); });
      return found;
    });
    while (replay.Next()) {
      visit(replay.checkpoint_id(), [&](std::size_t i, const json& file) {
        SCOPED_TRACE(file["name"].get<std::string>() + " of checkpoint " + file["ckpt_id"].dump());
        ExpectSameLayout(letter, file, replay);
        if (letter == Letter::kA || letter == Letter::kF) ExpectSameFile(root, letter, file, replay);
        compared.insert(i);
      });
    }
  }
  return static_cast<int>(compared.size());
}

// All scenarios of a layout: those at full size, of which only metadata and digests are there, or the others.
void ExpectSameScenarios(Letter letter, int scenarios_min, bool full_size) {
  const auto root = VectorsPath("ftiff");
  if (!root.has_value()) return;
  const json index = json::parse(ReadVector(*root + "/index.json"));
  int scenarios = 0;
  for (const json& entry : index["scenarios"]) {
    if (entry["layout"] != std::string(1, static_cast<char>(letter))) continue;
    SCOPED_TRACE(entry["scenario"].get<std::string>());
    const json scenario = json::parse(ReadVector(*root + "/" + entry["json"].get<std::string>()));
    const json& files = scenario["files"];
    if (files[0]["stored"].is_null() != full_size) continue;
    const auto is_checkpoint = [](const json& file) { return file["kind"] != "rs"; };
    EXPECT_EQ(ExpectSameRuns(*root, letter, scenario), std::count_if(files.begin(), files.end(), is_checkpoint))
        << "files of checkpoints that no run has";
    ++scenarios;
  }
  EXPECT_GE(scenarios, scenarios_min);
}

TEST(RunsOfFtiTest, TheWorkedExampleAtFullSizeInLayoutA) {
  ExpectSameScenarios(Letter::kA, 1, true);
}

TEST(RunsOfFtiTest, TheWorkedExampleAtFullSizeInLayoutF) {
  ExpectSameScenarios(Letter::kF, 1, true);
}

TEST(RunsOfFtiTest, EveryFileInLayoutA) {
  ExpectSameScenarios(Letter::kA, 5, false);
}

TEST(RunsOfFtiTest, EveryFileInLayoutF) {
  ExpectSameScenarios(Letter::kF, 14, false);
}

TEST(RunsOfFtiTest, ContainersOfTheOtherLayouts) {
  for (const Letter letter : {Letter::kB, Letter::kC, Letter::kD}) ExpectSameScenarios(letter, 1, false);
  ExpectSameScenarios(Letter::kE, 4, false);
}

}  // namespace
}  // namespace cairn::ftiff
