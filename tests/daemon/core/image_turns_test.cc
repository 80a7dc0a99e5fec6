// A session's images take turns, and the third one, the reserve, makes its waits even: daemon/core/image_store.h.
#include <absl/status/statusor.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/core/call.h"
#include "daemon/core/door.h"
#include "daemon/core/image_store.h"
#include "daemon/data/deposits.h"
#include "daemon/data/image.h"
#include "daemon/data/restore.h"
#include "storage/base/ids.h"
#include "storage/base/unique_fd.h"
#include "tests/daemon/core/by_hand.h"
#include "tests/daemon/core/lasting_deposits.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kBytes = Image::kAlignment;

class NobodyListens final : public Connection {
 public:
  void Send(const local::Reply&, SharedFd) override {}
  void Close() override {}
  bool shares_memory() const override { return true; }
  bool resumable() const override { return false; }
  Peer peer() const override { return {}; }
};

// Holds what two images need, and no more.
class FewDeposits final : public Deposits {
 public:
  absl::StatusOr<UniqueFd> Make(std::uint64_t bytes) override {
    if (left_ == 0) return absl::ResourceExhaustedError("too many");
    --left_;
    return all_.Make(bytes);
  }
  void GiveUp(std::uint64_t inode) override { all_.GiveUp(inode); }
  std::vector<UniqueFd> TakeLeft() override { return {}; }
  void NeedsTime(std::uint64_t /*seconds*/) override {}

 private:
  LastingDeposits all_;
  int left_ = 4;  // an image and a label each
};

class ImageTurnsTest : public ::testing::Test {
 protected:
  explicit ImageTurnsTest(std::shared_ptr<Deposits> deposits = nullptr)
      : by_hand_(nullptr, nullptr, std::move(deposits)) {}

  void StartWith(std::uint64_t images) {
    store_ = std::make_unique<ImageStore>(by_hand_.context, images * kBytes);
    owner_ = store_->NewOwner(RunId(), 0);
  }

  // The application's next checkpoint. What it gets goes to `out_`.
  void Begin() {
    Ask();
    by_hand_.RunAll();
  }
  void Ask() {
    waits_ = true;
    call_ = Call::Make(by_hand_.loop, connection_, 1, std::chrono::hours(10));
    store_->Acquire({.owner = owner_,
                     .call = call_,
                     .bytes = kBytes,
                     .takes_turn = true,
                     .then = [this](absl::StatusOr<std::shared_ptr<Image>> image) {
                       abandoned_ = absl::IsAborted(image.status());
                       if (abandoned_) return;
                       ASSERT_OK(image.status());
                       out_.push_back(*std::move(image));
                       waits_ = false;
                     }});
  }
  void Pass(milliseconds time) {
    by_hand_.Turn(time);
    by_hand_.RunAll();
  }
  // The oldest one that is on its way to the cache is there.
  void Written() {
    GiveBack();
    by_hand_.RunAll();
  }
  void GiveBack() {
    std::shared_ptr<Image> oldest = std::move(out_.front());
    out_.pop_front();
    store_->Release(owner_, std::move(oldest));
  }
  // Two are on their way; each further one waits for so long until one of them is there.
  void GetUsedTo(milliseconds wait) {
    Begin();
    Begin();
    for (int i = 0; i < 40; ++i) {
      Begin();
      Pass(wait);
      Written();
      ASSERT_FALSE(waits_) << i;
    }
  }
  std::uint64_t made() const { return store_->used() / kBytes; }

  ByHand by_hand_;
  const std::shared_ptr<Connection> connection_ = std::make_shared<NobodyListens>();
  std::unique_ptr<ImageStore> store_;
  ImageOwnerPtr owner_;
  std::deque<std::shared_ptr<Image>> out_;
  std::shared_ptr<Call> call_;
  bool waits_ = false;
  bool abandoned_ = false;
};

TEST_F(ImageTurnsTest, TheReserveIsMadeForTheFirstOneThatWaits) {
  StartWith(10);
  Begin();
  Begin();
  EXPECT_EQ(made(), 2u);
  Begin();
  EXPECT_FALSE(waits_);
  EXPECT_EQ(made(), 3u);
  Begin();
  Pass(std::chrono::hours(1));
  EXPECT_TRUE(waits_) << "three are on their way";
  EXPECT_EQ(made(), 3u);
  Written();
  EXPECT_FALSE(waits_);
  EXPECT_EQ(made(), 3u);
}

TEST_F(ImageTurnsTest, OneThatComesBackSoonerIsTakenInPlaceOfTheOneThatIsBeingMade) {
  StartWith(10);
  Begin();
  Ask();
  EXPECT_TRUE(waits_) << "its image is being made";
  GiveBack();
  EXPECT_FALSE(waits_);
  by_hand_.RunAll();
  EXPECT_EQ(made(), 2u);
  Ask();
  EXPECT_FALSE(waits_) << "it was made for the next one";
  EXPECT_EQ(out_.size(), 2u);
  EXPECT_EQ(made(), 2u);
}

TEST_F(ImageTurnsTest, OneThatIsMadeForAnAbandonedCallIsForTheNext) {
  StartWith(10);
  Begin();
  Ask();
  store_->DropWishes(owner_);
  EXPECT_TRUE(abandoned_);
  by_hand_.RunAll();
  EXPECT_EQ(made(), 2u);
  Ask();
  EXPECT_FALSE(waits_);
  EXPECT_EQ(made(), 2u);
}

TEST_F(ImageTurnsTest, OneWaitsForAQuarterLongerThanUsualAndThenGetsTheReserve) {
  StartWith(10);
  GetUsedTo(milliseconds(100));
  Begin();
  Pass(milliseconds(120));
  EXPECT_TRUE(waits_);
  Pass(milliseconds(6));
  EXPECT_FALSE(waits_);
  EXPECT_EQ(out_.size(), 3u);
}

TEST_F(ImageTurnsTest, WhatTheReserveHasLentComesBackOverTheNextOnes) {
  StartWith(10);
  GetUsedTo(milliseconds(100));
  Begin();
  Pass(milliseconds(126));  // the reserve goes
  Begin();
  Pass(milliseconds(100));
  Written();
  EXPECT_TRUE(waits_) << "the reserve would never come back";
  Pass(milliseconds(35));  // what is usual has grown a little
  EXPECT_FALSE(waits_);
  ASSERT_EQ(out_.size(), 3u);
  Begin();
  Pass(milliseconds(20));
  Written();
  EXPECT_TRUE(waits_);
  Written();
  EXPECT_FALSE(waits_) << "only one is on its way";
}

TEST_F(ImageTurnsTest, WithoutRoomForAReserveTwoTakeTurns) {
  StartWith(2);
  Begin();
  Begin();
  Begin();
  Pass(std::chrono::hours(1));
  EXPECT_TRUE(waits_);
  EXPECT_EQ(made(), 2u);
  Written();
  EXPECT_FALSE(waits_);
  EXPECT_EQ(made(), 2u);
}

TEST_F(ImageTurnsTest, AnotherSessionThatNeedsItsRoomGetsIt) {
  StartWith(4);
  GetUsedTo(milliseconds(100));  // two out, the reserve idle
  EXPECT_EQ(made(), 3u);
  owner_ = store_->NewOwner(RunId(), 1);
  Begin();
  Begin();
  EXPECT_FALSE(waits_);
  EXPECT_EQ(made(), 4u);
}

class FewDepositsTest : public ImageTurnsTest {
 protected:
  FewDepositsTest() : ImageTurnsTest(std::make_shared<FewDeposits>()) {}
};

TEST_F(FewDepositsTest, NoReserveIsUsedThatWouldBeLostWithTheDaemon) {
  StartWith(10);
  Begin();
  Begin();
  for (const auto& image : out_) EXPECT_TRUE(image->has_label());
  Begin();
  Pass(std::chrono::hours(1));
  EXPECT_TRUE(waits_);
  EXPECT_EQ(made(), 2u);
  Written();
  EXPECT_FALSE(waits_);
}

// Beyond what is held a checkpoint is made as without deposits, and somebody is told what that means.
TEST_F(FewDepositsTest, WhatNobodyHoldsIsSaidOnce) {
  StartWith(10);
  Begin();
  Begin();
  EXPECT_TRUE(by_hand_.context.warnings->all().empty());
  owner_ = store_->NewOwner(RunId(), 1);
  Begin();
  Begin();
  EXPECT_FALSE(waits_);
  ASSERT_EQ(out_.size(), 4u);
  for (std::size_t i = 0; i < out_.size(); ++i) EXPECT_EQ(out_[i]->has_label(), i < 2);
  ASSERT_EQ(by_hand_.context.warnings->all().size(), 1u);
  EXPECT_NE(by_hand_.context.warnings->all().front().find("holds no more memory for this user"), std::string::npos);
}

class DepositsTest : public ImageTurnsTest {
 protected:
  DepositsTest() : ImageTurnsTest(std::make_shared<LastingDeposits>()) {}

  // The part of `dataset` that is in the oldest image that is out; it is stored, the dataset is not whole yet.
  std::shared_ptr<Image> TakeLabelled() {
    std::shared_ptr<Image> image = std::move(out_.front());
    out_.pop_front();
    image->WriteLabel({});
    EXPECT_TRUE(image->is_labelled());
    return image;
  }
  void Keep(DatasetId dataset) {
    auto kept = std::make_shared<KeptImage>();
    kept->image = TakeLabelled();
    store_->Keep(RunId(), dataset, static_cast<std::int64_t>(dataset), 0, std::move(kept), owner_);
  }
  bool IsKept(DatasetId dataset) const { return store_->KeptOf(RunId(), dataset, 0).kept != nullptr; }
};

// Else a crash before that would find neither label nor dataset.
TEST_F(DepositsTest, OneWithALabelIsOutUntilItsDatasetIsWhole) {
  StartWith(2);
  Begin();
  Begin();
  ASSERT_FALSE(waits_);
  Keep(1);
  Begin();
  EXPECT_TRUE(waits_);
  store_->NeedsNoLabels(RunId(), 1);
  by_hand_.RunAll();
  EXPECT_FALSE(waits_);
}

TEST_F(DepositsTest, SoIsOneThatNoRestoreCanUse) {
  StartWith(2);
  Begin();
  Begin();
  store_->KeepLabel(RunId(), 1, 1, 0, TakeLabelled(), owner_);
  EXPECT_FALSE(IsKept(1));
  Begin();
  EXPECT_TRUE(waits_);
  store_->NeedsNoLabels(RunId(), 1);
  by_hand_.RunAll();
  EXPECT_FALSE(waits_);
  EXPECT_EQ(made(), 2u);
}

TEST_F(DepositsTest, OneWithALabelGivesWayToNobody) {
  StartWith(1);
  Begin();
  Keep(1);
  owner_ = store_->NewOwner(RunId(), 1);
  Begin();
  EXPECT_TRUE(waits_);
  EXPECT_TRUE(IsKept(1));
  store_->NeedsNoLabels(RunId(), 1);
  by_hand_.RunAll();
  EXPECT_FALSE(waits_);
  EXPECT_FALSE(IsKept(1));
}

TEST_F(DepositsTest, AnOlderOneWithALabelStaysUntilItsDatasetIsWhole) {
  StartWith(2);
  Begin();
  Begin();
  Keep(1);
  Keep(2);
  store_->NeedsNoLabels(RunId(), 2);
  store_->RetireKept(RunId(), 3);
  EXPECT_TRUE(IsKept(1));
  EXPECT_FALSE(IsKept(2));
  store_->NeedsNoLabels(RunId(), 1);
  store_->RetireKept(RunId(), 3);
  EXPECT_FALSE(IsKept(1));
}

TEST_F(DepositsTest, OneWithALabelCountsOnce) {
  StartWith(10);
  Begin();
  Keep(1);
  store_->MakeSpares(RunId(), 1);
  by_hand_.RunAll();
  EXPECT_EQ(made(), 2u);
}

}  // namespace
}  // namespace cairn
