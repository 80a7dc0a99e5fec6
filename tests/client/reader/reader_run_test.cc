// The C interface, linked in: a run's datasets, their views, and what is damaged.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "client/reader/cairn_reader.h"
#include "tests/client/reader/reader_fixture.h"
#include "tests/client/reader/sample_run.h"

namespace cairn {
namespace {

using ReaderRunTest = ReaderTest;

TEST_F(ReaderRunTest, ARunShowsItsDatasets) {
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

TEST_F(ReaderRunTest, ADatasetWithoutAViewGetsOneInMemory) {
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

TEST_F(ReaderRunTest, WhoChecksReadsWhatTheCataloguesSayAndIsToldOfADamagedView) {
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

TEST_F(ReaderRunTest, AViewThatIsNoneIsNotReadByWhoDoesNotCheckEither) {
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

TEST_F(ReaderRunTest, AFlippedByteIsAnErrorThatNamesItsBlock) {
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

TEST_F(ReaderRunTest, WhatHasBeenCheckedIsNotCheckedAgain) {
  OpenDataset(7);
  EXPECT_EQ(Doubles("u", 0, {2, 0}, {1, 2}), (std::vector<double>{12, 13}));
  const std::string file = prefix_ + "/ckpt.7/Ckpt7-Rank1.fti";
  testing::FlipByte(file, std::filesystem::file_size(file) - 1);
  EXPECT_EQ(Doubles("u", 0, {2, 0}, {1, 2}), (std::vector<double>{12, 13}));
}

TEST_F(ReaderRunTest, ADamagedFileOfADatasetOfFilesIsAnErrorOfItsOpeningOrOfItsReads) {
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

TEST_F(ReaderRunTest, ADatasetOfFilesIsTheDirectoryAmongThem) {
  OpenDataset(9);
  EXPECT_EQ(Doubles("a", 2, {3, 1}, {1, 2}), (std::vector<double>{210, 211}));
}

}  // namespace
}  // namespace cairn
