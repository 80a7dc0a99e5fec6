// Which files of a rank the cache holds, with their meta data. SCR specification, sections 3, 4 and 13.
#ifndef CAIRN_STORAGE_SCR_FILEMAP_H_
#define CAIRN_STORAGE_SCR_FILEMAP_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "storage/base/ids.h"
#include "storage/kvtree/tree.h"
#include "storage/scr/descriptor.h"

namespace cairn::scr {

// META of one file. Strings: empty is absent.
struct Meta {
  std::string original;   // ORIG, as the application passed it; not checked
  std::string directory;  // PATH: in the prefix
  std::string name;       // NAME: the last component
  std::uint32_t ranks = 0;
  bool complete = false;
  std::uint64_t bytes = 0;
  std::uint32_t mode = 0;
  std::uint32_t uid = 0, gid = 0;
  timespec atime{}, mtime{}, ctime{};
  std::optional<std::uint32_t> crc32;
  std::optional<DatasetId> dataset;  // CKPT
};

// Absolute path in the cache -> META.
struct Filemap {
  std::map<std::string, Meta> files;
};

// Writes META under both namings: SCR 3.1's, and ORIGPATH, ORIGNAME and TYPE of the older ones beside them, which 3.1
// ignores. Keys of absent fields are removed, unknown ones stay.
void PutMeta(const Meta& meta, kvtree::Tree& tree);

// SIZE, MODE, UID, GID and the times: what a redundancy header keeps of a file, too.
void PutStat(const Meta& meta, kvtree::Tree& tree);

// The same, read: absent ones keep what `meta` has. kDataLoss: no such number, or out of range.
absl::Status TakeStat(const kvtree::Tree& tree, Meta& meta);

// Absent fields keep their defaults; ORIGPATH and ORIGNAME serve where PATH and NAME are missing.
//   kDataLoss  a field is no such number or out of range, PATH is not absolute or leads upwards, NAME is no base name
absl::StatusOr<Meta> GetMeta(const kvtree::Tree& tree);

kvtree::Tree ToTree(const Filemap& filemap);

// Enters one file, or changes its META, and leaves everything else of `filemap` as it is.
void PutFile(std::string_view path, const Meta& meta, kvtree::Tree& filemap);

// Files whose TYPE is not FULL are redundancy data of older versions and left out.
//   kDataLoss  a path is not absolute or leads upwards, or META is bad; the message names the file. That a path lies in
//              a store or the prefix is for the caller to check, before it opens or deletes anything.
absl::StatusOr<Filemap> GetFilemap(const kvtree::Tree& tree);

// DSETDESC: the descriptor of the filemap's dataset, kept here, too, so that a lost cache index can be made again. SCR
// ignores it. The whole descriptor is written; unknown keys stay.
void PutFilemapDescriptor(const Descriptor& descriptor, kvtree::Tree& filemap);

//   kNotFound  the filemap has none
//   kDataLoss  a field is no such number or out of range
absl::StatusOr<Descriptor> GetFilemapDescriptor(const kvtree::Tree& filemap);

}  // namespace cairn::scr

#endif  // CAIRN_STORAGE_SCR_FILEMAP_H_
