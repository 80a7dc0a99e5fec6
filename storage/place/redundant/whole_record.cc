#include "storage/place/redundant/whole_record.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proto/frame.h"
#include "storage/base/status.h"
#include "storage/format/framed/framed.h"
#include "storage/io/create_once.h"
#include "storage/place/names.h"

namespace cairn {
namespace {

constexpr std::uint64_t kBytesMax = 64u << 10;
constexpr FramedKind kKind = {
    .magic = "CAIRNWHL", .what = "a record of a whole dataset", .version = 1, .bytes_max = kBytesMax};
constexpr std::size_t kTextBytesMax = 4096;  // PATH_MAX of Linux
constexpr std::uint32_t kWholeFolderMode = 0700;

std::string RecordPath(const std::string& folder) {
  return folder + "/.scr/whole.cairn";
}

absl::Status CheckText(std::string_view field, std::string_view text) {
  if (text.size() <= kTextBytesMax) return absl::OkStatus();
  return InvalidArgument("{}: {} bytes, at most {}", field, text.size(), kTextBytesMax);
}

absl::StatusOr<kept::Whole> Decode(const std::string& path, std::string_view text, const RunId& run,
                                   DatasetId dataset) {
  CAIRN_ASSIGN_OR_RETURN(const std::string_view message, FramedMessage(kKind, path, text));
  kept::Whole record;
  if (!record.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    return DataLoss("{}: offset {}: no message of its kind", path, kFramedMessageOffset);
  }
  CAIRN_RETURN_IF_ERROR(Annotate(CheckWhole(record, run, dataset), path));
  return record;
}

}  // namespace

absl::Status CheckWhole(const kept::Whole& record, const RunId& run, DatasetId dataset) {
  if (record.run() != run.Hex()) return InvalidArgument("run: another");
  if (record.dataset() != dataset) return InvalidArgument("dataset: {} in the place of {}", record.dataset(), dataset);
  if (record.launch() == 0) return InvalidArgument("launch: none");
  // A mark has the form of a run's identity (storage/base/launch_mark.h).
  if (!RunId::Parse(record.mark()).ok()) return InvalidArgument("mark: none");
  if (record.nranks() == 0 || record.nranks() > CAIRN_RANKS_MAX) {
    return InvalidArgument("nranks: {}, from 1 to {}", record.nranks(), CAIRN_RANKS_MAX);
  }
  if (record.created_us() < 0) return InvalidArgument("created_us: {} is before 1970", record.created_us());
  CAIRN_RETURN_IF_ERROR(CheckText("name", record.name()));
  CAIRN_RETURN_IF_ERROR(CheckText("user", record.user()));
  return CheckText("job", record.job());
}

scr::Descriptor DescriptorOf(const kept::Whole& record) {
  scr::Descriptor descriptor;
  descriptor.id = record.dataset();
  descriptor.name = record.name().empty() ? DatasetName(record.dataset()) : record.name();
  descriptor.checkpoint = record.checkpoint();
  descriptor.output = record.output();
  descriptor.created_us = record.created_us();
  descriptor.user = record.user();
  descriptor.job_id = record.job();
  descriptor.launch = record.launch();
  descriptor.mark = record.mark();
  descriptor.step = record.step();
  descriptor.ranks = record.nranks();
  descriptor.own_files = record.files();
  return descriptor;
}

absl::StatusOr<kept::Whole> ReadWholeRecord(Disk& disk, const std::string& folder, const RunId& run,
                                            DatasetId dataset) {
  const std::string path = RecordPath(folder);
  const auto text = ReadWhole(disk, path, kBytesMax);
  if (absl::IsResourceExhausted(text.status())) {
    const auto info = disk.Info(path);
    if (info.ok() && info->bytes > kBytesMax) return DataLoss("{}", MessageOf(text.status()));
  }
  if (absl::IsInvalidArgument(text.status())) return DataLoss("{}", MessageOf(text.status()));  // no file
  if (!text.ok()) return text.status();
  auto record = Decode(path, *text, run, dataset);
  if (!record.ok()) return DataLoss("{}", MessageOf(record.status()));
  return record;
}

absl::Status MakeWholeRecord(Disk& disk, const std::string& folder, const RunId& run, const kept::Whole& record) {
  const DatasetId dataset = record.dataset();
  CAIRN_RETURN_IF_ERROR(CheckWhole(record, run, dataset));
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, folder + "/.scr", kWholeFolderMode));
  const absl::Status made = CreateFileOnce(disk, RecordPath(folder), EncodeFramed(kKind, record));
  if (!absl::IsAlreadyExists(made)) return made;
  const auto there = ReadWholeRecord(disk, folder, run, dataset);
  if (!there.ok() && !absl::IsDataLoss(there.status())) return there.status();
  const bool same = there.ok() && there->launch() == record.launch() && there->mark() == record.mark() &&
                    there->step() == record.step() && there->nranks() == record.nranks();
  if (same) return absl::OkStatus();
  return FailedPrecondition("{}: another dataset's record is in its place", RecordPath(folder));
}

}  // namespace cairn
