#include "storage/io/once_frame.h"

#include <gtest/gtest.h>

#include "storage/base/path.h"

namespace cairn {
namespace {

TEST(OnceFrameTest, AFrameHoldsAnyContent) {
  for (const std::string& content : {std::string(), std::string("text"), std::string(3, '\0'), Frame("inner", true)}) {
    for (const bool synced : {true, false}) {
      const std::string file = Frame(content, synced);
      EXPECT_EQ(StateOfFrame(file), FrameState::kWhole);
      EXPECT_EQ(file.substr(kFrameBytes), content);
    }
  }
}

TEST(OnceFrameTest, ATornFrameIsIncompleteAndADamagedOneIsNot) {
  for (const bool synced : {true, false}) {
    const std::string whole = Frame("the content of a record", synced);
    for (std::size_t n = 1; n < whole.size(); ++n) {
      const FrameState state = StateOfFrame(whole.substr(0, n));
      EXPECT_EQ(state, synced && n >= kFrameBytes ? FrameState::kDamaged : FrameState::kIncomplete) << "cut at " << n;
    }
    EXPECT_EQ(StateOfFrame(whole + "x"), synced ? FrameState::kDamaged : FrameState::kIncomplete);
    std::string zeros = whole;
    zeros.replace(kFrameBytes, std::string::npos, whole.size() - kFrameBytes, '\0');
    EXPECT_EQ(StateOfFrame(zeros), synced ? FrameState::kDamaged : FrameState::kIncomplete);
  }
}

TEST(OnceFrameTest, NoBitFlipGoesUnseenOrMakesASyncedFrameIncomplete) {
  const std::string whole = Frame("content", /*synced=*/true);
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    // Without its magic it is plain, and then the decoder of the content refuses it.
    EXPECT_EQ(StateOfFrame(damaged), bit < 16 * 8 ? FrameState::kPlain : FrameState::kDamaged) << "bit " << bit;
  }
}

TEST(OnceFrameTest, WhatCouldBeTakenForAFrameOrForALeftoverIsNeverPlain) {
  const std::string frame = Frame("x", true), zeros(kFrameBytes, '\0');
  for (const std::string& content :
       {std::string(), zeros.substr(0, 1), zeros, zeros + "text", frame, frame.substr(0, 1)}) {
    EXPECT_FALSE(MayBePlain(content));
  }
  for (const std::string& content : {std::string("text"), zeros.substr(1) + "t", frame.substr(1)}) {
    EXPECT_TRUE(MayBePlain(content));
    EXPECT_EQ(StateOfFrame(content), FrameState::kPlain);
    EXPECT_FALSE(IsLeftover(content));
  }
  EXPECT_EQ(StateOfFrame(""), FrameState::kPlain);
  EXPECT_TRUE(IsLeftover(""));
  EXPECT_TRUE(IsLeftover(zeros + "text"));
}

TEST(OnceFrameTest, WorkNamesBelongToOneRecord) {
  for (const std::string& name : {std::string("a"), std::string(235, 'n'), std::string(255, 'n')}) {
    const std::string work = OnceWorkName("/d/" + name);
    EXPECT_TRUE(IsWorkName(BaseOf(work)));
    EXPECT_LE(BaseOf(work).size(), 255u);
    EXPECT_TRUE(BaseOf(work).starts_with(OnceWorkStem("/d/" + name))) << work;
    EXPECT_EQ(BaseOf(work).size(), OnceWorkStem("/d/" + name).size() + 16);
  }
  EXPECT_FALSE(BaseOf(WorkName("/d/a")).starts_with(OnceWorkStem("/d/a"))) << "ReplaceFile makes no claims";
  EXPECT_FALSE(BaseOf(OnceWorkName("/d/ab")).starts_with(OnceWorkStem("/d/a")));
}

}  // namespace
}  // namespace cairn
