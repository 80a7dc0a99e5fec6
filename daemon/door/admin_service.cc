#include "daemon/door/admin_service.h"

#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <string>
#include <utility>

#include "proto/admin.grpc.pb.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

grpc::Status ToGrpc(const absl::Status& status) {
  // The numbers are the same by definition (absl/status/status.h).
  return {static_cast<grpc::StatusCode>(status.code()), std::string(MessageOf(status))};
}

// One call, finished once: by the core's answer or by its cancellation, whichever comes first. gRPC owns it until
// OnDone, the core's callback as long as it likes.
template <typename Reply>
class AdminCall final : public grpc::ServerUnaryReactor, public std::enable_shared_from_this<AdminCall<Reply>> {
 public:
  static std::shared_ptr<AdminCall> Begin(Reply* reply) {
    auto call = std::make_shared<AdminCall>(reply);
    call->self_ = call;
    return call;
  }
  explicit AdminCall(Reply* reply) : reply_(reply) {}

  void Answer(Reply reply) {
    if (finished_.exchange(true)) return;
    *reply_ = std::move(reply);
    Finish(grpc::Status::OK);
  }
  void Answer(absl::StatusOr<Reply> reply) {
    if (reply.ok()) return Answer(*std::move(reply));
    if (!finished_.exchange(true)) Finish(ToGrpc(reply.status()));
  }
  void OnCancel() override {
    if (!finished_.exchange(true)) Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the caller has gone"));
  }
  void OnDone() override { const auto self = std::move(self_); }

 private:
  Reply* const reply_;  // gRPC's, valid until Finish
  std::atomic<bool> finished_{false};
  std::shared_ptr<AdminCall> self_;
};

class AdminServiceImpl final : public AdminService, public admin::Admin::CallbackService {
 public:
  AdminServiceImpl(Core& core, Also also) : core_(core), also_(std::move(also)) {}
  grpc::Service& service() override { return *this; }

  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;

  Reactor* Status(Context*, const admin::StatusRequest* request, admin::StatusReply* reply) override {
    // Here, and not on the core's strand.
    admin::StatusReply more;
    if (also_) also_(more);
    return Ask(reply, [&](auto done) {
      core_.Status(*request, [more = std::move(more), done = std::move(done)](admin::StatusReply status) {
        status.MergeFrom(more);
        done(std::move(status));
      });
    });
  }
  Reactor* List(Context*, const admin::ListRequest* request, admin::ListReply* reply) override {
    return AskOr(reply, [&](auto done) { core_.List(*request, std::move(done)); });
  }
  Reactor* Show(Context*, const admin::DatasetRequest* request, admin::ShowReply* reply) override {
    return AskOr(reply, [&](auto done) { core_.Show(*request, std::move(done)); });
  }
  Reactor* Wait(Context*, const admin::WaitRequest* request, admin::WaitReply* reply) override {
    return Ask(reply, [&](auto done) { core_.Wait(*request, std::move(done)); });
  }
  Reactor* Flush(Context*, const admin::FlushRequest* request, admin::FlushReply* reply) override {
    return Ask(reply, [&](auto done) { core_.Flush(*request, std::move(done)); });
  }
  Reactor* Pin(Context*, const admin::PinRequest* request, admin::PinReply* reply) override {
    return Ask(reply, [&](auto done) { core_.Pin(*request, std::move(done)); });
  }
  Reactor* Remove(Context*, const admin::RemoveRequest* request, admin::RemoveReply* reply) override {
    return Ask(reply, [&](auto done) { core_.Remove(*request, std::move(done)); });
  }
  Reactor* Rebuild(Context*, const admin::RebuildRequest* request, admin::RebuildReply* reply) override {
    return Ask(reply, [&](auto done) { core_.Rebuild(*request, std::move(done)); });
  }
  Reactor* Leave(Context*, const admin::LeaveRequest* request, admin::LeaveReply* reply) override {
    return Ask(reply, [&](auto done) { core_.Leave(*request, std::move(done)); });
  }
  Reactor* Nodes(Context*, const admin::NodesRequest* request, admin::NodesReply* reply) override {
    return AskOr(reply, [&](auto done) { core_.Nodes(*request, std::move(done)); });
  }

 private:
  template <typename Reply, typename Question>
  static Reactor* Ask(Reply* reply, Question question) {
    auto call = AdminCall<Reply>::Begin(reply);
    question([call](Reply answer) { call->Answer(std::move(answer)); });
    return call.get();
  }
  template <typename Reply, typename Question>
  static Reactor* AskOr(Reply* reply, Question question) {
    auto call = AdminCall<Reply>::Begin(reply);
    question([call](absl::StatusOr<Reply> answer) { call->Answer(std::move(answer)); });
    return call.get();
  }

  Core& core_;
  const Also also_;
};

}  // namespace

std::unique_ptr<AdminService> AdminService::Make(Core& core, Also also) {
  return std::make_unique<AdminServiceImpl>(core, std::move(also));
}

}  // namespace cairn
