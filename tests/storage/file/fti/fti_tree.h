// An FTI execution's folders on a disk of a test's own.
#ifndef CAIRN_TESTS_STORAGE_FILE_FTI_FTI_TREE_H_
#define CAIRN_TESTS_STORAGE_FILE_FTI_FTI_TREE_H_

#include <string>
#include <string_view>

#include "storage/io/disk.h"
#include "tests/storage/file/fti/fti_vectors.h"

namespace cairn::testing {

inline constexpr std::string_view kExecution = "30294f19-fe49-4539-8008-39da931017ac";

// Makes the folders of `path`, too. Replaces.
void PutFile(Disk& disk, const std::string& path, std::string_view bytes);
std::string GetFile(Disk& disk, const std::string& path);

// Where a file of a run lies below `root`.
std::string PlaceOf(const std::string& root, const VectorFile& file);

// All files of the run below `root`; of several states of a file the last.
void PutRun(Disk& disk, const std::string& root, const VectorRun& run);
// `root`/config.fti and Meta/<execution>/Topology.fti, as FTI has them.
void PutConfig(Disk& disk, const std::string& root, const VectorRun& run);
void PutTopology(Disk& disk, const std::string& root, const VectorRun& run);

// The MD5 of a file's bytes, in hexadecimal digits.
std::string Md5Of(Disk& disk, const std::string& path);

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_STORAGE_FILE_FTI_FTI_TREE_H_
