// Any bytes as the metadata of a BP5 directory: opening answers with a status or with steps of which every record,
// block, value, attribute and sum can be looked at; an error takes nothing; two tails are the same as all at once.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "storage/base/check.h"
#include "storage/format/bp5/metadata.h"
#include "tests/fuzz/bp5_input.h"
#include "tests/storage/format/bp5/bp_files.h"

namespace cairn::bp5 {
namespace {

// As long as the bytes are and no longer, so that every step beyond is seen.
using File = std::vector<std::byte>;

File FileOf(const std::string& bytes) {
  const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
  return File(begin, begin + bytes.size());
}

struct Files {
  File index, formats, metadata;
};

absl::Status Extend(const Files& files, std::size_t index_end, Metadata& metadata) {
  const auto rest = [](const File& file, std::uint64_t from, std::size_t end) {
    return std::span(file).subspan(from, end - from);
  };
  return metadata.Extend({rest(files.index, metadata.index_bytes(), index_end),
                          rest(files.formats, metadata.formats_bytes(), files.formats.size()), 0, files.metadata});
}

void ExpectEmpty(const Metadata& metadata) {
  CAIRN_CHECK(metadata.steps() == 0 && metadata.variables().empty() && metadata.formats().empty());
  CAIRN_CHECK(metadata.index_bytes() == 0 && metadata.formats_bytes() == 0 && metadata.metadata_bytes() == 0);
}

void LookAtAll(const Metadata& metadata) {
  const auto placed = [](const DataPlace& place, std::uint64_t bytes) {
    CAIRN_CHECK(place.offset <= ~std::uint64_t{0} - bytes);
    return absl::OkStatus();
  };
  testing::LookAtAll(metadata, placed).IgnoreError();  // what is damaged may say so
  CAIRN_CHECK(metadata.own_bytes() < 64 << 20);
}

void OpenAndLook(const Input& input) {
  const Files files = {FileOf(input.files.index), FileOf(input.files.formats), FileOf(input.files.metadata)};
  Metadata metadata;
  const absl::Status status = Extend(files, files.index.size(), metadata);
  if (!status.ok()) ExpectEmpty(metadata);
  LookAtAll(metadata);
  if (!input.in_two_tails) return;

  Metadata grown;
  if (!Extend(files, files.index.size() / 2, grown).ok()) return ExpectEmpty(grown);
  const std::string before = testing::TextOfAll(grown);
  const absl::Status second = Extend(files, files.index.size(), grown);
  CAIRN_CHECK(second.ok() == status.ok());
  CAIRN_CHECK(testing::TextOfAll(grown) == (status.ok() ? testing::TextOfAll(metadata) : before));
}

}  // namespace
}  // namespace cairn::bp5

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::optional<cairn::bp5::Input> input = cairn::bp5::InputOf({data, size});
  if (!input.has_value()) return 0;
  if (input->ids_made_right) cairn::bp5::testing::MakeIdsRight(input->files);
  cairn::bp5::OpenAndLook(*input);
  return 0;
}
