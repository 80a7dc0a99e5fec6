// How two checkpoint files differ, also where one is damaged.
#include "storage/job/diff/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/storage/format/ftiff/sample_file.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ftiff::testing::FileOf;
using ftiff::testing::MixedLayout;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class DiffTest : public testing::Test {
 protected:
  SideOfDiff Side(const std::string& path, const std::string& bytes) {
    EXPECT_OK(WriteTestFile(disk_, path, bytes));
    auto side = OpenSideOfDiff(disk_, path);
    EXPECT_OK(side.status());
    return *std::move(side);
  }

  FakeDisk disk_;
};

TEST_F(DiffTest, LayoutsDoNotMakeADifferenceButAreTold) {
  const SideOfDiff a = Side("/a", FileOf(ftiff::Letter::kA, MixedLayout(), {}));
  const SideOfDiff b = Side("/b", FileOf(MixedLayout(), {.checkpoint_id = 3}));
  EXPECT_THAT(a.damage, IsEmpty());
  ASSERT_OK_AND_ASSIGN(const ftiff::FileDiff diff, Compare(a, b));
  EXPECT_EQ(diff.different(), 0u);
  ASSERT_FALSE(diff.fields.empty());
  EXPECT_EQ(diff.fields[0].field, "layout");
  EXPECT_EQ(diff.fields[0].values[0], "A");
}

TEST_F(DiffTest, DamageIsToldAndComparedNevertheless) {
  const ftiff::Container container = MixedLayout().containers.front();
  const std::string whole = FileOf(MixedLayout(), {.checkpoint_id = 3});
  std::string damaged = whole;
  damaged[container.file_offset + 2] ^= 1;
  const SideOfDiff a = Side("/a", whole), b = Side("/b", damaged);
  EXPECT_THAT(b.damage, testing::Contains(HasSubstr("/b")));
  ASSERT_OK_AND_ASSIGN(const ftiff::FileDiff diff, Compare(a, b));
  EXPECT_EQ(diff.different(), 1u);
  const auto variable = std::ranges::find(diff.variables, container.id, &ftiff::VariableDiff::id);
  ASSERT_NE(variable, diff.variables.end());
  EXPECT_EQ(variable->differing, 1u);
  EXPECT_EQ(variable->first, container.variable_offset + 2);
  EXPECT_EQ(variable->first_in_file[1], container.file_offset + 2);
  EXPECT_THAT(variable->containers[0], ElementsAre(container.index));
}

}  // namespace
}  // namespace cairn
