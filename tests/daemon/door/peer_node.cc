#include "tests/daemon/door/peer_node.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "tests/daemon/trust/members.h"
#include "tests/support/status_matchers.h"

namespace cairn::testing {
namespace {

constexpr int kTextField = 300'000;
constexpr auto kPatience = absl::Seconds(60);

// What one thread changes under a mutex and another waits for.
struct Guarded {
  mutable absl::Mutex mutex;
  mutable absl::CondVar changed;

  template <typename Ready>
  bool Wait(Ready ready) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const absl::Time end = absl::Now() + kPatience;
    while (!ready()) {
      if (changed.WaitWithDeadline(&mutex, end)) return ready();
    }
    return true;
  }
};

}  // namespace

peer::Frame FrameOf(const std::string& text) {
  peer::Frame frame;
  frame.GetReflection()->MutableUnknownFields(&frame)->AddLengthDelimited(kTextField, text);
  return frame;
}

std::string TextOf(const peer::Frame& frame) {
  const auto& fields = frame.GetReflection()->GetUnknownFields(frame);
  return fields.field_count() == 1 && fields.field(0).number() == kTextField ? fields.field(0).length_delimited()
                                                                             : "no frame of a test";
}

// --- Links ---

struct LinkInHand::State : Guarded {
  std::deque<std::string> frames ABSL_GUARDED_BY(mutex);
  std::size_t received ABSL_GUARDED_BY(mutex) = 0;
  std::optional<absl::Status> closed ABSL_GUARDED_BY(mutex);
};

LinkInHand::LinkInHand(Loop& loop, std::unique_ptr<PeerLink> link)
    : loop_(loop), state_(std::make_shared<State>()), link_(std::move(link)) {}

LinkInHand::~LinkInHand() {
  Close();
}

PeerIdentity LinkInHand::peer() const {
  return link_->peer();
}

void LinkInHand::Start() {
  PeerLink::Reports reports;
  reports.on_frame = [state = state_](const peer::Frame& frame) {
    const absl::MutexLock lock(&state->mutex);
    state->frames.push_back(TextOf(frame));
    ++state->received;
    state->changed.SignalAll();
  };
  reports.on_closed = [state = state_](const absl::Status& why) {
    const absl::MutexLock lock(&state->mutex);
    EXPECT_FALSE(state->closed.has_value()) << "told twice";
    state->closed = why;
    state->changed.SignalAll();
  };
  loop_.Run([&] { link_->Start(std::move(reports)); });
}

void LinkInHand::Send(const std::string& text) {
  loop_.Run([&] { link_->Send(FrameOf(text)); });
}

std::optional<std::string> LinkInHand::Receive() {
  const absl::MutexLock lock(&state_->mutex);
  const auto ready = [this] {
    state_->mutex.AssertHeld();
    return !state_->frames.empty() || state_->closed.has_value();
  };
  if (!state_->Wait(ready)) ADD_FAILURE() << "no frame";
  if (state_->frames.empty()) return std::nullopt;
  std::string text = std::move(state_->frames.front());
  state_->frames.pop_front();
  return text;
}

std::size_t LinkInHand::received() const {
  const absl::MutexLock lock(&state_->mutex);
  return state_->received;
}

absl::Status LinkInHand::Closed() {
  const absl::MutexLock lock(&state_->mutex);
  const auto ready = [this] {
    state_->mutex.AssertHeld();
    return state_->closed.has_value();
  };
  if (!state_->Wait(ready)) ADD_FAILURE() << "the link does not end";
  return state_->closed.value_or(absl::OkStatus());
}

bool LinkInHand::closed() const {
  const absl::MutexLock lock(&state_->mutex);
  return state_->closed.has_value();
}

void LinkInHand::Close() {
  if (link_ != nullptr) loop_.Run([&] { link_.reset(); });
}

// --- Nodes ---

struct PeerNode::Inbox : Guarded {
  std::deque<std::unique_ptr<LinkInHand>> links ABSL_GUARDED_BY(mutex);
  std::size_t dialled ABSL_GUARDED_BY(mutex) = 0;
};

PeerDoor::Options PeerNode::Loopback(std::uint8_t number, PeerDoor::Options options) {
  if (options.peers.interface.empty()) options.peers.interface = "127.0.0.1";
  if (options.peers.munge == "auto" && options.munge_socket.empty()) options.peers.munge = "off";
  options.peers.ports = "20000-29999";  // tests run beside each other
  options.node = RunOf(number).Hex();
  if (options.incarnation == 0) options.incarnation = number;
  return options;
}

PeerNode::PeerNode(std::uint8_t number, PeerDoor::Options options)
    : options_(Loopback(number, std::move(options))), loop_(MakeThreadLoop()), inbox_(std::make_shared<Inbox>()) {
  WarningsHeard::Prepare();
  auto door = PeerDoor::Listen(options_, *loop_);
  EXPECT_OK(door);
  door_ = *std::move(door);
}

PeerNode::~PeerNode() {
  Shut();
  const absl::MutexLock lock(&inbox_->mutex);
  inbox_->links.clear();
}

void PeerNode::Shut() {
  if (door_ != nullptr) loop_->Run([&] { door_.reset(); });
}

int PeerNode::port() const {
  const std::string text = address();
  return std::stoi(text.substr(text.rfind(':') + 1));
}

PeerIdentity PeerNode::In(const RunId& run) const {
  return {.run = run, .node = options_.node, .incarnation = options_.incarnation};
}

void PeerNode::Join(const std::shared_ptr<const Authority>& authority) {
  loop_->Run([&] { door_->Join(authority); });
}
void PeerNode::Leave(const RunId& run) {
  loop_->Run([&] { door_->Leave(run); });
}
void PeerNode::ServeNobody(const RunId& run) {
  loop_->Run([&] { door_->Serve(run, nullptr); });
}
void PeerNode::Serve(const RunId& run) {
  loop_->Run([&] {
    door_->Serve(run, [inbox = inbox_, loop = loop_.get()](std::unique_ptr<PeerLink> link) {
      const absl::MutexLock lock(&inbox->mutex);
      ++inbox->dialled;
      inbox->links.push_back(std::make_unique<LinkInHand>(*loop, std::move(link)));
      inbox->changed.SignalAll();
    });
  });
}
void PeerNode::Enter(const std::shared_ptr<const Authority>& authority) {
  Join(authority);
  Serve(authority->run());
}

absl::StatusOr<std::unique_ptr<LinkInHand>> PeerNode::Dial(const RunId& run, const std::string& address,
                                                           std::chrono::milliseconds deadline) {
  struct Call : Guarded {
    std::optional<absl::StatusOr<std::unique_ptr<PeerLink>>> told ABSL_GUARDED_BY(mutex);
  };
  auto call = std::make_shared<Call>();
  loop_->Run([&] {
    door_->Dial(run, address, deadline, [call](absl::StatusOr<std::unique_ptr<PeerLink>> link) {
      const absl::MutexLock lock(&call->mutex);
      EXPECT_FALSE(call->told.has_value()) << "told twice";
      call->told = std::move(link);
      call->changed.SignalAll();
    });
  });
  const absl::MutexLock lock(&call->mutex);
  const auto ready = [&] {
    call->mutex.AssertHeld();
    return call->told.has_value();
  };
  if (!call->Wait(ready)) {
    ADD_FAILURE() << "Dial does not end";
    return absl::DeadlineExceededError("of the test");
  }
  if (!call->told->ok()) return call->told->status();
  return std::make_unique<LinkInHand>(*loop_, **std::move(call->told));
}

std::unique_ptr<LinkInHand> PeerNode::Dialled() {
  const absl::MutexLock lock(&inbox_->mutex);
  const auto ready = [this] {
    inbox_->mutex.AssertHeld();
    return !inbox_->links.empty();
  };
  if (!inbox_->Wait(ready)) {
    ADD_FAILURE() << "nobody dials";
    return nullptr;
  }
  auto link = std::move(inbox_->links.front());
  inbox_->links.pop_front();
  return link;
}

std::size_t PeerNode::dialled() const {
  const absl::MutexLock lock(&inbox_->mutex);
  return inbox_->dialled;
}

// --- The log ---

struct WarningsHeard::State : Guarded {
  std::vector<std::string> lines ABSL_GUARDED_BY(mutex);
};

// One for the whole process: other threads may log while somebody begins or ends to hear.
class WarningsHeard::Sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  static Sink& Installed() {
    static const std::shared_ptr<Sink> sink = [] {
      auto made = std::make_shared<Sink>();
      spdlog::default_logger()->sinks().push_back(made);
      return made;
    }();
    return *sink;
  }
  void Tell(std::shared_ptr<State> state) {
    const std::lock_guard<std::mutex> lock(mutex_);
    heard_ = std::move(state);
  }

 private:
  void sink_it_(const spdlog::details::log_msg& line) override {
    if (heard_ == nullptr || line.level < spdlog::level::warn) return;
    const absl::MutexLock lock(&heard_->mutex);
    heard_->lines.emplace_back(line.payload.data(), line.payload.size());
    heard_->changed.SignalAll();
  }
  void flush_() override {}

  std::shared_ptr<State> heard_;
};

WarningsHeard::WarningsHeard() : state_(std::make_shared<State>()) {
  Sink::Installed().Tell(state_);
}

WarningsHeard::~WarningsHeard() {
  Sink::Installed().Tell(nullptr);
}

void WarningsHeard::Prepare() {
  Sink::Installed();
}

bool WarningsHeard::Wait(const std::string& part) const {
  const absl::MutexLock lock(&state_->mutex);
  const auto heard = [this, &part] {
    state_->mutex.AssertHeld();
    for (const std::string& line : state_->lines) {
      if (line.find(part) != std::string::npos) return true;
    }
    return false;
  };
  return state_->Wait(heard);
}

std::string WarningsHeard::all() const {
  const absl::MutexLock lock(&state_->mutex);
  std::string text;
  for (const std::string& line : state_->lines) text += line + "\n";
  return text;
}

}  // namespace cairn::testing
