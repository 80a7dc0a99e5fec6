// A BP5 directory that is nowhere on disk: its metadata in memory, its data in files wherever they are.
#ifndef CAIRN_STORAGE_FILE_BPDIR_MEMORY_SOURCE_H_
#define CAIRN_STORAGE_FILE_BPDIR_MEMORY_SOURCE_H_

#include <map>
#include <memory>
#include <string>

#include "storage/file/bpdir/file_source.h"

namespace cairn::bpdir {

struct MemoryDirectory {
  std::string title;                        // for errors
  std::map<std::string, std::string> held;  // name to content: md.idx, md.0, mmd.0
  std::map<std::string, std::string> data;  // name to the file's name in `below`: data.<k>
};

// What is held stays where it is as long as `directory`; data is read from `below` (or shown in place, if it maps).
std::unique_ptr<FileSource> FilesInMemory(std::shared_ptr<const MemoryDirectory> directory,
                                          std::unique_ptr<FileSource> below);

}  // namespace cairn::bpdir

#endif  // CAIRN_STORAGE_FILE_BPDIR_MEMORY_SOURCE_H_
