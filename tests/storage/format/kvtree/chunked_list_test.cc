// Lists that share what they have in common: storage/format/kvtree/chunked_list.h.
#include "storage/format/kvtree/chunked_list.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <string>
#include <vector>

namespace cairn::kvtree {
namespace {

using List = ChunkedList<std::string>;
constexpr std::size_t kChunk = List::kChunk;

std::vector<std::string> AllOf(const List& list) {
  std::vector<std::string> all;
  for (std::size_t at = 0; at < list.size(); ++at) all.push_back(list[at]);
  return all;
}

List Numbers(std::size_t count) {
  List list;
  for (std::size_t i = 0; i < count; ++i) list.Append(std::to_string(i));
  return list;
}

// Several lists, copies of each other, and plain vectors beside them.
TEST(ChunkedListTest, EachCopyIsAListOfItsOwn) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&random](std::size_t limit) { return random() % limit; };
    std::vector<List> lists(3);
    std::vector<std::vector<std::string>> plain(3);
    for (int step = 0; step < 400; ++step) {
      const std::size_t one = below(3), other = below(3);
      List& list = lists[one];
      std::vector<std::string>& all = plain[one];
      switch (below(10)) {
        case 0:
          lists[other] = list;
          plain[other] = all;
          break;
        case 1:
          if (all.empty()) break;
          all.erase(all.begin() + static_cast<std::ptrdiff_t>(step % all.size()));
          list.Erase(static_cast<std::size_t>(step) % (all.size() + 1));
          break;
        case 2:
          if (!all.empty()) list.At(step % all.size()) = all[step % all.size()] = "changed " + std::to_string(step);
          break;
        case 3:
          if (below(20) != 0) break;
          list.Assign(list.Take());
          break;
        default:
          for (std::size_t i = 0; i < kChunk / 8; ++i) {
            all.push_back(std::to_string(step));
            list.Append(std::to_string(step));
          }
      }
      for (std::size_t i = 0; i < 3; ++i) ASSERT_EQ(AllOf(lists[i]), plain[i]) << "list " << i << ", step " << step;
    }
  }
}

TEST(ChunkedListTest, AListOfAnySizeIsMadeAtOnceAndTakenApart) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, kChunk - 1, kChunk, kChunk + 1, 3 * kChunk}) {
    List list;
    list.Resize(count);
    ASSERT_EQ(list.size(), count);
    EXPECT_EQ(AllOf(list), std::vector<std::string>(count));
    list.Assign(std::vector<std::string>(count, "x"));
    list.Append("y");
    EXPECT_EQ(list.size(), count + 1);
    EXPECT_EQ(list[count], "y");
    std::vector<std::string> all = list.Take();
    EXPECT_EQ(all.size(), count + 1);
    EXPECT_TRUE(list.empty());
  }
}

TEST(ChunkedListTest, WhatIsFarFromAChangeStaysShared) {
  const List original = Numbers(10 * kChunk + 1);
  List copy = original;
  EXPECT_EQ(copy.SharedWith(original), 10 * kChunk);
  copy.Append("one more");
  EXPECT_EQ(copy.SharedWith(original), 10 * kChunk);
  copy.At(7 * kChunk + 3) = "another";
  EXPECT_EQ(copy.SharedWith(original), 7 * kChunk);
  EXPECT_EQ(original[7 * kChunk + 3], std::to_string(7 * kChunk + 3));
  EXPECT_EQ(Numbers(300).SharedWith(Numbers(300)), 0u) << "equal, but not the same";
}

}  // namespace
}  // namespace cairn::kvtree
