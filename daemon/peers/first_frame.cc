#include "daemon/peers/first_frame.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "storage/base/check.h"

namespace cairn {

// What one part has for a net.
class FirstFrame::Part final : public PeerNet {
 public:
  Part(FirstFrame& all, std::optional<peer::Frame::BodyCase> body) : all_(all), body_(body) {}
  void Dial(const RunId& run, const std::string& address, std::chrono::milliseconds deadline, Dialled done) override {
    all_.given_.net.Dial(run, address, deadline, std::move(done));
  }
  void Serve(const RunId& run, OnLink on_link) override {
    CAIRN_CHECK(run == all_.given_.run);
    on_link_ = std::move(on_link);
    all_.PartServes();
  }
  std::string address() const override { return all_.given_.net.address(); }

  const std::optional<peer::Frame::BodyCase>& body() const { return body_; }  // nullopt: all others
  const OnLink& on_link() const { return on_link_; }

 private:
  FirstFrame& all_;
  const std::optional<peer::Frame::BodyCase> body_;
  OnLink on_link_;
};

// Between a link that has been started, whose reports come here, and whoever has it now and starts it again.
struct FirstFrame::Opening {
  bool handed_on = false;
  bool abandoned = false;
  std::optional<PeerLink::Reports> reports;  // none: not started again
  std::deque<peer::Frame> kept;              // until that is done
  std::optional<absl::Status> closed;

  // The owner may let go of the link in each of its reports.
  void OnFrame(peer::Frame frame) {
    kept.push_back(std::move(frame));
    if (kept.size() == 1 && reports) Deliver();
  }
  void OnClosed(const absl::Status& why) {
    closed = why;
    if (kept.empty() && reports) Deliver();
  }
  void Deliver() {
    while (!abandoned && !kept.empty()) {
      peer::Frame frame = std::move(kept.front());
      const auto on_frame = reports->on_frame;
      on_frame(std::move(frame));
      kept.pop_front();
    }
    if (abandoned || !closed) return;
    const auto on_closed = reports->on_closed;
    on_closed(*std::exchange(closed, std::nullopt));
  }
};

class FirstFrame::Opened final : public PeerLink {
 public:
  Opened(Loop& loop, std::shared_ptr<PeerLink> link, std::shared_ptr<Opening> opening)
      : loop_(loop), link_(std::move(link)), opening_(std::move(opening)) {}
  ~Opened() override { opening_->abandoned = true; }
  const PeerIdentity& peer() const override { return link_->peer(); }
  void Start(Reports reports) override {
    loop_.Post([opening = opening_, reports = std::move(reports)] {
      opening->reports = reports;
      opening->Deliver();
    });
  }
  void Send(peer::Frame frame) override { link_->Send(std::move(frame)); }

 private:
  Loop& loop_;
  const std::shared_ptr<PeerLink> link_;
  const std::shared_ptr<Opening> opening_;
};

FirstFrame::FirstFrame(const Given& given) : given_(given) {}

FirstFrame::~FirstFrame() {
  if (serving_) given_.net.Serve(given_.run, nullptr);
  while (!newcomers_.empty()) Drop(newcomers_.begin()->first);
}

PeerNet& FirstFrame::With(peer::Frame::BodyCase body) {
  return Add(body);
}

PeerNet& FirstFrame::Others() {
  return Add(std::nullopt);
}

PeerNet& FirstFrame::Add(std::optional<peer::Frame::BodyCase> body) {
  for (const auto& part : parts_) CAIRN_CHECK(part->body() != body);
  return *parts_.emplace_back(std::make_unique<Part>(*this, body));
}

// Nobody is let in for nothing.
void FirstFrame::PartServes() {
  const bool serves = std::ranges::any_of(parts_, [](const auto& part) { return part->on_link() != nullptr; });
  if (serves == std::exchange(serving_, serves)) return;
  if (!serves) return given_.net.Serve(given_.run, nullptr);
  given_.net.Serve(given_.run, [this](std::unique_ptr<PeerLink> link) { OnLink(std::move(link)); });
}

void FirstFrame::OnLink(std::unique_ptr<PeerLink> link) {
  if (newcomers_.size() >= kNewcomersMax || link->peer().run != given_.run) return;
  const Id id = ++last_id_;
  Newcomer& newcomer = newcomers_[id];
  newcomer.link = std::move(link);
  newcomer.timer = given_.loop.After(given_.silence, [this, id] {
    newcomers_.at(id).timer = 0;
    Drop(id);
  });
  auto opening = std::make_shared<Opening>();
  const std::weak_ptr<int> alive = alive_;
  newcomer.link->Start({.on_frame =
                            [this, alive, id, opening](peer::Frame frame) {
                              if (opening->handed_on) return opening->OnFrame(std::move(frame));
                              if (!alive.expired()) HandOn(id, std::move(frame), opening);
                            },
                        .on_closed =
                            [this, alive, id, opening](const absl::Status& why) {
                              if (opening->handed_on) return opening->OnClosed(why);
                              if (!alive.expired()) Drop(id);
                            }});
}

void FirstFrame::HandOn(Id id, peer::Frame first, std::shared_ptr<Opening> opening) {
  const auto newcomer = newcomers_.find(id);
  if (newcomer == newcomers_.end()) return;  // it has been let go
  const auto has = [this](std::optional<peer::Frame::BodyCase> body) {
    return std::ranges::find_if(parts_, [body](const auto& part) { return part->body() == body; });
  };
  auto taker = has(first.body_case());
  if (taker == parts_.end()) taker = has(std::nullopt);
  std::shared_ptr<PeerLink> link = newcomer->second.link;
  Drop(id);
  if (taker == parts_.end() || (*taker)->on_link() == nullptr) return;
  opening->handed_on = true;
  opening->kept.push_back(std::move(first));
  const PeerNet::OnLink on_link = (*taker)->on_link();
  on_link(std::make_unique<Opened>(given_.loop, std::move(link), std::move(opening)));
}

// The link may be the one whose callback this is.
void FirstFrame::Drop(Id id) {
  auto newcomer = newcomers_.extract(id);
  if (!newcomer) return;
  if (newcomer.mapped().timer != 0) given_.loop.Cancel(newcomer.mapped().timer);
  given_.loop.Post([link = std::move(newcomer.mapped().link)] {});
}

}  // namespace cairn
