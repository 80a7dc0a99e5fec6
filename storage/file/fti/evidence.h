// Do the copies and code files of levels 2 and 3 fit a topology? Used by storage/file/fti/ only. Calls block on disk.
#ifndef CAIRN_STORAGE_FILE_FTI_EVIDENCE_H_
#define CAIRN_STORAGE_FILE_FTI_EVIDENCE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "storage/file/fti/execution.h"
#include "storage/io/disk.h"

namespace cairn::fti {

// Remembers what it read, in bounded memory, so that many topologies can be asked about.
class Evidence {
 public:
  enum class Answer {
    kNone,         // nothing can be said
    kFits,         // some copies are those of their left neighbours
    kProves,       // all of them are, or code files fit their groups
    kContradicts,  // something does not fit
  };

  Evidence(Disk& disk, const std::vector<Checkpoint>& checkpoints) : disk_(disk), checkpoints_(checkpoints) {}

  // The strongest that any checkpoint says, in the order above. Of many checkpoints of levels 2 and 3, copies and
  // groups the first ones are looked at.
  Answer Ask(const Topology& topology);

 private:
  // What is known of a file; damaged ones are not looked at.
  struct Sample {
    std::uint64_t shard_bytes = 0;  // level 3: maxFs
    std::string identity;           // of a checkpoint file: its record's hash and length
    std::vector<std::byte> head;    // level 3: the first bytes as those of a shard
  };
  const std::optional<Sample>& SampleOf(const std::string& path, bool is_code, bool want_head);
  std::optional<Sample> ReadSample(const std::string& path, bool is_code, bool want_head);
  Answer AskCopies(const Topology& topology, const Checkpoint& checkpoint);
  Answer AskCodes(const Topology& topology, const Checkpoint& checkpoint);
  Answer AskGroup(const Checkpoint& checkpoint, const std::vector<std::uint32_t>& group);

  Disk& disk_;
  const std::vector<Checkpoint>& checkpoints_;
  std::map<std::string, std::optional<Sample>> samples_;
};

}  // namespace cairn::fti

#endif  // CAIRN_STORAGE_FILE_FTI_EVIDENCE_H_
