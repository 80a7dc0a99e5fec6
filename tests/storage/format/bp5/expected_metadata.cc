#include "tests/storage/format/bp5/expected_metadata.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/storage/file/bpdir/expected.h"
#include "tests/support/status_matchers.h"

namespace cairn::bp5::testing {
namespace {

using ::cairn::testing::Differences;
using ::cairn::testing::ExtentsOf;
using nlohmann::json;

std::string KindName(Kind kind) {
  switch (kind) {
    case Kind::kGlobalValue:
      return "GlobalValue";
    case Kind::kLocalValue:
      return "LocalValue";
    case Kind::kGlobalArray:
      return "GlobalArray";
    case Kind::kLocalArray:
      return "LocalArray";
    case Kind::kJoinedArray:
      return "JoinedArray";
  }
  return "";
}

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

void ExpectValue(const json& expected, const Metadata& metadata, VariableNumber v, std::uint32_t step,
                 std::uint32_t writer) {
  const Variable& variable = metadata.variables()[v];
  if (variable.type == Type::kString) {
    ASSERT_OK_AND_ASSIGN(const std::string_view text, metadata.String(v, step, writer));
    EXPECT_EQ(text, expected.get<std::string>());
    return;
  }
  ASSERT_OK_AND_ASSIGN(const std::span<const std::byte> value, metadata.Scalar(v, step, writer));
  EXPECT_EQ(Differences(json::array({expected}), variable.type, value), "");
}

// Of global values each block is a writer's; of local values `all` has them, where `written_by` says.
void ExpectValues(const json& expected, const Metadata& metadata, VariableNumber v, std::uint32_t step) {
  std::map<std::uint32_t, json> values;
  if (metadata.variables()[v].kind == Kind::kGlobalValue) {
    for (const json& block : expected["blocks"]) values[block["writer"]] = block["value"];
    ASSERT_OK_AND_ASSIGN(const std::uint32_t first, metadata.FirstWriter(v, step));
    ExpectValue(expected["value"], metadata, v, step, first);
  } else {
    for (const json& writer : expected["written_by"]) values[writer] = expected["all"][writer.get<std::size_t>()];
  }
  for (std::uint32_t writer = 0; writer < metadata.writers(step); ++writer) {
    SCOPED_TRACE(fmt::format("writer {}", writer));
    const auto value = values.find(writer);
    EXPECT_EQ(metadata.Find(v, step, writer) != nullptr, value != values.end());
    if (value != values.end()) ExpectValue(value->second, metadata, v, step, writer);
  }
}

void ExpectMinMax(const json& block, const Variable& variable, const std::byte* min, const std::byte* max) {
  const bool there = block.contains("min") && !block["min"].is_null();
  ASSERT_EQ(min != nullptr, there);
  if (!there) return;
  const std::size_t bytes = variable.element_bytes;
  EXPECT_EQ(Differences(json::array({block["min"]}), variable.type, {min, bytes}), "");
  EXPECT_EQ(Differences(json::array({block["max"]}), variable.type, {max, bytes}), "");
}

void ExpectBlocks(const json& expected, const Metadata& metadata, VariableNumber v, std::uint32_t step) {
  const Variable& variable = metadata.variables()[v];
  BlockWalk walk = metadata.Blocks(v, step);
  std::size_t number = 0;
  for (const json& block : expected["blocks"]) {
    SCOPED_TRACE(fmt::format("block {}", number));
    ASSERT_TRUE(walk.Next()) << walk.status();
    EXPECT_EQ(walk.block().id, number++);
    EXPECT_EQ(walk.block().writer, block["writer"].get<std::uint32_t>());
    const Box box = walk.block().ToBox();
    EXPECT_EQ(box.count, ExtentsOf(block["count"]));
    if (variable.kind != Kind::kLocalArray) {
      EXPECT_EQ(box.start, ExtentsOf(block["start"]));
    }
    EXPECT_EQ(walk.block().location != kNotStored, block.value("data_stored", true));
    ExpectMinMax(block, variable, walk.block().min, walk.block().max);
    if (walk.block().location == kNotStored) continue;
    EXPECT_OK(metadata.Place(step, walk.block().writer, walk.block().location, walk.block().stored_bytes));
  }
  EXPECT_FALSE(walk.Next());
  EXPECT_OK(walk.status());
  ASSERT_OK_AND_ASSIGN(const std::uint32_t dimensions, metadata.Dimensions(v, step));
  EXPECT_EQ(dimensions, variable.dimensions);
}

// The blocks' and values' numbers, as doubles: the least and the greatest over what is given. Vectors with NaN are left
// to tests of their own.
class Bounds {
 public:
  void AddStep(const json& step) {
    for (const json& block : step["blocks"]) {
      if (block.contains("value")) Add(block["value"], block["value"]);
      if (block.contains("min") && !block["min"].is_null()) Add(block["min"], block["max"]);
    }
  }
  void Expect(Type type, const std::optional<MinMax>& min_max) const {
    if (!IsOrdered(type) || odd_) return;
    ASSERT_EQ(min_max.has_value(), there_);
    if (!there_) return;
    const std::span<const std::byte> min(min_max->min.data(), ElementBytes(type)), max(min_max->max.data(), min.size());
    EXPECT_EQ(Differences(json::array({min_}), type, min), "");
    EXPECT_EQ(Differences(json::array({max_}), type, max), "");
  }

 private:
  void Add(const json& min, const json& max) {
    odd_ |= !min.is_number() || !max.is_number();
    if (odd_) return;
    if (!there_ || min < min_) min_ = min;
    if (!there_ || max > max_) max_ = max;
    there_ = true;
  }
  json min_, max_;
  bool there_ = false, odd_ = false;
};

void ExpectVariable(const json& expected, const Metadata& metadata) {
  const std::optional<VariableNumber> found = metadata.FindVariable(expected["name"].get<std::string>());
  ASSERT_TRUE(found.has_value());
  const VariableNumber v = *found;
  const Variable& variable = metadata.variables()[v];
  EXPECT_EQ(variable.name, expected["name"].get<std::string>());
  EXPECT_EQ(NameOf(variable.type), expected["type"].get<std::string>());
  ASSERT_EQ(KindName(variable.kind), expected["shape_id"].get<std::string>());
  if (variable.type != Type::kString) {
    EXPECT_EQ(variable.element_bytes, expected["element_size"].get<std::uint32_t>());
  }
  ASSERT_EQ(variable.steps, expected["absolute_steps"].get<std::vector<std::uint32_t>>());
  Bounds whole;
  for (const json& of_step : expected["steps"]) {
    const std::uint32_t step = variable.steps[of_step["rel"].get<std::size_t>()];
    SCOPED_TRACE(fmt::format("step {}", step));
    ASSERT_EQ(step, of_step["abs"].get<std::uint32_t>());
    ASSERT_OK_AND_ASSIGN(const Extents shape, metadata.Shape(v, step));
    EXPECT_EQ(shape, ExtentsOf(of_step["shape"]));
    IsArray(variable.kind) ? ExpectBlocks(of_step, metadata, v, step) : ExpectValues(of_step, metadata, v, step);
    Bounds bounds;
    bounds.AddStep(of_step);
    whole.AddStep(of_step);
    ASSERT_OK_AND_ASSIGN(const std::optional<MinMax> min_max, metadata.MinMaxOf(v, step));
    bounds.Expect(variable.type, min_max);
  }
  ASSERT_OK_AND_ASSIGN(const std::optional<MinMax> min_max, metadata.MinMaxOf(v));
  whole.Expect(variable.type, min_max);
}

void ExpectAttributes(const json& expected, const std::map<std::string, Attribute>& attributes) {
  EXPECT_EQ(attributes.size(), expected.size());
  for (const json& attribute : expected) {
    SCOPED_TRACE("attribute " + attribute["name"].dump());
    const auto found = attributes.find(attribute["name"].get<std::string>());
    ASSERT_NE(found, attributes.end());
    const Attribute& read = found->second;
    EXPECT_EQ(read.name, found->first);
    EXPECT_EQ(NameOf(read.type), attribute["type"].get<std::string>());
    EXPECT_EQ(read.single, attribute["single"].get<bool>());
    if (read.type == Type::kString) {
      EXPECT_EQ(read.strings, attribute["values"].get<std::vector<std::string>>());
    } else {
      EXPECT_EQ(Differences(attribute["values"], read.type, BytesOf(read.values)), "");
    }
  }
}

}  // namespace

void ExpectMetadata(const json& expected, const Metadata& metadata) {
  ASSERT_EQ(metadata.steps(), expected["steps"].get<std::uint32_t>());
  EXPECT_EQ(metadata.header().active, expected["active_flag"].get<int>() != 0);
  EXPECT_EQ(metadata.header().column_major, expected["column_major"].get<bool>());
  EXPECT_EQ(metadata.header().flatten, expected["flatten"].get<int>() != 0);
  for (std::uint32_t step = 0; step < metadata.steps(); ++step) {
    SCOPED_TRACE(fmt::format("step {}", step));
    ASSERT_EQ(metadata.writers(step), expected["writers_per_step"][step].get<std::uint32_t>());
    EXPECT_EQ(metadata.flushes(step), expected["flushes_per_step"][step].get<std::uint32_t>());
    for (std::uint32_t writer = 0; writer < metadata.writers(step); ++writer) {
      EXPECT_EQ(metadata.subfile(step, writer), expected["subfile_of_writer"][step][writer].get<std::uint32_t>());
    }
  }
  EXPECT_EQ(metadata.variables().size(), expected["variables"].size());
  for (const json& variable : expected["variables"]) {
    SCOPED_TRACE("variable " + variable["name"].dump());
    ExpectVariable(variable, metadata);
  }
  ASSERT_OK_AND_ASSIGN(const auto attributes, metadata.Attributes(metadata.steps() - 1));
  ExpectAttributes(expected["attributes"], attributes);
}

}  // namespace cairn::bp5::testing
