// What a node says of its datasets in SCR's flush file, flush.scr: whole in the cache (CACHE), on the way to the prefix
// (FLUSHING), committed there (PFS). SCR specification, 7.1 and 12.4. Whoever writes, writes the latest that is known
// of all of them, so that nothing older ever replaces it. Thread-safe.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_FLUSH_FILE_H_
#define CAIRN_STORAGE_PLACE_PREFIX_FLUSH_FILE_H_

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/synchronization/mutex.h>

#include <map>
#include <set>
#include <string>

#include "storage/base/ids.h"
#include "storage/format/scr/records.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

class FlushFile {
 public:
  enum class Place { kCache, kFlushing, kCacheAndPrefix };

  // `node`: tells this node's entries from others', for good.
  explicit FlushFile(std::string node) : node_(std::move(node)) {}

  // What is so now; no I/O. The descriptor needs id, name and flags.
  void Put(const scr::Descriptor& descriptor, Place place);
  // Of all datasets but these nothing is said any more: they have left the cache.
  void KeepOnly(const std::set<DatasetId>& cached);
  bool Says(DatasetId id, Place place) const;
  // Is there something that Write would write?
  bool stale() const;

  // Blocks. The first time entries of this node that are not known here go (12.5, step 5). After an error all of it is
  // still to be written.
  absl::Status Write(Prefix& prefix) ABSL_LOCKS_EXCLUDED(writing_, mutex_);

 private:
  struct Entry {
    scr::Descriptor descriptor;
    Place place = Place::kCache;
  };

  const std::string node_;
  absl::Mutex writing_ ABSL_ACQUIRED_BEFORE(mutex_);  // held over the I/O
  mutable absl::Mutex mutex_;
  std::map<DatasetId, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::set<DatasetId> changed_ ABSL_GUARDED_BY(mutex_);  // not written yet
  bool mended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_FLUSH_FILE_H_
