// What was found of one thing that `verify` looks at: as it is found, so that whoever asked can tell it at once.
#ifndef CAIRN_STORAGE_JOB_VERIFY_FINDING_H_
#define CAIRN_STORAGE_JOB_VERIFY_FINDING_H_

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "storage/base/ids.h"
#include "storage/file/fti/names.h"
#include "storage/format/ftiff/layout.h"
#include "storage/format/ftiff/letter.h"

namespace cairn::verify {

// A checkpoint file of FTI-FF.
struct CheckedCheckpoint {
  struct BadChunk {
    ftiff::Container container;
    std::string why;
  };
  ftiff::Letter letter = ftiff::Letter::kF;
  std::optional<std::int32_t> id;  // where the layout holds one
  std::size_t containers = 0;
  std::uint64_t file_bytes = 0;
  bool data_read = false;  // to its end: only then the other two are known
  std::vector<BadChunk> bad;
  std::string bad_checksum;  // of the whole file; empty: it is right
};
// A code file of FTI's level 3.
struct CheckedCode {
  std::uint64_t code_bytes = 0;
};
// A catalogue or kvtree file.
struct CheckedRecord {
  std::string_view kind;  // as KindOf has it
};
// A redundancy file of SCR's, whose payload has the length that its header says; nothing in it tells whether it is
// right.
struct CheckedRedundancy {
  std::string_view scheme;  // "XOR"
  std::uint64_t payload_bytes = 0;
};
// Files of one kind in one folder, which are of several checkpoints.
struct CheckedRanks {
  fti::FileKind kind = fti::FileKind::kRank;
  std::map<std::int32_t, std::set<std::uint32_t>> ranks;  // by checkpoint
  bool alike = false;                                     // all have the same ranks
};
// A dataset of a prefix, of which all is there and right; of SCR's own, by sizes alone.
struct CheckedDataset {
  bool by_cairn = true;
  std::uint64_t ranks = 0, files = 0, bytes = 0;
  std::vector<std::string> unverified = {};  // files that were adopted although nothing verified their bytes then
  std::string failed;  // when a restart from it has failed; empty: none has. Then the status is not OK.
};
// A prefix without a dataset.
struct NothingCommitted {};
// A dataset that somebody, or the policy, removed while it was looked at.
struct RemovedMeanwhile {};

struct Finding {
  std::string target;                // path of a file, a folder or a prefix
  std::optional<DatasetId> dataset;  // of the prefix
  // kDataLoss: damaged, or gone although it is committed. kFailedPrecondition: right, but no restart uses it. Others:
  // it could not be looked at. The message may begin with "<target>: ".
  absl::Status status;
  std::variant<std::monostate, CheckedCheckpoint, CheckedCode, CheckedRecord, CheckedRedundancy, CheckedRanks,
               CheckedDataset, NothingCommitted, RemovedMeanwhile>
      what = {};
};
using Report = std::function<void(const Finding&)>;

}  // namespace cairn::verify

#endif  // CAIRN_STORAGE_JOB_VERIFY_FINDING_H_
