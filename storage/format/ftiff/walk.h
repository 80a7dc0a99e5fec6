// The blocks and chunks of a file of any layout, record after record: checks 3 to 5 of section 10 of the FTI-FF
// specification. Data is not read.
#ifndef CAIRN_STORAGE_FORMAT_FTIFF_WALK_H_
#define CAIRN_STORAGE_FORMAT_FTIFF_WALK_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/format/ftiff/codec.h"
#include "storage/format/ftiff/id_hash.h"
#include "storage/format/ftiff/record_reader.h"
#include "storage/format/ftiff/records.h"

namespace cairn::ftiff {

// Where things lie by the file record, which was compared with the file's length.
struct Areas {
  std::uint64_t data_end = 0;     // containers end here: dataSize, or fs where metadata is in front of each block
  std::uint64_t records_end = 0;  // no block or chunk record beyond this
  std::uint64_t file_bytes = 0;   // its length, in B maybe less than fs
};

class Walk {
 public:
  // All borrowed.
  Walk(std::string_view name, const RecordTable& table, const Areas& areas, const ReadAt& read)
      : name_(name), table_(table), areas_(areas), records_(read) {}

  // Fills layout, chunk_hashes and registered. Once.
  absl::Status Run(FileMetadata* metadata);

 private:
  struct VariableState {
    std::uint64_t containers = 0;
    std::uint64_t bytes = 0;  // of all its containers so far
    bool closed = false;      // a container was not full: no content may follow
  };

  absl::Status Blocks(FileMetadata* metadata);
  absl::Status Block(FileMetadata* metadata);
  absl::StatusOr<std::uint32_t> ChunksOf(std::uint64_t at, std::span<const std::byte> block) const;
  absl::Status Chunk(FileMetadata* metadata);
  absl::StatusOr<Container> CheckSizes(std::uint64_t at, std::span<const std::byte> record) const;  // check 4
  absl::Status CheckPlaceInVariable(std::uint64_t at, const Container& container);                  // check 5

  const std::string_view name_;
  const RecordTable& table_;
  const Areas areas_;
  RecordReader records_;
  std::uint64_t data_at_ = 0;  // where the next container begins
  IdMap<VariableState> variables_;
  std::vector<std::pair<std::int64_t, std::int32_t>> registered_;  // idx and id of each variable's first container
};

}  // namespace cairn::ftiff

#endif  // CAIRN_STORAGE_FORMAT_FTIFF_WALK_H_
