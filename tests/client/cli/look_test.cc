#include "client/cli/look.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "client/cli/screen.h"

namespace cairn::cli {
namespace {

Look With(bool terminal, ColourWhen when, const std::map<std::string, std::string>& environment) {
  return LookOf(terminal, when, [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(LookTest, APipeIsPlainUnlessColoursAreAskedFor) {
  const Look pipe = With(false, ColourWhen::kAuto, {{"TERM", "xterm"}, {"LANG", "C.UTF-8"}});
  EXPECT_FALSE(pipe.people || pipe.colours || pipe.redraws);
  const Look asked = With(false, ColourWhen::kAlways, {{"NO_COLOR", "1"}});
  EXPECT_TRUE(asked.people && asked.colours);
  EXPECT_FALSE(asked.redraws) << "there is no window";
}

TEST(LookTest, ATerminalHasColoursUnlessTheEnvironmentForbidsThem) {
  EXPECT_TRUE(With(true, ColourWhen::kAuto, {{"TERM", "xterm"}}).colours);
  EXPECT_TRUE(With(true, ColourWhen::kAuto, {{"TERM", "xterm"}, {"NO_COLOR", ""}}).colours);
  EXPECT_FALSE(With(true, ColourWhen::kAuto, {{"TERM", "xterm"}, {"NO_COLOR", "0"}}).colours);
  EXPECT_FALSE(With(true, ColourWhen::kNever, {{"TERM", "xterm"}}).colours);
  EXPECT_TRUE(With(true, ColourWhen::kNever, {{"TERM", "xterm"}}).people);
  for (const char* term : {"", "dumb"}) {
    const Look dumb = With(true, ColourWhen::kAuto, {{"TERM", term}});
    EXPECT_FALSE(dumb.colours || dumb.redraws);
    EXPECT_TRUE(dumb.people);
  }
}

TEST(LookTest, TheFirstLocaleVariableThatIsSetSaysWhichCharacters) {
  EXPECT_TRUE(With(true, ColourWhen::kAuto, {{"LANG", "de_DE.UTF-8"}}).blocks);
  EXPECT_TRUE(With(true, ColourWhen::kAuto, {{"LC_CTYPE", "C.utf8"}, {"LANG", "C"}}).blocks);
  EXPECT_FALSE(With(true, ColourWhen::kAuto, {{"LC_ALL", "C"}, {"LANG", "C.UTF-8"}}).blocks);
  EXPECT_FALSE(With(true, ColourWhen::kAuto, {}).blocks);
}

TEST(LookTest, PaintAndPicturesFollowIt) {
  EXPECT_EQ(Painted({}, Paint::kBad, "x"), "x");
  EXPECT_EQ(Painted({.colours = true}, Paint::kBad, "x"), "\x1b[1;31mx\x1b[0m");
  EXPECT_EQ(Painted({.colours = true}, Paint::kBad, ""), "");
  EXPECT_EQ(BarPicture({}, 1, 2, 4), "[##..]");
  EXPECT_EQ(BarPicture({.blocks = true}, 1, 2, 4), "██░░");
}

TEST(ScreenTest, EachLineIsClearedAsItIsWrittenOver) {
  EXPECT_EQ(DrawnOver("a\nb\n", 0, 0), "\x1b[Ha\x1b[K\r\nb\x1b[K\x1b[J");
  EXPECT_EQ(DrawnOver("a\nb\n", 2, 80), "\x1b[Ha\x1b[K\r\nb\x1b[K\x1b[J");
  EXPECT_EQ(DrawnOver("", 2, 80), "\x1b[H\x1b[J");
}

TEST(ScreenTest, WhatHasNoPlaceIsCounted) {
  EXPECT_EQ(DrawnOver("a\nb\nc\n", 2, 80), "\x1b[Ha\x1b[K\r\n... 2 lines more\x1b[K\x1b[J");
  EXPECT_EQ(DrawnOver("a\nb\nc\n", 1, 5), "\x1b[H... 3\x1b[K\x1b[J");
}

}  // namespace
}  // namespace cairn::cli
