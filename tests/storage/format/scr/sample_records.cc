#include "tests/storage/format/scr/sample_records.h"

#include <utility>

#include "storage/format/scr/records.h"
#include "storage/format/scr/redset.h"

namespace cairn::testing {
namespace {

using kvtree::Tree;

scr::Meta SampleMeta(const std::string& name) {
  scr::Meta meta;
  meta.original = "ckpt.3/" + name;
  meta.directory = "/p/ckpt.3";
  meta.name = name;
  meta.ranks = 3;
  meta.complete = true;
  meta.bytes = 1500;
  meta.mode = 0100640;
  meta.mtime = {1795160217, 901615760};
  meta.crc32 = 0x1b39e4e4;
  return meta;
}

scr::Descriptor SampleDescriptor() {
  scr::Descriptor descriptor;
  descriptor.id = 3;
  descriptor.name = "ckpt.3";
  descriptor.output = true;
  descriptor.created_us = 1795160217882237;
  descriptor.user = "alice";
  descriptor.files = 3;
  descriptor.bytes = 4500;
  descriptor.complete = true;
  descriptor.launch = 2;
  descriptor.ranks = 3;
  return descriptor;
}

Tree SampleFilemap() {
  Tree tree;
  for (const std::string name : {"a.dat", "b.dat"}) scr::PutFile("/c/scr.dataset.3/" + name, SampleMeta(name), tree);
  scr::PutExpectedFiles(2, tree);
  scr::PutFilemapDescriptor(SampleDescriptor(), tree);
  return tree;
}

Tree SampleIndex() {
  scr::IndexEntry entry{.descriptor = SampleDescriptor(),
                        .complete = true,
                        .flushed = "2026-11-20T07:37:10",
                        .fetched = {"2026-11-20T07:37:19"},
                        .failed = {}};
  Tree tree;
  scr::PutIndexEntry(entry, tree);
  scr::SetCurrent("ckpt.3", tree);
  entry.descriptor.id = 4;
  entry.descriptor.name = "plot\n4";
  entry.failed = "2026-11-20T07:46:45";
  scr::PutIndexEntry(entry, tree);
  return tree;
}

void PutXorSet(std::uint64_t rank, Tree& set) {
  for (const auto& [key, value] : {std::pair("GROUPS", "1"), {"GROUP", "0"}, {"RANKS", "3"}, {"WRANKS", "3"}}) {
    set.Set(key, std::string_view(value));
  }
  set.Set("TYPE", "XOR");
  set.Set("RANK", rank);
  set.Set("WRANK", rank);
}

Tree SampleXorHeader() {
  Tree tree;
  tree.Set("RANK", "0");
  tree.Set("CHUNK", "750");
  tree.At("GROUP").Set("RANKS", "3");
  for (const std::string rank : {"0", "1", "2"}) tree.At("GROUP").At("RANK").Set(rank, rank);
  for (const std::uint64_t rank : {0, 2}) {
    Tree& member = tree.At("DESC").At(std::to_string(rank));
    PutXorSet(rank, member.At("DESC"));
    member.Set("FILES", "1");
    scr::PutStat(SampleMeta("a.dat"), member.At("FILE").At("0").At("/c/scr.dataset.3/a." + std::to_string(rank)));
  }
  tree.Sort();
  return tree;
}

}  // namespace

std::map<std::string, Tree> SampleRecords() {
  std::map<std::string, Tree> records;
  records["filemap_0"] = SampleFilemap();
  scr::PutCacheEntry({.descriptor = SampleDescriptor(), .path = "/c/scr.dataset.3"}, records["cindex.scrinfo"]);
  scr::PutFlushEntry(3, {.name = "ckpt.3", .in_cache = true, .checkpoint = true, .descriptor = SampleDescriptor()},
                     records["flush.scr"]);
  records["index.scr"] = SampleIndex();
  records["summary.scr"] = scr::MakeSummary(SampleDescriptor());
  for (auto& [suffix, tree] : scr::MakeRank2File({{"ckpt.3/a.dat", "ckpt.3/b.dat"}, {}, {"ckpt.3/c.dat"}})) {
    records["rank2file" + suffix] = tree;
  }
  scr::PutHalt({.reason = "JOB_HALTED", .checkpoints_left = 5, .exit_before_s = 1893456000, .halt_seconds = 900},
               records["halt.scr"]);
  scr::PutNodes(3, records["nodes.scr"]);
  for (auto& [name, tree] : scr::MakeRankRecords(
           scr::RedsetKind::kData, scr::SingleHeader(0, 3, {{"/c/scr.dataset.3/a.dat", SampleMeta("a.dat")}}))) {
    records[name] = tree;
  }
  const auto ownership = scr::MakeOwnership(scr::RedsetKind::kData, "/c/scr.dataset.3/.scr",
                                            {{scr::SingleSet(0, 3), {"/c/scr.dataset.3/a.dat"}}});
  records[ownership.first] = ownership.second;
  const auto state = scr::MakeEncodeState(scr::RedsetKind::kData);
  records[state.first] = state.second;
  records["reddesc.er.0.xor.grp_1_of_1.mem_1_of_3.redset"] = SampleXorHeader();
  return records;
}

}  // namespace cairn::testing
