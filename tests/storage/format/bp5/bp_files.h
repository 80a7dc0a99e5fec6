// The three files of a BP5 directory's metadata in memory, and everything in them looked at.
#ifndef CAIRN_TESTS_STORAGE_FORMAT_BP5_BP_FILES_H_
#define CAIRN_TESTS_STORAGE_FORMAT_BP5_BP_FILES_H_

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "storage/format/bp5/metadata.h"

namespace cairn::bp5::testing {

struct BpFiles {
  std::string index, formats, metadata;
};
// A file that is not there is empty.
BpFiles ReadBpFiles(const std::string& directory);
// Paths of a folder's *.bp, in order.
std::vector<std::string> DirectoriesIn(const std::string& folder);

// All there is of the files, from what was taken before.
Metadata::Tail TailOf(const BpFiles& files, const Metadata& before);
absl::Status ExtendWith(const BpFiles& files, Metadata& metadata);

// Gives each format the identifier that its bytes make, and the records those of their formats: so that what lies
// behind this check is reached, too.
void MakeIdsRight(BpFiles& files);

// Looks at every record, block, value, attribute and sum; the first error. `placed` gets what blocks have in their
// subfiles; its error counts, too.
using Placed = std::function<absl::Status(const DataPlace& place, std::uint64_t bytes)>;
absl::Status LookAtAll(const Metadata& metadata, const Placed& placed = nullptr);

// All that LookAtAll sees, as text: what two readings of the same must have in common.
std::string TextOfAll(const Metadata& metadata);

}  // namespace cairn::bp5::testing

#endif  // CAIRN_TESTS_STORAGE_FORMAT_BP5_BP_FILES_H_
