// Rows of pieces, fills, cairn_read and observers, against a daemon played by the test.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/client/fake_daemon.h"

namespace cairn {
namespace {

constexpr std::uint64_t kImageBytes = 2 << 20;

bool Says(const cairn_session* session, const std::string& text) {
  return std::string(cairn_error(session)).find(text) != std::string::npos;
}

struct Row {
  std::uint64_t variable_offset, image_offset, bytes, rows, variable_stride, image_stride;
};

local::Plan PlanOf(const std::vector<Row>& rows) {
  local::Plan plan;
  for (const Row& row : rows) {
    plan.add_variable(0);
    plan.add_variable_offset(row.variable_offset);
    plan.add_image_offset(row.image_offset);
    plan.add_bytes(row.bytes);
    plan.add_rows(row.rows);
    plan.add_variable_stride(row.variable_stride);
    plan.add_image_stride(row.image_stride);
  }
  plan.set_doorbell_bytes(1 << 20);
  return plan;
}

// A box of 6 x 5 bytes inside 8 x 9, in an array of 20 x 20.
class RowsTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kShape[] = {20, 20}, kStart[] = {3, 4}, kCount[] = {6, 5}, kMemory[] = {8, 9},
                                 kInside[] = {1, 2};

  RowsTest() : image_(5, kImageBytes), data_(8 * 9, 0xEE) {
    std::iota(image_.bytes().begin(), image_.bytes().end(), std::uint8_t{0});
  }
  ~RowsTest() override {
    daemon_.Join();
    cairn_close(session_);
  }
  void Open(std::function<void(FakePeer&)> script) {
    daemon_.PlayPeer(std::move(script));
    session_ = OpenOrDie(daemon_.options());
    ASSERT_EQ(
        cairn_protect_array(session_, 3, "u", data_.data(), CAIRN_UINT8, 2, kShape, kStart, kCount, kMemory, kInside),
        CAIRN_OK);
  }
  void Answer(FakePeer& peer, const local::Request& request, const local::Plan& plan) {
    local::Reply reply;
    image_.Describe(reply.mutable_restore()->mutable_image(), true);
    *reply.mutable_restore()->mutable_plan() = plan;
    peer.Answer(request, std::move(reply), image_.fd());
  }
  static void Finish(FakePeer& peer, const local::Request& request, std::uint64_t pieces) {
    local::Reply ready;
    ready.mutable_ready()->set_pieces(pieces);
    peer.Answer(request, std::move(ready));
    while (peer.told() < pieces) {
      if (!peer.Receive()) return;
    }
    local::Reply end;
    end.mutable_restore_end()->set_tier(local::TIER_CACHE);
    peer.Answer(request, std::move(end));
  }
  // Where packed byte i of the box is in memory.
  std::uint8_t& At(std::uint64_t i) { return data_[(1 + i / 5) * 9 + 2 + i % 5]; }
  void ExpectGhostsUntouched() {
    for (std::uint64_t i = 0; i < data_.size(); ++i) {
      const std::uint64_t row = i / 9, column = i % 9;
      const bool inside = row >= 1 && row < 7 && column >= 2 && column < 7;
      EXPECT_TRUE(inside || data_[i] == 0xEE) << i;
    }
  }

  FakeDaemon daemon_;
  FakeImage image_;
  std::vector<std::uint8_t> data_;
  cairn_session* session_ = nullptr;
};

TEST_F(RowsTest, GoToTheirPlacesBetweenGhostCells) {
  Open([this](FakePeer& peer) {
    const local::Request restore = peer.Expect(local::Request::kRestore);
    // Columns 0 to 2 of all rows; columns 3 and 4 of rows 0, 2, 4 and of rows 1, 3, 5, bytewise.
    Answer(peer, restore,
           PlanOf({{0, 0, 3, 6, 5, 10}, {3, 100, 2, 3, 10, 2}, {8, 200, 1, 3, 10, 7}, {9, 201, 1, 3, 10, 7}}));
    Finish(peer, restore, 4);
  });
  ASSERT_EQ(cairn_restore(session_, 12), CAIRN_OK) << cairn_error(session_);
  for (std::uint64_t row = 0; row < 6; ++row) {
    for (std::uint64_t column = 0; column < 3; ++column) EXPECT_EQ(At(5 * row + column), 10 * row + column);
    for (std::uint64_t column = 3; column < 5; ++column) {
      const std::uint64_t from = row % 2 == 0 ? 100 + row + column - 3 : 200 + row / 2 * 7 + column - 3;
      EXPECT_EQ(At(5 * row + column), from) << row << ", " << column;
    }
  }
  ExpectGhostsUntouched();
}

TEST_F(RowsTest, RowsThatGoOverTheEndOfTheBoxsRowsComeToo) {
  Open([this](FakePeer& peer) {
    const local::Request restore = peer.Expect(local::Request::kRestore);
    Answer(peer, restore, PlanOf({{0, 0, 7, 4, 7, 11}, {28, 50, 2, 1, 0, 0}}));
    Finish(peer, restore, 2);
  });
  ASSERT_EQ(cairn_restore(session_, 12), CAIRN_OK) << cairn_error(session_);
  for (std::uint64_t i = 0; i < 30; ++i) EXPECT_EQ(At(i), i < 28 ? i / 7 * 11 + i % 7 : 50 + i - 28) << i;
  ExpectGhostsUntouched();
}

TEST_F(RowsTest, PlansThatLeaveVariableOrImageAreRefused) {
  const std::uint64_t huge = std::uint64_t{1} << 63;
  const std::vector<local::Plan> hostile = {
      PlanOf({{0, 0, 5, 7, 5, 5}}),            // one row too many
      PlanOf({{1, 0, 5, 6, 5, 5}}),            // one byte too far
      PlanOf({{0, 0, 5, 0, 5, 5}}),            // no rows
      PlanOf({{0, 0, 5, 6, 4, 5}}),            // rows that overlap in the variable
      PlanOf({{0, 0, 5, 6, 5, 4}}),            // in the image
      PlanOf({{0, 0, 5, 6, 5, kImageBytes}}),  // beyond the image
      PlanOf({{0, kImageBytes, 5, 6, 5, 5}}),  //
      PlanOf({{0, 0, 5, 3, huge, 5}}),         // 2 * huge wraps to 0
      PlanOf({{0, 0, 5, 3, 5, huge}}),         //
      PlanOf({{0, 0, 5, ~0ull, 5, 5}}),        // rows * stride wraps
      PlanOf({{~0ull - 4, 0, 5, 6, 5, 5}}),    //
      PlanOf({{0, ~0ull - 4, 5, 6, 5, 5}}),    //
      PlanOf({{0, 0, 5, 5, 5, 5}}),            // not all bytes
      PlanOf({{0, 0, 0, 6, 5, 5}}),            // nothing in a row
  };
  for (std::size_t i = 0; i < hostile.size(); ++i) {
    Open([&](FakePeer& peer) { Answer(peer, peer.Expect(local::Request::kRestore), hostile[i]); });
    EXPECT_EQ(cairn_restore(session_, 12), CAIRN_INTERNAL) << i;
    EXPECT_TRUE(Says(session_, "plan")) << cairn_error(session_);
    EXPECT_EQ(data_, std::vector<std::uint8_t>(data_.size(), 0xEE)) << i;
    daemon_.Join();
    cairn_close(std::exchange(session_, nullptr));
  }
}

TEST_F(RowsTest, ColumnsOfOtherLengthsAreRefused) {
  local::Plan short_rows = PlanOf({{0, 0, 15, 1, 0, 0}, {15, 0, 15, 1, 0, 0}});
  short_rows.mutable_rows()->RemoveLast();
  local::Plan no_strides = PlanOf({{0, 0, 5, 6, 5, 5}});
  no_strides.clear_image_stride();
  local::Plan no_rows = PlanOf({{0, 0, 5, 6, 5, 5}});
  no_rows.clear_rows();
  for (const local::Plan& plan : {short_rows, no_strides, no_rows}) {
    Open([&](FakePeer& peer) { Answer(peer, peer.Expect(local::Request::kRestore), plan); });
    EXPECT_EQ(cairn_restore(session_, 12), CAIRN_INTERNAL);
    daemon_.Join();
    cairn_close(std::exchange(session_, nullptr));
  }
}

TEST_F(RowsTest, ACheckpointsPlanHasNoRows) {
  Open([this](FakePeer& peer) {
    const local::Request begin = peer.Expect(local::Request::kBegin);
    local::Reply reply;
    reply.mutable_begin()->set_dataset(4);
    image_.Describe(reply.mutable_begin()->mutable_image(), true);
    *reply.mutable_begin()->mutable_plan() = PlanOf({{0, 0, 5, 6, 5, 5}});
    peer.Answer(begin, std::move(reply), image_.fd());
  });
  EXPECT_EQ(cairn_checkpoint(session_, 1, nullptr), CAIRN_INTERNAL);
}

// --- Fills ---

TEST_F(RowsTest, HolesAreFilledWithWhatWasSet) {
  Open([this](FakePeer& peer) {
    for (const bool holes : {true, false}) {
      const local::Request restore = peer.Expect(local::Request::kRestore);
      EXPECT_EQ(restore.restore().variables(0).holes(), holes);
      Answer(peer, restore, PlanOf({{0, 0, 5, 2, 5, 5}}));  // 10 of 30 bytes
      if (holes) Finish(peer, restore, 1);
    }
  });
  const std::uint8_t fill = 99;
  ASSERT_EQ(cairn_set_fill(session_, "u", CAIRN_UINT8, &fill), CAIRN_OK);
  ASSERT_EQ(cairn_restore(session_, 12), CAIRN_OK) << cairn_error(session_);
  for (std::uint64_t i = 0; i < 30; ++i) EXPECT_EQ(At(i), i < 10 ? i : 99) << i;
  ExpectGhostsUntouched();
  ASSERT_EQ(cairn_set_fill(session_, "u", CAIRN_UINT8, nullptr), CAIRN_OK);
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_INTERNAL) << "bytes that the plan forgets";
}

TEST_F(RowsTest, AFillIsChecked) {
  Open([](FakePeer&) {});
  const double fill = 1;
  EXPECT_EQ(cairn_set_fill(session_, nullptr, CAIRN_DOUBLE, &fill), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_set_fill(session_, "", CAIRN_DOUBLE, &fill), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_set_fill(session_, "u", 77, &fill), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_set_fill(session_, "none", CAIRN_DOUBLE, nullptr), CAIRN_OK);
  EXPECT_EQ(cairn_set_fill(session_, "u", CAIRN_DOUBLE, &fill), CAIRN_OK);
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_FAILED_PRECONDITION);
  EXPECT_TRUE(Says(session_, "its fill type 10")) << cairn_error(session_);
}

// --- cairn_read ---

class ReadTest : public RowsTest {
 protected:
  static void AnswerStored(FakePeer& peer) {
    const local::Request stored = peer.Expect(local::Request::kStored);
    local::Reply reply;
    local::Variable& array = *reply.mutable_stored()->add_variables();
    array.set_id(3);
    array.set_kind(local::ARRAY);
    array.set_type(CAIRN_UINT8);
    array.set_name("u");
    for (int d = 0; d < 2; ++d) {
      array.add_shape(20);
      array.add_box_start(0);
      array.add_box_count(0);
    }
    local::Variable& plain = *reply.mutable_stored()->add_variables();
    plain.set_id(4);
    plain.set_type(CAIRN_UINT8);
    plain.set_count(7);
    peer.Answer(stored, std::move(reply));
  }
};

TEST_F(ReadTest, PacksTheSelectionAndStaysWithinIt) {
  Open([this](FakePeer& peer) {
    AnswerStored(peer);
    const local::Request read = peer.Expect(local::Request::kRead);
    EXPECT_EQ(read.read().dataset(), 12u);
    EXPECT_EQ(read.read().name(), "u");
    EXPECT_EQ(read.read().type(), static_cast<std::uint32_t>(CAIRN_UINT8));
    EXPECT_EQ(read.read().start(1), 4u);
    EXPECT_EQ(read.read().count(0), 6u);
    EXPECT_FALSE(read.read().holes());
    Answer(peer, read, PlanOf({{0, 0, 5, 6, 5, 20}}));
    Finish(peer, read, 1);
    const local::Request again = peer.Expect(local::Request::kRead);
    local::Reply reply;
    image_.Describe(reply.mutable_restore()->mutable_image(), false);
    *reply.mutable_restore()->mutable_plan() = PlanOf({{0, 0, 5, 7, 5, 20}});
    peer.Answer(again, std::move(reply));
  });
  std::vector<std::uint8_t> out(31, 0xEE);
  ASSERT_EQ(cairn_read(session_, 12, "u", kStart, kCount, out.data()), CAIRN_OK) << cairn_error(session_);
  for (std::uint64_t i = 0; i < 30; ++i) EXPECT_EQ(out[i], i / 5 * 20 + i % 5);
  EXPECT_EQ(out[30], 0xEE);
  EXPECT_EQ(cairn_read(session_, 12, "u", kStart, kCount, out.data()), CAIRN_INTERNAL) << "a plan that leaves it";
  EXPECT_EQ(out[30], 0xEE);
}

TEST_F(ReadTest, WhatIsWrongIsSaidBeforeTheDaemonIsAsked) {
  Open([](FakePeer& peer) {
    AnswerStored(peer);
    peer.Refuse(peer.Expect(local::Request::kRead), local::NOT_FOUND, "no such name");
  });
  std::uint8_t out[400];
  const std::uint64_t beyond[] = {20, 17};
  EXPECT_EQ(cairn_read(session_, 12, nullptr, kStart, kCount, out), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_read(session_, 12, "u", kStart, beyond, out), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_read(session_, 12, "u", nullptr, nullptr, out), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_read(session_, 12, "u", kStart, nullptr, out), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_read(session_, 12, "u", kStart, kCount, nullptr), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_read(session_, 12, "none", kStart, kCount, out), CAIRN_NOT_FOUND);
  EXPECT_TRUE(Says(session_, "no such name"));
}

// --- Observers ---

class ObserverTest : public testing::Test {
 protected:
  FakeDaemon daemon_;
};

TEST_F(ObserverTest, OpensWithoutLaunchAndComesBackAfterABreak) {
  daemon_.Play([this] {
    for (int i = 0; i < 2; ++i) {
      FakePeer peer = daemon_.Accept();
      const local::Open open = peer.Greet(0);
      EXPECT_TRUE(open.observer());
      EXPECT_TRUE(open.launch_key().empty());
      EXPECT_EQ(open.nranks(), 0u);
      const local::Request latest = peer.Expect(local::Request::kLatest);
      if (i == 0) continue;  // the connection breaks
      peer.Refuse(latest, local::NOT_FOUND, "nothing");
    }
  });
  cairn_options options = daemon_.options();
  options.observer = 1;
  cairn_session* session = OpenOrDie(options);
  EXPECT_EQ(cairn_latest(session, nullptr, nullptr), CAIRN_NOT_FOUND) << cairn_error(session);
  daemon_.Join();
  cairn_close(session);
}

}  // namespace
}  // namespace cairn
