#include "storage/base/ids.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;

TEST(RunIdTest, RandomOnesDiffer) {
  std::set<RunId> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(RunId::Random());
  EXPECT_EQ(ids.size(), 1000u);
}

TEST(RunIdTest, HexAndParseAreInverse) {
  const RunId id = RunId::Random();
  EXPECT_EQ(RunId::Parse(id.Hex()).value(), id);
  ASSERT_OK_AND_ASSIGN(const RunId known, RunId::Parse("00112233445566778899aabbccddeeff"));
  EXPECT_EQ(known.bytes[1], std::byte{0x11});
  EXPECT_EQ(known.bytes[15], std::byte{0xff});
  EXPECT_EQ(known.Hex(), "00112233445566778899aabbccddeeff");
  EXPECT_EQ(known.ShortHex(), "00112233");
}

TEST(RunIdTest, ParseTakes32LowerCaseHexDigitsOnly) {
  EXPECT_STATUS(StatusCode::kInvalidArgument, RunId::Parse(""), "0 characters");
  EXPECT_STATUS(StatusCode::kInvalidArgument, RunId::Parse("00112233445566778899aabbccddeef"), "31 characters");
  EXPECT_STATUS(StatusCode::kInvalidArgument, RunId::Parse("00112233445566778899aabbccddeeff\n"), "33 characters");
  EXPECT_STATUS(StatusCode::kInvalidArgument, RunId::Parse("00112233445566778899aabbccddeefF"), "character 31");
  EXPECT_STATUS(StatusCode::kInvalidArgument, RunId::Parse("g0112233445566778899aabbccddeeff"), "character 0");
}

TEST(LevelTest, NamesAndLevelsAreInverse) {
  for (const Level level :
       {Level::kNone, Level::kFrozen, Level::kCaptured, Level::kLocal, Level::kRedundant, Level::kPrefix}) {
    EXPECT_EQ(ParseLevel(NameOf(level)).value(), level);
  }
  EXPECT_EQ(NameOf(Level::kLocal), "local");
  EXPECT_STATUS(StatusCode::kInvalidArgument, ParseLevel("Local"), "\"Local\" is no level");
  EXPECT_STATUS(StatusCode::kInvalidArgument, ParseLevel("unknown"), "unknown");
}

TEST(LevelTest, ValuesThatNobodyNamedAreUnknown) {
  EXPECT_EQ(NameOf(static_cast<Level>(200)), "unknown");
  EXPECT_EQ(NameOf(static_cast<Tier>(200)), "unknown");
  EXPECT_EQ(NameOf(Tier::kRebuilt), "rebuilt");
}

}  // namespace
}  // namespace cairn
