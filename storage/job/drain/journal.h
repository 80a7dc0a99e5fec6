// What a drain has brought to its target, so that the next one knows its own files there. A record is durable before
// the file that it speaks of gets its name: a name without a record is somebody else's, a record without its name is a
// file that never came. Thread-safety: none. Calls block.
//
// The file: a line of text, then records of u32 bytes, u32 CRC32C of what follows, and the record (journal.cc);
// little-endian. It is appended to. What follows a record that does not fit was never durable, and is cut off.
#ifndef CAIRN_STORAGE_JOB_DRAIN_JOURNAL_H_
#define CAIRN_STORAGE_JOB_DRAIN_JOURNAL_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "storage/io/tree.h"
#include "storage/job/drain/identity.h"

namespace cairn::drain {

struct Record {
  Identity source;           // as it was read
  Made there;                // what the target has of it; of a folder (its path ends in a slash), the inode alone
  bool ours = false;         // a drain has made that, and may replace it; else it was found, and was the same
  std::uint32_t crc32c = 0;  // of its bytes; of a file that was read in windows, of their CRCs
  // Not in the file: it was seen under its name, since this was opened.
  bool confirmed = false;
  // Of records before this one that were ours, the newest last: what is at the target if this one's file never got its
  // name.
  std::vector<Made> before = {};

  // Is `made` one of those that may be replaced?
  bool IsOurs(const Made& made) const {
    return (ours && made == there) || std::ranges::find(before, made) != before.end();
  }
};

class Journal {
 public:
  // Reads it, or makes it. `folder`: of `target`, which is borrowed.
  //   kFailedPrecondition  of another version
  static absl::StatusOr<std::unique_ptr<Journal>> Open(Tree& target, const std::string& folder);
  // As it is, without anything being changed; none: an empty one. Neither Write nor Sync after this.
  static absl::StatusOr<std::unique_ptr<Journal>> Look(Tree& target, const std::string& folder);

  const Record* Find(const std::string& path) const;  // null: none
  std::size_t size() const { return records_.size(); }
  // Known from now on; written by Write, durable after Sync, or after the target was synced as a whole.
  void Add(const std::string& path, const Record& record);
  void Confirm(const std::string& path);  // REQUIRES: it is known
  // What is under its name now, if anything, is not what was confirmed: it is looked at anew.
  void Doubt(const std::string& path);
  absl::Status Write();
  // Writes it anew, durably, if that makes it shorter by half: what was confirmed needs no earlier records. An error:
  // it may be that nothing can be added any more.
  absl::Status Shrink();
  absl::Status Sync() { return file_->Sync(); }

 private:
  Journal(Tree& target, std::string folder) : target_(target), folder_(std::move(folder)) {}
  absl::StatusOr<bool> Read();  // false: something behind the last record does not fit
  void Take(const std::string& path, Record record);
  absl::Status Rewrite();

  Tree& target_;
  const std::string folder_;
  std::unique_ptr<FileBelow> file_;
  std::uint64_t end_ = 0;
  std::uint64_t in_file_ = 0;  // records, those that were replaced with them
  std::string unwritten_;
  std::unordered_map<std::string, Record> records_;
};

}  // namespace cairn::drain

#endif  // CAIRN_STORAGE_JOB_DRAIN_JOURNAL_H_
