// Bounds that are kept of whole steps, once many were asked for, are those that a walk over the blocks finds.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "storage/format/bp5/image.h"
#include "storage/format/bp5/metadata.h"
#include "tests/storage/format/bp5/bp_files.h"
#include "tests/storage/format/bp5/step_model.h"
#include "tests/support/status_matchers.h"
#include "tests/support/vectors.h"

namespace cairn::bp5::testing {
namespace {

std::string TextOf(const absl::StatusOr<std::optional<MinMax>>& found) {
  if (!found.ok()) return found.status().ToString();
  if (!found->has_value()) return "none";
  const auto text = [](const std::array<std::byte, 16>& value) {
    std::string hex;
    for (const std::byte byte : value) hex += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
    return hex;
  };
  return fmt::format("{} {} but for {} blocks, {} steps", text((*found)->min), text((*found)->max),
                     (*found)->blocks_without, (*found)->steps_without);
}

std::string BoundsOf(const Metadata& metadata, VariableNumber v) {
  std::string text = metadata.variables()[v].name + ": " + TextOf(metadata.MinMaxOf(v));
  for (std::uint32_t step = 0; step < metadata.steps(); ++step) text += "\n " + TextOf(metadata.MinMaxOf(v, step));
  return text;
}

// What is asked first of a step is looked for block by block: so each question needs an object of its own.
std::string WalkedBoundsOf(const BpFiles& files, VariableNumber v) {
  Metadata all;
  EXPECT_OK(ExtendWith(files, all));
  std::string text = all.variables()[v].name + ": " + TextOf(all.MinMaxOf(v));
  Metadata each;
  EXPECT_OK(ExtendWith(files, each));
  for (std::uint32_t step = 0; step < each.steps(); ++step) text += "\n " + TextOf(each.MinMaxOf(v, step));
  return text;
}

// Answers whether bounds of steps were kept.
bool ExpectSameBounds(const BpFiles& files) {
  Metadata metadata;
  if (!ExtendWith(files, metadata).ok()) return false;
  const auto variables = static_cast<VariableNumber>(metadata.variables().size());
  const std::uint64_t own_bytes = metadata.own_bytes();
  for (int time = 0; time < 2; ++time) {
    for (VariableNumber v = 0; v < variables; ++v) BoundsOf(metadata, v);
  }
  for (VariableNumber v = 0; v < variables; ++v) EXPECT_EQ(BoundsOf(metadata, v), WalkedBoundsOf(files, v));
  return metadata.own_bytes() > own_bytes;
}

BpFiles FilesOf(const bpdir::Image& image) {
  return {.index = image.index(), .formats = image.formats(), .metadata = image.metadata()};
}

class Made {
 public:
  Made& Step(const std::vector<std::vector<Put>>& writers) {
    if (encoders_.size() < writers.size()) encoders_.resize(writers.size());
    std::vector<EncodedStep> encoded;
    for (std::size_t w = 0; w < writers.size(); ++w) encoded.push_back(*encoders_[w].Encode(writers[w], 1 << 20));
    image_.Append(encoded, std::vector<WriterData>(writers.size()), std::vector<std::uint32_t>(writers.size()));
    return *this;
  }
  BpFiles files() const { return FilesOf(image_); }

 private:
  std::vector<WriterEncoder> encoders_;
  bpdir::Image image_{IndexOptions{}};
};

// Six writers with the same variables: all alike, or one of them with a scalar of its own, or other extents.
Made SixWriters(int steps) {
  Made made;
  for (int step = 0; step < steps; ++step) {
    std::vector<std::vector<Put>> writers;
    for (int w = 0; w < 6; ++w) {
      std::vector<Put> puts;
      for (int v = 0; v < 4; ++v) {
        puts.push_back(Doubles(fmt::format("u{}", v), 0, 8, 10 * w - 7 * v + step, 100 + w * v));
      }
      puts.push_back(Int32("n", step == 1 ? w : 3));
      Put several = Doubles("several", 0, 4, w, w + 1);
      if (w != 2) several.blocks.push_back(several.blocks[0]);
      if (w == 4) several.blocks[0].min_max.clear();
      if (w != 3 || step != 2) puts.push_back(several);
      writers.push_back(std::move(puts));
    }
    made.Step(writers);
  }
  return made;
}

TEST(StepBoundsTest, WritersThatDifferInTheirBoundsOnlyOrInMore) {
  EXPECT_TRUE(ExpectSameBounds(SixWriters(3).files()));
}

TEST(StepBoundsTest, NotANumberCountsOnlyWhereThereIsNothingElse) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto x = [](double min, double max) { return std::vector<Put>{Doubles("x", 0, 8, min, max), Int32("n", 1)}; };
  Made made;
  made.Step({x(nan, nan), x(nan, 3), x(2, nan), x(-0.0, 0.0), x(0.0, -0.0)}).Step(std::vector(5, x(nan, nan)));
  EXPECT_TRUE(ExpectSameBounds(made.files()));
}

// A block beyond it is damage, whatever shape its own writer stores.
TEST(StepBoundsTest, TheShapeIsThatOfTheLowestWriter) {
  std::vector<std::vector<Put>> writers;
  for (int w = 0; w < 6; ++w) {
    writers.push_back({Doubles("u", 0, 8, w, w + 1), Doubles("v", 0, 8, w, w + 1)});
    if (w == 3) {
      writers.back()[1] = Doubles("v", 0, 16, w, w + 1);
      writers.back().push_back(Int32("n", 1));  // a format of its own
    }
  }
  Made made;
  made.Step(writers).Step(writers);
  EXPECT_TRUE(ExpectSameBounds(made.files()));
  EXPECT_NE(WalkedBoundsOf(made.files(), 1).find("a block leaves the shape"), std::string::npos);
}

TEST(StepBoundsTest, StepsMadeAtRandom) {
  bool kept = false;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    RandomSteps steps(seed);
    bpdir::Image image({});
    std::vector<WriterEncoder> encoders(8);
    for (int step = 0; step < 8; ++step) {
      const StepModel model = steps.Next();
      std::vector<EncodedStep> encoded;
      for (std::size_t w = 0; w < model.writers.size(); ++w) {
        encoded.push_back(*encoders[w].Encode(model.writers[w].puts, model.writers[w].data_bytes));
      }
      image.Append(encoded, model.data, model.subfiles);
    }
    kept |= ExpectSameBounds(FilesOf(image));
  }
  EXPECT_TRUE(kept);
}

TEST(StepBoundsTest, DirectoriesThatOthersWrote) {
  const std::optional<std::string> folder = ::cairn::testing::VectorsPath("bp5");
  if (!folder.has_value()) return;
  int kept = 0;
  for (const std::string& path : DirectoriesIn(*folder)) {
    SCOPED_TRACE(path);
    kept += ExpectSameBounds(ReadBpFiles(path)) ? 1 : 0;
  }
  EXPECT_GT(kept, 3);
}

// Whatever is wrong with a record, the answer is that of the walk, errors and all.
TEST(StepBoundsTest, DamagedRecords) {
  const BpFiles whole = SixWriters(2).files();
  std::mt19937_64 random(3);
  int kept = 0;
  for (std::size_t at = 0; at < whole.metadata.size(); at += 1 + random() % 5) {
    SCOPED_TRACE(at);
    BpFiles damaged = whole;
    damaged.metadata[at] = static_cast<char>(damaged.metadata[at] ^ (1 << random() % 8));
    kept += ExpectSameBounds(damaged) ? 1 : 0;
  }
  EXPECT_GT(kept, 100);
}

TEST(StepBoundsTest, StepsThatComeLaterAreKeptToo) {
  const BpFiles first = SixWriters(1).files(), all = SixWriters(3).files();
  ASSERT_TRUE(all.metadata.starts_with(first.metadata));
  Metadata metadata;
  ASSERT_OK(ExtendWith(first, metadata));
  for (VariableNumber v = 0; v < metadata.variables().size(); ++v) BoundsOf(metadata, v);
  // The bytes of the first tail stay where they are.
  ASSERT_OK(metadata.Extend(TailOf(all, metadata)));
  ASSERT_EQ(metadata.steps(), 3u);
  for (VariableNumber v = 0; v < metadata.variables().size(); ++v) {
    EXPECT_EQ(BoundsOf(metadata, v), WalkedBoundsOf(all, v));
    EXPECT_EQ(BoundsOf(metadata, v), WalkedBoundsOf(all, v));
  }
}

}  // namespace
}  // namespace cairn::bp5::testing
