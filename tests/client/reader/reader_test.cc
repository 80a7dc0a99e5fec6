// The C interface, linked in: directories, and what goes wrong.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "client/reader/cairn_reader.h"
#include "tests/client/reader/reader_fixture.h"
#include "tests/storage/file/bpdir/sample.h"

namespace cairn {
namespace {

using testing::SampleDirectory;

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

}  // namespace
}  // namespace cairn
