#include "storage/place/cache/disk_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"

namespace cairn {
namespace {

constexpr std::uint64_t kSpeedMax = 1'000'000'000'000'000;              // bytes per second: no disk is faster
constexpr std::int64_t kAheadUs = std::int64_t{24} * 3600 * 1'000'000;  // a clock may have been set back

class Fields {
 public:
  Fields(const std::string& path, const kvtree::Tree& tree) : path_(path), tree_(tree) {}

  // The first error counts; all later answers mean nothing.
  const absl::Status& status() const { return status_; }

  std::uint64_t Number(std::string_view key, std::uint64_t min, std::uint64_t max) {
    const auto number = tree_.GetUnsigned(key);
    if (!number.ok()) return Fail("{}: {}: {}", path_, key, MessageOf(number.status()));
    if (*number < min || *number > max) return Fail("{}: {}: {} is not in {}..{}", path_, key, *number, min, max);
    return *number;
  }

  std::string Text(std::string_view key) {
    const auto text = tree_.Get(key);
    const auto is_printable = [](unsigned char c) { return c >= 0x20 && c <= 0x7e; };
    if (!text.has_value()) return Fail("{}: {}: is missing", path_, key), std::string();
    // A value that is empty has no key of its own in a tree: it is written as "-".
    if (text->size() > DeviceIdentity::kTextBytesMax || !std::ranges::all_of(*text, is_printable)) {
      return Fail("{}: {}: {} is no text of at most {} bytes", path_, key, Quoted(*text),
                  DeviceIdentity::kTextBytesMax),
             std::string();
    }
    return *text == "-" ? std::string() : std::string(*text);
  }

  TransferShape Shape(const std::string& stem) {
    const TransferShape shape{
        .bytes =
            static_cast<std::uint32_t>(Number(stem + "_BYTES", TransferShape::kBytesMin, TransferShape::kBytesMax)),
        .depth = static_cast<std::uint32_t>(Number(stem + "_DEPTH", 1, TransferShape::kDepthMax))};
    if (status_.ok() && !shape.valid()) Fail("{}: {}_BYTES: {} is no power of two", path_, stem, shape.bytes);
    return shape;
  }

 private:
  template <typename... Args>
  std::uint64_t Fail(fmt::format_string<Args...> format, Args&&... args) {
    status_.Update(DataLoss("{}", fmt::format(format, std::forward<Args>(args)...)));
    return 0;
  }

  const std::string& path_;
  const kvtree::Tree& tree_;
  absl::Status status_;
};

std::string OrDash(const std::string& text) {
  return text.empty() ? "-" : text;
}

kvtree::Tree ToTree(const DiskRecord& record) {
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  tree.Set("DEVICE", record.device.device);
  tree.Set("FILESYSTEM", record.device.file_system);
  tree.Set("BYTES", record.device.bytes);
  tree.Set("MODEL", OrDash(record.device.model));
  tree.Set("KERNEL", OrDash(record.device.kernel));
  tree.Set("MEASURED_US", static_cast<std::uint64_t>(record.measured_us));
  tree.Set("COMPARED", std::uint64_t{record.compared ? 1u : 0u});
  tree.Set("WRITE_BYTES", std::uint64_t{record.shapes.write.bytes});
  tree.Set("WRITE_DEPTH", std::uint64_t{record.shapes.write.depth});
  tree.Set("WRITE_SPEED", record.write_speed);
  tree.Set("READ_BYTES", std::uint64_t{record.shapes.read.bytes});
  tree.Set("READ_DEPTH", std::uint64_t{record.shapes.read.depth});
  tree.Set("READ_SPEED", record.read_speed);
  return tree;
}

absl::StatusOr<DiskRecord> FromTree(const std::string& path, const kvtree::Tree& tree) {
  constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();
  Fields fields(path, tree);
  const std::uint64_t version = fields.Number("VERSION", 1, kAny);
  CAIRN_RETURN_IF_ERROR(fields.status());
  if (version != 1) return FailedPrecondition("{}: VERSION {}, this program knows 1", path, version);
  DiskRecord record{.device = {.device = fields.Number("DEVICE", 0, kAny),
                               .file_system = fields.Number("FILESYSTEM", 0, kAny),
                               .bytes = fields.Number("BYTES", 0, kAny),
                               .model = fields.Text("MODEL"),
                               .kernel = fields.Text("KERNEL")}};
  record.measured_us =
      static_cast<std::int64_t>(fields.Number("MEASURED_US", 0, std::numeric_limits<std::int64_t>::max()));
  record.compared = fields.Number("COMPARED", 0, 1) == 1;
  record.shapes = {.write = fields.Shape("WRITE"), .read = fields.Shape("READ")};
  record.write_speed = fields.Number("WRITE_SPEED", 0, kSpeedMax);
  record.read_speed = fields.Number("READ_SPEED", 0, kSpeedMax);
  CAIRN_RETURN_IF_ERROR(fields.status());
  return record;
}

}  // namespace

std::string DiskRecordPath(const std::string& cache, std::string_view user) {
  return fmt::format("{}/{}/disk.cairn", cache, user);
}

absl::StatusOr<DiskRecord> ReadDiskRecord(Disk& disk, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const kvtree::Tree tree, ReadTree(disk, path));
  return FromTree(path, tree);
}

absl::Status WriteDiskRecord(Disk& disk, const std::string& path, const DiskRecord& record) {
  return ReplaceTree(disk, path, ToTree(record));
}

absl::Status CheckCounts(const DiskRecord& record, const DeviceIdentity& device, std::int64_t now_us) {
  const DeviceIdentity& then = record.device;
  if (then.kernel != device.kernel) {
    return FailedPrecondition("measured under kernel {}, this is {}", then.kernel, device.kernel);
  }
  if (then != device) {
    return FailedPrecondition("measured on another device ({} {}, {} bytes)", then.device, then.model, then.bytes);
  }
  if (record.measured_us > now_us && record.measured_us - now_us > kAheadUs) {
    return FailedPrecondition("measured at a time that is still to come");
  }
  const std::int64_t days = record.compared ? DiskRecord::kDays : DiskRecord::kDaysUncompared;
  if (now_us - record.measured_us > days * DiskRecord::kDayUs) {
    return FailedPrecondition("measured more than {} day{} ago", days, days == 1 ? "" : "s");
  }
  return absl::OkStatus();
}

}  // namespace cairn
