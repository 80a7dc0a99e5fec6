// Any message as the record of what a node keeps for others: it is refused with a status, or what is asked of it is
// consistent, and what is left of it without older sets is sound again.
#include <cstddef>
#include <cstdint>
#include <limits>

#include "storage/base/check.h"
#include "storage/base/ids.h"
#include "storage/place/cache/redundancy_record.h"

namespace cairn {
namespace {

void Ask(const kept::Record& record, const RunIdentity& run, const scr::Descriptor& descriptor) {
  std::uint64_t bytes = 0;
  std::size_t files = 0;
  for (const kept::File& file : record.files()) bytes += file.file().bytes();
  CAIRN_CHECK(KeptBytes(record) == bytes);
  for (const auto& [rank, pairs] : PairsByRank(record)) {
    CAIRN_CHECK(rank < record.nranks() && !pairs.empty() && pairs.size() <= kSetsOfRankMax);
    for (const KeptPair& pair : pairs) {
      CAIRN_CHECK(pair.data != nullptr && pair.data->rank() == rank && !pair.data->of_filemap());
      CAIRN_CHECK(pair.filemap == nullptr || AreSame(pair.filemap->set(), pair.set()));
      files += pair.filemap == nullptr ? 1 : 2;
      const auto members = DescriptorsOf(pair.set(), record.nranks());
      CAIRN_CHECK(members.size() == static_cast<std::size_t>(pair.set().ranks_size()));
    }
    CAIRN_CHECK(SetsByRank(record).at(rank).size() == pairs.size());
    const kept::Record newer = WithoutOlder(record, {pairs.front().set()});
    CAIRN_CHECK(CheckRedundancyRecord(newer, run, descriptor).ok());
    CAIRN_CHECK(PairsByRank(newer).at(rank).size() == 1);
  }
  CAIRN_CHECK(files == static_cast<std::size_t>(record.files_size()));
}

}  // namespace
}  // namespace cairn

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > std::numeric_limits<int>::max()) return 0;
  cairn::kept::Record record;
  if (!record.ParseFromArray(data, static_cast<int>(size))) return 0;
  const auto run = cairn::RunId::Parse(record.run());
  if (!run.ok()) return 0;
  cairn::scr::Descriptor descriptor;
  descriptor.id = record.dataset();
  descriptor.launch = record.launch();
  descriptor.step = record.step();
  descriptor.ranks = record.nranks();
  if (cairn::CheckRedundancyRecord(record, *run, descriptor).ok()) cairn::Ask(record, *run, descriptor);
  return 0;
}
