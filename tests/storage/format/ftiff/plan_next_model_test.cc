// Random lists of containers from checkpoint to checkpoint, against a model, and against what readers accept.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/status.h"
#include "storage/format/ftiff/codec.h"
#include "storage/format/ftiff/layout.h"
#include "tests/storage/format/ftiff/planned.h"
#include "tests/storage/format/ftiff/sample_file.h"
#include "tests/support/status_matchers.h"

namespace cairn::ftiff {
namespace {

using testing::ReaderOf;

constexpr std::uint64_t kMiB = 1 << 20;

// Section 5 word by word, for FTI's own packing.
class Model {
 public:
  void Checkpoint(const Sizes& sizes) {
    for (const auto& [id, slots] : slots_) {
      const auto is_it = [id = id](const VariableSize& variable) { return variable.id == id; };
      if (std::none_of(sizes.begin(), sizes.end(), is_it)) {
        *this = Model();
        break;
      }
    }
    std::vector<Container> block;
    for (const VariableSize& variable : sizes) {
      std::uint64_t rest = variable.bytes, reserved = 0;
      bool closed = false;
      std::vector<std::pair<std::size_t, std::size_t>>& slots = slots_[variable.id];
      for (const auto& [in_block, place] : slots) {
        Container& c = blocks_[in_block][place];
        reserved += c.container_bytes;
        c.has_content = !closed;
        if (closed) {
          c.chunk_bytes = 0;
        } else if (rest > c.container_bytes) {
          c.chunk_bytes = c.container_bytes;
          rest -= c.container_bytes;
        } else {
          c.chunk_bytes = rest;
          closed = true;
        }
      }
      if (closed) continue;
      slots.emplace_back(blocks_.size(), block.size());
      block.push_back({.id = variable.id,
                       .index = static_cast<std::int32_t>(slots.size()) - 1,
                       .variable_offset = reserved,
                       .chunk_bytes = rest,
                       .container_bytes = rest});
    }
    if (!block.empty()) blocks_.push_back(block);
  }

  FileLayout Layout() const {
    FileLayout layout;
    for (const std::vector<Container>& block : blocks_) {
      for (Container c : block) {
        c.file_offset = layout.data_bytes;
        layout.data_bytes += c.container_bytes;
        layout.containers.push_back(c);
      }
      layout.block_containers.push_back(static_cast<std::uint32_t>(block.size()));
    }
    return layout;
  }

 private:
  std::vector<std::vector<Container>> blocks_;
  std::map<std::int32_t, std::vector<std::pair<std::size_t, std::size_t>>> slots_;  // block, place in it
};

// Every byte of every variable is in exactly one chunk, in order, and a reader accepts the list (section 10).
void ExpectSound(const Sizes& sizes, const FileLayout& layout) {
  std::map<std::int32_t, std::uint64_t> covered;
  for (const Container& c : layout.containers) {
    EXPECT_TRUE(c.chunk_bytes == 0 || c.variable_offset == covered[c.id]) << "container " << c.index << " of " << c.id;
    covered[c.id] += c.chunk_bytes;
  }
  EXPECT_EQ(covered.size(), sizes.size());
  for (const VariableSize& variable : sizes) EXPECT_EQ(covered[variable.id], variable.bytes);

  const std::vector<Md5Digest> hashes(layout.containers.size());
  const std::vector<std::byte> encoded = EncodeMetadata(layout, hashes, {});
  const std::string metadata(reinterpret_cast<const char*>(encoded.data()), encoded.size());
  const ReadAt read = [&](std::uint64_t offset, std::span<std::byte> target) {
    return offset < layout.data_bytes ? Internal("the data was read")
                                      : ReaderOf(metadata)(offset - layout.data_bytes, target);
  };
  const auto decoded = DecodeMetadata("planned", layout.file_bytes(Letter::kF), read);
  ASSERT_OK(decoded);
  ExpectSame(decoded->layout, layout);
}

// No container of the last list has moved or changed its size.
void ExpectKept(const FileLayout& last, const FileLayout& next) {
  ASSERT_LE(last.containers.size(), next.containers.size());
  for (std::size_t i = 0; i < last.containers.size(); ++i) {
    Container kept = next.containers[i];
    kept.has_content = last.containers[i].has_content;
    kept.chunk_bytes = last.containers[i].chunk_bytes;
    EXPECT_EQ(kept, last.containers[i]);
  }
  ASSERT_LE(last.block_containers.size(), next.block_containers.size());
  EXPECT_TRUE(std::equal(last.block_containers.begin(), last.block_containers.end(), next.block_containers.begin()));
}

// Variables that come, grow, shrink and, seldom, go.
class Changes {
 public:
  explicit Changes(std::uint64_t seed, std::uint64_t bytes_max) : random_(seed), bytes_max_(bytes_max) {}

  const Sizes& Next() {
    while (sizes_.empty() || random_() % 3 == 0) sizes_.push_back({next_id_ += 1 + random_() % 3, AnySize()});
    for (VariableSize& variable : sizes_) {
      switch (random_() % 8) {
        case 0:
          variable.bytes = AnySize();
          break;
        case 1:
          variable.bytes = 0;
          break;
        case 2:
          variable.bytes /= 2;
          break;
        case 3:
          variable.bytes += random_() % 5;
          break;
        default:
          break;
      }
    }
    if (sizes_.size() > 12 || random_() % 16 == 0) {
      sizes_.erase(sizes_.begin() + static_cast<std::ptrdiff_t>(random_() % sizes_.size()));
    }
    std::shuffle(sizes_.begin(), sizes_.end(), random_);  // as incremental checkpoints may
    return sizes_;
  }

 private:
  std::uint64_t AnySize() { return random_() % 8 == 0 ? 0 : random_() % (bytes_max_ >> random_() % 8); }

  std::mt19937_64 random_;
  const std::uint64_t bytes_max_;
  std::int32_t next_id_ = 0;
  Sizes sizes_;
};

TEST(PlanNextModelTest, AnySequenceIsAsTheModelHasIt) {
  const std::uint64_t seed = testing::TestSeed();
  SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(seed));
  for (std::uint64_t round = 0; round < 60 && !HasFailure(); ++round) {
    Changes changes(seed + round, 4096);
    Model model;
    FileLayout layout;
    for (int step = 0; step < 25 && !HasFailure(); ++step) {
      SCOPED_TRACE("round " + std::to_string(round) + ", step " + std::to_string(step));
      const Sizes& sizes = changes.Next();
      model.Checkpoint(sizes);
      layout = Next(layout, sizes, Packing::kExact);
      ExpectSame(layout, model.Layout());
      ExpectSound(sizes, layout);
    }
  }
}

// Whatever blocks a file may have: a reader accepts them all.
FileLayout AnySoundList(std::mt19937_64& random) {
  constexpr std::uint64_t kBytes[] = {0, 1, 4095, 4096, kMiB, kMiB + 4096, 64 * kMiB, 65 * kMiB};
  FileLayout layout;
  std::map<std::int32_t, Container> next;
  const std::size_t count = 1 + random() % 12;
  for (std::size_t i = 0; i < count; ++i) {
    const auto id = static_cast<std::int32_t>(random() % 4);
    Container& c = next[id];
    c.id = id;
    c.has_content = random() % 2 == 0;
    c.in_file_before = random() % 2 == 0;
    c.file_offset = layout.data_bytes;
    c.container_bytes = kBytes[random() % std::size(kBytes)];
    layout.containers.push_back(c);
    layout.data_bytes += c.container_bytes;
    c.index += 1;
    c.variable_offset += c.container_bytes;
    if (i == 0 || random() % 3 == 0) layout.block_containers.push_back(0);
    layout.block_containers.back() += 1;
  }
  return layout;
}

TEST(PlanNextModelTest, AnyListOfAFileIsGoneOnWithOrMadeFresh) {
  const std::uint64_t seed = testing::TestSeed();
  SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000 && !HasFailure(); ++round) {
    const FileLayout last = AnySoundList(random);
    std::set<std::int32_t> ids;
    for (const Container& c : last.containers) ids.insert(c.id);
    Sizes sizes;
    for (const std::int32_t id : ids) sizes.push_back({id, random() % (200 * kMiB)});
    if (random() % 2 == 0) sizes.push_back({7, random() % (3 * kMiB)});
    const FileLayout exact = Next(last, sizes, Packing::kExact, true);
    ExpectSound(sizes, exact);
    ASSERT_LE(last.containers.size(), exact.containers.size());
    for (std::size_t i = 0; i < last.containers.size(); ++i) {
      EXPECT_EQ(exact.containers[i].file_offset, last.containers[i].file_offset);
      EXPECT_EQ(exact.containers[i].container_bytes, last.containers[i].container_bytes);
      EXPECT_TRUE(exact.containers[i].in_file_before);
    }
    const FileLayout aligned = Next(last, sizes, Packing::kAligned, true);
    ExpectSound(sizes, aligned);
    for (std::size_t i = 0; i < aligned.containers.size(); ++i) {
      const Container& c = aligned.containers[i];
      EXPECT_EQ(c.file_offset % 4096, 0u);
      EXPECT_TRUE(c.index == 0 || aligned.containers[i - 1].id == c.id) << "a second run";
    }
  }
}

// Whether `sizes` fit into the containers that are there, and all variables of the list are still given.
bool Fits(const FileLayout& last, const Sizes& sizes) {
  std::map<std::int32_t, std::uint64_t> reserved;
  for (const Container& c : last.containers) reserved[c.id] += c.container_bytes;
  std::size_t known = 0;
  for (const VariableSize& variable : sizes) {
    const auto found = reserved.find(variable.id);
    if (found == reserved.end()) continue;
    ++known;
    if (variable.bytes > found->second) return false;
  }
  return known == reserved.size();
}

TEST(PlanNextModelTest, AnyAlignedSequenceKeepsEachVariableInOneRun) {
  const std::uint64_t seed = testing::TestSeed();
  SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(seed));
  int kept = 0, fresh = 0;
  for (std::uint64_t round = 0; round < 60 && !HasFailure(); ++round) {
    Changes changes(seed + round, 300 * kMiB);
    FileLayout layout;
    for (int step = 0; step < 25 && !HasFailure(); ++step) {
      SCOPED_TRACE("round " + std::to_string(round) + ", step " + std::to_string(step));
      const Sizes& sizes = changes.Next();
      const FileLayout last = layout;
      layout = Next(last, sizes, Packing::kAligned);
      ExpectSound(sizes, layout);
      std::set<std::int32_t> seen;
      for (std::size_t i = 0; i < layout.containers.size(); ++i) {
        const Container& c = layout.containers[i];
        EXPECT_EQ(c.file_offset % 4096, 0u);
        EXPECT_EQ(c.container_bytes % 4096, 0u);
        EXPECT_LE(c.container_bytes, 64 * kMiB);
        const bool begins = i == 0 || layout.containers[i - 1].id != c.id;
        EXPECT_TRUE(!begins || seen.insert(c.id).second) << "a second run";
      }
      if (Fits(last, sizes)) {
        ExpectKept(last, layout);
        ++kept;
      } else {
        ExpectSame(layout, Fresh(sizes, Packing::kAligned));
        ++fresh;
      }
    }
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(fresh, 0);
}

}  // namespace
}  // namespace cairn::ftiff
