// Something to export: ranks of different sizes whose bytes depend on rank, variable and place.
#ifndef CAIRN_TESTS_STORAGE_FILE_FTI_SAMPLE_EXPORT_H_
#define CAIRN_TESTS_STORAGE_FILE_FTI_SAMPLE_EXPORT_H_

#include <cstdint>

#include "storage/file/fti/execution.h"

namespace cairn::testing {

struct SampleExport {
  SampleExport(const fti::Topology& topology, fti::Level level, ftiff::Letter letter, std::int32_t id);

  fti::Export what;  // without a folder

  // The byte at `offset` of a variable of the `index`-th application rank.
  static std::byte ByteOf(std::size_t index, std::int32_t id, std::uint64_t offset);
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_STORAGE_FILE_FTI_SAMPLE_EXPORT_H_
