// Steps as they were put, made at random, and whether decoded metadata tells the same.
#ifndef CAIRN_TESTS_STORAGE_FORMAT_BP5_STEP_MODEL_H_
#define CAIRN_TESTS_STORAGE_FORMAT_BP5_STEP_MODEL_H_

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "storage/format/bp5/encode.h"
#include "storage/format/bp5/metadata.h"

namespace cairn::bp5 {

template <typename T>
std::string Raw(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

// What tests write most: `values` from 0 on in one dimension, with these bounds.
Put Doubles(const std::string& name, std::uint64_t location, std::uint64_t values, double min, double max);
Put Int32(const std::string& name, std::int32_t value);
Attribute Int32Attribute(const std::string& name, std::int32_t value);

struct WriterStep {
  std::vector<Put> puts;
  std::uint64_t data_bytes = 0;
  std::vector<Attribute> attributes;
};

struct StepModel {
  std::vector<WriterStep> writers;
  std::vector<WriterData> data;
  std::vector<std::uint32_t> subfiles;
};

// Variables of all kinds and types that can be written, of which each writer puts some in each step: writers come and
// go, subfiles change, attributes are defined anew.
class RandomSteps {
 public:
  explicit RandomSteps(std::uint64_t seed);
  StepModel Next();

 private:
  struct Declared {
    std::string name;
    Kind kind;
    Type type;
    std::size_t dimensions;
  };

  std::uint64_t Below(std::uint64_t end) { return std::uniform_int_distribution<std::uint64_t>(0, end - 1)(random_); }
  void Declare();
  std::string Value(Type type);
  std::string MinMaxText(Type type);
  Put MakePut(const Declared& variable, const Extents& shape, std::uint64_t& data_bytes);
  void AddBlock(const Declared& variable, bool statistics, std::uint64_t& data_bytes, Put& put);
  Attribute MakeAttribute();

  std::mt19937_64 random_;
  std::vector<Declared> variables_;
  std::size_t writers_ = 1;
};

// Expects that all that metadata knows of the step is what the model has. `attributes` is the state before the step,
// and after it.
void ExpectStep(const Metadata& metadata, std::uint32_t step, const StepModel& model,
                std::map<std::string, Attribute>& attributes);

}  // namespace cairn::bp5

#endif  // CAIRN_TESTS_STORAGE_FORMAT_BP5_STEP_MODEL_H_
