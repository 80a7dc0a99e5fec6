#include <algorithm>
#include <cstring>
#include <span>

#include "storage/base/status.h"
#include "storage/file/bpdir/follow.h"
#include "storage/file/bpdir/number_at.h"

namespace cairn::bpdir {
namespace {

using Bytes = std::span<const std::byte>;

// Files as they are.
struct Held {
  Bytes index, formats;
};

absl::StatusOr<Bytes> HoldAll(FileSource& files, const std::string& name) {
  const auto bytes = files.Bytes(name);
  if (absl::IsNotFound(bytes.status())) return Bytes();
  if (!bytes.ok()) return bytes.status();
  return files.Hold(name, 0, *bytes);
}

// Where the entry of mmd.0 or the record of md.idx at `at` ends; 0: it does not.
std::uint64_t EndOfEntry(Bytes formats, std::uint64_t at) {
  constexpr std::uint64_t kHeader = 16;
  if (formats.size() - at < kHeader) return 0;
  const std::uint64_t id = NumberAt(formats, at), block = NumberAt(formats, at + 8);
  const std::uint64_t left = formats.size() - at - kHeader;
  return id > left || block > left - id ? 0 : at + kHeader + id + block;
}
std::uint64_t EndOfRecord(Bytes index, std::uint64_t at) {
  constexpr std::uint64_t kHeader = 9;
  if (index.size() - at < kHeader) return 0;
  const std::uint64_t body = NumberAt(index, at + 1);
  return body > index.size() - at - kHeader ? 0 : at + kHeader + body;
}

// The metadata of the step that a record of md.idx tells of; nothing, if that is not where it can be: behind all steps
// before, so that no byte is held twice. Each step's alone, whatever all of md.0 comes to.
absl::StatusOr<Bytes> HoldStep(FileSource& files, Bytes record, std::uint64_t begin_min) {
  constexpr std::uint64_t kHeader = 9;
  if (record[0] != std::byte{'s'} || record.size() < kHeader + 16) return Bytes();
  const std::uint64_t begin = NumberAt(record, kHeader), bytes = NumberAt(record, kHeader + 8);
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t there, files.Bytes("md.0"));
  if (begin < begin_min || begin > there || bytes > there - begin) return Bytes();
  return files.Hold("md.0", begin, bytes);
}

// What a power failure has left behind the last good step is not taken: one entry, then one record after the other.
absl::Status TakeWhatIsGood(FileSource& files, const Held& held, bp5::Metadata* metadata) {
  if (held.index.size() < kIndexHeaderBytes) return absl::OkStatus();
  const auto extend = [&](const bp5::Metadata::Tail& tail) { return metadata->Extend(tail).ok(); };
  if (!extend({.index = held.index.first(kIndexHeaderBytes), .formats = {}, .metadata_begin = 0, .metadata = {}})) {
    return absl::OkStatus();
  }
  for (std::uint64_t at = 0; at < held.formats.size();) {
    const std::uint64_t end = EndOfEntry(held.formats, at);
    const Bytes entry = held.formats.subspan(at, std::max(end, at) - at);
    if (end == 0 || !extend({.index = {}, .formats = entry, .metadata_begin = 0, .metadata = {}})) break;
    at = end;
  }
  for (std::uint64_t at = kIndexHeaderBytes; at < held.index.size();) {
    const std::uint64_t end = EndOfRecord(held.index, at);
    if (end == 0) break;
    const Bytes record = held.index.subspan(at, end - at);
    auto step = HoldStep(files, record, metadata->metadata_bytes());
    if (absl::IsNotFound(step.status())) break;  // no md.0
    if (!step.ok()) return step.status();
    const std::uint64_t begin = record[0] == std::byte{'s'} && record.size() >= 17 ? NumberAt(record, 9) : 0;
    if (!extend({.index = record, .formats = {}, .metadata_begin = begin, .metadata = *step})) break;
    at = end;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> HasData(Disk& disk, const std::string& directory, const bp5::Metadata& metadata,
                             std::uint32_t steps) {
  CAIRN_ASSIGN_OR_RETURN(const auto need, NeedOf(metadata, steps));
  for (const auto& [name, bytes] : need) {
    if (bytes == 0 || !name.starts_with("data.")) continue;
    const auto info = disk.Info(directory + "/" + name);
    if (absl::IsNotFound(info.status())) return false;
    if (!info.ok()) return info.status();
    if (info->bytes < bytes) return false;
  }
  return true;
}

absl::Status ClearFlag(Disk& disk, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, disk.Open(path, {.writable = true}));
  std::byte flag{};
  CAIRN_RETURN_IF_ERROR(file->ReadAt(kActiveFlagAt, {&flag, 1}));
  if (flag != std::byte{0}) {
    flag = std::byte{0};
    CAIRN_RETURN_IF_ERROR(file->WriteAt(kActiveFlagAt, {&flag, 1}));
  }
  return file->Sync();
}

absl::Status RemoveAll(Disk& disk, const std::string& directory) {
  CAIRN_RETURN_IF_ERROR(ClearPlace(disk, directory));
  const absl::Status removed = disk.Remove(directory);  // what else is in it is not ours
  return absl::IsNotFound(removed) || absl::IsAlreadyExists(removed) ? absl::OkStatus() : removed;
}

}  // namespace

absl::StatusOr<std::uint32_t> StepsWithData(Disk& disk, const std::string& directory, const bp5::Metadata& metadata) {
  std::uint32_t low = 0, high = metadata.steps();
  while (low < high) {
    const std::uint32_t middle = low + (high - low + 1) / 2;
    CAIRN_ASSIGN_OR_RETURN(const bool has, HasData(disk, directory, metadata, middle));
    if (has) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

absl::Status Close(Disk& disk, const std::string& directory) {
  const auto names = disk.List(directory);
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  if (!names.ok()) return names.status();
  const std::unique_ptr<FileSource> files = ReadFiles(disk, directory);
  Held held;
  CAIRN_ASSIGN_OR_RETURN(held.index, HoldAll(*files, "md.idx"));
  CAIRN_ASSIGN_OR_RETURN(held.formats, HoldAll(*files, "mmd.0"));
  bp5::Metadata metadata;
  CAIRN_RETURN_IF_ERROR(TakeWhatIsGood(*files, held, &metadata));
  CAIRN_ASSIGN_OR_RETURN(const std::uint32_t steps, StepsWithData(disk, directory, metadata));
  if (steps == 0) return RemoveAll(disk, directory);
  CAIRN_ASSIGN_OR_RETURN(auto need, NeedOf(metadata, steps));
  CAIRN_RETURN_IF_ERROR(CutFile(disk, directory + "/md.idx", need.at("md.idx")));
  for (const std::string& name : *names) {
    if (name.starts_with("data.") || name == "md.0" || name == "mmd.0") {
      if (IsOfDirectory(name)) CAIRN_RETURN_IF_ERROR(CutFile(disk, directory + "/" + name, need[name]));
    }
  }
  return ClearFlag(disk, directory + "/md.idx");
}

}  // namespace cairn::bpdir
