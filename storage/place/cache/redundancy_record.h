// What a node's cache keeps of a dataset for ranks of other nodes, as a file in the dataset's folder:
// .scr/redundancy.cairn, framed (storage/format/framed/framed.h) with the magic "CAIRNRED" and version 1.
// The redundancy files that it names are SCR's; the record has their checksums, and says what they protect.
// After a loss sets are made anew, node by node. Until all members have noted the new one a rank keeps what it had for
// the old one, too: its files follow those of the new one, which SCR's records are about.
#ifndef CAIRN_STORAGE_PLACE_CACHE_REDUNDANCY_RECORD_H_
#define CAIRN_STORAGE_PLACE_CACHE_REDUNDANCY_RECORD_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/redundancy.pb.h"
#include "storage/base/ids.h"
#include "storage/format/scr/descriptor.h"
#include "storage/format/scr/redset_records.h"
#include "storage/io/disk.h"
#include "storage/place/run_identity.h"

namespace cairn {

// Is it a set of a dataset of so many ranks? kInvalidArgument naming the field: a scheme that protects, at least two
// members, all different, no more than SCR's formats bear; checksums and replicas as the scheme has them. Pure.
absl::Status CheckSet(const kept::Set& set, std::uint32_t nranks);
// Its members as SCR describes them, by their place in it. REQUIRES: CheckSet.
std::vector<scr::SetDescriptor> DescriptorsOf(const kept::Set& set, std::uint32_t nranks);
// The sets of MakeSets' answer (by world rank), each once, without those of one rank.
std::vector<kept::Set> SetsOf(std::span<const scr::SetDescriptor> by_rank);
bool AreSame(const kept::Set& a, const kept::Set& b);

// Of so many sets a rank keeps something at a time.
inline constexpr std::size_t kSetsOfRankMax = 4;
// Another name for a redundancy file, by which it stays when the file of a newer set takes its own. `number`: from 1.
std::string OlderName(std::string_view name, std::uint64_t number);
bool IsOlderName(std::string_view name);
// What a rank keeps for one set: its file of data, and that of filemaps, which may be missing: nullptr.
struct KeptPair {
  const kept::File* data = nullptr;
  const kept::File* filemap = nullptr;
  const kept::Set& set() const { return data->set(); }
};
// By rank: the newest set first. Borrowed. REQUIRES: CheckRedundancyRecord.
std::map<Rank, std::vector<KeptPair>> PairsByRank(const kept::Record& record);
// For which sets a rank keeps something: the newest first.
std::map<Rank, std::vector<kept::Set>> SetsByRank(const kept::Record& record);
// Where a rank keeps something for more than kSetsOfRankMax sets, which of `sets` is the one to go: all but the newest
// ones may be of no use, except the first of all, which may be the only one that ever was whole. REQUIRES: sets > 2.
constexpr std::size_t OneToGo(std::size_t sets) {
  return sets - 2;
}

// Without what its ranks keep for sets older than these.
kept::Record WithoutOlder(const kept::Record& record, const std::vector<kept::Set>& than);

std::uint64_t KeptBytes(const kept::Record& record);  // of all its files

inline constexpr std::uint64_t kRedundancyRecordBytesMax = 64u << 20;

// Is it sound, and of this run and dataset (its step only where the descriptor has one)? kInvalidArgument naming the
// field. Files are in order, and none has the name of another. Pure.
absl::Status CheckRedundancyRecord(const kept::Record& record, const RunIdentity& run,
                                   const scr::Descriptor& descriptor);

// `folder`: the dataset's, on any disk. A record that is there is of this run and dataset, and sound: each file of a
// rank that is a member of its set, with a name as SCR's files have, or its OlderName, and a header within it.
//   kNotFound  there is none
//   kDataLoss  it is damaged, of another dataset, not sound, or newer than this: names file and field
//   others     the disk's
absl::StatusOr<kept::Record> ReadRedundancyRecord(Disk& disk, const std::string& folder, const RunIdentity& run,
                                                  const scr::Descriptor& descriptor);
// Replaces the one that is there; synced. kInvalidArgument: larger than kRedundancyRecordBytesMax.
absl::Status WriteRedundancyRecord(Disk& disk, const std::string& folder, const kept::Record& record);
absl::Status RemoveRedundancyRecord(Disk& disk, const std::string& folder);  // not there: OK; synced

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_CACHE_REDUNDANCY_RECORD_H_
