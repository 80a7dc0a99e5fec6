// FTI-FF files in memory for tests: made from a layout, read, damaged.
#ifndef CAIRN_TESTS_STORAGE_FORMAT_FTIFF_SAMPLE_FILE_H_
#define CAIRN_TESTS_STORAGE_FORMAT_FTIFF_SAMPLE_FILE_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "storage/format/ftiff/codec.h"
#include "storage/format/ftiff/layout.h"
#include "storage/format/ftiff/records.h"

namespace cairn::ftiff::testing {

inline constexpr std::array kLetters = {Letter::kA, Letter::kB, Letter::kC, Letter::kD, Letter::kE, Letter::kF};

// What a read of `bytes` answers; past the end: kDataLoss. `bytes` is borrowed.
ReadAt ReaderOf(const std::string& bytes);

// Data that depends on variable and place, in each container with content; zeros elsewhere.
std::string DataOf(const FileLayout& layout);
// A container without content has the MD5 of "old".
std::vector<Md5Digest> HashesOf(const FileLayout& layout, const std::string& data);

// The whole file of layout F.
std::string FileOf(const FileLayout& layout, const FileHeader& header);

// The whole file of any layout, made by the tables alone, not by the encoders that are tested: FTI wrote it so, but
// the checksum of C to F is by the reader rule. `layout` has any offsets; `index` fields count the variables,
// those that are `registered` in that order.
std::string FileOf(Letter letter, const FileLayout& layout, const FileHeader& header,
                   std::span<const std::int32_t> registered = {});

// A file of B that ends with the five bytes of its only chunk, whose container is of any size: `hello`, variable 1.
std::string FileOfBThatClaims(std::uint64_t container_bytes);

// A level 3 code file (7.3) of `code`. C and D have the same.
std::string CodeFileOf(Letter letter, const std::string& code, std::uint64_t checkpoint_bytes);

// Two blocks; full, partly filled, empty and emptied containers, one of zero size.
FileLayout MixedLayout();

// Where records of a file lie; counted from 0 over the whole file.
std::size_t FileRecordOffset(Letter letter, const std::string& file);
std::size_t TrailerOffset(const std::string& file);  // in F
std::size_t BlockOffset(const FileLayout& layout, std::size_t block, Letter letter = Letter::kF);
std::size_t ChunkOffset(const FileLayout& layout, std::size_t chunk, Letter letter = Letter::kF);

// Overwrites a field of the record at `offset`.
void Overwrite(std::string* file, std::size_t offset, FieldPlace place, std::int64_t value);
// Makes the file record's own hash right again. A level 3 code file has its record at the end in all layouts.
void Reseal(std::string* file, Letter letter = Letter::kF);
void ResealAt(std::string* file, Letter letter, std::size_t offset);

// $CAIRN_TEST_SEED, or a number from the clock.
std::uint64_t TestSeed();

}  // namespace cairn::ftiff::testing

#endif  // CAIRN_TESTS_STORAGE_FORMAT_FTIFF_SAMPLE_FILE_H_
