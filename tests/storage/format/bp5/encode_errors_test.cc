// What an encoder refuses: an error takes nothing, and what was put before stays what it is.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "storage/format/bp5/encode.h"
#include "tests/storage/format/bp5/step_model.h"
#include "tests/support/status_matchers.h"

namespace cairn::bp5 {
namespace {

void ExpectRefused(const std::vector<Put>& puts, const char* part, std::uint64_t data_bytes = 64) {
  WriterEncoder encoder;
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, encoder.Encode(puts, data_bytes), part);
  ASSERT_OK_AND_ASSIGN(const EncodedStep after, encoder.Encode({}, 0));
  EXPECT_EQ(after.record.size(), 48u) << "an error left a field";
}

template <typename Change>
void ExpectRefused(Put put, Change change, const char* part) {
  change(put);
  ExpectRefused({put}, part);
}

TEST(EncodeErrorsTest, NamesAndKinds) {
  const Put n = Int32("n", 7);
  ExpectRefused({n, n}, "n: put twice");
  ExpectRefused({n}, "multiple of 16", 8);
  ExpectRefused(
      n, [](Put& p) { p.name = ""; }, "no name");
  ExpectRefused(
      n, [](Put& p) { p.name.push_back('\0'); }, "NUL");
  ExpectRefused(
      n, [](Put& p) { p.kind = static_cast<Kind>('x'); }, "n: kind");
  ExpectRefused(
      n, [](Put& p) { p.type = Type::kStruct; }, "n: values of type struct");
  ExpectRefused(
      n, [](Put& p) { p.type = static_cast<Type>(99); }, "n: values");
}

TEST(EncodeErrorsTest, Values) {
  const Put n = Int32("n", 7);
  ExpectRefused(
      n, [](Put& p) { p.value.pop_back(); }, "n: a value of 3 bytes");
  ExpectRefused(
      n, [](Put& p) { p.shape = {1}; }, "n: a value has no shape");
  ExpectRefused(
      n, [](Put& p) { p.blocks.resize(1); }, "n: a value has no shape");
  ExpectRefused(
      n,
      [](Put& p) {
        p.type = Type::kString;
        p.value = std::string("a\0b", 3);
      },
      "n: a string with a NUL");
}

TEST(EncodeErrorsTest, Arrays) {
  const Put x = Doubles("x", 0, 3, -2, 4);
  ExpectRefused(
      x, [](Put& p) { p.type = Type::kString; }, "x: arrays of type string");
  ExpectRefused(
      x, [](Put& p) { p.type = Type::kStruct; }, "x: arrays of type struct");
  ExpectRefused(
      x, [](Put& p) { p.value = "v"; }, "x: an array has no value");
  ExpectRefused(
      x, [](Put& p) { p.blocks.clear(); }, "x: an array without blocks");
  ExpectRefused(
      x, [](Put& p) { p.blocks[0].box.count.clear(); }, "x: 0 dimensions");
  ExpectRefused(
      x, [](Put& p) { p.blocks[0].box.count.resize(65); }, "x: 65 dimensions");
  ExpectRefused(
      x, [](Put& p) { p.blocks[0].box.start.clear(); }, "x: block 0 has not 1 dimensions");
  ExpectRefused(
      x,
      [](Put& p) {
        p.shape = {3, 3};
      },
      "x: a shape of 2 dimensions");
  ExpectRefused(
      x, [](Put& p) { p.kind = Kind::kLocalArray; }, "x: a shape of 1 dimensions");
  ExpectRefused(
      x, [](Put& p) { p.shape = {kJoinedMark}; }, "x: 1 dimensions of the shape are marked");
  ExpectRefused(
      x, [](Put& p) { p.kind = Kind::kJoinedArray; }, "x: 0 dimensions of the shape are marked");
  ExpectRefused(
      x, [](Put& p) { p.shape = {2}; }, "leave the shape");
  ExpectRefused(
      x, [](Put& p) { p.blocks[0].box.start = {~std::uint64_t{0}}; }, "leave the shape");
  ExpectRefused(
      x,
      [](Put& p) {
        p.blocks.push_back(p.blocks[0]);
        p.blocks[1].box.count = {1, 1};
      },
      "x: block 1 has not 1 dimensions");
  ExpectRefused(
      x,
      [](Put& p) {
        p.kind = Kind::kJoinedArray;
        p.shape = {kJoinedMark, 2};
        p.blocks[0].box.count = {3, 3};
      },
      "not joined");
}

TEST(EncodeErrorsTest, LocationsAndBounds) {
  const Put x = Doubles("x", 0, 3, -2, 4);
  ExpectRefused({x}, "do not fit into 16 bytes", 16);
  ExpectRefused(
      x, [](Put& p) { p.blocks[0].location = 48; }, "do not fit into 64 bytes");
  ExpectRefused(
      x, [](Put& p) { p.blocks[0].location = ~std::uint64_t{0} - 7; }, "do not fit");
  ExpectRefused(
      x,
      [](Put& p) {
        p.kind = Kind::kLocalArray;
        p.shape.clear();
        p.blocks[0].box.count = {std::uint64_t{1} << 61};
      },
      "larger than 64 bits");
  ExpectRefused(
      x, [](Put& p) { p.blocks[0].min_max.pop_back(); }, "15 bytes of min and max");
  ExpectRefused(
      x, [](Put& p) { p.type = Type::kComplexFloat; }, "16 bytes of min and max for type float complex");
  Put not_stored = x;
  not_stored.blocks[0].location = kNotStored;
  EXPECT_OK(WriterEncoder().Encode({&not_stored, 1}, 0));
}

TEST(EncodeErrorsTest, WhatWasPutBeforeStaysWhatItIs) {
  WriterEncoder encoder;
  const Put n = Int32("n", 7), x = Doubles("x", 0, 3, -2, 4);
  ASSERT_OK_AND_ASSIGN(const EncodedStep before, encoder.Encode(std::vector{n, x}, 32));
  const auto refused = [&](Put put, auto change) {
    change(put);
    const std::vector<Put> puts = {Int32("another", 1), put};
    EXPECT_STATUS(absl::StatusCode::kInvalidArgument, encoder.Encode(puts, 64), "in a step before");
  };
  refused(n, [](Put& p) { p.kind = Kind::kLocalValue; });
  refused(n, [](Put& p) { p.type = Type::kUint32; });
  refused(x, [](Put& p) { p.type = Type::kInt64; });
  refused(x, [](Put& p) {
    p.shape = {3, 1};
    p.blocks[0].box.start = {0, 0};
    p.blocks[0].box.count = {3, 1};
  });
  ASSERT_OK_AND_ASSIGN(const EncodedStep after, encoder.Encode(std::vector{n, x}, 32));
  EXPECT_EQ(after.format.get(), before.format.get());
  EXPECT_EQ(after.record, before.record);
}

TEST(EncodeErrorsTest, Attributes) {
  const Attribute good = Int32Attribute("a", 1);
  Attribute strings = good;
  strings.type = Type::kString;
  strings.values.clear();
  strings.strings = {"text"};
  const auto refused = [](std::vector<Attribute> attributes, const char* part) {
    EXPECT_STATUS(absl::StatusCode::kInvalidArgument, WriterEncoder().Encode({}, 0, attributes), part);
  };
  const auto changed = [](Attribute attribute, auto change) {
    change(attribute);
    return std::vector{attribute};
  };
  ASSERT_OK(WriterEncoder().Encode({}, 0, std::vector{good}));
  ASSERT_OK(WriterEncoder().Encode({}, 0, std::vector{strings}));
  refused({good, good}, "attribute a: given twice");
  refused(changed(good, [](Attribute& a) { a.name = ""; }), "no name");
  refused(changed(good, [](Attribute& a) { a.name.push_back('\0'); }), "NUL");
  refused(changed(good, [](Attribute& a) { a.values += "more"; }), "attribute a: 8 bytes");
  refused(changed(good, [](Attribute& a) { a.single = false, a.values += "x"; }), "attribute a: 5 bytes");
  refused(changed(good, [](Attribute& a) { a.strings = {"x"}; }), "1 strings");
  refused(changed(good, [](Attribute& a) { a.type = Type::kStruct; }), "attribute a: of a type");
  refused(changed(strings, [](Attribute& a) { a.strings.push_back("x"); }), "2 strings");
  refused(changed(strings, [](Attribute& a) { a.values = "x"; }), "1 bytes of values");
  refused(changed(strings, [](Attribute& a) { a.strings[0].push_back('\0'); }), "a string with a NUL");
}

}  // namespace
}  // namespace cairn::bp5
