// What is encoded is what the decoder tells: steps made at random, and those of other writers, encoded anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "storage/format/bp5/image.h"
#include "tests/storage/format/bp5/step_model.h"
#include "tests/support/status_matchers.h"
#include "tests/support/vectors.h"

namespace cairn::bp5 {
namespace {

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// A directory of such steps, written by as many encoders as the widest step has writers.
class Directory {
 public:
  void Add(const StepModel& step) {
    if (encoders_.size() < step.writers.size()) encoders_.resize(step.writers.size());
    std::vector<EncodedStep> encoded;
    for (std::size_t w = 0; w < step.writers.size(); ++w) {
      const WriterStep& writer = step.writers[w];
      ASSERT_OK_AND_ASSIGN(EncodedStep record, encoders_[w].Encode(writer.puts, writer.data_bytes, writer.attributes));
      formats_.insert(record.format.get());
      kept_.push_back(record.format);
      encoded.push_back(std::move(record));
    }
    image_.Append(encoded, step.data, step.subfiles);
  }
  const bpdir::Image& image() const { return image_; }
  std::size_t formats() const { return formats_.size(); }

 private:
  std::vector<WriterEncoder> encoders_;
  bpdir::Image image_{IndexOptions{}};
  std::vector<std::shared_ptr<const FormatBlock>> kept_;
  std::set<const FormatBlock*> formats_;
};

void ExpectSteps(const bpdir::Image& image, const std::vector<StepModel>& models) {
  Metadata metadata;
  ASSERT_OK(metadata.Extend(
      {.index = BytesOf(image.index()), .formats = BytesOf(image.formats()), .metadata = BytesOf(image.metadata())}));
  EXPECT_EQ(metadata.index_bytes(), image.index().size());
  EXPECT_EQ(metadata.formats_bytes(), image.formats().size());
  EXPECT_EQ(metadata.metadata_bytes(), image.metadata().size());
  ASSERT_EQ(metadata.steps(), models.size());
  std::map<std::string, Attribute> attributes;
  for (std::uint32_t step = 0; step < models.size(); ++step) ExpectStep(metadata, step, models[step], attributes);
}

TEST(EncodeRoundTripTest, RandomStepsAreDecodedAsTheyWerePut) {
  const char* given = std::getenv("CAIRN_TEST_SEED");
  const std::uint64_t begin = given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
  for (std::uint64_t seed = begin; seed < begin + (given == nullptr ? 60 : 1); ++seed) {
    RandomSteps random(seed);
    Directory directory;
    std::vector<StepModel> models;
    for (int i = 0; i < 12; ++i) {
      models.push_back(random.Next());
      directory.Add(models.back());
    }
    ExpectSteps(directory.image(), models);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "CAIRN_TEST_SEED=" << seed;
  }
}

// --- directories of other writers ---

StepModel Emptied(const Metadata& metadata, std::uint32_t step) {
  StepModel model;
  model.writers.resize(metadata.writers(step));
  for (std::uint32_t w = 0; w < model.writers.size(); ++w) {
    model.writers[w].data_bytes = metadata.data_block_bytes(step, w);
    model.subfiles.push_back(metadata.subfile(step, w));
    model.data.emplace_back();
  }
  return model;
}

Put PutOf(const Variable& variable) {
  Put put;
  put.name = variable.name;
  put.kind = variable.kind;
  put.type = variable.type;
  return put;
}

void AddValues(const Metadata& metadata, VariableNumber number, std::uint32_t step, StepModel& model) {
  for (std::uint32_t w = 0; w < model.writers.size(); ++w) {
    if (metadata.Find(number, step, w) == nullptr) continue;
    Put put = PutOf(metadata.variables()[number]);
    if (put.type == Type::kString) {
      ASSERT_OK_AND_ASSIGN(put.value, metadata.String(number, step, w));
    } else {
      ASSERT_OK_AND_ASSIGN(const auto value, metadata.Scalar(number, step, w));
      put.value.assign(reinterpret_cast<const char*>(value.data()), value.size());
    }
    model.writers[w].puts.push_back(std::move(put));
  }
}

// Of char some writers store min and max; ours does not.
PutBlock PutBlockOf(const Block& block, const Variable& variable) {
  PutBlock put{.box = block.ToBox(), .location = block.location, .min_max = ""};
  if (block.min == nullptr || !IsOrdered(variable.type)) return put;
  put.min_max.assign(reinterpret_cast<const char*>(block.min), variable.element_bytes);
  put.min_max.append(reinterpret_cast<const char*>(block.max), variable.element_bytes);
  return put;
}

void AddBlocks(const Metadata& metadata, VariableNumber number, std::uint32_t step, StepModel& model) {
  const Variable& variable = metadata.variables()[number];
  ASSERT_OK_AND_ASSIGN(const Extents shape, metadata.Shape(number, step));
  BlockWalk walk = metadata.Blocks(number, step);
  std::optional<std::uint32_t> writer;
  while (walk.Next()) {
    std::vector<Put>& puts = model.writers[walk.block().writer].puts;
    if (writer != walk.block().writer) {
      puts.push_back(PutOf(variable));
      puts.back().shape = shape;
      if (variable.kind == Kind::kJoinedArray) puts.back().shape[walk.block().joined] = kJoinedMark;
    }
    writer = walk.block().writer;
    puts.back().blocks.push_back(PutBlockOf(walk.block(), variable));
  }
  EXPECT_OK(walk.status());
}

bool CanBeWritten(const Variable& variable) {
  return !variable.has_operator && variable.type != Type::kStruct && variable.expression.empty();
}

std::vector<StepModel> ModelsOf(const Metadata& metadata) {
  std::vector<StepModel> models;
  std::map<std::string, Attribute> before;
  for (std::uint32_t step = 0; step < metadata.steps(); ++step) {
    StepModel model = Emptied(metadata, step);
    for (VariableNumber number = 0; number < metadata.variables().size(); ++number) {
      const Variable& variable = metadata.variables()[number];
      if (!std::ranges::binary_search(variable.steps, step) || !CanBeWritten(variable)) continue;
      IsArray(variable.kind) ? AddBlocks(metadata, number, step, model) : AddValues(metadata, number, step, model);
    }
    const auto attributes = metadata.Attributes(step);
    EXPECT_OK(attributes);
    if (attributes.ok() && step == 0) {
      for (const auto& [name, attribute] : *attributes) model.writers[0].attributes.push_back(attribute);
    }
    models.push_back(std::move(model));
  }
  return models;
}

void Rewrite(const std::string& path) {
  const std::string index = testing::ReadVector(path + "/md.idx"), formats = testing::ReadVector(path + "/mmd.0"),
                    steps = testing::ReadVector(path + "/md.0");
  Metadata metadata;
  ASSERT_OK(metadata.Extend({.index = BytesOf(index), .formats = BytesOf(formats), .metadata = BytesOf(steps)}));
  const std::vector<StepModel> models = ModelsOf(metadata);
  Directory directory;
  for (const StepModel& model : models) directory.Add(model);
  if (models.empty()) return;
  Metadata anew;
  ASSERT_OK(anew.Extend({.index = BytesOf(directory.image().index()),
                         .formats = BytesOf(directory.image().formats()),
                         .metadata = BytesOf(directory.image().metadata())}));
  std::map<std::string, Attribute> attributes;
  for (std::uint32_t step = 0; step < models.size(); ++step) ExpectStep(anew, step, models[step], attributes);
}

TEST(EncodeRoundTripTest, DirectoriesOfOtherWritersAreEncodedAnew) {
  const auto vectors = testing::VectorsPath("bp5");
  if (!vectors) return;
  int rewritten = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*vectors)) {
    if (entry.path().extension() != ".bp") continue;
    SCOPED_TRACE(entry.path().filename().string());
    Rewrite(entry.path().string());
    ++rewritten;
  }
  EXPECT_GT(rewritten, 50);
}

}  // namespace
}  // namespace cairn::bp5
