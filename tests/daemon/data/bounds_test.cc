// What a capture finds of the elements that it hashes.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "proto/local.pb.h"
#include "storage/format/placement/bounds.h"
#include "storage/format/placement/placement.h"
#include "tests/daemon/data/capture_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using view::Bounds;
using Variables = google::protobuf::RepeatedPtrField<local::Variable>;

constexpr std::uint32_t kTypes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15};

template <typename T>
std::string SimpleLoop(std::span<const std::byte> bytes) {
  std::optional<std::pair<T, T>> found;
  for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    if (value != value) continue;
    if (!found) found = {value, value};
    if (value < found->first) found->first = value;
    if (value > found->second) found->second = value;
  }
  if (!found) return {};
  std::string text(2 * sizeof(T), '\0');
  std::memcpy(text.data(), &found->first, sizeof(T));
  std::memcpy(text.data() + sizeof(T), &found->second, sizeof(T));
  return text;
}

std::string SimpleLoop(std::uint32_t type, std::span<const std::byte> bytes) {
  switch (type) {
    case 1:
      return SimpleLoop<std::int8_t>(bytes);
    case 2:
      return SimpleLoop<std::int16_t>(bytes);
    case 3:
      return SimpleLoop<std::int32_t>(bytes);
    case 4:
      return SimpleLoop<std::int64_t>(bytes);
    case 5:
      return SimpleLoop<std::uint8_t>(bytes);
    case 6:
      return SimpleLoop<std::uint16_t>(bytes);
    case 7:
      return SimpleLoop<std::uint32_t>(bytes);
    case 8:
      return SimpleLoop<std::uint64_t>(bytes);
    case 9:
      return SimpleLoop<float>(bytes);
    case 10:
      return SimpleLoop<double>(bytes);
    default:
      return {};
  }
}

class CaptureBoundsTest : public CaptureFixture {
 protected:
  CaptureBoundsTest() : CaptureFixture({.direct = true, .shares_extents = true}) {}

  // One of a type for each variable of the sample, as far as its bytes allow.
  Variables TypedVariables(const Sample& sample) {
    Variables variables;
    for (const ftiff::VariableSize& of : sample.variables) {
      local::Variable& variable = *variables.Add();
      variable.set_id(of.id);
      const std::uint32_t type = kTypes[random_() % std::size(kTypes)];
      variable.set_type(of.bytes % view::ElementBytesOf(type) == 0 ? type : 5);
      variable.set_bytes(of.bytes);
      variable.set_count(of.bytes / view::ElementBytesOf(variable.type()));
    }
    return variables;
  }

  // Long doubles in random bytes have no order that a simple loop could find: they are looked at in other tests.
  void ExpectBounds(const Sample& sample, const Variables& variables, const CaptureResult& result) {
    ASSERT_EQ(result.bounds.size(), sample.layout.containers.size());
    for (std::size_t i = 0; i < result.bounds.size(); ++i) {
      const ftiff::Container& container = sample.layout.containers[i];
      if (!container.has_content || container.chunk_bytes == 0) continue;
      const auto variable = std::ranges::find(variables, container.id, &local::Variable::id);
      const std::uint32_t element = view::ElementBytesOf(variable->type());
      if (variable->type() == 11) continue;
      const std::string found = view::MinMaxOf(variable->type(), result.bounds[i]);
      if (container.variable_offset % element != 0 || container.chunk_bytes % element != 0) {
        EXPECT_EQ(result.bounds[i].state, Bounds::State::kUnknown);
        continue;
      }
      const auto bytes = std::span(sample.data).subspan(container.file_offset, container.chunk_bytes);
      EXPECT_EQ(found, SimpleLoop(variable->type(), bytes)) << "type " << variable->type() << ", container " << i;
    }
  }

  void CaptureAndExpect(Sample sample, JobOptions options) {
    const Variables variables = TypedVariables(sample);
    options.scans = view::ScansFor(variables, sample.layout);
    Job job = Start(std::move(sample), options);
    ASSERT_OK_AND_ASSIGN(const CaptureResult result, Finish(job));
    ExpectBounds(job.sample, variables, result);
  }
};

TEST_F(CaptureBoundsTest, AreThoseOfASimpleLoopWhereverContainersLie) {
  for (int round = 0; round < 25 && !HasFailure(); ++round) CaptureAndExpect(RandomSample(random_, 8 << 20), {});
}

TEST_F(CaptureBoundsTest, ThroughARingAreTheSame) {
  for (int round = 0; round < 15 && !HasFailure(); ++round) {
    CaptureAndExpect(RandomSample(random_, 12 << 20), {.image_bytes = (1 + random_() % 3) * Image::kAlignment});
  }
}

TEST_F(CaptureBoundsTest, OfElementsAcrossWindowsAreFound) {
  // Exact packing: the second variable begins at an odd offset, and so do its elements in each window.
  Sample sample = Make({13, (3 << 20) + 8}, ftiff::Packing::kExact);
  CaptureAndExpect(sample, {});
  CaptureAndExpect(sample, {.image_bytes = Image::kAlignment});
}

TEST_F(CaptureBoundsTest, OfADifferentialCheckpointAreOfAllItsBytes) {
  Sample first = Make({3 << 20, 70'000, 1 << 20});
  Job job = Start(first, {.path = "/cache/base", .want_digests = true});
  ASSERT_OK_AND_ASSIGN(const CaptureResult base, Finish(job));
  for (const bool clone : {true, false}) {
    const CaptureBase start{.path = "/cache/base",
                            .clone = clone,
                            .file_bytes = base.file_bytes,
                            .data_bytes = first.layout.data_bytes,
                            .crc32c = base.crc32c,
                            .digests = base.digests};
    CaptureAndExpect(NextSample(random_, first, 0.1), {.base = start, .want_digests = true});
    fake_.Remove(kWorkPath).IgnoreError();
  }
}

TEST_F(CaptureBoundsTest, OfLayoutAAreThoseOfTheSameContainers) {
  for (int round = 0; round < 5 && !HasFailure(); ++round) {
    CaptureAndExpect(RandomSample(random_, 3 << 20), {.letter = ftiff::Letter::kA});
  }
}

TEST_F(CaptureBoundsTest, WhoDoesNotAskGetsNone) {
  Job job = Start(Make({1 << 20}));
  ASSERT_OK_AND_ASSIGN(const CaptureResult result, Finish(job));
  EXPECT_TRUE(result.bounds.empty());
}

TEST_F(CaptureBoundsTest, ALoneValueIsKeptByItsBytes) {
  Sample sample = Make({16, 8, 1});
  Variables variables;
  for (std::size_t i = 0; i < 3; ++i) {
    local::Variable& variable = *variables.Add();
    variable.set_id(sample.variables[i].id);
    variable.set_kind(local::VALUE);
    variable.set_type(i == 0 ? 13 : i == 1 ? 10 : 15);
    variable.set_count(1);
  }
  Job job = Start(sample, {.scans = view::ScansFor(variables, sample.layout)});
  ASSERT_OK_AND_ASSIGN(const CaptureResult result, Finish(job));
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string bytes(reinterpret_cast<const char*>(sample.content[i].data()), sample.content[i].size());
    EXPECT_EQ(view::MinMaxOf(variables[static_cast<int>(i)].type(), result.bounds[i]), bytes + bytes);
  }
}

}  // namespace
}  // namespace cairn
