#include "client/cli/bp/grid_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/client/cli/bp/bp_vectors.h"

namespace cairn::cli {
namespace {

std::string Grid(const Box& box, const std::vector<std::vector<std::string>>& parts, std::size_t width = 80) {
  return testing::Written([&](TextOut& out) {
    GridText grid(out, box, width);
    for (const auto& part : parts) grid.Add(part);
  });
}

TEST(GridTextTest, RowsBeginALineAndColumnsAlign) {
  EXPECT_EQ(Grid({{2, 9}, {2, 3}}, {{"1", "-2", "3", "10", "5", "6"}}),
            "(2,9)    1  -2   3\n"
            "(3,9)   10   5   6\n");
}

TEST(GridTextTest, LongRowsGoOnInLinesOfAsManyItems) {
  std::vector<std::string> items(23, "7");
  EXPECT_EQ(Grid({{100}, {23}}, {items}, 40),
            "(100)  7  7  7  7  7  7  7  7  7  7\n"
            "(110)  7  7  7  7  7  7  7  7  7  7\n"
            "(120)  7  7  7\n");
}

TEST(GridTextTest, NothingIsCutWhereItemsAreWiderThanTheLine) {
  EXPECT_EQ(Grid({{0}, {2}}, {{std::string(30, 'a'), "b"}}, 20),
            "(0)  " + std::string(30, 'a') + "\n(1)  " + std::string(29, ' ') + "b\n");
}

TEST(GridTextTest, LaterItemsThatAreWiderMakeTheirColumnWider) {
  EXPECT_EQ(Grid({{0, 0}, {2, 2}}, {{"1", "2"}, {"1000", "2"}}),
            "(0,0)  1  2\n"
            "(1,0)  1000     2\n");
}

TEST(GridTextTest, ASingleElementHasNoIndex) {
  EXPECT_EQ(Grid({}, {{"5"}}), "()  5\n");
}

}  // namespace
}  // namespace cairn::cli
