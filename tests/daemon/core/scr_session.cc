#include "tests/daemon/core/scr_session.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "storage/base/path.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/scr/redset.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr std::size_t kBytesMax = 1 << 20;

std::string Key(DatasetId id) {
  return fmt::format("{}", id);
}

// META as SCR 3.1 writes it.
kvtree::Tree MetaOf(const std::string& prefix, const std::string& name, const FileInfo& info) {
  kvtree::Tree meta;
  meta.Set("RANKS", std::uint64_t{1});
  meta.Set("ORIG", name);
  meta.Set("PATH", ParentOf(prefix + "/" + name));
  meta.Set("NAME", BaseOf("/" + name));
  meta.Set("SIZE", info.bytes);
  meta.Set("COMPLETE", std::uint64_t{1});
  meta.Set("MODE", std::uint64_t{info.mode});
  meta.Set("UID", std::uint64_t{info.uid});
  meta.Set("GID", std::uint64_t{info.gid});
  meta.SetInt("MTIME_SECS", info.mtime.tv_sec);
  meta.SetInt("MTIME_NSECS", info.mtime.tv_nsec);
  return meta;
}

}  // namespace

std::string ScrSession::Folder(DatasetId id) const {
  return fmt::format("{}/scr.dataset.{}", place_.folder, id);
}

std::string ScrSession::Prefix(DatasetId id) const {
  return fmt::format("{}/.scr/scr.dataset.{}", place_.prefix, id);
}

kvtree::Tree ScrSession::Read(Disk& disk, const std::string& path) const {
  auto tree = ReadTree(disk, path);
  EXPECT_TRUE(tree.ok() || absl::IsNotFound(tree.status())) << tree.status();
  return tree.ok() ? *std::move(tree) : kvtree::Tree();
}

void ScrSession::Write(Disk& disk, const std::string& path, const kvtree::Tree& tree) const {
  EXPECT_OK(MakeDirectories(disk, ParentOf(path)));
  EXPECT_OK(ReplaceTree(disk, path, tree));
}

// --- The cache ---

std::set<DatasetId> ScrSession::Cached() const {
  std::set<DatasetId> ids;
  const kvtree::Tree index = Read(*place_.cache_disk, place_.folder + "/cindex.scrinfo");
  const auto entries = scr::GetCacheEntries(index);
  EXPECT_OK(entries.status());
  for (const auto& [id, entry] : *entries) ids.insert(id);
  return ids;
}

bool ScrSession::IsEncoded(DatasetId id) const {
  for (const char* name : {"reddesc.er.er", "reddescmap.er.er"}) {
    if (Read(*place_.cache_disk, Folder(id) + "/.scr/" + name).Get("STATE").value_or("") != "2") return false;
  }
  return true;
}

void ScrSession::DeleteCached(DatasetId id) {
  EXPECT_OK(RemoveTree(*place_.cache_disk, Folder(id)));
  const std::string path = place_.folder + "/cindex.scrinfo";
  kvtree::Tree index = Read(*place_.cache_disk, path);
  scr::EraseCacheEntry(id, index);
  Write(*place_.cache_disk, path, index);
  deleted_.insert(id);
}

void ScrSession::EnterCached(const scr::Descriptor& descriptor, const kvtree::Tree& as_read) {
  const std::string path = place_.folder + "/cindex.scrinfo";
  kvtree::Tree index = Read(*place_.cache_disk, path);
  scr::PutCacheEntry({.descriptor = descriptor, .path = Folder(descriptor.id), .bypass = false}, index);
  // It keeps what it does not know.
  kvtree::Tree& entered = index.At("DSET").At(Key(descriptor.id)).At("DSETDESC");
  for (const auto& [key, value] : as_read.elements()) entered.At(key) = value;
  Write(*place_.cache_disk, path, index);
}

void ScrSession::PutCached(DatasetId id, const std::vector<std::pair<std::string, std::string>>& files) {
  Disk& disk = *place_.cache_disk;
  EXPECT_OK(MakeDirectories(disk, Folder(id) + "/.scr", 0770));
  kvtree::Tree filemap;
  std::vector<scr::RedsetFile> listed;
  for (const auto& [name, bytes] : files) {
    const std::string path = Folder(id) + "/" + BaseOf("/" + name);
    EXPECT_OK(ReplaceFile(disk, path, bytes));
    const auto info = disk.Info(path);
    ASSERT_OK(info.status());
    const kvtree::Tree meta = MetaOf(place_.prefix, name, *info);
    filemap.At("FILE").At(path).At("META") = meta;
    const auto parsed = scr::GetMeta(meta);
    ASSERT_OK(parsed.status());
    listed.emplace_back(path, *parsed);
  }
  const std::string map = Folder(id) + "/.scr/filemap_0";
  Write(disk, map, filemap);
  const auto info = disk.Info(map);
  ASSERT_OK(info.status());
  scr::Meta of_map;
  of_map.bytes = info->bytes;
  using scr::RedsetKind;
  for (const auto& [kind, protects] : {std::pair(RedsetKind::kFilemaps, std::vector<scr::RedsetFile>{{map, of_map}}),
                                       std::pair(RedsetKind::kData, listed)}) {
    for (const auto& [name, tree] : scr::MakeRankRecords(kind, scr::SingleHeader(0, 1, protects))) {
      Write(disk, Folder(id) + "/.scr/" + name, tree);
    }
    const auto [name, state] = scr::MakeEncodeState(kind);
    Write(disk, Folder(id) + "/.scr/" + name, state);
  }
}

// --- Restarts ---

std::optional<DatasetId> ScrSession::FromCache() {
  std::optional<DatasetId> newest;
  for (const DatasetId id : Cached()) {
    if (IsEncoded(id)) newest = id;
  }
  for (const DatasetId id : Cached()) {
    if (!newest || id > *newest) DeleteCached(id);
  }
  return newest;
}

std::optional<DatasetId> ScrSession::FromPrefix() {
  const std::string path = place_.prefix + "/.scr/index.scr";
  kvtree::Tree index = Read(place_.prefix_disk, path);
  if (index.empty()) return std::nullopt;
  const auto parsed = scr::GetIndex(index);
  EXPECT_OK(parsed.status());
  std::optional<DatasetId> chosen = scr::FindByName(parsed->current, index);
  for (const auto& [id, entry] : parsed->datasets) {
    const bool usable = entry.complete && entry.failed.empty() && entry.descriptor.checkpoint;
    if (parsed->current.empty() && usable) chosen = id;
    last_ = std::max(last_, id);
  }
  if (!chosen) return std::nullopt;
  index.At("DSET").At(Key(*chosen)).At("FETCHED").At("2026-01-01T00:00:00");
  scr::SetCurrent(parsed->datasets.at(*chosen).descriptor.name, index);
  Write(place_.prefix_disk, path, index);
  if (place_.cache_disk != nullptr) Fetch(*chosen);
  return chosen;
}

void ScrSession::Fetch(DatasetId id) {
  const kvtree::Tree summary = Read(place_.prefix_disk, Prefix(id) + "/summary.scr");
  const auto descriptor = scr::GetSummary(summary);
  ASSERT_OK(descriptor.status());
  const auto listed = scr::GetRank2File([&](const std::string& suffix) -> absl::StatusOr<kvtree::Tree> {
    return Read(place_.prefix_disk, Prefix(id) + "/rank2file" + suffix);
  });
  ASSERT_OK(listed.status());
  std::vector<std::pair<std::string, std::string>> files;
  for (const auto& [rank, names] : listed->files) {
    for (const std::string& name : names) {
      const auto bytes = ReadWhole(place_.prefix_disk, place_.prefix + "/" + name, kBytesMax);
      ASSERT_OK(bytes.status());
      files.emplace_back(name, *bytes);
    }
  }
  scr::Descriptor entered = *descriptor;
  entered.id = id;
  EnterCached(entered, *summary.Find("DSET"));
  PutCached(id, files);
}

std::optional<DatasetId> ScrSession::Restart() {
  std::optional<DatasetId> from;
  if (place_.cache_disk != nullptr) from = FromCache();
  if (!from) from = FromPrefix();
  if (from) last_ = *from;
  return from;
}

// --- Checkpoints ---

DatasetId ScrSession::Checkpoint(std::uint64_t step, const std::string& bytes, std::int64_t created_us, bool flush) {
  scr::Descriptor descriptor;
  descriptor.id = ++last_;
  descriptor.checkpoint_id = last_;
  descriptor.name = fmt::format("step_{}", step);
  descriptor.created_us = created_us;
  descriptor.files = 1;
  descriptor.bytes = bytes.size();
  descriptor.complete = true;
  const std::string file = descriptor.name + ".dat";
  if (place_.cache_disk != nullptr) {
    while (Cached().size() >= place_.cache_size) DeleteCached(*Cached().begin());
    deleted_.erase(descriptor.id);
    EnterCached(descriptor, {});
    PutCached(descriptor.id, {{file, bytes}});
  }
  if (flush) Flush(descriptor, file, bytes);
  return descriptor.id;
}

void ScrSession::Flush(const scr::Descriptor& descriptor, const std::string& file, const std::string& bytes) {
  Disk& disk = place_.prefix_disk;
  const std::string path = place_.prefix + "/.scr/index.scr";
  kvtree::Tree index = Read(disk, path);
  scr::PutIndexEntry({.descriptor = descriptor, .flushed = {}, .fetched = {}, .failed = {}}, index);
  // What SCR writes of a number that was given out before: the descriptor is replaced, and nothing of it is kept.
  kvtree::Tree fresh;
  scr::PutDescriptor(descriptor, fresh);
  index.At("DSET").At(Key(descriptor.id)).At("DSET") = fresh;
  Write(disk, path, index);
  for (const auto& [suffix, tree] : scr::MakeRank2File({{file}})) {
    Write(disk, Prefix(descriptor.id) + "/rank2file" + suffix, tree);
  }
  EXPECT_OK(ReplaceFile(disk, place_.prefix + "/" + file, bytes));
  Write(disk, Prefix(descriptor.id) + "/summary.scr", scr::MakeSummary(descriptor));
  index = Read(disk, path);
  kvtree::Tree& entry = index.At("DSET").At(Key(descriptor.id));
  entry.Set("COMPLETE", std::uint64_t{1});
  entry.Set("FLUSHED", "2026-01-01T00:00:00");
  scr::SetCurrent(descriptor.name, index);
  Write(disk, path, index);
}

}  // namespace cairn
