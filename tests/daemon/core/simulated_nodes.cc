#include "tests/daemon/core/simulated_nodes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/names.h"
#include "storage/place/prefix/prefix.h"
#include "tests/support/fiber.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr std::chrono::minutes kPatience(10);
constexpr std::chrono::system_clock::time_point kEpoch{std::chrono::seconds(1'700'000'000)};
constexpr char kCache[] = "/ssd";

}  // namespace

struct SimulatedNodes::Script {
  explicit Script(std::function<void()> script) : fiber(std::move(script)) {}
  Fiber fiber;
  std::function<bool()> holds;  // what it waits for; null: nothing
};

struct SimulatedNodes::Node::Parts : SteppedParts {
  Parts(Stepper& stepper, SimNetwork& network, const std::string& address)
      : SteppedParts(stepper, /*flushes=*/2), access(network, address) {}

  FakeAccess access;
};

SimulatedNodes::Node::Node(SimulatedNodes& all, int number) : all_(all), number_(number) {
  config.cache.path = kCache;
  config.cache.bytes_max = 1 << 30;
  config.image.bytes_max = 256 << 20;
  config.flush.every = 0;
  config.cache.keep = 100;
}

SimulatedNodes::Node::~Node() {
  if (core_) Kill();
}

void SimulatedNodes::Node::Start() {
  CAIRN_CHECK(!core_);
  parts_ = std::make_unique<Parts>(all_.stepper_, all_.network, address());
  parts_->access.run = all_.run_;
  parts_->access.bulk().shared = &all_.files;
  parts_->access.bulk().address = address();
  auto core = Core::Start(config, {.loop = parts_->loop,
                                   .pools = {.work = parts_->work,
                                             .cache = parts_->cache,
                                             .images = parts_->images,
                                             .prefix = parts_->prefix,
                                             .flush = parts_->flush,
                                             .growing = parts_->growing,
                                             .far = parts_->far},
                                   .cache_disk = cache,
                                   .prefix_disk = all_.prefix,
                                   .clocks = {.steady = all_.clock_.source().steady, .wall = all_.clock_.source().wall},
                                   .random = [this] { return all_.numbers_(); },
                                   .process = {.user = "tester", .host = host(), .pid = 42},
                                   .arbiters = PrefixArbiters(),
                                   .peers = &parts_->access,
                                   .job_is_over = all_.job_is_over});
  ASSERT_OK(core.status());
  core_ = *std::move(core);
}

void SimulatedNodes::Node::Hang(const std::string& lane) {
  for (SteppedLanes* const lanes : {&parts_->prefix, &parts_->flush, &parts_->growing, &parts_->far}) {
    lanes->Hang(lane);
  }
}

void SimulatedNodes::Node::HangToo(const std::string& lane) {
  for (SteppedLanes* const lanes : {&parts_->prefix, &parts_->flush, &parts_->growing, &parts_->far}) {
    lanes->HangToo(lane);
  }
}

void SimulatedNodes::Node::Kill() {
  parts_->Drop();
  core_.reset();
  all_.network.Die(address());
  all_.files.served.erase(address());
  parts_.reset();
}

bool SimulatedNodes::Node::Wait(std::unique_lock<std::mutex>& lock, std::condition_variable&,
                                const std::function<bool()>& holds) {
  lock.unlock();
  bool come = true;
  if (all_.script_ == nullptr) {
    come = all_.AdvanceUntil(holds);
  } else {
    all_.script_->holds = holds;
    Fiber::Pause();
    come = holds();
  }
  lock.lock();
  return come;
}

std::vector<Rank> SimulatedNodes::Node::RanksInCache(DatasetId id) {
  const auto found = CacheFolder::Find(cache, kCache, "tester");
  if (!found.ok() || found->empty()) return {};
  const auto index = ReadTree(cache, found->front().path + "/cindex.scrinfo");
  if (!index.ok()) return {};
  const auto entries = scr::GetCacheEntries(*index);
  if (!entries.ok() || !entries->contains(id)) return {};
  return scr::RanksHeld(entries->at(id).descriptor);
}

std::shared_ptr<std::optional<bool>> SimulatedNodes::Node::Quiesce() {
  auto answer = std::make_shared<std::optional<bool>>();
  core_->Quiesce([answer](bool all_local) { *answer = all_local; });
  return answer;
}

std::string SimulatedNodes::Node::FolderOf(DatasetId id) {
  const auto found = CacheFolder::Find(cache, kCache, "tester");
  return !found.ok() || found->empty() ? "" : found->front().path + "/" + RecordsFolderName(id);
}

absl::Status SimulatedNodes::Node::LoseParts(DatasetId id) {
  const std::string folder = FolderOf(id);
  return folder.empty() ? NotFound("no run is in the cache") : RemoveTree(cache, folder);
}

admin::StatusReply SimulatedNodes::Node::Status() {
  const auto answer = std::make_shared<std::optional<admin::StatusReply>>();
  core_->Status({}, [answer](admin::StatusReply reply) { *answer = std::move(reply); });
  EXPECT_TRUE(all_.AdvanceUntil([answer] { return answer->has_value(); }));
  return answer->value_or(admin::StatusReply());
}

template <typename Reply, typename Request>
local::Status SimulatedNodes::Node::Asked(Request request, DatasetId id,
                                          void (Core::*ask)(const Request&, std::function<void(Reply)>)) {
  request.set_run(kPrefix);
  request.set_dataset(id);
  const auto answer = std::make_shared<std::optional<Reply>>();
  (core_.get()->*ask)(request, [answer](Reply reply) { *answer = std::move(reply); });
  EXPECT_TRUE(all_.AdvanceUntil([answer] { return answer->has_value(); }));
  return answer->value_or(Reply()).status();
}

bool SimulatedNodes::Node::IsPinned(DatasetId id) {
  const admin::DatasetRow row = RowOf(id);
  return row.dataset() == id && row.pinned();
}

bool SimulatedNodes::Node::Lists(DatasetId id) {
  return RowOf(id).dataset() == id;
}

admin::DatasetRow SimulatedNodes::Node::RowOf(DatasetId id) {
  admin::ListRequest request;
  request.set_this_node_only(true);
  const auto answer = std::make_shared<std::optional<absl::StatusOr<admin::ListReply>>>();
  core_->List(request, [answer](absl::StatusOr<admin::ListReply> reply) { *answer = std::move(reply); });
  EXPECT_TRUE(all_.AdvanceUntil([answer] { return answer->has_value(); }));
  EXPECT_OK((*answer)->status());
  if (!(*answer)->ok()) return {};
  const auto& rows = (**answer)->datasets();
  const auto row = std::ranges::find(rows, id, &admin::DatasetRow::dataset);
  return row == rows.end() ? admin::DatasetRow() : *row;
}

local::Status SimulatedNodes::Node::Pin(DatasetId id, bool pinned) {
  admin::PinRequest request;
  request.set_pinned(pinned);
  return Asked<admin::PinReply>(request, id, &Core::Pin);
}

local::Status SimulatedNodes::Node::Flush(DatasetId id) {
  return Asked<admin::FlushReply>(admin::FlushRequest(), id, &Core::Flush);
}

local::Status SimulatedNodes::Node::Remove(DatasetId id) {
  return Asked<admin::RemoveReply>(admin::RemoveRequest(), id, &Core::Remove);
}

std::shared_ptr<std::optional<admin::LeaveReply>> SimulatedNodes::Node::AskToLeave(std::chrono::milliseconds patience,
                                                                                   bool to_prefix) {
  admin::LeaveRequest request;
  request.set_timeout_ms(static_cast<std::uint32_t>(patience.count()));
  request.set_to_prefix(to_prefix);
  auto answer = std::make_shared<std::optional<admin::LeaveReply>>();
  core_->Leave(request, [answer](admin::LeaveReply reply) { *answer = std::move(reply); });
  return answer;
}

admin::LeaveReply SimulatedNodes::Node::Leave(std::chrono::milliseconds patience, bool to_prefix) {
  const auto answer = AskToLeave(patience, to_prefix);
  EXPECT_TRUE(all_.AdvanceUntil([answer] { return answer->has_value(); }));
  return answer->value_or(admin::LeaveReply());
}

std::string SimulatedNodes::Node::Warnings() {
  const admin::StatusReply status = Status();
  std::string all;
  for (const std::string& warning : status.warnings()) all += warning + "\n";
  return all;
}

SimulatedNodes::SimulatedNodes(std::uint64_t seed, int nodes)
    : network([this] { return std::chrono::milliseconds(1 + stepper_.Draw(5)); }),
      numbers_(~seed),
      stepper_(seed),
      random_([this] { return numbers_(); }),
      clock_({.wall = [this] { return kEpoch + stepper_.now().time_since_epoch(); },
              .steady = [this] { return stepper_.now(); },
              .sleep = [this](std::chrono::nanoseconds time) { stepper_.Turn(time); }}) {
  EXPECT_OK(MakeDirectories(prefix, kPrefix));
  const auto made = Prefix::Open(prefix, kPrefix);
  EXPECT_OK(made.status());
  if (made.ok()) run_ = (*made)->run();
  prefix.SyncAll();
  for (int i = 1; i <= nodes; ++i) nodes_.push_back(std::make_unique<Node>(*this, i));
}

SimulatedNodes::~SimulatedNodes() {
  nodes_.clear();
}

void SimulatedNodes::StartAll() {
  for (const auto& node : nodes_) node->Start();
}

bool SimulatedNodes::Advance() {
  if (stepper_.Step()) return true;
  Stepper::Time next = loop_.has_timer() ? loop_.next_timer() : Stepper::Time::max();
  for (const auto& node : nodes_) {
    if (node->running() && node->parts_->loop.has_timer()) next = std::min(next, node->parts_->loop.next_timer());
  }
  if (next == Stepper::Time::max()) return false;
  if (next > stepper_.now()) stepper_.Turn(next - stepper_.now());
  return true;
}

bool SimulatedNodes::AdvanceUntil(const std::function<bool()>& holds) {
  const Stepper::Time until = stepper_.now() + kPatience;
  while (!holds()) {
    if (!Advance() || stepper_.now() > until) return holds();
  }
  return true;
}

void SimulatedNodes::Together(std::vector<std::function<void()>> scripts) {
  std::vector<std::unique_ptr<Script>> all;
  for (std::function<void()>& script : scripts) all.push_back(std::make_unique<Script>(std::move(script)));
  const Stepper::Time until = stepper_.now() + kPatience;
  while (!all.empty()) {
    const bool give_up = stepper_.now() > until;
    for (const auto& script : all) {
      if (script->holds && !script->holds() && !give_up) continue;
      script_ = script.get();
      script->holds = nullptr;
      script->fiber.Resume();
      script_ = nullptr;
    }
    std::erase_if(all, [](const auto& script) { return script->fiber.at_end(); });
    if (!all.empty() && !Advance()) stepper_.Turn(kPatience);
  }
}

void SimulatedNodes::PassInScript(int jobs) {
  CAIRN_CHECK(script_ != nullptr);
  const std::uint64_t until = stepper_.steps() + static_cast<std::uint64_t>(jobs);
  const Stepper::Time late = stepper_.now() + std::chrono::minutes(1);
  script_->holds = [this, until, late] { return stepper_.steps() >= until || stepper_.now() >= late; };
  Fiber::Pause();
}

void SimulatedNodes::Pass(std::chrono::milliseconds time) {
  const Stepper::Time until = stepper_.now() + time;
  while (stepper_.now() < until) {
    if (!Advance()) break;
  }
}

}  // namespace cairn
