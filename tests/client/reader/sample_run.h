// A run's prefix with two checkpoints of variables and an output of files, as a daemon would leave it.
#ifndef CAIRN_TESTS_CLIENT_READER_SAMPLE_RUN_H_
#define CAIRN_TESTS_CLIENT_READER_SAMPLE_RUN_H_

#include <cstdint>
#include <string>

namespace cairn::testing {

// In `prefix`, which is made anew; tests/storage/file/bpdir/sample.h says what the directory in it holds.
//   dataset 7, step 100, two ranks: u     global array of doubles, shape {4, 6}, two rows each: element i is i
//                                   time  value, double: 12.5
//                                   3     plain, int32, of rank 1 only: {5, -1, 9}
//   dataset 8, step 200: the same, element i of u is 1000 + i
//   dataset 9, step 300: the application's files, among them out/fields.bp, a sample directory of three steps
// Datasets 7 and 8 have no view on disk.
void MakeSampleRun(const std::string& prefix);
// Gives dataset 8 a view on disk, of which u is called v, so that who reads it shows which one it read.
void MakeOtherView(const std::string& prefix);
// As a failing disk may do.
void FlipByte(const std::string& path, std::uint64_t at);

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_CLIENT_READER_SAMPLE_RUN_H_
