#include "tests/daemon/core/history.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <utility>

#include "storage/io/file_tree.h"

namespace cairn {
namespace {

constexpr std::string_view kCache = "/cache";

}  // namespace

History::History(std::uint64_t seed, const std::string& root) : daemon_(seed, cache_, prefix_) {
  for (std::uint32_t run = 0; run < 2; ++run) {
    Site& site = sites_.emplace_back();
    site.prefix = fmt::format("{}/run{}", root, run);
  }
  const auto note = [this, shown = std::getenv("CAIRN_TEST_LOG") != nullptr](FakeOp op, const std::string& path) {
    if (shown) spdlog::trace("{} {}", static_cast<int>(op), path);
    trace_ = (trace_ ^ std::hash<std::string>()(path) ^ static_cast<std::uint64_t>(op)) * 0x9e3779b97f4a7c15;
  };
  cache_.SetHook(note);
  prefix_.SetHook(note);
}

void History::Configure() {
  Config& config = daemon_.config;
  config.cache.path = kCache;
  config.cache.bytes_max = (std::uint64_t{1} << 10) * (120 << Draw(5));
  config.cache.keep = static_cast<std::uint32_t>(Draw(3));
  config.cache.bypass = Chance(2);
  config.image.bytes_max = std::uint64_t{2 << 20} << (2 + Draw(3));
  config.flush.every = static_cast<std::uint32_t>(Draw(3));
  config.flush.superseded = Chance(2);
  config.flush.parallel = static_cast<std::uint32_t>(1 + Draw(3));
  config.flush.retry_ms_min = 10;
  config.flush.retry_ms_max = 5000;
  config.prefix.keep_last = Chance(4) ? static_cast<std::uint32_t>(1 + Draw(3)) : 0;
  config.prefix.views = Chance(4);
  config.ftiff.differential = Chance(3);
  config.threads = 2;
  config.call_ms_default = 30000;
  config.quiesce_ms = 60000;
  constexpr std::uint32_t kJobs[] = {1, 1, 2, 2, 3};
  jobs_max_ = kJobs[Draw(std::size(kJobs))];
  config.ingest.resume_ms = 5000;
  if (Chance(8)) {
    kinds_.calm = true;
    config.image.bytes_max = 64 << 20;  // nobody waits for an image
    return;
  }
  kinds_ = {.faults = Chance(3),
            .hurt = Chance(4),
            .kills = Chance(2),
            .breaks = Chance(3),
            .takeovers = Chance(5),
            .commands = Chance(3)};
  kinds_.files = Chance(3);
  if (kinds_.files) config.cache.bypass = false;  // a crash between renames loses what was there, as README.md says
  daemon_.breaks = [this] { return kinds_.breaks && !trouble_over_ && Chance(60); };
}

bool History::Start() {
  absl::Status started = daemon_.Start();
  for (int i = 0; i < 2 && !started.ok(); ++i) {  // the first time after a fault, the second after a crash
    ClearFaults();
    if (cache_.crashed() || prefix_.crashed()) RestartDisks();
    started = daemon_.Start();
  }
  if (!started.ok()) Violated(fmt::format("the daemon does not start: {}", started.ToString()));
  return started.ok();
}

void History::Run() {
  Configure();
  for (Site& site : sites_) site.model = std::make_unique<RunModel>(daemon_.config.prefix.keep_last);
  if (!Start()) return;
  const std::uint64_t turns = 40 + Draw(80);
  for (std::uint64_t turn = 0; turn < turns && violations_.empty() && !Done(); ++turn) {
    StartJobs();
    for (std::uint64_t steps = 1 + Draw(60); steps > 0; --steps) {
      daemon_.Advance();
      if (cache_.crashed() || prefix_.crashed()) Kill(/*power_fails=*/true);
    }
    Event();
  }
  EndTrouble();
  Settle();
  Restart();
  if (daemon_.running() && kinds_.hurt && Chance(2)) LoseCache();
  if (violations_.empty() && daemon_.running()) Verify();
  if (daemon_.running() && daemon_.idle() && !daemon_.StopCleanly()) Violated("not all came to `local` before the end");
  if (daemon_.waits_in_vain() > 0) Violated(fmt::format("{} waits in vain", daemon_.waits_in_vain()));
  for (Site& site : sites_) {
    for (const std::string& what : site.model->violations()) Violated(fmt::format("{}: {}", site.prefix, what));
  }
  trace_ ^= daemon_.stepper().steps();
}

// --- Jobs ---

JobPlan History::MakePlan(Site& site, std::uint32_t run) {
  JobPlan plan{.number = ++site.begun, .prefix = site.prefix};
  plan.client.shares_memory = !Chance(4);
  plan.client.resumable = !plan.client.shares_memory && Chance(2);
  plan.takeover = kinds_.takeovers;
  plan.comes_back = Chance(2);
  plan.closes = kinds_.calm || !Chance(4);
  plan.calm = kinds_.calm;
  plan.reads_fail = kinds_.faults;
  plan.restarts = kinds_.kills;
  if (plan.number > 1 || Chance(4)) plan.deeds.push_back({.kind = Deed::Kind::kRestart});
  for (std::uint64_t deeds = 1 + Draw(Chance(4) ? 4 : 2); deeds > 0; --deeds) {
    Deed deed;
    deed.written = {.run = run, .launch = plan.number, .step = ++site.step};
    deed.written.files = kinds_.files && Chance(3);
    if (deed.written.files) {
      deed.kind = Deed::Kind::kFiles;
      deed.written.output = Chance(3);
    }
    constexpr local::Level kWaits[] = {local::NONE, local::NONE, local::LOCAL, local::PREFIX};
    deed.wait = kWaits[Draw(4)];
    deed.abort = !plan.calm && !deed.written.files && Chance(20);
    plan.deeds.push_back(deed);
    if (Chance(8)) plan.deeds.push_back({.kind = Deed::Kind::kRestart});
  }
  return plan;
}

void History::StartJobs() {
  for (std::uint32_t run = 0; run < sites_.size(); ++run) {
    Site& site = sites_[run];
    const bool over = site.jobs.empty() || site.jobs.back()->over();
    if (site.begun == jobs_max_ || !(over || (kinds_.takeovers && Chance(20)))) continue;
    if (over && !site.jobs.empty() && !Chance(4)) continue;  // a while later
    site.jobs.push_back(std::make_shared<Job>(daemon_, cache_, prefix_, *site.model, MakePlan(site, run)));
    site.jobs.back()->Start();
  }
}

bool History::Done() const {
  return daemon_.idle() &&
         std::all_of(sites_.begin(), sites_.end(), [this](const Site& site) { return site.begun == jobs_max_; });
}

void History::Settle() {
  const auto over = [this] { return daemon_.idle(); };
  if (!daemon_.AdvanceUntil(over)) Violated("a rank waits without end");
}

// --- Events ---

void History::Event() {
  // Where nothing is wrong no deadline passes.
  const std::uint64_t longest_ms = kinds_.calm ? 5 : Chance(30) ? 60000 : 300;
  if (Chance(3)) daemon_.stepper().Turn(std::chrono::milliseconds(Draw(longest_ms)));
  if (kinds_.faults && Chance(10)) Fault();
  if (kinds_.hurt && Chance(8)) Hurt();
  if (kinds_.commands && Chance(8)) Command();
  if (!kinds_.kills) return;
  if (Chance(30)) Kill(/*power_fails=*/Chance(2));
  if (Chance(30)) (Chance(2) ? cache_ : prefix_).CrashAt(1 + Draw(100));
  if (Chance(60)) Restart();
}

void History::Fault() {
  FakeDisk& disk = Chance(2) ? cache_ : prefix_;
  if (Chance(3)) return ClearFaults();
  constexpr FakeOp kOps[] = {FakeOp::kAny,  FakeOp::kOpen,         FakeOp::kRead,          FakeOp::kWrite,
                             FakeOp::kSync, FakeOp::kRename,       FakeOp::kSyncDirectory, FakeOp::kRemove,
                             FakeOp::kList, FakeOp::kMakeDirectory};
  ++counts_.faults;
  if (Chance(6)) return disk.SetCapacity((100 << 10) + Draw(400 << 10));
  disk.FailOn({.op = kOps[Draw(std::size(kOps))],
               .nth = 1 + Draw(50),
               .times = 1 + Draw(Chance(4) ? 100 : 2),
               .status = Chance(2) ? absl::UnavailableError("injected") : absl::ResourceExhaustedError("injected")});
}

const RunModel::Dataset* History::AnyDataset(const Site& site, DatasetId* id) {
  const auto& datasets = site.model->datasets();
  if (datasets.empty()) return nullptr;
  const auto at = std::next(datasets.begin(), static_cast<std::ptrdiff_t>(Draw(datasets.size())));
  *id = at->first;
  return &at->second;
}

// A bit of a checkpoint file changes by itself.
void History::Hurt() {
  const std::uint64_t run = Draw(sites_.size());
  const bool in_cache = Chance(2);
  DatasetId id = 0;
  if (AnyDataset(sites_[run], &id) == nullptr) return;
  FakeDisk& disk = in_cache ? cache_ : prefix_;
  const std::string root = in_cache ? std::string(kCache) : fmt::format("{}/ckpt.{}", sites_[run].prefix, id);
  const std::string part = in_cache ? fmt::format("scr.run{}-", run) : "";
  const std::string name = fmt::format("Ckpt{}-Rank{}.fti", id, Draw(kModelRanks));
  const auto files = ListFilesBelow(disk, root);
  if (!files.ok()) return;
  for (const auto& [path, info] : *files) {
    if (!path.ends_with(name) || path.find(part) == std::string::npos || info.bytes == 0) continue;
    RunModel& model = *sites_[run].model;
    in_cache ? model.HurtInCache(id, daemon_.config.ftiff.differential) : model.HurtOnPrefix(id);
    disk.FlipBit(root + "/" + path, Draw(info.bytes * 8));
    ++counts_.hurt;
    return;
  }
}

// What a person at the command line does. Whoever asks does not wait for the answer.
void History::Command() {
  Site& site = sites_[Draw(sites_.size())];
  DatasetId id = 0;
  const RunModel::Dataset* dataset = AnyDataset(site, &id);
  if (!daemon_.running() || dataset == nullptr) return;
  switch (Draw(4)) {
    case 0: {
      admin::FlushRequest request;
      request.set_run(site.prefix);
      request.set_dataset(id);
      return daemon_.core().Flush(request, [](admin::FlushReply) {});
    }
    case 1: {
      admin::PinRequest request;
      request.set_run(site.prefix);
      request.set_dataset(id);
      request.set_pinned(Chance(2));
      // Pinned from the answer on; not any more from the question on.
      if (!request.pinned()) site.model->Pinned(id, false);
      return daemon_.core().Pin(request, [&site, id, pinned = request.pinned()](admin::PinReply reply) {
        if (pinned && reply.status().code() == local::OK) site.model->Pinned(id, true);
      });
    }
    case 2: {
      admin::RemoveRequest request;
      request.set_run(site.prefix);
      request.set_dataset(id);
      if (dataset->pinned || !Chance(3)) return;
      site.model->Removed(id);
      return daemon_.core().Remove(request, [](admin::RemoveReply) {});
    }
    default:
      return daemon_.core().Status({}, [](admin::StatusReply) {});
  }
}

void History::ClearFaults() {
  for (FakeDisk* disk : {&cache_, &prefix_}) {
    disk->ClearFaults();
    disk->SetCapacity(UINT64_MAX);
  }
}

void History::EndTrouble() {
  trouble_over_ = true;
  ClearFaults();
  if (cache_.crashed() || prefix_.crashed()) Kill(/*power_fails=*/true);
  for (FakeDisk* disk : {&cache_, &prefix_}) disk->CrashAt(std::uint64_t{1} << 40);  // never
}

void History::Restart() {
  if (!daemon_.running()) return;
  if (!daemon_.StopCleanly() && !kinds_.faults && !cache_.crashed() && !prefix_.crashed()) {
    Violated("not all that was captured is `local` after a clean stop");
  }
  if (cache_.crashed() || prefix_.crashed()) RestartDisks();
  Start();
}

void History::RestartDisks() {
  cache_.Restart(Draw(UINT64_MAX));
  prefix_.Restart(Draw(UINT64_MAX));
}

void History::Kill(bool power_fails) {
  ++counts_.kills;
  daemon_.Kill();
  if (power_fails) RestartDisks();
  for (std::uint64_t steps = Draw(20); steps > 0; --steps) daemon_.stepper().Step();
  Start();
}

// The node's disk is gone; all that is on the prefix must be enough.
void History::LoseCache() {
  daemon_.StopCleanly();
  RemoveTree(cache_, std::string(kCache)).IgnoreError();  // the model counts it as lost
  for (Site& site : sites_) site.model->CacheLost();
  Start();
}

// --- At the end ---

void History::Verify() {
  for (std::uint32_t run = 0; run < sites_.size(); ++run) VerifyRun(sites_[run], run);
  CheckCache();
}

void History::VerifyRun(Site& site, std::uint32_t run) {
  JobPlan plan{.number = ++site.begun, .prefix = site.prefix};
  plan.takeover = true;
  plan.deeds = {{.kind = Deed::Kind::kRestart}};
  for (const auto& [id, dataset] : site.model->datasets()) {
    if (site.model->MustBeThere(id) && Chance(3)) plan.deeds.push_back({.kind = Deed::Kind::kRestore, .dataset = id});
  }
  Deed next;
  next.written = {.run = run, .launch = plan.number, .step = ++site.step};
  next.wait = local::PREFIX;
  plan.calm = !site.model->anything_hurt();
  const auto last = std::make_shared<Job>(daemon_, cache_, prefix_, *site.model, plan);
  last->Start();
  Settle();
  CheckWarned(*last);
  VerifyDatasets(site, last->retried());
  if (!Chance(4)) return;
  plan.deeds = {next};
  plan.number = ++site.begun;
  const auto after = std::make_shared<Job>(daemon_, cache_, prefix_, *site.model, plan);
  after->Start();
  Settle();
}

// What is promised is listed as that; what could not be restored has no level any more.
void History::VerifyDatasets(Site& site, const std::set<DatasetId>& retried) {
  admin::ListRequest request;
  request.set_run(site.prefix);
  const auto list =
      daemon_.Answered<absl::StatusOr<admin::ListReply>>([&](auto done) { daemon_.core().List(request, done); });
  if (!list.ok()) return Violated(fmt::format("{}: {}", site.prefix, list.status().ToString()));
  std::map<DatasetId, local::Level> levels;
  for (const admin::DatasetRow& row : list->datasets()) levels[row.dataset()] = row.level();
  for (const DatasetId id : retried) {
    if (levels.contains(id) && levels[id] >= local::LOCAL) {
      site.model->Violated(
          fmt::format("dataset {} is at {}, and could not be restored", id, local::Level_Name(levels[id])));
    }
  }
  for (const auto& [id, dataset] : site.model->datasets()) {
    counts_.checkpoints += dataset.promised >= local::LOCAL;
    counts_.at_prefix += dataset.promised >= local::PREFIX;
    if (!site.model->MustBeThere(id)) continue;
    if (!levels.contains(id) || levels[id] < dataset.promised) {
      site.model->Violated(fmt::format("dataset {} was promised at {} and is {}", id,
                                       local::Level_Name(dataset.promised),
                                       levels.contains(id) ? local::Level_Name(levels[id]) : "not there"));
    }
  }
}

// Nothing is lost without a word.
void History::CheckWarned(const Job& launch) {
  if (launch.retried().empty()) return;
  const auto status = daemon_.Answered<admin::StatusReply>([&](auto done) { daemon_.core().Status({}, done); });
  for (const DatasetId id : launch.retried()) {
    const std::string named = fmt::format("dataset {}", id);
    const bool warned = std::any_of(status.warnings().begin(), status.warnings().end(),
                                    [&](const std::string& text) { return text.find(named) != std::string::npos; });
    if (!warned) Violated(fmt::format("{} could not be restored, and no warning tells", named));
  }
}

void History::CheckCache() {
  const auto status = daemon_.Answered<admin::StatusReply>([&](auto done) { daemon_.core().Status({}, done); });
  // What could not be read at a start is not counted, and too much when it can be read again. Nobody's files are
  // refused for what others hold.
  if (!kinds_.faults && !kinds_.files && status.cache_bytes_used() > status.cache_bytes_max()) {
    Violated(fmt::format("the cache holds {} bytes of {}", status.cache_bytes_used(), status.cache_bytes_max()));
  }
}

}  // namespace cairn
