// FTI's INI files: what FTI and people write is read, within bounds, and what is written is what FTI reads.
#include "storage/file/fti/ini.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/status_matchers.h"
#include "tests/support/vectors.h"

namespace cairn::fti {
namespace {

std::string ValueOf(const Ini& ini, std::string_view section, std::string_view key) {
  const Ini::Entry* const entry = ini.Find(section, key);
  return entry == nullptr ? "(none)" : entry->value;
}

TEST(IniTest, SectionsKeysAndValuesAreRead) {
  ASSERT_OK_AND_ASSIGN(const Ini ini, Ini::Parse("c.fti",
                                                 "; a comment\n[Basic]\nnode_size = 2\n"
                                                 "GROUP_SIZE=4   ; nodes\n  ckpt_dir =  /a b/c  # here\r\n"
                                                 "\n[ restart ]\nexec_id = \" x;y \"\nempty =\n"));
  EXPECT_EQ(ValueOf(ini, "basic", "node_size"), "2");
  EXPECT_EQ(ValueOf(ini, "basic", "group_size"), "4");
  EXPECT_EQ(ValueOf(ini, "basic", "ckpt_dir"), "/a b/c");
  EXPECT_EQ(ValueOf(ini, "restart", "exec_id"), " x;y ");
  EXPECT_EQ(ValueOf(ini, "restart", "empty"), "");
  EXPECT_EQ(ValueOf(ini, "restart", "node_size"), "(none)");
  EXPECT_EQ(ini.Find("basic", "ckpt_dir")->line, 5u);
  EXPECT_TRUE(ini.passed_over().empty());
}

TEST(IniTest, TheLastOfSeveralValuesCounts) {
  ASSERT_OK_AND_ASSIGN(const Ini ini, Ini::Parse("c.fti", "[a]\nk = 1\nk = 2\n[b]\nk = 3\n[A]\nK = 4\n"));
  EXPECT_EQ(ValueOf(ini, "a", "k"), "4");
  EXPECT_EQ(ini.sections().size(), 3u);
}

TEST(IniTest, WhatIsNeitherSectionNorKeyIsPassedOverAndTold) {
  ASSERT_OK_AND_ASSIGN(const Ini ini, Ini::Parse("c.fti", "[a]\nnonsense\n[open\n= 5\nk = v\n"));
  EXPECT_EQ(ini.passed_over(), (std::vector<std::size_t>{2, 3, 4}));
  EXPECT_EQ(ValueOf(ini, "a", "k"), "v");
}

TEST(IniTest, NumbersAreCheckedAndErrorsNameTheLine) {
  ASSERT_OK_AND_ASSIGN(const Ini ini, Ini::Parse("c.fti",
                                                 "[basic]\na = 12\nb = 12x\nc = -1\nd =\ne = 1e9\n"
                                                 "f = 99999999999999999999\n"));
  EXPECT_EQ(*ini.FindNumber("basic", "a", 0, 12), 12);
  EXPECT_EQ(*ini.FindNumber("basic", "d", 0, 12), std::nullopt);
  EXPECT_EQ(*ini.FindNumber("basic", "none", 0, 12), std::nullopt);
  EXPECT_EQ(*ini.FindNumber("basic", "c", -1, 12), -1);
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, ini.FindNumber("basic", "a", 0, 11),
                "c.fti: line 2: a of [basic] is \"12\", not a number from 0 to 11");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, ini.FindNumber("basic", "b", 0, 12), "line 3");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, ini.FindNumber("basic", "c", 0, 12), "line 4");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, ini.FindNumber("basic", "e", 0, 12), "line 6");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, ini.FindNumber("basic", "f", 0, 12), "line 7");
}

TEST(IniTest, BoundsHold) {
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, Ini::Parse("c", std::string(Ini::kBytesMax + 1, '\n')), "bytes");
  EXPECT_OK(Ini::Parse("c", std::string(Ini::kBytesMax, '\n')));
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, Ini::Parse("c", "\nk=" + std::string(Ini::kLineBytesMax, 'v')),
                "line 2 has 4098 bytes");
  std::string many;
  for (std::size_t i = 0; i <= Ini::kEntriesMax; ++i) many += "k=v\n";
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, Ini::Parse("c", many), "262144 sections and keys");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, Ini::Parse("c", std::string("a=b\n\0=\n", 7)), "line 2 is no text");
}

TEST(IniTest, AnyBytesAreReadOrRefused) {
  std::string text = "[basic]\nnode_size = 2\n\"#;=[]'\r\n\t = x\n[[]]\n==\n['\n\"=\"\n'='\nk='\n";
  for (std::size_t n = 0; n <= text.size(); ++n) EXPECT_OK(Ini::Parse("c", std::string_view(text).substr(0, n)));
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = text;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      Ini::Parse("c", flipped).status().IgnoreError();  // must end and stay within bounds
    }
  }
}

TEST(IniTest, WhatIsPrintedIsReadBack) {
  const std::string text =
      PrintIni({{"basic", {{"node_size", "2"}, {"ckpt_dir", "/a b/c"}}}, {"topology", {{"0", "node0"}}}});
  ASSERT_OK_AND_ASSIGN(const Ini ini, Ini::Parse("c", text));
  EXPECT_EQ(ValueOf(ini, "basic", "node_size"), "2");
  EXPECT_EQ(ValueOf(ini, "basic", "ckpt_dir"), "/a b/c");
  EXPECT_EQ(ValueOf(ini, "topology", "0"), "node0");
}

TEST(IniTest, OnlyPlainValuesSurviveFtisReader) {
  for (const char* plain : {"", "/a b/c", "30294f19-fe49-4539", "x=y", "[a]"}) EXPECT_TRUE(IsPlainValue(plain));
  for (const char* other : {" a", "a ", "a;b", "a#b", "a\"b", "a'b", "a\nb", "a\tb"}) EXPECT_FALSE(IsPlainValue(other));
}

TEST(IniTest, TheFormIsThatOfFti) {
  const auto folder = testing::VectorsPath("ftiff/text-samples");
  if (!folder) return;
  const std::string text = testing::ReadVector(*folder + "/Topology.fti");
  EXPECT_NE(text.find(PrintIni({{"topology", {{"0", "node0"}, {"1", "node1"}}}})), std::string::npos);
  ASSERT_OK_AND_ASSIGN(const Ini topology, Ini::Parse("Topology.fti", text));
  EXPECT_EQ(ValueOf(topology, "topology", "1"), "node1");
  ASSERT_OK_AND_ASSIGN(const Ini config,
                       Ini::Parse("config.fti", testing::ReadVector(*folder + "/config-after-run.fti")));
  EXPECT_EQ(*config.FindNumber("basic", "group_size", 1, 100), 2);
  EXPECT_EQ(*config.FindNumber("restart", "failure", 0, 3), 1);
  EXPECT_EQ(ValueOf(config, "restart", "exec_id"), "30294f19-fe49-4539-8008-39da931017ac");
  EXPECT_TRUE(config.passed_over().empty());
}

}  // namespace
}  // namespace cairn::fti
