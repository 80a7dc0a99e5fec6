#include "storage/scr/filemap.h"

#include <limits>

#include "storage/base/status.h"
#include "storage/kvtree/quoted.h"
#include "storage/scr/fields.h"

namespace cairn::scr {
namespace {

constexpr std::uint64_t kUint32Max = std::numeric_limits<std::uint32_t>::max();

constexpr std::size_t kMetaKeys = 20;  // that PutMeta writes, at most

struct TimeKeys {
  std::string_view seconds, nanoseconds;
};
constexpr TimeKeys kAtime{"ATIME_SECS", "ATIME_NSECS"};
constexpr TimeKeys kCtime{"CTIME_SECS", "CTIME_NSECS"};
constexpr TimeKeys kMtime{"MTIME_SECS", "MTIME_NSECS"};

void PutTime(const TimeKeys& keys, const timespec& time, kvtree::Tree& tree) {
  tree.SetInt(keys.seconds, time.tv_sec);
  tree.SetInt(keys.nanoseconds, time.tv_nsec);
}

absl::Status TakeTime(const TimeKeys& keys, const kvtree::Tree& tree, timespec& time) {
  CAIRN_RETURN_IF_ERROR(Take(tree.GetInt(keys.seconds), time.tv_sec));
  CAIRN_RETURN_IF_ERROR(TakeUpTo(999'999'999, tree, keys.nanoseconds, time.tv_nsec));
  return absl::OkStatus();
}

bool IsBaseName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos;
}

}  // namespace

void PutStat(const Meta& meta, kvtree::Tree& tree) {
  tree.Set("SIZE", meta.bytes);
  tree.Set("MODE", std::uint64_t{meta.mode});
  tree.Set("UID", std::uint64_t{meta.uid});
  tree.Set("GID", std::uint64_t{meta.gid});
  PutTime(kAtime, meta.atime, tree);
  PutTime(kCtime, meta.ctime, tree);
  PutTime(kMtime, meta.mtime, tree);
}

void PutMeta(const Meta& meta, kvtree::Tree& tree) {
  tree.Reserve(kMetaKeys);
  PutText("ORIG", meta.original, tree);
  PutText("PATH", meta.directory, tree);
  PutText("NAME", meta.name, tree);
  PutText("ORIGPATH", meta.directory, tree);
  PutText("ORIGNAME", meta.name, tree);
  tree.Set("TYPE", "FULL");
  tree.Set("RANKS", std::uint64_t{meta.ranks});
  tree.SetBool("COMPLETE", meta.complete);
  PutStat(meta, tree);
  if (meta.crc32) {
    tree.SetCrc32("CRC", *meta.crc32);
  } else {
    tree.Erase("CRC");
  }
  if (meta.dataset) {
    tree.Set("CKPT", *meta.dataset);
  } else {
    tree.Erase("CKPT");
  }
}

absl::Status TakeStat(const kvtree::Tree& tree, Meta& meta) {
  CAIRN_RETURN_IF_ERROR(Take(tree.GetUnsigned("SIZE"), meta.bytes));
  CAIRN_RETURN_IF_ERROR(TakeUpTo(kIntMax, tree, "MODE", meta.mode));
  CAIRN_RETURN_IF_ERROR(TakeUpTo(kUint32Max, tree, "UID", meta.uid));
  CAIRN_RETURN_IF_ERROR(TakeUpTo(kUint32Max, tree, "GID", meta.gid));
  CAIRN_RETURN_IF_ERROR(TakeTime(kAtime, tree, meta.atime));
  CAIRN_RETURN_IF_ERROR(TakeTime(kCtime, tree, meta.ctime));
  CAIRN_RETURN_IF_ERROR(TakeTime(kMtime, tree, meta.mtime));
  return absl::OkStatus();
}

absl::StatusOr<Meta> GetMeta(const kvtree::Tree& tree) {
  Meta meta;
  CAIRN_RETURN_IF_ERROR(Take(tree.GetString("ORIG"), meta.original));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetString("ORIGPATH"), meta.directory));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetString("PATH"), meta.directory));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetString("ORIGNAME"), meta.name));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetString("NAME"), meta.name));
  if (!meta.directory.empty() && !IsHarmlessAbsolute(meta.directory)) {
    return DataLoss("PATH {} is not absolute or leads upwards", kvtree::Quoted(meta.directory));
  }
  if (!meta.name.empty() && !IsBaseName(meta.name))
    return DataLoss("NAME {} is no base name", kvtree::Quoted(meta.name));
  CAIRN_RETURN_IF_ERROR(TakeUpTo(kIntMax, tree, "RANKS", meta.ranks));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetBool("COMPLETE"), meta.complete));
  CAIRN_RETURN_IF_ERROR(TakeStat(tree, meta));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetCrc32("CRC"), meta.crc32));
  CAIRN_RETURN_IF_ERROR(TakeUpTo(kIntMax, tree, "CKPT", meta.dataset));
  return meta;
}

void PutFile(std::string_view path, const Meta& meta, kvtree::Tree& filemap) {
  PutMeta(meta, filemap.At("FILE").At(path).At("META"));
}

kvtree::Tree ToTree(const Filemap& filemap) {
  kvtree::Tree tree;
  for (const auto& [path, meta] : filemap.files) PutFile(path, meta, tree);
  return tree;
}

absl::StatusOr<Filemap> GetFilemap(const kvtree::Tree& tree) {
  Filemap filemap;
  const kvtree::Tree* files = tree.Find("FILE");
  if (files == nullptr) return filemap;
  for (const auto& [path, entry] : files->elements()) {
    if (!IsHarmlessAbsolute(path))
      return DataLoss("filemap: file {} is not absolute or leads upwards", kvtree::Quoted(path));
    const kvtree::Tree* found = entry.Find("META");
    if (found != nullptr && found->Get("TYPE").value_or("FULL") != "FULL") continue;
    absl::StatusOr<Meta> meta = found != nullptr ? GetMeta(*found) : Meta();
    if (!meta.ok()) return Annotate(meta.status(), fmt::format("filemap: file {}", kvtree::Quoted(path)));
    filemap.files.emplace(path, *std::move(meta));
  }
  return filemap;
}

void PutFilemapDescriptor(const Descriptor& descriptor, kvtree::Tree& filemap) {
  PutDescriptor(descriptor, filemap.At("DSETDESC"));
}

absl::StatusOr<Descriptor> GetFilemapDescriptor(const kvtree::Tree& filemap) {
  const kvtree::Tree* found = filemap.Find("DSETDESC");
  if (found == nullptr || found->empty()) return NotFound("filemap: no DSETDESC");
  absl::StatusOr<Descriptor> descriptor = GetDescriptor(*found);
  if (!descriptor.ok()) return Annotate(descriptor.status(), "filemap: DSETDESC");
  return descriptor;
}

}  // namespace cairn::scr
