// What a drain tells of itself.
#ifndef CAIRN_STORAGE_JOB_DRAIN_REPORT_H_
#define CAIRN_STORAGE_JOB_DRAIN_REPORT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

namespace drain {

struct Told {
  std::string path;  // relative to the folder that is drained; may have any bytes but 0
  std::string why;
};

// Bounded, however much there is to tell.
class ToldList {
 public:
  static constexpr std::size_t kKept = 10'000;
  void Add(std::string path, std::string why) {
    if (list_.size() < kKept) list_.push_back({.path = std::move(path), .why = std::move(why)});
    ++count_;
  }
  std::uint64_t count() const { return count_; }
  const std::vector<Told>& list() const { return list_; }

 private:
  std::uint64_t count_ = 0;
  std::vector<Told> list_;
};

}  // namespace drain

struct DrainReport {
  std::uint64_t files = 0, bytes = 0;              // brought now: committed, and read back unless that was switched off
  std::uint64_t there_files = 0, there_bytes = 0;  // that a drain before has brought, or that are the same there
  std::uint64_t symlinks = 0, hard_links = 0, folders = 0;  // made now; hard links: further names
  std::uint64_t deleted = 0;                                // of the source
  std::uint64_t former = 0;  // files of FTI's checkpoints, removed at the target: newer ones have taken their place
  drain::ToldList waiting;   // not complete, or changed while it was read: nothing of it is there
  drain::ToldList failed;    // cannot be read or written, or the target has another file of this name
  drain::ToldList damaged;   // what was read back differs from what was written, twice
  drain::ToldList left_out;  // no file, folder or link
  drain::ToldList outward;   // links that lead out: copied as links, never followed
  std::uint64_t busy = 0;    // another pass may bring or delete them soon, though none has to settle
  std::uint64_t gone = 0;    // vanished between the listing and the copy
  std::uint64_t links_copied = 0;        // further names that could not be hard links, and are files of their own
  std::uint64_t attributes_lost = 0;     // files whose owner or extended attributes could not be kept
  std::uint64_t read_through_cache = 0;  // files that were not read back past the page cache: the target cannot
  bool stopped = false;                  // before all that was complete had come: told to, or ...
  bool full = false;                     // ... the target has no room
  std::string stopped_why;
  std::uint64_t milliseconds = 0;

  bool complete() const {
    return waiting.count() == 0 && failed.count() == 0 && damaged.count() == 0 && left_out.count() == 0 && !stopped;
  }
};

// How far it is. Other threads read it, number by number: two of them may be of two moments.
struct DrainProgress {
  // Of the pass under way, or of the last one.
  std::atomic<std::uint64_t> files{0}, files_all{0};
  std::atomic<std::uint64_t> bytes{0}, bytes_all{0};
  std::atomic<bool> waiting{false};  // for files to settle
  std::atomic<bool> open{false};     // a drain tells here
  // SteadyNow since its epoch.
  std::atomic<std::int64_t> began_ns{0};     // the pass; 0: none is under way
  std::atomic<std::int64_t> bringing_ns{0};  // it knew what it has to bring; 0: it still looks, or there is nothing
  // What the last look has found that can still come: it waits, or the pass has not got so far.
  std::atomic<std::uint64_t> left_files{0}, left_bytes{0};
  std::atomic<bool> settling{false};  // some of that only has to stay as it is for a while
  // By all drains that have told here: files and links that have got their names, and what left the source.
  std::atomic<std::uint64_t> brought_files{0}, brought_bytes{0}, deleted{0};
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_DRAIN_REPORT_H_
