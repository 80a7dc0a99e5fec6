// What stands behind a cairn_reader.
#ifndef CAIRN_CLIENT_READER_HANDLE_H_
#define CAIRN_CLIENT_READER_HANDLE_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "client/reader/cairn_reader.h"
#include "storage/file/bpdir/directory.h"

struct cairn_reader {
  explicit cairn_reader(std::unique_ptr<cairn::bpdir::Directory> opened) : directory(std::move(opened)) {}

  // Shared by all calls but a refresh.
  absl::Mutex mutex;
  const std::unique_ptr<cairn::bpdir::Directory> directory ABSL_PT_GUARDED_BY(mutex);
  // Files whose bytes may be looked at in place, though the directory has others now.
  std::vector<std::shared_ptr<const void>> left ABSL_GUARDED_BY(mutex);
  std::atomic<bool> shown_in_place = false;
};

namespace cairn::reader {

inline cairn_reader* MakeHandle(std::unique_ptr<bpdir::Directory> directory) {
  return new cairn_reader(std::move(directory));
}

}  // namespace cairn::reader

#endif  // CAIRN_CLIENT_READER_HANDLE_H_
