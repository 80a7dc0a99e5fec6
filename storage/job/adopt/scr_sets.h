// SCR's redundancy sets as the headers that are left describe them, and their payloads at work. Used by scr_recover.
#ifndef CAIRN_STORAGE_JOB_ADOPT_SCR_SETS_H_
#define CAIRN_STORAGE_JOB_ADOPT_SCR_SETS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "storage/file/redundancy/logical_file.h"
#include "storage/file/redundancy/payload.h"
#include "storage/format/scr/redset_records.h"
#include "storage/io/disk.h"
#include "storage/job/adopt/scr_cache.h"

namespace cairn {

// By set rank. What no header that is left knows is absent.
struct ScrSetMember {
  std::optional<Rank> rank;                           // in the job
  std::optional<std::vector<scr::RedsetFile>> files;  // in the order of the logical file
  const ScrHeader* header = nullptr;                  // its own: behind it is its payload
};

struct ScrSet {
  scr::SetDescriptor descriptor;  // of any member
  std::uint64_t chunk_bytes = 0;
  std::vector<ScrSetMember> members;

  std::string Name() const;  // "XOR set of ranks 0, 1", for messages
  // Whose files SCR itself has rebuilt from the set, as far as that shows: an XOR header has one member more then (SCR
  // specification, 10.8).
  std::vector<Rank> RebuiltByScr() const;
};

// The sets of one kind, SINGLE ones left out, by group. A rank is one member of one set. A header that contradicts
// those before it is left out with a warning, as if it were lost. What is returned points into `parts`.
std::map<std::uint32_t, ScrSet> MakeSets(const std::vector<const ScrPart*>& parts, scr::RedsetKind kind,
                                         std::uint32_t ranks, std::vector<std::string>* warnings);

// A set whose members' files are all known, with what of them is there.
class ScrSetWork {
 public:
  // REQUIRES: every member's files are known.
  ScrSetWork(Disk& disk, const ScrSet& set);

  // The member's files are here, in their order.
  void SetThere(std::uint32_t member, const std::vector<std::string>& paths);
  void SetLost(std::uint32_t member, bool payload_too);
  std::vector<Rank> Lost() const;  // the ranks of members that lack data or payload

  // kDataLoss: numbers that contradict each other, or payloads of another length.
  absl::Status Check() const;
  absl::StatusOr<std::optional<redundancy::Difference>> Verify() const { return redundancy::Verify(set_); }
  absl::StatusOr<std::optional<std::uint32_t>> FindDamaged() const { return redundancy::FindDamaged(set_); }
  // Of the member's files, in their order: was each byte, there or rebuilt, compared with something by Verify and
  // Rebuild? REQUIRES: Check().ok().
  std::vector<std::vector<bool>> Compared() const;
  // Makes the lost members' files under these paths, which must not exist yet.
  //   kDataLoss           too much is lost
  //   kResourceExhausted  no room, found out before anything is written, as far as the disk tells
  absl::StatusOr<std::optional<redundancy::Difference>> Rebuild(
      const std::map<std::uint32_t, std::vector<std::string>>& paths) const;

 private:
  std::vector<redundancy::Part> PartsOf(std::uint32_t member, const std::vector<std::string>& paths) const;

  Disk& disk_;
  const ScrSet& from_;
  redundancy::Set set_;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_ADOPT_SCR_SETS_H_
