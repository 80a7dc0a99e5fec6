#include "daemon/core/dataset_entry.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "daemon/core/descriptor.h"
#include "storage/base/check.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/place/names.h"

namespace cairn {
namespace {

// An SCR job with this SCR_JOB_ID restarts from the cache: its folder is named so.
std::string JobOf(const CacheFolder& cache) {
  constexpr std::string_view kStem = "scr.";
  const std::string folder = BaseOf(cache.path());
  return folder.starts_with(kStem) ? folder.substr(kStem.size()) : folder;
}

absl::Status CheckTold(std::uint32_t attempt, const AskedScheme& scheme) {
  if (attempt == 0) return InvalidArgument("attempts count from 1");
  return CheckAsked(scheme);
}

// What is kept of a dataset grows with its ranks; a rank that runs ahead of one that never comes is stopped.
absl::Status CheckOpen(const Launch& launch) {
  const std::size_t open_max = std::clamp<std::size_t>((256 << 10) / launch.nranks, 2, 64);
  if (launch.open.size() < open_max) return absl::OkStatus();
  return ResourceExhausted("{} datasets of this launch wait for ranks that have not begun them", open_max);
}

}  // namespace

DatasetEntry::DatasetEntry(const Context& context, const Given& given) : context_(context), given_(given) {}

absl::Status DatasetEntry::Check(const local::Begin& begin) {
  CAIRN_RETURN_IF_ERROR(ValidateVariables(begin.variables()));
  return CheckTold(begin.attempt(), AskedIn(begin));
}

DatasetEntry::Wish DatasetEntry::WishOf(const local::Begin& begin, std::uint64_t file_bytes) {
  return {.step = begin.step(),
          .attempt = begin.attempt(),
          .bytes = file_bytes,
          .name = begin.name(),
          .scheme = AskedIn(begin)};
}

absl::StatusOr<DatasetEntry::Wish> DatasetEntry::WishOf(const local::OutputBegin& begin) {
  if (!begin.checkpoint() && !begin.output()) {
    return InvalidArgument("an output must be CAIRN_CHECKPOINT, CAIRN_OUTPUT or both");
  }
  CAIRN_RETURN_IF_ERROR(CheckTold(begin.attempt(), AskedIn(begin)));
  return Wish{.step = begin.step(),
              .attempt = begin.attempt(),
              .kind = {.files = true, .checkpoint = begin.checkpoint(), .output = begin.output()},
              .name = begin.name(),
              .scheme = AskedIn(begin)};
}

absl::StatusOr<DatasetPtr> DatasetEntry::Enter(const Session& session, const Wish& wish,
                                               const VariableList& variables) {
  const Launch* launch = given_.ledger.Find(session.launch);
  CAIRN_CHECK(launch != nullptr);
  if (!wish.name.empty()) CAIRN_RETURN_IF_ERROR(CheckDatasetName(wish.name));
  const Ledger::BeginSpec spec{.step = wish.step,
                               .attempt = wish.attempt,
                               .kind = wish.kind,
                               .bytes = wish.bytes,
                               .now_us = context_.now_us(),
                               .user = context_.env.process.user,
                               .job = JobOf(*given_.cache_folder),
                               .name = wish.name,
                               .scheme = wish.scheme};
  CAIRN_ASSIGN_OR_RETURN(const DatasetPtr dataset, given_.ledger.FindForBegin(*launch, session.rank, spec));
  if (!dataset) return Make(*launch, session.rank, spec, variables, wish.elsewhere);
  CAIRN_RETURN_IF_ERROR(Join(*launch, dataset, session.rank, spec, variables, wish.elsewhere));
  return dataset;
}

// Nothing is changed yet. For what fits nowhere in the cache there is the prefix, unless that hangs.
absl::StatusOr<DatasetEntry::Place> DatasetEntry::PlaceFor(const Launch& launch, Rank rank,
                                                           const Ledger::BeginSpec& spec) {
  Place place;
  const bool may_bypass = given_.stores.MayBypass() && launch.elsewhere == 0;
  place.past_cache = may_bypass && given_.stores.TooLarge(launch, rank, spec);
  if (place.past_cache) return place;
  if (!spec.kind.files) place.spare = given_.cache.SpareFor(spec.bytes, launch.nranks);
  // Room for all ranks at once: a dataset of which only some fit would fail.
  const std::uint64_t planned = spec.kind.files ? 0 : given_.stores.Planned(launch, rank, spec);
  const std::uint64_t wanted = planned <= given_.cache.limit() ? planned : spec.bytes;
  auto room = given_.cache.FindRoom(wanted, place.spare);
  if (room.ok()) {
    place.room = *std::move(room);
    return place;
  }
  place.spare = nullptr;
  place.past_cache = may_bypass;
  // Whatever is in use: as ReserveFor. Of files nobody knows yet how much it will be.
  const bool wants_nothing = wanted == 0 && !spec.kind.files;
  if (!may_bypass && !wants_nothing) return room.status();
  return place;
}

absl::StatusOr<DatasetPtr> DatasetEntry::Make(const Launch& launch, Rank rank, Ledger::BeginSpec spec,
                                              const VariableList& variables, bool elsewhere) {
  CAIRN_RETURN_IF_ERROR(CheckOpen(launch));
  Place place;
  if (!elsewhere) {
    CAIRN_ASSIGN_OR_RETURN(place, PlaceFor(launch, rank, spec));
  }
  CAIRN_ASSIGN_OR_RETURN(const DatasetId id, given_.foretold.Take(launch, spec.kind.files));
  CacheRoom::Make(place.room);
  spec.kind.past_cache = place.past_cache;
  const DatasetPtr dataset = given_.ledger.Create(launch, id, spec);
  given_.stores.Entered(*dataset);
  CAIRN_RETURN_IF_ERROR(given_.ledger.Begin(launch, dataset, rank, spec, variables));
  if (place.spare) given_.cache.GiveFiles(place.spare, id);
  return dataset;
}

// A request for 0 bytes is never refused. Room is made for what is there all the same.
absl::Status DatasetEntry::ReserveFor(std::uint64_t bytes, const DatasetPtr& spare) {
  const absl::Status room = given_.cache.Reserve(bytes, spare);
  return bytes == 0 ? absl::OkStatus() : room;
}

// How much the other ranks have is known only now: it may be more than there is room for.
absl::Status DatasetEntry::Join(const Launch& launch, const DatasetPtr& dataset, Rank rank,
                                const Ledger::BeginSpec& spec, const VariableList& variables, bool elsewhere) {
  if (elsewhere && dataset->kind.past_cache) {
    const std::string why = fmt::format("it goes past this node's cache, and rank {} is on another node", rank);
    given_.ledger.Fail(dataset->id, why);
    return ResourceExhausted("dataset {}: {}", dataset->id, why);
  }
  const bool in_books = !elsewhere && !dataset->kind.past_cache && !spec.kind.files;
  const absl::Status room = in_books ? ReserveFor(spec.bytes) : absl::OkStatus();
  if (room.ok()) return given_.ledger.Begin(launch, dataset, rank, spec, variables);
  if (IsRoomToCome(room)) return room;  // it has not begun, and may do so when the room is there
  if (dataset->bytes_here() + spec.bytes > given_.cache.limit()) given_.stores.Outgrown(launch.nranks);
  given_.ledger.Fail(dataset->id, fmt::format("rank {}: {}", rank, MessageOf(room)));
  return room;
}

void DatasetEntry::GiveUp(const Session& session, const Wish& wish, const std::string& why) {
  const Launch* launch = given_.ledger.Find(session.launch);
  if (launch == nullptr || launch->fenced()) return;
  const auto begun = given_.ledger.FindForBegin(*launch, session.rank, {.step = wish.step, .attempt = wish.attempt});
  if (begun.ok() && *begun) given_.ledger.Fail((*begun)->id, fmt::format("rank {}: {}", session.rank, why));
}

bool DatasetEntry::WouldEnter(const Session& session, const Wish& wish, DatasetId id) const {
  const Launch* launch = given_.ledger.Find(session.launch);
  if (launch == nullptr) return false;
  const auto begun = launch->attempts.find({wish.step, wish.attempt});
  return begun != launch->attempts.end() ? begun->second == id : given_.foretold.Is(*launch, id);
}

absl::Status DatasetEntry::Follow(const DatasetPtr& dataset, Rank rank, std::uint64_t bytes) {
  const bool first = dataset->bytes_here() == 0;  // of those here: the others share what it gets
  const DatasetPtr spare = first && bytes > 0 ? given_.cache.SpareFor(bytes, dataset->nranks) : nullptr;
  CAIRN_RETURN_IF_ERROR(ReserveFor(bytes, spare));
  given_.ledger.FollowBegin(*dataset, rank, bytes);
  if (spare) given_.cache.GiveFiles(spare, dataset->id);
  return absl::OkStatus();
}

absl::StatusOr<DatasetPtr> DatasetEntry::FollowForetold(const Launch& launch, DatasetId id, Rank rank,
                                                        const Wish& wish) {
  DatasetPtr dataset = given_.ledger.Get(id);
  const bool the_same = dataset ? dataset->expects(rank) && !dataset->kind.files && dataset->step == wish.step &&
                                      dataset->attempt == wish.attempt && dataset->name == wish.name &&
                                      dataset->scheme == wish.scheme
                                : id > given_.ids.highest();  // a lower one has been, and is no more
  if (!the_same) return FailedPrecondition("dataset {} is another checkpoint", id);
  if (!wish.name.empty()) CAIRN_RETURN_IF_ERROR(CheckDatasetName(wish.name));
  const bool first = !dataset || dataset->bytes_here() == 0;
  const DatasetPtr spare = first && wish.bytes > 0 ? given_.cache.SpareFor(wish.bytes, launch.nranks) : nullptr;
  CAIRN_RETURN_IF_ERROR(ReserveFor(wish.bytes, spare));
  if (!dataset) {
    given_.ids.Seen(id);
    const Ledger::BeginSpec spec{.step = wish.step,
                                 .attempt = wish.attempt,
                                 .now_us = context_.now_us(),
                                 .name = wish.name,
                                 .scheme = wish.scheme};
    dataset = given_.ledger.Follow(launch, {.id = id, .spec = spec, .foretold = true});
  }
  given_.ledger.FollowBegin(*dataset, rank, wish.bytes);
  if (spare) given_.cache.GiveFiles(spare, dataset->id);
  return dataset;
}

void DatasetEntry::WithFolder(const DatasetPtr& dataset, std::function<void(absl::Status)> then) {
  given_.folders.Want(dataset->id, std::move(then), [this, dataset] { MakeFolder(dataset); });
}

void DatasetEntry::MakeFolder(const DatasetPtr& dataset) {
  const DatasetId id = dataset->id;
  const std::shared_ptr<void> lease = given_.folders.Lease(id);
  if (dataset->kind.past_cache) {
    return given_.stores.Begin(dataset,
                               [this, id, lease](const absl::Status& status) { given_.folders.Made(id, status); });
  }
  given_.bases.Share(*dataset);
  struct Made {
    absl::Status status;
    BaseFiles::Ready bases;
  };
  auto make = [&disk = context_.env.cache_disk, cache = given_.cache_folder, descriptor = DescriptorOf(*dataset, false),
               plan = given_.bases.PlanOf(id)] {
    Made made;
    made.status = cache->Begin(descriptor);
    if (made.status.ok() && plan) made.bases = BaseFiles::Prepare(disk, *cache, *plan);
    return made;
  };
  context_.OnCache(std::move(make), [this, id, lease](Made made) {
    for (const std::string& warning : made.bases.warnings) {
      context_.Warn(fmt::format("run {}: dataset {} is written into new files: {}", given_.run_name, id, warning));
    }
    given_.bases.Prepared(id, std::move(made.bases));
    given_.folders.Made(id, made.status);
  });
}

}  // namespace cairn
