// What stands behind a cairn_reader.
#ifndef CAIRN_CLIENT_READER_HANDLE_H_
#define CAIRN_CLIENT_READER_HANDLE_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/reader/cairn_reader.h"
#include "storage/base/status.h"
#include "storage/file/bpdir/directory.h"

struct cairn_reader {
  cairn_reader(std::unique_ptr<cairn::bpdir::Directory> opened, std::vector<std::string> of_opening)
      : directory(std::move(opened)), notes_of_opening(std::move(of_opening)) {
    absl::MutexLock lock(&mutex);
    Note();
  }
  // Gathers the notes anew.
  void Note() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    notes = notes_of_opening;
    if (!directory->ending().ok()) notes.emplace_back(cairn::MessageOf(directory->ending()));
    for (std::string& note : directory->notes()) notes.push_back(std::move(note));
  }

  // Shared by all calls but a refresh.
  absl::Mutex mutex;
  const std::unique_ptr<cairn::bpdir::Directory> directory ABSL_PT_GUARDED_BY(mutex);
  const std::vector<std::string> notes_of_opening;
  std::vector<std::string> notes ABSL_GUARDED_BY(mutex);  // these, and those of the directory
  // Files whose bytes may be looked at in place, though the directory has others now.
  std::vector<std::shared_ptr<const void>> left ABSL_GUARDED_BY(mutex);
  std::atomic<bool> shown_in_place = false;
};

namespace cairn::reader {

inline cairn_reader* MakeHandle(std::unique_ptr<bpdir::Directory> directory, std::vector<std::string> notes = {}) {
  return new cairn_reader(std::move(directory), std::move(notes));
}

}  // namespace cairn::reader

#endif  // CAIRN_CLIENT_READER_HANDLE_H_
