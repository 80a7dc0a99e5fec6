#include "storage/format/scr/filemap.h"

#include <string>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/format/scr/fields.h"

namespace cairn::scr {
namespace {

std::string BaseOf(std::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));  // npos + 1 is 0
}

// The entry of one file goes whole from map to map: keys of the one that was there would contradict the other's.
void CopyEntry(const std::string& path, const kvtree::Tree& entry, kvtree::Tree& to) {
  to.At("FILE").At(path) = entry;
}

}  // namespace

void PutFile(std::string_view path, const Meta& meta, kvtree::Tree& filemap) {
  kvtree::Tree& tree = filemap.At("FILE").At(path).At("META");
  PutMeta(meta, tree);
  meta::Set(meta::kFile, BaseOf(path), tree);
}

bool CopyFile(std::string_view path, const kvtree::Tree& from, kvtree::Tree& to) {
  CAIRN_CHECK(&from != &to);
  const kvtree::Tree* const entry = from.FindPath({"FILE", path});
  if (entry == nullptr) return false;
  CopyEntry(std::string(path), *entry, to);
  return true;
}

bool EraseFile(std::string_view path, kvtree::Tree& filemap) {
  kvtree::Tree* const files = filemap.Find("FILE");
  if (files == nullptr || !files->Erase(path)) return false;
  if (files->empty()) filemap.Erase("FILE");
  return true;
}

void MergeFilemap(const kvtree::Tree& from, kvtree::Tree& into) {
  CAIRN_CHECK(&from != &into);
  for (const auto& [key, child] : from.elements()) {
    if (key != "FILE" && into.Find(key) == nullptr) into.At(key) = child;
  }
  const kvtree::Tree* const files = from.Find("FILE");
  if (files == nullptr) return;
  for (const auto& [path, entry] : files->elements()) CopyEntry(path, entry, into);
}

void PutExpectedFiles(std::uint64_t files, kvtree::Tree& filemap) {
  filemap.Set("EXPECT", files);
}

absl::StatusOr<std::uint64_t> GetExpectedFiles(const kvtree::Tree& filemap) {
  std::optional<std::uint64_t> files;
  if (absl::Status status = TakeUpTo(kIntMax, filemap, "EXPECT", files); !status.ok()) {
    return Annotate(status, "filemap");
  }
  if (!files) return NotFound("filemap: no EXPECT");
  return *files;
}

std::uint64_t CountFiles(const kvtree::Tree& filemap) {
  const kvtree::Tree* const files = filemap.Find("FILE");
  return files != nullptr ? files->size() : 0;
}

kvtree::Tree ToTree(const Filemap& filemap) {
  kvtree::Tree tree;
  for (const auto& [path, meta] : filemap.files) PutFile(path, meta, tree);
  return tree;
}

absl::StatusOr<Filemap> GetFilemap(const kvtree::Tree& tree) {
  Filemap filemap;
  const kvtree::Tree* files = tree.Find("FILE");
  if (files == nullptr) return filemap;
  for (const auto& [path, entry] : files->elements()) {
    if (!IsHarmlessAbsolute(path)) return DataLoss("filemap: file {} is not absolute or leads upwards", Quoted(path));
    const kvtree::Tree* found = entry.Find("META");
    if (found != nullptr && found->Get("TYPE").value_or("FULL") != "FULL") continue;
    absl::StatusOr<Meta> meta = found != nullptr ? GetMeta(*found) : Meta();
    if (!meta.ok()) return Annotate(meta.status(), fmt::format("filemap: file {}", Quoted(path)));
    filemap.files.emplace(path, *std::move(meta));
  }
  return filemap;
}

void PutFilemapDescriptor(const Descriptor& descriptor, kvtree::Tree& filemap) {
  PutDescriptor(descriptor, filemap.At("DSETDESC"));
}

absl::StatusOr<Descriptor> GetFilemapDescriptor(const kvtree::Tree& filemap) {
  const kvtree::Tree* found = filemap.Find("DSETDESC");
  if (found == nullptr || found->empty()) return NotFound("filemap: no DSETDESC");
  absl::StatusOr<Descriptor> descriptor = GetDescriptor(*found);
  if (!descriptor.ok()) return Annotate(descriptor.status(), "filemap: DSETDESC");
  return descriptor;
}

}  // namespace cairn::scr
