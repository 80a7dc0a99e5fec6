// Datasets of protected memory as a daemon leaves them on a prefix: real checkpoint files, and catalogues of them.
#ifndef CAIRN_TESTS_STORAGE_PLACE_VIEW_SAMPLE_H_
#define CAIRN_TESTS_STORAGE_PLACE_VIEW_SAMPLE_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/format/bp5/metadata.h"
#include "storage/format/bp5/selection.h"
#include "storage/format/ftiff/layout.h"
#include "storage/format/view/view.h"

namespace cairn::view {

struct SampleVariable {
  local::Variable variable;
  std::string bytes;
};
using SampleRank = std::vector<SampleVariable>;

struct SampleOptions {
  std::uint64_t dataset = 7, step = 100, launch = 3;
  ftiff::Packing packing = ftiff::Packing::kAligned;
  ftiff::Letter letter = ftiff::Letter::kF;
  // Of each rank a layout to go on from (an earlier checkpoint's), or none.
  std::vector<ftiff::FileLayout> last = {};
  bool placed = true;  // the catalogues say where variables are
};

struct SampleDataset {
  std::vector<catalogue::Catalogue> catalogues;
  std::vector<std::string> files;  // by rank; empty: the rank has none
  std::vector<ftiff::FileLayout> layouts;
};
SampleDataset MakeDataset(const std::vector<SampleRank>& ranks, const SampleOptions& options = {});

template <typename T>
std::string Raw(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
template <typename T>
std::vector<T> Values(std::string_view bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

SampleVariable Plain(std::int32_t id, std::uint32_t type, std::string bytes, std::string name = {});
SampleVariable Value(std::int32_t id, std::string name, std::uint32_t type, std::string bytes);
// Bytes of the box in `whole`, an array of `shape`.
SampleVariable Array(std::int32_t id, std::string name, std::uint32_t type, std::vector<std::uint64_t> shape,
                     std::vector<std::uint64_t> start, std::vector<std::uint64_t> count, const std::string& whole);

// What BP5's own reader makes of a view.
class Reader : public bp5::ByteSource {
 public:
  // `files`: by link target.
  Reader(const ViewFiles& view, const std::map<std::string, std::string>& files);
  absl::Status Read(std::uint32_t subfile, std::uint64_t offset, std::span<std::byte> target) override;

  const bp5::Metadata& metadata() const { return metadata_; }
  bp5::VariableNumber Number(const std::string& name) const;  // fails the test
  const bp5::Variable& Of(const std::string& name) const { return metadata_.variables()[Number(name)]; }
  bool Has(const std::string& name) const { return metadata_.FindVariable(name).has_value(); }
  std::string All(const std::string& name, std::uint32_t step = 0);  // of a global array
  std::string Select(const std::string& name, const Box& box, std::uint32_t step = 0);
  std::string Block(const std::string& name, std::uint64_t id, std::uint32_t step = 0);
  std::string Scalar(const std::string& name, std::uint32_t writer, std::uint32_t step = 0);
  // Of every block, in their order: writer, and min and max as text (nothing: none).
  std::vector<std::pair<std::uint32_t, std::string>> Bounds(const std::string& name, std::uint32_t step = 0);

 private:
  ViewFiles view_;  // what metadata_ points into
  std::map<std::uint32_t, std::string> subfiles_;
  bp5::Metadata metadata_;
};

// The files of a dataset under the targets that links in `to_prefix` have.
std::map<std::string, std::string> FilesOf(const SampleDataset& dataset, const std::string& to_prefix = "..");

}  // namespace cairn::view

#endif  // CAIRN_TESTS_STORAGE_PLACE_VIEW_SAMPLE_H_
