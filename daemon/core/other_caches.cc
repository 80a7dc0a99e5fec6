#include "daemon/core/other_caches.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <limits>
#include <ranges>
#include <utility>

#include "daemon/core/descriptor.h"
#include "daemon/core/holdings.h"
#include "storage/base/status.h"
#include "storage/place/age.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {
namespace {

// What has been captured elsewhere is waited for so long, if it does not become whole.
constexpr std::chrono::seconds kSettles(10);
constexpr std::chrono::milliseconds kAskEvery(200);
// How long parts are looked for. Nodes that had their link to this daemon's former life look for its next one all
// term/10.
constexpr std::chrono::seconds kLooksAtLeast(3), kLooksAtMost(10);
constexpr std::chrono::seconds kRanksComeWithin(5);
constexpr std::chrono::seconds kLooksEvery(2);  // at the end: the pause doubles
constexpr std::size_t kCandidatesMax = 64;      // the newest ones that others have
constexpr std::size_t kNamesMax = 8;            // of nodes, in a message
constexpr int kMissedMax = 16;                  // copies that turn out to be bad, or nodes that do not give them

std::string NodeNameOf(const Member& member) {
  return fmt::format("{} ({})", member.host, member.address);
}

// Only on the prefix, and committed too late: whoever has it whole commits it under a newer launch.
bool CountsForNobody(const Dataset& dataset) {
  return dataset.standing == Standing::kFenced && dataset.cache == Place::kAbsent && !dataset.foreign &&
         dataset.readers == 0;
}

}  // namespace

OtherCaches::OtherCaches(const Context& context, const Given& given, std::function<void()> on_change)
    : context_(context), given_(given), on_change_(std::move(on_change)) {}

std::vector<std::string> OtherCaches::Brought::NamesOfUnheard() const {
  std::vector<std::string> names;
  std::ranges::copy(unheard | std::views::values | std::views::take(kNamesMax), std::back_inserter(names));
  if (unheard.size() > kNamesMax) names.push_back(fmt::format("{} others", unheard.size() - kNamesMax));
  return names;
}

std::string OtherCaches::TextOf(const Candidate& from) const {
  return fmt::format("run {}: dataset {} (step {}) in the cache of {}{}", given_.run_name, from.dataset.id,
                     from.dataset.step, NodeNameOf(from.member), from.in_parts ? " and of others, in parts" : "");
}

void OtherCaches::Bring(const Before& before, Then then) {
  Add({.launch = before.launch, .from = before.maker, .offline = before.offline, .then = std::move(then)});
}

void OtherCaches::Add(Wish wish) {
  wishes_.push_back(std::move(wish));
  if (wishes_.size() == 1) Begin();
}

void OtherCaches::Stop() {
  progress_.stop = true;
  if (looking_ == 0) return;
  context_.loop().Cancel(std::exchange(looking_, 0));
  context_.loop().Post(on_change_);
}

// --- Parts of what older launches left ---

void OtherCaches::LookForParts(LaunchId launch) {
  postponed_ = false;
  LookFor(launch, kLooksAtLeast);
}

void OtherCaches::LaunchBegan(LaunchId launch) {
  // Of a launch that was looked for before this one nobody waits any more; what it lacked this one lacks, too.
  if (!std::exchange(later_, false) && looking_ == 0) return LookForRest(launch);
  postponed_ = true;
  LookFor(launch, std::chrono::seconds(0));
}

void OtherCaches::LookFor(LaunchId launch, std::chrono::milliseconds at_least) {
  if (context_.env.peers == nullptr || context_.quiescing() || looked_for_ == launch) return;
  looked_for_ = launch;
  look_asks_ = true;
  EndLookAt(kLooksAtMost);
  looks_until_ = context_.now() + at_least;
  ranks_until_ = context_.now() + kRanksComeWithin;
  pause_ = kAskEvery;
  looked_.reset();
  bad_.clear();
  Look();
}

void OtherCaches::Look() {
  const auto looked = [this](const Brought& brought) { Looked(brought); };
  Add({.launch = looked_for_, .from = "", .parts_only = !postponed_, .look = true, .then = looked});
}

void OtherCaches::LookForRest(LaunchId launch) {
  if (context_.env.peers == nullptr || context_.quiescing()) return;
  Add({.launch = launch, .from = "", .parts_only = true, .then = [](const Brought&) {}});
}

void OtherCaches::MakeAnew(DatasetId id, Then then) {
  MakeAnewWithout("", id, std::move(then));
}

void OtherCaches::MakeAnewWithout(const NodeId& node, DatasetId id, Then then) {
  const Launch* const newest = given_.ledger.newest();
  Add({.launch = newest != nullptr ? newest->id : 0,
       .from = "",
       .parts_only = true,
       .only = id,
       .without = node,
       .then = std::move(then)});
}

void OtherCaches::Looked(const Brought& brought) {
  if (looking_ == 0) return;
  looked_ = brought;
  if (context_.now() >= looks_until_ && brought.all_answered && !MoreMayCome()) return EndLook();
  const std::chrono::milliseconds pause = pause_;
  pause_ = std::min<std::chrono::milliseconds>(2 * pause_, kLooksEvery);
  context_.loop().After(pause, [this] {
    if (looking_ != 0) Look();
  });
}

// What is being brought or made anew then is waited for, and so is the answer to who is there, which takes up to two
// terms after a coordinator was lost: else an older dataset would be chosen.
void OtherCaches::EndLookAt(std::chrono::milliseconds after) {
  if (looking_ != 0) context_.loop().Cancel(looking_);
  looking_ = context_.loop().After(
      after, [this] { at_work_ || (awaits_members_ && look_asks_) ? EndLookAt(kLooksEvery) : EndLook(); });
}

void OtherCaches::EndLook() {
  if (looking_ == 0) return;
  context_.loop().Cancel(std::exchange(looking_, 0));
  // Of a launch that has just begun the opening has told it.
  std::exchange(postponed_, false) ? LookForRest(looked_for_) : TellIfNotAllHeard();
  on_change_();
}

// A launch never goes on from an older step without a word.
void OtherCaches::TellIfNotAllHeard() const {
  std::vector<std::string> names;
  if (!looked_) names.emplace_back("nobody was asked in time");
  if (looked_ && !looked_->others_known) names.emplace_back("others may not be known here");
  if (looked_) std::ranges::move(looked_->NamesOfUnheard(), std::back_inserter(names));
  if (LacksParts()) names.emplace_back("nobody has told of parts of what would be restored");
  if (names.empty()) return;
  context_.Warn(fmt::format(
      "run {}: launch {} goes on before all was heard of what other nodes' caches have ({}): what its ranks "
      "restore may be older than a step that one of them holds",
      given_.run_name, looked_for_, fmt::join(names, ", ")));
}

// Nodes whose ranks have not come again may not be known yet.
bool OtherCaches::MoreMayCome() const {
  const Launch* const launch = given_.ledger.newest();
  if (launch == nullptr || launch->id != looked_for_) return false;
  return (launch->from_record && launch->count(RankState::kUnknown) > 0) || LacksParts();
}

bool OtherCaches::LacksParts() const {
  return std::ranges::any_of(given_.ledger.InPlay(), [this](const auto& item) {
    const Dataset& dataset = *item.second;
    return dataset.in_cache() && dataset.unknown > 0 && IsWanted(dataset, /*look=*/true);
  });
}

void OtherCaches::Begin() {
  const auto job = std::make_shared<Job>();
  awaits_members_ = true;
  given_.nodes.WhenAllKnown(wishes_.front().from, [this, job](bool others_known) {
    awaits_members_ = false;
    if (looking_ != 0 && wishes_.front().look && std::exchange(look_asks_, false)) EndLookAt(kLooksAtMost);
    job->others_known = others_known;
    job->settled_by = context_.now() + kSettles;
    Ask(job);
  });
}

// Who has come to it late asks anew: the others may have more by now.
void OtherCaches::End(const JobPtr& job) {
  const auto late = wishes_.begin() + static_cast<std::ptrdiff_t>(job->wishes);
  const std::vector<Wish> ended(std::make_move_iterator(wishes_.begin()), std::make_move_iterator(late));
  wishes_.erase(wishes_.begin(), late);
  if (!wishes_.empty()) Begin();
  for (const Wish& wish : ended) {
    job->brought.launch = wish.launch;
    wish.then(job->brought);
  }
}

// --- Which one ---

void OtherCaches::Ask(const JobPtr& job) {
  // Who is to be waited for may be another node: that is for the next job.
  const auto same = [first = wishes_.front()](const Wish& wish) {
    return (wish.from.empty() || wish.from == first.from) && wish.only == first.only && wish.without == first.without &&
           wish.look == first.look && wish.offline == first.offline;
  };
  const auto later = std::ranges::find_if_not(wishes_, same);
  job->launch = wishes_.front().launch;
  job->look = wishes_.front().look;
  job->only = wishes_.front().only;
  job->without = wishes_.front().without;
  job->offline = wishes_.front().offline;
  job->wishes = static_cast<std::size_t>(later - wishes_.begin());
  job->parts_only = std::all_of(wishes_.begin(), later, [](const Wish& wish) { return wish.parts_only; });
  given_.nodes.AskHoldings([this, job](Nodes::Holdings holdings) {
    std::erase_if(holdings, [&job](const Nodes::Told& told) { return told.member.node == job->without; });
    Answered(job, holdings);
  });
}

void OtherCaches::Answered(const JobPtr& job, const Nodes::Holdings& holdings) {
  bool settling = false;
  std::set<DatasetId> rejected;
  job->brought = {};
  job->brought.others_known = job->others_known;
  const bool settles = !job->parts_only && !job->look;  // what is just becoming whole is waited for
  for (const auto& [member, missing, told] : holdings) {
    if (!told.ok() || (settles && told->settling() > 0)) job->brought.unheard.emplace(member.node, NodeNameOf(member));
    job->brought.all_answered &= told.ok() || missing;
    if (!told.ok()) {
      spdlog::warn("run {}: what {} has in its cache: {}", given_.run_name, NodeNameOf(member),
                   MessageOf(told.status()));
      continue;
    }
    rejected.insert(told->rejected().begin(), told->rejected().end());
    settling |= told->settling() > 0;
    if (told->settling() == 0) job->brought.heard.insert(member.node);
  }
  if (settling && settles && context_.now() < job->settled_by && !context_.quiescing()) {
    context_.loop().After(kAskEvery, [this, job] { Ask(job); });
    return;
  }
  HearOfRejections(rejected);
  if (settles || job->only != 0) NoteLostParts(holdings, job->only);
  job->holdings = holdings;
  job->candidates = CandidatesOf(*job, rejected);
  Next(job);
}

// What is on the prefix is marked there, if it is rejected.
void OtherCaches::HearOfRejections(const std::set<DatasetId>& rejected) {
  for (const DatasetId id : rejected) {
    const DatasetPtr dataset = given_.ledger.Get(id);
    const bool only_here = dataset && (dataset->in_cache() || dataset->in_folder()) && !dataset->in_prefix();
    if (only_here) given_.inventory.RejectedElsewhere(dataset);
  }
}

InPartsOptions OtherCaches::OptionsOf(const Job& job) const {
  return {.wanted =
              [this, &job](const Dataset& dataset) {
                return job.only != 0 ? dataset.id == job.only : IsWanted(dataset, job.look);
              },
          .left = [this, &job](const Dataset& dataset) { return job.only == 0 && IsLeft(dataset); },
          .bad =
              [this, &job](DatasetId id, Rank rank, const NodeId& node) {
                const DatasetPtr known = given_.ledger.Get(id);
                return job.untrue.contains({id, rank, node}) || (known && known->bad_parts.contains({rank, node}));
              },
          .own = {.node = context_.cache_id, .host = context_.env.process.host, .address = "this node", .summary = {}}};
}

std::vector<Candidate> OtherCaches::CandidatesOf(const Job& job, const std::set<DatasetId>& rejected) const {
  const bool parts_only = job.parts_only;
  // Outputs behind all checkpoints: nobody waits for them.
  const auto older = [](const Candidate& a, const Candidate& b) {
    const bool restartable[] = {a.dataset.kind.checkpoint, b.dataset.kind.checkpoint};
    if (restartable[0] != restartable[1]) return restartable[1];
    const Age age[] = {AgeOf(a.dataset), AgeOf(b.dataset)};
    if (IsNewer(age[0], age[1]) || IsNewer(age[1], age[0])) return IsNewer(age[1], age[0]);
    return a.nowhere > b.nowhere;
  };
  std::vector<Candidate> newest;  // oldest first
  std::vector<Candidate> lacking;  // parts; they take nobody's place
  const auto insert = [&](Candidate candidate) {
    newest.insert(std::ranges::lower_bound(newest, candidate, older), std::move(candidate));
    if (newest.size() > kCandidatesMax) newest.erase(newest.begin());
  };
  const auto add = [&](Candidate candidate) {
    const DatasetId id = candidate.dataset.id;
    if (rejected.contains(id) || ((parts_only || job.look) && job.only == 0 && bad_.contains(id))) return;
    if (!IsWanted(job, candidate)) return;
    candidate.nowhere == 0 ? insert(std::move(candidate)) : lacking.push_back(std::move(candidate));
  };
  InPartsOptions options = OptionsOf(job);
  options.lacking = !parts_only && !job.look;
  for (Candidate& candidate : InParts(job.holdings, given_.ledger, options)) add(std::move(candidate));
  for (const auto& [member, missing, told] : job.holdings) {
    if (!told.ok() || parts_only) continue;
    for (const peer::Holding& holding : told->datasets()) {
      if (holding.ranks().empty()) add({.dataset = DatasetOf(holding), .member = member});
    }
  }
  std::ranges::sort(lacking, [&older](const Candidate& a, const Candidate& b) { return older(b, a); });
  for (Candidate& candidate : lacking | std::views::take(kCandidatesMax - newest.size())) insert(std::move(candidate));
  return newest;
}

// Nothing is known here that speaks against it.
bool OtherCaches::MayMatter(const Dataset& dataset) const {
  const DatasetPtr known = given_.ledger.Get(dataset.id);
  if (known && known->can_be_read() && !CountsForNobody(*known)) return false;
  const Gone* gone = given_.ledger.FindGone(dataset.id);
  if (gone != nullptr && gone->why != Gone::Why::kSuperseded) return false;
  return !given_.inventory.WasRefused(dataset.id);
}

// Would the next launch here choose it before all that is here? In a look: would that launch, which may have passed
// over something that others may still choose?
bool OtherCaches::IsWanted(const Dataset& dataset, bool look) const {
  if (!MayMatter(dataset)) return false;
  const Launch* const looks = look ? given_.ledger.Find(looked_for_) : nullptr;
  Launch next;
  if (looks != nullptr) next.passed_over = looks->passed_over;
  next.id = std::numeric_limits<LaunchId>::max();  // it has made nothing yet
  next.bound = given_.inventory.bound();
  next.bound_set_us = given_.inventory.bound_set_us();
  return given_.ledger.WouldChoose(next, dataset);
}

// An output that should go to the prefix, and has not.
bool OtherCaches::IsLeft(const Dataset& dataset) const {
  return dataset.kind.output && dataset.standing < Standing::kSuperseded && MayMatter(dataset);
}

bool OtherCaches::IsWanted(const Job& job, const Candidate& candidate) const {
  if (job.only != 0) return candidate.dataset.id == job.only && candidate.in_parts && MayMatter(candidate.dataset);
  if (IsWanted(candidate.dataset, job.look)) return true;
  return job.parts_only && candidate.in_parts && IsLeft(candidate.dataset);
}

absl::Status OtherCaches::CheckMayCome(const Candidate& from) const {
  const Dataset& dataset = from.dataset;
  if (context_.quiescing() || progress_.stop || given_.gate.replaced()) return Unavailable("the run ends here");
  // Release 0.1.0 served one node only, and what was adopted is where its user has put it.
  if (dataset.launch == 0 || dataset.mark.empty()) return FailedPrecondition("it does not say which launch made it");
  const DatasetPtr known = given_.ledger.Get(dataset.id);
  const bool same = known && known->nranks == dataset.nranks && known->launch == dataset.launch;
  const bool parts_here = same && known->in_cache() && known->unknown > 0 && known->readers == 0;
  if (from.in_parts && parts_here) return absl::OkStatus();
  const bool in_its_place = known && (!CountsForNobody(*known) || known->nranks != dataset.nranks);
  if (in_its_place || given_.ledger.FindGone(dataset.id) != nullptr) {
    return AlreadyExists("this node has something of it that is not whole, or has just given it up");
  }
  if (given_.cache.HoldsScrs(dataset.id)) return AlreadyExists("SCR's own files are in its place in the cache");
  return absl::OkStatus();
}

// The newest that is left, unless something has come, or become known, that is newer.
void OtherCaches::Next(const JobPtr& job) {
  at_work_ = false;
  while (!job->candidates.empty()) {
    const Candidate from = std::move(job->candidates.back());
    job->candidates.pop_back();
    if (!IsWanted(*job, from)) continue;
    absl::Status may = CheckMayCome(from);
    if (job->missed == kMissedMax) may = Unavailable("{} others could not be, either", kMissedMax);
    at_work_ = may.ok() && (job->look || given_.ledger.PinnedByLaunch(from.dataset.id));
    if (may.ok()) return Check(job, from);
    Missed(job, from, may);
    if (absl::IsUnavailable(may)) job->candidates.clear();
  }
  End(job);
}

// --- Bringing it ---

bool OtherCaches::IsOffline(const Job& job) const {
  const Launch* const newest = given_.ledger.newest();
  return job.offline || (newest != nullptr && newest->provisional);
}

// What another directory's launch has made, or one whose datasets do not count, does not come; nor does what someone
// has removed or taken out meanwhile, and what is committed by now need not.
// A prefix that does not answer is not waited for: what this daemon has looked up there before counts.
void OtherCaches::Check(const JobPtr& job, const Candidate& from) {
  if (IsOffline(*job)) {
    const DatasetPtr known = given_.ledger.Get(from.dataset.id);
    if (from.in_parts && known && known->mark == from.dataset.mark) return Take(job, from);
    return Failed(job, from, Unavailable("the prefix, which would say whether it counts, does not answer"));
  }
  const std::shared_ptr<Prefix> prefix = given_.gate.prefix();
  if (!prefix) return Failed(job, from, given_.gate.OutOfReach());
  auto look = [prefix, id = from.dataset.id, launch = from.dataset.launch,
               mark = from.dataset.mark]() -> absl::StatusOr<bool> {
    CAIRN_ASSIGN_OR_RETURN(const Prefix::Origin origin, prefix->OriginOf(launch, mark));
    if (origin != Prefix::Origin::kOurs) return false;
    CAIRN_ASSIGN_OR_RETURN(const PrefixContents there, prefix->Contents());
    if (there.removed.contains(id)) return NotFound("it was removed from the prefix");
    if (there.scrs.contains(id)) return AlreadyExists("SCR has a dataset of its number");
    return !there.datasets.contains(id) && !there.dropped.contains(id) && !there.refused.contains(id);
  };
  context_.OnPrefix(given_.gate.path(), std::move(look), [this, job, from](const absl::StatusOr<bool>& comes) {
    if (!comes.ok()) return Failed(job, from, comes.status());
    if (*comes) return Take(job, from);
    spdlog::info("{}: not brought here: it is on the prefix, does not count there, or is of another", TextOf(from));
    Next(job);
  });
}

void OtherCaches::Take(const JobPtr& job, const Candidate& from) {
  if (from.nowhere > 0) return Lacks(job, from);
  from.in_parts ? DescribeParts(job, from) : Describe(job, from);
}

void OtherCaches::Describe(const JobPtr& job, const Candidate& from) {
  auto read = [disk = given_.nodes.FilesOf(from.member), run = given_.cache.folder().record().run,
               folder = FolderOnOtherNode(from.dataset.id), descriptor = DescriptorOf(from.dataset, false)] {
    return ReadCatalogues(*disk, folder, run, descriptor);
  };
  RunBlocking(context_.env.pools.far, NodeNameOf(from.member), context_.loop(), std::move(read),
              [this, job, from](absl::StatusOr<std::vector<catalogue::Catalogue>> ranks) {
                DatasetPtr coming;
                const absl::Status ready =
                    ranks.ok() ? Reserve(from, *std::move(ranks), &coming) : absl::Status(ranks.status());
                if (!ready.ok()) return Failed(job, from, ready);
                Fetch(job, from, coming);
              });
}

absl::Status OtherCaches::Reserve(const Candidate& from, std::vector<catalogue::Catalogue> ranks, DatasetPtr* coming) {
  CAIRN_RETURN_IF_ERROR(CheckMayCome(from));
  for (const catalogue::Catalogue& rank : ranks) {
    if (rank.step() == from.dataset.step) continue;
    return DataLoss("the catalogue of rank {} is of step {}", rank.rank(), rank.step());
  }
  Dataset dataset = from.dataset;
  const DatasetPtr known = given_.ledger.Get(dataset.id);
  if (known) given_.ledger.Described(*known, ranks);
  PutParts(dataset, std::move(ranks));
  CAIRN_RETURN_IF_ERROR(given_.cache.Reserve(dataset.bytes()));
  given_.ids.Seen(dataset.id);
  if (known) given_.ledger.RefetchBegan(*known);
  *coming = known ? known : given_.ledger.ComesFromNode(std::move(dataset));
  given_.ledger.ReadBegan(**coming);
  return absl::OkStatus();
}

void OtherCaches::Fetch(const JobPtr& job, const Candidate& from, const DatasetPtr& dataset) {
  spdlog::info("{}: {} bytes are brought here", TextOf(from), dataset->bytes());
  auto fetch = [this, disk = given_.nodes.FilesOf(from.member), folder = FolderOnOtherNode(dataset->id),
                catalogues = CataloguesOf(*dataset), begun = DescriptorOf(*dataset, false),
                complete = DescriptorOf(*dataset, true)] {
    const FetchFrom there{.disk = *disk,
                          .path_of = [&](const catalogue::FileEntry& file) { return folder + "/" + file.name(); }};
    Throttle throttle(0);  // a launch waits for it
    return FetchDataset(there, given_.cache.folder(), catalogues, begun, complete, throttle, progress_);
  };
  given_.folders.WhenUnchanged(dataset->id, [this, job, from, dataset, fetch = std::move(fetch)] {
    RunBlocking(context_.env.pools.far, NodeNameOf(from.member), context_.loop(), fetch,
                [this, job, from, dataset](const FetchResult& fetched) { Came(job, from, dataset, fetched); });
  });
}

void OtherCaches::Came(const JobPtr& job, const Candidate& from, const DatasetPtr& dataset,
                       const FetchResult& fetched) {
  given_.ledger.ReadEnded(*dataset);
  if (!given_.ledger.Has(dataset)) return Unwanted(job, dataset->id);
  if (fetched.status.ok()) {
    given_.ledger.Refetched(*dataset);
    if (dataset->standing == Standing::kFenced) {  // it is to be committed again, under the next launch
      given_.ledger.CountsAgain(*dataset);
      given_.ledger.NotOnPrefix(*dataset);
    }
    given_.folders.Known(dataset->id);
    given_.record.Store();  // its place in the rhythm of flushes
    job->brought.missed.erase(dataset->id);
    spdlog::info("{}: is whole here, too", TextOf(from));
    on_change_();
    return Next(job);
  }
  // A look at the prefix may have found it there meanwhile.
  dataset->prefix == Place::kAbsent ? given_.ledger.DidNotCome(*dataset) : given_.ledger.RefetchFailed(*dataset);
  on_change_();
  Failed(job, from,
         fetched.source_damaged ? DataLoss("its copy is bad: {}", MessageOf(fetched.status)) : fetched.status);
}

// It was removed from the prefix while it came.
void OtherCaches::Unwanted(const JobPtr& job, DatasetId id) {
  given_.folders.Change(id, [&cache = given_.cache.folder(), id] { return cache.Remove(id); });
  Next(job);
}

// Another node may have it, too; else an older one is looked for.
void OtherCaches::Failed(const JobPtr& job, const Candidate& from, const absl::Status& why) {
  Missed(job, from, why);
  Next(job);
}

void OtherCaches::Missed(const JobPtr& job, const Candidate& from, const absl::Status& why) {
  ++job->missed;
  job->brought.why_not = why;
  if (from.dataset.kind.checkpoint) job->brought.missed.insert(from.dataset.id);
  if (looking_ != 0 && !absl::IsUnavailable(why)) bad_.insert(from.dataset.id);
  context_.Warn(fmt::format("{}: could not be brought here: {}", TextOf(from), MessageOf(why)));
}

}  // namespace cairn
