#include "storage/place/prefix/coordinator_lease.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/base/status.h"
#include "storage/format/kvtree/tree.h"

namespace cairn {

using std::chrono::milliseconds;

namespace coordinator_lease {
namespace {

using lease_series::Cleaned;
using State = CoordinatorRecord::State;

constexpr std::string_view kStem = "coordinator";
constexpr char kCoordinated[] = "coordinated";

constexpr std::array<std::pair<State, std::string_view>, 3> kStates = {{
    {State::kTaking, "TAKING"},
    {State::kLive, "LIVE"},
    {State::kEnded, "ENDED"},
}};

void PutMembers(const KnownMembers& members, kvtree::Tree& tree) {
  if (members.count == 0) return;
  tree.Set("MEMBERS", std::uint64_t{std::min(members.count, kMembersMax)});
  if (members.others.empty() || members.others.size() > kOthersMax) return;
  std::string others;
  for (const std::string& node : members.others) others += Cleaned(node, kShortNodeBytes);
  tree.Set("OTHERS", others);
}

// What cannot be read of it says no more than what is not there.
KnownMembers MembersOf(const kvtree::Tree& tree) {
  const auto count = tree.GetUnsigned("MEMBERS");
  if (!count.ok() || *count > kMembersMax) return {};
  KnownMembers members{.count = static_cast<std::uint32_t>(*count), .others = {}};
  const std::string others(tree.Get("OTHERS").value_or(""));
  if (members.count == 1 && !others.empty()) return {};  // nobody is alone on such a word
  const bool of_hex = others.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (others.size() > kOthersMax * kShortNodeBytes || !of_hex) return members;
  for (std::size_t at = 0; at < others.size(); at += kShortNodeBytes) {
    members.others.insert(others.substr(at, kShortNodeBytes));
  }
  // All of them, or it does not say who they are.
  if (members.others.size() + 1 != members.count) members.others.clear();
  return members;
}

absl::StatusOr<std::string> Encode(const CoordinatorRecord& record) {
  const std::string name = NameOf(record.epoch);
  if (record.term_ms == 0 || record.term_ms > static_cast<std::uint64_t>(kTermMax.count())) {
    return InvalidArgument("{}: a term of {} ms", name, record.term_ms);
  }
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  tree.Set("RUN", record.run.Hex());
  tree.Set("EPOCH", record.epoch);
  tree.Set("COUNTER", record.counter);
  tree.Set("NODE", Cleaned(record.node, kNodeBytesMax));
  tree.Set("INCARNATION", record.incarnation);
  tree.Set("HOST", Cleaned(record.host, kHostBytesMax));
  tree.Set("ADDRESS", Cleaned(record.address, kAddressBytesMax));
  tree.Set("TERM", record.term_ms);
  tree.Set("STATE", std::ranges::find(kStates, record.state, &decltype(kStates)::value_type::first)->second);
  PutMembers(record.members, tree);
  return lease_series::Pack(name, tree);
}

absl::StatusOr<CoordinatorRecord> FromTree(const kvtree::Tree& tree) {
  CoordinatorRecord record;
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t version, tree.GetUnsigned("VERSION"));
  if (version != 1) return FailedPrecondition("VERSION {}, this program knows 1", version);
  CAIRN_ASSIGN_OR_RETURN(const std::string run, tree.GetString("RUN"));
  CAIRN_ASSIGN_OR_RETURN(record.run, RunId::Parse(run));
  CAIRN_ASSIGN_OR_RETURN(record.epoch, tree.GetUnsigned("EPOCH"));
  CAIRN_ASSIGN_OR_RETURN(record.counter, tree.GetUnsigned("COUNTER"));
  CAIRN_ASSIGN_OR_RETURN(record.node, tree.GetString("NODE"));
  CAIRN_ASSIGN_OR_RETURN(record.incarnation, tree.GetUnsigned("INCARNATION"));
  CAIRN_ASSIGN_OR_RETURN(record.host, tree.GetString("HOST"));
  CAIRN_ASSIGN_OR_RETURN(record.address, tree.GetString("ADDRESS"));
  CAIRN_ASSIGN_OR_RETURN(record.term_ms, tree.GetUnsigned("TERM"));
  if (record.term_ms == 0) return DataLoss("TERM 0");
  CAIRN_ASSIGN_OR_RETURN(const std::string state, tree.GetString("STATE"));
  const auto* const known = std::ranges::find(kStates, state, &decltype(kStates)::value_type::second);
  if (known == kStates.end()) return DataLoss("STATE is none of TAKING, LIVE, ENDED");
  record.state = known->first;
  record.members = MembersOf(tree);
  // What was not written here may be longer.
  record.node = Cleaned(record.node, kNodeBytesMax);
  record.host = Cleaned(record.host, kHostBytesMax);
  record.address = Cleaned(record.address, kAddressBytesMax);
  return record;
}

std::optional<CoordinatorRecord> Decode(const lease_series::Seen& seen) {
  const auto tree = lease_series::Unpack(seen);
  if (!tree) return std::nullopt;
  auto record = FromTree(*tree);
  // One that was renamed or copied over another says nothing of this epoch.
  if (!record.ok() || record->epoch != seen.epoch) return std::nullopt;
  return *std::move(record);
}

absl::StatusOr<Found> FindBelow(Arbiter& arbiter, std::vector<std::string> names, std::uint64_t epoch_max) {
  std::erase_if(names, [epoch_max](const std::string& name) {
    const auto parsed = lease_series::Parse(name);
    return parsed && parsed->second > epoch_max;
  });
  Found found;
  CAIRN_ASSIGN_OR_RETURN(found.seen, lease_series::Find(arbiter, kStem, names));
  if (found.seen) found.record = Decode(*found.seen);
  return found;
}

// Nobody acts by it, however it changes.
bool IsVoid(const CoordinatorRecord& record, const RunId& run, std::string_view node) {
  if (record.run != run || record.state == State::kEnded) return true;
  return record.state == State::kLive && record.node == node;
}

milliseconds TermOf(const Found& found, milliseconds own_term) {
  const milliseconds term =
      found.record ? milliseconds(std::min<std::uint64_t>(found.record->term_ms, kTermMax.count())) : own_term;
  return std::clamp(term, milliseconds(1), kTermMax);
}

absl::Status CheckNoneAbove(Arbiter& arbiter, std::uint64_t epoch) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, arbiter.Names());
  const std::uint64_t highest = lease_series::HighestEpoch(kStem, names);
  if (highest > epoch) return Aborted("{} is newer than {}", NameOf(highest), NameOf(epoch));
  return absl::OkStatus();
}

}  // namespace

std::string NameOf(std::uint64_t epoch) {
  return lease_series::NameOf(kStem, epoch);
}

std::string ShortNode(std::string_view node) {
  return std::string(node.substr(node.size() - std::min(node.size(), kShortNodeBytes)));
}

absl::StatusOr<Found> Look(Arbiter& arbiter) {
  CAIRN_ASSIGN_OR_RETURN(std::vector<std::string> names, arbiter.Names());
  return FindBelow(arbiter, std::move(names), lease_series::kEpochMax);
}

absl::StatusOr<bool> IsFirst(Arbiter& arbiter, const CoordinatorRecord& record) {
  const absl::Status made = arbiter.Create(kCoordinated, fmt::format("run {}, by node {} on {}\n", record.run.Hex(),
                                                                     record.node, Cleaned(record.host, kHostBytesMax)));
  if (absl::IsAlreadyExists(made)) return false;
  if (!made.ok()) return made;
  return true;
}

absl::StatusOr<Taken> Take(Arbiter& arbiter, const Found& judged, CoordinatorRecord record) {
  const std::uint64_t highest = std::max(judged.epoch(), record.epoch);
  if (highest >= lease_series::kEpochMax) return ResourceExhausted("{}: no epoch is above this one", NameOf(highest));
  record.epoch = highest + 1;
  record.state = State::kTaking;
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes, Encode(record));
  const absl::Status made = arbiter.CreateLease(NameOf(record.epoch), bytes);
  if (absl::IsAlreadyExists(made)) return Aborted("{} was made by another", NameOf(record.epoch));
  if (!made.ok()) return made;
  CAIRN_ASSIGN_OR_RETURN(std::vector<std::string> names, arbiter.Names());
  if (const std::uint64_t newest = lease_series::HighestEpoch(kStem, names); newest > record.epoch) {
    return Aborted("{} was made by another, above {}", NameOf(newest), NameOf(record.epoch));
  }
  CAIRN_ASSIGN_OR_RETURN(const Found older, FindBelow(arbiter, std::move(names), record.epoch - 1));
  Taken taken{.epoch = record.epoch};
  const bool over = older.record && IsVoid(*older.record, record.run, record.node);
  if (older.seen != judged.seen && !over) taken.wait = TermOf(older, milliseconds(record.term_ms));
  return taken;
}

absl::Status Renew(Arbiter& arbiter, const CoordinatorRecord& record) {
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes, Encode(record));
  CAIRN_ASSIGN_OR_RETURN(const lease_series::Seen there, lease_series::Read(arbiter, kStem, record.epoch));
  // If somebody has removed it, another daemon may have made this epoch again.
  const auto owner = Decode(there);
  if (owner && (owner->node != record.node || owner->incarnation != record.incarnation)) {
    return NotFound("{} is now held by node {} on {}", NameOf(record.epoch), owner->node, owner->host);
  }
  CAIRN_RETURN_IF_ERROR(arbiter.WriteLease(NameOf(record.epoch), bytes));
  return CheckNoneAbove(arbiter, record.epoch);
}

absl::Status End(Arbiter& arbiter, CoordinatorRecord record) {
  record.state = State::kEnded;
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes, Encode(record));
  return arbiter.WriteLease(NameOf(record.epoch), bytes);
}

}  // namespace coordinator_lease

CoordinatorWatch::Judged CoordinatorWatch::Judge(const Look& look, const coordinator_lease::Found& found) {
  using coordinator_lease::TermOf;
  watch_.Saw("", found.seen, look.ended);
  const bool is_void = found.record && coordinator_lease::IsVoid(*found.record, look.run, look.node);
  // What was seen first when a look ended was so until a later one began.
  const auto left = std::chrono::ceil<milliseconds>(watch_.since() + TermOf(found, look.own_term) - look.began);
  if (is_void || left <= milliseconds(0)) {
    return {.verdict = Verdict::kOver, .left = milliseconds(0), .lapsed = !is_void};
  }
  if (!found.seen && !look.coordinated) return {.verdict = Verdict::kFirst, .left = milliseconds(0)};
  return {.verdict = Verdict::kHeld, .left = left};
}

}  // namespace cairn
