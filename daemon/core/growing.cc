// Outputs that go to the prefix while they grow (CAIRN_GROWING): which BP5 directories an open output has is looked for
// every flush.follow, and what has become complete is brought there (storage/bpdir/follow.h), on a pool of its own.
//
// Of each dataset one thing is done at a time. Until all of it is whole in the cache its steps are followed; then it is
// flushed like any other, which completes the directories where they are (daemon/flusher/grown_directory.h). Of one
// that can never be whole the steps stay as a closed directory. This node's record says which directories are on the
// prefix.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/core/core_impl.h"
#include "daemon/flusher/grown_directory.h"
#include "storage/base/check.h"
#include "storage/base/file_tree.h"
#include "storage/base/status.h"
#include "storage/bpdir/directory.h"
#include "storage/bpdir/follow.h"

namespace cairn {
namespace {

constexpr FileTreeBounds kSearch = {.entries_max = 4096, .depth_max = 3};
constexpr std::string_view kIndex = "md.idx";

bool Overlap(const std::string& a, const std::string& b) {
  return a == b || a.starts_with(b + "/") || b.starts_with(a + "/");
}

bool WantsPlace(const GrowingDirectory& directory) {
  return !directory.placed && !directory.given_up;
}

bool AnyUnplaced(const Growth& growth) {
  return std::ranges::any_of(growth.directories, [](const auto& item) { return WantsPlace(item.second); });
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

}  // namespace

void CoreImpl::BeginGrowing(const RunPtr& run, const DatasetPtr& dataset) {
  if (dataset->bypass) {
    const auto begun =
        std::ranges::count_if(dataset->parts, [](const Part& part) { return part.state != Part::State::kAbsent; });
    if (begun > 1) return;  // it was told to the first
    Warn(fmt::format("run {}: dataset {} goes past the cache: its steps are not flushed one by one", run->name,
                     dataset->id));
    return;
  }
  run->growing.try_emplace(dataset->id);
  if (run->growing_timer == 0) LookAtGrowing(run);
}

void CoreImpl::LookAtGrowing(const RunPtr& run) {
  if (run->growing_timer != 0) loop_.Cancel(std::exchange(run->growing_timer, 0));
  if (quiescing_) return;
  std::vector<DatasetId> ids;
  for (const auto& [id, growth] : run->growing) ids.push_back(id);
  for (const DatasetId id : ids) LookAtGrowth(run, id);
  if (run->growing.empty()) return;
  run->growing_timer = loop_.After(std::chrono::milliseconds(config_.flush.follow_ms), [this, run] {
    run->growing_timer = 0;
    LookAtGrowing(run);
  });
}

void CoreImpl::LookAtGrowth(const RunPtr& run, DatasetId id) {
  const auto growth = run->growing.find(id);
  if (growth == run->growing.end() || growth->second.working || quiescing_) return;
  const DatasetPtr dataset = run->ledger.Get(id);
  if (run->replaced || (dataset && dataset->in_prefix)) return EndGrowth(run, id);
  if (dataset && dataset->gave_way) return CloseGrowth(run, id);  // places that nobody else has taken
  if (dataset && dataset->in_cache) return;                       // its flush goes on
  if (dataset && !dataset->damaged && dataset->level() < Level::kLocal) return FindGrowing(run, dataset);
  CloseGrowth(run, id);
}

// --- Steps ---

void CoreImpl::FindGrowing(const RunPtr& run, const DatasetPtr& dataset) {
  std::map<std::string, std::string> roots;  // routed directories
  std::set<std::string> files;               // below which no other file has to be looked for
  if (const auto routed = run->routed_directories.find(dataset->id); routed != run->routed_directories.end()) {
    for (const auto& [name, directory] : routed->second.by_name) roots[name] = directory.routed.path;
  }
  if (const auto routed = run->routed.find(dataset->id); routed != run->routed.end()) {
    for (const auto& [name, rank] : routed->second) {
      if (name.ends_with("/" + std::string(kIndex))) files.insert(name.substr(0, name.size() - kIndex.size() - 1));
    }
  }
  if (roots.empty() && files.empty()) return;
  Growth& growth = run->growing[dataset->id];
  growth.working = true;
  std::set<std::string> known;
  for (const auto& [name, directory] : growth.directories) known.insert(name);
  auto find = [&disk = cache_disk_, folder = run->cache->DatasetPath(dataset->id), roots, files, known] {
    std::set<std::string> found;
    const auto look_at = [&](const std::string& name) {
      if (!known.contains(name) && HasStep(disk, folder + "/" + name)) found.insert(name);
    };
    for (const auto& [name, path] : roots) {
      for (const std::string& below : FindDirectoriesWith(disk, path, std::string(kIndex), kSearch)) {
        look_at(below.empty() ? name : name + "/" + below);
      }
    }
    for (const std::string& name : files) {
      if (disk.Info(folder + "/" + name + "/" + std::string(kIndex)).ok()) look_at(name);
    }
    return found;
  };
  BlockingCache(std::move(find), [this, run, dataset, lease = LeaseOf(run, dataset->id)](
                                     const std::set<std::string>& found) { GrowingFound(run, dataset, found); });
}

// Does another output of the run have the place, whose steps are not yet committed or closed?
bool CoreImpl::IsTaken(const Run& run, DatasetId id, const std::string& name) {
  return std::ranges::any_of(run.growing, [&](const auto& item) {
    return item.first != id && std::ranges::any_of(item.second.directories, [&](const auto& other) {
             return !other.second.given_up && Overlap(other.first, name);
           });
  });
}

void CoreImpl::GrowingFound(const RunPtr& run, const DatasetPtr& dataset, const std::set<std::string>& found) {
  Growth& growth = run->growing[dataset->id];
  for (const std::string& name : found) {
    if (growth.directories.contains(name) || IsTaken(*run, dataset->id, name)) continue;
    const bpdir::Ends ends{cache_disk_, run->cache->DatasetPath(dataset->id) + "/" + name, prefix_disk_,
                           run->prefix_path + "/" + name};
    growth.directories[name].follower =
        std::make_shared<bpdir::Follower>(ends, [this, progress = growth.progress](std::uint64_t bytes) {
          if (!throttle_.Take(bytes, progress->stop)) return false;
          progress->bytes_done += bytes;
          return true;
        });
  }
  const bool on = run->ledger.Get(dataset->id) == dataset && !growth.progress->stop && !growth.directories.empty();
  if (!on) return GrowthWorked(run, dataset->id);
  if (!AnyUnplaced(growth)) return StepGrowing(run, dataset);
  // Names of older datasets are about to be taken: not while others do so.
  const bool committing = std::ranges::any_of(run->flushes, [](const auto& item) {
    return item.second->state == FlushJob::State::kCommitting && item.second->dataset->files;
  });
  if (committing || run->removals > 0 || FilesBypass(*run)) return GrowthWorked(run, dataset->id);
  ++run->removals;
  run->begun.insert(dataset->id);
  // After a crash this node's record says which datasets may have been withdrawn for this one's directories.
  StoreFlushRecord(run, [this, run, dataset](const absl::Status& noted) {
    if (noted.ok()) return PlaceGrowing(run, dataset);
    --run->removals;
    GrowthWorked(run, dataset->id);
  });
}

void CoreImpl::PlaceGrowing(const RunPtr& run, const DatasetPtr& dataset) {
  std::set<std::string> names;
  for (const auto& [name, directory] : run->growing[dataset->id].directories) {
    if (WantsPlace(directory)) names.insert(name);
  }
  auto place = [this, path = run->prefix_path, run_id = run->id, prefix = run->prefix, file = run->flush_file,
                descriptor = DescriptorOf(*dataset, false), names] {
    PlacesTaken taken;
    taken.result = AtPrefix(path, run_id, prefix, [&](Prefix& there) {
      FlushOutcome all;
      for (const std::string& name : names) {
        FlushOutcome one = TakePlace({prefix_disk_, there, *file}, descriptor, name);
        all.withdrawn.insert(all.withdrawn.end(), one.withdrawn.begin(), one.withdrawn.end());
        all.warnings.insert(all.warnings.end(), one.warnings.begin(), one.warnings.end());
        if (one.status.ok()) taken.names.insert(name);
        if (one.too_late) taken.too_late.insert(name);
        if (all.status.ok()) all.status = one.status;
      }
      return all;
    });
    return taken;
  };
  // Commits of the run wait for this: it must not wait itself for the steps of other runs.
  BlockingPrefix(std::move(place),
                 [this, run, dataset](PlacesTaken taken) { GrowingPlaced(run, dataset, std::move(taken)); });
}

void CoreImpl::GrowingPlaced(const RunPtr& run, const DatasetPtr& dataset, PlacesTaken taken) {
  --run->removals;
  const DatasetId id = dataset->id;
  if (taken.result.found) Replaced(run, *taken.result.found);
  for (const std::string& warning : taken.result.outcome.warnings) Warn(warning);
  for (const DatasetId older : taken.result.outcome.withdrawn) GaveWay(run, older, id);
  Growth& growth = run->growing[id];
  TellOnce(*run, id, taken.result.outcome.status, &growth.error);
  for (const std::string& name : taken.names) growth.directories[name].placed = true;
  for (const std::string& name : taken.too_late) growth.directories[name].given_up = true;
  AfterFlush(run);  // commits may have waited
  if (taken.names.empty()) return GrowthWorked(run, id);
  // And which directories are to be closed.
  StoreFlushRecord(run, [this, run, dataset](const absl::Status& noted) {
    if (noted.ok()) return StepGrowing(run, dataset);
    GrowthWorked(run, dataset->id);
  });
}

void CoreImpl::StepGrowing(const RunPtr& run, const DatasetPtr& dataset) {
  std::map<std::string, std::shared_ptr<bpdir::Follower>> followers;
  for (const auto& [name, directory] : run->growing[dataset->id].directories) {
    if (directory.placed) followers[name] = directory.follower;
  }
  auto step = [this, path = run->prefix_path, run_id = run->id, prefix = run->prefix, followers] {
    std::map<std::string, absl::Status> stepped;
    FlushResult result = AtPrefix(path, run_id, prefix, [&](Prefix&) {
      for (const auto& [name, follower] : followers) stepped[name] = follower->Step();
      return FlushOutcome();
    });
    return std::pair(std::move(stepped), std::move(result));
  };
  RunBlocking(pools_.growing, loop_, std::move(step),
              [this, run, id = dataset->id, lease = LeaseOf(run, dataset->id)](
                  const std::pair<std::map<std::string, absl::Status>, FlushResult>& ended) {
                GrowingStepped(run, id, ended.first, ended.second);
              });
}

void CoreImpl::GrowingStepped(const RunPtr& run, DatasetId id, const std::map<std::string, absl::Status>& stepped,
                              const FlushResult& result) {
  if (result.found) Replaced(run, *result.found);
  Growth& growth = run->growing[id];
  TellOnce(*run, id, result.outcome.status, &growth.error);
  for (const auto& [name, status] : stepped) {
    GrowingDirectory& directory = growth.directories[name];
    directory.followed = directory.follower->followed();
    if (!absl::IsCancelled(status)) TellOnce(*run, id, status, &directory.error);
    if (!absl::IsAborted(status)) continue;
    directory.given_up = std::exchange(directory.placed, false);
    StoreFlushRecord(run);
  }
  GrowthWorked(run, id);
}

// Whatever has become of the dataset meanwhile waits for this.
void CoreImpl::GrowthWorked(const RunPtr& run, DatasetId id) {
  const auto growth = run->growing.find(id);
  if (growth == run->growing.end()) return;
  growth->second.working = false;
  const DatasetPtr dataset = run->ledger.Get(id);
  if (!dataset || dataset->level() >= Level::kLocal) LookAtGrowth(run, id);
  Changed(run);
}

// The same trouble comes at every look.
void CoreImpl::TellOnce(const Run& run, DatasetId id, const absl::Status& status, std::string* told) {
  std::string text(MessageOf(status));
  if (!status.ok() && text != *told) Warn(fmt::format("run {}: growing dataset {}: {}", run.name, id, text));
  *told = std::move(text);
}

// --- Its end ---

// Steps that are under way end at the next block.
void CoreImpl::StopGrowth(const RunPtr& run, DatasetId id) {
  const auto growth = run->growing.find(id);
  if (growth == run->growing.end()) return;
  growth->second.progress->stop = true;
  loop_.Post([this, run, id] { LookAtGrowth(run, id); });
}

void CoreImpl::CloseGrowth(const RunPtr& run, DatasetId id) {
  Growth& growth = run->growing[id];
  const std::set<std::string> names = GrownOf(*run, id);
  if (names.empty()) return EndGrowth(run, id);
  growth.working = true;
  auto close = [this, path = run->prefix_path, run_id = run->id, prefix = run->prefix, id, names] {
    return AtPrefix(path, run_id, prefix, [&](Prefix& there) {
      FlushOutcome all;
      for (const std::string& name : names) {
        const FlushOutcome one = ClosePlace(prefix_disk_, there, id, name);
        if (!one.status.ok() && !one.too_late && all.status.ok()) all.status = one.status;
      }
      return all;
    });
  };
  RunBlocking(pools_.growing, loop_, std::move(close), [this, run, id](FlushResult result) {
    run->growing[id].working = false;
    if (result.found) Replaced(run, *result.found);
    if (!run->prefix && result.prefix && !run->replaced) run->prefix = std::move(result.prefix);
    TellOnce(*run, id, result.outcome.status, &run->growing[id].error);
    if (!result.outcome.status.ok() && !run->replaced) return;  // the next look tries again
    spdlog::info("run {}: the steps that dataset {} has on the prefix stay there, closed", run->name, id);
    EndGrowth(run, id);
  });
}

void CoreImpl::EndGrowth(const RunPtr& run, DatasetId id) {
  const bool noted = !GrownOf(*run, id).empty();
  const std::shared_ptr<FlushJob> too_late = run->growing[id].too_late;
  run->growing.erase(id);
  if (noted) StoreFlushRecord(run);
  if (too_late) RemoveTooLate(run, too_late);
  TidyPrefix(run);
}

std::set<std::string> CoreImpl::GrownOf(const Run& run, DatasetId id) {
  std::set<std::string> names;
  const auto growth = run.growing.find(id);
  if (growth == run.growing.end()) return names;
  for (const auto& [name, directory] : growth->second.directories) {
    if (directory.placed) names.insert(name);
  }
  return names;
}

// A newer dataset whose directory already has the place of one of the files.
DatasetId CoreImpl::NewerGrowthOver(const Run& run, const FlushJob& job) {
  for (auto at = run.growing.upper_bound(job.dataset->id); at != run.growing.end(); ++at) {
    for (const std::string& name : GrownOf(run, at->first)) {
      for (const catalogue::Catalogue& catalogue : job.catalogues) {
        for (const catalogue::FileEntry& file : catalogue.file()) {
          if (file.prefix_name().starts_with(name + "/")) return at->first;
        }
      }
    }
  }
  return 0;
}

}  // namespace cairn
