// Any kvtree file as any of SCR's records: each reader answers with a status or with a record that can be put and got
// again, and what changes a record's tree leaves one that can be read.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/check.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/records.h"
#include "storage/format/scr/redset_records.h"
#include "tests/fuzz/kvtree_input.h"

namespace cairn::scr {
namespace {

using kvtree::Tree;

void ReadMeta(const Tree& tree) {
  const auto meta = GetMeta(tree);
  if (!meta.ok()) return;
  Tree put = tree;
  PutMeta(*meta, put);
  CAIRN_CHECK(GetMeta(put).ok());
  CAIRN_CHECK(meta::Check(meta::kSize, meta->bytes, put) && meta::Check(meta::kType, meta->type, put));
  CAIRN_CHECK(meta::Check(meta::kMtime, meta->mtime, put) && meta::Check(meta::kComplete, meta->complete, put));
  CAIRN_CHECK(!meta->crc32 || meta::Check(meta::kCrc, *meta->crc32, put));
  CAIRN_CHECK(meta->name.empty() || meta::Check(meta::kName, meta->name, put));
  CheckCached(*meta, 0).IgnoreError();
}

void ReadFilemap(const Tree& tree) {
  GetExpectedFiles(tree).status().IgnoreError();
  Tree copy;
  MergeFilemap(tree, copy);
  CAIRN_CHECK(CountFiles(copy) == CountFiles(tree));
  if (const auto descriptor = GetFilemapDescriptor(tree); descriptor.ok()) {
    PutFilemapDescriptor(*descriptor, copy);
    CAIRN_CHECK(GetFilemapDescriptor(copy)->id == descriptor->id);
  }
  const auto filemap = GetFilemap(tree);
  if (!filemap.ok()) return;
  CAIRN_CHECK(GetFilemap(ToTree(*filemap))->files.size() == filemap->files.size());
  Tree other;
  for (const auto& [path, meta] : filemap->files) {
    if (const Tree* const entry = tree.FindPath({"FILE", path, "META"})) ReadMeta(*entry);
    CAIRN_CHECK(CopyFile(path, tree, other));
    CAIRN_CHECK(EraseFile(path, copy) && !EraseFile(path, copy));
  }
  CAIRN_CHECK(CountFiles(other) == filemap->files.size());
}

void ReadCacheAndFlush(const Tree& tree) {
  Tree copy = tree;
  if (const auto entries = GetCacheEntries(tree); entries.ok()) {
    for (const auto& [id, entry] : *entries) PutCacheEntry(entry, copy);
    CAIRN_CHECK(GetCacheEntries(copy)->size() == entries->size());
    for (const auto& [id, entry] : *entries) EraseCacheEntry(id, copy);
    CAIRN_CHECK(GetCacheEntries(copy)->empty());
  }
  if (const auto entries = GetFlushEntries(tree); entries.ok()) {
    for (const auto& [id, entry] : *entries) PutFlushEntry(id, entry, copy);
    CAIRN_CHECK(GetFlushEntries(copy)->size() == entries->size());
    for (const auto& [id, entry] : *entries) EraseFlushEntry(id, copy);
    CAIRN_CHECK(GetFlushEntries(copy)->empty());
  }
}

void ReadIndex(const Tree& tree) {
  if (const auto descriptor = GetSummary(tree); descriptor.ok()) {
    CAIRN_CHECK(GetSummary(MakeSummary(*descriptor)).ok());
  }
  const auto index = GetIndex(tree);
  if (!index.ok()) return;
  Tree changed = tree;
  for (const auto& [id, entry] : index->datasets) PutIndexEntry(entry, changed);
  CAIRN_CHECK(GetIndex(changed)->datasets.size() == index->datasets.size());
  for (const auto& [id, entry] : index->datasets) {
    const auto found = FindByName(entry.descriptor.name, changed);
    CAIRN_CHECK(!found || index->datasets.contains(*found));
  }
  for (const auto& [id, entry] : index->datasets) EraseIndexEntry(id, changed);
  CAIRN_CHECK(GetIndex(changed)->datasets.empty());
}

void ReadRank2File(const Tree& tree) {
  int loads = 0;
  const auto read = GetRank2File([&](const std::string&) -> absl::StatusOr<Tree> {
    CAIRN_CHECK(++loads < 1'000'000);
    return tree;  // one that is a part of itself is refused or read, but ends
  });
  if (!read.ok() || read->ranks > 1000) return;
  std::vector<std::vector<std::string>> files(read->ranks);
  for (const auto& [rank, names] : read->files) files[rank] = names;
  const auto made = MakeRank2File(files, 1 << 10);
  const auto again = GetRank2File([&](const std::string& suffix) -> absl::StatusOr<Tree> { return made.at(suffix); });
  CAIRN_CHECK(again.ok() && again->ranks == read->ranks);
}

void ReadSmallFiles(const Tree& tree) {
  if (const auto halt = GetHalt(tree); halt.ok()) {
    Tree copy = tree;
    PutHalt(*halt, copy);
    CAIRN_CHECK(*GetHalt(copy) == *halt);
    for (const std::int64_t time :
         {std::numeric_limits<std::int64_t>::min(), std::int64_t{0}, std::numeric_limits<std::int64_t>::max()}) {
      const auto why = WhyHalt(*halt, time, std::nullopt);
      CAIRN_CHECK(!why || !why->empty());
      WhyHalt(*halt, 0, time);
    }
  }
  if (const auto nodes = GetNodes(tree); nodes.ok()) {
    Tree copy;
    PutNodes(*nodes, copy);
    CAIRN_CHECK(*GetNodes(copy) == *nodes);
  }
}

void ReadRedset(const Tree& tree) {
  GetSetDescriptors(tree).status().IgnoreError();
  GetOwnership(tree).status().IgnoreError();
  GetEncodeState(tree).status().IgnoreError();
  for (const auto& [key, child] : tree.elements()) {
    if (const auto name = ParseRedsetName(key)) CAIRN_CHECK(name->member <= name->members);
  }
  const auto header = GetRedundancyHeader(tree);
  if (!header.ok()) return;
  const SetDescriptor& own = header->members.at(header->rank).descriptor;
  CAIRN_CHECK(own.rank == header->rank && own.rank < own.ranks);
  for (const auto& [rank, member] : header->members) {
    CAIRN_CHECK(rank < own.ranks && member.bytes() <= std::numeric_limits<std::int64_t>::max());
    CAIRN_CHECK(header->world_ranks.empty() || header->world_ranks.at(rank) == member.descriptor.world_rank);
  }
}

void ReadRecords(std::string_view file) {
  const auto tree = kvtree::Decode("input", file);
  if (!tree.ok()) return;
  ReadFilemap(*tree);
  ReadCacheAndFlush(*tree);
  ReadIndex(*tree);
  ReadRank2File(*tree);
  ReadSmallFiles(*tree);
  ReadRedset(*tree);
}

}  // namespace
}  // namespace cairn::scr

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cairn::scr::ReadRecords(cairn::kvtree::FileOfInput({reinterpret_cast<const char*>(data), size}));
  return 0;
}
