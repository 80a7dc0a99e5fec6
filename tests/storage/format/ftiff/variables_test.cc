#include "storage/format/ftiff/variables.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <tuple>

#include "storage/base/status.h"
#include "tests/storage/format/ftiff/sample_file.h"
#include "tests/support/status_matchers.h"

namespace cairn::ftiff {
namespace {

using testing::DataOf;
using testing::MixedLayout;
using testing::ReaderOf;

absl::StatusOr<std::string> Read(const Variables& variables, std::int32_t id, std::uint64_t offset, std::size_t bytes,
                                 const ReadAt& read) {
  std::string found(bytes, '?');
  CAIRN_RETURN_IF_ERROR(variables.Read("f", id, offset, std::as_writable_bytes(std::span(found)), read));
  return found;
}

// The variables of a layout put together the simple way.
std::map<std::int32_t, std::string> WholeVariables(const FileLayout& layout, const std::string& data) {
  std::map<std::int32_t, std::string> whole;
  for (const Container& c : layout.containers) whole[c.id] += data.substr(c.file_offset, c.chunk_bytes);
  return whole;
}

TEST(VariablesTest, SizesComeInTheOrderOfFirstAppearance) {
  EXPECT_EQ(Variables(MixedLayout()).sizes(), (std::vector<VariableSize>{{3, 57}, {9, 0}, {5, 30}}));
  EXPECT_TRUE(Variables(FileLayout()).sizes().empty());
}

TEST(VariablesTest, AnyRangeIsReadWhateverContainersHoldIt) {
  for (const Letter letter : {Letter::kF, Letter::kA}) {
    const FileLayout layout = Placed(MixedLayout(), letter);
    std::string data(layout.file_bytes(letter), '\0');
    const FileLayout in_f = MixedLayout();
    const std::string data_in_f = DataOf(in_f);
    for (std::size_t i = 0; i < layout.containers.size(); ++i) {
      const Container& c = in_f.containers[i];
      data.replace(layout.containers[i].file_offset, c.container_bytes, data_in_f, c.file_offset, c.container_bytes);
    }
    const Variables variables(layout);
    for (const auto& [id, whole] : WholeVariables(in_f, data_in_f)) {
      for (std::size_t begin = 0; begin <= whole.size(); ++begin) {
        for (std::size_t end = begin; end <= whole.size(); ++end) {
          const auto found = Read(variables, id, begin, end - begin, ReaderOf(data));
          ASSERT_OK(found);
          ASSERT_EQ(*found, whole.substr(begin, end - begin)) << id << " from " << begin << " to " << end;
        }
      }
    }
  }
}

TEST(VariablesTest, OnlyTheRangeIsRead) {
  std::uint64_t bytes = 0;
  const ReadAt read = [&](std::uint64_t offset, std::span<std::byte> target) {
    EXPECT_TRUE(offset == 38 || offset == 104) << offset;
    bytes += target.size();
    return absl::OkStatus();
  };
  EXPECT_OK(Read(Variables(MixedLayout()), 3, 38, 5, read));
  EXPECT_EQ(bytes, 5u);
  EXPECT_OK(Read(Variables(MixedLayout()), 9, 0, 0, read));
  EXPECT_EQ(bytes, 5u);
}

TEST(VariablesTest, AnUnknownVariableIsNotFound) {
  const std::string data = DataOf(MixedLayout());
  EXPECT_STATUS(absl::StatusCode::kNotFound, Read(Variables(MixedLayout()), 4, 0, 0, ReaderOf(data)),
                "f: no variable 4");
}

TEST(VariablesTest, ARangeThatLeavesTheVariableIsRefusedUnread) {
  const Variables variables(MixedLayout());
  const ReadAt read = [](std::uint64_t, std::span<std::byte>) { return Internal("was read"); };
  const std::vector<std::tuple<std::int32_t, std::uint64_t, std::size_t>> ranges = {
      {3, 0, 58}, {3, 57, 1}, {3, 58, 0}, {9, 0, 1}, {5, 29, 2}, {5, std::numeric_limits<std::uint64_t>::max(), 2}};
  for (const auto& [id, offset, bytes] : ranges) {
    EXPECT_STATUS(absl::StatusCode::kInvalidArgument, Read(variables, id, offset, bytes, read), "of variable");
  }
}

TEST(VariablesTest, ErrorsOfTheReadPassThrough) {
  int reads = 0;
  const ReadAt read = [&](std::uint64_t, std::span<std::byte>) {
    return ++reads == 2 ? Unavailable("the disk is gone") : absl::OkStatus();
  };
  EXPECT_STATUS(absl::StatusCode::kUnavailable, Read(Variables(MixedLayout()), 3, 0, 57, read), "the disk is gone");
  EXPECT_EQ(reads, 2);
}

}  // namespace
}  // namespace cairn::ftiff
