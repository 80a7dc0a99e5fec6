#include "storage/format/placement/bounds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/format/placement/bounds_kernels.h"

namespace cairn::view {
namespace {

using State = Bounds::State;

template <typename T>
constexpr std::uint32_t kTypeOf = 0;
template <>
constexpr std::uint32_t kTypeOf<std::int8_t> = 1;
template <>
constexpr std::uint32_t kTypeOf<std::int16_t> = 2;
template <>
constexpr std::uint32_t kTypeOf<std::int32_t> = 3;
template <>
constexpr std::uint32_t kTypeOf<std::int64_t> = 4;
template <>
constexpr std::uint32_t kTypeOf<std::uint8_t> = 5;
template <>
constexpr std::uint32_t kTypeOf<std::uint16_t> = 6;
template <>
constexpr std::uint32_t kTypeOf<std::uint32_t> = 7;
template <>
constexpr std::uint32_t kTypeOf<std::uint64_t> = 8;
template <>
constexpr std::uint32_t kTypeOf<float> = 9;
template <>
constexpr std::uint32_t kTypeOf<double> = 10;
template <>
constexpr std::uint32_t kTypeOf<long double> = 11;

template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

template <typename T>
T ValueOf(const std::array<std::byte, kElementBytesMax>& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

Bounds ScanOf(std::uint32_t type, const std::string& bytes, std::size_t cut) {
  BoundsScan scan(type);
  for (std::size_t at = 0; at < bytes.size(); at += cut) {
    scan.Add(std::as_bytes(std::span(bytes)).subspan(at, std::min(cut, bytes.size() - at)));
  }
  return scan.Finish();
}

template <typename T>
std::optional<std::pair<T, T>> SimpleLoop(const std::vector<T>& values) {
  std::optional<std::pair<T, T>> found;
  for (const T value : values) {
    if (value != value) continue;
    if (!found) found = {value, value};
    if (value < found->first) found->first = value;
    if (value > found->second) found->second = value;
  }
  return found;
}

template <typename T>
class BoundsTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kType = kTypeOf<T>;
  std::mt19937_64 random_{20261120};

  T Draw() {
    const int kind = static_cast<int>(random_() % 12);
    if constexpr (std::is_floating_point_v<T>) {
      using Limits = std::numeric_limits<T>;
      if (kind == 0) return Limits::quiet_NaN();
      if (kind == 1) return -Limits::infinity();
      if (kind == 2) return Limits::infinity();
      if (kind == 3) return T{-0.0};
      if (kind == 4) return Limits::denorm_min();
      return static_cast<T>(static_cast<std::int64_t>(random_())) / 3;
    } else {
      if (kind == 0) return std::numeric_limits<T>::max();
      if (kind == 1) return std::numeric_limits<T>::lowest();
      return static_cast<T>(random_());
    }
  }

  static void ExpectLike(const std::vector<T>& values, const Bounds& bounds) {
    const auto expected = SimpleLoop(values);
    ASSERT_EQ(bounds.state, expected ? State::kKnown : State::kNone);
    if (!expected) return;
    EXPECT_EQ(ValueOf<T>(bounds.min), expected->first);
    EXPECT_EQ(ValueOf<T>(bounds.max), expected->second);
  }
};

using Ordered = testing::Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
                               std::uint32_t, std::uint64_t, float, double, long double>;
TYPED_TEST_SUITE(BoundsTest, Ordered);

TYPED_TEST(BoundsTest, AreThoseOfASimpleLoopHoweverTheBytesAreCut) {
  for (const std::size_t count : {1, 2, 15, 63, 64, 65, 257, 1000, 3001}) {
    std::vector<TypeParam> values(count);
    for (TypeParam& value : values) value = this->Draw();
    const std::string bytes = BytesOf(values);
    for (const std::size_t cut : {std::size_t{1}, std::size_t{7}, std::size_t{63}, std::size_t{4096}, bytes.size()}) {
      this->ExpectLike(values, ScanOf(this->kType, bytes, cut));
    }
  }
}

TYPED_TEST(BoundsTest, AreFoundWhereverTheyStand) {
  // At each place of the vectors, and in what is left behind them.
  for (std::size_t at = 0; at < 300; ++at) {
    std::vector<TypeParam> values(300, TypeParam{5});
    values[at] = TypeParam{3};
    values[299 - at] = at == 299 - at ? values[at] : TypeParam{9};
    this->ExpectLike(values, ScanOf(this->kType, BytesOf(values), 1 << 20));
  }
}

TYPED_TEST(BoundsTest, OfMemoryAtAnyAddress) {
  std::vector<TypeParam> values(500);
  for (TypeParam& value : values) value = this->Draw();
  const std::string bytes = BytesOf(values);
  for (std::size_t shift = 0; shift < 17; ++shift) {
    const std::string shifted = std::string(shift, 'x') + bytes;
    BoundsScan scan(this->kType);
    scan.Add(std::as_bytes(std::span(shifted)).subspan(shift));
    this->ExpectLike(values, scan.Finish());
  }
}

TYPED_TEST(BoundsTest, OfNothingAreNoneAndOfACutElementUnknown) {
  EXPECT_EQ(BoundsScan(this->kType).Finish().state, State::kNone);
  if (sizeof(TypeParam) == 1) return;
  const std::string bytes = BytesOf<TypeParam>({TypeParam{1}, TypeParam{2}});
  EXPECT_EQ(ScanOf(this->kType, bytes.substr(0, bytes.size() - 1), 1 << 10).state, State::kUnknown);
}

TYPED_TEST(BoundsTest, OfBothTogetherAreThoseOfAll) {
  for (int round = 0; round < 50; ++round) {
    std::vector<TypeParam> a(this->random_() % 4), b(this->random_() % 4);
    for (TypeParam& value : a) value = this->Draw();
    for (TypeParam& value : b) value = this->Draw();
    const Bounds of_a = ScanOf(this->kType, BytesOf(a), 1 << 10), of_b = ScanOf(this->kType, BytesOf(b), 1 << 10);
    a.insert(a.end(), b.begin(), b.end());
    this->ExpectLike(a, Join(this->kType, of_a, of_b));
    EXPECT_EQ(Join(this->kType, of_a, Bounds{}).state, State::kUnknown);
    EXPECT_EQ(Join(this->kType, Bounds{}, of_b).state, State::kUnknown);
  }
}

TYPED_TEST(BoundsTest, AsTextAreMinThenMax) {
  const std::vector<TypeParam> values = {TypeParam{4}, TypeParam{2}, TypeParam{7}};
  std::string expected = BytesOf<TypeParam>({TypeParam{2}}) + BytesOf<TypeParam>({TypeParam{7}});
  std::string found = MinMaxOf(this->kType, ScanOf(this->kType, BytesOf(values), 1 << 10));
  if constexpr (std::is_same_v<TypeParam, long double>) {  // padding
    for (std::string* text : {&expected, &found}) {
      ASSERT_EQ(text->size(), 32u);
      for (std::size_t i : {10, 26}) text->replace(i, 6, 6, '\0');
    }
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(MinMaxOf(this->kType, Bounds{}), "");
  EXPECT_EQ(MinMaxOf(this->kType, BoundsScan(this->kType).Finish()), "");
}

TEST(BoundsOfFloatsTest, OfNaNsAloneAreNone) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(ScanOf(9, BytesOf(std::vector<float>(100, nan)), 1 << 10).state, State::kNone);
  EXPECT_EQ(ScanOf(10, BytesOf(std::vector<double>(100, nan)), 1 << 10).state, State::kNone);
  EXPECT_EQ(ScanOf(11, BytesOf(std::vector<long double>(100, nan)), 1 << 10).state, State::kNone);
}

TEST(BoundsOfFloatsTest, NaNsBesideAnElementCountForNothing) {
  for (std::size_t at = 0; at < 200; ++at) {
    std::vector<double> values(200, std::numeric_limits<double>::quiet_NaN());
    values[at] = 3;
    const Bounds bounds = ScanOf(10, BytesOf(values), 1 << 10);
    ASSERT_EQ(bounds.state, State::kKnown);
    EXPECT_EQ(ValueOf<double>(bounds.min), 3);
    EXPECT_EQ(ValueOf<double>(bounds.max), 3);
  }
}

TEST(BoundsOfFloatsTest, OfOneSignOfInfinityAreThat) {
  for (const double value : {HUGE_VAL, -HUGE_VAL}) {
    const Bounds bounds = ScanOf(10, BytesOf(std::vector<double>(70, value)), 1 << 10);
    ASSERT_EQ(bounds.state, State::kKnown);
    EXPECT_EQ(ValueOf<double>(bounds.min), value);
    EXPECT_EQ(ValueOf<double>(bounds.max), value);
    const Bounds longer = ScanOf(11, BytesOf(std::vector<long double>(70, value)), 1 << 10);
    ASSERT_EQ(longer.state, State::kKnown);
    EXPECT_EQ(ValueOf<long double>(longer.min), value);
  }
}

// What is no x87 number (its highest bit of the fraction is not set) has its place by its bits.
TEST(BoundsOfFloatsTest, AnyBytesCanBeLongDoubles) {
  std::mt19937_64 random(7);
  std::string bytes(16 * 1000, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  EXPECT_EQ(ScanOf(11, bytes, 1 << 10).state, State::kKnown);
}

TEST(BoundsKernelsTest, AreTheSameOnEveryProcessor) {
  static constexpr BoundsKernels kPlain = MakeBoundsKernels<16>();
  std::vector<const BoundsKernels*> others;
  if (__builtin_cpu_supports("avx2")) others.push_back(&kBoundsAvx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    others.push_back(&kBoundsAvx512);
  }
  std::mt19937_64 random(20261120);
  for (std::uint32_t type = 1; type <= 10; ++type) {
    for (std::size_t count : {1, 63, 64, 300, 1001}) {
      std::string bytes(count * ElementBytesOf(type), '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      const auto widen = [&](const BoundsKernels& kernels) {
        std::string bounds(2 * ElementBytesOf(type), '\x01');  // an element like any other
        auto* const low = reinterpret_cast<std::byte*>(bounds.data());
        const auto elements = std::as_bytes(std::span(bytes));
        kernels.by_type[type](elements.data(), count, low, low + ElementBytesOf(type));
        return bounds;
      };
      for (const BoundsKernels* kernels : others) EXPECT_EQ(widen(*kernels), widen(kPlain)) << type << " " << count;
    }
  }
}

TEST(BoundsOfOthersTest, WhatHasNoOrderHasNoBounds) {
  for (const std::uint32_t type : {0u, 12u, 13u, 14u, 15u, 16u, 99u}) {
    EXPECT_EQ(ScanOf(type, std::string(64, '\1'), 16).state, State::kUnknown) << type;
  }
}

TEST(BoundsOfOthersTest, ALoneElementIsKeptWhateverItsType) {
  for (const std::uint32_t type : {1u, 4u, 10u, 11u, 12u, 13u, 15u}) {
    std::string element(ElementBytesOf(type), '\0');
    for (std::size_t i = 0; i < element.size(); ++i) element[i] = static_cast<char>(0xF0 + i);  // as a float: a NaN
    for (const std::size_t cut : {std::size_t{1}, element.size()}) {
      BoundsScan scan(type, BoundsScan::Keep::kElement);
      for (std::size_t at = 0; at < element.size(); at += cut) {
        scan.Add(std::as_bytes(std::span(element)).subspan(at, std::min(cut, element.size() - at)));
      }
      EXPECT_EQ(MinMaxOf(type, scan.Finish()), element + element) << type;
    }
  }
}

TEST(BoundsOfOthersTest, ElementsHaveTheSizesOfTheSpecification) {
  const std::vector<std::uint32_t> expected = {0, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 16, 8, 16, 0, 1, 0};
  for (std::uint32_t type = 0; type < expected.size(); ++type) EXPECT_EQ(ElementBytesOf(type), expected[type]);
}

}  // namespace
}  // namespace cairn::view
