#include "tests/storage/file/redundancy/sample_cache.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "storage/base/checksum.h"
#include "storage/file/redundancy/payload.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/records.h"
#include "tests/storage/file/redundancy/scr_cache.h"
#include "tests/support/status_matchers.h"

namespace cairn::testing {
namespace {

using File = std::pair<std::string, std::string>;  // recorded path, bytes

struct SchemeWords {
  const char *type, *file;
};
SchemeWords WordsOf(scr::Scheme scheme) {
  switch (scheme) {
    case scr::Scheme::kSingle:
      return {"SINGLE", "single"};
    case scr::Scheme::kPartner:
      return {"PARTNER", "partner"};
    case scr::Scheme::kXor:
      return {"XOR", "xor"};
    case scr::Scheme::kRs:
      return {"RS", "rs"};
  }
  return {"", ""};
}

class Writer {
 public:
  Writer(Disk& disk, const std::string& root, const SampleCache& sample)
      : disk_(disk), root_(root), sample_(sample), ranks_(static_cast<std::uint32_t>(sample.files.size())) {}

  void Write() {
    std::vector<std::vector<File>> files(ranks_), filemaps(ranks_);
    for (Rank rank = 0; rank < ranks_; ++rank) {
      kvtree::Tree filemap;
      for (std::size_t i = 0; i < sample_.files[rank].size(); ++i) {
        const std::string name = std::to_string(i);
        scr::Meta meta;
        meta.original = fmt::format("{}/{}", rank, name);
        meta.directory = fmt::format("/old/{}", rank);
        meta.name = name;
        meta.ranks = ranks_;
        meta.complete = true;
        meta.bytes = sample_.files[rank][i];
        meta.mode = 0100640;
        meta.mtime.tv_sec = 1'700'000'000;
        const std::string recorded = fmt::format("{}/{}", Recorded(), name);
        files[rank].emplace_back(recorded, SampleBytes(rank, i, meta.bytes));
        if (sample_.crcs) meta.crc32 = Crc32(std::as_bytes(std::span(files[rank].back().second)));
        scr::PutFile(recorded, meta, filemap);
        PutBytes(disk_, Folder(rank) + "/" + name, files[rank].back().second);
      }
      filemaps[rank] = {{fmt::format("{}/.scr/filemap_{}", Recorded(), rank), kvtree::Encode(filemap)}};
      PutBytes(disk_, fmt::format("{}/.scr/filemap_{}", Folder(rank), rank), filemaps[rank][0].second);
      PutIndex(rank);
    }
    PutRedset("reddesc", files);
    PutRedset("reddescmap", filemaps);
  }

 private:
  std::string Recorded() const { return fmt::format("/ssd/me/scr.7/scr.dataset.{}", sample_.id); }
  std::string Control(Rank rank) const { return fmt::format("{}/node{}/me/scr.7", root_, rank); }
  std::string Folder(Rank rank) const { return fmt::format("{}/scr.dataset.{}", Control(rank), sample_.id); }

  void PutIndex(Rank rank) {
    const auto before = ReadTree(disk_, Control(rank) + "/cindex.scrinfo");
    kvtree::Tree index = before.ok() ? *before : kvtree::Tree();
    scr::CacheEntry entry;
    entry.descriptor.id = sample_.id;
    entry.descriptor.name = fmt::format("step.{}", sample_.id);
    entry.descriptor.created_us = 1'700'000'000'000'000 + static_cast<std::int64_t>(sample_.id);
    entry.descriptor.complete = true;
    entry.descriptor.checkpoint_id = sample_.id;
    entry.path = Recorded();
    scr::PutCacheEntry(entry, index);
    ASSERT_OK(MakeDirectories(disk_, Control(rank)));
    ASSERT_OK(ReplaceTree(disk_, Control(rank) + "/cindex.scrinfo", index));
  }

  std::uint32_t LeftNeighbours() const {
    if (sample_.scheme == scr::Scheme::kRs) return sample_.checksums;
    return sample_.scheme == scr::Scheme::kSingle ? 0 : 1;
  }

  void PutDescriptor(Rank rank, kvtree::Tree& tree) const {
    const bool single = sample_.scheme == scr::Scheme::kSingle;
    tree.SetBool("ENABLED", true);
    tree.Set("TYPE", WordsOf(sample_.scheme).type);
    tree.Set("GROUPS", std::uint64_t{single ? ranks_ : 1});
    tree.Set("GROUP", std::uint64_t{single ? rank : 0});
    tree.Set("RANKS", std::uint64_t{single ? 1 : ranks_});
    tree.Set("RANK", std::uint64_t{single ? 0 : rank});
    tree.Set("WRANKS", std::uint64_t{ranks_});
    tree.Set("WRANK", std::uint64_t{rank});
    if (sample_.scheme == scr::Scheme::kPartner) tree.Set("REPLICAS", std::uint64_t{1});
    if (sample_.scheme == scr::Scheme::kRs) tree.Set("CKSUM", std::uint64_t{sample_.checksums});
  }

  kvtree::Tree HeaderOf(Rank rank, const std::vector<std::vector<File>>& files, std::uint64_t chunk) const {
    const bool single = sample_.scheme == scr::Scheme::kSingle;
    kvtree::Tree header;
    header.Set("RANK", std::uint64_t{single ? 0 : rank});
    for (std::uint32_t i = 0; i <= LeftNeighbours(); ++i) {
      const Rank member = (rank + ranks_ - i) % ranks_;
      kvtree::Tree& tree = header.At("DESC").At(std::to_string(single ? 0 : member));
      PutDescriptor(member, tree.At("DESC"));
      tree.Set("FILES", std::uint64_t{files[member].size()});
      for (std::size_t at = 0; at < files[member].size(); ++at) {
        kvtree::Tree& stat = tree.At("FILE").At(std::to_string(at)).At(files[member][at].first);
        stat.Set("SIZE", std::uint64_t{files[member][at].second.size()});
      }
    }
    if (chunk == 0) return header;
    header.Set("CHUNK", chunk);
    header.At("GROUP").Set("RANKS", std::uint64_t{ranks_});
    for (Rank other = 0; other < ranks_; ++other) {
      header.At("GROUP").At("RANK").Set(std::to_string(other), std::uint64_t{other});
    }
    return header;
  }

  void PutRedset(const std::string& stem, const std::vector<std::vector<File>>& files) {
    std::vector<std::string> data(ranks_), payloads(ranks_);
    redundancy::Set set{
        .scheme = sample_.scheme, .replicas = 1, .checksums = sample_.checksums, .chunk_bytes = 0, .members = {}};
    std::uint64_t most = 0;
    for (Rank rank = 0; rank < ranks_; ++rank) {
      for (const auto& [path, bytes] : files[rank]) data[rank] += bytes;
      most = std::max<std::uint64_t>(most, data[rank].size());
    }
    const std::uint32_t checksums = sample_.scheme == scr::Scheme::kXor ? 1 : sample_.checksums;
    if (sample_.scheme == scr::Scheme::kXor || sample_.scheme == scr::Scheme::kRs) {
      set.chunk_bytes = std::max<std::uint64_t>(1, (most + ranks_ - checksums - 1) / (ranks_ - checksums));
    }
    for (Rank rank = 0; rank < ranks_; ++rank) {
      redundancy::Member member{.bytes = data[rank].size(), .data = {}, .payload = {}};
      member.data = [&data, rank](std::uint64_t offset, std::span<std::byte> target) {
        std::copy_n(data[rank].data() + offset, target.size(), reinterpret_cast<char*>(target.data()));
        return absl::OkStatus();
      };
      set.members.push_back(std::move(member));
    }
    if (sample_.scheme != scr::Scheme::kSingle) MakePayloads(set, payloads);
    const bool single = sample_.scheme == scr::Scheme::kSingle;
    for (Rank rank = 0; rank < ranks_; ++rank) {
      const std::string share = fmt::format("grp_{}_of_{}.mem_{}_of_{}", single ? rank + 1 : 1, single ? ranks_ : 1,
                                            single ? 1 : rank + 1, single ? 1 : ranks_);
      const std::string name = fmt::format("{}.er.{}.{}.{}.redset", stem, rank, WordsOf(sample_.scheme).file, share);
      PutBytes(disk_, Folder(rank) + "/.scr/" + name,
               kvtree::Encode(HeaderOf(rank, files, set.chunk_bytes)) + payloads[rank]);
      kvtree::Tree state;
      state.Set("STATE", std::uint64_t{2});
      PutBytes(disk_, fmt::format("{}/.scr/{}.er.er", Folder(rank), stem), kvtree::Encode(state));
    }
  }

  void MakePayloads(const redundancy::Set& set, std::vector<std::string>& payloads) const {
    std::map<std::uint32_t, redundancy::Targets> targets;
    for (Rank rank = 0; rank < ranks_; ++rank) {
      payloads[rank].assign(redundancy::PayloadBytes(set, rank), '\0');
      targets[rank].payload = [&payloads, rank](std::uint64_t offset, std::span<const std::byte> bytes) {
        std::copy_n(reinterpret_cast<const char*>(bytes.data()), bytes.size(), payloads[rank].data() + offset);
        return absl::OkStatus();
      };
    }
    ASSERT_OK(redundancy::Rebuild(set, targets));
  }

  Disk& disk_;
  const std::string& root_;
  const SampleCache& sample_;
  const std::uint32_t ranks_;
};

}  // namespace

void PutSampleCache(Disk& disk, const std::string& root, const SampleCache& sample) {
  Writer(disk, root, sample).Write();
}

std::string SampleBytes(Rank rank, std::size_t file, std::uint64_t bytes) {
  std::string text(bytes, '\0');
  for (std::uint64_t at = 0; at < bytes; ++at) {
    text[at] = static_cast<char>(31 * rank + 7 * file + at * 13 + (at >> 7) * (rank + 3));
  }
  return text;
}

}  // namespace cairn::testing
