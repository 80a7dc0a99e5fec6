// What processes do to a prefix that they share, from their beginning to their end, by Cairn's real code; and what is
// there before.
#ifndef CAIRN_TESTS_STORAGE_PLACE_PREFIX_FENCE_ACTORS_H_
#define CAIRN_TESTS_STORAGE_PLACE_PREFIX_FENCE_ACTORS_H_

#include <functional>
#include <string>

#include "storage/base/ids.h"
#include "tests/storage/place/prefix/fence_world.h"

namespace cairn::fenced {

inline constexpr char kOutputName[] = "out.dat";

// What a process does, from its beginning to its end.
struct Deed {
  std::string name;
  bool opened = false;  // its prefix has been opened before
  std::function<void(World& world, Node& node)> act;
  bool cold = false;  // its client remembers nothing
};

Deed Opens();                      // makes the next launch and chooses
Deed OpensAfter(LaunchId after);   // the same, if `after` is the newest
Deed OpensRun(bool cold = false);  // finds out which run it is, or makes it
Deed ReservesIds();
Deed Commits(DatasetId id, LaunchId under);    // a checkpoint, from the beginning of its flush
Deed Removes(DatasetId id, LaunchId under);    // by policy; 0: by the user
Deed Withdraws(DatasetId by, LaunchId under);  // what has kOutputName gives way to dataset `by`
Deed Reads();                                  // at a node that has been reading before
Deed ReadsOnly();                              // may not write; a client that remembers nothing

Image FirstLaunch();    // kOld and kOutput are committed under launch 1
Image BegunDataset();   // besides, the folder of kNew's records is there, without a commit
Image ThirdLaunch();    // FirstLaunch, and launches 2 and 3 were made
Image FencedDataset();  // besides, kNew is there, fenced under launch 1
Image CopiedRun();      // FirstLaunch, copied by `cp -a`

}  // namespace cairn::fenced

#endif  // CAIRN_TESTS_STORAGE_PLACE_PREFIX_FENCE_ACTORS_H_
