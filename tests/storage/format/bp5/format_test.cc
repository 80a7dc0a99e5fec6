#include "storage/format/bp5/format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/status_matchers.h"

namespace cairn::bp5 {
namespace {

using absl::StatusCode;

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

absl::StatusOr<Format> Decoded(const std::string& block) {
  return DecodeFormat("here", BytesOf(block));
}

// Section 8's, which is the same in every directory.
std::string GenericAttributes() {
  const NewStructure top = {"GenericAttributes",
                            32,
                            8,
                            {{"PrimAttrCount", "integer", 8, 0},
                             {"PrimAttrs", "PrimAttr[PrimAttrCount]", 24, 8},
                             {"StrAttrCount", "integer", 8, 16},
                             {"StrAttrs", "StrAttr[StrAttrCount]", 24, 24}}};
  const std::vector<NewStructure> used = {
      {"StrAttr",
       24,
       8,
       {{"name", "string", 8, 0}, {"ElementCount", "integer", 8, 8}, {"Values", "string[ElementCount]", 8, 16}}},
      {"PrimAttr",
       24,
       8,
       {{"name", "string", 8, 0}, {"TotalElementSize", "integer", 8, 8}, {"Values", "char[TotalElementSize]", 1, 16}}}};
  return EncodeFormat(top, used)->bytes;
}

// One structure with these fields.
std::string BlockOf(std::vector<NewField> fields, std::uint32_t fixed_bytes = 64) {
  return EncodeFormat({"Top", fixed_bytes, 8, std::move(fields)}, {})->bytes;
}

TEST(FormatTest, IdentifierIsThatOfTheSpecification) {
  const std::string block = GenericAttributes();
  EXPECT_EQ(block.size(), 564u);
  EXPECT_EQ(IdOf(BytesOf(block)).Hex(), "0200008d72b6d67f54032261");
  EXPECT_EQ(IdOf({}).Hex(), "02000000deadbeefdeadbeef");
}

TEST(FormatTest, StructuresAndFieldsAreFound) {
  const std::string block = GenericAttributes() + std::string(4, '\0');  // as an entry has it, padded
  ASSERT_OK_AND_ASSIGN(const Format format, Decoded(block));
  EXPECT_EQ(format.id.Hex(), "0200008d72b6d67f54032261");
  EXPECT_EQ(format.version, 2);
  ASSERT_EQ(format.structures.size(), 3u);
  EXPECT_EQ(format.top().name, "GenericAttributes");
  EXPECT_EQ(format.top().fixed_bytes, 32u);
  EXPECT_TRUE(format.top().has_variable_parts);
  const Structure* const prim = format.Find("PrimAttr");
  ASSERT_NE(prim, nullptr);
  ASSERT_EQ(prim->fields.size(), 3u);
  EXPECT_EQ(prim->fields[2].name, "Values");
  EXPECT_EQ(prim->fields[2].type, "char[TotalElementSize]");
  EXPECT_EQ(prim->fields[2].element_bytes, 1u);
  EXPECT_EQ(prim->fields[2].offset, 16u);
  EXPECT_EQ(prim->fields[2].bytes, 8u);
  EXPECT_EQ(format.Find("none"), nullptr);
}

TEST(FormatTest, TypesSayWhatTheyAre) {
  const std::optional<FieldType> plain = ParseFieldType("unsigned integer");
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->base, FieldType::Base::kUnsigned);
  EXPECT_FALSE(plain->is_array || plain->Elsewhere());

  const std::optional<FieldType> both = ParseFieldType("float[16][n]");
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ(both->base, FieldType::Base::kFloat);
  EXPECT_EQ(both->fixed_count, 16u);
  EXPECT_EQ(both->length_field, "n");
  EXPECT_TRUE(both->Elsewhere());

  const std::optional<FieldType> pointer = ParseFieldType("*(integer[3])");
  ASSERT_TRUE(pointer.has_value());
  EXPECT_TRUE(pointer->is_pointer && pointer->is_array && pointer->Elsewhere());
  EXPECT_EQ(pointer->fixed_count, 3u);

  // Names of old attributes are in there as they are.
  const std::optional<FieldType> odd = ParseFieldType("string[BPG_a[1] b]_ElemCount]");
  ASSERT_TRUE(odd.has_value());
  EXPECT_EQ(odd->length_field, "BPG_a[1] b]_ElemCount");

  for (const char* const bad : {"", "[3]", "integer[", "integer[]", "integer[0]", "integer[00]", "integer[3",
                                "integer[1048577]", "integer[3x]", "integer[1048576][2]", "*(integer", "integer]",
                                "integer[3]x", "integer[99999999999999999999]", "integer[1][1][1][1][1][1][1][1][1]"}) {
    EXPECT_FALSE(ParseFieldType(bad).has_value()) << bad;
  }
}

TEST(FormatTest, VariablePartsAreThoseOfStructuresInIt) {
  const auto has = [](const NewStructure& top, const std::vector<NewStructure>& used) {
    const absl::StatusOr<FormatBlock> block = EncodeFormat(top, used);
    const absl::StatusOr<Format> format = Decoded(block->bytes);
    EXPECT_OK(format);
    return format.ok() && format->top().has_variable_parts;
  };
  EXPECT_FALSE(has({"T", 16, 8, {{"a", "integer", 4, 0}, {"b", "float[2]", 4, 8}}}, {}));
  EXPECT_TRUE(has({"T", 16, 8, {{"a", "string", 8, 0}}}, {}));
  EXPECT_TRUE(has({"T", 16, 8, {{"a", "*(integer[2])", 8, 0}}}, {}));
  EXPECT_TRUE(has({"T", 16, 8, {{"n", "integer", 8, 0}, {"a", "integer[n]", 8, 8}}}, {}));
  EXPECT_TRUE(has({"T", 16, 8, {{"s", "S", 8, 0}}}, {{"S", 8, 8, {{"a", "string", 8, 0}}}}));
  EXPECT_FALSE(has({"T", 16, 8, {{"s", "S", 8, 0}}}, {{"S", 8, 8, {{"a", "integer", 8, 0}}}}));
}

// Places in a block of one structure: its header at 8, its fields from 36.
struct Damage {
  std::size_t at;
  std::string bytes;
  StatusCode code;
  std::string part;
};

TEST(FormatTest, DamageIsNamed) {
  const std::string block = BlockOf({{"n", "integer", 8, 0}, {"a", "integer[n]", 8, 8}, {"f", "float", 4, 16}});
  ASSERT_OK(Decoded(block));
  const std::string far("\xff\xff\xff\x7f", 4), minus("\xf8\xff\xff\xff", 4), zero(4, '\0');
  const std::vector<Damage> damages = {
      {0, std::string("\xff\xff", 2), StatusCode::kDataLoss, "length"},
      {0, std::string("\x00\x08", 2), StatusCode::kDataLoss, "length"},
      {2, "\x01", StatusCode::kFailedPrecondition, "byte order"},
      {3, "\x03", StatusCode::kFailedPrecondition, "version"},
      {4, "\x64", StatusCode::kDataLoss, "sub-structures"},
      {4, "\x01", StatusCode::kDataLoss, "structure at"},
      {8, std::string("\0\0", 2), StatusCode::kDataLoss, "has length 0"},
      {8, std::string("\xff\xf0", 2), StatusCode::kDataLoss, "has length"},
      {10, "\x01", StatusCode::kFailedPrecondition, "version 1"},
      {11, "\x01", StatusCode::kFailedPrecondition, "byte order 1"},
      {12, far, StatusCode::kDataLoss, "name at"},
      {16, far, StatusCode::kDataLoss, "fields in"},
      {20, minus, StatusCode::kDataLoss, "fixed part"},
      {20, zero, StatusCode::kDataLoss, "fixed part"},
      {20, std::string("\x10\0\0\0", 4), StatusCode::kDataLoss, "field 2 'f', type 'float', offset 16"},
      {24, "\x04", StatusCode::kDataLoss, "pointer size 4"},
      {25, "\x1d", StatusCode::kDataLoss, "header size 29"},
      {26, "\x01", StatusCode::kFailedPrecondition, "float representation"},
      {36, far, StatusCode::kDataLoss, "field 0: name at"},
      {40, far, StatusCode::kDataLoss, "type at"},
      {44, zero, StatusCode::kDataLoss, "element size 0"},
      {44, std::string("\x04\0\0\0", 4), StatusCode::kDataLoss, "its length is no integer of 8 bytes"},
      {48, minus, StatusCode::kDataLoss, "offset -8"},
      {64, zero, StatusCode::kDataLoss, "overlaps"},
      {64, far, StatusCode::kDataLoss, "leave the fixed part"},
  };
  for (const Damage& damage : damages) {
    std::string bad = block;
    bad.replace(damage.at, damage.bytes.size(), damage.bytes);
    EXPECT_STATUS(damage.code, Decoded(bad), damage.part) << "at " << damage.at;
    EXPECT_STATUS(damage.code, Decoded(bad), "here") << "at " << damage.at;
  }
}

TEST(FormatTest, FieldsMustMakeSense) {
  const auto one = [](const char* type, std::uint32_t element_bytes) {
    return Decoded(BlockOf({{"n", "integer", 8, 0}, {"s", "integer", 4, 8}, {"a", type, element_bytes, 16}}));
  };
  EXPECT_OK(one("integer[n]", 2));
  EXPECT_OK(one("float", 16));
  EXPECT_OK(one("char[16][n]", 1));
  EXPECT_STATUS(StatusCode::kDataLoss, one("integer", 3), "element size 3");
  EXPECT_STATUS(StatusCode::kDataLoss, one("integer", 16), "element size 16");
  EXPECT_STATUS(StatusCode::kDataLoss, one("float", 2), "element size 2");
  EXPECT_STATUS(StatusCode::kDataLoss, one("integer[m]", 8), "its length is no field");
  EXPECT_STATUS(StatusCode::kDataLoss, one("integer[s]", 8), "its length is no integer of 8 bytes");
  EXPECT_STATUS(StatusCode::kDataLoss, one("integer[0]", 8), "no such type");
  EXPECT_STATUS(StatusCode::kDataLoss, one("integer[100]", 8), "leave the fixed part");
  EXPECT_STATUS(StatusCode::kDataLoss, one("Nothing", 8), "no such structure");
  EXPECT_STATUS(StatusCode::kDataLoss, one("Top", 64), "contains itself");
}

TEST(FormatTest, StructuresDoNotContainThemselvesAndAreNotTooDeep) {
  const auto nested = [](int depth, const std::string& innermost) {
    std::vector<NewStructure> used;
    for (int i = 1; i < depth; ++i) {
      const std::string inner = i + 1 < depth ? "S" + std::to_string(i + 1) : innermost;
      used.push_back({"S" + std::to_string(i), 8, 8, {{"f", inner, 8, 0}}});
    }
    return Decoded(EncodeFormat({"S0", 8, 8, {{"f", depth > 1 ? "S1" : innermost, 8, 0}}}, used)->bytes);
  };
  EXPECT_OK(nested(8, "integer"));
  EXPECT_STATUS(StatusCode::kDataLoss, nested(9, "integer"), "in each other");
  EXPECT_STATUS(StatusCode::kDataLoss, nested(2, "S0"), "contains itself");
  EXPECT_STATUS(StatusCode::kDataLoss, nested(60, "S30"), "contains itself");
  EXPECT_STATUS(StatusCode::kDataLoss,
                Decoded(EncodeFormat({"T", 8, 8, {{"s", "S", 8, 0}}}, {{"S", 16, 8, {{"f", "integer", 8, 0}}}})->bytes),
                "element size 8, but the structure has 16");
}

TEST(FormatTest, EveryTruncationIsRefusedAndEveryBitFlipAnswers) {
  const std::string block = GenericAttributes();
  for (std::size_t bytes = 0; bytes < block.size(); ++bytes) {
    std::string cut = block.substr(0, bytes);
    cut.shrink_to_fit();
    EXPECT_STATUS(StatusCode::kDataLoss, Decoded(cut), "") << bytes;
  }
  for (std::size_t bit = 0; bit < 8 * block.size(); ++bit) {
    std::string flipped = block;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    const absl::StatusOr<Format> format = Decoded(flipped);
    EXPECT_TRUE(!format.ok() || format->id != IdOf(BytesOf(block))) << bit;
  }
}

}  // namespace
}  // namespace cairn::bp5
