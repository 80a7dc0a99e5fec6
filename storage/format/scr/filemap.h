// Which files of a rank the cache holds, with their meta data. SCR specification, sections 3 and 13. Pure: what changes
// a filemap's tree leaves everything else in it as it is, known or not.
#ifndef CAIRN_STORAGE_FORMAT_SCR_FILEMAP_H_
#define CAIRN_STORAGE_FORMAT_SCR_FILEMAP_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/descriptor.h"
#include "storage/format/scr/meta.h"

namespace cairn::scr {

// Absolute path in the cache -> META.
struct Filemap {
  std::map<std::string, Meta> files;
};

kvtree::Tree ToTree(const Filemap& filemap);

// --- One file ---

// Enters it, or changes its META. FILE, of the older naming, is the path's last component.
void PutFile(std::string_view path, const Meta& meta, kvtree::Tree& filemap);

// Its entry, with all that is below it; the one that `to` has goes. false: `from` has none. REQUIRES: two filemaps.
bool CopyFile(std::string_view path, const kvtree::Tree& from, kvtree::Tree& to);

// false: was not there. The last one takes FILE with it: a rank without files has an empty filemap.
bool EraseFile(std::string_view path, kvtree::Tree& filemap);

// --- Whole filemaps ---

// Copies every file of `from`, and of its other keys those that `into` lacks. REQUIRES: two filemaps.
void MergeFilemap(const kvtree::Tree& from, kvtree::Tree& into);

// EXPECT, of the older versions: how many files the rank has once it is complete, so that one whose entry was lost is
// missed. All below FILE count, of any TYPE.
void PutExpectedFiles(std::uint64_t files, kvtree::Tree& filemap);
//   kNotFound  not said
//   kDataLoss  no such number or out of range
absl::StatusOr<std::uint64_t> GetExpectedFiles(const kvtree::Tree& filemap);
std::uint64_t CountFiles(const kvtree::Tree& filemap);

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

#endif  // CAIRN_STORAGE_FORMAT_SCR_FILEMAP_H_
