#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "proto/frame.h"
#include "tests/client/fake_daemon.h"

namespace cairn {
namespace {

constexpr std::uint64_t kPieceBytes = 4096;
constexpr std::uint64_t kImageBytes = 2 << 20;
constexpr std::uint64_t kDamagedStep = 666;

}  // namespace

bool HonestDaemon::Serve(FakePeer& peer) {
  image_known_ = false;
  while (const std::optional<local::Request> request = peer.Receive()) {
    Handle(peer, *request);
    if (request->has_close()) return true;
  }
  return false;
}

void HonestDaemon::ServeAll(FakeDaemon& daemon) {
  for (bool closed = false; !closed;) {
    FakePeer peer = daemon.Accept();
    closed = !peer.connected() || Serve(peer);
  }
}

int HonestDaemon::DescribeImage(local::Image* image) {
  if (!image_) image_ = std::make_unique<FakeImage>(1, kImageBytes);
  const bool fresh = !std::exchange(image_known_, true);
  image_->Describe(image, fresh);
  return fresh ? image_->fd() : -1;
}

std::string HonestDaemon::Stored(std::int32_t id) const {
  const auto found = stored_.find(id);
  return found == stored_.end() ? std::string() : found->second;
}

void HonestDaemon::Begin(FakePeer& peer, const local::Request& request) {
  variables_ = request.begin().variables();
  step_ = request.begin().step();
  damaged_ = rejected_ = false;
  plan_ = MakeTestPlan(variables_, kPieceBytes);
  local::Reply reply;
  reply.mutable_begin()->set_dataset(++dataset_);
  names_[dataset_] = request.begin().name();
  NoteScheme(request.begin());
  const int fd = DescribeImage(reply.mutable_begin()->mutable_image());
  *reply.mutable_begin()->mutable_plan() = plan_;
  peer.Answer(request, std::move(reply), fd);
}

void HonestDaemon::Commit(FakePeer& peer, const local::Request& request) {
  EXPECT_EQ(peer.told(), static_cast<std::uint64_t>(plan_.bytes_size()));
  stored_.clear();
  for (const local::Variable& variable : variables_) stored_[variable.id()].resize(variable.bytes());
  for (int i = 0; i < plan_.bytes_size(); ++i) {
    std::string& bytes = stored_[variables_[static_cast<int>(plan_.variable(i))].id()];
    std::memcpy(bytes.data() + plan_.variable_offset(i), image_->bytes().data() + plan_.image_offset(i),
                plan_.bytes(i));
  }
  local::Reply reply;
  reply.mutable_committed()->set_dataset(dataset_);
  peer.Answer(request, std::move(reply));
}

void HonestDaemon::Find(FakePeer& peer, const local::Request& request) {
  const local::Find& find = request.find();
  for (const auto& [dataset, given] : names_) {
    const std::string name = given.empty() ? "ckpt." + std::to_string(dataset) : given;
    if (find.name().empty() ? find.dataset() != dataset : find.name() != name) continue;
    local::Reply reply;
    reply.mutable_find()->set_dataset(dataset);
    reply.mutable_find()->set_step(step_);
    reply.mutable_find()->set_name(name);
    return peer.Answer(request, std::move(reply));
  }
  peer.Refuse(request, local::NOT_FOUND, "there is none");
}

// Only of what was stored whole: the array is the box.
void HonestDaemon::Read(FakePeer& peer, const local::Request& request) {
  const local::Read& read = request.read();
  for (const local::Variable& variable : variables_) {
    if (variable.name() != read.name() || variable.kind() == local::PLAIN) continue;
    const std::string& bytes = stored_[variable.id()];
    std::uint64_t element = 1, first = 0, stride = 1, count = 1;
    if (variable.count() > 0) element = variable.bytes() / variable.count();
    for (int d = read.start_size(); d-- > 0;) {
      first += read.start(d) * stride;
      stride *= variable.kind() == local::ARRAY ? variable.shape(d) : variable.count();
      count *= read.count(d);
    }
    EXPECT_TRUE(read.type() == variable.type());
    local::Reply reply;
    const int fd = DescribeImage(reply.mutable_restore()->mutable_image());
    local::Plan& plan = *reply.mutable_restore()->mutable_plan();
    // One row for each of the slowest but one: two dimensions at most.
    const std::uint64_t rows = read.count_size() == 2 ? read.count(0) : 1;
    plan.add_variable(0);
    plan.add_variable_offset(0);
    plan.add_image_offset(first * element);
    plan.add_bytes(count / rows * element);
    plan.add_rows(rows);
    plan.add_variable_stride(rows > 1 ? count / rows * element : 0);
    plan.add_image_stride(rows > 1 ? variable.shape(1) * element : 0);
    std::memcpy(image_->bytes().data(), bytes.data(), bytes.size());
    peer.Answer(request, std::move(reply), fd);
    local::Reply ready;
    ready.mutable_ready()->set_pieces(1);
    peer.Answer(request, std::move(ready));
    while (peer.told() < 1) {
      if (!peer.Receive()) return;
    }
    local::Reply end;
    end.mutable_restore_end()->set_tier(local::TIER_CACHE);
    return peer.Answer(request, std::move(end));
  }
  peer.Refuse(request, local::NOT_FOUND, "there is no \"" + read.name() + "\"");
}

void HonestDaemon::Restore(FakePeer& peer, const local::Request& request) {
  const local::Plan plan = MakeTestPlan(request.restore().variables(), kPieceBytes);
  local::Reply reply;
  const int fd = DescribeImage(reply.mutable_restore()->mutable_image());
  *reply.mutable_restore()->mutable_plan() = plan;
  peer.Answer(request, std::move(reply), fd);
  for (int i = 0; i < plan.bytes_size(); ++i) {
    const std::string& bytes = stored_[request.restore().variables(static_cast<int>(plan.variable(i))).id()];
    ASSERT_LE(plan.variable_offset(i) + plan.bytes(i), bytes.size());
    std::memcpy(image_->bytes().data() + plan.image_offset(i), bytes.data() + plan.variable_offset(i), plan.bytes(i));
  }
  damaged_ = step_ == kDamagedStep;
  const std::uint64_t pieces = static_cast<std::uint64_t>(plan.bytes_size()) / (damaged_ ? 2 : 1);
  local::Reply ready;
  ready.mutable_ready()->set_pieces(pieces);
  peer.Answer(request, std::move(ready));
  while (peer.told() < pieces) {
    if (!peer.Receive()) return;
  }
  if (damaged_) return peer.Refuse(request, local::RETRY, "no whole copy is left");
  local::Reply end;
  end.mutable_restore_end()->set_tier(local::TIER_CACHE);
  peer.Answer(request, std::move(end));
}

void HonestDaemon::Handle(FakePeer& peer, const local::Request& request) {
  local::Reply reply;
  switch (request.body_case()) {
    case local::Request::kHello:
      reply.mutable_hello()->set_protocol(CAIRN_PROTOCOL_NEWEST);
      break;
    case local::Request::kOpen:
      reply.mutable_open()->set_launch(7);
      reply.mutable_open()->set_token("token");
      break;
    case local::Request::kBegin:
      return Begin(peer, request);
    case local::Request::kFilled:
    case local::Request::kMark:
      return;
    case local::Request::kCommit:
      return Commit(peer, request);
    case local::Request::kRestore:
      return Restore(peer, request);
    case local::Request::kRead:
      return Read(peer, request);
    case local::Request::kTest:
    case local::Request::kWait:
      reply.mutable_test()->set_reached(true);
      break;
    case local::Request::kLatest:
      if (dataset_ == 0 || damaged_ || rejected_) return peer.Refuse(request, local::NOT_FOUND, "nothing is stored");
      reply.mutable_latest()->set_dataset(dataset_);
      reply.mutable_latest()->set_step(step_);
      break;
    case local::Request::kFind:
      return Find(peer, request);
    case local::Request::kReject:
      if (request.reject().dataset() != dataset_) return peer.Refuse(request, local::NOT_FOUND, "no such dataset");
      rejected_ = true;
      break;
    case local::Request::kStored:
      reply.mutable_stored()->set_nranks(1);
      *reply.mutable_stored()->mutable_variables() = variables_;
      break;
    case local::Request::kOutputBegin:
      reply.mutable_output_begin()->set_dataset(++dataset_);
      names_[dataset_] = request.output_begin().name();
      NoteScheme(request.output_begin());
      break;
    case local::Request::kRouteFile:
      reply.mutable_route_file()->set_path("/cache/" + request.route_file().file());
      break;
    case local::Request::kOutputEnd:
      if (request.output_end().valid()) reply.mutable_committed()->set_dataset(dataset_);
      break;
    case local::Request::kShouldExit:
      // At the third question, and says so.
      reply.mutable_should_exit()->set_yes(request.should_exit().number() == 3);
      if (reply.should_exit().yes()) reply.mutable_should_exit()->set_why("halt: enough");
      break;
    case local::Request::kNeedCheckpoint:
      // At every second question.
      reply.mutable_need_checkpoint()->set_yes(request.need_checkpoint().number() % 2 == 0);
      if (reply.need_checkpoint().yes()) reply.mutable_need_checkpoint()->set_why("due at every call 2");
      break;
    case local::Request::kRestartFile:
      reply.mutable_restart_file()->set_path("/cache/" + request.restart_file().file());
      break;
    default:
      break;
  }
  peer.Answer(request, std::move(reply));
}

}  // namespace cairn
