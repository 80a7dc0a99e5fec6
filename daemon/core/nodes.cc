#include "daemon/core/nodes.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

#include "daemon/bulk/net.h"
#include "daemon/config/peer_address.h"
#include "daemon/core/holdings.h"
#include "storage/base/status.h"
#include "storage/place/names.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {
namespace {

constexpr std::uint32_t kDoublingsMax = 20;  // of the pause before it is tried again
constexpr Questions::Patience kForPeople{.each = std::chrono::seconds(2), .total = std::chrono::seconds(10)};
constexpr std::chrono::seconds kForTheTable(5), kForANode(2);
constexpr int kTermsToTakeOver = 2;  // from a coordinator that is gone, until the next one knows who is there
constexpr std::chrono::milliseconds kLookEvery(20);
constexpr Questions::Patience kForRestarts{.each = std::chrono::seconds(2), .total = std::chrono::seconds(4)};
constexpr Questions::Patience kForSilent{.each = std::chrono::milliseconds(200), .total = std::chrono::seconds(1)};

std::string NameOf(const Member& member) {
  return fmt::format("{} ({})", member.host, member.address);
}

void FillRow(const TableEntry& entry, admin::NodeRow* row) {
  const Member& member = entry.member;
  row->set_node(member.node);
  row->set_host(member.host);
  row->set_address(member.address);
  row->set_since_us(member.since_us);
  row->set_missing(entry.missing);
  row->set_sessions(member.summary.sessions);
  row->set_datasets(member.summary.datasets);
  row->set_bytes(member.summary.bytes);
  row->set_newest_dataset(member.summary.newest_dataset);
}

absl::StatusOr<peer::Holdings> Checked(absl::StatusOr<peer::Answer> answer) {
  CAIRN_RETURN_IF_ERROR(answer.status());
  CAIRN_RETURN_IF_ERROR(Check(answer->holdings()));
  return std::move(*answer->mutable_holdings());
}

}  // namespace

// What the pool has done for it.
struct Nodes::Entered {
  PrefixGate::Visited visited;
  std::function<void()> join;
  void FailWith(absl::Status why) { visited.status = std::move(why); }
};

Nodes::Nodes(const Context& context, const Given& given, std::function<void()> on_left)
    : context_(context), given_(given), on_left_(std::move(on_left)) {}

bool Nodes::MayEnter() const {
  return context_.env.peers != nullptr && !context_.quiescing() && !given_.gate.replaced();
}

void Nodes::Update() {
  if (membership_) return membership_->UpdateSelf(Summary());
  if (out() && !entering_ && timer_ == 0 && MayEnter()) Enter();
}

void Nodes::Enter() {
  entering_ = true;
  auto enter = [visit = given_.gate.MakeVisitor(), peers = context_.env.peers, disk = &context_.env.prefix_disk,
                run = given_.run] {
    Entered entered;
    entered.visited = visit([&](Prefix& prefix) -> absl::Status {
      CAIRN_ASSIGN_OR_RETURN(entered.join, peers->Enter(*disk, prefix.path(), run));
      return absl::OkStatus();
    });
    return entered;
  };
  context_.OnPrefix(given_.gate.path(), std::move(enter), [this](Entered entered) {
    entering_ = false;
    Came(std::move(entered));
  });
}

void Nodes::Came(Entered entered) {
  given_.gate.VisitEnded(entered.visited);
  if (!MayEnter()) return;
  if (entered.visited.status.ok()) {
    entered.join();
    return Begin();
  }
  std::string why_not(MessageOf(entered.visited.status));
  if (why_not != why_not_) {
    context_.Warn(fmt::format("run {}: no links to its other nodes: {}", given_.run_name, why_not));
  }
  why_not_ = std::move(why_not);
  ++failed_;
  EnterLater();
}

void Nodes::EnterLater() {
  const Config::Flush& flush = context_.config.flush;
  const std::uint64_t pause_ms =
      std::min(flush.retry_ms_min << std::min(failed_ - 1, kDoublingsMax), flush.retry_ms_max);
  timer_ = context_.loop().After(std::chrono::milliseconds(pause_ms), [this] {
    timer_ = 0;
    Update();
  });
}

std::chrono::milliseconds Nodes::Term() const {
  return std::chrono::milliseconds(context_.config.peers.term_ms);
}

MembershipSettings Nodes::SettingsOf() const {
  const Config::Peers& peers = context_.config.peers;
  MembershipSettings settings;
  settings.term = Term();
  settings.fan_in = std::max<std::size_t>(peers.fan_in, 2);
  // Checked with the rest of the settings (ValidateConfig).
  const auto addresses = ParsePeerAddresses(peers.fixed);
  if (addresses.ok()) {
    for (const PeerAddress& address : *addresses) settings.peers.push_back(TextOf(address));
  }
  return settings;
}

OnArbiter Nodes::MakeOnArbiter() const {
  return [&context = context_, &gate = given_.gate](std::function<absl::Status(Arbiter&)> work,
                                                    std::function<void(const absl::Status&)> done) {
    if (!gate.writable() || gate.replaced()) {
      return context.loop().Post([done = std::move(done), status = gate.OutOfReach()] { done(status); });
    }
    context.OnPrefix(
        gate.path(), [prefix = gate.prefix(), work = std::move(work)] { return work(prefix->arbiter()); },
        std::move(done));
  };
}

void Nodes::Begin() {
  why_not_.clear();
  failed_ = 0;
  reached_.clear();
  silent_.clear();
  asking_silent_ = false;
  const MembershipSettings settings = SettingsOf();
  links_ = std::make_unique<FirstFrame>(FirstFrame::Given{
      .loop = context_.loop(), .net = context_.env.peers->net(), .run = given_.run, .silence = settings.silence()});
  questions_ =
      Questions::Make({.loop = context_.loop(), .net = links_->With(peer::Frame::kQuestion), .run = given_.run},
                      [this](const PeerIdentity&, const peer::Question& question, const Questions::Then& then) {
                        given_.answer(question, then);
                      });
  membership_ = Membership::Make(
      {.loop = context_.loop(),
       .clocks = context_.env.clocks,
       .net = links_->Others(),
       .on_arbiter = MakeOnArbiter(),
       .self = {.run = given_.run,
                .node = context_.cache_id,
                .incarnation = context_.incarnation,
                .host = context_.env.process.host,
                .since_us = context_.now_us(),
                .group = context_.config.redundancy.group},
       .settings = settings},
      {.on_table_change = [this](const TableChange& change) { TableChanged(change); },
       .on_coordinator_change = [this](const Membership::Coordinator& now) { CoordinatorChanged(now); },
       .warn = [this](std::string text) { context_.Warn(fmt::format("run {}: {}", given_.run_name, text)); }});
  relay_ = std::make_unique<Relay>(
      Relay::Given{.loop = context_.loop(),
                   .net = links_->With(peer::Frame::kAttach),
                   .self = {.run = given_.run, .node = context_.cache_id, .incarnation = context_.incarnation},
                   .settings = {.fan_in = context_.config.peers.fan_in},
                   .numbers = relay_numbers_});
  given_.serve_away(relay_.get());
  membership_->UpdateSelf(Summary());
  membership_->Start();
  context_.env.peers->bulk().Serve(given_.run, context_.env.cache_disk, given_.folder);
}

MemberSummary Nodes::Summary() const {
  MemberSummary summary;
  for (const auto& [id, dataset] : given_.ledger.InPlay()) {
    if (!dataset->in_cache()) continue;
    ++summary.datasets;
    summary.bytes += dataset->bytes_here();
    summary.newest_dataset = std::max(summary.newest_dataset, id);
  }
  const Launch* newest = given_.ledger.newest();
  if (newest != nullptr && newest->followed) summary.sessions = newest->live();
  if (newest != nullptr && newest->ours)
    summary.sessions = newest->live() - std::min(newest->live(), newest->elsewhere);
  return summary;
}

void Nodes::TableChanged(const TableChange& change) {
  for (const TableEntry& entry : change.entries) {
    reached_.erase(entry.member.node);
    silent_.erase(entry.member.node);
    // What changes in a summary is no news for people.
    if (!entry.missing) continue;
    spdlog::warn("run {}: node {} is missing", given_.run_name, NameOf(entry.member));
    if (relay_) relay_->IsMissing(entry.member.node);
  }
  for (const GoneMember& gone : change.gone) {
    reached_.erase(gone.node);
    silent_.erase(gone.node);
    if (relay_) relay_->IsMissing(gone.node);
    spdlog::info("run {}: node {} {}", given_.run_name, gone.node.substr(0, 8),
                 gone.why == GoneWhy::kLeft ? "has left" : "was lost");
  }
}

void Nodes::CoordinatorChanged(const Membership::Coordinator& coordinator) {
  const CoordinatorName& name = coordinator.name;
  if (coordinator.acting != acting_) {
    acting_ = coordinator.acting;
    spdlog::info("run {}: this daemon {} its nodes (epoch {})", given_.run_name,
                 acting_ ? "coordinates" : "no longer coordinates", name.epoch);
  } else if (!acting_ && coordinator.attached) {
    spdlog::info("run {}: {} ({}) coordinates its nodes (epoch {})", given_.run_name, name.host, name.address,
                 name.epoch);
  }
}

void Nodes::Leave() {
  if (timer_ != 0) context_.loop().Cancel(std::exchange(timer_, 0));
  if (!membership_) return;
  leaving_ = std::exchange(membership_, nullptr);
  acting_ = false;
  context_.env.peers->bulk().Unserve(given_.run);
  questions_->Stop();
  given_.serve_away(nullptr);
  relay_ = nullptr;
  leaving_->Stop(/*orderly=*/true, [this] {
    // It may still be on the stack.
    context_.loop().Post([this] {
      leaving_ = nullptr;
      questions_ = nullptr;
      links_ = nullptr;
      context_.env.peers->Leave(given_.run);
      on_left_();
    });
  });
}

void Nodes::Stop() {
  if (timer_ != 0) context_.loop().Cancel(std::exchange(timer_, 0));
  membership_ = nullptr;
  leaving_ = nullptr;
  questions_ = nullptr;
  if (relay_) given_.serve_away(nullptr);
  relay_ = nullptr;
  links_ = nullptr;
}

// --- Questions ---

admin::NodeAnswer Nodes::Own() const {
  const MemberSummary summary = Summary();
  admin::NodeAnswer own;
  own.set_name(context_.env.process.host);
  own.set_node(context_.cache_id);
  own.set_here(true);
  own.set_sessions(summary.sessions);
  own.set_datasets(summary.datasets);
  own.set_bytes(summary.bytes);
  own.set_newest_dataset(summary.newest_dataset);
  return own;
}

bool Nodes::has_others() const {
  if (!membership_) return false;
  const auto& entries = membership_->table().entries;
  return entries.size() > (entries.contains(context_.cache_id) ? 1u : 0u);
}

std::vector<Member> Nodes::Others(bool missing) const {
  std::vector<Member> others;
  if (!membership_) return others;
  for (const auto& [node, entry] : membership_->table().entries) {
    if (node != context_.cache_id && entry.missing == missing) others.push_back(entry.member);
  }
  return others;
}

void Nodes::AskOthers(const peer::Question& question, std::function<void(std::vector<Said> said)> then) {
  if (!has_others()) return context_.loop().Post([then = std::move(then)] { then({}); });
  std::map<NodeId, Said> all;
  for (const auto& [node, entry] : membership_->table().entries) {
    if (node == context_.cache_id) continue;
    all.emplace(node, Said{.node = entry, .answer = Unavailable("it is missing, no link leads to it just now")});
  }
  questions_->AskAll(Others(/*missing=*/false), question, kForPeople,
                     [all = std::move(all), then = std::move(then)](Questions::Answers answers) mutable {
                       for (auto& [member, answer] : answers) all.at(member.node).answer = std::move(answer);
                       std::vector<Said> said;
                       for (auto& [node, one] : all) said.push_back(std::move(one));
                       then(std::move(said));
                     });
}

void Nodes::Ask(const NodeId& node, const peer::Question& question, Questions::Then then) {
  const std::optional<Member> member = Find(node);
  if (member) return questions_->Ask(*member, question, kForPeople.total, std::move(then));
  context_.loop().Post([then = std::move(then)] { then(Unavailable("it is not among the run's nodes, or missing")); });
}

void Nodes::AskHoldings(std::function<void(Holdings holdings)> then) {
  struct Both {
    int left = 2;
    Holdings holdings, of_silent;
  };
  std::vector<Member> others = Others(/*missing=*/false), silent;
  const std::size_t there = others.size();
  for (Member& member : Others(/*missing=*/true)) {
    (silent_.contains(member.node) ? silent : others).push_back(std::move(member));
  }
  const auto both = std::make_shared<Both>();
  const auto ended = [both, then = std::move(then)] {
    if (--both->left > 0) return;
    std::ranges::move(both->of_silent, std::back_inserter(both->holdings));
    then(std::move(both->holdings));
  };
  AskHoldingsOf(std::move(others), there, kForRestarts, [both, ended](Holdings holdings) {
    both->holdings = std::move(holdings);
    ended();
  });
  AskHoldingsOf(std::move(silent), 0, kForSilent, [this, both, ended](Holdings holdings) {
    AskSilentAgain(holdings);
    both->of_silent = std::move(holdings);
    ended();
  });
}

// `there`: so many of the first ones are not missing.
void Nodes::AskHoldingsOf(std::vector<Member> members, std::size_t there, const Questions::Patience& patience,
                          std::function<void(Holdings holdings)> then) {
  if (members.empty()) return context_.loop().Post([then = std::move(then)] { then({}); });
  peer::Question question;
  question.mutable_holdings();
  questions_->AskAll(
      std::move(members), question, patience, [this, there, then = std::move(then)](Questions::Answers answers) {
        Holdings holdings;
        for (auto& [member, answer] : answers) {
          const bool missing = holdings.size() >= there;
          holdings.push_back({.member = std::move(member), .missing = missing, .holdings = Checked(std::move(answer))});
          if (missing) Heard(holdings.back());
        }
        then(std::move(holdings));
      });
}

// The link of one that is slow, not silent, ends before its answer each time: else it would never be heard again.
void Nodes::AskSilentAgain(const Holdings& told) {
  if (asking_silent_ || !membership_) return;
  std::vector<Member> silent;
  for (const Told& one : told) {
    if (absl::IsDeadlineExceeded(one.holdings.status())) silent.push_back(one.member);
  }
  if (silent.empty()) return;
  asking_silent_ = true;
  AskHoldingsOf(std::move(silent), 0, kForRestarts, [this](const Holdings&) { asking_silent_ = false; });
}

// Of one that is missing.
void Nodes::Heard(const Told& told) {
  const NodeId& node = told.member.node;
  if (told.holdings.ok()) {
    reached_.insert(node);
    silent_.erase(node);
  } else if (absl::IsDeadlineExceeded(told.holdings.status())) {
    silent_.insert(node);
  }
}

struct Nodes::Awaited {
  NodeId node;
  bool all = false;  // not only the node
  std::function<void(bool others_known)> then;
  SteadyTime began = {};
  std::optional<SteadyTime> node_until = {};  // since links lead to a coordinator whose table is here
  bool others_known = false;
};

void Nodes::WhenKnown(const NodeId& node, std::function<void()> then) {
  Await({.node = node, .all = false, .then = [then = std::move(then)](bool) { then(); }});
}

void Nodes::WhenAllKnown(const NodeId& node, std::function<void(bool others_known)> then) {
  Await({.node = node, .all = true, .then = std::move(then)});
}

void Nodes::Await(Awaited awaited) {
  Update();
  awaited.began = context_.now();
  const auto shared = std::make_shared<Awaited>(std::move(awaited));
  context_.loop().Post([this, shared] { LookForKnown(shared); });
}

void Nodes::LookForKnown(const std::shared_ptr<Awaited>& awaited) {
  if (!MayEnter() || timer_ != 0 || IsKnown(*awaited) || IsTooLate(*awaited)) {
    return awaited->then(awaited->others_known);
  }
  context_.loop().After(kLookEvery, [this, awaited] { LookForKnown(awaited); });
}

bool Nodes::IsTooLate(const Awaited& awaited) const {
  const SteadyTime now = context_.now();
  if (awaited.others_known) return now >= *awaited.node_until;
  const Membership::Knowledge knowledge = membership_ ? membership_->knowledge() : Membership::Knowledge::kNothing;
  const bool had_its_time = now >= awaited.began + kTermsToTakeOver * Term();
  if (awaited.all && knowledge == Membership::Knowledge::kSome) return now >= some_until_ || had_its_time;
  if (now < awaited.began + kForTheTable) return false;
  return !awaited.all || knowledge != Membership::Knowledge::kSoon || had_its_time;
}

bool Nodes::IsKnown(Awaited& awaited) {
  if (!membership_) return false;
  const Membership::Knowledge knowledge = membership_->knowledge();
  if (knowledge >= Membership::Knowledge::kSome && !awaited.node_until) {
    awaited.node_until = context_.now() + kForANode;
  }
  if (const std::uint64_t epoch = membership_->table().epoch;
      knowledge == Membership::Knowledge::kSome && std::exchange(some_epoch_, epoch) != epoch) {
    some_until_ = context_.now() + Term() / 2;
  }
  if (knowledge < (awaited.all ? Membership::Knowledge::kAll : Membership::Knowledge::kSome)) return false;
  awaited.others_known = true;
  if (awaited.node.empty() || awaited.node == context_.cache_id) return true;
  const TableEntry* const entry = EntryOf(awaited.node);
  return entry != nullptr && !entry->missing;
}

const TableEntry* Nodes::EntryOf(const NodeId& node) const {
  if (!membership_) return nullptr;
  const auto entry = membership_->table().entries.find(node);
  return entry == membership_->table().entries.end() ? nullptr : &entry->second;
}

std::optional<Member> Nodes::Find(const NodeId& node) const {
  const TableEntry* const entry = EntryOf(node);
  if (entry == nullptr || (entry->missing && !reached_.contains(node))) return std::nullopt;
  return entry->member;
}

std::optional<Member> Nodes::FindNamed(const NodeId& node) const {
  const TableEntry* const entry = EntryOf(node);
  return entry == nullptr ? std::nullopt : std::optional(entry->member);
}

void Nodes::DialHome(const Member& home, std::chrono::milliseconds deadline, PeerNet::Dialled done) {
  if (relay_) return relay_->Dial(home.node, home.address, deadline, std::move(done));
  context_.loop().Post([done = std::move(done)] { done(Unavailable("this daemon has no links to the run's nodes")); });
}

std::shared_ptr<Disk> Nodes::FilesOf(const Member& member) const {
  return context_.env.peers->bulk().DiskOf(given_.run, member.node, member.address);
}

admin::RunNodes Nodes::Describe() const {
  admin::RunNodes described;
  described.set_run(given_.run.Hex());
  described.set_prefix(given_.gate.path());
  if (!membership_) {
    described.set_alone(context_.env.peers == nullptr ? "peers.interface is not set"
                        : given_.gate.replaced()      ? "another run lives at its prefix"
                        : leaving_                    ? "it is just leaving them"
                        : !why_not_.empty()           ? why_not_
                                                      : "its prefix was not reached yet");
    return described;
  }
  const Membership::Coordinator coordinator = membership_->coordinator();
  described.set_epoch(coordinator.name.epoch);
  described.set_coordinator(coordinator.name.node);
  described.set_coordinator_host(coordinator.name.host);
  described.set_coordinator_address(coordinator.name.address);
  described.set_attached(coordinator.attached);
  for (const auto& [node, entry] : membership_->table().entries) {
    admin::NodeRow& row = *described.add_nodes();
    FillRow(entry, &row);
    row.set_here(node == context_.cache_id);
  }
  return described;
}

std::string FolderOnOtherNode(DatasetId dataset) {
  return "/" + RecordsFolderName(dataset);
}

}  // namespace cairn
