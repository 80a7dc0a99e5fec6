// What opening and listing a large BP5 directory costs by the calls of libcairn_reader, against reading its metadata.
#ifndef CAIRN_TESTS_BENCH_READER_OPEN_H_
#define CAIRN_TESTS_BENCH_READER_OPEN_H_

#include <string>

namespace cairn::bench {

// `cold`: as root, the caches are dropped before each measurement. `parent`: a folder for the directories.
void MeasureOpening(int rounds, bool cold, const std::string& parent);

}  // namespace cairn::bench

#endif  // CAIRN_TESTS_BENCH_READER_OPEN_H_
