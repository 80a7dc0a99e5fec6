#include "daemon/core/run.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>
#include <utility>

#include "daemon/core/facts.h"
#include "daemon/policy/policy.h"
#include "storage/base/path.h"
#include "storage/base/status.h"

namespace cairn {

Run::Run(const Shared& shared, const RunId& run_id, const std::string& prefix_path,
         std::shared_ptr<CacheFolder> cache_folder)
    : shared_(shared),
      id(run_id),
      name(BaseOf(prefix_path)),
      folder(std::move(cache_folder)),
      flush_file(std::make_shared<FlushFile>(fmt::format("{}:{}", shared.context.env.process.host, folder->path()))),
      ledger([this](const DatasetPtr& dataset, const std::string& why) { DatasetFailed(dataset, why); }),
      waits([this] { steering.CountWhole(); },
            [this] {
              ApplyPolicy();
              shared_.on_change();
            }),
      lists(shared.context, folder, ledger),
      gate(shared.context, id, name, prefix_path, ledger,
           {.on_reached =
                [this] {
                  removals.Tidy();
                  views.MakeMissing();
                  keeper.LookForNewest();
                  announced.Reached();
                },
            .on_replaced =
                [this] {
                  flusher.StopAll();
                  watch.Look();
                  nodes.Leave();
                },
            .on_free = [this] { AfterStep(); }}),
      watch(shared.context, {id, name, folder, ledger, gate},
            {.on_lost = [this] { flusher.EndWaiting(); }, .on_found = [this] { ApplyPolicy(); }}),
      keeper(shared.context, {name, folder, ledger, gate},
             {.flushing = [this](DatasetId dataset_id) { return flusher.Has(dataset_id); },
              .bringing = [this](const Dataset& dataset) { return protector.Brings(dataset); },
              .on_newer = [this](const LaunchRecord& launch) { shared_.on_newer_launch(*this, launch); },
              .on_confirmed = [this](const auto& launches) { shared_.on_confirmed(*this, launches); }}),
      nodes(shared.context,
            {id, name, ledger, gate,
             [this](const peer::Question& asked, const Questions::Then& then) {
               shared_.answer_node(*this, asked, then);
             },
             folder->path(), [this](Relay* relay) { relay != nullptr ? away.Serve(*relay) : away.Stop(); }},
            [this] { shared_.on_change(); }),
      announced(shared.context, name, gate),
      away(
          shared.context, {id, name, gate, shared.receiver},
          {.on_there = [this](const NodeId& node, const peer::PartsThere& there) { away_parts.There(node, there); },
           .on_lost = [this](const NodeId& node) { away_parts.Lost(node); },
           .on_stored = [this](const NodeId& node,
                               const catalogue::Catalogue& catalogue) { away_parts.Stored(node, catalogue); },
           .on_failed = [this](const NodeId& node, const peer::PartFailed& failed) { away_parts.Failed(node, failed); },
           .on_left = [this](const NodeId& node, const peer::PartsLeft& left) { away_parts.Left(node, left); }}),
      home(shared.context, {id, name, ledger, nodes}),
      record(shared.context, name, folder, ledger),
      folders(shared.context, [this](DatasetId dataset_id) { FolderUnused(dataset_id); }),
      bases(shared.context, folder, ledger,
            [this](DatasetId id, std::uint64_t kept_bytes, std::function<void()> then) {
              cache.RemoveFolder(id, kept_bytes, std::move(then));
            }),
      cache(shared.context,
            {id, name, folder, shared.room, shared.images, ledger, gate, watch, record, folders, bases,
             [this](DatasetId dataset_id) {
               return gate.usable() && !watch.lost() && !HungSince() && flusher.ErrorOf(dataset_id).empty();
             },
             [this](DatasetId dataset_id) -> RunCache::Given::InFolder {
               return {.disk = tier.disk(), .path = tier.PathOf(dataset_id), .lane = tier.lane()};
             }},
            {.on_left = [this] { LeftCache(); },
             .on_parts_left = [this](const Dataset& dataset, RunCache::Left how,
                                     const std::string& why) { PartsLeft(dataset, how, why); },
             .on_part_damaged =
                 [this](const Dataset& dataset, Rank rank, const std::string& why) {
                   home.Left(dataset, /*damaged=*/true, why, std::to_string(rank));
                 },
             .on_parts_lost = [this] { LookForLost(); },
             .look_again = [this] { ApplyPolicy(); }}),
      ids(shared.context, name, gate),
      foretold({ledger, ids, away}),
      inventory(
          shared.context, {name, ledger, ids, gate, record, folders, cache},
          [this](DatasetId dataset_id) { return flusher.Has(dataset_id); },
          [this](const std::string& mark) { return keeper.IsProvisional(mark); }),
      rebuilder(shared.context, {name, ledger, nodes, record, folders, cache, ids}, [this] { waits.Changed(); }),
      others(shared.context, {name, ledger, gate, nodes, record, folders, cache, ids, inventory, away, rebuilder},
             [this] { waits.Changed(); }),
      keeping(shared.context, {name, ledger, nodes, folders, cache}, [this] { waits.Changed(); }),
      tier(
          shared.context, {name, ledger, ids, gate, record, folders, cache, inventory}, [this] { waits.Changed(); },
          [this] { ApplyPolicy(); }),
      protector(shared.context, {name, ledger, waits, nodes, away, keeping, tier}, [this] { ApplyPolicy(); }),
      views(shared.context, name, gate),
      index(shared.context, name, gate, [this] { shared_.on_change(); }),
      removals(
          shared.context, name, ledger, gate, record,
          [this](DatasetId dataset_id) {
            return flusher.Has(dataset_id) || stores.Writes(dataset_id) || growing.Has(dataset_id);
          },
          keeper),
      stores(shared.context, name, folder, shared.room, ledger, gate, record, removals,
             [this] { return HungSince().has_value(); }),
      growing(shared.context, {name, folder, ledger, gate, record, folders, removals, shared.slots.throttle, keeper},
              {.places = [this](DatasetId dataset_id) { return names.Places(dataset_id); },
               .on_change = [this] { waits.Changed(); }}),
      steering(shared.context, name, ledger, gate, waits),
      flusher(shared.context,
              {name, folder, flush_file, shared.slots, ledger, gate, watch, record, removals, growing, cache, inventory,
               keeper, nodes, away, tier},
              {.on_step = [this] { AfterStep(); }, .look_again = [this] { ApplyPolicy(); }}),
      notes(shared.context, id, name, ledger, gate, flush_file,
            [this](DatasetId dataset_id) { return flusher.InFlight(dataset_id); }),
      entry(shared.context, {name, folder, ledger, ids, foretold, cache, stores, folders, bases}),
      completion({ledger, folders, stores, waits, away, home},
                 [this](const DatasetPtr& dataset) { DatasetWhole(dataset); }),
      away_parts(shared.context,
                 {name, *folder, ledger, waits, gate, cache, away, names, growing, entry, completion, steering,
                  [this](const DatasetPtr& dataset) { outputs.AllEnded(dataset); }, [this] { LookForLost(); }}),
      followed(shared.context, {name, shared.images, shared.slots.throttle, ledger, waits, lists, gate, nodes, record,
                                cache, ids, inventory, completion, home, tier,
                                [this](const DatasetPtr& dataset) { captures.HomeHasBegun(dataset); }}),
      restores(shared.context, {id, name, shared.images, ledger, waits, lists, gate, bases, cache, inventory, nodes,
                                away, tier, [this](DatasetId dataset_id) { flusher.Order(dataset_id); },
                                [this] { others.LookAgain(ledger.newest()->id); }}),
      rejections({name, ledger, waits, gate, record, flusher, inventory, restores}),
      outputs(shared.context, {id, name, *folder, ledger, gate, waits, folders, stores, cache, entry, completion,
                               steering, growing, names, away, home}),
      captures(shared.context,
               {id, name, shared.images, ledger, waits, lists, folders, bases, cache, stores, entry, completion,
                steering, home, [this](const Session& session) { return outputs.IsOpen(session); }}),
      levels({name, ledger, waits, ids, gate, flusher, inventory, protector}) {
  Home::Orders orders = followed.MakeOrders();
  orders.on_all_ended = [this](DatasetId dataset_id) {
    if (const DatasetPtr dataset = ledger.Get(dataset_id)) outputs.AllEnded(dataset);
  };
  orders.keep = [this](const peer::Keep& order, Home::Orders::Then then) {
    order.in_folder() ? tier.Bring(order.dataset(), std::move(then)) : keeping.Keep(order, std::move(then));
  };
  orders.rebuild = [this](const peer::Rebuild& order, std::function<void()> goes_on, Home::Orders::Made then) {
    rebuilder.Make(order, std::move(goes_on), std::move(then));
  };
  orders.on_all_kept = [this, level = std::move(orders.on_all_kept)](const peer::AllKept& kept) {
    level(kept);
    if (const DatasetPtr dataset = ledger.Get(kept.dataset())) {
      keeping.AllKept(dataset, {kept.sets().begin(), kept.sets().end()});
    }
  };
  home.Obey(std::move(orders));
  shared.room.Add(&cache);
}

std::string Run::HeldUpBy(DatasetId dataset) const {
  if (watch.lost()) return fmt::format("{}: the run is not there any more", gate.path());
  if (HungSince()) return fmt::format("{}: the file system does not answer", gate.path());
  return flusher.ErrorOf(dataset);
}

std::optional<SteadyTime> Run::HungSince() const {
  const auto work = gate.HungSince(), flush = flusher.StalledSince();
  return work && flush ? std::min(work, flush) : std::max(work, flush);
}

void Run::ApplyPolicy() {
  if (shared_.context.quiescing() || gate.replaced()) return;
  nodes.Update();
  announced.Update();
  tier.Update();
  protector.Update();  // what is to become redundant has a rhythm of its own
  flusher.Plan();
  foretold.Update();
  keeper.Update();
  cache.ApplyPolicy();
  notes.Update();
  index.Update();
  if (away.any()) TellWhatMayLeave();
}

// First those who wait for the prefix, then commits, then new copies, the other runs' before this one's: it has had its
// turn.
void Run::AfterStep() {
  gate.GiveTurns();
  flusher.CommitNext();
  shared_.others_turn(*this);
  waits.Changed();
}

void Run::PartsLeft(const Dataset& dataset, RunCache::Left how, const std::string& why) {
  const Launch* newest = ledger.newest();
  const bool damaged = how == RunCache::Left::kDamaged;
  if (newest != nullptr && !newest->ours) return home.Left(dataset, damaged, why);
  if (!damaged) away.Leaves(dataset, /*useless=*/how == RunCache::Left::kUseless, why);
}

// Which of those that have parts on other nodes these may give up when they need the room, now or soon.
void Run::TellWhatMayLeave() {
  const Config::Flush& policy = shared_.context.config.flush;
  const std::vector<DatasetFacts> facts = FactsOf(ledger, policy);
  const auto has_parts_there = [this](DatasetId dataset_id) {
    const DatasetPtr dataset = ledger.Get(dataset_id);
    return dataset && dataset->over_nodes() && !dataset->followed;
  };
  Away::Leaving leaving;
  for (const DatasetId dataset_id : EvictionOrder(facts)) {
    if (has_parts_there(dataset_id)) leaving.may.insert(dataset_id);
  }
  for (const DatasetFacts& dataset : facts) {
    if (!ComesToPrefix(dataset, policy) || !cache.MayFlush(dataset.id) || !has_parts_there(dataset.id)) continue;
    leaving.will.insert(dataset.id);
  }
  away.MayLeave(leaving);
}

// In a step of its own: this is a part of another change.
void Run::LookForLost() {
  shared_.context.loop().Post([this] {
    if (ledger.newest() != nullptr && ledger.newest()->ours) others.LookForRest(ledger.newest()->id);
  });
}

void Run::LeftCache() {
  removals.Tidy();
  waits.Ask();
}

// A failed dataset's folder, which nothing writes to any more.
void Run::FolderUnused(DatasetId dataset_id) {
  bases.End(dataset_id);
  if (stores.Writes(dataset_id)) return stores.Remove(dataset_id);
  shared_.context.OnCache([cache_folder = folder, dataset_id] { return cache_folder->Remove(dataset_id); },
                          [this, dataset_id](const absl::Status& status) {
                            // What could not be removed now has no COMPLETE: the next start removes it.
                            if (status.ok()) return;
                            shared_.context.Warn(fmt::format("dataset {}: {}", dataset_id, MessageOf(status)));
                          });
}

void Run::DatasetWhole(const DatasetPtr& dataset) {
  spdlog::debug("run {}: dataset {} (step {}) is local", name, dataset->id, dataset->step);
  const Config::Flush& flush = shared_.context.config.flush;
  const bool has_rhythm = flush.every > 1 || flush.every_redundant > 1;  // its place in that holds over a restart
  if (dataset->in_cache() && dataset->kind.checkpoint && has_rhythm) record.Store();
  names.Forget(dataset->id);
  if (growing.Has(dataset->id)) {  // what has begun on the prefix is finished there
    ledger.FlushAsked(*dataset);
    growing.Stop(dataset->id);
  }
  bases.End(dataset->id);
  shared_.images.NeedsNoLabels(id, dataset->id);
  if (dataset->kind.checkpoint) shared_.images.RetireKept(id, dataset->id);
  shared_.images.MakeSpares(id, dataset->id);
  if (!dataset->kind.past_cache) return;
  folders.Left(dataset->id);
  inventory.CommittedHere(dataset->id);
  stores.Completed(*dataset);
  views.TellWarnings();
  removals.ApplyPolicy();
  AfterStep();
}

// The ledger has taken the dataset out; what belongs to it goes now.
void Run::DatasetFailed(const DatasetPtr& dataset, const std::string& why) {
  shared_.context.Warn(fmt::format("run {}: dataset {} (step {}) failed: {}", name, dataset->id, dataset->step, why));
  const std::shared_ptr<void> lease = folders.Lease(dataset->id);
  if (dataset->followed) {
    home.Failed(*dataset, why);
  } else if (dataset->over_nodes()) {
    away.Failed(*dataset, why);
  }
  outputs.DatasetFailed(dataset);
  names.Forget(dataset->id);
  growing.Stop(dataset->id);
  captures.DatasetFailed(dataset);
  shared_.images.ReturnKept(id, dataset->id);
  folders.Failed(dataset->id, why);
  // Those who wait for it hear of it, whatever made it fail; in a step of its own, as one of them may have asked.
  shared_.context.loop().Post([this] { waits.Changed(); });
}

void Run::Quiesce() {
  keeper.Stop();
  LeaveNodes();
  others.Stop();
  keeping.Stop();
  rebuilder.Stop();
  tier.Stop();
  followed.StopCopying();
  flusher.StopAll();
  growing.StopAll();
}

// What is captured over nodes becomes whole by what these say to each other.
void Run::LeaveNodes() {
  if (!AnyCaptured()) nodes.Leave();
}

void Run::Stop() {
  Quiesce();
  nodes.Stop();
  index.Stop();
  cache.Stop();
  folders.Stop();
  captures.Stop();
  restores.Stop();
  followed.Stop();
  away.Stop();
  home.Stop();
  waits.Clear();
}

bool Run::AnyCaptured() const {
  const Datasets& datasets = ledger.InPlay();
  return std::any_of(datasets.begin(), datasets.end(), [linked = home.linked()](const auto& item) {
    const Dataset& dataset = *item.second;
    if (!dataset.followed || dataset.cache != Place::kArriving) return dataset.level() == Level::kCaptured;
    // Whether the others have handed theirs over is not known here; without a link nobody will say that it is whole.
    return (dataset.recorded && linked) || std::ranges::any_of(dataset.parts, [](const Part& part) {
             return !part.elsewhere && part.captured() && !part.stored();
           });
  });
}

}  // namespace cairn
