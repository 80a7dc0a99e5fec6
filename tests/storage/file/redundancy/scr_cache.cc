#include "tests/storage/file/redundancy/scr_cache.h"

#include "storage/base/path.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <span>

#include "tests/storage/place/prefix/scr_data.h"
#include "tests/support/status_matchers.h"
#include "tests/support/vectors.h"

namespace cairn::testing {

bool PutScenario(Disk& disk, std::string_view scenario, std::string_view sub, const std::string& to) {
  const auto folder = VectorsPath(fmt::format("scr/{}", scenario));
  if (!folder) return false;
  const std::filesystem::path from = *folder + "/" + std::string(sub);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(from)) {
    if (!entry.is_regular_file()) continue;
    const std::string path = to + "/" + entry.path().lexically_relative(from).string();
    PutBytes(disk, path, ReadVector(entry.path().string()));
  }
  return true;
}

std::byte ScrByteOf(std::string_view dataset, std::string_view file, std::uint64_t at) {
  unsigned rank = 0, index = 0;
  const std::string name(file);
  if (std::sscanf(name.c_str(), "rank_%u.ckpt", &rank) != 1 &&
      std::sscanf(name.c_str(), "extra_%u_%u.dat", &rank, &index) != 2) {
    ADD_FAILURE() << name << " is none of the vectors' files";
  }
  return static_cast<std::byte>(ScrByte(dataset, rank, index, at));
}

std::vector<std::string> FilesBelow(Disk& disk, const std::string& path) {
  std::vector<std::string> files;
  const auto names = disk.List(path);
  if (!names.ok()) return files;
  for (const std::string& name : *names) {
    const std::string child = path + "/" + name;
    const auto info = disk.Info(child);
    if (!info.ok()) continue;
    if (!info->is_directory()) {
      files.push_back(child);
      continue;
    }
    const std::vector<std::string> below = FilesBelow(disk, child);
    files.insert(files.end(), below.begin(), below.end());
  }
  return files;
}

void PutBytes(Disk& disk, const std::string& path, std::string_view bytes) {
  ASSERT_OK(MakeDirectories(disk, ParentOf(path)));
  ASSERT_OK_AND_ASSIGN(const auto file, disk.Open(path, {.writable = true, .create = true}));
  ASSERT_OK(file->WriteAt(0, std::as_bytes(std::span(bytes))));
}

std::string GetBytes(Disk& disk, const std::string& path) {
  const auto bytes = ReadWhole(disk, path, 1 << 30);
  EXPECT_OK(bytes);
  return bytes.ok() ? *bytes : "";
}

}  // namespace cairn::testing
