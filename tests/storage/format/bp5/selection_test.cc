// Selections and blocks of directories that the encoder made in memory, through a source that notes what is read.
#include "storage/format/bp5/selection.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "storage/format/bp5/image.h"
#include "tests/support/status_matchers.h"

namespace cairn::bp5 {
namespace {

using absl::StatusCode;
using Values = std::vector<std::uint32_t>;

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Subfiles that are their writers' numbers.
class MemorySource final : public ByteSource {
 public:
  struct Range {
    std::uint32_t subfile;
    std::uint64_t offset, bytes;
    const std::byte* target;
  };

  absl::Status Read(std::uint32_t subfile, std::uint64_t offset, std::span<std::byte> target) override {
    reads.push_back({subfile, offset, target.size(), target.data()});
    if (pattern) {  // a subfile without an end, of which each u32 is its place
      for (std::size_t i = 0; i < target.size(); ++i) {
        const std::uint32_t value = static_cast<std::uint32_t>((offset + i) / 4);
        target[i] = std::byte(value >> 8 * ((offset + i) % 4));
      }
      return absl::OkStatus();
    }
    if (subfile >= files.size()) return absl::NotFoundError("no such subfile");
    const std::string& file = files[subfile];
    if (offset > file.size() || target.size() > file.size() - offset) return absl::DataLossError("ends before");
    std::memcpy(target.data(), file.data() + offset, target.size());
    return absl::OkStatus();
  }
  std::span<const std::byte> InPlace(std::uint32_t subfile, std::uint64_t offset, std::uint64_t bytes) override {
    if (!mapped || subfile >= files.size() || offset > files[subfile].size() ||
        bytes > files[subfile].size() - offset) {
      return {};
    }
    return BytesOf(files[subfile]).subspan(offset, bytes);
  }

  std::vector<std::string> files;
  std::vector<Range> reads;
  bool mapped = false, pattern = false;
};

// A directory of one step, written block by block.
class Written {
 public:
  explicit Written(std::size_t writers) : puts_(writers), source_() { source_.files.resize(writers); }

  // A block of u32 elements; the next writer's data begins 64 bytes in.
  void Put(std::size_t writer, const std::string& name, Kind kind, const Extents& shape, const Box& box,
           const Values& values) {
    std::string& file = source_.files[writer];
    if (file.empty()) file.assign(kBegin, '\xee');
    PutAt(writer, name, kind, shape, box, file.size() - kBegin);
    file.append(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  }
  // One whose bytes are elsewhere, or nowhere.
  void PutAt(std::size_t writer, const std::string& name, Kind kind, const Extents& shape, const Box& box,
             std::uint64_t location) {
    bp5::Put* put = nullptr;
    for (bp5::Put& one : puts_[writer]) {
      if (one.name == name) put = &one;
    }
    if (put == nullptr) {
      put = &puts_[writer].emplace_back();
      put->name = name;
      put->kind = kind;
      put->type = Type::kUint32;
      put->shape = shape;
    }
    put->blocks.push_back({.box = box, .location = location, .min_max = {}});
  }
  void PutValue(std::size_t writer, const std::string& name) {
    bp5::Put& put = puts_[writer].emplace_back();
    put.name = name;
    put.type = Type::kUint32;
    put.value = std::string(4, '\1');
  }

  // Reads from here on.
  void End() {
    std::vector<EncodedStep> steps;
    std::vector<WriterData> data;
    std::vector<std::uint32_t> subfiles;
    for (std::size_t writer = 0; writer < puts_.size(); ++writer) {
      WriterEncoder encoder;
      auto step = encoder.Encode(puts_[writer], std::uint64_t{1} << 60);
      ASSERT_OK(step);
      steps.push_back(*std::move(step));
      data.push_back({.flushed = {}, .position = kBegin});
      subfiles.push_back(static_cast<std::uint32_t>(writer));
    }
    image_.Append(steps, data, subfiles);
    ASSERT_OK(metadata_.Extend({.index = BytesOf(image_.index()),
                                .formats = BytesOf(image_.formats()),
                                .metadata_begin = 0,
                                .metadata = BytesOf(image_.metadata())}));
    ASSERT_EQ(metadata_.steps(), 1u);
  }

  static constexpr std::uint64_t kBegin = 64;

  MemorySource& source() { return source_; }
  const Metadata& metadata() const { return metadata_; }
  VariableNumber Number(const std::string& name) const { return metadata_.FindVariable(name).value(); }

  // The elements of a selection; `covered` as ReadSelection answers.
  Values Read(const std::string& name, const Box& box, bool* covered = nullptr, std::uint32_t before = 0) {
    Values values(*Elements(box.count), before);
    const auto read =
        ReadSelection(metadata_, Number(name), 0, box, source_, std::as_writable_bytes(std::span(values)));
    EXPECT_OK(read);
    if (covered != nullptr) *covered = read.value_or(false);
    return values;
  }
  absl::Status TryRead(const std::string& name, const Box& box, std::size_t bytes) {
    std::vector<std::byte> target(bytes);
    return ReadSelection(metadata_, Number(name), 0, box, source_, target).status();
  }

 private:
  std::vector<std::vector<bp5::Put>> puts_;
  MemorySource source_;
  bpdir::Image image_{IndexOptions{}};
  Metadata metadata_;
};

Values Range(std::uint32_t from, std::size_t count) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = from + static_cast<std::uint32_t>(i);
  return values;
}

constexpr Kind kG = Kind::kGlobalArray;

TEST(SelectionTest, LaterBlocksWinAndWhatNoneCoversIsLeft) {
  Written written(2);
  written.Put(0, "a", kG, {4, 4}, {.start = {0, 0}, .count = {2, 4}}, Range(0, 8));
  written.Put(0, "a", kG, {4, 4}, {.start = {1, 1}, .count = {2, 2}}, Range(100, 4));
  written.Put(1, "a", kG, {4, 4}, {.start = {2, 2}, .count = {2, 2}}, Range(200, 4));
  written.End();
  for (const bool mapped : {false, true}) {
    written.source().mapped = mapped;
    bool covered = true;
    EXPECT_EQ(written.Read("a", {.start = {0, 0}, .count = {4, 4}}, &covered, 9),
              (Values{0, 1, 2, 3, 4, 100, 101, 7, 9, 102, 200, 201, 9, 9, 202, 203}));
    EXPECT_FALSE(covered);
    EXPECT_EQ(written.Read("a", {.start = {1, 1}, .count = {2, 2}}, &covered), (Values{100, 101, 102, 200}));
    EXPECT_TRUE(covered);
    EXPECT_EQ(written.Read("a", {.start = {3, 0}, .count = {1, 2}}, &covered, 9), (Values{9, 9}));
    EXPECT_FALSE(covered);
    EXPECT_EQ(written.Read("a", {.start = {4, 4}, .count = {0, 0}}, &covered), Values{});
    EXPECT_TRUE(covered);
  }
}

TEST(SelectionTest, OnlyTouchedBlocksAreReadFromTheFirstToBehindTheLastElement) {
  Written written(3);
  for (std::size_t writer = 0; writer < 3; ++writer) {
    written.Put(writer, "a", kG, {30, 10}, {.start = {10 * writer, 0}, .count = {10, 10}},
                Range(static_cast<std::uint32_t>(100 * writer), 100));
  }
  written.End();
  EXPECT_EQ(written.Read("a", {.start = {12, 3}, .count = {2, 4}}), (Values{123, 124, 125, 126, 133, 134, 135, 136}));
  ASSERT_EQ(written.source().reads.size(), 1u);
  EXPECT_EQ(written.source().reads[0].subfile, 1u);
  EXPECT_EQ(written.source().reads[0].offset, Written::kBegin + 4 * 23);
  EXPECT_EQ(written.source().reads[0].bytes, 4u * 14) << "the second row ends 13 elements behind the first one's begin";
}

TEST(SelectionTest, RowsThatAreContiguousInTheTargetAreReadIntoIt) {
  Written written(1);
  written.Put(0, "a", kG, {6, 5}, {.start = {0, 0}, .count = {6, 5}}, Range(0, 30));
  written.End();
  Values target(10);
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(target));
  ASSERT_OK(ReadSelection(written.metadata(), written.Number("a"), 0, {.start = {2, 0}, .count = {2, 5}},
                          written.source(), bytes));
  EXPECT_EQ(target, Range(10, 10));
  ASSERT_EQ(written.source().reads.size(), 1u);
  EXPECT_EQ(written.source().reads[0].target, bytes.data());
}

// A block of 2 Ti elements, of which each has the low bits of its place.
class HugeBlockTest : public testing::Test {
 protected:
  HugeBlockTest() : written_(1) {
    written_.PutAt(0, "a", kG, {1 << 10, 1 << 20, 1 << 11}, {.start = {0, 0, 0}, .count = {1 << 10, 1 << 20, 1 << 11}},
                   0);
    written_.End();
    written_.source().pattern = true;
  }
  static std::uint32_t At(std::uint64_t x, std::uint64_t y, std::uint64_t z) {
    return static_cast<std::uint32_t>(Written::kBegin / 4 + (((x << 20) + y) << 11) + z);
  }
  void ExpectRight(const Box& box) {
    const Values values = written_.Read("a", box);
    std::size_t i = 0;
    for (std::uint64_t x = 0; x < box.count[0]; ++x) {
      for (std::uint64_t y = 0; y < box.count[1]; ++y) {
        for (std::uint64_t z = 0; z < box.count[2]; ++z) {
          ASSERT_EQ(values[i++], At(box.start[0] + x, box.start[1] + y, box.start[2] + z)) << x << " " << y << " " << z;
        }
      }
    }
  }
  std::uint64_t BytesRead() const {
    std::uint64_t bytes = 0;
    for (const auto& read : const_cast<Written&>(written_).source().reads) bytes += read.bytes;
    return bytes;
  }
  std::uint64_t LargestRead() const {
    std::uint64_t bytes = 0;
    for (const auto& read : const_cast<Written&>(written_).source().reads) bytes = std::max(bytes, read.bytes);
    return bytes;
  }

  Written written_;
};

TEST_F(HugeBlockTest, ALongColumnIsReadInSlices) {
  ExpectRight({.start = {5, 1000, 17}, .count = {1, 4000, 2}});  // 32 MB from the first to the last
  EXPECT_LE(LargestRead(), 4u << 20);
  EXPECT_EQ(BytesRead(), (3999u << 13) + 8) << "nothing twice";
  EXPECT_EQ(written_.source().reads.size(), 8u);
}

TEST(SelectionTest, ARowThatASliceWouldCutBelongsToTheNextOne) {
  Written written(1);
  const Extents shape = {1 << 20, 2047};
  written.PutAt(0, "a", kG, shape, {.start = {0, 0}, .count = shape}, 0);
  written.End();
  written.source().pattern = true;
  // Of 8188 bytes from row to row 512 and a part fit into 4 MiB.
  const Box box{.start = {3, 5}, .count = {1200, 1000}};
  const Values values = written.Read("a", box);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t at = (3 + i / 1000) * 2047 + 5 + i % 1000;
    ASSERT_EQ(values[i], Written::kBegin / 4 + at) << i;
  }
}

TEST_F(HugeBlockTest, RowsFarFromEachOtherAreReadWithoutWhatIsBetween) {
  ExpectRight({.start = {0, 4096, 100}, .count = {1000, 1, 3}});
  EXPECT_EQ(BytesRead(), 1000u * 12);
  written_.source().reads.clear();
  ExpectRight({.start = {7, 0, 100}, .count = {3, 10, 3}});
  EXPECT_EQ(written_.source().reads.size(), 3u) << "one range for each ten rows that are close together";
  EXPECT_EQ(BytesRead(), 3u * (9 * 8192 + 12));
}

TEST_F(HugeBlockTest, LongRowsAreReadIntoTheirPlaces) {
  ExpectRight({.start = {1, 100, 0}, .count = {2, 40, 2048}});
  ASSERT_EQ(written_.source().reads.size(), 2u);
  EXPECT_EQ(written_.source().reads[1].target - written_.source().reads[0].target, 40 * 8192);
  EXPECT_EQ(BytesRead(), 2u * 40 * 8192);
}

TEST(SelectionTest, JoinedArraysAreReadAsOne) {
  Written written(2);
  const Extents shape = {kJoinedMark, 2};
  written.Put(0, "j", Kind::kJoinedArray, shape, {.start = {0, 0}, .count = {1, 2}}, {1, 2});
  written.Put(0, "j", Kind::kJoinedArray, shape, {.start = {0, 0}, .count = {2, 2}}, {3, 4, 5, 6});
  written.Put(1, "j", Kind::kJoinedArray, shape, {.start = {0, 0}, .count = {1, 2}}, {7, 8});
  written.End();
  bool covered = false;
  EXPECT_EQ(written.Read("j", {.start = {0, 0}, .count = {4, 2}}, &covered), Range(1, 8));
  EXPECT_TRUE(covered);
  EXPECT_EQ(written.Read("j", {.start = {2, 1}, .count = {2, 1}}), (Values{6, 8}));
}

TEST(SelectionTest, BlocksAreReadWholeOrInPart) {
  Written written(2);
  const Kind kind = Kind::kLocalArray;
  written.Put(0, "l", kind, {}, {.start = {0, 0}, .count = {2, 3}}, Range(0, 6));
  written.Put(1, "l", kind, {}, {.start = {0, 0}, .count = {1, 2}}, Range(10, 2));
  written.Put(1, "l", kind, {}, {.start = {0, 0}, .count = {4, 4}}, Range(20, 16));
  written.Put(1, "l", kind, {}, {.start = {0, 0}, .count = {0, 4}}, {});
  written.End();
  const auto read = [&](std::uint64_t id, const std::optional<Box>& within, std::size_t count) {
    Values values(count);
    EXPECT_OK(ReadBlock(written.metadata(), written.Number("l"), 0, id, within, written.source(),
                        std::as_writable_bytes(std::span(values))));
    return values;
  };
  for (const bool mapped : {false, true}) {
    written.source().mapped = mapped;
    EXPECT_EQ(read(0, std::nullopt, 6), Range(0, 6));
    EXPECT_EQ(read(1, std::nullopt, 2), Range(10, 2));
    EXPECT_EQ(read(2, Box{.start = {1, 2}, .count = {2, 2}}, 4), (Values{26, 27, 30, 31}));
    EXPECT_EQ(read(3, std::nullopt, 0), Values{});
  }
  std::vector<std::byte> target(8);
  const auto status = [&](std::uint64_t id, const std::optional<Box>& within) {
    return ReadBlock(written.metadata(), written.Number("l"), 0, id, within, written.source(), target);
  };
  EXPECT_STATUS(StatusCode::kNotFound, status(4, std::nullopt), "no block 4");
  EXPECT_STATUS(StatusCode::kInvalidArgument, status(0, std::nullopt), "the 8 bytes");
  EXPECT_STATUS(StatusCode::kInvalidArgument, status(1, Box{.start = {0, 1}, .count = {1, 2}}), "leaves the shape");
  EXPECT_STATUS(StatusCode::kInvalidArgument, status(1, Box{.start = {0}, .count = {2}}), "leaves the shape");
}

TEST(SelectionTest, WhatLiesContiguousInOneMappedBlockIsShownWhereItIs) {
  Written written(2);
  written.Put(0, "a", kG, {4, 4}, {.start = {0, 0}, .count = {4, 4}}, Range(0, 16));
  written.Put(1, "a", kG, {4, 4}, {.start = {3, 2}, .count = {1, 2}}, Range(50, 2));
  written.Put(1, "l", Kind::kLocalArray, {}, {.start = {0}, .count = {4}}, Range(70, 4));
  written.End();
  const auto in_place = [&](const Box& box) {
    return SelectionInPlace(written.metadata(), written.Number("a"), 0, box, written.source()).value();
  };
  EXPECT_FALSE(in_place({.start = {1, 0}, .count = {2, 4}})) << "not mapped";
  written.source().mapped = true;
  const auto rows = in_place({.start = {1, 0}, .count = {2, 4}});
  ASSERT_TRUE(rows);
  EXPECT_EQ(static_cast<const void*>(rows->data()), written.source().files[0].data() + Written::kBegin + 16);
  EXPECT_EQ(rows->size(), 32u);
  EXPECT_TRUE(in_place({.start = {2, 1}, .count = {1, 2}}));
  EXPECT_FALSE(in_place({.start = {1, 1}, .count = {2, 2}})) << "two rows";
  EXPECT_FALSE(in_place({.start = {3, 0}, .count = {1, 4}})) << "a later block has a part of it";
  EXPECT_TRUE(in_place({.start = {3, 2}, .count = {1, 2}})) << "the later block has all of it";
  EXPECT_FALSE(in_place({.start = {0, 0}, .count = {0, 4}}));
  EXPECT_TRUE(written.source().reads.empty());
  EXPECT_STATUS(StatusCode::kInvalidArgument,
                SelectionInPlace(written.metadata(), written.Number("a"), 0, {.start = {3, 3}, .count = {2, 1}},
                                 written.source()),
                "leaves the shape");
  const auto block =
      BlockInPlace(written.metadata(), written.Number("l"), 0, 0, Box{.start = {1}, .count = {2}}, written.source());
  ASSERT_OK(block);
  ASSERT_TRUE(*block);
  EXPECT_EQ(std::memcmp((*block)->data(), Range(71, 2).data(), 8), 0);
}

TEST(SelectionTest, WhatMakesNoSenseOrIsNotThereIsAnError) {
  Written written(2);
  written.Put(0, "a", kG, {8}, {.start = {0}, .count = {4}}, Range(0, 4));
  written.PutAt(0, "a", kG, {8}, {.start = {4}, .count = {2}}, kNotStored);
  written.PutAt(1, "a", kG, {8}, {.start = {6}, .count = {2}}, 0);  // its subfile is empty
  written.PutAt(1, "far", kG, {2}, {.start = {0}, .count = {2}}, (std::uint64_t{1} << 60) - 8);
  written.Put(0, "l", Kind::kLocalArray, {}, {.start = {0}, .count = {1}}, {1});
  written.PutValue(0, "v");
  written.End();
  EXPECT_OK(written.TryRead("a", {.start = {0}, .count = {4}}, 16)) << "other blocks do not matter";
  EXPECT_STATUS(StatusCode::kFailedPrecondition, written.TryRead("a", {.start = {3}, .count = {2}}, 8),
                "variable a, step 0, writer 0, block 1: its data was not stored");
  EXPECT_STATUS(StatusCode::kDataLoss, written.TryRead("a", {.start = {7}, .count = {1}}, 4), "writer 1");
  EXPECT_STATUS(StatusCode::kDataLoss, written.TryRead("far", {.start = {0}, .count = {1}}, 4), "far");
  EXPECT_STATUS(StatusCode::kInvalidArgument, written.TryRead("a", {.start = {5}, .count = {4}}, 16), "{8}");
  EXPECT_STATUS(StatusCode::kInvalidArgument, written.TryRead("a", {.start = {~std::uint64_t{0}}, .count = {2}}, 8),
                "leaves the shape");
  EXPECT_STATUS(StatusCode::kInvalidArgument, written.TryRead("a", {.start = {0, 0}, .count = {1, 1}}, 4), "{8}");
  EXPECT_STATUS(StatusCode::kInvalidArgument, written.TryRead("a", {.start = {0}, .count = {2}}, 7), "7 bytes");
  EXPECT_STATUS(StatusCode::kInvalidArgument, written.TryRead("l", {.start = {0}, .count = {1}}, 4), "local");
  EXPECT_STATUS(StatusCode::kInvalidArgument, written.TryRead("v", {.start = {}, .count = {}}, 4), "not an array");
  std::vector<std::byte> target(4);
  const Box one{.start = {0}, .count = {1}};
  EXPECT_STATUS(StatusCode::kInvalidArgument, ReadSelection(written.metadata(), 99, 0, one, written.source(), target),
                "99");
  EXPECT_STATUS(StatusCode::kNotFound,
                ReadSelection(written.metadata(), written.Number("a"), 7, one, written.source(), target), "");
}

TEST(SelectionTest, AnySelectionOfAnyBlocksIsWhatAModelHas) {
  const char* given = std::getenv("CAIRN_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device{}();
  SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 150; ++round) {
    Box whole{.start = {}, .count = {}};
    for (std::uint64_t d = 1 + random() % 4; d > 0; --d) {
      whole.start.push_back(0);
      whole.count.push_back(1 + random() % 9);
    }
    const auto any_box = [&] {
      Box box = whole;
      for (std::size_t d = 0; d < whole.dimensions(); ++d) {
        box.start[d] = random() % whole.count[d];
        box.count[d] =
            random() % 2 == 0 ? whole.count[d] - box.start[d] : random() % (whole.count[d] - box.start[d] + 1);
      }
      return box;
    };
    Written written(3);
    std::vector<std::optional<std::uint32_t>> model(*Elements(whole.count));
    std::uint32_t next = 0;
    for (std::size_t writer = 0; writer < 3; ++writer) {
      for (std::uint64_t n = 1 + random() % 4; n > 0; --n) {
        const Box box = any_box();
        const std::uint64_t elements = *Elements(box.count);
        written.Put(writer, "a", kG, whole.count, box, Range(next, elements));
        if (elements > 0) {
          const RowPattern pattern = PatternOf(box, box, whole);
          ForEachRow(pattern, [&](std::uint64_t a, std::uint64_t b) {
            for (std::uint64_t i = 0; i < pattern.row; ++i) model[b + i] = next + static_cast<std::uint32_t>(a + i);
          });
        }
        next += static_cast<std::uint32_t>(elements);
      }
    }
    written.End();
    for (int selection = 0; selection < 8; ++selection) {
      const Box box = any_box();
      Values expected(*Elements(box.count), 0xdead);
      bool all = true;
      if (!expected.empty()) {
        const RowPattern pattern = PatternOf(box, whole, box);
        ForEachRow(pattern, [&](std::uint64_t a, std::uint64_t b) {
          for (std::uint64_t i = 0; i < pattern.row; ++i) {
            all = all && model[a + i].has_value();
            expected[b + i] = model[a + i].value_or(0xdead);
          }
        });
      }
      written.source().mapped = random() % 2 == 0;
      bool covered = false;
      ASSERT_EQ(written.Read("a", box, &covered, 0xdead), expected) << "round " << round;
      ASSERT_EQ(covered, all) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace cairn::bp5
