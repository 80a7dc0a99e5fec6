#include "storage/place/prefix/lease.h"

#include <algorithm>
#include <array>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/format/kvtree/tree.h"
#include "storage/place/arbiter/lease_series.h"

namespace cairn {
namespace lease {
namespace {

using lease_series::Cleaned;

constexpr std::string_view kStem = "launch.";
constexpr std::uint64_t kNumberMax = lease_series::kEpochMax;
constexpr int kTriesMax = 100;  // epochs taken by others between our listing and our link

constexpr std::array<std::pair<LeaseRecord::State, std::string_view>, 3> kStates = {{
    {LeaseRecord::State::kLive, "LIVE"},
    {LeaseRecord::State::kDraining, "DRAINING"},
    {LeaseRecord::State::kEnded, "ENDED"},
}};

std::string_view NameOfState(LeaseRecord::State state) {
  const auto* const found = std::ranges::find(kStates, state, &decltype(kStates)::value_type::first);
  return found == kStates.end() ? "" : found->second;
}

std::optional<LeaseRecord::State> StateOf(std::string_view name) {
  const auto* const found = std::ranges::find(kStates, name, &decltype(kStates)::value_type::second);
  return found == kStates.end() ? std::nullopt : std::optional(found->first);
}

std::string StemOf(LaunchId launch) {
  return fmt::format("{}{}", kStem, launch);
}

absl::StatusOr<std::string> Encode(const std::string& name, const LeaseRecord& record) {
  if (record.launch == 0 || record.launch > kNumberMax || record.term_ms == 0) {
    return InvalidArgument("{}: a lease of launch {} with a term of {} ms", name, record.launch, record.term_ms);
  }
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  tree.Set("RUN", record.run.Hex());
  tree.Set("LAUNCH", record.launch);
  tree.Set("EPOCH", record.epoch);
  tree.Set("COUNTER", record.counter);
  tree.Set("CACHE", Cleaned(record.cache, kCacheBytesMax));
  tree.Set("HOST", Cleaned(record.host, kHostBytesMax));
  tree.Set("PID", std::uint64_t{record.pid});
  tree.Set("TERM", record.term_ms);
  tree.Set("STATE", NameOfState(record.state));
  tree.Set("WHAT", Cleaned(record.what, kWhatBytesMax));
  return lease_series::Pack(name, tree);
}

absl::StatusOr<LeaseRecord> FromTree(const kvtree::Tree& tree) {
  LeaseRecord record;
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t version, tree.GetUnsigned("VERSION"));
  if (version != 1) return FailedPrecondition("VERSION {}, this program knows 1", version);
  CAIRN_ASSIGN_OR_RETURN(const std::string run, tree.GetString("RUN"));
  CAIRN_ASSIGN_OR_RETURN(record.run, RunId::Parse(run));
  CAIRN_ASSIGN_OR_RETURN(record.launch, tree.GetUnsigned("LAUNCH"));
  CAIRN_ASSIGN_OR_RETURN(record.epoch, tree.GetUnsigned("EPOCH"));
  CAIRN_ASSIGN_OR_RETURN(record.counter, tree.GetUnsigned("COUNTER"));
  CAIRN_ASSIGN_OR_RETURN(record.cache, tree.GetString("CACHE"));
  CAIRN_ASSIGN_OR_RETURN(record.host, tree.GetString("HOST"));
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t pid, tree.GetUnsigned("PID"));
  if (pid > UINT32_MAX) return DataLoss("PID {}", pid);
  record.pid = static_cast<std::uint32_t>(pid);
  CAIRN_ASSIGN_OR_RETURN(record.term_ms, tree.GetUnsigned("TERM"));
  if (record.term_ms == 0) return DataLoss("TERM 0");
  CAIRN_ASSIGN_OR_RETURN(const std::string state, tree.GetString("STATE"));
  const auto known = StateOf(state);
  if (!known) return DataLoss("STATE is none of LIVE, DRAINING, ENDED");
  record.state = *known;
  CAIRN_ASSIGN_OR_RETURN(record.what, tree.GetString("WHAT"));
  return record;
}

// None: not a whole lease of that name.
std::optional<LeaseRecord> Decode(LaunchId launch, const lease_series::Seen& seen) {
  const auto tree = lease_series::Unpack(seen);
  if (!tree) return std::nullopt;
  auto record = FromTree(*tree);
  // One that was renamed or copied over another says nothing of this epoch.
  if (!record.ok() || record->launch != launch || record->epoch != seen.epoch) return std::nullopt;
  return *std::move(record);
}

}  // namespace

std::string NameOf(LaunchId launch, std::uint64_t epoch) {
  return lease_series::NameOf(StemOf(launch), epoch);
}

std::optional<std::pair<LaunchId, std::uint64_t>> Parse(std::string_view name) {
  const auto parsed = lease_series::Parse(name);
  if (!parsed) return std::nullopt;
  const auto launch = NumberAfter(parsed->first, kStem);
  if (!launch || *launch == 0) return std::nullopt;
  return std::pair(*launch, parsed->second);
}

absl::StatusOr<LeaseRecord> Make(Arbiter& arbiter, LeaseRecord record) {
  const std::uint64_t above = record.epoch;
  for (int i = 0; i < kTriesMax; ++i) {
    CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, arbiter.Names());
    const std::uint64_t highest = std::max(above, lease_series::HighestEpoch(StemOf(record.launch), names));
    if (highest == kNumberMax) {
      return ResourceExhausted("{}: no epoch is above this one", NameOf(record.launch, highest));
    }
    record.epoch = highest + 1;
    const std::string name = NameOf(record.launch, record.epoch);
    CAIRN_ASSIGN_OR_RETURN(const std::string bytes, Encode(name, record));
    const absl::Status made = arbiter.CreateLease(name, bytes);
    if (made.ok()) return record;
    if (!absl::IsAlreadyExists(made)) return made;
  }
  return Aborted("{} leases of launch {} were made by others meanwhile", kTriesMax, record.launch);
}

absl::Status Write(Arbiter& arbiter, const LeaseRecord& record) {
  const std::string name = NameOf(record.launch, record.epoch);
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes, Encode(name, record));
  return arbiter.WriteLease(name, bytes);
}

absl::StatusOr<std::optional<LeaseSeen>> Find(Arbiter& arbiter, LaunchId launch,
                                              const std::vector<std::string>& names) {
  CAIRN_ASSIGN_OR_RETURN(auto seen, lease_series::Find(arbiter, StemOf(launch), names));
  if (!seen) return std::optional<LeaseSeen>();
  auto record = Decode(launch, *seen);
  return std::optional(LeaseSeen{.epoch = seen->epoch, .bytes = std::move(seen->bytes), .record = std::move(record)});
}

}  // namespace lease

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTermMax = std::chrono::hours(24);  // no lease keeps others out for longer
constexpr milliseconds kPauseMin(10);

milliseconds TermOf(const LeaseWatch::Look& look) {
  const bool readable = look.lease && look.lease->record;
  const milliseconds term =
      readable ? milliseconds(std::min<std::uint64_t>(look.lease->record->term_ms, kTermMax.count())) : look.own_term;
  return std::clamp(term, milliseconds(1), kTermMax);
}

// Nobody can work there, however the lease changes.
bool IsVoid(const LeaseWatch::Look& look) {
  if (!look.lease) return look.launch_run != look.run;
  if (!look.lease->record) return false;
  const LeaseRecord& record = *look.lease->record;
  return record.run != look.run || record.state == LeaseRecord::State::kEnded ||
         (!look.own_cache.empty() && record.cache == look.own_cache);
}

std::string HolderOf(const LeaseWatch::Look& look) {
  if (!look.lease) return fmt::format("the maker of launch {}, which has no lease yet", look.launch);
  const std::string name = lease::NameOf(look.launch, look.lease->epoch);
  if (!look.lease->record) return fmt::format("the writer of {}, which cannot be read", name);
  const LeaseRecord& record = *look.lease->record;
  const std::string who =
      fmt::format("cairnd {} on {}", record.pid, lease_series::Cleaned(record.host, lease::kHostBytesMax));
  return record.what.empty() ? who
                             : fmt::format("{} ({})", who, lease_series::Cleaned(record.what, lease::kWhatBytesMax));
}

}  // namespace

LeaseWatch::Judged LeaseWatch::Judge(const Look& look) {
  std::optional<lease_series::Seen> seen;
  if (look.lease) seen = {.epoch = look.lease->epoch, .bytes = look.lease->bytes};
  const std::string stem = fmt::format("{}", look.launch);
  const bool long_ago = look.now - looked_.value_or(look.now) > TermOf(look) / 2;
  looked_ = look.now;
  watch_.Saw(stem, seen, look.now);
  if (long_ago && watch_.changed() && watch_.since() == look.now) {  // it has changed then, or later
    watch_.Forget();
    watch_.Saw(stem, seen, look.now);
  }
  Judged judged{.verdict = Verdict::kOver, .look_again = milliseconds(0), .holder = HolderOf(look)};
  const milliseconds term = TermOf(look);
  const auto left = std::chrono::ceil<milliseconds>(watch_.since() + term - look.now);
  if (IsVoid(look) || left <= milliseconds(0)) return judged;
  const bool draining = look.lease && look.lease->record && look.lease->record->state == LeaseRecord::State::kDraining;
  judged.verdict = draining ? Verdict::kDraining : watch_.changed() ? Verdict::kLive : Verdict::kUnproven;
  judged.look_again = std::min(std::max(term / 10, kPauseMin), left);
  return judged;
}

}  // namespace cairn
