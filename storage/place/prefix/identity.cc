#include "storage/place/prefix/identity.h"

#include <functional>

#include "storage/base/path.h"
#include "storage/place/names.h"

#include <unistd.h>

#include <algorithm>
#include <span>

#include "storage/base/checksum.h"
#include "storage/base/clock.h"
#include "storage/base/host_name.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/io/create_once.h"

namespace cairn::identity {
namespace {

// Makes a numbered record. The first thing that relies on the identity is one of these: whoever made the folder may
// have died before its name was durable. (The names in it become durable with the record.)
absl::Status MakeRecord(Disk& disk, const std::string& prefix, const std::string& path, const kvtree::Tree& tree) {
  CAIRN_RETURN_IF_ERROR(disk.SyncDirectory(prefix));
  return CreateFileOnce(disk, path, kvtree::Encode(tree), 0600);
}

constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kKeyBytesMax = 4096;
constexpr int kTriesMax = 1000;  // numbers taken by others between our listing and our link
constexpr std::string_view kLaunchStem = "launch.";
constexpr std::string_view kIdsStem = "ids.";

std::string RunPath(const std::string& prefix) {
  return FolderOf(prefix) + "/run";
}

std::string LaunchPath(const std::string& prefix, LaunchId id) {
  return fmt::format("{}/{}{}", FolderOf(prefix), kLaunchStem, id);
}

using NumberOf = std::function<std::optional<std::uint64_t>(std::string_view name)>;

absl::StatusOr<std::optional<std::uint64_t>> Highest(Disk& disk, const std::string& folder, const NumberOf& number_of,
                                                     std::uint64_t number_max) {
  const auto names = disk.List(folder);
  if (absl::IsNotFound(names.status())) return std::optional<std::uint64_t>();
  if (!names.ok()) return names.status();
  std::optional<std::uint64_t> highest;
  for (const std::string& name : *names) {
    const auto number = number_of(name);
    if (number && *number <= number_max && (!highest || *number > *highest)) highest = number;
  }
  return highest;
}

absl::StatusOr<std::optional<std::uint64_t>> HighestNumber(Disk& disk, const std::string& folder, std::string_view stem,
                                                           std::uint64_t number_max) {
  return Highest(
      disk, folder, [stem](std::string_view name) { return NumberAfter(name, stem); }, number_max);
}

std::string RandomSecret() {
  std::string secret;
  while (secret.size() < kSecretBytes) {
    const RunId random = RunId::Random();  // 16 bytes of the kernel's
    secret.append(reinterpret_cast<const char*>(random.bytes.data()), random.bytes.size());
  }
  return secret;
}

kvtree::Tree ToTree(const LaunchRecord& launch) {
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  tree.Set("LAUNCH", launch.id);
  tree.Set("KEY", launch.key);
  tree.Set("RANKS", std::uint64_t{launch.nranks});
  tree.Set("SECRET", HexOf(std::as_bytes(std::span(launch.secret))));
  tree.Set("HOST", launch.host);
  tree.SetInt("CREATED", launch.created_us);
  return tree;
}

std::optional<std::string> BytesOfHex(std::string_view hex) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const std::size_t high = kDigits.find(hex[i]);
    const std::size_t low = kDigits.find(hex[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    bytes += static_cast<char>(high << 4 | low);
  }
  return bytes;
}

absl::StatusOr<LaunchRecord> ParseLaunch(const std::string& path, LaunchId id, const kvtree::Tree& tree) {
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t version, tree.GetUnsigned("VERSION"));
  if (version != 1) return FailedPrecondition("{}: VERSION {}, this program knows 1", path, version);
  LaunchRecord launch;
  CAIRN_ASSIGN_OR_RETURN(launch.id, tree.GetUnsigned("LAUNCH"));
  if (launch.id != id) return DataLoss("{}: LAUNCH {} instead of {}", path, launch.id, id);
  CAIRN_ASSIGN_OR_RETURN(launch.key, tree.GetString("KEY"));
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t nranks, tree.GetUnsigned("RANKS"));
  if (nranks == 0 || nranks > UINT32_MAX) return DataLoss("{}: RANKS {}", path, nranks);
  launch.nranks = static_cast<std::uint32_t>(nranks);
  CAIRN_ASSIGN_OR_RETURN(const std::string secret, tree.GetString("SECRET"));
  const auto bytes = BytesOfHex(secret);
  if (!bytes || bytes->size() != kSecretBytes)
    return DataLoss("{}: SECRET is not {} hex digits", path, 2 * kSecretBytes);
  launch.secret = *bytes;
  CAIRN_ASSIGN_OR_RETURN(launch.host, tree.GetString("HOST"));
  CAIRN_ASSIGN_OR_RETURN(launch.created_us, tree.GetInt("CREATED"));
  return launch;
}

// Folders of datasets, whoever made them.
absl::StatusOr<DatasetId> HighestFolder(Disk& disk, const std::string& prefix) {
  CAIRN_ASSIGN_OR_RETURN(const auto data, Highest(disk, prefix, DatasetOfName, kDatasetIdMax));
  CAIRN_ASSIGN_OR_RETURN(const auto records, Highest(disk, prefix + "/.scr", DatasetOfRecords, kDatasetIdMax));
  return std::max(data.value_or(0), records.value_or(0));
}

}  // namespace

std::string FolderOf(const std::string& prefix) {
  return prefix + "/.cairn";
}

absl::Status MakeFolder(Disk& disk, const std::string& prefix) {
  const std::string folder = FolderOf(prefix);
  const absl::Status made = disk.MakeDirectory(folder, 0700);
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  if (made.ok()) CAIRN_RETURN_IF_ERROR(disk.SyncDirectory(prefix));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk.Info(folder));
  if (!info.is_directory()) return PermissionDenied("{}: is no directory", folder);
  if (info.uid != ::geteuid()) {
    return PermissionDenied("{}: belongs to user {}, this process runs as {}", folder, info.uid, ::geteuid());
  }
  if ((info.mode & 077) != 0) {
    return PermissionDenied("{}: mode {:04o} lets others in, it must be 0700", folder, info.mode & 07777);
  }
  return absl::OkStatus();
}

absl::StatusOr<RunId> ReadRun(Disk& disk, const std::string& prefix) {
  const std::string path = RunPath(prefix);
  CAIRN_ASSIGN_OR_RETURN(const std::string text, ReadWhole(disk, path, 4096));
  std::string_view hex = text;
  if (hex.ends_with('\n')) hex.remove_suffix(1);
  const auto run = RunId::Parse(hex);
  if (!run.ok()) return DataLoss("{}: {}", path, MessageOf(run.status()));
  return *run;
}

absl::StatusOr<RunId> MakeRun(Disk& disk, const std::string& prefix) {
  auto run = ReadRun(disk, prefix);
  if (!absl::IsNotFound(run.status())) return run;
  const RunId fresh = RunId::Random();
  const absl::Status made = CreateFileOnce(disk, RunPath(prefix), fresh.Hex() + "\n", 0600);
  if (made.ok()) return fresh;
  if (!absl::IsAlreadyExists(made)) return made;
  return ReadRun(disk, prefix);
}

absl::StatusOr<std::optional<LaunchRecord>> NewestLaunch(Disk& disk, const std::string& prefix) {
  CAIRN_ASSIGN_OR_RETURN(auto newest, HighestNumber(disk, FolderOf(prefix), kLaunchStem, UINT64_MAX));
  while (newest) {
    auto launch = FindLaunch(disk, prefix, *newest);
    if (launch.ok()) return std::optional<LaunchRecord>(*std::move(launch));
    if (!absl::IsNotFound(launch.status())) return launch.status();
    // Its maker has not come to the end (storage/io/create_once.h), and may never.
    if (*newest == 0) break;
    CAIRN_ASSIGN_OR_RETURN(newest, HighestNumber(disk, FolderOf(prefix), kLaunchStem, *newest - 1));
  }
  return std::optional<LaunchRecord>();
}

absl::StatusOr<LaunchRecord> FindLaunch(Disk& disk, const std::string& prefix, LaunchId id) {
  const std::string path = LaunchPath(prefix, id);
  auto tree = ReadTree(disk, path);
  if (!tree.ok()) return tree.status();
  auto launch = ParseLaunch(path, id, *tree);
  if (absl::IsNotFound(launch.status())) return DataLoss("{}: {}", path, MessageOf(launch.status()));  // a key lacks
  return launch;
}

absl::StatusOr<LaunchRecord> MakeLaunch(Disk& disk, const std::string& prefix, std::string_view key,
                                        std::uint32_t nranks) {
  if (nranks == 0) return InvalidArgument("a launch of no ranks");
  if (key.size() > kKeyBytesMax || key.find('\0') != std::string_view::npos) {
    return InvalidArgument("launch key: {} bytes; at most {} and no NUL", key.size(), kKeyBytesMax);
  }
  LaunchRecord launch;
  launch.key = key;
  launch.nranks = nranks;
  launch.secret = RandomSecret();
  launch.host = HostName();
  launch.created_us = NowMicros();
  CAIRN_ASSIGN_OR_RETURN(const auto newest, HighestNumber(disk, FolderOf(prefix), kLaunchStem, UINT64_MAX));
  launch.id = newest.value_or(0);
  for (int i = 0; i < kTriesMax; ++i) {
    ++launch.id;
    const absl::Status made = MakeRecord(disk, prefix, LaunchPath(prefix, launch.id), ToTree(launch));
    if (made.ok()) return launch;
    if (!absl::IsAlreadyExists(made)) return made;
  }
  return Aborted("{}: {} launches were made by others meanwhile", FolderOf(prefix), kTriesMax);
}

absl::StatusOr<IdBlock> ReserveIds(Disk& disk, const std::string& prefix, DatasetId above) {
  CAIRN_ASSIGN_OR_RETURN(const DatasetId folders, HighestFolder(disk, prefix));
  constexpr std::uint64_t kBlockMax = kDatasetIdMax / kIdBlock;
  CAIRN_ASSIGN_OR_RETURN(const auto newest, HighestNumber(disk, FolderOf(prefix), kIdsStem, kBlockMax));
  const DatasetId highest = std::max(above, folders);
  if (highest > kDatasetIdMax) return ResourceExhausted("{}: ids end at {}", prefix, kDatasetIdMax);
  // The first id of block n is n * 64 + 1: above `highest` from its quotient, rounded up, on.
  std::uint64_t block = std::max((highest + kIdBlock - 1) / kIdBlock, newest ? *newest + 1 : 0);
  for (int i = 0; i < kTriesMax; ++i, ++block) {
    if (block >= kBlockMax) return ResourceExhausted("{}: ids end at {}", prefix, kDatasetIdMax);
    kvtree::Tree tree;
    tree.Set("VERSION", std::uint64_t{1});
    tree.Set("FIRST", block * kIdBlock + 1);
    tree.Set("COUNT", kIdBlock);
    tree.Set("HOST", HostName());
    const std::string path = fmt::format("{}/{}{}", FolderOf(prefix), kIdsStem, block);
    const absl::Status made = MakeRecord(disk, prefix, path, tree);
    if (made.ok()) return IdBlock{.first = block * kIdBlock + 1, .count = kIdBlock};
    if (!absl::IsAlreadyExists(made)) return made;
  }
  return Aborted("{}: {} blocks of ids were taken by others meanwhile", FolderOf(prefix), kTriesMax);
}

}  // namespace cairn::identity
