#include "daemon/core/holdings.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "daemon/core/descriptor.h"
#include "proto/frame.h"
#include "storage/base/ids.h"
#include "storage/base/number_ranges.h"
#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/place/cache/redundancy_record.h"

namespace cairn {
namespace {

constexpr std::size_t kNameBytesMax = 4096;  // PATH_MAX of Linux

// STANDING_UNKNOWN: another daemon must not restore it.
peer::Holding::Standing ToldOf(Standing standing) {
  switch (standing) {
    case Standing::kCurrent:
    case Standing::kFenced:  // by its own node's commit, too late: under the next launch it counts again
      return peer::Holding::CURRENT;
    case Standing::kDoubted:
      return peer::Holding::DOUBTED;
    case Standing::kSuperseded:
      return peer::Holding::SUPERSEDED;
    default:
      return peer::Holding::STANDING_UNKNOWN;
  }
}

void Fill(const Dataset& dataset, peer::Holding* holding) {
  holding->set_dataset(dataset.id);
  holding->set_launch(dataset.launch);
  holding->set_step(dataset.step);
  holding->set_attempt(dataset.attempt);
  holding->set_nranks(dataset.nranks);
  holding->set_files(dataset.kind.files);
  holding->set_checkpoint(dataset.kind.checkpoint);
  holding->set_output(dataset.kind.output);
  holding->set_created_us(dataset.created_us);
  holding->set_mark(dataset.mark);
  holding->set_name(dataset.name);
  holding->set_user(dataset.user);
  holding->set_job(dataset.job);
  holding->set_ordinal(dataset.ordinal);
  holding->set_standing(ToldOf(dataset.standing));
  holding->set_pinned(dataset.pinned);
}

void FillWhere(const Dataset& dataset, peer::Holding* holding) {
  holding->set_bytes(dataset.bytes_here());
  if (const auto held = HeldHere(dataset)) holding->set_ranks(TextOf(*held));
  for (const SetHere& here : SetsHere(dataset)) {
    *holding->add_sets() = here.set;
    holding->add_keepers(TextOf(here.keepers));
  }
  holding->set_seen_to(dataset.over_nodes() && dataset.in_cache() && dataset.unknown == 0);
}

Standing StandingOf(peer::Holding::Standing told) {
  switch (told) {
    case peer::Holding::DOUBTED:
      return Standing::kDoubted;
    case peer::Holding::SUPERSEDED:
      return Standing::kSuperseded;
    default:
      return Standing::kCurrent;
  }
}

absl::Status CheckName(std::string_view name, std::string_view field) {
  if (name.size() <= kNameBytesMax) return absl::OkStatus();
  return InvalidArgument("{}: {} bytes, at most {}", field, name.size(), kNameBytesMax);
}

absl::Status CheckOne(const peer::Holding& holding) {
  if (holding.dataset() == 0 || holding.dataset() > std::numeric_limits<std::int32_t>::max()) {
    return InvalidArgument("dataset: {} is no number of a dataset", holding.dataset());
  }
  if (holding.nranks() == 0 || holding.nranks() > CAIRN_RANKS_MAX) {
    return InvalidArgument("nranks: {}, from 1 to {}", holding.nranks(), CAIRN_RANKS_MAX);
  }
  if (!holding.ranks().empty() && !ParseNumberRanges(holding.ranks(), holding.nranks())) {
    return InvalidArgument("ranks: {} is no set of {} ranks", Quoted(holding.ranks()), holding.nranks());
  }
  if (holding.created_us() < 0) return InvalidArgument("created_us: {} is before 1970", holding.created_us());
  // A mark has the form of a run's identity (storage/base/launch_mark.h).
  if (!holding.mark().empty() && !RunId::Parse(holding.mark()).ok()) {
    return InvalidArgument("mark: {} is none", Quoted(holding.mark()));
  }
  for (const kept::Set& set : holding.sets()) {
    if (const absl::Status sound = CheckSet(set, holding.nranks()); !sound.ok()) return Annotate(sound, "sets");
  }
  if (!holding.keepers().empty() && holding.keepers_size() != holding.sets_size()) {
    return InvalidArgument("keepers: {} for {} sets", holding.keepers_size(), holding.sets_size());
  }
  for (const std::string& keepers : holding.keepers()) {
    if (ParseNumberRanges(keepers, holding.nranks())) continue;
    return InvalidArgument("keepers: {} is no set of {} ranks", Quoted(keepers), holding.nranks());
  }
  CAIRN_RETURN_IF_ERROR(CheckName(holding.name(), "name"));
  CAIRN_RETURN_IF_ERROR(CheckName(holding.user(), "user"));
  CAIRN_RETURN_IF_ERROR(CheckName(holding.job(), "job"));
  if (holding.standing() == peer::Holding::STANDING_UNKNOWN || !peer::Holding::Standing_IsValid(holding.standing())) {
    return InvalidArgument("standing: {} is not known", static_cast<int>(holding.standing()));
  }
  return absl::OkStatus();
}

}  // namespace

peer::Holdings HoldingsOf(const Ledger& ledger, const std::set<DatasetId>& rejected) {
  peer::Holdings holdings;
  for (const DatasetId id : rejected) holdings.add_rejected(id);
  for (const auto& [id, dataset] : ledger.InPlay()) {
    if (dataset->level() == Level::kCaptured && dataset->kind.checkpoint) {
      holdings.set_settling(holdings.settling() + 1);
    }
    // Parts that are noted here may be whole with the others', of which the launch's home did not get to tell.
    const bool noted = dataset->in_cache() ? dataset->all_stored() : dataset->recorded;
    if (!noted || dataset->foreign) continue;
    if (const auto held = HeldHere(*dataset); held && held->empty()) continue;
    if (ToldOf(dataset->standing) == peer::Holding::STANDING_UNKNOWN) continue;
    peer::Holding& holding = *holdings.add_datasets();
    Fill(*dataset, &holding);
    FillWhere(*dataset, &holding);
  }
  return holdings;
}

peer::Holding HoldingOf(const Dataset& dataset) {
  peer::Holding holding;
  Fill(dataset, &holding);
  return holding;
}

absl::Status Check(const peer::Holding& holding) {
  return CheckOne(holding);
}

absl::Status Check(const peer::Holdings& holdings) {
  DatasetId last = 0;
  for (int i = 0; i < holdings.datasets_size(); ++i) {
    const peer::Holding& holding = holdings.datasets(i);
    if (holding.dataset() <= last)
      return InvalidArgument("holdings.datasets[{}].dataset: {} after {}", i, holding.dataset(), last);
    last = holding.dataset();
    if (const absl::Status status = CheckOne(holding); !status.ok()) {
      return InvalidArgument("holdings.datasets[{}].{}", i, MessageOf(status));
    }
  }
  return absl::OkStatus();
}

Dataset DatasetOf(const peer::Holding& holding) {
  Dataset dataset;
  dataset.id = holding.dataset();
  dataset.launch = holding.launch();
  dataset.mark = holding.mark();
  dataset.step = holding.step();
  dataset.attempt = holding.attempt();
  dataset.nranks = holding.nranks();
  dataset.kind = {.files = holding.files(), .checkpoint = holding.checkpoint(), .output = holding.output()};
  dataset.ordinal = holding.ordinal();
  dataset.created_us = holding.created_us();
  dataset.user = holding.user();
  dataset.job = holding.job();
  dataset.name = holding.name();
  dataset.standing = StandingOf(holding.standing());
  return dataset;
}

}  // namespace cairn
