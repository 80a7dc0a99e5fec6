// Inputs for redundancy_record_fuzz to begin with: records of each scheme, of one set and of several.
//   redundancy_record_corpus FOLDER
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "storage/base/check.h"
#include "storage/base/ids.h"
#include "storage/format/scr/redset_records.h"
#include "storage/place/cache/redundancy_record.h"

namespace cairn {
namespace {

constexpr std::uint32_t kRanks = 8;

// Of ranks 1, 3, 5 and 7; the others than rank 3 in another order for each `number`.
kept::Set SetOf(kept::Scheme scheme, int number) {
  std::vector<Rank> others = {1, 5, 7};
  for (int i = 0; i < number; ++i) std::ranges::next_permutation(others);
  kept::Set set;
  set.set_scheme(scheme);
  set.set_groups(2);
  set.set_group(1);
  set.set_replicas(scheme == kept::PARTNER ? 1 : 0);
  set.set_checksums(scheme == kept::RS ? 2 : 0);
  for (const Rank rank : {others[0], Rank{3}, others[1], others[2]}) set.add_ranks(rank);
  return set;
}

kept::File FileOf(const kept::Set& set, bool of_filemap, int number) {
  const auto kind = of_filemap ? scr::RedsetKind::kFilemaps : scr::RedsetKind::kData;
  const std::string name = scr::FileNameOf(scr::HeaderNameOf(kind, DescriptorsOf(set, kRanks)[1]));
  kept::File file;
  file.set_rank(3);
  *file.mutable_set() = set;
  file.set_of_filemap(of_filemap);
  file.mutable_file()->set_name(number == 0 ? name : OlderName(name, static_cast<std::uint64_t>(number)));
  file.mutable_file()->set_bytes(1000);
  file.mutable_file()->add_crc32c(4711);
  file.set_header_bytes(100);
  return file;
}

kept::Record RecordOf(kept::Scheme scheme, int sets) {
  kept::Record record;
  record.set_run(RunId().Hex());
  record.set_launch(1);
  record.set_dataset(7);
  record.set_step(70);
  record.set_nranks(kRanks);
  for (int number = 0; number < sets; ++number) {
    for (const bool of_filemap : {false, true}) {
      *record.add_files() = FileOf(SetOf(scheme, number), of_filemap, number);
    }
  }
  return record;
}

int Main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: redundancy_record_corpus FOLDER\n");
    return 2;
  }
  scr::Descriptor descriptor;
  descriptor.id = 7;
  descriptor.launch = 1;
  descriptor.step = 70;
  descriptor.ranks = kRanks;
  for (const kept::Scheme scheme : {kept::PARTNER, kept::XOR, kept::RS}) {
    for (int sets = 1; sets <= 3; ++sets) {
      const kept::Record record = RecordOf(scheme, sets);
      const absl::Status sound = CheckRedundancyRecord(record, RunId(), descriptor);
      CAIRN_CHECK(sound.ok());
      std::ofstream out(fmt::format("{}/{}-{}", argv[1], static_cast<int>(scheme), sets), std::ios::binary);
      CAIRN_CHECK(record.SerializeToOstream(&out));
      out.close();
      CAIRN_CHECK(out.good());
    }
  }
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  return cairn::Main(argc, argv);
}
