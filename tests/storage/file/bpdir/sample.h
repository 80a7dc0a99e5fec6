// A small directory of two writers, with variables of all kinds, step by step.
#ifndef CAIRN_TESTS_STORAGE_FILE_BPDIR_SAMPLE_H_
#define CAIRN_TESTS_STORAGE_FILE_BPDIR_SAMPLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "storage/format/bp5/encode.h"
#include "storage/format/bp5/image.h"

namespace cairn::testing {

// In step s, of writer w:
//   a       global array of doubles, shape {4, 3}, two rows each: element i of all is 100 s + i; min and max
//   n       global value, int32: s                      title   global value, string: "step <s>"
//   who     local value, uint16: 10 w + s; in odd steps of writer 1 only
//   parts   local array of floats: w + 1 elements, all s
//   late    global value, double, from step 2 on: s / 2
//   holes   global array of int32, shape {4}: only element 2 w, which is s
// and attributes: title "sample", "a/unit" "K", "a/scale" {1.5, 2.5}, steps (int64) s, at every step anew.
class SampleDirectory {
 public:
  explicit SampleDirectory(const bp5::IndexOptions& options = {});

  void AddStep();
  std::uint32_t steps() const { return steps_; }

  const bpdir::Image& image() const { return image_; }
  const std::vector<std::string>& data() const { return data_; }
  // Of md.idx, behind each step's record.
  const std::vector<std::size_t>& index_ends() const { return index_ends_; }

  // Makes or overwrites the files as they are now.
  void WriteTo(const std::string& directory) const;

 private:
  bp5::EncodedStep EncodeWriter(std::size_t writer, std::string& data);

  bpdir::Image image_;
  std::vector<bp5::WriterEncoder> encoders_;
  std::vector<std::string> data_ = std::vector<std::string>(2);
  std::vector<std::size_t> index_ends_;
  std::uint32_t steps_ = 0;
};

void WriteFile(const std::string& path, const std::string& bytes);

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_STORAGE_FILE_BPDIR_SAMPLE_H_
