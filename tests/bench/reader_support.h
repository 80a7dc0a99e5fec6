// What the parts of reader_bench share.
#ifndef CAIRN_TESTS_BENCH_READER_SUPPORT_H_
#define CAIRN_TESTS_BENCH_READER_SUPPORT_H_

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "client/reader/cairn_reader.h"
#include "storage/base/check.h"

namespace cairn::bench {

// Of all files, by root.
inline void DropCaches() {
  ::sync();
  const int file = ::open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
  CAIRN_CHECK(file >= 0 && ::write(file, "3", 1) == 1);
  ::close(file);
}

inline void CheckOk(int code) {
  if (code != CAIRN_READER_OK) fmt::print(stderr, "{}\n", cairn_reader_error());
  CAIRN_CHECK(code == CAIRN_READER_OK);
}

}  // namespace cairn::bench

#endif  // CAIRN_TESTS_BENCH_READER_SUPPORT_H_
