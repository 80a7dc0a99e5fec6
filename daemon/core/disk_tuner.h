// Which sizes and depth the transfers of the cache's disk have: as the settings say, else as was measured once, else
// those of a disk of which nothing is known. It is measured in the background, when nothing has been captured, restored
// or flushed for a while, and given up at once when one of these begins. Daemons on one disk take turns; but any user
// can keep the turn (probe_cache.h), so a daemon goes without it in the end. What was found is in a record in the cache
// (storage/place/cache/disk_record.h). Strand only.
#ifndef CAIRN_DAEMON_CORE_DISK_TUNER_H_
#define CAIRN_DAEMON_CORE_DISK_TUNER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/core/context.h"
#include "daemon/core/loop.h"
#include "proto/admin.pb.h"
#include "storage/place/cache/disk_record.h"

namespace cairn {

class DiskTuner {
 public:
  static constexpr std::chrono::milliseconds kQuiet{10'000};         // before it is measured
  static constexpr std::chrono::milliseconds kBetweenTries{60'000};  // while another process has the turn
  static constexpr int kTurnsAwaited = 10;                           // tries; a measurement takes a second or two
  static constexpr std::chrono::milliseconds kAfterFailure{3'600'000};
  static constexpr std::chrono::milliseconds kBetweenLooks{86'400'000};  // whether what was measured still counts

  // `flushing`: whether a flush is under way.
  DiskTuner(const Context& context, std::function<bool()> flushing)
      : context_(context), flushing_(std::move(flushing)) {}
  DiskTuner(const DiskTuner&) = delete;
  ~DiskTuner() { GiveWay(); }

  // Once, when the cache's folder is there.
  void Begin();
  // A capture, a restore or a flush begins.
  void GiveWay();
  // The daemon goes away: measures no more.
  void Stop();
  void Describe(admin::CacheTransfers& told) const;

 private:
  struct Look {  // what the cache's folder says
    absl::Status status;
    DeviceIdentity device;
    absl::StatusOr<DiskRecord> record = absl::UnknownError("not read");
  };
  struct Measured {
    absl::Status status;
    DiskRecord record = {};
    absl::Status written = {};  // the record
  };

  std::string path() const;
  void LookAtRecord();
  void Looked(const Look& look);
  void Take(const DiskRecord& record);
  void MeasureLater(std::chrono::milliseconds pause, std::string why_not);
  void MeasureIfQuiet(std::uint64_t begun_before);
  void Measure();
  void MeasureEnded(const Measured& measured);
  void After(std::chrono::milliseconds pause, std::function<void()> then);

  const Context& context_;
  const std::function<bool()> flushing_;
  std::optional<DiskRecord> record_;  // what counts
  std::string why_not_ = "not looked for";
  std::shared_ptr<std::atomic<bool>> stop_;  // of the measurement under way; null: there is none
  int turns_missed_ = 0;                     // since it was measured
  Loop::TimerId timer_ = 0;
  bool stopped_ = false;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_DISK_TUNER_H_
