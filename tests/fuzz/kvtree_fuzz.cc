// Any bytes as a kvtree file: decoding answers with a status or with a tree that encodes and decodes to itself, and
// that every record can be read from.
//
// The CRC would turn nearly every input away. So the first byte chooses: even, the rest is the file as it is; odd, the
// rest is the packed tree of a file that is right otherwise.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "storage/base/check.h"
#include "storage/base/checksum.h"
#include "storage/kvtree/tree.h"
#include "storage/scr/records.h"

namespace cairn {
namespace {

std::string Big(std::uint64_t value, int bytes) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) text.push_back(static_cast<char>(value >> shift));
  return text;
}

std::string FileOf(std::string_view packed) {
  std::string file = Big(0x951fc3f5, 4) + Big(0x00010001, 4) + Big(24 + packed.size(), 8) + Big(1, 4);
  file += packed;
  return file + Big(Crc32(std::as_bytes(std::span(file))), 4);
}

// What a record is put as, it is got as: an entry that was read can be written and read again.
void ReadRecords(const kvtree::Tree& tree) {
  if (const auto filemap = scr::GetFilemap(tree); filemap.ok()) {
    CAIRN_CHECK(scr::GetFilemap(scr::ToTree(*filemap))->files.size() == filemap->files.size());
  }
  kvtree::Tree copy = tree;
  if (const auto entries = scr::GetCacheEntries(tree); entries.ok()) {
    for (const auto& [id, entry] : *entries) scr::PutCacheEntry(entry, copy);
    CAIRN_CHECK(scr::GetCacheEntries(copy)->size() == entries->size());
  }
  if (const auto entries = scr::GetFlushEntries(tree); entries.ok()) {
    for (const auto& [id, entry] : *entries) scr::PutFlushEntry(id, entry, copy);
    CAIRN_CHECK(scr::GetFlushEntries(copy)->size() == entries->size());
  }
  if (const auto index = scr::GetIndex(tree); index.ok()) {
    kvtree::Tree changed = tree;
    for (const auto& [id, entry] : index->datasets) scr::PutIndexEntry(entry, changed);
    CAIRN_CHECK(scr::GetIndex(changed)->datasets.size() == index->datasets.size());
    for (const auto& [id, entry] : index->datasets) scr::EraseIndexEntry(id, changed);
    CAIRN_CHECK(scr::GetIndex(changed)->datasets.empty());
  }
  if (const auto descriptor = scr::GetSummary(tree); descriptor.ok()) {
    CAIRN_CHECK(scr::GetSummary(scr::MakeSummary(*descriptor)).ok());
  }
  int loads = 0;
  scr::GetRank2File([&](const std::string&) -> absl::StatusOr<kvtree::Tree> {
    CAIRN_CHECK(++loads < 1'000'000);
    return tree;
  }).IgnoreError();  // a tree that is a part of itself is refused or read, but ends
}

void DecodeAndBack(std::string_view file) {
  std::uint64_t declared = 0;
  const auto tree = kvtree::Decode("input", file, &declared);
  if (!tree.ok()) return;
  CAIRN_CHECK(declared <= file.size());
  CAIRN_CHECK(kvtree::Encodable(*tree).ok());
  const auto again = kvtree::Decode("again", kvtree::Encode(*tree));
  CAIRN_CHECK(again.ok() && again->SameAs(*tree));
  CAIRN_CHECK(kvtree::Print(*again) == kvtree::Print(*tree));
  ReadRecords(*tree);
}

}  // namespace
}  // namespace cairn

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  cairn::DecodeAndBack(data[0] % 2 == 0 ? std::string(rest) : cairn::FileOf(rest));
  return 0;
}
