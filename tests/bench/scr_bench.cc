// What the filemap of a rank with many files costs: loading (decode), changing one file and storing (encode) it, and
// the same through the structures of storage/scr. Medians, by the wall and by the CPU clock.
//   scr_bench [files] [runs]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/check.h"
#include "storage/kvtree/tree.h"
#include "storage/scr/records.h"

namespace cairn {
namespace {

double Now(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

double MedianOf(std::vector<double>& values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void Report(std::string_view what, int runs, auto&& work) {
  std::vector<double> wall, cpu;
  for (int run = 0; run < runs; ++run) {
    const double wall_ms = Now(CLOCK_MONOTONIC), cpu_ms = Now(CLOCK_THREAD_CPUTIME_ID);
    work();
    wall.push_back(Now(CLOCK_MONOTONIC) - wall_ms);
    cpu.push_back(Now(CLOCK_THREAD_CPUTIME_ID) - cpu_ms);
  }
  fmt::print("{:<40} {:7.2f} ms wall {:7.2f} ms cpu\n", what, MedianOf(wall), MedianOf(cpu));
}

std::string PathOf(int file) {
  return fmt::format("/mnt/ssd/alice/scr.4242/scr.dataset.1/dir_{}/file_{}.dat", file / 100, file);
}

scr::Filemap FilemapOf(int files) {
  scr::Filemap filemap;
  for (int file = 0; file < files; ++file) {
    scr::Meta meta;
    meta.original = fmt::format("dir_{}/file_{}.dat", file / 100, file);
    meta.directory = fmt::format("/mnt/pfs/demo/dir_{}", file / 100);
    meta.name = fmt::format("file_{}.dat", file);
    meta.ranks = 64;
    meta.complete = true;
    meta.bytes = 1'000'000 + static_cast<std::uint64_t>(file);
    meta.mode = 0100640;
    meta.atime = meta.mtime = meta.ctime = {1795160217, 901615760};
    filemap.files.emplace(PathOf(file), meta);
  }
  return filemap;
}

void Run(int files, int runs) {
  const scr::Filemap filemap = FilemapOf(files);
  const std::string file = kvtree::Encode(scr::ToTree(filemap));
  const std::string changed_path = PathOf(files / 2);
  fmt::print("{} files, {} bytes, median of {} runs\n", files, file.size(), runs);
  Report("load, change one file, store", runs, [&] {
    auto tree = kvtree::Decode("filemap", file);
    CAIRN_CHECK(tree.ok());
    scr::PutFile(changed_path, filemap.files.at(changed_path), *tree);
    CAIRN_CHECK(kvtree::Encode(*tree).size() == file.size());
  });
  Report("  load only", runs, [&] { CAIRN_CHECK(kvtree::Decode("filemap", file).ok()); });
  Report("load into structures", runs, [&] {
    const auto tree = kvtree::Decode("filemap", file);
    CAIRN_CHECK(tree.ok() && scr::GetFilemap(*tree)->files.size() == filemap.files.size());
  });
  Report("store from structures", runs,
         [&] { CAIRN_CHECK(kvtree::Encode(scr::ToTree(filemap)).size() == file.size()); });
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  const int files = argc > 1 ? std::atoi(argv[1]) : 10'000;
  const int runs = argc > 2 ? std::atoi(argv[2]) : 15;
  CAIRN_CHECK(files > 0 && runs > 0);
  cairn::Run(files, runs);
  return 0;
}
