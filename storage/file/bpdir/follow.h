// Brings a BP5 directory that an application is writing to another disk, step by step, under its final names. What
// readers find there is consistent at every moment: a step that md.idx shows is whole. Source: BP5 specification,
// section 15.
//
// The order of a step: data files, mmd.0, md.0, then md.idx, each durable before the next. Files are only appended to,
// so that who has them open sees them grow. Where the writer has cut steps off, md.idx is cut first, durably, then the
// rest. The active flag is 1 until Finish or Close. Nothing is mapped. Calls block; not thread-safe.
#ifndef CAIRN_STORAGE_FILE_BPDIR_FOLLOW_H_
#define CAIRN_STORAGE_FILE_BPDIR_FOLLOW_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/file/bpdir/append.h"
#include "storage/file/bpdir/directory.h"

namespace cairn::bpdir {

struct Followed {
  std::uint32_t complete = 0;  // steps of the source, as last seen
  std::uint32_t flushed = 0;   // durable in the target
  std::uint64_t bytes = 0;     // written there
  bool more = false;           // the source has changed while the last Step was at work: another is worth it at once
};

class Follower {
 public:
  // The target's place is this one's alone: what it finds there under the directory's names (others' files) is removed
  // by the first Step that has something to bring.
  Follower(const Ends& ends, Allowance allowance) : ends_(ends), allowance_(std::move(allowance)) {}

  // Brings the steps that are complete when it is called, and not what the writer adds meanwhile, so that it ends
  // however fast that is; followed().more tells of those. No md.idx yet: OK. After any error it may be called again and
  // goes on; the target is as consistent as ever.
  //   kAborted    someone else has put files under these names since: nothing of theirs is touched
  //   kCancelled  the allowance says stop
  absl::Status Step();
  const Followed& followed() const { return followed_; }

 private:
  struct Sent {
    std::uint64_t bytes = 0;  // durable, and equal to the source's
    bool made = false;
    std::uint64_t inode = 0;
  };
  struct Appended {
    std::string name;
    std::unique_ptr<File> file;
    std::uint64_t end = 0;
  };

  const bp5::Metadata& source() const { return directory_->metadata(); }
  absl::StatusOr<bool> LookAtSource();  // false: there is nothing yet
  absl::StatusOr<bool> IsLastTheSame();
  absl::Status RememberLast();
  absl::Status CutToCommon();
  absl::StatusOr<std::uint64_t> Common(const std::string& name);
  absl::StatusOr<std::uint32_t> GroupEnd(std::uint32_t high);
  absl::StatusOr<bool> Fits(std::uint32_t end, std::uint64_t bytes_max);
  absl::Status Bring(std::uint32_t end);
  absl::StatusOr<std::unique_ptr<File>> OpenTarget(const std::string& name);
  absl::Status Append(const std::string& name, std::uint64_t end, std::vector<Appended>* appended);
  absl::Status SyncAll(std::vector<Appended>& appended);
  absl::StatusOr<std::string> ReadSource(const std::string& name, std::uint64_t begin, std::uint64_t end);
  absl::Status AppendRecords(const std::string& name, const std::string& records, std::size_t length_at);
  absl::Status AppendIndex(std::uint64_t end);
  absl::Status MakeIndex(const std::string& header);
  absl::Status RemoveIndex();
  static absl::Status IsOthers(const std::string& path);

  const Ends ends_;
  const Allowance allowance_;
  std::unique_ptr<Directory> directory_;
  std::string last_;  // of md.0: the end of the last step that was brought
  std::uint64_t last_begin_ = 0;
  bool placed_ = false;
  bool cut_ = false;       // the source was truncated, and the target is not yet
  bool made_any_ = false;  // names that are not durable
  std::map<std::string, Sent> sent_;
  Followed followed_;
};

// What a directory needs to show its first `steps` steps, by file name; md.idx with its header.
absl::StatusOr<std::map<std::string, std::uint64_t>> NeedOf(const bp5::Metadata& metadata, std::uint32_t steps);

// So many steps have all their data there.
absl::StatusOr<std::uint32_t> StepsWithData(Disk& disk, const std::string& directory, const bp5::Metadata& metadata);

// A directory that nobody brings steps to any more is made whole by itself: what lies behind the last step that is
// there wholly goes, md.idx first, then the active flag is cleared. Without any step nothing is left of it.
absl::Status Close(Disk& disk, const std::string& directory);

// The rest of a directory whose writer has ended, against its catalogue: what is there and right is kept, the rest is
// appended; where bytes differ md.idx first gives up the steps that have them. md.idx comes last, with its active flag.
// Then modes and times are those of the catalogue. `files`: by their names in the directory, which has no others of
// its kind afterwards.
//   kDataLoss  the source differs from its catalogue in the file that `damaged` names
absl::Status Finish(const Ends& ends, const std::map<std::string, const catalogue::FileEntry*>& files,
                    const Allowance& allowance, std::string* damaged);

}  // namespace cairn::bpdir

#endif  // CAIRN_STORAGE_FILE_BPDIR_FOLLOW_H_
