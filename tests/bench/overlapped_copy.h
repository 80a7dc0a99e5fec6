// What a disk gives at best if a file is written, synced, and read back while its rest is being written.
#ifndef CAIRN_TESTS_BENCH_OVERLAPPED_COPY_H_
#define CAIRN_TESTS_BENCH_OVERLAPPED_COPY_H_

#include <string>

namespace cairn::bench {

// Copies `from` to a new file `to`, by direct I/O into blocks reserved before: two threads write 4 MiB at a time, this
// one syncs each 256 MiB, two read back what was synced. Bytes are not looked at. Ends the process on an error.
// REQUIRES: whole MiB.
void OverlappedCopy(const std::string& from, const std::string& to);

}  // namespace cairn::bench

#endif  // CAIRN_TESTS_BENCH_OVERLAPPED_COPY_H_
