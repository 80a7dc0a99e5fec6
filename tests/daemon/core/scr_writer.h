// Datasets in a prefix as SCR leaves them.
#ifndef CAIRN_TESTS_DAEMON_CORE_SCR_WRITER_H_
#define CAIRN_TESTS_DAEMON_CORE_SCR_WRITER_H_

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "storage/base/ids.h"
#include "storage/base/path.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"

namespace cairn {

// A checkpoint whose ranks have these files, by their paths below the prefix; step_<id> is its name, and the index'
// CURRENT. What SCR had under that id before gives way.
inline void PutScr(Disk& disk, const std::string& prefix, DatasetId id,
                   const std::vector<std::vector<std::string>>& files, std::int64_t created_us = 1) {
  scr::IndexEntry entry;
  scr::Descriptor& descriptor = entry.descriptor;
  descriptor.id = descriptor.checkpoint_id.emplace(id);
  descriptor.name = fmt::format("step_{}", id);
  descriptor.checkpoint = true;
  descriptor.created_us = created_us;
  descriptor.complete = true;
  for (const auto& of_rank : files) {
    for (const std::string& name : of_rank) {
      const std::string bytes = fmt::format("dataset {} of {}: {}", id, created_us, name);
      const std::string path = prefix + "/" + name;
      ASSERT_TRUE(MakeDirectories(disk, ParentOf(path)).ok());
      ASSERT_TRUE(ReplaceFile(disk, path, bytes).ok());
      ++descriptor.files;
      descriptor.bytes += bytes.size();
    }
  }
  const std::string folder = fmt::format("{}/.scr/scr.dataset.{}", prefix, id);
  ASSERT_TRUE(MakeDirectories(disk, folder).ok());
  for (const auto& [suffix, tree] : scr::MakeRank2File(files)) {
    ASSERT_TRUE(ReplaceTree(disk, folder + "/rank2file" + suffix, tree).ok());
  }
  ASSERT_TRUE(ReplaceTree(disk, folder + "/summary.scr", scr::MakeSummary(descriptor)).ok());
  entry.complete = true;
  const std::string path = prefix + "/.scr/index.scr";
  const auto before = ReadTree(disk, path);
  kvtree::Tree index = before.ok() ? *before : kvtree::Tree();
  scr::PutIndexEntry(entry, index);
  scr::SetCurrent(descriptor.name, index);
  ASSERT_TRUE(ReplaceTree(disk, path, index).ok());
}

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_SCR_WRITER_H_
