// The C interface, linked in: a run's datasets, directories, and what goes wrong.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "client/reader/cairn_reader.h"
#include "tests/client/reader/sample_run.h"
#include "tests/storage/file/bpdir/sample.h"

namespace cairn {
namespace {

using testing::SampleDirectory;
using Numbers = std::vector<std::uint64_t>;

class ReaderTest : public ::testing::Test {
 protected:
  ~ReaderTest() override {
    cairn_reader_close(reader_);
    cairn_reader_close_run(run_);
  }
  void OpenSample(std::uint32_t steps, bool active = false) {
    std::filesystem::remove_all(path_);
    sample_ = SampleDirectory({.active = active});
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
  SampleDirectory sample_;
  cairn_reader* reader_ = nullptr;
  cairn_reader_run* run_ = nullptr;
};

TEST_F(ReaderTest, VariablesTellKindTypeStepsAndShape) {
  OpenSample(4);
  cairn_reader_info info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(cairn_reader_get_info(reader_, &info), CAIRN_READER_OK);
  EXPECT_EQ(info.steps, 4u);
  EXPECT_EQ(info.variables, 7u);
  EXPECT_EQ(info.active, 0);
  const cairn_reader_variable_info a = Variable("a"), late = Variable("late"), parts = Variable("parts");
  EXPECT_STREQ(a.name, "a");
  EXPECT_EQ(a.kind, CAIRN_READER_GLOBAL_ARRAY);
  EXPECT_EQ(a.type, CAIRN_READER_DOUBLE);
  EXPECT_EQ(a.element_bytes, 8u);
  EXPECT_EQ(a.ndims, 2);
  EXPECT_EQ(a.nsteps, 4u);
  EXPECT_STREQ(a.expression, "");
  EXPECT_EQ(std::vector<std::uint32_t>(late.steps, late.steps + late.nsteps), (std::vector<std::uint32_t>{2, 3}));
  EXPECT_EQ(late.ndims, 0);
  EXPECT_EQ(parts.kind, CAIRN_READER_LOCAL_ARRAY);
  EXPECT_EQ(Variable("who").kind, CAIRN_READER_LOCAL_VALUE);
  EXPECT_EQ(Variable("title").type, CAIRN_READER_STRING);
  std::uint64_t shape[2] = {};
  std::int32_t ndims = 2;
  ASSERT_EQ(cairn_reader_shape(reader_, Find("a"), 3, &ndims, shape), CAIRN_READER_OK);
  EXPECT_EQ(ndims, 2);
  EXPECT_EQ(shape[0] * 10 + shape[1], 43u);
  std::uint32_t writers = 0;
  ASSERT_EQ(cairn_reader_writers(reader_, 0, &writers), CAIRN_READER_OK);
  EXPECT_EQ(writers, 2u);
  std::int32_t has = 0;
  double min = 0, max = 0;
  ASSERT_EQ(cairn_reader_min_max(reader_, Find("a"), 2, &has, &min, &max), CAIRN_READER_OK);
  EXPECT_EQ(has, 1);
  EXPECT_EQ(min, 200);
  EXPECT_EQ(max, 211);
  ASSERT_EQ(cairn_reader_min_max(reader_, Find("a"), CAIRN_READER_ALL_STEPS, &has, &min, &max), CAIRN_READER_OK);
  EXPECT_EQ(min, 0);
  EXPECT_EQ(max, 311);
  ASSERT_EQ(cairn_reader_min_max(reader_, Find("holes"), 2, &has, &min, &max), CAIRN_READER_OK);
  EXPECT_EQ(has, 0);
}

TEST_F(ReaderTest, SelectionsAndBlocksAreReadIntoTheCallersMemory) {
  OpenSample(3);
  EXPECT_EQ(Doubles("a", 2, {1, 1}, {2, 2}), (std::vector<double>{204, 205, 207, 208}));
  const std::uint64_t start[] = {0}, count[] = {4}, holes = Find("holes");
  std::int32_t values[4] = {-1, -1, -1, -1}, whole = 1;
  ASSERT_EQ(cairn_reader_read(reader_, holes, 1, 1, start, count, values, sizeof values, &whole), CAIRN_READER_OK);
  EXPECT_EQ(whole, 0);
  EXPECT_EQ(std::vector<std::int32_t>(values, values + 4), (std::vector<std::int32_t>{1, -1, 1, -1}));
  float parts[2] = {};
  ASSERT_EQ(cairn_reader_read_block(reader_, Find("parts"), 2, 1, 0, nullptr, nullptr, parts, 8), CAIRN_READER_OK);
  EXPECT_EQ(parts[0] + parts[1], 4);
  double row[3] = {};
  const std::uint64_t from[] = {1, 0}, extent[] = {1, 3};
  ASSERT_EQ(cairn_reader_read_block(reader_, Find("a"), 0, 1, 2, from, extent, row, sizeof row), CAIRN_READER_OK);
  EXPECT_EQ(row[0], 9);
}

TEST_F(ReaderTest, BlocksAreListedInPartsAndCounted) {
  OpenSample(2);
  std::uint64_t found = 0;
  ASSERT_EQ(cairn_reader_blocks(reader_, Find("a"), 1, 0, 0, nullptr, nullptr, nullptr, &found), CAIRN_READER_OK);
  EXPECT_EQ(found, 2u);
  cairn_reader_block block{};
  std::uint64_t start[2] = {}, count[2] = {};
  ASSERT_EQ(cairn_reader_blocks(reader_, Find("a"), 1, 1, 1, &block, start, count, &found), CAIRN_READER_OK);
  EXPECT_EQ(found, 1u);
  EXPECT_EQ(block.writer, 1u);
  ASSERT_EQ(block.has_min_max, 1);
  double max = 0;
  std::memcpy(&max, block.max, sizeof max);
  EXPECT_EQ(max, 111);
  EXPECT_EQ(start[0], 2u);
  EXPECT_EQ(count[1], 3u);
  ASSERT_EQ(cairn_reader_blocks(reader_, Find("holes"), 1, 0, 1, &block, start, nullptr, &found), CAIRN_READER_OK);
  EXPECT_EQ(block.has_min_max, 0);
  EXPECT_EQ(found, 2u);
}

TEST_F(ReaderTest, ValuesAreGivenOfTheFirstWriterOrOfEach) {
  OpenSample(4);
  const void* value = nullptr;
  std::uint64_t bytes = 0;
  ASSERT_EQ(cairn_reader_value(reader_, Find("n"), 3, CAIRN_READER_FIRST_WRITER, &value, &bytes), CAIRN_READER_OK);
  ASSERT_EQ(bytes, 4u);
  std::int32_t n = 0;
  std::memcpy(&n, value, sizeof n);
  EXPECT_EQ(n, 3);
  ASSERT_EQ(cairn_reader_value(reader_, Find("title"), 2, 1, &value, &bytes), CAIRN_READER_OK);
  EXPECT_STREQ(static_cast<const char*>(value), "step 2");
  EXPECT_EQ(bytes, 6u);
  ASSERT_EQ(cairn_reader_value(reader_, Find("who"), 3, 1, &value, &bytes), CAIRN_READER_OK);
  EXPECT_EQ(cairn_reader_value(reader_, Find("who"), 3, 0, &value, &bytes), CAIRN_READER_NOT_FOUND);
  EXPECT_EQ(cairn_reader_value(reader_, Find("late"), 1, 0, &value, &bytes), CAIRN_READER_NOT_FOUND);
  EXPECT_EQ(cairn_reader_value(reader_, Find("a"), 1, 0, &value, &bytes), CAIRN_READER_INVALID_ARGUMENT);
}

TEST_F(ReaderTest, AttributesAreACopyOfTheirOwn) {
  OpenSample(3);
  cairn_reader_attributes* attributes = nullptr;
  ASSERT_EQ(cairn_reader_open_attributes(reader_, 2, &attributes), CAIRN_READER_OK) << cairn_reader_error();
  cairn_reader_close(reader_);
  reader_ = nullptr;
  ASSERT_EQ(cairn_reader_attribute_count(attributes), 4u);
  cairn_reader_attribute_info info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(cairn_reader_attribute(attributes, 0, &info), CAIRN_READER_OK);
  EXPECT_STREQ(info.name, "a/scale");
  EXPECT_EQ(info.single, 0);
  ASSERT_EQ(info.count, 2u);
  EXPECT_EQ(static_cast<const double*>(info.values)[1], 2.5);
  ASSERT_EQ(cairn_reader_attribute(attributes, 3, &info), CAIRN_READER_OK);
  EXPECT_STREQ(info.name, "title");
  EXPECT_EQ(info.single, 1);
  EXPECT_EQ(info.values, nullptr);
  EXPECT_STREQ(info.strings[0], "sample");
  EXPECT_EQ(cairn_reader_attribute(attributes, 4, &info), CAIRN_READER_NOT_FOUND);
  cairn_reader_close_attributes(attributes);
}

TEST_F(ReaderTest, AddressesInPlaceOutliveRefreshes) {
  OpenSample(2);
  const std::uint64_t start[] = {2, 0}, count[] = {2, 3}, across[] = {1, 0};
  const void* address = nullptr;
  ASSERT_EQ(cairn_reader_in_place(reader_, Find("a"), 1, 2, start, count, &address), CAIRN_READER_OK);
  ASSERT_NE(address, nullptr);
  const auto* values = static_cast<const double*>(address);
  EXPECT_EQ(values[5], 111);
  ASSERT_EQ(cairn_reader_in_place(reader_, Find("a"), 1, 2, across, count, &address), CAIRN_READER_OK);
  EXPECT_EQ(address, nullptr) << "two blocks";
  ASSERT_EQ(cairn_reader_block_in_place(reader_, Find("parts"), 1, 1, 0, nullptr, nullptr, &address), CAIRN_READER_OK);
  ASSERT_NE(address, nullptr);
  EXPECT_EQ(static_cast<const float*>(address)[1], 1);
  // Another directory under the same names: the files that were mapped are others now.
  std::filesystem::rename(path_, path_ + ".old");
  SampleDirectory other({.id = 77});
  other.AddStep();
  other.WriteTo(path_);
  std::filesystem::remove_all(path_ + ".old");
  std::int32_t change = 0;
  ASSERT_EQ(cairn_reader_refresh(reader_, &change), CAIRN_READER_OK) << cairn_reader_error();
  EXPECT_EQ(change, CAIRN_READER_REPLACED);
  EXPECT_EQ(values[5], 111);
  EXPECT_EQ(Doubles("a", 0, {0, 0}, {1, 2}), (std::vector<double>{0, 1}));
}

TEST_F(ReaderTest, AGrowingDirectoryIsFollowed) {
  OpenSample(1, /*active=*/true);
  cairn_reader_info info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(cairn_reader_get_info(reader_, &info), CAIRN_READER_OK);
  EXPECT_EQ(info.active, 1);
  std::int32_t change = -1;
  ASSERT_EQ(cairn_reader_refresh(reader_, &change), CAIRN_READER_OK);
  EXPECT_EQ(change, CAIRN_READER_UNCHANGED);
  sample_.AddStep();
  sample_.WriteTo(path_);
  ASSERT_EQ(cairn_reader_refresh(reader_, &change), CAIRN_READER_OK);
  EXPECT_EQ(change, CAIRN_READER_GROWN);
  EXPECT_EQ(Doubles("a", 1, {0, 0}, {1, 2}), (std::vector<double>{100, 101}));
  const void* address = &info;
  const std::uint64_t start[] = {0, 0}, count[] = {1, 1};
  ASSERT_EQ(cairn_reader_in_place(reader_, Find("a"), 1, 2, start, count, &address), CAIRN_READER_OK);
  EXPECT_EQ(address, nullptr) << "what grows is not mapped";
  EXPECT_EQ(cairn_reader_refresh(reader_, nullptr), CAIRN_READER_OK);
  std::filesystem::remove(path_ + "/md.idx");
  EXPECT_EQ(cairn_reader_refresh(reader_, &change), CAIRN_READER_NOT_FOUND);
  EXPECT_EQ(Doubles("a", 1, {0, 0}, {1, 2}), (std::vector<double>{100, 101})) << "an error leaves all as it was";
}

// A job that begins anew cuts the files of the one before, which nobody has closed.
TEST_F(ReaderTest, MetadataThatWasCutIsAnErrorAndNoSignal) {
  OpenSample(3, /*active=*/true);
  const std::uint64_t a = Find("a");
  cairn_reader_close(reader_);
  ASSERT_EQ(cairn_reader_open(path_.c_str(), &reader_), CAIRN_READER_OK);
  testing::WriteFile(path_ + "/md.0", "");
  std::uint64_t shape[2];
  std::int32_t ndims = 2, has = 0;
  EXPECT_EQ(cairn_reader_shape(reader_, a, 0, &ndims, shape), CAIRN_READER_DATA_LOSS);
  EXPECT_NE(std::string(cairn_reader_error()).find("md.0: was cut to 0 bytes"), std::string::npos)
      << cairn_reader_error();
  EXPECT_EQ(cairn_reader_min_max(reader_, a, CAIRN_READER_ALL_STEPS, &has, nullptr, nullptr), CAIRN_READER_DATA_LOSS);
  cairn_reader_attributes* attributes = nullptr;
  EXPECT_EQ(cairn_reader_open_attributes(reader_, 0, &attributes), CAIRN_READER_DATA_LOSS);
  sample_ = SampleDirectory({.active = true, .id = 5});
  sample_.AddStep();
  sample_.WriteTo(path_);
  std::int32_t change = 0;
  ASSERT_EQ(cairn_reader_refresh(reader_, &change), CAIRN_READER_OK) << cairn_reader_error();
  EXPECT_EQ(change, CAIRN_READER_REPLACED);
  EXPECT_EQ(cairn_reader_shape(reader_, a, 0, &ndims, shape), CAIRN_READER_OK);
}

TEST_F(ReaderTest, ManyThreadsMayReadWhileOneRefreshes) {
  OpenSample(1, /*active=*/true);
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      const std::uint64_t start[] = {0, 0}, count[] = {4, 3};
      while (!stop) {
        double values[12];
        std::uint64_t index = 0;
        ASSERT_EQ(cairn_reader_find(reader_, "a", &index), CAIRN_READER_OK);
        ASSERT_EQ(cairn_reader_read(reader_, index, 0, 2, start, count, values, sizeof values, nullptr),
                  CAIRN_READER_OK);
        ASSERT_EQ(values[11], 11);
        ASSERT_EQ(cairn_reader_read(reader_, index, 1u << 20, 2, start, count, values, sizeof values, nullptr),
                  CAIRN_READER_NOT_FOUND);
        ASSERT_NE(std::string(cairn_reader_error()).find("1048576"), std::string::npos) << "this thread's own";
      }
    });
  }
  for (int step = 0; step < 60; ++step) {
    sample_.AddStep();
    sample_.WriteTo(path_);
    std::int32_t change = 0;
    EXPECT_EQ(cairn_reader_refresh(reader_, &change), CAIRN_READER_OK);
    EXPECT_EQ(change, CAIRN_READER_GROWN);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ReaderTest, WhatMakesNoSenseIsAnAnswerNotACrash) {
  OpenSample(1);
  const std::uint64_t start[] = {0, 0}, count[] = {9, 9}, a = Find("a");
  double target[4];
  std::uint64_t number = 0;
  std::int32_t ndims = 1;
  EXPECT_EQ(cairn_reader_open("/none", nullptr), CAIRN_READER_INVALID_ARGUMENT);
  cairn_reader* other = reader_;
  EXPECT_EQ(cairn_reader_open("/none", &other), CAIRN_READER_NOT_FOUND);
  EXPECT_EQ(other, nullptr);
  EXPECT_NE(std::string(cairn_reader_error()).find("/none"), std::string::npos);
  EXPECT_EQ(cairn_reader_open(nullptr, &other), CAIRN_READER_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_reader_find(nullptr, "a", &number), CAIRN_READER_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_reader_find(reader_, "zz", &number), CAIRN_READER_NOT_FOUND);
  EXPECT_EQ(cairn_reader_find(reader_, nullptr, &number), CAIRN_READER_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_reader_shape(reader_, a, 0, &ndims, &number), CAIRN_READER_INVALID_ARGUMENT) << "too little room";
  EXPECT_EQ(cairn_reader_shape(reader_, Find("parts"), 0, &ndims, &number), CAIRN_READER_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_reader_shape(reader_, 99, 0, &ndims, &number), CAIRN_READER_NOT_FOUND);
  EXPECT_EQ(cairn_reader_shape(reader_, a, 99, &ndims, &number), CAIRN_READER_NOT_FOUND);
  EXPECT_EQ(cairn_reader_read(reader_, a, 0, 2, start, count, target, 32, nullptr), CAIRN_READER_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_reader_read(reader_, a, 0, 65, start, count, target, 32, nullptr), CAIRN_READER_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_reader_read(reader_, a, 0, 2, start, start, nullptr, 8, nullptr), CAIRN_READER_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_reader_read_block(reader_, a, 0, 5, 0, nullptr, nullptr, target, 32), CAIRN_READER_NOT_FOUND);
  EXPECT_EQ(cairn_reader_blocks(reader_, Find("n"), 0, 0, 0, nullptr, nullptr, nullptr, &number),
            CAIRN_READER_INVALID_ARGUMENT);
  cairn_reader_info info{};
  EXPECT_EQ(cairn_reader_get_info(reader_, &info), CAIRN_READER_INVALID_ARGUMENT) << "struct_size is not set";
  std::filesystem::resize_file(path_ + "/data.1", 3);
  EXPECT_EQ(cairn_reader_read_block(reader_, a, 0, 1, 0, nullptr, nullptr, target, 48), CAIRN_READER_DATA_LOSS);
  EXPECT_NE(std::string(cairn_reader_error()).find("data.1"), std::string::npos) << cairn_reader_error();
  cairn_reader_close(nullptr);
  cairn_reader_close_run(nullptr);
  cairn_reader_close_attributes(nullptr);
  EXPECT_EQ(cairn_reader_attribute_count(nullptr), 0u);
}

TEST_F(ReaderTest, OlderCallersGetWhatTheyKnow) {
  OpenSample(2);
  struct {
    cairn_reader_info info;
    char behind[8];
  } old{};
  std::memset(&old, 0x5a, sizeof old);
  old.info.struct_size = 2 * sizeof(std::uint64_t);
  ASSERT_EQ(cairn_reader_get_info(reader_, &old.info), CAIRN_READER_OK);
  EXPECT_EQ(old.info.struct_size, 16u);
  EXPECT_EQ(old.info.steps, 2u);
  EXPECT_EQ(old.info.variables, 0x5a5a5a5a5a5a5a5au);
}

TEST_F(ReaderTest, ARunShowsItsDatasets) {
  OpenDataset(7);
  ASSERT_EQ(cairn_reader_datasets(run_), 3u);
  cairn_reader_dataset_info info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(cairn_reader_dataset(run_, 0, &info), CAIRN_READER_OK);
  EXPECT_EQ(info.dataset, 7u);
  EXPECT_EQ(info.step, 100u);
  EXPECT_EQ(info.launch, 3u);
  EXPECT_EQ(info.nranks, 2u);
  EXPECT_EQ(info.created_us, 1'700'000'000'000'007);
  EXPECT_EQ(info.checkpoint, 1);
  EXPECT_EQ(info.files, 0);
  ASSERT_EQ(cairn_reader_dataset(run_, 2, &info), CAIRN_READER_OK);
  EXPECT_EQ(info.output, 1);
  EXPECT_EQ(info.checkpoint, 0);
  EXPECT_EQ(info.files, 1);
  EXPECT_EQ(cairn_reader_dataset(run_, 3, &info), CAIRN_READER_NOT_FOUND);
  EXPECT_EQ(cairn_reader_refresh_run(run_), CAIRN_READER_OK);
  cairn_reader* other = nullptr;
  EXPECT_EQ(cairn_reader_open_dataset(run_, 10, &other), CAIRN_READER_NOT_FOUND);
  cairn_reader_run* none = nullptr;
  EXPECT_EQ(cairn_reader_open_run((prefix_ + "/out").c_str(), &none), CAIRN_READER_NOT_FOUND);
  EXPECT_EQ(cairn_reader_open_run((prefix_ + "/none").c_str(), &none), CAIRN_READER_NOT_FOUND);
  EXPECT_EQ(none, nullptr);
}

TEST_F(ReaderTest, ADatasetWithoutAViewGetsOneInMemory) {
  OpenDataset(7);
  EXPECT_EQ(Doubles("u", 0, {1, 4}, {2, 2}), (std::vector<double>{10, 11, 16, 17}));
  std::int32_t plain[3] = {};
  ASSERT_EQ(cairn_reader_read_block(reader_, Find("var_3"), 0, 0, 0, nullptr, nullptr, plain, sizeof plain),
            CAIRN_READER_OK)
      << cairn_reader_error();
  EXPECT_EQ(plain[1], -1);
  const void* time = nullptr;
  std::uint64_t bytes = 0;
  ASSERT_EQ(cairn_reader_value(reader_, Find("time"), 0, CAIRN_READER_FIRST_WRITER, &time, &bytes), CAIRN_READER_OK);
  double value = 0;
  std::memcpy(&value, time, sizeof value);
  EXPECT_EQ(value, 12.5);
  std::int32_t has = 0;
  double min = 0, max = 0;
  ASSERT_EQ(cairn_reader_min_max(reader_, Find("u"), 0, &has, &min, &max), CAIRN_READER_OK);
  EXPECT_EQ(has, 1);
  EXPECT_EQ(max, 23);
  const std::uint64_t start[] = {2, 0}, count[] = {2, 6};
  const void* address = nullptr;
  ASSERT_EQ(cairn_reader_in_place(reader_, Find("u"), 0, 2, start, count, &address), CAIRN_READER_OK);
  ASSERT_NE(address, nullptr) << "a rank's file is mapped";
  EXPECT_EQ(static_cast<const double*>(address)[11], 23);
  EXPECT_FALSE(std::filesystem::exists(prefix_ + "/ckpt.7.bp")) << "and nothing is written";
  cairn_reader_close_run(run_);
  run_ = nullptr;
  EXPECT_EQ(Doubles("u", 0, {3, 5}, {1, 1}), (std::vector<double>{23})) << "readers outlive their run";
  std::int32_t change = -1;
  EXPECT_EQ(cairn_reader_refresh(reader_, &change), CAIRN_READER_OK) << cairn_reader_error();
  EXPECT_EQ(change, CAIRN_READER_UNCHANGED);
}

TEST_F(ReaderTest, WhoChecksReadsWhatTheCataloguesSayAndIsToldOfADamagedView) {
  OpenDataset(8);
  EXPECT_EQ(cairn_reader_note(reader_, 0), nullptr);
  testing::MakeOtherView(prefix_);
  Reopen(8, /*no_check=*/true);
  EXPECT_EQ(Doubles("v", 0, {2, 1}, {1, 1}), (std::vector<double>{1013})) << "the view, as it is";
  Reopen(8);
  EXPECT_EQ(Doubles("u", 0, {2, 1}, {1, 1}), (std::vector<double>{1013})) << "the dataset, as it was written";
  const char* const note = cairn_reader_note(reader_, 0);
  ASSERT_NE(note, nullptr);
  EXPECT_NE(std::string(note).find("ckpt.8.bp: no \"u\""), std::string::npos) << note;
  EXPECT_EQ(cairn_reader_note(reader_, 1), nullptr);
  EXPECT_EQ(cairn_reader_note(nullptr, 0), nullptr);
}

TEST_F(ReaderTest, AViewThatIsNoneIsNotReadByWhoDoesNotCheckEither) {
  OpenDataset(8);
  const std::string view = prefix_ + "/ckpt.8.bp/";
  const auto expect_made_in_memory = [&] {
    Reopen(8, /*no_check=*/true);
    EXPECT_EQ(Doubles("u", 0, {2, 1}, {1, 1}), (std::vector<double>{1013}));
    ASSERT_NE(cairn_reader_note(reader_, 0), nullptr);
    EXPECT_NE(std::string(cairn_reader_note(reader_, 0)).find("ckpt.8.bp"), std::string::npos);
  };
  testing::MakeOtherView(prefix_);
  std::filesystem::resize_file(view + "md.0", 16);
  expect_made_in_memory();
  for (const std::uintmax_t bytes : {0, 10, 64, 70, 100}) {
    testing::MakeOtherView(prefix_);
    std::filesystem::resize_file(view + "md.idx", bytes);
    expect_made_in_memory();
  }
}

TEST_F(ReaderTest, AFlippedByteIsAnErrorThatNamesItsBlock) {
  OpenDataset(7);
  const std::string file = prefix_ + "/ckpt.7/Ckpt7-Rank1.fti";
  testing::FlipByte(file, 7);  // of u's first element there
  const std::uint64_t start[] = {2, 0}, count[] = {1, 3};
  double row[3] = {};
  const void* address = &row;
  ASSERT_EQ(cairn_reader_in_place(reader_, Find("u"), 0, 2, start, count, &address), CAIRN_READER_OK);
  EXPECT_EQ(address, nullptr) << "not handed out";
  EXPECT_EQ(cairn_reader_read(reader_, Find("u"), 0, 2, start, count, row, sizeof row, nullptr),
            CAIRN_READER_DATA_LOSS);
  EXPECT_NE(std::string(cairn_reader_error()).find(file + ": offset 0: "), std::string::npos) << cairn_reader_error();
  EXPECT_EQ(Doubles("u", 0, {1, 0}, {1, 2}), (std::vector<double>{6, 7})) << "of the other rank's file";
  Reopen(7, /*no_check=*/true);
  EXPECT_NE(Doubles("u", 0, {2, 0}, {1, 1}), (std::vector<double>{12}));
}

TEST_F(ReaderTest, WhatHasBeenCheckedIsNotCheckedAgain) {
  OpenDataset(7);
  EXPECT_EQ(Doubles("u", 0, {2, 0}, {1, 2}), (std::vector<double>{12, 13}));
  const std::string file = prefix_ + "/ckpt.7/Ckpt7-Rank1.fti";
  testing::FlipByte(file, std::filesystem::file_size(file) - 1);
  EXPECT_EQ(Doubles("u", 0, {2, 0}, {1, 2}), (std::vector<double>{12, 13}));
}

TEST_F(ReaderTest, ADamagedFileOfADatasetOfFilesIsAnErrorOfItsOpeningOrOfItsReads) {
  OpenDataset(9);
  testing::FlipByte(prefix_ + "/out/fields.bp/data.1", 3);
  Reopen(9);
  const std::uint64_t start[] = {0, 0}, count[] = {4, 3};
  double a[12] = {};
  EXPECT_EQ(cairn_reader_read(reader_, Find("a"), 0, 2, start, count, a, sizeof a, nullptr), CAIRN_READER_DATA_LOSS);
  EXPECT_NE(std::string(cairn_reader_error()).find("data.1: offset 0"), std::string::npos) << cairn_reader_error();
  testing::FlipByte(prefix_ + "/out/fields.bp/mmd.0", 60);
  cairn_reader* damaged = nullptr;
  EXPECT_EQ(cairn_reader_open_dataset(run_, 9, &damaged), CAIRN_READER_DATA_LOSS);
  EXPECT_NE(std::string(cairn_reader_error()).find("mmd.0: offset 0"), std::string::npos) << cairn_reader_error();
  EXPECT_EQ(damaged, nullptr);
}

TEST_F(ReaderTest, ADirectoryThatEndsEarlySaysSo) {
  OpenSample(2);
  cairn_reader_info info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(cairn_reader_get_info(reader_, &info), CAIRN_READER_OK);
  EXPECT_EQ(info.ends_early, 0);
  std::filesystem::resize_file(path_ + "/md.idx", sample_.index_ends()[1] - 1);
  ASSERT_EQ(cairn_reader_refresh(reader_, nullptr), CAIRN_READER_OK) << cairn_reader_error();
  ASSERT_EQ(cairn_reader_get_info(reader_, &info), CAIRN_READER_OK);
  EXPECT_EQ(info.steps, 1u);
  EXPECT_EQ(info.ends_early, 1);
  ASSERT_NE(cairn_reader_note(reader_, 0), nullptr);
  EXPECT_NE(std::string(cairn_reader_note(reader_, 0)).find("steps are missing"), std::string::npos);
}

TEST_F(ReaderTest, ADatasetOfFilesIsTheDirectoryAmongThem) {
  OpenDataset(9);
  EXPECT_EQ(Doubles("a", 2, {3, 1}, {1, 2}), (std::vector<double>{210, 211}));
}

}  // namespace
}  // namespace cairn
