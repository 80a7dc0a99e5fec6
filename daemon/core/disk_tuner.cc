#include "daemon/core/disk_tuner.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "daemon/config/cache_transfers.h"
#include "storage/base/size_text.h"
#include "storage/base/status.h"
#include "storage/io/device_identity.h"
#include "storage/io/disk_probe.h"

namespace cairn {
namespace {

std::uint64_t Speed(double bytes_per_s) {
  return static_cast<std::uint64_t>(std::clamp(bytes_per_s, 0.0, 1e15));
}

DiskRecord RecordOf(const DeviceIdentity& device, std::int64_t now_us, const DiskSpeeds& speeds) {
  DiskRecord record{.device = device, .measured_us = now_us, .write_speed = Speed(speeds.bytes_per_s)};
  const auto write = ChooseShape(speeds.write), read = ChooseShape(speeds.read);
  if (!write.has_value() || !read.has_value()) return record;
  record.compared = true;
  record.shapes = {.write = write->shape, .read = read->shape};
  record.write_speed = Speed(write->bytes_per_s);
  record.read_speed = Speed(read->bytes_per_s);
  return record;
}

void Put(const TransferShape& shape, admin::CacheTransfers::Shape& told) {
  told.set_bytes(shape.bytes);
  told.set_depth(shape.depth);
}

}  // namespace

std::string DiskTuner::path() const {
  return DiskRecordPath(context_.config.cache.path, context_.env.process.user);
}

void DiskTuner::Begin() {
  context_.env.cache_disk.UseShapes(WithSettings(context_.config.cache, {}));
  if (std::string off = WhyNotMeasured(context_.config.cache); !off.empty()) {
    why_not_ = std::move(off);
  } else if (context_.env.probe_cache_disk != nullptr) {
    why_not_ = "not measured yet";
    LookAtRecord();
  }
}

void DiskTuner::LookAtRecord() {
  auto look = [disk = &context_.env.cache_disk, path = path()] {
    Look found;
    auto device = IdentifyDevice(*disk, ParentOf(path));
    found.status = device.status();
    if (device.ok()) found.device = *std::move(device);
    found.record = ReadDiskRecord(*disk, path);
    return found;
  };
  context_.OnCache(std::move(look), [this](const Look& found) { Looked(found); });
}

void DiskTuner::Looked(const Look& look) {
  if (stopped_) return;
  absl::Status counts = look.status;
  if (counts.ok()) counts = look.record.status();
  if (counts.ok()) counts = CheckCounts(*look.record, look.device, context_.now_us());
  if (counts.ok()) return Take(*look.record);
  if (!absl::IsNotFound(counts)) spdlog::info("{}: to be measured again: {}", path(), MessageOf(counts));
  MeasureLater(kQuiet, absl::IsNotFound(counts) ? "not measured yet" : std::string(MessageOf(counts)));
}

void DiskTuner::Take(const DiskRecord& record) {
  record_ = record;
  why_not_.clear();
  const TransferShapes shapes = WithSettings(context_.config.cache, record.shapes);
  context_.env.cache_disk.UseShapes(shapes);
  spdlog::info("disk of the cache: writes of {} x {}, reads of {} x {}", SizeText(shapes.write.bytes),
               shapes.write.depth, SizeText(shapes.read.bytes), shapes.read.depth);
  After(kBetweenLooks, [this] { LookAtRecord(); });
}

// What was measured before is used until there is something newer.
void DiskTuner::MeasureLater(std::chrono::milliseconds pause, std::string why_not) {
  why_not_ = std::move(why_not);
  After(pause, [this, begun = context_.transfers->begun()] { MeasureIfQuiet(begun); });
}

void DiskTuner::MeasureIfQuiet(std::uint64_t begun_before) {
  const Transfers& transfers = *context_.transfers;
  const bool quiet = transfers.under_way() == 0 && transfers.begun() == begun_before && !flushing_();
  if (quiet) return Measure();
  After(kQuiet, [this, begun = transfers.begun()] { MeasureIfQuiet(begun); });
}

void DiskTuner::Measure() {
  stop_ = std::make_shared<std::atomic<bool>>(false);
  why_not_ = "being measured";
  auto measure = [probe = context_.env.probe_cache_disk, disk = &context_.env.cache_disk, path = path(), stop = stop_,
                  turn = turns_missed_ < kTurnsAwaited ? ProbeTurn::kAwaited : ProbeTurn::kGoneWithout,
                  now_us = context_.now_us()] {
    Measured measured;
    const auto device = IdentifyDevice(*disk, ParentOf(path));
    measured.status = device.status();
    if (!device.ok()) return measured;
    const absl::StatusOr<DiskSpeeds> speeds = probe(path, turn, [stop] { return stop->load(); });
    measured.status = speeds.status();
    if (!speeds.ok()) return measured;
    measured.record = RecordOf(*device, now_us, *speeds);
    measured.written = WriteDiskRecord(*disk, path, measured.record);
    return measured;
  };
  // A lane of its own: nobody waits behind it, and it may hang with the disk.
  RunBlocking(context_.env.pools.prefix, path(), context_.loop(), std::move(measure),
              [this](const Measured& measured) { MeasureEnded(measured); });
}

void DiskTuner::MeasureEnded(const Measured& measured) {
  stop_ = nullptr;
  if (stopped_) return;
  const absl::Status& status = measured.status;
  if (status.ok()) {
    turns_missed_ = 0;
    // It counts for this life of the daemon; the next one measures again.
    if (!measured.written.ok()) spdlog::warn("{}: not kept: {}", path(), MessageOf(measured.written));
    return Take(measured.record);
  }
  if (absl::IsCancelled(status)) {
    return MeasureLater(kQuiet, "not measured yet: it gave way to a checkpoint, a restore or a flush");
  }
  spdlog::info("{}: not measured: {}", path(), MessageOf(status));
  if (!absl::IsAborted(status)) return MeasureLater(kAfterFailure, std::string(MessageOf(status)));
  ++turns_missed_;
  MeasureLater(kBetweenTries, fmt::format("not measured yet: {} (try {}; after {} it is measured all the same)",
                                          MessageOf(status), turns_missed_, kTurnsAwaited));
}

void DiskTuner::After(std::chrono::milliseconds pause, std::function<void()> then) {
  if (timer_ != 0) context_.loop().Cancel(timer_);
  timer_ = context_.loop().After(pause, [this, then = std::move(then)] {
    timer_ = 0;
    if (!stopped_ && !context_.quiescing()) then();
  });
}

void DiskTuner::GiveWay() {
  if (stop_ != nullptr) *stop_ = true;
}

void DiskTuner::Stop() {
  stopped_ = true;
  GiveWay();
  if (timer_ != 0) context_.loop().Cancel(std::exchange(timer_, 0));
}

void DiskTuner::Describe(admin::CacheTransfers& told) const {
  const TransferShapes shapes = context_.env.cache_disk.shapes();
  Put(shapes.write, *told.mutable_write());
  Put(shapes.read, *told.mutable_read());
  told.set_why_not_measured(why_not_);
  if (!record_.has_value()) return;
  told.set_measured_us(record_->measured_us);
  told.set_compared(record_->compared);
  told.set_write_speed(record_->write_speed);
  told.set_read_speed(record_->read_speed);
}

}  // namespace cairn
