// One end of a link, stepped: the strand and gRPC's threads in any order.
#include "daemon/door/peer_link.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "storage/base/check.h"
#include "storage/base/status.h"
#include "tests/daemon/door/peer_node.h"
#include "tests/daemon/trust/members.h"
#include "tests/support/status_matchers.h"
#include "tests/support/stepped.h"

namespace cairn {
namespace {

using testing::FrameOf;
using testing::TextOf;

// gRPC's stream as a thing that keeps its rules and checks that the end keeps its own: one read and one write at a
// time, nothing after the end of either.
class FakeStream final : public LinkEnd::Stream {
 public:
  explicit FakeStream(bool answers) : answers_(answers) {}
  void Read(peer::Frame* frame) override {
    CAIRN_CHECK(reading == nullptr && !read_ended && !(answers_ && write_ended));
    reading = frame;
  }
  void Write(const peer::Frame* frame) override {
    CAIRN_CHECK(writing == nullptr && !write_ended);
    writing = frame;
  }
  bool EndWriting() override {
    CAIRN_CHECK(writing == nullptr && !write_ended);
    write_ended = true;
    return !answers_;
  }
  void Cancel() override { cancelled = true; }
  void EndReading() override {
    CAIRN_CHECK(!read_ended);
    read_ended = true;
  }

  peer::Frame* reading = nullptr;
  const peer::Frame* writing = nullptr;
  bool read_ended = false, write_ended = false, cancelled = false;

 private:
  const bool answers_;
};

class PeerLinkTest : public ::testing::Test {
 protected:
  ~PeerLinkTest() override { link_.reset(); }  // it tells what is below

  void Make(bool answers = false, std::uint64_t seed = 1) {
    loop_.reset();  // it takes leave of its stepper
    stepper_ = std::make_unique<Stepper>(seed);
    loop_ = std::make_unique<SteppedLoop>(*stepper_);
    strand_ = std::make_shared<Outlet>([this](Outlet::Job job) { loop_->Post(std::move(job)); });
    end_ = std::make_shared<LinkEnd>(LinkEnd::Plan{.peer = testing::MemberOf(testing::RunOf(1), 7),
                                                   .strand = strand_,
                                                   .end_within = [this](auto time) { end_within_.push_back(time); },
                                                   .drain = std::chrono::milliseconds(2000),
                                                   .frame_bytes_max = 1000,
                                                   .queue_bytes_max = 3000});
    stream_ = std::make_unique<FakeStream>(answers);
    link_ = LinkEnd::Own(end_);
    got_.clear();
    closed_.reset();
    end_within_.clear();
  }
  void Start() {
    link_->Start({.on_frame = [this](const peer::Frame& frame) { got_.push_back(TextOf(frame)); },
                  .on_closed =
                      [this](const absl::Status& why) {
                        EXPECT_FALSE(closed_.has_value()) << "told twice";
                        closed_ = why;
                      }});
  }
  void Comes(const std::string& text) {
    ASSERT_NE(stream_->reading, nullptr);
    *std::exchange(stream_->reading, nullptr) = FrameOf(text);
    end_->ReadDone(true);
  }
  void ReadFails() {
    if (std::exchange(stream_->reading, nullptr) != nullptr) end_->ReadDone(false);
  }
  std::string Goes() {
    CAIRN_CHECK(stream_->writing != nullptr);
    std::string text = TextOf(*std::exchange(stream_->writing, nullptr));
    end_->WriteDone(true);
    return text;
  }

  std::unique_ptr<Stepper> stepper_;
  std::unique_ptr<SteppedLoop> loop_;
  std::shared_ptr<Outlet> strand_;
  std::unique_ptr<FakeStream> stream_;
  std::shared_ptr<LinkEnd> end_;
  std::unique_ptr<PeerLink> link_;
  std::vector<std::string> got_;
  std::optional<absl::Status> closed_;
  std::vector<std::chrono::milliseconds> end_within_;
};

TEST_F(PeerLinkTest, TheNextIsReadOnceTheLastWasDelivered) {
  Make();
  Start();
  end_->Begin(stream_.get());
  Comes("one");
  EXPECT_EQ(stream_->reading, nullptr) << "a slow owner slows the peer";
  stepper_->Run();
  EXPECT_EQ(got_, std::vector<std::string>{"one"});
  EXPECT_NE(stream_->reading, nullptr);
}

TEST_F(PeerLinkTest, NoCallbackRunsInsideACall) {
  Make();
  end_->Begin(stream_.get());
  Comes("one");
  stepper_->Run();
  EXPECT_EQ(stream_->reading, nullptr) << "not started: one frame is kept, and no more";
  ReadFails();
  Start();
  EXPECT_TRUE(got_.empty());
  stepper_->Run();
  EXPECT_EQ(got_, std::vector<std::string>{"one"});
}

TEST_F(PeerLinkTest, WhatTheOwnerDoesBeforeTheStreamBeginsIsKept) {
  Make();
  Start();
  link_->Send(FrameOf("one"));
  link_->Send(FrameOf("two"));
  link_.reset();
  end_->Begin(stream_.get());
  EXPECT_EQ(Goes(), "one");
  EXPECT_FALSE(stream_->write_ended);
  EXPECT_EQ(Goes(), "two");
  EXPECT_TRUE(stream_->write_ended);
}

TEST_F(PeerLinkTest, WhoLetsGoIsNotCalledAnyMoreAndWhatStillComesIsRead) {
  Make();
  Start();
  end_->Begin(stream_.get());
  Comes("one");
  link_.reset();  // with a report on its way
  EXPECT_EQ(end_within_, std::vector{std::chrono::milliseconds(2000)});
  stepper_->Run();
  EXPECT_TRUE(got_.empty());
  for (int i = 0; i < 3; ++i) Comes("more");  // without a step: it goes past the strand
  ReadFails();
  end_->Done(Unavailable("broken"));
  stepper_->Run();
  EXPECT_FALSE(closed_.has_value());
}

TEST_F(PeerLinkTest, AnOwnerMayLetGoInsideAReport) {
  Make();
  link_->Start({.on_frame = [this](const peer::Frame&) { link_.reset(); },
                .on_closed = [](const absl::Status&) { ADD_FAILURE() << "called"; }});
  end_->Begin(stream_.get());
  Comes("one");
  stepper_->Run();
  EXPECT_EQ(link_, nullptr);
  ReadFails();
  end_->Done(Cancelled("over"));
  stepper_->Run();
}

TEST_F(PeerLinkTest, TooMuchThatIsUnreadCostsTheLink) {
  Make();
  Start();
  end_->Begin(stream_.get());
  for (int i = 0; i < 10; ++i) link_->Send(FrameOf(std::string(500, 'x')));
  EXPECT_TRUE(stream_->cancelled);
  EXPECT_EQ(end_within_.front(), std::chrono::milliseconds(0));
  EXPECT_FALSE(stream_->write_ended) << "one write is still with gRPC";
  stream_->writing = nullptr;
  end_->WriteDone(false);
  EXPECT_TRUE(stream_->write_ended);
  ReadFails();
  end_->Done(Unavailable("cancelled"));
  stepper_->Run();
  ASSERT_TRUE(closed_.has_value());
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, *closed_, "more than 3000 bytes unread");
}

TEST_F(PeerLinkTest, AStrandThatIsGoneHoldsNothingUp) {
  Make();
  Start();
  end_->Begin(stream_.get());
  strand_->Close();
  for (int i = 0; i < 3; ++i) Comes("more");
  ReadFails();
  EXPECT_TRUE(stream_->write_ended);
  end_->Done(Unavailable("broken"));
  EXPECT_TRUE(got_.empty());
}

// All orders of what both sides do: the fake stream checks the rules of gRPC, and here that nothing is lost or told
// twice.
TEST_F(PeerLinkTest, AnyOrderKeepsTheRules) {
  const char* const given = std::getenv("CAIRN_TEST_SEED");
  const auto first = given == nullptr ? std::random_device{}() : std::strtoul(given, nullptr, 10);
  for (std::uint64_t seed = first; seed < first + (given == nullptr ? 3000 : 1); ++seed) {
    SCOPED_TRACE(fmt::format("CAIRN_TEST_SEED={}", seed));
    std::mt19937_64 random(seed);
    const bool answers = random() % 2 == 0;
    Make(answers, seed);
    bool begun = false, started = false, broken = false, done = false;
    std::vector<std::string> came, sent, went;
    for (int i = 0; i < 200 && !done; ++i) {
      switch (random() % 9) {
        case 0:
          if (!std::exchange(begun, true)) end_->Begin(stream_.get());
          break;
        case 1:
          if (link_ != nullptr && !std::exchange(started, true)) Start();
          break;
        case 2:
          if (stream_->reading == nullptr || broken) break;
          came.push_back(fmt::format("{}", came.size()));
          Comes(came.back());
          break;
        case 3:
          if (link_ == nullptr) break;
          sent.push_back(fmt::format("{}", sent.size()));
          link_->Send(FrameOf(sent.back()));
          break;
        case 4:
          if (stream_->writing == nullptr) break;
          if (!broken) {
            went.push_back(Goes());
            break;
          }
          stream_->writing = nullptr;
          end_->WriteDone(false);
          break;
        case 5:
          if (random() % 20 == 0) link_.reset();
          break;
        case 6:
          if (!begun || random() % 20 != 0) break;
          broken = true;
          if (answers) end_->Broken();
          break;
        case 7:
          broken = broken || stream_->cancelled;
          if (broken || (answers && stream_->write_ended)) ReadFails();
          // As gRPC: its last word comes when nothing is under way, and no more is to be asked for.
          done = begun && stream_->reading == nullptr && stream_->writing == nullptr &&
                 (answers ? stream_->write_ended : stream_->read_ended);
          break;
        default:
          stepper_->Step();
      }
    }
    if (done) end_->Done(Unavailable("over"));
    stepper_->Run();
    for (std::size_t i = 0; i < went.size(); ++i) ASSERT_EQ(went[i], sent[i]);
    ASSERT_LE(got_.size(), came.size());
    for (std::size_t i = 0; i < got_.size(); ++i) ASSERT_EQ(got_[i], came[i]);
    if (link_ != nullptr && started && begun) {
      ASSERT_EQ(got_.size(), came.size());
    }
    ASSERT_EQ(closed_.has_value(), done && started && link_ != nullptr);
    link_.reset();
    end_.reset();
    strand_->Close();
  }
}

}  // namespace
}  // namespace cairn
