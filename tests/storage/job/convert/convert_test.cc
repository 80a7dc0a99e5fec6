// A checkpoint file again in another layout.
#include "storage/job/convert/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "storage/file/known/known_file.h"
#include "storage/job/diff/diff.h"
#include "tests/storage/format/ftiff/sample_file.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using ftiff::Letter;
using ftiff::testing::FileOf;
using ftiff::testing::MixedLayout;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

class ConvertTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& bytes) { EXPECT_OK(WriteTestFile(disk_, path, bytes)); }
  absl::StatusOr<Converted> Convert(const std::string& from, const std::string& to, const ConvertOptions& options) {
    CAIRN_ASSIGN_OR_RETURN(Conversion conversion, Conversion::Plan(disk_, from, options));
    std::string bytes(conversion.bytes(), '\0');
    CAIRN_ASSIGN_OR_RETURN(
        Converted converted, conversion.Run(to, [&](std::uint64_t offset, std::span<const std::byte> piece) {
          bytes.replace(offset, piece.size(), reinterpret_cast<const char*>(piece.data()), piece.size());
          return absl::OkStatus();
        }));
    EXPECT_EQ(conversion.bytes(), converted.metadata.file_bytes);
    exact_ = conversion.exact();
    Write(to, bytes);
    return converted;
  }
  std::size_t Different(const std::string& a, const std::string& b) {
    const auto side_a = OpenSideOfDiff(disk_, a), side_b = OpenSideOfDiff(disk_, b);
    EXPECT_OK(side_a.status());
    EXPECT_OK(side_b.status());
    if (!side_a.ok() || !side_b.ok()) return ~std::size_t{0};
    EXPECT_THAT(side_b->damage, IsEmpty());
    const auto diff = Compare(*side_a, *side_b);
    EXPECT_OK(diff.status());
    return diff.ok() ? diff->different() : ~std::size_t{0};
  }

  FakeDisk disk_;
  bool exact_ = false;
};

TEST_F(ConvertTest, EveryLayoutBecomesBothWithTheSameVariables) {
  for (const Letter from : {Letter::kA, Letter::kB, Letter::kC, Letter::kD, Letter::kE, Letter::kF}) {
    Write("/Ckpt3-Rank0.fti", FileOf(from, MixedLayout(), {.checkpoint_id = 3}));
    for (const Letter to : {Letter::kA, Letter::kF}) {
      for (const bool exact : {false, true}) {
        ASSERT_OK_AND_ASSIGN(const Converted converted,
                             Convert("/Ckpt3-Rank0.fti", "/new", {.letter = to, .exact = exact}));
        EXPECT_EQ(converted.metadata.letter, to);
        EXPECT_EQ(exact_, exact);
        EXPECT_EQ(Different("/Ckpt3-Rank0.fti", "/new"), 0u) << static_cast<char>(from) << static_cast<char>(to);
      }
    }
  }
}

// FTI 1.1 goes by it. The sample counts its variables as their containers come.
TEST_F(ConvertTest, TheOrderOfRegistrationIsKeptOrItIsSaidThatNobodyKnowsIt) {
  const ftiff::FileLayout layout = MixedLayout();
  const std::vector<std::int32_t> registered = {5, 9, 3};
  for (const Letter from : {Letter::kA, Letter::kB, Letter::kC}) {
    const std::string file = FileOf(from, layout, {.checkpoint_id = 3}, registered);
    Write("/Ckpt3-Rank0.fti", file);
    EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, Convert("/Ckpt3-Rank0.fti", "/new", {.letter = Letter::kA}),
                  "--packing exact orders them anew");
    ASSERT_OK_AND_ASSIGN(const Converted converted,
                         Convert("/Ckpt3-Rank0.fti", "/new", {.letter = Letter::kA, .exact = true}));
    ASSERT_OK_AND_ASSIGN(const CheckpointFile opened, OpenCheckpointFile(disk_, "/new"));
    EXPECT_THAT(opened.metadata.registered, testing::ElementsAreArray(registered)) << static_cast<char>(from);
    std::vector<std::int32_t> appear;
    for (const ftiff::Container& container : opened.metadata.layout.containers) appear.push_back(container.id);
    EXPECT_EQ(appear, registered) << "FTI 1.1 checks sizes in this order";
    EXPECT_THAT(converted.notes, IsEmpty());
  }
  Write("/Ckpt3-Rank0.fti", FileOf(Letter::kF, layout, {.checkpoint_id = 3}));
  ASSERT_OK_AND_ASSIGN(const Converted unknown, Convert("/Ckpt3-Rank0.fti", "/new", {.letter = Letter::kA}));
  EXPECT_THAT(unknown.notes, Contains(HasSubstr("that of the new file, 3, 9, 5")));
}

TEST_F(ConvertTest, ANumberThatALayoutLacksComesFromAName) {
  Write("/Ckpt3-Rank0.fti", FileOf(Letter::kA, MixedLayout(), {}));
  ASSERT_OK_AND_ASSIGN(const Converted named, Convert("/Ckpt3-Rank0.fti", "/new", {.letter = Letter::kF}));
  EXPECT_EQ(named.metadata.header.checkpoint_id, 3);
  EXPECT_THAT(named.notes, IsEmpty());
  Write("/file", FileOf(Letter::kA, MixedLayout(), {}));
  ASSERT_OK_AND_ASSIGN(const Converted by_output, Convert("/file", "/Ckpt8-Rank0.fti", {.letter = Letter::kF}));
  EXPECT_EQ(by_output.metadata.header.checkpoint_id, 8);
  ASSERT_OK_AND_ASSIGN(const Converted unnamed, Convert("/file", "/new", {.letter = Letter::kF}));
  EXPECT_EQ(unnamed.metadata.header.checkpoint_id, 0);
  EXPECT_THAT(unnamed.notes, Contains(HasSubstr("no name tells it")));
}

TEST_F(ConvertTest, WhatMaySurpriseIsNoted) {
  Write("/Ckpt3-Rank0.fti", FileOf(MixedLayout(), {.checkpoint_id = 3, .file_bytes_max = 9999, .partner_bytes = 5}));
  ASSERT_OK_AND_ASSIGN(const Converted converted, Convert("/Ckpt3-Rank0.fti", "/Ckpt4-Rank0.fti", {}));
  EXPECT_THAT(converted.notes, Contains(HasSubstr("the name says checkpoint 4, the file 3")));
  EXPECT_THAT(converted.notes, Contains(HasSubstr("level 3")));
  EXPECT_THAT(converted.notes, Contains(HasSubstr("level 2")));
}

TEST_F(ConvertTest, AFileThatEndsInsideAContainerIsPackedExactly) {
  Write("/Ckpt3-Rank0.fti", ftiff::testing::FileOfBThatClaims(std::uint64_t{1} << 40));
  ASSERT_OK_AND_ASSIGN(const Converted converted, Convert("/Ckpt3-Rank0.fti", "/new", {.letter = Letter::kF}));
  EXPECT_TRUE(exact_);
  EXPECT_THAT(converted.notes, Contains(HasSubstr("ends inside a container")));
  EXPECT_EQ(Different("/Ckpt3-Rank0.fti", "/new"), 0u);
}

TEST_F(ConvertTest, WhatIsDamagedIsNotConverted) {
  std::string bytes = FileOf(MixedLayout(), {.checkpoint_id = 3});
  bytes[MixedLayout().containers[0].file_offset] ^= 1;
  Write("/Ckpt3-Rank0.fti", bytes);
  EXPECT_STATUS(StatusCode::kDataLoss, Convert("/Ckpt3-Rank0.fti", "/new", {}).status(), "damaged; the first");
  EXPECT_FALSE(disk_.Info("/new").ok());
}

}  // namespace
}  // namespace cairn
