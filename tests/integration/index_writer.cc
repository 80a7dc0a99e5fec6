// A process that changes a prefix's index while others do:
//
//   index_writer PREFIX count NAME N   N changes of a line of its own, each built on the one before
//   index_writer PREFIX read  NAME N   N reads: whole, and no line goes back
//   index_writer PREFIX scr   NAME N   N times as SCR's tools do it: read, change a key of its own, write in place
//
// Says what was wrong, a line each; ends with 0 if nothing was.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>

#include "storage/base/status.h"
#include "storage/base/unique_fd.h"
#include "storage/file/trees/tree_file.h"
#include "storage/io/posix_disk.h"
#include "storage/place/prefix/shared_records.h"

namespace cairn {
namespace {

constexpr char kTable[] = "RACE";

int Complain(const std::string& what) {
  fmt::print("{}\n", what);
  return 1;
}

int Count(SharedRecords& records, const std::string& name, std::uint64_t changes) {
  for (std::uint64_t i = 1; i <= changes; ++i) {
    const absl::Status made = records.ChangeIndex([&](kvtree::Tree& index) -> absl::Status {
      kvtree::Tree& mine = index.At(kTable).At(name);
      const std::uint64_t before = mine.empty() ? 0 : mine.GetUnsigned("N").value_or(0);
      // i: made already, and asked again.
      if (before != i - 1 && before != i) return DataLoss("{}: {} in place of {}", name, before, i - 1);
      mine.Set("N", i);
      index.Set("VERSION", std::uint64_t{2});
      return absl::OkStatus();
    });
    if (!made.ok()) return Complain(made.ToString());
  }
  return 0;
}

int Read(SharedRecords& records, std::uint64_t reads) {
  std::map<std::string, std::uint64_t> seen;
  for (std::uint64_t i = 0; i < reads; ++i) {
    const auto index = records.ReadIndex();
    if (!index.ok()) return Complain(index.status().ToString());
    const kvtree::Tree* table = index->Find(kTable);
    if (table == nullptr) continue;
    for (auto& [name, last] : seen) {
      if (table->Find(name) == nullptr) return Complain(name + " is gone");
    }
    for (const auto& [name, line] : table->elements()) {
      const std::uint64_t now = line.GetUnsigned("N").value_or(0);
      std::uint64_t& last = seen[std::string(name)];
      if (now < last) return Complain(fmt::format("{}: {} after {}", name, now, last));
      last = now;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return 0;
}

// Truncated in place, written in one call, synced (SCR specification, 1.6).
int WriteAsScr(const std::string& prefix, std::uint64_t writes) {
  const auto disk = MakePosixDisk();
  const std::string path = prefix + "/.scr/index.scr";
  for (std::uint64_t i = 1; i <= writes; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    auto tree = ReadTree(*disk, path);
    if (!tree.ok()) continue;
    tree->Set("SCR_TOOL", i);
    const std::string text = kvtree::Encode(*tree);
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
    if (file.get() < 0) return Complain("cannot open the index");
    if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) return Complain("short");
    ::fsync(file.get());
  }
  return 0;
}

int Run(const std::string& prefix, const std::string& what, const std::string& name, std::uint64_t times) {
  const auto disk = MakePosixDisk();
  SharedRecords records(*disk, prefix, RunId());
  int result = 2;
  if (what == "count") result = Count(records, name, times);
  if (what == "read") result = Read(records, times);
  if (what == "scr") result = WriteAsScr(prefix, times);
  for (const std::string& warning : records.TakeWarnings()) result = Complain("warned: " + warning);
  return result;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  return cairn::Run(argv[1], argv[2], argv[3], std::strtoull(argv[4], nullptr, 10));
}
