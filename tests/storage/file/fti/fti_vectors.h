// FTI's own executions among the vectors: what was in the folders, and how ranks, nodes and groups were.
#ifndef CAIRN_TESTS_STORAGE_FILE_FTI_FTI_VECTORS_H_
#define CAIRN_TESTS_STORAGE_FILE_FTI_FTI_VECTORS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::testing {

struct VectorFile {
  std::string name;
  std::string dir;   // below the folder in which the run was started; EXEC_ID is the execution
  std::string kind;  // "ckpt", "partner", "rs", "dcp"
  std::int32_t id = 0;
  int level = 0;
  std::uint32_t rank = 0;
  std::int64_t bytes_max = -1;  // maxFs
  std::string md5;
  std::string bytes;
};

struct VectorRun {
  std::uint32_t ranks = 0, node_size = 0, group_size = 0;
  bool heads = false;
  std::vector<VectorFile> files;

  // The file of that name in a folder of that level's checkpoint; a missing one fails the test.
  const VectorFile& Named(std::string_view name) const;
};

// nullopt: no vectors here (see VectorsPath).
std::optional<VectorRun> LoadRun(std::string_view scenario);

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_STORAGE_FILE_FTI_FTI_VECTORS_H_
