// The arbiter that every run has without any service: its own folder on the prefix, <prefix>/.cairn. Races are decided
// by the file system (storage/io/create_once.h has the ways, by hard links mostly), and names come from the server
// (storage/io/fresh_list.h).
#ifndef CAIRN_STORAGE_PLACE_ARBITER_FOLDER_ARBITER_H_
#define CAIRN_STORAGE_PLACE_ARBITER_FOLDER_ARBITER_H_

#include <memory>
#include <string>

#include "storage/io/disk.h"
#include "storage/place/arbiter/arbiter.h"

namespace cairn {

// `disk` is borrowed. The folder must be there when it is asked.
std::unique_ptr<Arbiter> MakeFolderArbiter(Disk& disk, const std::string& prefix);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_ARBITER_FOLDER_ARBITER_H_
