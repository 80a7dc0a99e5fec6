#include "tests/storage/format/bp5/step_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <type_traits>
#include <utility>

#include "storage/base/box.h"
#include "tests/support/status_matchers.h"

namespace cairn::bp5 {
namespace {

// Two numbers in order, small ones of every type.
template <typename Number>
std::string Bounds(std::uint64_t low, std::uint64_t high) {
  std::string text(2 * sizeof(Number), '\0');
  const Number min = static_cast<Number>(low), max = static_cast<Number>(high);
  const std::size_t used = std::is_same_v<Number, long double> ? 10 : sizeof(Number);
  std::memcpy(text.data(), &min, used);
  std::memcpy(text.data() + sizeof(Number), &max, used);
  return text;
}

// A scalar of type char cannot be told from int8.
Type Decoded(const Put& put) {
  return !IsArray(put.kind) && put.type == Type::kChar ? Type::kInt8 : put.type;
}

std::string_view TextAt(const std::byte* at, std::size_t bytes) {
  return at == nullptr ? std::string_view() : std::string_view(reinterpret_cast<const char*>(at), bytes);
}

const Put* FindPut(const WriterStep& writer, const std::string& name) {
  const auto found = std::ranges::find(writer.puts, name, &Put::name);
  return found == writer.puts.end() ? nullptr : &*found;
}

void ExpectValues(const Metadata& metadata, VariableNumber variable, std::uint32_t step, const StepModel& model,
                  const std::string& name) {
  for (std::uint32_t w = 0; w < model.writers.size(); ++w) {
    const Put* put = FindPut(model.writers[w], name);
    if (put == nullptr) {
      EXPECT_EQ(metadata.Find(variable, step, w), nullptr);
    } else if (put->type == Type::kString) {
      ASSERT_OK_AND_ASSIGN(const std::string_view text, metadata.String(variable, step, w));
      EXPECT_EQ(text, put->value);
    } else {
      ASSERT_OK_AND_ASSIGN(const auto value, metadata.Scalar(variable, step, w));
      EXPECT_EQ(TextAt(value.data(), value.size()), put->value);
    }
  }
}

void ExpectBlock(const Block& block, const Put& put, std::size_t index, std::uint64_t joined_start) {
  const PutBlock& wanted = put.blocks[index];
  ASSERT_EQ(block.dimensions(), wanted.box.count.size());
  for (std::size_t d = 0; d < block.dimensions(); ++d) {
    EXPECT_EQ(block.count[d], wanted.box.count[d]);
    const bool joined = put.kind == Kind::kJoinedArray && put.shape[d] == kJoinedMark;
    const std::uint64_t start = put.kind == Kind::kGlobalArray ? wanted.box.start[d] : joined ? joined_start : 0;
    EXPECT_EQ(block.StartOf(d), start);
  }
  EXPECT_EQ(block.index, index);
  EXPECT_EQ(block.location, wanted.location);
  EXPECT_FALSE(block.has_operator);
  const std::uint32_t bytes = ElementBytes(put.type);
  const bool known =
      std::ranges::all_of(put.blocks, [](const PutBlock& other) { return Empty(other.box) || !other.min_max.empty(); });
  const std::string expected = known && !Empty(wanted.box) ? wanted.min_max : "";
  EXPECT_EQ(std::string(TextAt(block.min, bytes)) + std::string(TextAt(block.max, bytes)), expected);
}

void ExpectBlocks(const Metadata& metadata, VariableNumber variable, std::uint32_t step, const StepModel& model,
                  const std::string& name) {
  BlockWalk walk = metadata.Blocks(variable, step);
  std::uint64_t id = 0, joined = 0;
  const Put* first = nullptr;
  for (std::uint32_t w = 0; w < model.writers.size(); ++w) {
    const Put* put = FindPut(model.writers[w], name);
    if (put == nullptr) continue;
    if (first == nullptr) first = put;
    for (std::size_t i = 0; i < put->blocks.size(); ++i) {
      ASSERT_TRUE(walk.Next()) << walk.status();
      EXPECT_EQ(walk.block().writer, w);
      EXPECT_EQ(walk.block().id, id++);
      ExpectBlock(walk.block(), *put, i, joined);
      const auto mark = std::ranges::find(put->shape, kJoinedMark);
      if (mark != put->shape.end()) joined += put->blocks[i].box.count[mark - put->shape.begin()];
    }
  }
  EXPECT_FALSE(walk.Next());
  EXPECT_OK(walk.status());
  Extents shape = first->shape;
  std::ranges::replace(shape, kJoinedMark, joined);
  ASSERT_OK_AND_ASSIGN(const Extents decoded, metadata.Shape(variable, step));
  EXPECT_EQ(decoded, shape);
}

void ExpectAttributes(const Metadata& metadata, std::uint32_t step, const std::map<std::string, Attribute>& wanted) {
  ASSERT_OK_AND_ASSIGN(const auto attributes, metadata.Attributes(step));
  ASSERT_EQ(attributes.size(), wanted.size());
  for (const auto& [name, attribute] : wanted) {
    const auto found = attributes.find(name);
    ASSERT_NE(found, attributes.end()) << name;
    EXPECT_EQ(found->second.type, attribute.type) << name;
    EXPECT_EQ(found->second.single, attribute.single) << name;
    EXPECT_EQ(found->second.values, attribute.values) << name;
    EXPECT_EQ(found->second.strings, attribute.strings) << name;
  }
}

void ExpectVariable(const Metadata& metadata, std::uint32_t step, const StepModel& model, const Put& put) {
  SCOPED_TRACE(put.name);
  const std::optional<VariableNumber> variable = metadata.FindVariable(put.name);
  ASSERT_TRUE(variable);
  const Variable& known = metadata.variables()[*variable];
  EXPECT_EQ(known.kind, put.kind);
  EXPECT_EQ(known.type, Decoded(put));
  EXPECT_TRUE(std::ranges::binary_search(known.steps, step));
  if (IsArray(put.kind)) {
    ExpectBlocks(metadata, *variable, step, model, put.name);
  } else {
    ExpectValues(metadata, *variable, step, model, put.name);
  }
}

}  // namespace

Put Doubles(const std::string& name, std::uint64_t location, std::uint64_t values, double min, double max) {
  Put put;
  put.name = name;
  put.kind = Kind::kGlobalArray;
  put.type = Type::kDouble;
  put.shape = {values};
  put.blocks = {{.box = {{0}, {values}}, .location = location, .min_max = Raw(min) + Raw(max)}};
  return put;
}

Put Int32(const std::string& name, std::int32_t value) {
  Put put;
  put.name = name;
  put.type = Type::kInt32;
  put.value = Raw(value);
  return put;
}

Attribute Int32Attribute(const std::string& name, std::int32_t value) {
  Attribute attribute;
  attribute.name = name;
  attribute.type = Type::kInt32;
  attribute.values = Raw(value);
  return attribute;
}

RandomSteps::RandomSteps(std::uint64_t seed) : random_(seed) {
  for (int i = 0; i < 12; ++i) Declare();
}

void RandomSteps::Declare() {
  static constexpr Kind kKinds[] = {Kind::kGlobalValue, Kind::kLocalValue, Kind::kGlobalArray, Kind::kLocalArray,
                                    Kind::kJoinedArray};
  const Kind kind = kKinds[Below(5)];
  Type type = static_cast<Type>(1 + Below(15));
  if (type == Type::kString && IsArray(kind)) type = Type::kDouble;
  std::string name = fmt::format("v{}/{}_\xc3\xa4 [x]", variables_.size(), Below(1000));
  variables_.push_back({std::move(name), kind, type, IsArray(kind) ? 1 + Below(4) : 0});
}

std::string RandomSteps::Value(Type type) {
  if (type == Type::kString) return std::string(Below(20), 'x');
  std::string value(ElementBytes(type), '\0');
  for (char& byte : value) byte = static_cast<char>(Below(256));
  return value;
}

std::string RandomSteps::MinMaxText(Type type) {
  const std::uint64_t low = Below(60), high = low + Below(60);
  switch (type) {
    case Type::kInt8:
    case Type::kUint8:
      return Bounds<std::uint8_t>(low, high);
    case Type::kInt16:
    case Type::kUint16:
      return Bounds<std::uint16_t>(low, high);
    case Type::kInt32:
    case Type::kUint32:
      return Bounds<std::uint32_t>(low, high);
    case Type::kInt64:
    case Type::kUint64:
      return Bounds<std::uint64_t>(low, high);
    case Type::kFloat:
      return Bounds<float>(low, high);
    case Type::kDouble:
      return Bounds<double>(low, high);
    case Type::kLongDouble:
      return Bounds<long double>(low, high);
    default:
      return "";
  }
}

void RandomSteps::AddBlock(const Declared& variable, bool statistics, std::uint64_t& data_bytes, Put& put) {
  PutBlock block;
  for (std::size_t d = 0; d < variable.dimensions; ++d) {
    const bool bounded = variable.kind == Kind::kGlobalArray;
    const bool fixed = variable.kind == Kind::kJoinedArray && put.shape[d] != kJoinedMark;
    const std::uint64_t start = bounded ? Below(put.shape[d] + 1) : 0;
    block.box.start.push_back(start);
    block.box.count.push_back(fixed ? put.shape[d] : bounded ? Below(put.shape[d] - start + 1) : Below(5));
  }
  const std::uint64_t bytes = *Elements(block.box.count) * ElementBytes(variable.type);
  block.location = data_bytes;
  data_bytes += (bytes + 15) / 16 * 16;
  if (Below(20) == 0) block.location = kNotStored;
  if (statistics && !Empty(block.box)) block.min_max = MinMaxText(variable.type);
  put.blocks.push_back(std::move(block));
}

Put RandomSteps::MakePut(const Declared& variable, const Extents& shape, std::uint64_t& data_bytes) {
  Put put;
  put.name = variable.name;
  put.kind = variable.kind;
  put.type = variable.type;
  if (!IsArray(variable.kind)) {
    put.value = Value(variable.type);
    return put;
  }
  put.shape = shape;
  const bool statistics = Below(4) != 0;
  for (std::uint64_t blocks = 1 + Below(3); blocks > 0; --blocks) AddBlock(variable, statistics, data_bytes, put);
  return put;
}

Attribute RandomSteps::MakeAttribute() {
  Attribute attribute;
  attribute.name = fmt::format("a{}", Below(6));
  attribute.type = static_cast<Type>(1 + Below(15));
  attribute.single = Below(2) == 0;
  const std::uint64_t count = attribute.single ? 1 : 1 + Below(4);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (attribute.type == Type::kString) {
      attribute.strings.push_back(Value(Type::kString));
    } else {
      attribute.values += Value(attribute.type);
    }
  }
  return attribute;
}

StepModel RandomSteps::Next() {
  if (Below(3) == 0) writers_ = 1 + Below(5);
  if (Below(2) == 0) Declare();
  StepModel step;
  step.writers.resize(writers_);
  const std::uint64_t flushes = Below(3);
  const std::uint64_t percent = 20 + Below(81);  // of the variables: formats start afresh where it is little
  for (const Declared& variable : variables_) {
    Extents shape;
    if (variable.kind != Kind::kLocalArray) {
      for (std::size_t d = 0; d < variable.dimensions; ++d) shape.push_back(Below(6));
    }
    if (variable.kind == Kind::kJoinedArray) shape[Below(variable.dimensions)] = kJoinedMark;
    for (WriterStep& writer : step.writers) {
      if (Below(100) < percent) writer.puts.push_back(MakePut(variable, shape, writer.data_bytes));
    }
  }
  const std::vector<Attribute> same(Below(2), MakeAttribute());
  for (WriterStep& writer : step.writers) {
    writer.attributes = same;
    if (Below(3) == 0) {
      writer.attributes.push_back(MakeAttribute());
      writer.attributes.back().name += fmt::format("/w{}", step.data.size());
    }
    if (Below(4) == 0) std::ranges::shuffle(writer.puts, random_);
    step.subfiles.push_back(static_cast<std::uint32_t>(Below(writers_)));
    WriterData& data = step.data.emplace_back();
    for (std::uint64_t f = 0; f < flushes; ++f) data.flushed.push_back({64 * Below(9), 16 * Below(3)});
    data.position = 16 * Below(100);
  }
  return step;
}

void ExpectStep(const Metadata& metadata, std::uint32_t step, const StepModel& model,
                std::map<std::string, Attribute>& attributes) {
  SCOPED_TRACE(fmt::format("step {}", step));
  ASSERT_LT(step, metadata.steps());
  ASSERT_EQ(metadata.writers(step), model.writers.size());
  EXPECT_EQ(metadata.flushes(step), model.data.front().flushed.size());
  std::set<std::string> seen;
  for (std::uint32_t w = 0; w < model.writers.size(); ++w) {
    EXPECT_EQ(metadata.subfile(step, w), model.subfiles[w]);
    EXPECT_EQ(metadata.data_block_bytes(step, w), model.writers[w].data_bytes);
    for (const Put& put : model.writers[w].puts) {
      if (seen.insert(put.name).second) ExpectVariable(metadata, step, model, put);
    }
    for (const Attribute& attribute : model.writers[w].attributes) {
      attributes.insert_or_assign(attribute.name, attribute);
    }
  }
  for (const Variable& variable : metadata.variables()) {
    EXPECT_EQ(std::ranges::binary_search(variable.steps, step), seen.contains(variable.name)) << variable.name;
  }
  ExpectAttributes(metadata, step, attributes);
}

}  // namespace cairn::bp5
