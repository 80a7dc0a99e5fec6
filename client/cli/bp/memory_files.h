// A BP5 directory that is not on disk: its metadata in memory, its data in files wherever they are.
#ifndef CAIRN_CLIENT_CLI_BP_MEMORY_FILES_H_
#define CAIRN_CLIENT_CLI_BP_MEMORY_FILES_H_

#include <map>
#include <memory>
#include <string>

#include "storage/file/bpdir/file_source.h"
#include "storage/io/disk.h"

namespace cairn::cli {

struct MemoryDirectory {
  std::string title;                        // for errors
  std::map<std::string, std::string> held;  // name to content: md.idx, md.0, mmd.0
  std::map<std::string, std::string> data;  // name to absolute path: data.<k>
};

// `disk` is borrowed.
std::unique_ptr<bpdir::FileSource> FilesOf(Disk& disk, std::shared_ptr<const MemoryDirectory> directory);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_BP_MEMORY_FILES_H_
