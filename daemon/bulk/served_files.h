// The files that members of our runs may read here, and the answers to their questions. Thread-safe.
#ifndef CAIRN_DAEMON_BULK_SERVED_FILES_H_
#define CAIRN_DAEMON_BULK_SERVED_FILES_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "proto/bulk.pb.h"
#include "storage/base/ids.h"
#include "storage/io/disk.h"

namespace cairn {

class ServedFiles {
 public:
  // As BulkNet::Serve and Unserve.
  void Serve(const RunId& run, Disk& disk, const std::string& folder);
  void Unserve(const RunId& run);

  struct Served {
    bulk::Answer answer;
    std::size_t payload_bytes = 0;  // at the begin of the window
  };
  // Blocks on the disk. The request may come from anybody who is a member of `run`. `window`: kWindowBytesMax bytes, or
  // none for questions whose answers have no payload.
  //   in the answer  kNotFound: no such file, or another one by now; kInvalidArgument: names the field, or a symbolic
  //                  link is on the way; kUnavailable: the run is not served; what else the disk says
  Served Answer(const RunId& run, const bulk::Request& request, std::span<std::byte> window) const;
  static bool NeedsWindow(const bulk::Request& request) {
    return request.op() == bulk::Request::READ || request.op() == bulk::Request::LIST;
  }

 private:
  struct Place {
    Disk* disk;
    std::string folder;
  };

  mutable absl::Mutex mutex_;
  std::map<RunId, Place> places_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_BULK_SERVED_FILES_H_
