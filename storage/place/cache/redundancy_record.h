// What a node's cache keeps of a dataset for ranks of other nodes, as a file in the dataset's folder:
// .scr/redundancy.cairn, framed (storage/format/framed/framed.h) with the magic "CAIRNRED" and version 1.
// The redundancy files that it names are SCR's; the record has their checksums, and says what they protect.
#ifndef CAIRN_STORAGE_PLACE_CACHE_REDUNDANCY_RECORD_H_
#define CAIRN_STORAGE_PLACE_CACHE_REDUNDANCY_RECORD_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
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
std::vector<kept::Set> SetsIn(const kept::Record& record);  // of its files of data, each once

std::uint64_t KeptBytes(const kept::Record& record);  // of all its files

inline constexpr std::uint64_t kRedundancyRecordBytesMax = 64u << 20;

// Is it sound, and of this run and dataset (its step only where the descriptor has one)? kInvalidArgument naming the
// field. Files are in order; those of one rank are of one set. Pure.
absl::Status CheckRedundancyRecord(const kept::Record& record, const RunIdentity& run,
                                   const scr::Descriptor& descriptor);

// `folder`: the dataset's, on any disk. A record that is there is of this run and dataset, and sound: each file of a
// rank that is a member of its set, with a name as SCR's files have and a header within it.
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
