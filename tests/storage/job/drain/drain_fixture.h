// A folder with a source and a target on the real file system, and drains between them.
#ifndef CAIRN_TESTS_STORAGE_JOB_DRAIN_DRAIN_FIXTURE_H_
#define CAIRN_TESTS_STORAGE_JOB_DRAIN_DRAIN_FIXTURE_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "storage/io/posix_disk.h"
#include "storage/job/drain/drain.h"
#include "tests/storage/job/drain/hooked_tree.h"
#include "tests/support/status_matchers.h"

namespace cairn::testing {

inline std::string Bytes(std::size_t count, char first = 'a') {
  std::string bytes(count, '\0');
  for (std::size_t at = 0; at < count; ++at) bytes[at] = static_cast<char>(first + (at * 7 + at / 4099) % 90);
  return bytes;
}

class DrainFixture : public ::testing::Test {
 protected:
  DrainFixture() {
    std::string folder = ::testing::TempDir() + "drain-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) std::abort();
    folder_ = std::filesystem::canonical(folder).string();
    from_ = folder_ + "/from";
    to_ = folder_ + "/to";
    std::filesystem::create_directory(from_);
    std::filesystem::create_directory(to_);
    options_.from = from_;
    options_.to = to_;
    options_.settle_ms = 0;  // what nobody has open for writing is complete
    options_.parallel = 2;
  }
  ~DrainFixture() override {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }

  void Put(const std::string& name, const std::string& bytes) const {
    const std::string path = from_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }
  static std::string ReadPath(const std::string& path) {
    std::ostringstream bytes;
    bytes << std::ifstream(path, std::ios::binary).rdbuf();
    return bytes.str();
  }
  std::string Own() const { return to_ + "/.cairn-drain-" + std::to_string(::geteuid()); }
  std::string At(const std::string& name) const { return ReadPath(to_ + "/" + name); }
  static bool Is(const std::string& path) { return std::filesystem::exists(std::filesystem::symlink_status(path)); }
  bool IsThere(const std::string& name) const { return Is(to_ + "/" + name); }

  // All files below, with their bytes, without the drain's own.
  static std::map<std::string, std::string> Files(const std::string& root) {
    std::map<std::string, std::string> files;
    for (auto entry = std::filesystem::recursive_directory_iterator(root);
         entry != std::filesystem::recursive_directory_iterator(); ++entry) {
      if (entry->path().filename().string().starts_with(".cairn-drain-")) entry.disable_recursion_pending();
      if (!entry->is_symlink() && entry->is_regular_file()) {
        files[std::filesystem::relative(entry->path(), root)] = ReadPath(entry->path());
      }
    }
    return files;
  }

  void Hook() {
    options_.wrap_source = [this](auto tree) { return HookTree(std::move(tree), source_hooks_); };
    options_.wrap_target = [this](auto tree) { return HookTree(std::move(tree), target_hooks_); };
  }
  absl::StatusOr<DrainReport> Run() {
    auto drain = Drain::Open(*disk_, options_);
    if (!drain.ok()) return drain.status();
    return (*drain)->Pass(stop_);
  }
  // Expects it to go well.
  DrainReport Drained() {
    auto report = Run();
    EXPECT_OK(report);
    return report.ok() ? *std::move(report) : DrainReport();
  }
  static std::string Why(const drain::ToldList& list, const std::string& path) {
    for (const drain::Told& told : list.list()) {
      if (told.path == path) return told.why;
    }
    return "";
  }

  std::string folder_, from_, to_;
  const std::unique_ptr<Disk> disk_ = MakePosixDisk();
  DrainOptions options_;
  TreeHooks source_hooks_, target_hooks_;
  std::atomic<bool> stop_{false};
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_STORAGE_JOB_DRAIN_DRAIN_FIXTURE_H_
