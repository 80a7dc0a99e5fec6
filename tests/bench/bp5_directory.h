// Directories of many blocks, made by our encoder.
#ifndef CAIRN_TESTS_BENCH_BP5_DIRECTORY_H_
#define CAIRN_TESTS_BENCH_BP5_DIRECTORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "storage/format/bp5/encode.h"
#include "storage/format/bp5/image.h"

namespace cairn::bench {

// A block of 16 doubles from `start` on.
bp5::Put GlobalDoubles(const std::string& name, std::uint64_t start, std::uint64_t shape, std::uint64_t location);

// What a writer puts of so many variables, numbered from `first` on: a block of each.
std::vector<bp5::Put> PutsOf(std::uint32_t variables, std::uint32_t first, std::uint32_t writer, std::uint32_t writers);

// Every writer puts a block of each variable in each step. `active`: as its writer left it that died.
bpdir::Image MakeDirectory(std::uint32_t variables, std::uint32_t writers, std::uint32_t steps, bool active = false);

}  // namespace cairn::bench

#endif  // CAIRN_TESTS_BENCH_BP5_DIRECTORY_H_
