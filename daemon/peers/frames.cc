#include "daemon/peers/frames.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "storage/base/ids.h"
#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/place/arbiter/lease_series.h"

namespace cairn::frames {
namespace {

absl::Status CheckNode(std::string_view node, std::string_view field) {
  // A cache's identity has the form of a run's.
  if (!RunId::Parse(node).ok()) return InvalidArgument("{}: {} is no node, 32 hex digits", field, Quoted(node));
  return absl::OkStatus();
}

absl::Status CheckText(std::string_view text, std::size_t bytes_max, std::string_view field) {
  if (text.size() > bytes_max) return InvalidArgument("{}: {} bytes, at most {}", field, text.size(), bytes_max);
  const bool control = std::ranges::any_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (control) return InvalidArgument("{}: {} has control characters", field, Quoted(text));
  return absl::OkStatus();
}

absl::Status CheckFilled(std::string_view text, std::size_t bytes_max, std::string_view field) {
  if (text.empty()) return InvalidArgument("{}: empty", field);
  return CheckText(text, bytes_max, field);
}

absl::Status CheckCount(int count, std::size_t max, std::string_view field) {
  if (static_cast<std::size_t>(count) <= max) return absl::OkStatus();
  return InvalidArgument("{}: {} entries, at most {}", field, count, max);
}

absl::Status CheckEpoch(std::uint64_t epoch, std::string_view field) {
  if (epoch <= lease_series::kEpochMax) return absl::OkStatus();
  return InvalidArgument("{}: {}, at most {}", field, epoch, lease_series::kEpochMax);
}

absl::StatusOr<GoneMember> ToGone(const peer::Gone& message, std::string_view field) {
  CAIRN_RETURN_IF_ERROR(CheckNode(message.node(), fmt::format("{}.node", field)));
  GoneMember gone{.node = message.node(), .incarnation = message.incarnation(), .why = GoneWhy::kLost};
  switch (message.why()) {
    case peer::Gone::LOST:
      return gone;
    case peer::Gone::LEFT:
      gone.why = GoneWhy::kLeft;
      return gone;
    default:
      return InvalidArgument("{}.why: {} is not known", field, static_cast<int>(message.why()));
  }
}

peer::Gone From(const GoneMember& gone) {
  peer::Gone message;
  message.set_node(gone.node);
  message.set_incarnation(gone.incarnation);
  message.set_why(gone.why == GoneWhy::kLeft ? peer::Gone::LEFT : peer::Gone::LOST);
  return message;
}

template <typename Messages, typename Convert>
auto ToList(const Messages& messages, std::string_view field, Convert convert)
    -> absl::StatusOr<std::vector<typename decltype(convert(messages[0], field))::value_type>> {
  CAIRN_RETURN_IF_ERROR(CheckCount(messages.size(), kListMax, field));
  std::vector<typename decltype(convert(messages[0], field))::value_type> list;
  list.reserve(messages.size());
  for (int i = 0; i < messages.size(); ++i) {
    CAIRN_ASSIGN_OR_RETURN(auto value, convert(messages[i], fmt::format("{}[{}]", field, i)));
    list.push_back(std::move(value));
  }
  return list;
}

absl::StatusOr<TableEntry> ToEntry(const peer::Entry& message, std::string_view field) {
  CAIRN_ASSIGN_OR_RETURN(Member member, ToMember(message.member(), fmt::format("{}.member", field)));
  return TableEntry{.member = std::move(member), .missing = message.missing()};
}

// How many of a list go into frame number `i`.
std::pair<std::size_t, std::size_t> Part(std::size_t i, std::size_t size) {
  return {std::min(i * kListMax, size), std::min((i + 1) * kListMax, size)};
}

std::size_t FramesFor(std::size_t a, std::size_t b) {
  return std::max<std::size_t>(1, (std::max(a, b) + kListMax - 1) / kListMax);
}

}  // namespace

absl::StatusOr<Member> ToMember(const peer::Member& message, std::string_view field) {
  CAIRN_RETURN_IF_ERROR(CheckNode(message.node(), fmt::format("{}.node", field)));
  CAIRN_RETURN_IF_ERROR(CheckFilled(message.host(), kHostBytesMax, fmt::format("{}.host", field)));
  CAIRN_RETURN_IF_ERROR(CheckFilled(message.address(), kAddressBytesMax, fmt::format("{}.address", field)));
  CAIRN_RETURN_IF_ERROR(CheckText(message.group(), kHostBytesMax, fmt::format("{}.group", field)));
  if (message.since_us() < 0) return InvalidArgument("{}.since_us: {} is before 1970", field, message.since_us());
  const peer::Summary& summary = message.summary();
  return Member{.node = message.node(),
                .incarnation = message.incarnation(),
                .revision = message.revision(),
                .host = message.host(),
                .address = message.address(),
                .since_us = message.since_us(),
                .summary = {.datasets = summary.datasets(),
                            .bytes = summary.bytes(),
                            .sessions = summary.sessions(),
                            .newest_dataset = summary.newest_dataset()},
                .group = message.group()};
}

absl::StatusOr<CoordinatorName> ToCoordinator(const peer::Coordinator& message, std::string_view field) {
  CAIRN_RETURN_IF_ERROR(CheckEpoch(message.epoch(), fmt::format("{}.epoch", field)));
  if (message.epoch() == 0) return CoordinatorName();
  CAIRN_RETURN_IF_ERROR(CheckNode(message.node(), fmt::format("{}.node", field)));
  CAIRN_RETURN_IF_ERROR(CheckFilled(message.host(), kHostBytesMax, fmt::format("{}.host", field)));
  CAIRN_RETURN_IF_ERROR(CheckFilled(message.address(), kAddressBytesMax, fmt::format("{}.address", field)));
  return CoordinatorName{.epoch = message.epoch(),
                         .node = message.node(),
                         .incarnation = message.incarnation(),
                         .host = message.host(),
                         .address = message.address()};
}

absl::StatusOr<Place> ToPlace(const peer::Place& message, std::string_view field) {
  Place place{.coordinator = {}, .path = {}, .attached = message.attached()};
  CAIRN_ASSIGN_OR_RETURN(place.coordinator, ToCoordinator(message.coordinator(), fmt::format("{}.coordinator", field)));
  CAIRN_RETURN_IF_ERROR(CheckCount(message.path_size(), kPathMax, fmt::format("{}.path", field)));
  for (const std::string& node : message.path()) {
    CAIRN_RETURN_IF_ERROR(CheckNode(node, fmt::format("{}.path", field)));
    place.path.push_back(node);
  }
  if (place.attached && place.coordinator.epoch == 0) {
    return InvalidArgument("{}.attached: there is no coordinator", field);
  }
  return place;
}

absl::StatusOr<BelowChange> ToBelow(const peer::Below& message) {
  BelowChange change;
  CAIRN_ASSIGN_OR_RETURN(change.now, ToList(message.now(), "below.now", ToMember));
  CAIRN_ASSIGN_OR_RETURN(change.gone, ToList(message.gone(), "below.gone", ToGone));
  return change;
}

absl::StatusOr<TablePart> ToTable(const peer::Table& message) {
  CAIRN_RETURN_IF_ERROR(CheckEpoch(message.epoch(), "table.epoch"));
  if (message.epoch() == 0) return InvalidArgument("table.epoch: 0");
  TablePart part{.epoch = message.epoch(),
                 .version = message.version(),
                 .whole = message.whole(),
                 .more = message.more(),
                 .gathers = message.gathers(),
                 .change = {}};
  CAIRN_ASSIGN_OR_RETURN(part.change.entries, ToList(message.entries(), "table.entries", ToEntry));
  CAIRN_ASSIGN_OR_RETURN(part.change.gone, ToList(message.gone(), "table.gone", ToGone));
  return part;
}

absl::StatusOr<std::vector<Member>> ToJoined(const peer::Join& message) {
  CAIRN_RETURN_IF_ERROR(CheckEpoch(message.epoch(), "join.epoch"));
  CAIRN_ASSIGN_OR_RETURN(Member self, ToMember(message.self(), "join.self"));
  if (message.height() > kPathMax) return InvalidArgument("join.height: {}, at most {}", message.height(), kPathMax);
  CAIRN_ASSIGN_OR_RETURN(std::vector<Member> members, ToList(message.below(), "join.below", ToMember));
  if (message.members_below() < members.size()) {
    return InvalidArgument("join.members_below: {}, but {} are named", message.members_below(), members.size());
  }
  for (const Member& member : members) {
    if (member.node == self.node) return InvalidArgument("join.below: {} is below itself", member.node);
  }
  members.insert(members.begin(), std::move(self));
  return members;
}

absl::Status Check(const peer::Elsewhere& message) {
  CAIRN_RETURN_IF_ERROR(CheckText(message.address(), kAddressBytesMax, "elsewhere.address"));
  return CheckText(message.text(), kTextBytesMax, "elsewhere.text");
}

// --- To messages ---

peer::Member From(const Member& member) {
  peer::Member message;
  message.set_node(member.node);
  message.set_incarnation(member.incarnation);
  message.set_revision(member.revision);
  message.set_host(member.host);
  message.set_address(member.address);
  message.set_since_us(member.since_us);
  message.set_group(member.group);
  peer::Summary& summary = *message.mutable_summary();
  summary.set_datasets(member.summary.datasets);
  summary.set_bytes(member.summary.bytes);
  summary.set_sessions(member.summary.sessions);
  summary.set_newest_dataset(member.summary.newest_dataset);
  return message;
}

peer::Coordinator From(const CoordinatorName& name) {
  peer::Coordinator message;
  message.set_epoch(name.epoch);
  message.set_node(name.node);
  message.set_incarnation(name.incarnation);
  message.set_host(name.host);
  message.set_address(name.address);
  return message;
}

peer::Place From(const Place& place) {
  peer::Place message;
  if (place.coordinator.epoch != 0) *message.mutable_coordinator() = From(place.coordinator);
  for (const NodeId& node : place.path) message.add_path(node);
  message.set_attached(place.attached);
  return message;
}

peer::Frame Welcome(const Place& place) {
  peer::Frame frame;
  *frame.mutable_welcome()->mutable_place() = From(place);
  return frame;
}

std::vector<peer::Frame> Join(std::uint64_t epoch, const Member& self, std::uint32_t height,
                              std::vector<Member> below) {
  std::vector<peer::Frame> list(1);
  peer::Join& join = *list[0].mutable_join();
  join.set_epoch(epoch);
  *join.mutable_self() = From(self);
  join.set_height(height);
  join.set_members_below(static_cast<std::uint32_t>(below.size()));
  const auto with_it = static_cast<std::ptrdiff_t>(std::min(below.size(), kListMax));
  std::for_each(below.begin(), below.begin() + with_it, [&join](const Member& m) { *join.add_below() = From(m); });
  below.erase(below.begin(), below.begin() + with_it);
  if (!below.empty()) std::ranges::move(Below({.now = std::move(below), .gone = {}}), std::back_inserter(list));
  return list;
}

std::vector<peer::Frame> Below(const BelowChange& change) {
  std::vector<peer::Frame> list(FramesFor(change.now.size(), change.gone.size()));
  for (std::size_t i = 0; i < list.size(); ++i) {
    peer::Below& below = *list[i].mutable_below();
    const auto [now, now_end] = Part(i, change.now.size());
    for (std::size_t k = now; k < now_end; ++k) *below.add_now() = From(change.now[k]);
    const auto [gone, gone_end] = Part(i, change.gone.size());
    for (std::size_t k = gone; k < gone_end; ++k) *below.add_gone() = From(change.gone[k]);
  }
  return list;
}

std::vector<peer::Frame> Table(std::uint64_t epoch, std::uint64_t version, bool whole, const TableChange& change,
                               bool gathers) {
  std::vector<peer::Frame> list(FramesFor(change.entries.size(), change.gone.size()));
  for (std::size_t i = 0; i < list.size(); ++i) {
    peer::Table& table = *list[i].mutable_table();
    table.set_epoch(epoch);
    table.set_version(version);
    table.set_gathers(gathers);
    table.set_whole(whole && i == 0);
    table.set_more(i + 1 < list.size());
    const auto [first, end] = Part(i, change.entries.size());
    for (std::size_t k = first; k < end; ++k) {
      peer::Entry& entry = *table.add_entries();
      *entry.mutable_member() = From(change.entries[k].member);
      entry.set_missing(change.entries[k].missing);
    }
    const auto [gone, gone_end] = Part(i, change.gone.size());
    for (std::size_t k = gone; k < gone_end; ++k) *table.add_gone() = From(change.gone[k]);
  }
  return list;
}

std::vector<peer::Frame> WholeTable(const MemberTable& table, const std::vector<GoneMember>& left) {
  TableChange all{.entries = {}, .gone = left};
  for (const auto& [node, entry] : table.entries) all.entries.push_back(entry);
  return Table(table.epoch, table.version, /*whole=*/true, all, table.gathers);
}

peer::Frame Elsewhere(peer::Elsewhere::Why why, std::string_view text, const CoordinatorName& coordinator,
                      const std::string& address) {
  peer::Frame frame;
  peer::Elsewhere& elsewhere = *frame.mutable_elsewhere();
  elsewhere.set_why(why);
  elsewhere.set_address(address);
  if (!coordinator.node.empty()) *elsewhere.mutable_coordinator() = From(coordinator);
  elsewhere.set_text(lease_series::Cleaned(text, kTextBytesMax));
  return frame;
}

}  // namespace cairn::frames
