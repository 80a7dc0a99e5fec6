#include "tests/daemon/core/core_harness.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <span>
#include <thread>
#include <utility>

#include "storage/io/posix_disk.h"

namespace cairn {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience(60);

// Runs `ask` with a callback and waits for what it is given.
template <typename T, typename Ask>
T Answered(Ask ask) {
  auto promise = std::make_shared<std::promise<T>>();
  std::future<T> answer = promise->get_future();
  ask([promise](T reply) { promise->set_value(std::move(reply)); });
  if (answer.wait_for(kPatience) != std::future_status::ready) {
    ADD_FAILURE() << "the core did not answer";
    return T();
  }
  return answer.get();
}

}  // namespace

CoreHarness::CoreHarness(Disk* cache_disk, Disk* prefix_disk) : cache_disk_(cache_disk), prefix_disk_(prefix_disk) {
  spdlog::set_level(std::getenv("CAIRN_TEST_LOG") != nullptr ? spdlog::level::debug : spdlog::level::off);
  std::string name = ::testing::TempDir() + "/cairn_core_XXXXXX";
  root_ = std::filesystem::canonical(::mkdtemp(name.data())).string();
  real_disk_ = MakePosixDisk();
  if (cache_disk_ == nullptr) cache_disk_ = real_disk_.get();
  if (prefix_disk_ == nullptr) prefix_disk_ = real_disk_.get();
  config.cache.path = root_ + "/cache";
  config.cache.bytes_max = 1 << 30;
  config.cache.keep_damaged_ms = 0;  // the fake disks' clocks count operations
  config.cache.keep = 1000;
  config.cache.probe = false;  // of no use here, and it would count as operations of fake disks
  config.image.bytes_max = 64 << 20;
  config.flush.every = 0;
  config.flush.retry_ms_min = 1;
  config.flush.retry_ms_max = 10;
  config.lease.term_ms = 1000;
  config.threads = 2;
  config.call_ms_default = 30000;
  config.quiesce_ms = 30000;
}

CoreHarness::~CoreHarness() {
  Stop();
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}

absl::Status CoreHarness::Start() {
  // The core resolves links in a prefix with the kernel's help, on whichever disk it lies.
  std::filesystem::create_directories(prefix());
  auto core = ThreadedCore::Start(config, *cache_disk_, *prefix_disk_, clocks, *arbiters, /*peers=*/nullptr, deposits);
  if (!core.ok()) return core.status();
  core_ = *std::move(core);
  return absl::OkStatus();
}

void CoreHarness::Stop() {
  core_.reset();
}

void CoreHarness::Restart() {
  Stop();
  const absl::Status started = Start();
  ASSERT_TRUE(started.ok()) << started;
}

bool CoreHarness::Wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                       const std::function<bool()>& holds) {
  return changed.wait_for(lock, kPatience, holds);
}

admin::StatusReply CoreHarness::Status() {
  return Answered<admin::StatusReply>([&](auto done) { core_->core().Status({}, done); });
}

std::vector<admin::DatasetRow> CoreHarness::List() {
  auto reply = Answered<absl::StatusOr<admin::ListReply>>([&](auto done) { core_->core().List({}, done); });
  if (!reply.ok()) return {};
  return {reply->datasets().begin(), reply->datasets().end()};
}

admin::DatasetRow CoreHarness::Row(DatasetId id) {
  for (admin::DatasetRow& row : List()) {
    if (row.dataset() == id) return row;
  }
  return {};
}

admin::WaitReply CoreHarness::Wait(DatasetId id, local::Level level, std::uint32_t timeout_ms) {
  admin::WaitRequest request;
  request.set_run(prefix());
  request.set_dataset(id);
  request.set_level(level);
  request.set_timeout_ms(timeout_ms);
  return Answered<admin::WaitReply>([&](auto done) { core_->core().Wait(request, done); });
}

admin::ShowReply CoreHarness::Show(DatasetId id) {
  admin::DatasetRequest request;
  request.set_run(prefix());
  request.set_dataset(id);
  auto reply = Answered<absl::StatusOr<admin::ShowReply>>([&](auto done) { core_->core().Show(request, done); });
  return reply.ok() ? *reply : admin::ShowReply();
}

local::Status CoreHarness::Flush(DatasetId id, const std::string& run) {
  admin::FlushRequest request;
  request.set_run(run.empty() ? prefix() : run);
  request.set_dataset(id);
  return Answered<admin::FlushReply>([&](auto done) { core_->core().Flush(request, done); }).status();
}

admin::LeaveReply CoreHarness::Leave(std::uint32_t timeout_ms, bool to_prefix) {
  admin::LeaveRequest request;
  request.set_timeout_ms(timeout_ms);
  request.set_to_prefix(to_prefix);
  return Answered<admin::LeaveReply>([&](auto done) { core_->core().Leave(request, done); });
}

local::Status CoreHarness::Pin(DatasetId id, bool pinned, const std::string& run) {
  admin::PinRequest request;
  request.set_run(run.empty() ? prefix() : run);
  request.set_dataset(id);
  request.set_pinned(pinned);
  return Answered<admin::PinReply>([&](auto done) { core_->core().Pin(request, done); }).status();
}

local::Status CoreHarness::Remove(DatasetId id) {
  admin::RemoveRequest request;
  request.set_run(prefix());
  request.set_dataset(id);
  return Answered<admin::RemoveReply>([&](auto done) { core_->core().Remove(request, done); }).status();
}

admin::RemoveReply CoreHarness::RemoveSetAside(admin::RemoveRequest::SetAside which, DatasetId besides) {
  admin::RemoveRequest request;
  request.set_run(prefix());
  request.set_dataset(besides);
  request.set_set_aside(which);
  return Answered<admin::RemoveReply>([&](auto done) { core_->core().Remove(request, done); });
}

bool CoreHarness::Eventually(const std::function<bool()>& holds) {
  const Clock::time_point end = Clock::now() + kPatience;
  while (!holds()) {
    if (Clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

bool CoreHarness::Warned(const std::string& part) {
  const admin::StatusReply status = Status();
  return std::any_of(status.warnings().begin(), status.warnings().end(),
                     [&](const std::string& warning) { return warning.find(part) != std::string::npos; });
}

std::string CoreHarness::CacheFolderPath() {
  std::string newest;
  const admin::StatusReply status = Status();
  for (const admin::RunStatus& run : status.runs()) {
    if (run.prefix() == prefix()) newest = run.cache_folder();
  }
  return newest;
}

std::string CoreHarness::CachedFile(DatasetId id, Rank rank) {
  return CacheFolderPath() + "/scr.dataset." + std::to_string(id) + "/Ckpt" + std::to_string(id) + "-Rank" +
         std::to_string(rank) + ".fti";
}

std::string CoreHarness::PrefixFile(DatasetId id, Rank rank) {
  return prefix() + "/ckpt." + std::to_string(id) + "/Ckpt" + std::to_string(id) + "-Rank" + std::to_string(rank) +
         ".fti";
}

bool CoreHarness::IsThere(Disk& disk, const std::string& path) {
  return disk.Info(path).ok();
}

void CoreHarness::Flip(Disk& disk, const std::string& path, std::uint64_t offset) {
  auto file = disk.Open(path, {.writable = true});
  ASSERT_TRUE(file.ok()) << file.status();
  std::byte byte{};
  ASSERT_TRUE((*file)->ReadAt(offset, std::span(&byte, 1)).ok());
  byte ^= std::byte{0x10};
  ASSERT_TRUE((*file)->WriteAt(offset, std::span(&byte, 1)).ok());
  ASSERT_TRUE((*file)->Sync().ok());
}

void CoreHarness::Truncate(Disk& disk, const std::string& path, std::uint64_t bytes) {
  auto file = disk.Open(path, {.writable = true});
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Truncate(bytes).ok());
}

void CoreHarness::Write(Disk& disk, const std::string& path, const std::string& bytes) {
  auto file = disk.Open(path, {.writable = true, .create = true});
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->WriteAt(0, std::as_bytes(std::span(bytes))).ok());
}

std::string CoreHarness::Read(Disk& disk, const std::string& path) {
  return ReadWhole(disk, path, 1 << 30).value_or("(unreadable)");
}

}  // namespace cairn
