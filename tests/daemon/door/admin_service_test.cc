#include "daemon/door/admin_service.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "client/cli/admin_client.h"
#include "daemon/door/ingest_door.h"
#include "storage/base/status.h"
#include "tests/daemon/door/fake_core.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using cli::AdminClient;
using testing::FakeCore;

class AdminServiceTest : public ::testing::Test {
 protected:
  AdminServiceTest() {
    std::string name = ::testing::TempDir() + "cairn-admin-XXXXXX";
    folder_ = mkdtemp(name.data());
    socket_ = folder_ + "/cairnd-grpc.sock";
  }
  ~AdminServiceTest() override {
    client_.reset();
    door_.reset();
    std::filesystem::remove_all(folder_);
  }
  void SetUp() override {
    admin_ = AdminService::Make(core_, [this](admin::StatusReply& reply) { reply.MergeFrom(also_); });
    IngestDoor::Options options;
    options.node_socket = socket_;
    auto door = IngestDoor::Listen(options, core_, admin_.get());
    ASSERT_OK(door);
    door_ = *std::move(door);
    auto client = AdminClient::Connect({socket_});
    ASSERT_OK(client);
    client_ = *std::move(client);
  }

  std::string folder_, socket_;
  FakeCore core_;
  admin::StatusReply also_;  // what is not the core's
  std::unique_ptr<AdminService> admin_;
  std::unique_ptr<IngestDoor> door_;
  std::unique_ptr<AdminClient> client_;
};

TEST_F(AdminServiceTest, AStatusHasAlsoWhatIsNotTheCores) {
  core_.status.set_version("cairn test");
  also_.add_drains()->set_from("/bb");
  ASSERT_OK_AND_ASSIGN(const admin::StatusReply status, client_->StatusOfThisNode());
  EXPECT_EQ(status.version(), "cairn test");
  ASSERT_EQ(status.drains_size(), 1);
  EXPECT_EQ(status.drains(0).from(), "/bb");
}

TEST_F(AdminServiceTest, QuestionsAndAnswersPassUnchanged) {
  core_.status.set_version("cairn test");
  core_.status.add_warnings("careful");
  ASSERT_OK_AND_ASSIGN(const admin::StatusReply status, client_->StatusOfThisNode());
  EXPECT_EQ(status.SerializeAsString(), core_.status.SerializeAsString());

  core_.list->add_datasets()->set_dataset(17);
  admin::ListRequest list;
  list.set_run("heat");
  ASSERT_OK_AND_ASSIGN(const admin::ListReply rows, client_->List(list));
  EXPECT_EQ(rows.SerializeAsString(), core_.list->SerializeAsString());

  admin::DatasetRequest show;
  show.set_run("heat");
  show.set_dataset(17);
  core_.show->add_ranks()->set_rank(3);
  ASSERT_OK_AND_ASSIGN(const admin::ShowReply shown, client_->Show(show));
  EXPECT_EQ(shown.ranks(0).rank(), 3u);

  admin::FlushRequest flush;
  flush.set_run("heat");
  core_.flush.set_dataset(18);
  ASSERT_OK_AND_ASSIGN(const admin::FlushReply flushed, client_->Flush(flush));
  EXPECT_EQ(flushed.dataset(), 18u);

  admin::PinRequest pin;
  pin.set_run("heat");
  pin.set_dataset(17);
  pin.set_pinned(true);
  EXPECT_OK(client_->Pin(pin));

  admin::RemoveRequest remove;
  remove.set_run("heat");
  remove.set_dataset(17);
  core_.remove.mutable_status()->set_code(local::NOT_FOUND);
  ASSERT_OK_AND_ASSIGN(const admin::RemoveReply removed, client_->Remove(remove));
  EXPECT_EQ(removed.status().code(), local::NOT_FOUND);

  admin::RebuildRequest rebuild;
  rebuild.set_run("heat");
  rebuild.set_dataset(17);
  core_.rebuild.add_ranks()->set_rank(3);
  ASSERT_OK_AND_ASSIGN(const admin::RebuildReply rebuilt, client_->Rebuild(rebuild));
  EXPECT_EQ(rebuilt.ranks(0).rank(), 3u);

  admin::LeaveRequest leave;
  leave.set_run("heat");
  core_.leave.add_only_here()->set_dataset(17);
  ASSERT_OK_AND_ASSIGN(const admin::LeaveReply left, client_->Leave(leave));
  EXPECT_EQ(left.only_here(0).dataset(), 17u);

  EXPECT_EQ(core_.asked(), (std::vector<std::string>{"list heat", "show heat 17", "flush heat 0", "pin heat 17 on",
                                                     "rm heat 17", "rebuild heat 17", "leave heat"}));
}

TEST_F(AdminServiceTest, TheCoresErrorsKeepCodeAndWords) {
  core_.list = NotFound("no run tepid is known to this daemon");
  EXPECT_STATUS(StatusCode::kNotFound, client_->List({}), "no run tepid");
  core_.show = DataLoss("damaged");
  EXPECT_STATUS(StatusCode::kDataLoss, client_->Show({}), "damaged");
}

TEST_F(AdminServiceTest, AWaitIsAnsweredWhenTheCoreAnswers) {
  core_.hold_waits = true;
  core_.wait.set_level(local::PREFIX);
  absl::StatusOr<admin::WaitReply> reply = Internal("not yet");
  std::thread caller([&] {
    admin::WaitRequest request;
    request.set_timeout_ms(10'000);
    reply = client_->Wait(request);
  });
  while (core_.asked().empty()) std::this_thread::yield();
  core_.AnswerHeld();
  caller.join();
  ASSERT_OK(reply);
  EXPECT_EQ(reply->level(), local::PREFIX);
}

TEST_F(AdminServiceTest, ClosingTheDoorEndsCallsThatTheCoreStillHolds) {
  core_.hold_waits = true;
  absl::StatusOr<admin::WaitReply> reply = admin::WaitReply();
  std::thread caller([&] {
    admin::WaitRequest request;
    request.set_timeout_ms(60'000);
    reply = client_->Wait(request);
  });
  while (core_.asked().empty()) std::this_thread::yield();
  door_.reset();
  caller.join();
  EXPECT_FALSE(reply.ok());
  core_.AnswerHeld();  // late, and harmless
}

TEST_F(AdminServiceTest, ADaemonThatHasGoneIsUnavailable) {
  door_.reset();
  EXPECT_STATUS(StatusCode::kUnavailable, client_->StatusOfThisNode(), socket_);
  EXPECT_STATUS(StatusCode::kUnavailable, AdminClient::Connect({socket_, folder_ + "/other.sock"}), "other.sock");
}

}  // namespace
}  // namespace cairn
