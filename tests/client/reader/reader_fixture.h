// A reader of the C interface, of a directory or of a run's dataset.
#ifndef CAIRN_TESTS_CLIENT_READER_READER_FIXTURE_H_
#define CAIRN_TESTS_CLIENT_READER_READER_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "client/reader/cairn_reader.h"
#include "tests/client/reader/sample_run.h"
#include "tests/storage/file/bpdir/sample.h"

namespace cairn {

class ReaderTest : public ::testing::Test {
 protected:
  using Numbers = std::vector<std::uint64_t>;

  ~ReaderTest() override {
    cairn_reader_close(reader_);
    cairn_reader_close_run(run_);
  }
  void OpenSample(std::uint32_t steps, bool active = false) {
    std::filesystem::remove_all(path_);
    sample_ = testing::SampleDirectory({.active = active});
    for (std::uint32_t step = 0; step < steps; ++step) sample_.AddStep();
    sample_.WriteTo(path_);
    ASSERT_EQ(cairn_reader_open(path_.c_str(), &reader_), CAIRN_READER_OK) << cairn_reader_error();
  }
  void OpenDataset(std::uint64_t dataset) {
    testing::MakeSampleRun(prefix_);
    ASSERT_EQ(cairn_reader_open_run(prefix_.c_str(), &run_), CAIRN_READER_OK) << cairn_reader_error();
    ASSERT_EQ(cairn_reader_open_dataset(run_, dataset, &reader_), CAIRN_READER_OK) << cairn_reader_error();
  }
  void Reopen(std::uint64_t dataset, bool no_check = false) {
    cairn_reader_close(reader_);
    const cairn_reader_options options = {.struct_size = sizeof options, .no_check = no_check ? 1 : 0};
    ASSERT_EQ(cairn_reader_open_dataset_with(run_, dataset, &options, &reader_), CAIRN_READER_OK)
        << cairn_reader_error();
  }
  std::uint64_t Find(const char* name) {
    std::uint64_t index = ~std::uint64_t{0};
    EXPECT_EQ(cairn_reader_find(reader_, name, &index), CAIRN_READER_OK) << cairn_reader_error();
    return index;
  }
  cairn_reader_variable_info Variable(const char* name) {
    cairn_reader_variable_info info{};
    info.struct_size = sizeof info;
    EXPECT_EQ(cairn_reader_variable(reader_, Find(name), &info), CAIRN_READER_OK) << cairn_reader_error();
    return info;
  }
  std::vector<double> Doubles(const char* name, std::uint64_t step, Numbers start, Numbers count) {
    std::uint64_t elements = 1;
    for (std::uint64_t extent : count) elements *= extent;
    std::vector<double> values(elements);
    EXPECT_EQ(cairn_reader_read(reader_, Find(name), step, static_cast<std::int32_t>(start.size()), start.data(),
                                count.data(), values.data(), values.size() * 8, nullptr),
              CAIRN_READER_OK)
        << cairn_reader_error();
    return values;
  }

  const std::string path_ = ::testing::TempDir() + "reader_test.bp", prefix_ = ::testing::TempDir() + "reader_test_run";
  testing::SampleDirectory sample_;
  cairn_reader* reader_ = nullptr;
  cairn_reader_run* run_ = nullptr;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_CLIENT_READER_READER_FIXTURE_H_
