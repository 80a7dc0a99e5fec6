// Files are told by their bytes, whatever their names are.
#include "storage/file/known/known_file.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "storage/format/catalogue/catalogue.h"
#include "storage/format/kvtree/tree.h"
#include "storage/io/create_once.h"
#include "tests/storage/format/ftiff/sample_file.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;

class KnownFileTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    EXPECT_OK(WriteTestFile(disk_, "/" + name, bytes));
    return "/" + name;
  }
  std::string_view KindOfFile(const std::string& name, const std::string& bytes) {
    const auto file = OpenKnownFile(disk_, Write(name, bytes));
    return file.ok() ? KindOf(*file) : "?";
  }

  FakeDisk disk_;
};

kvtree::Tree SampleTree() {
  kvtree::Tree tree;
  tree.Set("KEY", "value");
  return tree;
}

TEST_F(KnownFileTest, TheKindIsThatOfTheBytes) {
  EXPECT_EQ(KindOfFile("Ckpt1-Rank0.fti", kvtree::Encode(SampleTree())), "kvtree");
  EXPECT_EQ(KindOfFile("index.scr", EncodeCatalogue(EmptyCatalogue(TestRun(), 1, 0, 1))), "catalogue");
  const ftiff::FileLayout layout = ftiff::testing::MixedLayout();
  EXPECT_EQ(KindOfFile("rank_0.cat", ftiff::testing::FileOf(layout, {.checkpoint_id = 3})), "FTI-FF");
  EXPECT_EQ(KindOfFile("data", ftiff::testing::CodeFileOf(ftiff::Letter::kF, std::string(200, 'p'), 192)),
            "FTI-FF code");
  EXPECT_STATUS(StatusCode::kDataLoss, OpenKnownFile(disk_, Write("text", "no such thing")).status(), "/text");
  EXPECT_STATUS(StatusCode::kNotFound, OpenKnownFile(disk_, "/none").status(), "/none");
}

TEST_F(KnownFileTest, BehindATreeThereMayBeAPayloadWhichIsCountedAndNotRead) {
  const std::string path = Write("redset", kvtree::Encode(SampleTree()) + std::string(1000, 'x'));
  ASSERT_OK_AND_ASSIGN(const TreeFile file, OpenTreeFile(disk_, path));
  EXPECT_EQ(file.payload_bytes, 1000u);
  EXPECT_NE(file.tree.Find("KEY"), nullptr);
}

TEST_F(KnownFileTest, ARecordThatWasMadeOnceIsShownWithoutItsFrame) {
  ASSERT_OK(CreateFileOnce(disk_, "/change", kvtree::Encode(SampleTree()), {.durable = false}));
  ASSERT_OK_AND_ASSIGN(const KnownFile file, OpenKnownFile(disk_, "/change"));
  EXPECT_EQ(KindOf(file), "kvtree");
  ASSERT_OK_AND_ASSIGN(const TreeFile tree, OpenTreeFile(disk_, "/change"));
  EXPECT_TRUE(tree.tree.SameAs(SampleTree()));
}

TEST_F(KnownFileTest, OnlyAHaltFileMayBeEmpty) {
  EXPECT_STATUS(StatusCode::kDataLoss, OpenKnownFile(disk_, Write("halt.scr", "")).status(), "empty");
  ASSERT_OK_AND_ASSIGN(const TreeFile halt, OpenTreeFile(disk_, "/halt.scr"));
  EXPECT_TRUE(halt.tree.elements().empty());
  EXPECT_STATUS(StatusCode::kDataLoss, OpenTreeFile(disk_, Write("index.scr", "")).status(), "empty");
}

TEST_F(KnownFileTest, ACheckpointIsWantedAndAnotherKindIsNamed) {
  const std::string path = Write("tree", kvtree::Encode(SampleTree()));
  EXPECT_STATUS(StatusCode::kInvalidArgument, OpenCheckpointFile(disk_, path).status(), "a kvtree file, not a");
}

TEST(WithoutNameTest, OnlyTheNameInFrontGoes) {
  EXPECT_EQ(WithoutName("/a/b: damaged", "/a/b"), "damaged");
  EXPECT_EQ(WithoutName("/a/bc: damaged", "/a/b"), "/a/bc: damaged");
  EXPECT_EQ(WithoutName("damaged: /a/b", "/a/b"), "damaged: /a/b");
}

}  // namespace
}  // namespace cairn
