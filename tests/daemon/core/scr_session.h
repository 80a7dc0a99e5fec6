// A job of SCR's with one rank, as it works on a prefix and, if there is one, on a node's cache: which dataset it
// restarts from, and what it writes and deletes (SCR specification, sections 3 to 12; scheme SINGLE).
#ifndef CAIRN_TESTS_DAEMON_CORE_SCR_SESSION_H_
#define CAIRN_TESTS_DAEMON_CORE_SCR_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "storage/base/ids.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"

namespace cairn {

struct ScrPlace {
  Disk& prefix_disk;
  std::string prefix;
  Disk* cache_disk = nullptr;  // null: its cache is elsewhere, and gone afterwards
  std::string folder = {};     // <cache>/<user>/scr.<job>
  std::size_t cache_size = 1;
};

class ScrSession {
 public:
  explicit ScrSession(ScrPlace place) : place_(std::move(place)) {}

  // From the newest in the cache, else from the prefix by CURRENT, else by the highest number. None: there is nothing.
  std::optional<DatasetId> Restart();
  // The next checkpoint, named step_<step>, of one file, step_<step>.dat; its number.
  DatasetId Checkpoint(std::uint64_t step, const std::string& bytes, std::int64_t created_us, bool flush);
  const std::set<DatasetId>& deleted() const { return deleted_; }  // from the cache

 private:
  std::string Folder(DatasetId id) const;
  std::string Prefix(DatasetId id) const;
  kvtree::Tree Read(Disk& disk, const std::string& path) const;
  void Write(Disk& disk, const std::string& path, const kvtree::Tree& tree) const;
  std::set<DatasetId> Cached() const;
  bool IsEncoded(DatasetId id) const;
  void DeleteCached(DatasetId id);
  std::optional<DatasetId> FromCache();
  std::optional<DatasetId> FromPrefix();
  void Fetch(DatasetId id);
  void EnterCached(const scr::Descriptor& descriptor, const kvtree::Tree& as_read);
  void PutCached(DatasetId id, const std::vector<std::pair<std::string, std::string>>& files);
  void Flush(const scr::Descriptor& descriptor, const std::string& file, const std::string& bytes);

  const ScrPlace place_;
  DatasetId last_ = 0;  // the next number is one higher
  std::set<DatasetId> deleted_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_SCR_SESSION_H_
