// FTI-FF files in memory for tests: made from a layout, read, damaged.
#ifndef CAIRN_TESTS_STORAGE_FTIFF_SAMPLE_FILE_H_
#define CAIRN_TESTS_STORAGE_FTIFF_SAMPLE_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "storage/ftiff/codec.h"
#include "storage/ftiff/layout.h"
#include "storage/ftiff/records.h"

namespace cairn::ftiff::testing {

// What a read of `bytes` answers; past the end: kDataLoss. `bytes` is borrowed.
ReadAt ReaderOf(const std::string& bytes);

// Data that depends on variable and place, in each container with content; zeros elsewhere.
std::string DataOf(const FileLayout& layout);
std::vector<Md5Digest> HashesOf(const FileLayout& layout, const std::string& data);

// The whole file.
std::string FileOf(const FileLayout& layout, const FileHeader& header);

// Two blocks; full, partly filled, empty and emptied containers, one of zero size.
FileLayout MixedLayout();

// Where records of a layout F file lie; counted from 0 over the whole file.
std::size_t TrailerOffset(const std::string& file);
std::size_t BlockOffset(const FileLayout& layout, std::size_t block);
std::size_t ChunkOffset(const FileLayout& layout, std::size_t chunk);

// Overwrites a field of the record at `offset`.
void Overwrite(std::string* file, std::size_t offset, FieldPlace place, std::int64_t value);
// Makes the trailer's own hash right again.
void Reseal(std::string* file);

// $CAIRN_TEST_SEED, or a number from the clock.
std::uint64_t TestSeed();

}  // namespace cairn::ftiff::testing

#endif  // CAIRN_TESTS_STORAGE_FTIFF_SAMPLE_FILE_H_
