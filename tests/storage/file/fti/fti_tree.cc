#include "tests/storage/file/fti/fti_tree.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>

#include "storage/base/checksum.h"
#include "storage/base/path.h"
#include "tests/support/status_matchers.h"

namespace cairn::testing {

void PutFile(Disk& disk, const std::string& path, std::string_view bytes) {
  ASSERT_OK(MakeDirectories(disk, ParentOf(path)));
  ASSERT_OK_AND_ASSIGN(const auto file, disk.Open(path, {.writable = true, .create = true}));
  ASSERT_OK(file->WriteAt(0, std::as_bytes(std::span(bytes))));
}

std::string GetFile(Disk& disk, const std::string& path) {
  const absl::StatusOr<std::string> bytes = ReadWhole(disk, path, 1 << 30);
  EXPECT_OK(bytes);
  return bytes.ok() ? *bytes : "";
}

std::string PlaceOf(const std::string& root, const VectorFile& file) {
  std::string dir = file.dir;
  dir.replace(dir.find("EXEC_ID"), 7, kExecution);
  return root + "/" + dir + "/" + file.name;
}

void PutRun(Disk& disk, const std::string& root, const VectorRun& run) {
  for (const VectorFile& file : run.files) PutFile(disk, PlaceOf(root, file), file.bytes);
}

void PutConfig(Disk& disk, const std::string& root, const VectorRun& run) {
  PutFile(disk, root + "/config.fti",
          fmt::format("\n[Basic]\nHead = {}\nnode_size = {}\ngroup_size = {} ; nodes\nckpt_io = 3\n\n"
                      "[restart]\nfailure = 1\nexec_id = {}\n",
                      run.heads ? 1 : 0, run.node_size, run.group_size, kExecution));
}

void PutTopology(Disk& disk, const std::string& root, const VectorRun& run) {
  std::string text = "\n[topology]\n";
  for (std::uint32_t node = 0; node < run.ranks / run.node_size; ++node) {
    text += fmt::format("{:<30} = node{}\n", node, node);
  }
  PutFile(disk, fmt::format("{}/Meta/{}/Topology.fti", root, kExecution), text);
}

std::string Md5Of(Disk& disk, const std::string& path) {
  const std::string bytes = GetFile(disk, path);
  return HexOf(Md5(std::as_bytes(std::span(bytes))));
}

}  // namespace cairn::testing
