// What a node notes of a run's datasets beside its cache, in flush.cairn, for the daemon after this one: which are on
// the prefix, which were begun there, dropped, pinned, and which growing directories are there. Pure: a tree in, notes
// out, and back; CacheFolder reads and writes the file (storage/place/cache).
//
//   DATASET / <id> / PREFIX, PINNED, DROPPED, GAVE_WAY, FOREIGN, ID_TAKEN, DOUBTED, BEGUN, REJECTED, MARKED   flags
//                  / ORDINAL                                                                a number
//                  / GROWING / <name of a directory>
#ifndef CAIRN_STORAGE_PLACE_NODE_RECORD_H_
#define CAIRN_STORAGE_PLACE_NODE_RECORD_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "storage/base/ids.h"
#include "storage/format/kvtree/tree.h"

namespace cairn {

struct NodeNote {
  bool in_prefix = false;     // PREFIX: whole on the prefix
  bool pinned = false;        // PINNED: by the user
  bool dropped = false;       // DROPPED: not flushed by itself
  bool gave_way = false;      // GAVE_WAY: never goes to the prefix
  bool foreign = false;       // FOREIGN: of another run
  bool fenced = false;        // FENCED: a newer launch was made elsewhere before it counted
  bool anothers = false;      // ANOTHERS: not of this prefix
  bool id_taken = false;      // ID_TAKEN: SCR has given its id to another dataset
  bool doubted = false;       // DOUBTED: a newer one's files were about to replace its own on the prefix
  bool begun = false;         // BEGUN: on the prefix, and not known to be committed
  bool rejected = false;      // REJECTED: the application could not use it: no restart chooses it
  bool marked = false;        // MARKED: the prefix has been told that
  std::uint64_t ordinal = 0;  // of the policy that counts datasets; 0: not counted
  std::set<std::string> grown =
      {};  // directories that grow on the prefix: names below it, normalized (NormalizeFileName)
  friend bool operator==(const NodeNote&, const NodeNote&) = default;
};
using NodeNotes = std::map<DatasetId, NodeNote>;

// Takes what makes sense and passes over the rest: a key that is no number of a dataset, a name that leads out of the
// prefix. A flag or number that cannot be read counts as absent. The record only saves work, so it must never keep a
// daemon from starting.
NodeNotes DecodeNodeRecord(const kvtree::Tree& record);

// What is false, 0 or empty is left out. REQUIRES: ids of at most 18 digits, not 0.
kvtree::Tree EncodeNodeRecord(const NodeNotes& notes);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_NODE_RECORD_H_
