// Trees as JSON, against the lists of SCR's synthetic files and keys that no text can hold.
#include "storage/format/kvtree/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tests/support/vectors.h"

namespace cairn::kvtree {
namespace {

using nlohmann::json;

TEST(TreeJsonTest, PairsKeepOrderAndEmptyKeys) {
  Tree tree;
  EXPECT_EQ(JsonText(tree), "[]");
  tree.Set("SIZE", "10");
  EXPECT_EQ(JsonText(tree), R"([["SIZE",[["10",[]]]]])");
  tree.Set("", "");
  tree.At("LOCATION").At("CACHE");
  tree.At("LOCATION").At("PFS");
  EXPECT_EQ(JsonText(tree), R"([["LOCATION",[["PFS",[]],["CACHE",[]]]],["",[["",[]]]],["SIZE",[["10",[]]]]])");
}

TEST(TreeJsonTest, WhatATerminalMightObeyIsEscaped) {
  Tree tree;
  tree.At("a\"b\\c\n\t\x1b[31m\x7f\xc2\x9b\xc2\xa0/\xc3\xa4");
  EXPECT_EQ(JsonText(tree), "[[\"a\\\"b\\\\c\\u000a\\u0009\\u001b[31m\\u007f\\u009b\xc2\xa0/\xc3\xa4\",[]]]");
  EXPECT_EQ(json::parse(JsonText(tree))[0][0], tree.elements().front().first);
}

TEST(TreeJsonTest, KeysThatAreNoTextAreHex) {
  const std::pair<std::string, std::string> keys[] = {
      {"\xff", "hex:ff"},
      {"a\x80", "hex:6180"},
      {"\xc0\xaf", "hex:c0af"},                  // longer than need be
      {"\xe0\x80\xaf", "hex:e080af"},            //
      {"\xed\xa0\x80", "hex:eda080"},            // half of a pair of UTF-16
      {"\xf4\x90\x80\x80", "hex:f4908080"},      // beyond the last character
      {"\xf5\x80\x80\x80", "hex:f5808080"},      //
      {"\xe2\x82", "hex:e282"},                  // cut
      {"hex:ff", "hex:6865783a6666"},            // else it could be taken for the first
      {"\xe2\x82\xac", "\xe2\x82\xac"},          // €
      {"\xf0\x9f\xaa\xa8", "\xf0\x9f\xaa\xa8"},  // U+1FAA8
      {"HEX:", "HEX:"},
      {"", ""},
  };
  for (const auto& [key, text] : keys) {
    EXPECT_EQ(KeyText(key), text);
    Tree tree;
    tree.At(key);
    EXPECT_EQ(json::parse(JsonText(tree))[0][0], text);
  }
}

TEST(TreeJsonVectorTest, SyntheticFilesAreWhatTheirListsSay) {
  const auto folder = testing::VectorsPath("scr");
  if (!folder) return;
  int compared = 0;
  const json listed = json::parse(testing::ReadVector(*folder + "/kvtree/scenario.json"));
  for (const json& file : listed.at("files")) {
    if (!file.at("kvtree").contains("tree")) continue;
    const std::string path = file.at("path");
    const auto tree = Decode(path, testing::ReadVector(*folder + "/" + path));
    ASSERT_TRUE(tree.ok()) << tree.status();
    EXPECT_EQ(json::parse(JsonText(*tree)), file["kvtree"]["tree"]) << path;
    ++compared;
  }
  EXPECT_EQ(compared, 12);
}

}  // namespace
}  // namespace cairn::kvtree
