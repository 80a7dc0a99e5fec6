// Frames are sent again until they are heard: daemon/relay/numbered_frames.h.
#include "daemon/relay/numbered_frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

peer::Carried OfBytes(std::size_t bytes) {
  peer::Carried carried;
  carried.mutable_to_home()->mutable_failed()->set_why(std::string(bytes, 'x'));
  return carried;
}
peer::Carried Heard(std::uint64_t heard) {
  peer::Carried carried;
  carried.set_heard(heard);
  return carried;
}
std::vector<std::uint64_t> Gone(NumberedFrames& frames) {
  std::vector<std::uint64_t> numbers;
  while (const auto next = frames.Next()) numbers.push_back(next->number());
  return numbers;
}

TEST(NumberedFramesTest, NoMoreGoesThanTheWindowUntilTheOtherEndHasHeard) {
  NumberedFrames frames;
  for (int i = 0; i < 4; ++i) frames.Put(OfBytes(100'000));
  EXPECT_THAT(Gone(frames), ElementsAre(1, 2));
  EXPECT_EQ(frames.Take(Heard(1)), NumberedFrames::Came::kKnown);
  EXPECT_THAT(Gone(frames), ElementsAre(3));
  frames.Take(Heard(3));
  EXPECT_THAT(Gone(frames), ElementsAre(4));
  frames.Take(Heard(4));
  EXPECT_EQ(frames.bytes_kept(), 0u);
}

// Else it would wait for a word that the other end has no reason to say.
TEST(NumberedFramesTest, ALargeFrameDoesNotWaitForASmallOneToBeHeard) {
  NumberedFrames frames;
  frames.Put(OfBytes(10));
  frames.Put(OfBytes(3'000'000));
  EXPECT_THAT(Gone(frames), ElementsAre(1, 2));
}

TEST(NumberedFramesTest, OneFrameMayAlwaysGo) {
  NumberedFrames frames;
  for (int i = 0; i < 2; ++i) frames.Put(OfBytes(3'000'000));
  EXPECT_THAT(Gone(frames), ElementsAre(1));
  frames.Take(Heard(1));
  EXPECT_THAT(Gone(frames), ElementsAre(2));
}

TEST(NumberedFramesTest, WhatWasNotHeardGoesAgainOnANewWay) {
  NumberedFrames frames;
  for (int i = 0; i < 3; ++i) frames.Put(OfBytes(10));
  EXPECT_THAT(Gone(frames), ElementsAre(1, 2, 3));
  frames.Take(Heard(1));
  EXPECT_THAT(Gone(frames), IsEmpty());
  frames.SendAllAgain();
  EXPECT_THAT(Gone(frames), ElementsAre(2, 3));
}

TEST(NumberedFramesTest, TheRestGoesWhateverTheWindowSays) {
  NumberedFrames frames;
  for (int i = 0; i < 4; ++i) frames.Put(OfBytes(100'000));
  Gone(frames);
  const auto rest = frames.Rest();
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_EQ(rest[0].number(), 3u);
}

TEST(NumberedFramesTest, AFrameIsTakenOnceAndInItsTurn) {
  NumberedFrames from, to;
  std::vector<peer::Carried> sent;
  for (int i = 0; i < 3; ++i) from.Put(OfBytes(10));
  while (const auto next = from.Next()) sent.push_back(*next);
  EXPECT_EQ(to.Take(sent[1]), NumberedFrames::Came::kWrong);
  EXPECT_EQ(to.Take(sent[0]), NumberedFrames::Came::kNew);
  EXPECT_EQ(to.Take(sent[0]), NumberedFrames::Came::kKnown);
  EXPECT_EQ(to.Take(sent[1]), NumberedFrames::Came::kNew);
  EXPECT_EQ(to.heard(), 2u);
}

TEST(NumberedFramesTest, WhoHearsMoreThanWasSentIsWrong) {
  NumberedFrames frames;
  frames.Put(OfBytes(10));
  EXPECT_EQ(frames.Take(Heard(1)), NumberedFrames::Came::kWrong) << "it has not gone";
  Gone(frames);
  EXPECT_EQ(frames.Take(Heard(2)), NumberedFrames::Came::kWrong);
  frames.SendAllAgain();
  EXPECT_EQ(frames.Take(Heard(1)), NumberedFrames::Came::kKnown) << "it had gone another way";
}

TEST(NumberedFramesTest, TheOtherEndIsToldAfterAQuarterOfTheWindow) {
  NumberedFrames from, to;
  std::vector<peer::Carried> sent;
  for (int i = 0; i < 3; ++i) from.Put(OfBytes(NumberedFrames::kTellBytes / 2));
  while (const auto next = from.Next()) sent.push_back(*next);
  to.Take(sent[0]);
  EXPECT_FALSE(to.owes_word());
  to.Take(sent[1]);
  EXPECT_TRUE(to.owes_word());
  to.ToldHeard();
  EXPECT_FALSE(to.owes_word());
}

}  // namespace
}  // namespace cairn
