#include "daemon/core/call.h"

#include <fmt/format.h>

#include <utility>

#include "storage/base/status.h"

namespace cairn {

local::Code CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return local::OK;
    case absl::StatusCode::kNotFound:
      return local::NOT_FOUND;
    case absl::StatusCode::kInvalidArgument:
      return local::INVALID_ARGUMENT;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
      return local::FAILED_PRECONDITION;
    case absl::StatusCode::kAborted:
      return local::FAILED;
    case absl::StatusCode::kResourceExhausted:
      return local::RESOURCE_EXHAUSTED;
    case absl::StatusCode::kDeadlineExceeded:
      return local::DEADLINE_EXCEEDED;
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kUnavailable:
      return local::UNAVAILABLE;
    case absl::StatusCode::kDataLoss:
      return local::DATA_LOSS;
    case absl::StatusCode::kPermissionDenied:
      return local::PERMISSION_DENIED;
    case absl::StatusCode::kUnimplemented:
      return local::UNSUPPORTED;
    default:
      return local::INTERNAL;
  }
}

void SetStatus(const absl::Status& status, local::Status* out) {
  out->set_code(CodeOf(status));
  out->set_message(std::string(MessageOf(status)));
}

Call::Call(Loop& loop, std::shared_ptr<Connection> connection, std::uint64_t number)
    : loop_(loop), connection_(std::move(connection)), number_(number) {}

std::shared_ptr<Call> Call::Make(Loop& loop, std::shared_ptr<Connection> connection, std::uint64_t number,
                                 std::chrono::milliseconds deadline) {
  std::shared_ptr<Call> call(new Call(loop, std::move(connection), number));
  call->deadline_ = deadline;
  call->timer_ = loop.After(deadline, [call, deadline] { call->Expire(deadline); });
  return call;
}

void Call::Expire(std::chrono::milliseconds deadline) {
  timer_ = 0;
  if (answered_) return;
  const std::function<void()> on_expired = std::exchange(on_expired_, nullptr);
  Fail(DeadlineExceeded("{} did not come within {} ms", waiting_for_, deadline.count()));
  if (on_expired) on_expired();
}

void Call::Abandon() {
  const std::function<void()> on_expired = std::exchange(on_expired_, nullptr);
  if (Finish() && on_expired) on_expired();
}

bool Call::Finish() {
  if (std::exchange(answered_, true)) return false;
  if (timer_ != 0) loop_.Cancel(std::exchange(timer_, 0));
  on_expired_ = nullptr;  // it may hold what holds this call
  return true;
}

void Call::Reply(local::Reply reply, SharedFd descriptor) {
  if (!Finish()) return;
  reply.set_call(number_);
  connection_->Send(reply, std::move(descriptor));
}

void Call::Push(local::Reply reply, SharedFd descriptor) {
  if (answered_) return;
  reply.set_call(number_);
  connection_->Send(reply, std::move(descriptor));
}

void Call::Fail(const absl::Status& status) {
  local::Reply reply;
  SetStatus(status, reply.mutable_status());
  Reply(std::move(reply));
}

void Call::Fail(local::Code code, std::string message) {
  local::Reply reply;
  reply.mutable_status()->set_code(code);
  reply.mutable_status()->set_message(std::move(message));
  Reply(std::move(reply));
}

}  // namespace cairn
