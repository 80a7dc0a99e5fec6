#include "tests/bench/arguments.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace cairn::bench {
namespace {

struct Options {
  int ranks = 2;
  std::size_t mib = 256;
  std::string config, kind = "small";
  std::vector<int> sizes = {100, 300};
};

Options Read(std::vector<std::string> given) {
  Options options;
  given.insert(given.begin(), "some_bench");
  std::vector<char*> argv;
  for (std::string& one : given) argv.push_back(one.data());
  ReadArguments(static_cast<int>(argv.size()), argv.data(), "What something costs.",
                {{"--ranks N", "processes", Number(options.ranks, 1, 64)},
                 {"small|large", "files", OneOf(options.kind, {"small", "large"})},
                 {"MIB", "of each", Number(options.mib)},
                 {"--config TOML", "settings", Text(options.config)},
                 {"SIZE...", "to try", Numbers(options.sizes)}});
  return options;
}

const auto kRefused = ::testing::ExitedWithCode(2);

TEST(ArgumentsTest, WhatIsNotGivenStaysAsItIs) {
  const Options options = Read({});
  EXPECT_EQ(options.ranks, 2);
  EXPECT_EQ(options.mib, 256u);
  EXPECT_EQ(options.config, "");
  EXPECT_EQ(options.kind, "small");
  EXPECT_EQ(options.sizes, (std::vector<int>{100, 300}));
}

TEST(ArgumentsTest, OptionsComeAnywhereAndOthersInTheirOrder) {
  const Options options = Read({"large", "--ranks", "64", "7", "--config", "[a]\nb = 1", "4,5", "6"});
  EXPECT_EQ(options.kind, "large");
  EXPECT_EQ(options.ranks, 64);
  EXPECT_EQ(options.mib, 7u);
  EXPECT_EQ(options.config, "[a]\nb = 1");
  EXPECT_EQ(options.sizes, (std::vector<int>{4, 5, 6}));
}

TEST(ArgumentsTest, HelpEndsTheProgramWhateverElseIsGiven) {
  EXPECT_EXIT(Read({"--nonsense", "--help"}), ::testing::ExitedWithCode(0), "");
}

TEST(ArgumentsTest, WhatIsNotKnownIsRefused) {
  EXPECT_EXIT(Read({"--rank", "2"}), kRefused, "unknown option --rank");
  EXPECT_EXIT(Read({"-h"}), kRefused, "unknown option -h");
  EXPECT_EXIT(Read({"--ranks"}), kRefused, "--ranks N: its value is missing");
}

TEST(ArgumentsTest, WhatIsNoSuchValueIsRefused) {
  for (const std::string value : {"0", "65", "-1", "2x", "", " 2", "99999999999999999999"}) {
    EXPECT_EXIT(Read({"--ranks", value}), kRefused, "--ranks N: not \"" + value + "\"");
  }
  EXPECT_EXIT(Read({"tiny"}), kRefused, "small.large: not \"tiny\"");
  EXPECT_EXIT(Read({"small", "many"}), kRefused, "MIB: not \"many\"");
  for (const std::string value : {"4,", ",4", "4,,5", "4,x"}) {
    EXPECT_EXIT(Read({"small", "1", value}), kRefused, "SIZE...: not \"" + value + "\"");
  }
}

TEST(ArgumentsTest, MoreThanThereArePlacesForIsRefused) {
  int rounds = 15;
  std::string name = "some_bench", first = "3", second = "4";
  char* argv[] = {name.data(), first.data(), second.data()};
  EXPECT_EXIT(ReadArguments(3, argv, "", {{"ROUNDS", "", Number(rounds)}}), kRefused, "unknown argument 4");
}

}  // namespace
}  // namespace cairn::bench
