#include "tests/storage/place/release_0_1_0.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string_view>

#include "storage/base/path.h"
#include "tests/support/status_matchers.h"

namespace cairn::testing {
namespace {

// Below the workspace, where tests run.
constexpr std::string_view kFixture = "tests/storage/place/release_0_1_0";

// Version control does not keep modes: these are the ones that release 0.1.0 gave them.
bool IsPrivate(const std::string& path) {
  return path.find("/.cairn") != std::string::npos || path.find("/cache/") != std::string::npos;
}

void PutFile(Disk& disk, const std::string& from, const std::string& to) {
  std::ifstream stream(from, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  const std::uint32_t mode = IsPrivate(to) ? 0600 : 0644;
  ASSERT_OK_AND_ASSIGN(const auto file, disk.Open(to, {.writable = true, .create = true, .mode = mode}));
  ASSERT_OK(file->WriteAt(0, std::as_bytes(std::span(bytes))));
  ASSERT_OK(file->Sync());
}

void PutTree(Disk& disk, const std::string& name, const std::string& to) {
  const std::filesystem::path from = std::filesystem::path(kFixture) / name;
  ASSERT_TRUE(std::filesystem::is_directory(from)) << from << ": run in the workspace";
  ASSERT_OK(MakeDirectories(disk, to));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(from)) {
    const std::string path = to + "/" + entry.path().lexically_relative(from).string();
    if (entry.is_directory()) {
      ASSERT_OK(MakeDirectories(disk, path, IsPrivate(path) ? 0700 : 0755));
    } else {
      PutFile(disk, entry.path().string(), path);
    }
  }
}

}  // namespace

void PutOldPrefix(Disk& disk, const std::string& to) {
  PutTree(disk, "prefix", to);
}

void PutOldCache(Disk& disk, const std::string& to) {
  PutTree(disk, "cache", to);
}

}  // namespace cairn::testing
