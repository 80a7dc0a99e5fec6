#include "daemon/peers/membership.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/peers/children.h"
#include "daemon/peers/frames.h"
#include "daemon/peers/gathering.h"
#include "daemon/peers/register.h"
#include "daemon/peers/tenure.h"
#include "daemon/peers/uplink.h"
#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::size_t kLeftMax = 64;  // so many of those who have left are remembered

CoordinatorName NameOf(const CoordinatorRecord& record) {
  return {.epoch = record.epoch,
          .node = record.node,
          .incarnation = record.incarnation,
          .host = record.host,
          .address = record.address};
}

// Adds those who have left.
void Remember(const std::vector<GoneMember>& gone, std::vector<GoneMember>& left) {
  for (const GoneMember& one : gone) {
    if (one.why != GoneWhy::kLeft || std::ranges::find(left, one) != left.end()) continue;
    if (left.size() == kLeftMax) left.erase(left.begin());
    left.push_back(one);
  }
}

class MembershipImpl final : public Membership {
 public:
  MembershipImpl(Given given, Reports reports);
  ~MembershipImpl() override { Abandon(); }

  void Start() override;
  void Stop(bool orderly, std::function<void()> done) override;
  const MemberTable& table() const override { return register_ ? register_->table() : table_; }
  Coordinator coordinator() const override;
  Knowledge knowledge() const override;
  void UpdateSelf(const MemberSummary& summary) override;

 private:
  using milliseconds = std::chrono::milliseconds;
  const MembershipSettings& settings() const { return given_.settings; }
  SteadyTime now() const { return given_.clocks.steady(); }
  Uplink::Reports UplinkReports();
  Children::Reports ChildrenReports();
  Tenure::Reports TenureReports();

  // --- Where we are ---
  CoordinatorName OwnName() const;
  CoordinatorName Newest() const;
  frames::Place place() const;
  void Learn(const CoordinatorName& name);
  void TellCoordinator();

  // --- Up ---
  std::vector<Member> Below() const;
  void OnPlace();
  void OnTable(const frames::TablePart& part);
  std::size_t CountNew(const std::vector<TableEntry>& entries) const;
  void RefuseTable();
  void OnUplinkEnd(const Uplink::End& end);
  void Seek();
  void TryUp(const std::string& first);
  void LeaveLimbo();

  // --- Down ---
  void OnBelow(const frames::BelowChange& change);
  void TellTable(const TableChange& change);

  // --- Coordinator ---
  void OnFound(const CoordinatorRecord& record);
  void OnSilent(const absl::Status& why);
  void OnHeld(std::uint64_t epoch, const Awaited& awaited);
  void OnLost(Tenure::Lost why, const absl::Status& status);
  bool HasAllOf(std::uint64_t epoch) const { return table().has_all() && table().epoch >= epoch; }
  Awaited Unknown(Awaited awaited, std::uint64_t epoch) const;
  KnownMembers MembersToTell(const Awaited& awaited) const;
  void Publish();
  void PublishLater();

  // --- This member ---
  void TellSelf();
  void SummaryLater();
  void Beat();
  void SetTimer(Loop::TimerId& timer, milliseconds delay, void (MembershipImpl::*then)());
  void ClearTimer(Loop::TimerId& timer);
  void Abandon();

  const Given given_;
  const Reports reports_;
  Member self_;
  MemberSummary summary_;  // the newest, to be told
  Tenure tenure_;
  Uplink uplink_;
  Children children_;

  CoordinatorName name_;        // of the newest epoch of which a name is known
  MemberTable table_;           // unless we coordinate
  frames::TablePart incoming_;  // parts so far
  bool table_refused_ = false;  // and none accepted since
  const std::shared_ptr<int> alive_ =
      std::make_shared<int>(0);            // what is still to run after a Stop does not outlive it
  std::optional<Register> register_;       // while we coordinate
  std::vector<GoneMember> left_;           // the last of those who have ended in good order
  std::vector<GoneMember> to_tell_;        // of these, former parents of whom nobody else may know
  std::optional<SteadyTime> limbo_since_;  // our parent has none
  std::size_t next_peer_ = 0;
  bool try_peer_ = false;  // what the lease says did not help
  bool silent_ = false, stopped_ = false;
  bool settling_ = false;  // a change waits to be published with those that follow
  Coordinator told_;
  Loop::TimerId beat_ = 0, publish_ = 0, summary_timer_ = 0, stop_timer_ = 0;
};

MembershipImpl::MembershipImpl(Given given, Reports reports)
    : given_(std::move(given)),
      reports_(std::move(reports)),
      self_{.node = given_.self.node,
            .incarnation = given_.self.incarnation,
            .revision = 1,
            .host = given_.self.host,
            .address = "",
            .since_us = given_.self.since_us,
            .summary = {},
            .group = given_.self.group},
      tenure_({.loop = given_.loop,
               .clocks = given_.clocks,
               .on_arbiter = given_.on_arbiter,
               .self = {.run = given_.self.run,
                        .epoch = 0,
                        .counter = 0,
                        .node = given_.self.node,
                        .incarnation = given_.self.incarnation,
                        .host = given_.self.host,
                        .address = "",
                        .term_ms = static_cast<std::uint64_t>(given_.settings.term.count())},
               .address = [this] { return given_.net.address(); },
               .besides = [this](Awaited awaited, std::uint64_t epoch) { return Unknown(std::move(awaited), epoch); },
               .members = [this](const Awaited& awaited) { return MembersToTell(awaited); }},
              TenureReports()),
      uplink_({.loop = given_.loop,
               .clocks = given_.clocks,
               .net = given_.net,
               .run = given_.self.run,
               .self = given_.self.node,
               .deadline = given_.settings.term / 4,
               .silence = given_.settings.silence(),
               .depth_max = given_.settings.depth_max},
              UplinkReports()),
      children_({.loop = given_.loop,
                 .clocks = given_.clocks,
                 .run = given_.self.run,
                 .self = given_.self.node,
                 .silence = given_.settings.silence(),
                 .fan_in = given_.settings.fan_in,
                 .depth_max = given_.settings.depth_max,
                 .members_max = given_.settings.members_max},
                ChildrenReports()) {
  CAIRN_CHECK(settings().fan_in >= 2);
  CAIRN_CHECK(settings().depth_max >= 1 && settings().depth_max <= frames::kPathMax);
}

Tenure::Reports MembershipImpl::TenureReports() {
  return {.on_found = [this](const CoordinatorRecord& record) { OnFound(record); },
          .on_silent = [this](const absl::Status& why) { OnSilent(why); },
          .on_held = [this](std::uint64_t epoch, const Awaited& awaited) { OnHeld(epoch, awaited); },
          .on_lost = [this](Tenure::Lost why, const absl::Status& status) { OnLost(why, status); },
          .on_acting = [this] { TellCoordinator(); }};
}

Uplink::Reports MembershipImpl::UplinkReports() {
  return {.join = [this] { return frames::Join(Newest().epoch, self_, children_.height(), Below()); },
          .let_go_below = [this] { children_.LetGo(peer::Elsewhere::UNATTACHED, "the tree would be too deep"); },
          .coordinator = [this] { return Newest(); },
          .on_place = [this] { OnPlace(); },
          .on_table = [this](const frames::TablePart& part) { OnTable(part); },
          .on_end = [this](const Uplink::End& end) { OnUplinkEnd(end); }};
}

Children::Reports MembershipImpl::ChildrenReports() {
  return {.place = [this] { return place(); },
          .address = [this] { return given_.net.address(); },
          .table = [this] { return frames::WholeTable(table(), left_); },
          .on_below = [this](const frames::BelowChange& change) { OnBelow(change); },
          .on_newer =
              [this](std::uint64_t epoch) {
                // Members wait for their parents' word; a coordinator has none above it.
                if (tenure_.holds()) tenure_.Heard(epoch);
              }};
}

// --- Start, stop, timers ---

void MembershipImpl::SetTimer(Loop::TimerId& timer, milliseconds delay, void (MembershipImpl::*then)()) {
  ClearTimer(timer);
  timer = given_.loop.After(std::max(delay, milliseconds(1)), [this, &timer, then] {
    timer = 0;
    (this->*then)();
  });
}

void MembershipImpl::ClearTimer(Loop::TimerId& timer) {
  if (timer != 0) given_.loop.Cancel(std::exchange(timer, 0));
}

void MembershipImpl::Start() {
  self_.address = given_.net.address();
  given_.net.Serve(given_.self.run, [this](std::unique_ptr<PeerLink> link) { children_.OnLink(std::move(link)); });
  SetTimer(beat_, settings().beat(), &MembershipImpl::Beat);
  tenure_.Look();
}

// As if this daemon had died, unless something was said before.
void MembershipImpl::Abandon() {
  if (!stopped_) given_.net.Serve(given_.self.run, nullptr);
  stopped_ = true;
  for (Loop::TimerId* timer : {&beat_, &publish_, &summary_timer_, &stop_timer_}) ClearTimer(*timer);
  tenure_.Abandon();
  uplink_.Leave();
  children_.Stop(std::nullopt);
}

void MembershipImpl::Stop(bool orderly, std::function<void()> done) {
  CAIRN_CHECK(!stopped_);
  if (!orderly) {
    Abandon();
    return given_.loop.Post(std::move(done));
  }
  stopped_ = true;
  given_.net.Serve(given_.self.run, nullptr);
  for (Loop::TimerId* timer : {&beat_, &publish_, &summary_timer_}) ClearTimer(*timer);
  // First the lease, then the word: who hears it and looks finds that the lease has ended.
  auto finish = [this, alive = std::weak_ptr(alive_), finished = std::make_shared<bool>(false),
                 done = std::move(done)] {
    if (alive.expired() || std::exchange(*finished, true)) return;
    ClearTimer(stop_timer_);
    peer::Frame leave;
    leave.mutable_leave();
    uplink_.Leave({leave});
    children_.Stop(frames::Elsewhere(peer::Elsewhere::STOPS, "ends in good order", Newest()));
    given_.loop.Post(done);
  };
  stop_timer_ = given_.loop.After(settings().term / 2, [this, finish] {
    stop_timer_ = 0;
    finish();
  });
  tenure_.End(finish);
}

void MembershipImpl::Beat() {
  SetTimer(beat_, settings().beat(), &MembershipImpl::Beat);
  if (self_.address != given_.net.address()) TellSelf();
  uplink_.Beat(children_.height());
  children_.Beat();
  LeaveLimbo();
}

// --- Where we are ---

CoordinatorName MembershipImpl::OwnName() const {
  return {.epoch = tenure_.epoch(),
          .node = self_.node,
          .incarnation = self_.incarnation,
          .host = self_.host,
          .address = given_.net.address()};
}

// Of the newest epoch that is known, even if nobody has said who that is.
CoordinatorName MembershipImpl::Newest() const {
  if (tenure_.holds()) return OwnName();
  if (name_.epoch >= tenure_.known()) return name_;
  CoordinatorName unnamed;
  unnamed.epoch = tenure_.known();
  return unnamed;
}

frames::Place MembershipImpl::place() const {
  if (tenure_.holds()) return {.coordinator = OwnName(), .path = {}, .attached = true};
  if (uplink_.attached()) return uplink_.place();
  return {.coordinator = name_, .path = {}, .attached = false};
}

Membership::Coordinator MembershipImpl::coordinator() const {
  const frames::Place here = place();
  return {.name = here.coordinator, .attached = here.attached, .acting = tenure_.acting()};
}

Membership::Knowledge MembershipImpl::knowledge() const {
  const frames::Place here = place();
  if (here.attached && table().epoch == here.coordinator.epoch) {
    return table().gathers ? Knowledge::kSome : Knowledge::kAll;
  }
  if (here.attached) return Knowledge::kSoon;  // its table is on the way
  // Who has had the newest coordinator's table, with all members, goes by that one.
  return !HasAllOf(tenure_.known()) && tenure_.expects_one() ? Knowledge::kSoon : Knowledge::kNothing;
}

void MembershipImpl::Learn(const CoordinatorName& name) {
  if (name.epoch >= name_.epoch) name_ = name;
  tenure_.Heard(name.epoch);
}

void MembershipImpl::TellCoordinator() {
  if (stopped_) return;
  const Coordinator is = coordinator();
  if (is == told_) return;
  told_ = is;
  reports_.on_coordinator_change(is);
}

// --- Up ---

void MembershipImpl::OnPlace() {
  if (stopped_) return;
  limbo_since_.reset();
  if (uplink_.attached()) {
    Learn(uplink_.place().coordinator);
    tenure_.StopLooking();
    try_peer_ = silent_ = false;
    if (!uplink_.place().attached) limbo_since_ = now();
    if (!to_tell_.empty()) uplink_.Send(frames::Below({.now = {}, .gone = std::exchange(to_tell_, {})}));
  }
  children_.TellPlace();
  TellCoordinator();
}

// A parent that looks for one of its own keeps those below it together. But not for ever: it may be cut off, and they
// may not.
void MembershipImpl::LeaveLimbo() {
  if (!limbo_since_ || now() < *limbo_since_ + 3 * settings().term) return;
  uplink_.Leave();
  Seek();
}

void MembershipImpl::OnUplinkEnd(const Uplink::End& end) {
  if (stopped_) return;
  spdlog::debug("run {}: {}", given_.self.run.ShortHex(), MessageOf(end.status));
  if (end.left) {
    Remember({*end.left}, left_);
    Remember({*end.left}, to_tell_);
  }
  if (end.newer) Learn(*end.newer);
  try_peer_ = !end.was_attached && !try_peer_;
  Seek();
  if (end.newer && !tenure_.holds()) uplink_.Try(end.newer->address);
}

void MembershipImpl::Seek() {
  limbo_since_.reset();
  tenure_.Look();
  children_.TellPlace();
  TellCoordinator();
}

// Whoever holds the lease; and if that leads nowhere, somebody who was named in the settings.
void MembershipImpl::TryUp(const std::string& first) {
  if (!uplink_.idle()) return;
  const auto& peers = settings().peers;
  if (!peers.empty() && (try_peer_ || first.empty())) return uplink_.Try(peers[next_peer_++ % peers.size()]);
  if (!first.empty()) uplink_.Try(first);
}

void MembershipImpl::OnTable(const frames::TablePart& part) {
  if (part.whole) incoming_ = {};
  incoming_.whole = incoming_.whole || part.whole;
  std::ranges::copy(part.change.entries, std::back_inserter(incoming_.change.entries));
  std::ranges::copy(part.change.gone, std::back_inserter(incoming_.change.gone));
  if (incoming_.change.entries.size() > settings().members_max ||
      incoming_.change.gone.size() > settings().members_max) {
    incoming_ = {};
    return RefuseTable();
  }
  if (part.more) return;
  frames::TablePart all = std::exchange(incoming_, {});
  if (!all.whole && table_.entries.size() + CountNew(all.change.entries) > settings().members_max) {
    return RefuseTable();
  }
  TableChange change;
  if (all.whole) {
    MemberTable next;
    Remember(all.change.gone, left_);
    Apply({.entries = std::move(all.change.entries), .gone = {}}, next);
    change = ChangeBetween(table_, next);
    for (GoneMember& gone : change.gone) {
      const GoneMember left{.node = gone.node, .incarnation = gone.incarnation, .why = GoneWhy::kLeft};
      if (std::ranges::find(left_, left) != left_.end()) gone.why = GoneWhy::kLeft;
    }
    table_ = std::move(next);
  } else {
    change = Apply(std::move(all.change), table_);
  }
  table_.epoch = part.epoch;
  table_.version = part.version;
  table_.gathers = part.gathers;
  table_refused_ = false;
  TellTable(change);
  // Somebody has said that this member is gone, or the table is older than its Join.
  if (uplink_.attached() && !table_.entries.contains(self_.node)) TellSelf();
}

std::size_t MembershipImpl::CountNew(const std::vector<TableEntry>& entries) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      entries, [this](const TableEntry& entry) { return !table_.entries.contains(entry.member.node); }));
}

void MembershipImpl::RefuseTable() {
  if (!std::exchange(table_refused_, true)) {
    reports_.warn(fmt::format("a table of more than {} members was refused", settings().members_max));
  }
  uplink_.Leave();
  Seek();
}

// --- Down ---

std::vector<Member> MembershipImpl::Below() const {
  std::vector<Member> below;
  for (const auto& [node, member] : children_.below()) below.push_back(member);
  return below;
}

void MembershipImpl::TellTable(const TableChange& change) {
  Remember(change.gone, left_);
  children_.Send(frames::Table(table().epoch, table().version, /*whole=*/false, change, table().gathers));
  if (!change.empty() && !stopped_) reports_.on_table_change(change);
}

void MembershipImpl::OnBelow(const frames::BelowChange& change) {
  if (stopped_) return;
  if (!register_) return uplink_.Send(frames::Below(change));
  register_->Change(change, now());
  tenure_.MembersChanged();
  PublishLater();
}

// --- Coordinator ---

void MembershipImpl::OnFound(const CoordinatorRecord& record) {
  silent_ = false;
  Learn(NameOf(record));
  TellCoordinator();
  TryUp(record.address);
}

// Whoever cannot read the lease cannot take over; but it needs no lease to be below somebody.
void MembershipImpl::OnSilent(const absl::Status& why) {
  if (!std::exchange(silent_, true)) {
    reports_.warn(fmt::format("who coordinates its nodes cannot be looked up: {}", MessageOf(why)));
  }
  TryUp(name_.address);
}

void MembershipImpl::OnHeld(std::uint64_t epoch, const Awaited& awaited) {
  if (stopped_) return;
  uplink_.Leave();
  limbo_since_.reset();
  incoming_ = {};
  silent_ = try_peer_ = false;
  name_ = OwnName();
  MemberTable known = table();
  register_.emplace(Register::Given{settings().missing_after(), settings().gone_after()}, std::move(known), awaited,
                    epoch, self_, now());
  register_->Change({.now = Below(), .gone = std::exchange(to_tell_, {})}, now());
  children_.TellPlace();
  Publish();
}

void MembershipImpl::OnLost(Tenure::Lost why, const absl::Status& status) {
  if (register_) table_ = register_->table();
  register_.reset();
  ClearTimer(publish_);
  reports_.warn(fmt::format("this daemon coordinates its nodes no more: {}", MessageOf(status)));
  // Others may reach the arbiter, but look only if they have no parent.
  if (why == Tenure::Lost::kSilent) children_.LetGo(peer::Elsewhere::UNATTACHED, "the lease could not be renewed");
  Seek();
}

Awaited MembershipImpl::Unknown(Awaited awaited, std::uint64_t epoch) const {
  if (!HasAllOf(epoch)) return awaited;
  std::vector<NodeId> known;
  for (const auto& [node, entry] : table().entries) known.push_back(node);
  for (const GoneMember& left : left_) known.push_back(left.node);
  return Besides(std::move(awaited), known);
}

KnownMembers MembershipImpl::MembersToTell(const Awaited& awaited) const {
  if (register_) return register_->MembersToTell();
  std::vector<NodeId> known;
  for (const auto& [node, entry] : table_.entries) known.push_back(node);
  return cairn::MembersToTell(self_.node, known, awaited);
}

void MembershipImpl::Publish() {
  if (!register_) return;
  settling_ = false;
  TellTable(register_->Publish(now()));
  PublishLater();
}

// The first of several changes sets the time.
void MembershipImpl::PublishLater() {
  if (!register_ || settling_) return;
  settling_ = register_->changed();
  if (settling_) return SetTimer(publish_, settings().settle, &MembershipImpl::Publish);
  ClearTimer(publish_);
  if (const auto next = register_->next()) {
    SetTimer(publish_, std::chrono::ceil<milliseconds>(*next - now()), &MembershipImpl::Publish);
  }
}

// --- This member ---

void MembershipImpl::UpdateSelf(const MemberSummary& summary) {
  summary_ = summary;
  if (summary_timer_ == 0 && !stopped_) SummaryLater();
}

void MembershipImpl::SummaryLater() {
  if (summary_ == self_.summary) return;
  SetTimer(summary_timer_, settings().summary_pause, &MembershipImpl::SummaryLater);
  TellSelf();
}

void MembershipImpl::TellSelf() {
  ++self_.revision;
  self_.address = given_.net.address();
  self_.summary = summary_;
  if (register_) {
    register_->SetSelf(self_);
    return PublishLater();
  }
  uplink_.Send(frames::Below({.now = {self_}, .gone = {}}));
}

}  // namespace

std::unique_ptr<Membership> Membership::Make(Given given, Reports reports) {
  return std::make_unique<MembershipImpl>(std::move(given), std::move(reports));
}

}  // namespace cairn
