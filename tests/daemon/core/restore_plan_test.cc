// From what a rank asks for and what was stored to the pieces of a restore.
#include "daemon/core/restore_plan.h"

#include <gtest/gtest.h>

#include <string>

#include "storage/base/checksum.h"
#include "storage/format/ftiff/codec.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

local::Variable VariableOf(std::int32_t id, local::Kind kind, std::uint64_t count, const std::string& name = "") {
  local::Variable variable;
  variable.set_id(id);
  variable.set_kind(kind);
  variable.set_type(1);
  variable.set_name(name);
  variable.set_count(count);
  variable.set_bytes(count);
  return variable;
}

local::Variable ArrayOf(std::int32_t id, std::uint64_t shape, std::uint64_t start, std::uint64_t count) {
  local::Variable variable = VariableOf(id, local::ARRAY, count, "u");
  variable.add_shape(shape);
  variable.add_box_start(start);
  variable.add_box_count(count);
  return variable;
}

VariableList ListOf(std::initializer_list<local::Variable> variables) {
  return {variables.begin(), variables.end()};
}

// --- Match ---

class MatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dataset_.id = 5;
    dataset_.nranks = 3;
    dataset_.parts.resize(3);
    // Rank 0 has no value.
    *dataset_.parts[0].catalogue.mutable_variables() = ListOf({VariableOf(1, local::PLAIN, 10), ArrayOf(3, 6, 0, 2)});
    for (Rank rank : {1, 2}) {
      *dataset_.parts[rank].catalogue.mutable_variables() = ListOf(
          {VariableOf(1, local::PLAIN, 10 + rank), VariableOf(2, local::VALUE, 1, "t"), ArrayOf(3, 6, 2 * rank, 2)});
    }
  }
  absl::Status StatusOf(Rank rank, std::uint32_t nranks, const local::Variable& variable) {
    return Match(dataset_, rank, nranks, ListOf({variable})).status();
  }
  Dataset dataset_;
};

TEST_F(MatchTest, PlainAndArrayComeFromTheSameRankAValueFromTheLowestThatHasIt) {
  ASSERT_OK_AND_ASSIGN(
      const std::vector<Wanted> wanted,
      Match(dataset_, 2, 3,
            ListOf({ArrayOf(3, 6, 4, 2), VariableOf(2, local::VALUE, 1, "t"), VariableOf(1, local::PLAIN, 12)})));
  ASSERT_EQ(wanted.size(), 3u);
  EXPECT_EQ(wanted[0].id, 3);
  EXPECT_EQ(wanted[0].rank, 2u);
  EXPECT_EQ(wanted[1].rank, 1u);
  EXPECT_EQ(wanted[1].variable, 1u);
  EXPECT_EQ(wanted[2].rank, 2u);
  EXPECT_EQ(wanted[2].bytes, 12u);
}

TEST_F(MatchTest, AValueFitsAnyNumberOfRanks) {
  for (std::uint32_t nranks : {1u, 2u, 3u, 100u}) {
    EXPECT_OK(StatusOf(nranks - 1, nranks, VariableOf(2, local::VALUE, 1, "t"))) << nranks;
  }
}

TEST_F(MatchTest, AnotherNumberOfRanksIsRefusedForTheRest) {
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, StatusOf(0, 2, VariableOf(1, local::PLAIN, 10)), "variable 1");
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, StatusOf(4, 5, VariableOf(1, local::PLAIN, 10)), "by 3 ranks");
}

TEST_F(MatchTest, WhatIsMissingIsNotFoundByName) {
  EXPECT_STATUS(absl::StatusCode::kNotFound, StatusOf(0, 3, VariableOf(9, local::PLAIN, 1)), "variable 9");
  EXPECT_STATUS(absl::StatusCode::kNotFound, StatusOf(0, 3, VariableOf(9, local::VALUE, 1, "t")), "variable 9");
}

TEST_F(MatchTest, EachDifferenceIsNamed) {
  const auto code = absl::StatusCode::kFailedPrecondition;
  EXPECT_STATUS(code, StatusOf(0, 3, VariableOf(1, local::PLAIN, 11)), "count 10, here it has 11");
  local::Variable type = VariableOf(1, local::PLAIN, 10);
  type.set_type(5);
  EXPECT_STATUS(code, StatusOf(0, 3, type), "type 1, here it has 5");
  EXPECT_STATUS(code, StatusOf(1, 3, VariableOf(2, local::PLAIN, 1)), "kind VALUE, here it has PLAIN");
  EXPECT_STATUS(code, StatusOf(1, 3, VariableOf(2, local::VALUE, 1, "s")), "name t, here it has s");
  EXPECT_STATUS(code, StatusOf(1, 3, ArrayOf(3, 7, 2, 2)), "shape");
  EXPECT_OK(StatusOf(1, 3, ArrayOf(3, 6, 2, 2)));
}

// --- Match: other boxes ---

TEST_F(MatchTest, TheVeryBoxComesWholeFromItsOwnRank) {
  ASSERT_OK_AND_ASSIGN(const std::vector<Wanted> wanted, Match(dataset_, 1, 3, ListOf({ArrayOf(3, 6, 2, 2)})));
  ASSERT_EQ(wanted.size(), 1u);
  EXPECT_EQ(wanted[0].rank, 1u);
  EXPECT_TRUE(wanted[0].rows.empty());
}

TEST_F(MatchTest, AnotherBoxComesFromAllThatHavePartsOfIt) {
  for (const std::uint32_t nranks : {1u, 2u, 3u, 7u}) {
    ASSERT_OK_AND_ASSIGN(const std::vector<Wanted> wanted,
                         Match(dataset_, nranks - 1, nranks, ListOf({ArrayOf(3, 6, 1, 3)})));
    ASSERT_EQ(wanted.size(), 2u);
    EXPECT_EQ(wanted[0].rank, 1u);  // [2, 4)
    EXPECT_EQ(wanted[1].rank, 0u);  // [1, 2)
    ASSERT_EQ(wanted[1].rows.size(), 1u);
    EXPECT_EQ(wanted[1].rows[0].a_begin, 1u);
    EXPECT_EQ(wanted[1].rows[0].b_begin, 0u);
    EXPECT_EQ(wanted[0].rows[0].b_begin, 1u);
    EXPECT_EQ(wanted[0].rows[0].row, 2u);
    EXPECT_EQ(wanted[0].bytes, 2u);
  }
}

TEST_F(MatchTest, ABoxWithoutElementsWantsNothing) {
  ASSERT_OK_AND_ASSIGN(const std::vector<Wanted> wanted, Match(dataset_, 6, 7, ListOf({ArrayOf(3, 6, 6, 0)})));
  EXPECT_TRUE(wanted.empty());
}

TEST_F(MatchTest, TheFirstElementThatNobodyStoredIsNamed) {
  dataset_.parts[1].catalogue.mutable_variables()->RemoveLast();
  local::Variable asked = ArrayOf(3, 6, 0, 6);
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, StatusOf(0, 1, asked),
                "variable 3 (\"u\"): no rank has stored element (2), the first of (2)");
  asked.set_holes(true);
  ASSERT_OK_AND_ASSIGN(const std::vector<Wanted> wanted, Match(dataset_, 0, 1, ListOf({asked})));
  ASSERT_EQ(wanted.size(), 2u);
  EXPECT_EQ(wanted[0].rank, 2u);
  EXPECT_EQ(wanted[1].rank, 0u);
}

TEST_F(MatchTest, OfWhatSeveralHaveStoredTheHighestRanksCounts) {
  *dataset_.parts[1].catalogue.mutable_variables(2) = ArrayOf(3, 6, 0, 4);
  ASSERT_OK_AND_ASSIGN(const std::vector<Wanted> wanted, Match(dataset_, 0, 2, ListOf({ArrayOf(3, 6, 0, 3)})));
  ASSERT_EQ(wanted.size(), 1u);
  EXPECT_EQ(wanted[0].rank, 1u);
}

TEST_F(MatchTest, DifferencesOfAnotherRanksPartAreNamedToo) {
  const auto code = absl::StatusCode::kFailedPrecondition;
  EXPECT_STATUS(code, StatusOf(0, 2, ArrayOf(3, 7, 0, 3)), "shape");
  local::Variable asked = ArrayOf(3, 6, 0, 3);
  asked.set_name("v");
  EXPECT_STATUS(code, StatusOf(0, 2, asked), "name u, here it has v");
  EXPECT_STATUS(absl::StatusCode::kNotFound, StatusOf(0, 2, ArrayOf(9, 6, 0, 3)), "variable 9");
}

TEST_F(MatchTest, ABoxInTooManyPiecesIsRefused) {
  // Every second element of a long array, in rows of their own.
  dataset_.nranks = 1;
  dataset_.parts.resize(1);
  local::Variable stored = VariableOf(4, local::ARRAY, 8ull << 40, "w");
  for (const std::uint64_t extent : {8ull << 20, 1ull << 20}) {
    stored.add_shape(extent);
    stored.add_box_start(0);
    stored.add_box_count(extent);
  }
  *dataset_.parts[0].catalogue.add_variables() = stored;
  local::Variable asked = stored;
  asked.set_box_count(1, 1);
  asked.set_count(8 << 20);
  asked.set_bytes(8 << 20);
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, StatusOf(0, 1, asked), "falls apart");
}

TEST_F(MatchTest, AllVariablesOfARequestShareTheBoundOnPieces) {
  dataset_.nranks = 1;
  dataset_.parts.resize(1);
  VariableList asked;
  for (const std::int32_t id : {4, 5}) {
    local::Variable array = VariableOf(id, local::ARRAY, 600'000ull << 20, "w" + std::to_string(id));
    for (const std::uint64_t extent : {std::uint64_t{600'000}, std::uint64_t{1} << 20}) {
      array.add_shape(extent);
      array.add_box_start(0);
      array.add_box_count(extent);
    }
    *dataset_.parts[0].catalogue.add_variables() = array;
    array.set_box_count(1, 1);
    array.set_count(600'000);
    array.set_bytes(600'000);
    *asked.Add() = array;
    if (id == 4) {
      EXPECT_OK(Match(dataset_, 0, 1, asked));
    }
  }
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, Match(dataset_, 0, 1, asked), "variable 5");
}

// --- MatchRead ---

class MatchReadTest : public MatchTest {
 protected:
  static local::Read ReadOf(const std::string& name, std::vector<std::uint64_t> start,
                            std::vector<std::uint64_t> count) {
    local::Read read;
    read.set_name(name);
    read.mutable_start()->Assign(start.begin(), start.end());
    read.mutable_count()->Assign(count.begin(), count.end());
    return read;
  }
};

TEST_F(MatchReadTest, ASelectionComesFromAllThatHavePartsOfIt) {
  ASSERT_OK_AND_ASSIGN(const ReadMatch match, MatchRead(dataset_, ReadOf("u", {1}, {3})));
  EXPECT_EQ(match.variable.id(), 3);
  EXPECT_EQ(match.variable.bytes(), 3u);
  EXPECT_EQ(match.wanted.size(), 2u);
}

TEST_F(MatchReadTest, AValueComesFromTheLowestRankWholeOrInPart) {
  for (const Rank rank : {1, 2})
    *dataset_.parts[rank].catalogue.mutable_variables(1) = VariableOf(2, local::VALUE, 5, "t");
  ASSERT_OK_AND_ASSIGN(const ReadMatch all, MatchRead(dataset_, ReadOf("t", {}, {})));
  ASSERT_EQ(all.wanted.size(), 1u);
  EXPECT_EQ(all.wanted[0].rank, 1u);
  EXPECT_TRUE(all.wanted[0].rows.empty());
  ASSERT_OK_AND_ASSIGN(const ReadMatch some, MatchRead(dataset_, ReadOf("t", {1}, {3})));
  EXPECT_EQ(some.variable.bytes(), 3u);
  ASSERT_EQ(some.wanted[0].rows.size(), 1u);
  EXPECT_EQ(some.wanted[0].rows[0].a_begin, 1u);
  EXPECT_EQ(some.wanted[0].rows[0].row, 3u);
}

TEST_F(MatchReadTest, WhatCannotBeReadIsSaid) {
  EXPECT_STATUS(absl::StatusCode::kNotFound, MatchRead(dataset_, ReadOf("x", {0}, {1})), "\"x\"");
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, MatchRead(dataset_, ReadOf("var_1", {0}, {1})), "plain");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, MatchRead(dataset_, ReadOf("u", {0, 0}, {1, 1})), "1 dimensions");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, MatchRead(dataset_, ReadOf("u", {}, {})), "1 dimensions");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, MatchRead(dataset_, ReadOf("u", {5}, {2})), "(6)");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, MatchRead(dataset_, ReadOf("u", {~0ull}, {2})), "(6)");
  local::Read typed = ReadOf("u", {0}, {1});
  typed.set_type(10);
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, MatchRead(dataset_, typed), "type 1, not 10");
}

TEST_F(MatchReadTest, HolesAreRefusedUnlessTheyAreTheClients) {
  dataset_.parts[0].catalogue.mutable_variables()->RemoveLast();
  local::Read read = ReadOf("u", {0}, {6});
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, MatchRead(dataset_, read), "element (0), the first of (2)");
  read.set_holes(true);
  EXPECT_OK(MatchRead(dataset_, read));
}

// --- Match: adopted from another system ---

class MatchUnknownTypeTest : public MatchTest {
 protected:
  void SetUp() override {
    MatchTest::SetUp();
    for (Part& part : dataset_.parts) {
      local::Variable unknown = VariableOf(7, local::PLAIN, 24);
      unknown.set_type(0);
      *part.catalogue.add_variables() = unknown;
    }
  }
  static local::Variable Doubles(local::Kind kind, std::uint64_t count) {
    local::Variable variable = VariableOf(7, kind, count, kind == local::PLAIN ? "" : "x");
    variable.set_type(10);
    variable.set_bytes(8 * count);
    return variable;
  }
};

TEST_F(MatchUnknownTypeTest, FitsWhateverHasAsManyBytesAndIsThisRanksOwn) {
  for (const local::Variable& asked :
       {Doubles(local::PLAIN, 3), Doubles(local::VALUE, 3), VariableOf(7, local::PLAIN, 24), ArrayOf(7, 72, 24, 24)}) {
    for (const Rank rank : {0, 1, 2}) {
      ASSERT_OK_AND_ASSIGN(const std::vector<Wanted> wanted, Match(dataset_, rank, 3, ListOf({asked})));
      ASSERT_EQ(wanted.size(), 1u);
      EXPECT_EQ(wanted[0].rank, rank) << asked.DebugString();
      EXPECT_EQ(wanted[0].bytes, 24u);
    }
  }
}

TEST_F(MatchUnknownTypeTest, AnotherNumberOfBytesIsRefused) {
  const auto code = absl::StatusCode::kFailedPrecondition;
  EXPECT_STATUS(code, StatusOf(1, 3, Doubles(local::PLAIN, 4)), "24 bytes of unknown type, here it has 32");
  EXPECT_STATUS(code, StatusOf(1, 3, Doubles(local::VALUE, 2)), "variable 7");
  EXPECT_STATUS(code, StatusOf(1, 3, ArrayOf(7, 72, 0, 23)), "variable 7");
}

TEST_F(MatchUnknownTypeTest, AnotherNumberOfRanksIsRefusedAlsoForAValue) {
  const auto code = absl::StatusCode::kFailedPrecondition;
  EXPECT_STATUS(code, StatusOf(0, 2, Doubles(local::VALUE, 3)), "by 3 ranks");
  EXPECT_STATUS(code, StatusOf(3, 4, Doubles(local::VALUE, 3)), "by 3 ranks");
  EXPECT_STATUS(code, StatusOf(0, 2, Doubles(local::PLAIN, 3)), "by 3 ranks");
}

TEST_F(MatchUnknownTypeTest, AValueThatThisRankLacksIsNotTakenFromAnother) {
  dataset_.parts[0].catalogue.mutable_variables()->RemoveLast();
  EXPECT_STATUS(absl::StatusCode::kNotFound, StatusOf(0, 3, Doubles(local::VALUE, 3)), "variable 7");
}

// --- FindPieces ---

class FindPiecesTest : public ::testing::Test {
 protected:
  static constexpr char kPath[] = "/f";

  void SetUp() override {
    const std::vector<ftiff::VariableSize> sizes = {{1, 5 << 20}, {2, 100}, {3, 0}};
    ASSERT_OK_AND_ASSIGN(layout_, ftiff::PlanFresh(sizes, ftiff::Packing::kAligned));
    Write(layout_);
  }
  // A file whose data is zeros.
  void Write(const ftiff::FileLayout& layout) {
    std::vector<Md5Digest> hashes;
    for (const ftiff::Container& container : layout.containers) {
      hashes.push_back(Md5(std::vector<std::byte>(container.chunk_bytes)));
    }
    const std::vector<std::byte> metadata = ftiff::EncodeMetadata(layout, hashes, {.checkpoint_id = 5});
    ASSERT_OK_AND_ASSIGN(auto file, disk_.Open(kPath, {.writable = true, .create = true}));
    ASSERT_OK(file->Truncate(layout.data_bytes));
    ASSERT_OK(file->WriteAt(layout.data_bytes, metadata));
    source_.path = kPath;
    source_.file_bytes = layout.data_bytes + metadata.size();
    metadata_ = metadata;
  }
  absl::StatusOr<std::vector<RestorePiece>> Find(const std::vector<Wanted>& wanted) {
    bad_ = 77;
    return FindPieces(disk_, {source_}, {4}, wanted, &bad_);
  }
  static std::uint64_t BytesOf(const std::vector<RestorePiece>& pieces, std::uint32_t variable) {
    std::uint64_t bytes = 0;
    for (const RestorePiece& piece : pieces) bytes += piece.variable == variable ? piece.bytes : 0;
    return bytes;
  }

  ImageBudget budget_{16 << 20};
  FakeDisk disk_;
  ftiff::FileLayout layout_;
  RestoreSource source_;
  std::vector<std::byte> metadata_;
  std::size_t bad_ = 0;
};

TEST_F(FindPiecesTest, CoverWhatIsWantedAndNothingElse) {
  ASSERT_OK_AND_ASSIGN(const std::vector<RestorePiece> pieces,
                       Find({{.variable = 8, .id = 1, .rank = 4, .bytes = 5 << 20},
                             {.variable = 9, .id = 3, .rank = 4, .bytes = 0},
                             {.variable = 7, .id = 2, .rank = 3, .bytes = 100}}));  // of another rank's file
  EXPECT_EQ(BytesOf(pieces, 8), 5u << 20);
  EXPECT_EQ(BytesOf(pieces, 7), 0u);
  std::uint64_t next = 0;
  for (const RestorePiece& piece : pieces) {
    EXPECT_EQ(piece.variable_offset, next);
    EXPECT_EQ(piece.source, 0u);
    next += piece.bytes;
  }
}

TEST_F(FindPiecesTest, AFileOfAnotherSizeIsDamaged) {
  source_.file_bytes += 1;
  EXPECT_STATUS(absl::StatusCode::kDataLoss, Find({}), kPath);
  EXPECT_EQ(bad_, 0u);
}

TEST_F(FindPiecesTest, AFileThatIsGoneIsNotFound) {
  ASSERT_OK(disk_.Remove(kPath));
  EXPECT_STATUS(absl::StatusCode::kNotFound, Find({}), kPath);
  EXPECT_EQ(bad_, 0u);
}

TEST_F(FindPiecesTest, ADiskThatDoesNotAnswerPassesThrough) {
  disk_.FailOn({.op = FakeOp::kRead});
  EXPECT_STATUS(absl::StatusCode::kUnavailable, Find({}), "injected");
}

TEST_F(FindPiecesTest, MetadataThatDoesNotHoldWhatTheCatalogueSaysIsDamaged) {
  EXPECT_STATUS(absl::StatusCode::kDataLoss, Find({{.id = 2, .rank = 4, .bytes = 101}}), "100 of 101 bytes");
  EXPECT_STATUS(absl::StatusCode::kDataLoss, Find({{.id = 2, .rank = 4, .bytes = 99}}), "leaves its 99 bytes");
  EXPECT_STATUS(absl::StatusCode::kDataLoss, Find({{.id = 6, .rank = 4, .bytes = 1}}), "variable 6");
}

TEST_F(FindPiecesTest, AFlippedBitInTheMetadataIsFoundOrChangesNothing) {
  const std::vector<Wanted> wanted = {{.id = 1, .rank = 4, .bytes = 5 << 20}, {.id = 2, .rank = 4, .bytes = 100}};
  ASSERT_OK_AND_ASSIGN(const std::vector<RestorePiece> whole, Find(wanted));
  for (std::size_t byte = 0; byte < metadata_.size(); ++byte) {
    disk_.FlipBit(kPath, 8 * (layout_.data_bytes + byte) + byte % 8);
    const auto found = Find(wanted);
    if (found.ok()) {
      ASSERT_EQ(found->size(), whole.size()) << byte;
      for (std::size_t i = 0; i < whole.size(); ++i) {
        EXPECT_EQ((*found)[i].file_offset, whole[i].file_offset) << byte;
        EXPECT_EQ((*found)[i].variable_offset, whole[i].variable_offset) << byte;
        EXPECT_EQ((*found)[i].bytes, whole[i].bytes) << byte;
      }
    }
    disk_.FlipBit(kPath, 8 * (layout_.data_bytes + byte) + byte % 8);
  }
}

TEST_F(FindPiecesTest, AKeptImageIsReadLikeAFile) {
  auto kept = std::make_shared<KeptImage>();
  ASSERT_OK_AND_ASSIGN(kept->image, Image::Make(budget_, layout_.data_bytes));
  kept->data_bytes = layout_.data_bytes;
  kept->metadata = metadata_;
  const std::vector<Wanted> wanted = {{.id = 1, .rank = 4, .bytes = 5 << 20}};
  ASSERT_OK_AND_ASSIGN(const std::vector<RestorePiece> of_file, Find(wanted));
  source_.kept = kept;
  ASSERT_OK_AND_ASSIGN(const std::vector<RestorePiece> of_image, Find(wanted));
  EXPECT_EQ(of_image.size(), of_file.size());
  kept->metadata.resize(kept->metadata.size() - 1);
  EXPECT_STATUS(absl::StatusCode::kDataLoss, Find(wanted), "image");
}

}  // namespace
}  // namespace cairn
