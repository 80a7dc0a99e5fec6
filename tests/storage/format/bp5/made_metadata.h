// Metadata made in memory by the encoder, step by step, and opened.
#ifndef CAIRN_TESTS_STORAGE_FORMAT_BP5_MADE_METADATA_H_
#define CAIRN_TESTS_STORAGE_FORMAT_BP5_MADE_METADATA_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "storage/format/bp5/encode.h"
#include "storage/format/bp5/metadata.h"
#include "tests/storage/format/bp5/bp_files.h"
#include "tests/support/status_matchers.h"

namespace cairn::bp5::testing {

template <typename T>
std::string Raw(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(std::data(values)), values.size() * sizeof(T)};
}

template <typename T>
T ValueAt(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

inline Put GlobalArray(const std::string& name, Type type, const Extents& shape, std::vector<PutBlock> blocks) {
  Put put;
  put.name = name;
  put.kind = Kind::kGlobalArray;
  put.type = type;
  put.shape = shape;
  put.blocks = std::move(blocks);
  return put;
}

inline Put Scalar(const std::string& name, Kind kind, Type type, const std::string& value) {
  Put put;
  put.name = name;
  put.kind = kind;
  put.type = type;
  put.value = value;
  return put;
}

inline PutBlock BlockOf(const Extents& start, const Extents& count, std::uint64_t location = 0,
                        std::string min_max = "") {
  return {{start, count}, location, std::move(min_max)};
}

// A directory made step by step.
class Made {
 public:
  explicit Made(const IndexOptions& options = {}) { files_.index = EncodeIndexHeader(options); }

  // What each writer puts, and where its data lies (nothing: at 0, without flushes).
  Made& Step(const std::vector<std::vector<Put>>& puts, std::vector<WriterData> data = {},
             const std::vector<Attribute>& attributes = {}, std::uint64_t data_bytes = 1 << 20) {
    if (puts.size() != writers_.size()) {
      writers_ = std::vector<WriterEncoder>(puts.size());
      std::vector<std::uint32_t> subfiles;
      for (std::uint32_t i = 0; i < puts.size(); ++i) subfiles.push_back(10 + i);
      files_.index += EncodeWriterMap(subfiles, 1);
    }
    std::vector<EncodedStep> steps;
    for (std::size_t w = 0; w < puts.size(); ++w) {
      absl::StatusOr<EncodedStep> step =
          writers_[w].Encode(puts[w], data_bytes, w == 0 ? attributes : std::vector<Attribute>());
      EXPECT_OK(step);
      files_.formats += EncodeFormatEntry(*step->format);
      if (step->attributes_format != nullptr) files_.formats += EncodeFormatEntry(*step->attributes_format);
      steps.push_back(*std::move(step));
    }
    const std::string metadata = EncodeStepMetadata(steps);
    data.resize(puts.size());
    files_.index += EncodeStepRecord(files_.metadata.size(), metadata.size(), data);
    files_.metadata += metadata;
    return *this;
  }

  const BpFiles& files() const { return files_; }

 private:
  BpFiles files_;
  std::vector<WriterEncoder> writers_;
};

// A directory that must open; its files stay with it.
struct Opened {
  explicit Opened(BpFiles from) : files(std::move(from)) { EXPECT_OK(ExtendWith(files, metadata)); }
  explicit Opened(const Made& made) : Opened(made.files()) {}

  VariableNumber Number(const std::string& name) const { return metadata.FindVariable(name).value_or(~0u); }
  absl::Status Walk(const std::string& name, std::uint32_t step = 0) const {
    BlockWalk walk = metadata.Blocks(Number(name), step);
    while (walk.Next()) {
    }
    EXPECT_FALSE(walk.Next()) << "the end is the end";
    return walk.status();
  }

  BpFiles files;
  Metadata metadata;
};

}  // namespace cairn::bp5::testing

#endif  // CAIRN_TESTS_STORAGE_FORMAT_BP5_MADE_METADATA_H_
