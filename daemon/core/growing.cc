#include "daemon/core/growing.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string_view>
#include <utility>

#include "daemon/core/descriptor.h"
#include "storage/base/status.h"
#include "storage/file/bpdir/directory.h"
#include "storage/io/file_tree.h"
#include "storage/job/grow/grown_directory.h"

namespace cairn {
namespace {

constexpr FileTreeBounds kSearch = {.entries_max = 4096, .depth_max = 3};
constexpr std::string_view kIndex = "md.idx";

bool Overlap(const std::string& a, const std::string& b) {
  return a == b || a.starts_with(b + "/") || b.starts_with(a + "/");
}

// Is there a step to bring? Before that nobody gives way to it: it may never have one.
bool HasStep(Disk& disk, const std::string& path) {
  absl::StatusOr<std::uint32_t> steps = 0;
  if (const auto directory = bpdir::Directory::Open(bpdir::ReadFiles(disk, path)); directory.ok()) {
    steps = bpdir::StepsWithData(disk, path, (*directory)->metadata());
  } else {
    steps = directory.status();
  }
  // It may be half written just now; if it stays so its flush at the end takes it as the files that it has.
  if (!steps.ok()) spdlog::debug("{}: {}", path, MessageOf(steps.status()));
  return steps.ok() && *steps > 0;
}

// Blocks. The BP5 directories of an open output that have a step, by name below its `folder` in the cache, but for
// those that are `known`.
std::set<std::string> FindNew(Disk& disk, const std::string& folder, const OpenPlaces& places,
                              const std::set<std::string>& known) {
  std::set<std::string> found;
  const auto look_at = [&](const std::string& name) {
    if (!known.contains(name) && HasStep(disk, folder + "/" + name)) found.insert(name);
  };
  for (const auto& [name, path] : places.roots) {
    for (const std::string& below : FindDirectoriesWith(disk, path, std::string(kIndex), kSearch)) {
      look_at(below.empty() ? name : name + "/" + below);
    }
  }
  for (const std::string& name : places.index_folders) {
    if (disk.Info(folder + "/" + name + "/" + std::string(kIndex)).ok()) look_at(name);
  }
  return found;
}

}  // namespace

Growing::Growing(const Context& context, const Given& given, Reports reports)
    : context_(context), given_(given), reports_(std::move(reports)) {}

void Growing::Begin(const DatasetPtr& dataset) {
  if (dataset->kind.past_cache) {
    const auto begun =
        std::ranges::count_if(dataset->parts, [](const Part& part) { return part.state != Part::State::kAbsent; });
    if (begun > 1) return;  // it was told to the first
    context_.Warn(fmt::format("run {}: dataset {} goes past the cache: its steps are not flushed one by one",
                              given_.run_name, dataset->id));
    return;
  }
  growing_.try_emplace(dataset->id);
  if (timer_ == 0) LookAtAll();
}

void Growing::Adopt() {
  for (const auto& [id, names] : given_.record.grown()) {
    for (const std::string& name : names) growing_[id].directories.try_emplace(name);
    if (const DatasetPtr dataset = given_.ledger.Get(id)) given_.ledger.FlushAsked(*dataset);
  }
  context_.loop().Post([this] { LookAtAll(); });  // after the policy: a flush that is due begins first
}

void Growing::LookAtAll() {
  if (timer_ != 0) context_.loop().Cancel(std::exchange(timer_, 0));
  if (context_.quiescing()) return;
  std::vector<DatasetId> ids;
  for (const auto& [id, growth] : growing_) ids.push_back(id);
  for (const DatasetId id : ids) LookAt(id);
  if (growing_.empty()) return;
  timer_ = context_.loop().After(std::chrono::milliseconds(context_.config.flush.follow_ms), [this] {
    timer_ = 0;
    LookAtAll();
  });
}

void Growing::LookAt(DatasetId id) {
  const auto growth = growing_.find(id);
  if (growth == growing_.end() || growth->second.working || context_.quiescing()) return;
  const DatasetPtr dataset = given_.ledger.Get(id);
  if (given_.gate.replaced() || (dataset && dataset->in_prefix())) return End(id);
  if (dataset && dataset->gave_way()) return Close(id);  // places that nobody else has taken
  if (dataset && dataset->over_nodes()) return LeaveToFlush(*dataset);
  if (dataset && dataset->in_cache()) return;  // its flush goes on
  if (!dataset || dataset->damaged() || dataset->level() >= Level::kLocal) return Close(id);
  // Before all ranks have begun it, it is not known whether they are on several nodes.
  if (context_.env.peers == nullptr || dataset->all_begun()) Find(dataset);
}

// Nothing of it is on the prefix yet.
void Growing::LeaveToFlush(const Dataset& dataset) {
  growing_.erase(dataset.id);
  if (std::exchange(told_, dataset.launch) == dataset.launch) return;
  context_.Warn(
      fmt::format("run {}: launch {} has ranks on several nodes: growing outputs go to the prefix when they are whole, "
                  "not step by step",
                  given_.run_name, dataset.launch));
}

// --- Steps ---

void Growing::Find(const DatasetPtr& dataset) {
  const DatasetId id = dataset->id;
  OpenPlaces places = reports_.places(id);
  if (places.roots.empty() && places.index_folders.empty()) return;
  Growth& growth = growing_[id];
  growth.working = true;
  std::set<std::string> known;
  for (const auto& [name, directory] : growth.directories) known.insert(name);
  context_.OnCache(
      [&disk = context_.env.cache_disk, folder = given_.cache->DatasetPath(id), places = std::move(places),
       known = std::move(known)]() -> absl::StatusOr<std::set<std::string>> {
        return FindNew(disk, folder, places, known);
      },
      [this, dataset, lease = given_.folders.Lease(id)](const auto& found) { Found(dataset, found); });
}

// Does another output of the run have the place, whose steps are not yet committed or closed?
bool Growing::IsTaken(DatasetId id, const std::string& name) const {
  return std::ranges::any_of(growing_, [&](const auto& item) {
    return item.first != id && std::ranges::any_of(item.second.directories, [&](const auto& other) {
             return !other.second.given_up && Overlap(other.first, name);
           });
  });
}

bool Growing::IsPlaced(DatasetId id, const std::string& name) const {
  return given_.record.Grown(id).contains(name);
}

std::set<std::string> Growing::Unplaced(DatasetId id, const Growth& growth) const {
  std::set<std::string> names;
  for (const auto& [name, directory] : growth.directories) {
    if (!directory.given_up && !IsPlaced(id, name)) names.insert(name);
  }
  return names;
}

std::shared_ptr<bpdir::Follower> Growing::MakeFollower(DatasetId id, const std::string& name,
                                                       std::shared_ptr<TransferProgress> progress) const {
  const bpdir::Ends ends{context_.env.cache_disk, given_.cache->DatasetPath(id) + "/" + name, context_.env.prefix_disk,
                         given_.gate.path() + "/" + name};
  return std::make_shared<bpdir::Follower>(
      ends, [&throttle = given_.throttle, progress = std::move(progress)](std::uint64_t bytes) {
        if (!throttle.Take(bytes, progress->stop)) return false;
        progress->bytes_done += bytes;
        return true;
      });
}

void Growing::Found(const DatasetPtr& dataset, const absl::StatusOr<std::set<std::string>>& found) {
  const DatasetId id = dataset->id;
  Growth& growth = growing_[id];
  if (!found.ok()) {
    TellOnce(id, found.status(), &growth.error);
    return Worked(id);
  }
  for (const std::string& name : *found) {
    if (growth.directories.contains(name) || IsTaken(id, name)) continue;
    growth.directories[name].follower = MakeFollower(id, name, growth.progress);
  }
  const bool on = given_.ledger.Has(dataset) && !growth.progress->stop && !growth.directories.empty();
  if (!on) return Worked(id);
  if (Unplaced(id, growth).empty()) return Step(dataset);
  // Names of older datasets are about to be taken: not while others do so.
  const std::shared_ptr<PrefixGate::Lease> lease = given_.gate.TryTake(PrefixGate::Change::kTakePlaces);
  if (!lease) return Worked(id);
  given_.record.Begun(id);
  // After a crash this node's record says which datasets may have been withdrawn for this one's directories.
  given_.record.Store([this, dataset, lease](const absl::Status& noted) {
    if (noted.ok()) return TakePlaces(dataset, lease);
    lease->End();
    Worked(dataset->id);
  });
}

void Growing::TakePlaces(const DatasetPtr& dataset, const std::shared_ptr<PrefixGate::Lease>& lease) {
  auto place = [&disk = context_.env.prefix_disk, visit = given_.gate.MakeVisitor(),
                descriptor = DescriptorOf(*dataset, false), names = Unplaced(dataset->id, growing_[dataset->id]),
                committer = given_.keeper.committer()] {
    PlacesTaken taken;
    taken.visited = visit([&](Prefix& there) {
      absl::Status status;
      for (const std::string& name : names) {
        const GrowOutcome one = TakePlace(disk, there, descriptor, name, committer);
        for (const auto& [older, catalogues] : one.withdrawn) taken.withdrawn.push_back(older);
        taken.warnings.insert(taken.warnings.end(), one.warnings.begin(), one.warnings.end());
        if (one.status.ok()) taken.names.insert(name);
        if (one.too_late || one.fenced) taken.too_late.insert(name);
        if (status.ok()) status = one.status;
      }
      return status;
    });
    return taken;
  };
  // Commits of the run wait for this: it must not wait itself for the steps of other runs.
  context_.OnPrefix(given_.gate.path(), std::move(place),
                    [this, dataset, lease](const PlacesTaken& taken) { PlacesAreTaken(dataset, lease, taken); });
}

void Growing::PlacesAreTaken(const DatasetPtr& dataset, const std::shared_ptr<PrefixGate::Lease>& lease,
                             const PlacesTaken& taken) {
  const DatasetId id = dataset->id;
  given_.gate.VisitEnded(taken.visited);
  for (const std::string& warning : taken.warnings) context_.Warn(warning);
  for (const DatasetId older : taken.withdrawn) given_.removals.GaveWay(older, id);
  Growth& growth = growing_[id];
  TellOnce(id, taken.visited.status, &growth.error);
  for (const std::string& name : taken.names) given_.record.HasGrown(id, name);
  for (const std::string& name : taken.too_late) growth.directories[name].given_up = true;
  lease->End();  // commits may have waited
  if (taken.names.empty()) return Worked(id);
  // And which directories are to be closed.
  given_.record.Store([this, dataset](const absl::Status& noted) {
    if (noted.ok()) return Step(dataset);
    Worked(dataset->id);
  });
}

void Growing::Step(const DatasetPtr& dataset) {
  const DatasetId id = dataset->id;
  std::map<std::string, std::shared_ptr<bpdir::Follower>> followers;
  for (const auto& [name, directory] : growing_[id].directories) {
    if (IsPlaced(id, name)) followers[name] = directory.follower;
  }
  auto step = [visit = given_.gate.MakeVisitor(), followers = std::move(followers)] {
    Stepped stepped;
    stepped.visited = visit([&](Prefix&) {
      for (const auto& [name, follower] : followers) stepped.directories[name] = follower->Step();
      return absl::OkStatus();
    });
    return stepped;
  };
  RunBlocking(context_.env.pools.growing, given_.gate.path(), context_.env.loop, std::move(step),
              [this, id, lease = given_.folders.Lease(id)](const Stepped& stepped) { StepEnded(id, stepped); });
}

void Growing::StepEnded(DatasetId id, const Stepped& stepped) {
  given_.gate.VisitEnded(stepped.visited);
  Growth& growth = growing_[id];
  TellOnce(id, stepped.visited.status, &growth.error);
  for (const auto& [name, status] : stepped.directories) {
    Directory& directory = growth.directories[name];
    directory.followed = directory.follower->followed();
    if (!absl::IsCancelled(status)) TellOnce(id, status, &directory.error);
    if (!absl::IsAborted(status)) continue;
    directory.given_up = true;
    given_.record.LostPlace(id, name);
    given_.record.Store();
  }
  Worked(id);
}

// Whatever has become of the dataset meanwhile waits for this.
void Growing::Worked(DatasetId id) {
  const auto growth = growing_.find(id);
  if (growth == growing_.end()) return;
  growth->second.working = false;
  const DatasetPtr dataset = given_.ledger.Get(id);
  if (!dataset || dataset->level() >= Level::kLocal) LookAt(id);
  reports_.on_change();
}

// The same trouble comes at every look.
void Growing::TellOnce(DatasetId id, const absl::Status& status, std::string* told) const {
  std::string text(MessageOf(status));
  if (!status.ok() && text != *told) {
    context_.Warn(fmt::format("run {}: growing dataset {}: {}", given_.run_name, id, text));
  }
  *told = std::move(text);
}

// --- Its end ---

void Growing::Stop(DatasetId id) {
  const auto growth = growing_.find(id);
  if (growth == growing_.end()) return;
  growth->second.progress->stop = true;
  context_.loop().Post([this, id] { LookAt(id); });
}

void Growing::StopAll() {
  for (auto& [id, growth] : growing_) growth.progress->stop = true;
}

void Growing::Committed(DatasetId id) {
  growing_.erase(id);
  given_.record.GrowthEnded(id);
}

// Of a dataset that is removed nobody can tell whose a place is: its directories are closed before.
void Growing::CloseThen(DatasetId id, std::function<void()> then) {
  const auto growth = growing_.find(id);
  if (growth == growing_.end()) return then();
  growth->second.on_closed.push_back(std::move(then));
  LookAt(id);
}

void Growing::Close(DatasetId id) {
  const std::set<std::string> names = given_.record.Grown(id);
  if (names.empty()) return End(id);
  // Whose a place is must not change between the look and the closing.
  const std::shared_ptr<PrefixGate::Lease> lease = given_.gate.TryTake(PrefixGate::Change::kTakePlaces);
  if (!lease) return;  // the next look tries again
  growing_[id].working = true;
  auto close = [&disk = context_.env.prefix_disk, visit = given_.gate.MakeVisitor(), id, names,
                committer = given_.keeper.committer()] {
    return visit([&](Prefix& there) {
      absl::Status status;
      for (const std::string& name : names) {
        const GrowOutcome one = ClosePlace(disk, there, id, name, committer);
        if (!one.status.ok() && !one.too_late && !one.fenced && status.ok()) status = one.status;
      }
      return status;
    });
  };
  // Commits of the run wait for this, as for TakePlaces.
  context_.OnPrefix(given_.gate.path(), std::move(close), [this, id, lease](const PrefixGate::Visited& visited) {
    growing_[id].working = false;
    given_.gate.VisitEnded(visited);
    TellOnce(id, visited.status, &growing_[id].error);
    lease->End();
    if (!visited.status.ok() && !given_.gate.replaced()) return;  // the next look tries again
    spdlog::info("run {}: the steps that dataset {} has on the prefix stay there, closed", given_.run_name, id);
    End(id);
  });
}

void Growing::End(DatasetId id) {
  const bool noted = !given_.record.Grown(id).empty();
  const auto growth = growing_.extract(id);
  given_.record.GrowthEnded(id);
  if (noted) given_.record.Store();
  if (growth) {
    for (const auto& next : growth.mapped().on_closed) next();
  }
  given_.removals.Tidy();
}

// --- Questions ---

bool Growing::Working(DatasetId id) const {
  const auto growth = growing_.find(id);
  return growth != growing_.end() && growth->second.working;
}

DatasetId Growing::NewerOver(DatasetId id, const std::vector<catalogue::Catalogue>& catalogues) const {
  const auto& grown = given_.record.grown();
  for (auto at = grown.upper_bound(id); at != grown.end(); ++at) {
    for (const std::string& name : at->second) {
      if (HasFilesIn(name, catalogues)) return at->first;
    }
  }
  return 0;
}

bool Growing::HasFilesIn(const std::string& name, const std::vector<catalogue::Catalogue>& catalogues) {
  return std::ranges::any_of(catalogues, [folder = name + "/"](const catalogue::Catalogue& catalogue) {
    return std::ranges::any_of(catalogue.file(), [&folder](const catalogue::FileEntry& file) {
      return file.prefix_name().starts_with(folder);
    });
  });
}

std::vector<admin::GrowingDirectory> Growing::Describe(DatasetId id) const {
  std::vector<admin::GrowingDirectory> rows;
  const auto growth = growing_.find(id);
  if (growth == growing_.end()) return rows;
  for (const auto& [name, directory] : growth->second.directories) {
    admin::GrowingDirectory& row = rows.emplace_back();
    row.set_name(name);
    row.set_dataset(id);
    row.set_steps_complete(directory.followed.complete);
    row.set_steps_flushed(directory.followed.flushed);
    row.set_bytes(directory.followed.bytes);
    row.set_error(directory.error.empty() ? growth->second.error : directory.error);
  }
  return rows;
}

std::vector<admin::GrowingDirectory> Growing::DescribeAll() const {
  std::vector<admin::GrowingDirectory> rows;
  for (const auto& [id, growth] : growing_) std::ranges::move(Describe(id), std::back_inserter(rows));
  return rows;
}

}  // namespace cairn
