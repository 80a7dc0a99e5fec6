// Who holds images for the daemon after this one: the supervisor's side, and the service manager's, played by the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/data/image.h"
#include "daemon/data/image_label.h"
#include "daemon/service_deposits.h"
#include "daemon/supervisor/deposits.h"
#include "daemon/supervisor/hand_over.h"
#include "daemon/worker_deposits.h"
#include "proto/supervisor.h"
#include "storage/base/descriptor_message.h"
#include "storage/base/sealed_memory.h"
#include "storage/base/unique_fd.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// A supervisor that answers until the worker's end is gone.
class Answering {
 public:
  explicit Answering(HeldDeposits::Max max) : desk_(max, nullptr) {
    auto link = MakeDepositLink();
    EXPECT_TRUE(link.ok());
    mine_ = std::move(link->supervisor);
    theirs_ = std::move(link->worker);
    thread_ = std::thread([this] {
      while (desk_.Answer(1, held_, mine_.get()) != DepositDesk::Asked::kEnded) ::usleep(1000);
    });
  }
  ~Answering() {
    if (thread_.joinable()) thread_.join();
  }
  UniqueFd TakeWorkersEnd() { return std::move(theirs_); }
  // After its end.
  std::vector<std::uint64_t> Held() {
    thread_.join();
    return held_.inodes();
  }

 private:
  DepositDesk desk_;
  HeldDeposits held_;
  UniqueFd mine_, theirs_;
  std::thread thread_;
};

std::uint64_t InodeOf(const UniqueFd& fd) {
  const auto memory = LookAtMemory(fd.get());
  EXPECT_OK(memory.status());
  return memory.ok() ? memory->inode : 0;
}

TEST(WorkerDepositsTest, WhatIsMadeIsHeldUntilItIsGivenUp) {
  Answering supervisor({.count = 3, .bytes = 100'000});
  auto deposits = DepositsWithSupervisor(supervisor.TakeWorkersEnd(), 900, nullptr);
  const auto one = deposits->Make(5000), two = deposits->Make(6000);
  ASSERT_OK(one.status());
  ASSERT_OK(two.status());
  EXPECT_EQ(LookAtMemory(two->get())->bytes, 6000u);
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, deposits->Make(90'000), "holds no more");
  const auto three = deposits->Make(7000);
  ASSERT_OK(three.status()) << "a refusal is no end";
  deposits->GiveUp(InodeOf(*one));
  deposits.reset();
  EXPECT_THAT(supervisor.Held(), UnorderedElementsAre(InodeOf(*two), InodeOf(*three)));
}

TEST(WorkerDepositsTest, ASupervisorThatHasGoneCostsNoTime) {
  auto link = MakeDepositLink();
  ASSERT_TRUE(link.ok());
  const auto deposits = DepositsWithSupervisor(std::move(link->worker), 900, nullptr);
  link->supervisor.Reset();
  EXPECT_STATUS(absl::StatusCode::kUnavailable, deposits->Make(5000), "");
  EXPECT_STATUS(absl::StatusCode::kUnavailable, deposits->Make(5000), "does not answer");
  deposits->GiveUp(1);
}

TEST(WorkerDepositsTest, WhoNeedsTimeSaysSoOverAndOver) {
  auto link = MakeDepositLink();
  ASSERT_TRUE(link.ok());
  std::atomic<int> told{0};
  const auto deposits = DepositsWithSupervisor(std::move(link->worker), 900, [&] { ++told; });
  deposits->NeedsTime(60);
  while (told < 2) ::usleep(1000);
}

// --- An image that is one ---

TEST(ImageDepositTest, AnImageAndItsLabelAreDepositsAsLongAsItLives) {
  Answering supervisor({.count = 4, .bytes = 64 << 20});
  {
    std::shared_ptr<Deposits> deposits = DepositsWithSupervisor(supervisor.TakeWorkersEnd(), 900, nullptr);
    ImageBudget budget(64 << 20);
    for (int i = 0; i < 5; ++i) {  // there is room for two at a time
      const auto one = Image::Make(budget, 1, nullptr, deposits), other = Image::Make(budget, 1, nullptr, deposits);
      ASSERT_OK(one.status());
      ASSERT_OK(other.status());
      EXPECT_TRUE((*one)->has_label());
      EXPECT_TRUE((*other)->has_label());
    }
  }
  EXPECT_TRUE(supervisor.Held().empty());
}

TEST(ImageDepositTest, WithoutRoomForItsLabelItIsAnOrdinaryOne) {
  Answering supervisor({.count = 1, .bytes = 64 << 20});
  {
    std::shared_ptr<Deposits> deposits = DepositsWithSupervisor(supervisor.TakeWorkersEnd(), 900, nullptr);
    ImageBudget budget(64 << 20);
    const auto image = Image::Make(budget, 1, nullptr, deposits);
    ASSERT_OK(image.status());
    EXPECT_FALSE((*image)->has_label());
    (*image)->SealLabel();  // nothing
  }
  EXPECT_TRUE(supervisor.Held().empty());
}

// Keeps a descriptor of all that it makes, whatever it is told.
class Kept final : public Deposits {
 public:
  absl::StatusOr<UniqueFd> Make(std::uint64_t bytes) override {
    auto made = MakeSealedMemory("test", bytes);
    if (made.ok()) kept.emplace_back(::dup(made->get()));
    return made;
  }
  void GiveUp(std::uint64_t) override {}
  std::vector<UniqueFd> TakeLeft() override { return {}; }
  void NeedsTime(std::uint64_t) override {}

  std::vector<UniqueFd> kept;  // of an image its memory, then its label
};

TEST(ImageDepositTest, WhatItsLabelSaysHoldsUntilItIsClearedOrTheImageIsGone) {
  const auto deposits = std::make_shared<Kept>();
  ImageBudget budget(64 << 20);
  auto image = Image::Make(budget, 1, nullptr, deposits);
  ASSERT_OK(image.status());
  ASSERT_EQ(deposits->kept.size(), 2u);
  const auto says = [&] {
    const auto frame = ReadLabel(deposits->kept[1].get(), 100);
    return frame.ok() && frame->has_value() && ImageOfLabel(**frame) == InodeOf(deposits->kept[0]);
  };
  (*image)->WriteLabel(CapturedPart());
  EXPECT_FALSE(says());
  (*image)->SealLabel();
  EXPECT_TRUE(says());
  (*image)->ClearLabel();
  EXPECT_FALSE(says());
  (*image)->WriteLabel(CapturedPart());
  (*image)->SealLabel();
  EXPECT_TRUE(says());
  (*image)->WriteLabel(CapturedPart());  // of the next checkpoint, whose bytes are still to come
  EXPECT_FALSE(says());
  (*image)->SealLabel();
  EXPECT_TRUE(says());
  *image = nullptr;
  EXPECT_FALSE(says()) << "its memory holds zeros now";
}

TEST(ImageDepositTest, WhatIsTakenUpStaysAsItIsUntilItIsLetGoOf) {
  auto memory = MakeSealedMemory("test", Image::kAlignment);
  ASSERT_OK(memory.status());
  ASSERT_EQ(::pwrite(memory->get(), "bytes", 5, 100), 5);
  ImageBudget budget(64 << 20);
  auto image = Image::TakeUp(budget, UniqueFd(::dup(memory->get())));
  ASSERT_OK(image.status());
  EXPECT_EQ(std::memcmp((*image)->bytes().data() + 100, "bytes", 5), 0);
  *image = nullptr;  // a second crash must find it whole
  std::array<char, 6> text{};
  EXPECT_EQ(::pread(memory->get(), text.data(), 5, 100), 5);
  EXPECT_STREQ(text.data(), "bytes");
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_FALSE(Image::TakeUp(budget, UniqueFd()).ok());
  EXPECT_FALSE(Image::TakeUp(budget, *MakeSealedMemory("test", 4096)).ok()) << "no image has such a size";
}

// --- The service manager ---

class ServiceDepositsTest : public ::testing::Test {
 protected:
  ServiceDepositsTest() : path_("/tmp/cairn-notify-" + std::to_string(::getpid())) {
    ::unlink(path_.c_str());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    socket_ = UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~ServiceDepositsTest() override { ::unlink(path_.c_str()); }

  // The next state that it was told; "": none. `fd`: what came along.
  std::string Told(UniqueFd* fd = nullptr) const {
    std::array<char, 256> text{};
    UniqueFd taken;
    if (ReceiveWithDescriptor(socket_.get(), std::span(text).first(text.size() - 1), &taken, MSG_DONTWAIT) < 0)
      return "";
    if (fd != nullptr) *fd = std::move(taken);
    return text.data();
  }

  const std::string path_;
  UniqueFd socket_;
};

TEST_F(ServiceDepositsTest, TheServiceManagerIsHandedWhatIsMadeAndToldWhatIsGivenUp) {
  const auto deposits = DepositsWithService(path_, "2");
  ASSERT_NE(deposits, nullptr);
  const auto one = deposits->Make(5000);
  ASSERT_OK(one.status());
  UniqueFd held;
  const std::string name = "FDNAME=" + DepositName(::geteuid(), InodeOf(*one));
  EXPECT_EQ(Told(&held), "FDSTORE=1\nFDPOLL=0\n" + name);
  EXPECT_EQ(InodeOf(held), InodeOf(*one));
  ASSERT_OK(deposits->Make(5000).status());
  EXPECT_THAT(Told(), HasSubstr("FDSTORE=1"));
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, deposits->Make(5000), "2 descriptors");
  deposits->GiveUp(InodeOf(*one));
  EXPECT_EQ(Told(), "FDSTOREREMOVE=1\n" + name);
  deposits->GiveUp(InodeOf(*one));
  EXPECT_EQ(Told(), "") << "it was told";
  EXPECT_OK(deposits->Make(5000).status());
}

TEST_F(ServiceDepositsTest, OneThatTakesNothingHoldsNothing) {
  const auto deposits = DepositsWithService(path_, "2");
  ASSERT_NE(deposits, nullptr);
  socket_.Reset();
  EXPECT_STATUS(absl::StatusCode::kUnavailable, deposits->Make(5000), "NOTIFY_SOCKET");
}

TEST_F(ServiceDepositsTest, WithoutOneNothingIsHeld) {
  EXPECT_EQ(DepositsWithService(path_, std::nullopt), nullptr);
  EXPECT_EQ(DepositsWithService(path_, "0"), nullptr);
  EXPECT_EQ(DepositsWithService(path_, "many"), nullptr);
  EXPECT_EQ(DepositsWithService(std::nullopt, "2"), nullptr);
}

}  // namespace
}  // namespace cairn
