// The tree in memory: order, wide levels, values.
#include "storage/format/kvtree/tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace cairn::kvtree {
namespace {

std::vector<std::string> KeysOf(const Tree& tree) {
  std::vector<std::string> keys;
  for (const auto& [key, child] : tree.elements()) keys.push_back(key);
  return keys;
}

using Keys = std::vector<std::string>;

TEST(TreeTest, ANewKeyGoesToTheFront) {
  Tree tree;
  tree.At("A");
  tree.At("B");
  tree.At("C");
  EXPECT_EQ(KeysOf(tree), (Keys{"C", "B", "A"}));
  tree.At("A").Set("x", "1");  // already there: stays where it is
  EXPECT_EQ(KeysOf(tree), (Keys{"C", "B", "A"}));
}

TEST(TreeTest, SettingAgainReplacesAndMovesToTheFront) {
  Tree tree;
  tree.Set("A", "1");
  tree.Set("B", "2");
  tree.Set("A", "3");
  EXPECT_EQ(KeysOf(tree), (Keys{"A", "B"}));
  EXPECT_EQ(tree.Get("A"), "3");
  EXPECT_EQ(tree.Find("A")->size(), 1u);
  tree.SetEmpty("B");
  EXPECT_EQ(KeysOf(tree), (Keys{"B", "A"}));
  EXPECT_TRUE(tree.Find("B")->empty());
}

TEST(TreeTest, AValueMayBeTakenFromTheTreeThatIsSet) {
  Tree tree;
  tree.Set("A", std::string(100, 'x'));
  tree.Set("A", *tree.Get("A"));
  EXPECT_EQ(tree.Get("A"), std::string(100, 'x'));
  tree.SetEmpty(tree.elements().front().first);
  EXPECT_TRUE(tree.Find("A")->empty());
}

TEST(TreeTest, GetIsTheFirstOfSeveralValues) {
  Tree tree;
  tree.At("LOCATION").At("CACHE");
  tree.At("LOCATION").At("PFS");
  EXPECT_EQ(tree.Get("LOCATION"), "PFS");
}

TEST(TreeTest, AValueIsAnElementLikeAnyOther) {
  Tree tree;
  tree.Set("KEY", "VALUE");
  Tree& value = *tree.Find("KEY");
  EXPECT_EQ(value.size(), 1u);
  EXPECT_EQ(value.elements()[0].first, "VALUE");
  EXPECT_TRUE(value.elements().front().second.empty());
  EXPECT_TRUE(std::as_const(value).Find("VALUE")->empty());
  EXPECT_EQ(value.Find("x"), nullptr);
  value.Find("VALUE")->Set("below", "1");
  value.At("second");
  EXPECT_EQ(Print(tree), "  KEY\n    second\n    VALUE\n      below\n        1\n");
  EXPECT_TRUE(value.Erase("second"));
  EXPECT_TRUE(value.Erase("VALUE"));
  EXPECT_FALSE(tree.Get("KEY").has_value());
  tree.Set("KEY", "");
  EXPECT_EQ(tree.Get("KEY"), "");
  tree.Set("KEY", "VALUE");
  EXPECT_FALSE(tree.Find("KEY")->Erase(""));
  EXPECT_TRUE(tree.Find("KEY")->Erase("VALUE"));
  EXPECT_TRUE(tree.Find("KEY")->empty());
}

TEST(TreeTest, LookingIntoAnEmptyTreeLeavesItEmpty) {
  Tree tree;
  EXPECT_EQ(tree.Find(""), nullptr);
  EXPECT_EQ(std::as_const(tree).Find(""), nullptr);
  EXPECT_FALSE(tree.Erase(""));
  EXPECT_TRUE(tree.empty());
  EXPECT_EQ(tree.size(), 0u);
}

TEST(TreeTest, RoomIsNoElement) {
  Tree tree;
  tree.Reserve(20);
  EXPECT_TRUE(tree.empty());
  EXPECT_TRUE(tree.SameAs(Tree()));
  EXPECT_EQ(Encode(tree), Encode(Tree()));
  tree.Set("KEY", "VALUE");
  tree.Find("KEY")->Reserve(20);
  EXPECT_EQ(Print(tree), "  KEY\n    VALUE\n");
}

TEST(TreeTest, FindPathGoesDownAndStopsWhereNothingIs) {
  Tree tree;
  tree.At("A").At("B").Set("C", "1");
  ASSERT_NE(tree.FindPath({"A", "B", "C"}), nullptr);
  EXPECT_EQ(tree.FindPath({"A", "B"})->Get("C"), "1");
  EXPECT_EQ(tree.FindPath({"A", "x", "C"}), nullptr);
  EXPECT_EQ(tree.FindPath({}), &tree);
}

TEST(TreeTest, EraseSaysWhetherTheKeyWasThere) {
  Tree tree;
  tree.Set("A", "1");
  EXPECT_TRUE(tree.Erase("A"));
  EXPECT_FALSE(tree.Erase("A"));
  EXPECT_TRUE(tree.empty());
}

TEST(TreeTest, MergeAddsAndDescendsAndReverses) {
  Tree a, b;
  a.At("X").At("1");
  b.At("X").At("2");
  b.At("Y");
  b.At("Z");
  a.Merge(b);
  EXPECT_EQ(KeysOf(a), (Keys{"Y", "Z", "X"}));
  EXPECT_EQ(KeysOf(*a.Find("X")), (Keys{"2", "1"}));
}

TEST(TreeTest, SortOrdersKeysAsStringsOnEveryLevel) {
  Tree tree;
  for (int i = 0; i <= 100; ++i) tree.At("RANK").At(std::to_string(i)).At("b").At("z");
  for (int i = 0; i <= 100; ++i) tree.At("RANK").At(std::to_string(i)).At("a");
  tree.Sort();
  const Keys keys = KeysOf(*tree.Find("RANK"));
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
  EXPECT_EQ(KeysOf(*tree.FindPath({"RANK", "55"})), (Keys{"a", "b"}));
  for (int i = 0; i <= 100; ++i) EXPECT_NE(tree.FindPath({"RANK", std::to_string(i)}), nullptr) << i;
}

TEST(TreeTest, ALevelIsSortedByTextOrByNumberBothWays) {
  Tree tree;
  for (const char* key : {"10", "b", "9", "-1", "", "2", "a", "99999999999999999999", "02"}) tree.At(key).Set("x", key);
  const Keys text = {"", "-1", "02", "10", "2", "9", "99999999999999999999", "a", "b"};
  const Keys number = {"-1", "02", "2", "9", "10", "", "99999999999999999999", "a", "b"};
  const auto listed = [&tree](SortBy by, Direction direction) {
    const auto keys = tree.SortedKeys(by, direction);
    return Keys(keys.begin(), keys.end());
  };
  const Keys before = KeysOf(tree);
  EXPECT_EQ(listed(SortBy::kText, Direction::kAscending), text);
  EXPECT_EQ(listed(SortBy::kText, Direction::kDescending), Keys(text.rbegin(), text.rend()));
  EXPECT_EQ(listed(SortBy::kNumber, Direction::kAscending), number);
  EXPECT_EQ(listed(SortBy::kNumber, Direction::kDescending), Keys(number.rbegin(), number.rend()));
  EXPECT_EQ(KeysOf(tree), before);
  tree.SortLevel(SortBy::kNumber);
  EXPECT_EQ(KeysOf(tree), number);
  tree.SortLevel(SortBy::kText, Direction::kDescending);
  EXPECT_EQ(KeysOf(tree), Keys(text.rbegin(), text.rend()));
  for (const std::string& key : text) EXPECT_EQ(tree.Find(key)->Get("x"), key);
}

TEST(TreeTest, SortingALevelLeavesThoseBelowAndFindsAllOfAWideOne) {
  Tree tree;
  for (int i = 0; i < 500; ++i) {
    Tree& child = tree.At(std::to_string(i * 7919 % 500));
    child.At("1");
    child.At("2");
  }
  tree.SortLevel(SortBy::kNumber);
  for (int i = 0; i < 500; ++i) {
    EXPECT_EQ(tree.elements()[static_cast<std::size_t>(i)].first, std::to_string(i));
    ASSERT_NE(tree.Find(std::to_string(i)), nullptr);
    EXPECT_EQ(KeysOf(*tree.Find(std::to_string(i))), (Keys{"2", "1"}));
  }
  Tree value;
  value.At("only");
  value.SortLevel(SortBy::kText);
  EXPECT_EQ(value.SortedKeys(SortBy::kNumber), std::vector<std::string_view>{"only"});
  EXPECT_TRUE(Tree().SortedKeys(SortBy::kText).empty());
}

TEST(TreeTest, DoublesHaveSixDecimals) {
  Tree tree;
  tree.SetDouble("D", 3.25);
  EXPECT_EQ(tree.Get("D"), "3.250000");
  EXPECT_EQ(*tree.GetDouble("D"), 3.25);
  tree.SetDouble("D", -1e-9);
  EXPECT_EQ(tree.Get("D"), "-0.000000");
  tree.SetDouble("D", std::numeric_limits<double>::lowest());
  EXPECT_EQ(*tree.GetDouble("D"), std::numeric_limits<double>::lowest());
  tree.Set("D", "1e-3");
  EXPECT_EQ(*tree.GetDouble("D"), 1e-3);
  EXPECT_EQ(tree.GetDouble("E").status().code(), absl::StatusCode::kNotFound);
  for (const char* text : {"", "x", "1.0x", " 1", "inf", "-inf", "nan", "1e999", "0x10"}) {
    tree.Set("D", text);
    EXPECT_EQ(tree.GetDouble("D").status().code(), absl::StatusCode::kDataLoss) << text;
  }
  EXPECT_DEATH(tree.SetDouble("D", std::numeric_limits<double>::infinity()), "check failed");
}

TEST(TreeTest, SameAsComparesAsMaps) {
  Tree a, b;
  a.Set("A", "1");
  a.Set("B", "2");
  b.Set("B", "2");
  b.Set("A", "1");
  EXPECT_NE(Print(a), Print(b));
  EXPECT_TRUE(a.SameAs(b));
  b.At("A").At("more");
  EXPECT_FALSE(a.SameAs(b));
  EXPECT_FALSE(b.SameAs(a));
}

TEST(TreeTest, ACopyIsIndependentAndAMovedFromTreeIsEmpty) {
  Tree tree;
  for (int i = 0; i < 200; ++i) tree.Set(std::to_string(i), "x");
  Tree copy = tree;
  copy.Set("7", "y");
  copy.Erase("8");
  EXPECT_EQ(tree.Get("7"), "x");
  EXPECT_EQ(tree.Get("8"), "x");
  Tree moved = std::move(copy);
  EXPECT_EQ(moved.Get("7"), "y");
  EXPECT_EQ(moved.size(), 199u);
  EXPECT_TRUE(copy.empty());  // NOLINT(bugprone-use-after-move): what the header says of moving
  copy.Set("new", "1");
  EXPECT_EQ(copy.Get("new"), "1");
}

TEST(TreeTest, ATreeMayBeReplacedByItsOwnChild) {
  Tree tree;
  tree.At("A").At("B").Set("C", "1");
  tree = *tree.FindPath({"A", "B"});
  EXPECT_EQ(Print(tree), "  C\n    1\n");
}

TEST(TreeTest, ScalarsAreWrittenAsTextAndReadBack) {
  Tree tree;
  tree.SetInt("INT", -2147483648);
  tree.SetInt("I64", -9007199254740993);
  tree.Set("ULONG", std::numeric_limits<std::uint64_t>::max());
  tree.Set("STR", "hello world");
  tree.SetBool("YES", true);
  tree.SetBool("NO", false);
  tree.SetCrc32("CRC", 0x1b39e4e4);
  tree.SetCrc32("CRC_SHORT", 0xab);
  tree.SetCrc32("CRC0", 0);
  EXPECT_EQ(tree.Get("INT"), "-2147483648");
  EXPECT_EQ(tree.Get("ULONG"), "18446744073709551615");
  EXPECT_EQ(tree.Get("CRC"), "0x1b39e4e4");
  EXPECT_EQ(tree.Get("CRC_SHORT"), "0xab");
  EXPECT_EQ(tree.Get("CRC0"), "0");
  EXPECT_EQ(*tree.GetInt("INT"), -2147483648);
  EXPECT_EQ(*tree.GetInt("I64"), -9007199254740993);
  EXPECT_EQ(*tree.GetUnsigned("ULONG"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(*tree.GetString("STR"), "hello world");
  EXPECT_TRUE(*tree.GetBool("YES"));
  EXPECT_FALSE(*tree.GetBool("NO"));
  EXPECT_EQ(*tree.GetCrc32("CRC"), 0x1b39e4e4u);
  EXPECT_EQ(*tree.GetCrc32("CRC_SHORT"), 0xabu);
  EXPECT_EQ(*tree.GetCrc32("CRC0"), 0u);
}

TEST(TreeTest, AMissingValueIsNotFound) {
  Tree tree;
  tree.SetEmpty("EMPTY");
  for (const char* key : {"EMPTY", "MISSING"}) {
    EXPECT_FALSE(tree.Get(key).has_value());
    EXPECT_EQ(tree.GetString(key).status().code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(tree.GetUnsigned(key).status().code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(tree.GetInt(key).status().code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(tree.GetBool(key).status().code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(tree.GetCrc32(key).status().code(), absl::StatusCode::kNotFound);
  }
}

TEST(TreeTest, TextThatIsNoNumberIsDataLossAndNamed) {
  Tree tree;
  for (const char* text : {"", "x", "1x", " 1", "1 ", "+1", "1.5", "18446744073709551616", "-"}) {
    tree.Set("SIZE", text);
    const absl::Status status = tree.GetUnsigned("SIZE").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_NE(status.ToString().find("SIZE is '" + std::string(text) + "'"), std::string::npos) << status;
    EXPECT_EQ(tree.GetBool("SIZE").status().code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_EQ(tree.GetCrc32("SIZE").status().code(), absl::StatusCode::kDataLoss) << text;
  }
  for (const char* text : {"-1", "9223372036854775808"}) {
    tree.Set("N", text);
    EXPECT_NE(tree.GetUnsigned("N").ok(), tree.GetInt("N").ok()) << text;
  }
  for (const char* text : {"0x", "0x123456789", "0x-1", "0xg", "1b39e4e4"}) {
    tree.Set("CRC", text);
    EXPECT_EQ(tree.GetCrc32("CRC").status().code(), absl::StatusCode::kDataLoss) << text;
  }
}

TEST(TreeTest, ForeignTextInErrorsIsShortAndOnOneLine) {
  Tree tree;
  tree.Set("SIZE", "line\nbreak\x1b[31m");
  EXPECT_NE(tree.GetUnsigned("SIZE").status().ToString().find("SIZE is 'line?break?[31m'"), std::string::npos);
  tree.Set("SIZE", std::string(1 << 20, 'x'));
  EXPECT_LT(tree.GetUnsigned("SIZE").status().ToString().size(), 400u);
}

// A list in file order, searched from end to end.
class Model {
 public:
  void At(const std::string& key) {
    if (Find(key) == keys_.end()) keys_.insert(keys_.begin(), key);
  }
  void SetEmpty(const std::string& key) {
    Erase(key);
    keys_.insert(keys_.begin(), key);
  }
  bool Erase(const std::string& key) {
    const auto at = Find(key);
    if (at == keys_.end()) return false;
    keys_.erase(at);
    return true;
  }
  bool Has(const std::string& key) { return Find(key) != keys_.end(); }
  const Keys& keys() const { return keys_; }

 private:
  Keys::iterator Find(const std::string& key) { return std::find(keys_.begin(), keys_.end(), key); }
  Keys keys_;
};

TEST(TreeTest, AWideLevelBehavesAsAPlainList) {
  const char* given = std::getenv("CAIRN_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device()();
  SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const int width : {8, 40, 300}) {  // never indexed, around the border, always
    Tree tree;
    Model model;
    for (int i = 0; i < 3000; ++i) {
      const std::string key = "key " + std::to_string(random() % width);
      switch (random() % 5) {
        case 0:
          ASSERT_EQ(tree.Erase(key), model.Erase(key));
          break;
        case 1:
          tree.SetEmpty(key);
          model.SetEmpty(key);
          break;
        case 2:
          ASSERT_EQ(tree.Find(key) != nullptr, model.Has(key));
          break;
        default:
          tree.At(key);
          model.At(key);
      }
      ASSERT_EQ(KeysOf(tree), model.keys());
    }
    for (const std::string& key : Keys(model.keys())) ASSERT_TRUE(tree.Erase(key));
    ASSERT_TRUE(tree.empty());
  }
}

}  // namespace
}  // namespace cairn::kvtree
