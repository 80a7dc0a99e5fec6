// What a disk and a memory give at best: the yardsticks of the benchmarks.
#ifndef CAIRN_TESTS_BENCH_RAW_IO_H_
#define CAIRN_TESTS_BENCH_RAW_IO_H_

#include <cstddef>
#include <span>
#include <string>

namespace cairn::bench {

// Writes a new file by io_uring and direct I/O, 8 writes of 4 MiB in flight, into blocks reserved before; `sync`: and
// fdatasync. Ends the process on an error. `bytes`: 4 KiB aligned.
void RawWrite(const std::string& path, std::span<const std::byte> bytes, bool sync);
// Writes over a file of that length in the same way, and fdatasync.
void RawOverwrite(const std::string& path, std::span<const std::byte> bytes);
// Reads that file in the same way.
void RawRead(const std::string& path, std::span<std::byte> target);

// Where files may lie for a while: $CAIRN_BENCH_DIR or /var/tmp.
std::string BenchFolder();

}  // namespace cairn::bench

#endif  // CAIRN_TESTS_BENCH_RAW_IO_H_
