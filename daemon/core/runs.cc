#include "daemon/core/runs.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "daemon/core/run.h"
#include "daemon/core/salvage.h"
#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {
namespace {

constexpr std::chrono::minutes kDropOldEvery(10);

}  // namespace

Runs::Runs(const Context& context, CacheRoom& room, Make make)
    : context_(context), room_(room), make_(std::move(make)) {}

Runs::~Runs() = default;

// --- At the start ---

absl::StatusOr<CachedRuns> Runs::LoadCached() const {
  Disk& disk = context_.env.cache_disk;
  const std::string& cache = context_.config.cache.path;
  const std::string& user = context_.env.process.user;
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, cache, 0700));
  std::vector<std::string> nameless;  // folders of which nobody can say now whose they are
  CAIRN_ASSIGN_OR_RETURN(const std::vector<CacheFolder::Found> found, CacheFolder::Find(disk, cache, user, &nameless));
  CachedRuns cached;
  cached.warnings = nameless;
  cached.salvage = std::make_shared<Salvage>(context_.env.deposits, context_.env.pools.work, context_.env.clocks.wall);
  std::set<RunId> known, unread;
  absl::Status salvaged;
  for (const CacheFolder::Found& one : found) {
    if (!known.insert(one.run.run).second) continue;  // someone's copy of a run's folder: Open takes the first
    const absl::Status loaded = [&]() -> absl::Status {
      CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<CacheFolder> folder,
                             CacheFolder::Open(disk, cache, user, one.run_name, one.run, one.prefix));
      if (const absl::Status status = cached.salvage->Into(*folder, cached.warnings); !status.ok()) {
        if (salvaged.ok() && cached.salvage->Has(one.run.run)) salvaged = status;
        return status;  // what lies in the folder stays for the next try
      }
      CAIRN_ASSIGN_OR_RETURN(CacheContents contents, LookAtCache(*folder));
      cached.runs.push_back(
          {.run = one.run, .prefix = one.prefix, .folder = std::move(folder), .contents = std::move(contents)});
      return absl::OkStatus();
    }();
    if (loaded.ok()) continue;
    unread.insert(one.run.run);
    cached.warnings.push_back(fmt::format("{}: {}", one.path, MessageOf(loaded)));
  }
  CAIRN_RETURN_IF_ERROR(salvaged);  // when all that could be taken up is
  for (std::string& warning : cached.salvage->DropStrangers(unread, nameless.empty())) {
    cached.warnings.push_back(std::move(warning));
  }
  CAIRN_ASSIGN_OR_RETURN(cached.free_bytes, disk.FreeBytes(cache));
  return cached;
}

void Runs::Enter(CachedRuns cached) {
  salvage_ = std::move(cached.salvage);
  for (std::string& warning : cached.warnings) context_.Warn(std::move(warning));
  for (CachedRuns::One& one : cached.runs) {
    Add(one.run.run, one.prefix, std::move(one.folder), std::move(one.contents));
  }
  std::uint64_t bytes_max = context_.config.cache.bytes_max;
  // Nine tenths of what we have or could have; the rest is for others on the same file system.
  if (bytes_max == 0) bytes_max = (cached.free_bytes + room_.BytesOccupied()) / 10 * 9;
  room_.SetBytesMax(bytes_max);
  room_.WatchDisk(cached.free_bytes);
  for (const auto& [id, run] : runs_) {
    run->ApplyPolicy();
    run->watch.Start();
  }
  for (const auto& [id, run] : runs_) TellApart(run->gate.path());
  DropOldLater();
}

// What waits for its run to be opened uses memory: also in a daemon that lives on it does so for a day only.
void Runs::DropOldLater() {
  if (!AnyLeft()) return;
  context_.loop().After(kDropOldEvery, [this] {
    context_.OnCache([salvage = salvage_] { return salvage->DropOld(); },
                     [this](absl::StatusOr<std::vector<std::string>> dropped) {
                       if (!dropped.ok()) dropped = {std::string(MessageOf(dropped.status()))};
                       for (std::string& warning : *dropped) context_.Warn(std::move(warning));
                       DropOldLater();
                     });
  });
}

// The cache may hold several runs that had the same prefix, one after the other.
void Runs::TellApart(const std::string& prefix_path) {
  const auto lived_there = [&](const auto& item) { return item.second->gate.path() == prefix_path; };
  if (std::count_if(runs_.begin(), runs_.end(), lived_there) < 2) return;
  context_.OnPrefix(
      prefix_path,
      [&disk = context_.env.prefix_disk, prefix_path]() -> absl::StatusOr<RunId> {
        CAIRN_ASSIGN_OR_RETURN(const auto prefix, Prefix::OpenReadOnly(disk, prefix_path));
        return prefix->run();
      },
      [this, prefix_path](const absl::StatusOr<RunId>& now) {
        if (now.ok() && *now != RunId())
          LivesAt(prefix_path, *now);  // else it is out of reach: the one who opens it finds out
      });
}

// --- Which are there ---

Run* Runs::Find(const RunId& run) const {
  const auto at = runs_.find(run);
  return at == runs_.end() ? nullptr : at->second.get();
}

bool Runs::AnyAt(const std::string& prefix_path) const {
  return std::ranges::any_of(runs_, [&](const auto& item) { return item.second->gate.path() == prefix_path; });
}

absl::StatusOr<Run*> Runs::FindNamed(const std::string& name) const {
  std::vector<Run*> found;
  for (const auto& [id, run] : runs_) {
    if (run->gate.path() == name || run->name == name || run->name + "-" + id.ShortHex() == name ||
        (name.size() >= 4 && id.Hex().starts_with(name))) {
      found.push_back(run.get());
    }
  }
  // Of two runs at one path the one that lives there now is meant.
  if (found.size() > 1) std::erase_if(found, [](const Run* run) { return run->gate.replaced(); });
  if (found.empty()) return NotFound("no run {} is known to this daemon", name);
  if (found.size() > 1) {
    return InvalidArgument("{} is the name of {} runs: say the prefix or the identity", name, found.size());
  }
  return found.front();
}

Preparation::Known Runs::Known() const {
  Preparation::Known known;
  for (const auto& [id, run] : runs_) {
    known.paths[id] = run->gate.path();
    known.confirm[id] = run->keeper.MakeConfirm();
    if (run->inventory.prefix_adopted()) {
      known.looked_at.insert(id);
    } else {
      known.cached[id] = run->inventory.CachedOrigins();
      known.folders[id] = run->folder;
    }
  }
  return known;
}

std::function<Runs::Loaded()> Runs::Loading(std::shared_ptr<CacheFolder> folder) const {
  return [salvage = salvage_, folder = std::move(folder)] {
    Loaded loaded;
    loaded.status = salvage->Into(*folder, loaded.warnings);
    if (!loaded.status.ok()) return loaded;
    absl::StatusOr<CacheContents> contents = LookAtCache(*folder);
    loaded.status = contents.status();
    if (contents.ok()) loaded.contents = *std::move(contents);
    return loaded;
  };
}

bool Runs::AnyLeft() const {
  return salvage_ && !salvage_->empty();
}

Run& Runs::Add(const RunId& id, const std::string& prefix_path, std::shared_ptr<CacheFolder> folder,
               CacheContents contents) {
  CAIRN_CHECK(!runs_.contains(id));
  Run& run = *(runs_[id] = make_(id, prefix_path, std::move(folder)));
  run.inventory.AdoptCache(std::move(contents));
  run.growing.Adopt();
  return run;
}

void Runs::LivesAt(const std::string& prefix_path, const RunId& now) {
  for (const auto& [id, run] : runs_) {
    if (run->gate.path() == prefix_path && id != now) run->gate.Replaced(now);
  }
}

}  // namespace cairn
