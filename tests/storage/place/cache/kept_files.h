// What a node's ranks keep, made up: files of the names that SCR gives them, set descriptors, and a record. (What is in
// such files nobody here looks at.)
#ifndef CAIRN_TESTS_STORAGE_PLACE_CACHE_KEPT_FILES_H_
#define CAIRN_TESTS_STORAGE_PLACE_CACHE_KEPT_FILES_H_

#include <absl/status/statusor.h>

#include <set>
#include <string>
#include <vector>

#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/place/cache/dataset_folder.h"
#include "storage/place/cache/redundancy_record.h"
#include "tests/storage/place/cache/datasets.h"

namespace cairn {

inline kept::Set TestSet(kept::Scheme scheme, const std::vector<Rank>& ranks) {
  kept::Set set;
  set.set_scheme(scheme);
  set.set_groups(1);
  set.set_replicas(scheme == kept::PARTNER ? 1 : 0);
  set.set_checksums(scheme == kept::RS ? 2 : 0);
  for (const Rank rank : ranks) set.add_ranks(rank);
  return set;
}

inline kept::Record EmptyRecord(const scr::Descriptor& descriptor) {
  kept::Record record;
  record.set_run(TestRun().Hex());
  record.set_launch(*descriptor.launch);
  record.set_dataset(descriptor.id);
  record.set_step(*descriptor.step);
  record.set_nranks(*descriptor.ranks);
  return record;
}

// As WriteRedundancy does it: each file synced and renamed, then the descriptor replaced. Of all members of the set
// that lie here.
inline absl::StatusOr<kept::Record> WriteKept(Disk& disk, const std::string& folder, const scr::Descriptor& descriptor,
                                              const kept::Set& set) {
  kept::Record record = EmptyRecord(descriptor);
  for (const Rank rank : scr::RanksHeld(descriptor)) {
    for (const scr::SetDescriptor& member : DescriptorsOf(set, record.nranks())) {
      if (member.world_rank != rank) continue;
      for (const scr::RedsetKind kind : {scr::RedsetKind::kData, scr::RedsetKind::kFilemaps}) {
        const bool of_filemap = kind == scr::RedsetKind::kFilemaps;
        const std::string name = scr::FileNameOf(scr::HeaderNameOf(kind, member));
        const std::string content = TestContent(rank, of_filemap ? 700 : 6000 + 10 * set.ranks_size());
        CAIRN_RETURN_IF_ERROR(ReplaceFile(disk, RecordsFolder(folder) + "/" + name, content));
        const RankRecords::Tree tree = MakeSetDescriptor(folder, kind, set, rank, record.nranks());
        CAIRN_RETURN_IF_ERROR(ReplaceTree(disk, tree.first, tree.second));
        kept::File& file = *record.add_files();
        file.set_rank(rank);
        *file.mutable_set() = set;
        file.set_of_filemap(of_filemap);
        *file.mutable_file() = TestEntry(name, "", content);
        file.set_header_bytes(100);
      }
    }
  }
  return record;
}

// And what the ranks kept before.
inline kept::Record WithOlder(const kept::Record& record, const kept::Record& before) {
  kept::Record all = record;
  all.clear_files();
  const auto newest = PairsByRank(record), older = PairsByRank(before);
  std::set<Rank> ranks;
  for (const kept::Record* const one : {&record, &before}) {
    for (const kept::File& file : one->files()) ranks.insert(file.rank());
  }
  for (const Rank rank : ranks) {
    for (const auto* const pairs : {&newest, &older}) {
      if (!pairs->contains(rank)) continue;
      for (const KeptPair& pair : pairs->at(rank)) {
        *all.add_files() = *pair.data;
        *all.add_files() = *pair.filemap;
      }
    }
  }
  return all;
}

}  // namespace cairn

#endif  // CAIRN_TESTS_STORAGE_PLACE_CACHE_KEPT_FILES_H_
