// Does a mechanism that Cairn uses work here? Each probe tries it for real and cleans up behind itself.
#ifndef CAIRN_CLIENT_CLI_PROBES_H_
#define CAIRN_CLIENT_CLI_PROBES_H_

#include <string>

#include "daemon/config/config.h"
#include "proto/admin.pb.h"
#include "storage/io/disk.h"

namespace cairn::cli {

struct Finding {
  std::string name;
  bool works = false;
  bool needed = false;        // Cairn cannot do without it
  bool known = true;          // false: it could not be tried, or cannot be told; nothing is said of what happens then
  std::string detail;         // what was found; if it does not work: why not, and what happens instead
  std::string daemon = {};    // what the daemon says that it uses; empty: nothing
  std::string creation = {};  // of a prefix: how records are made there of which exactly one may be made
  // Of copies of a run's directory: "ext2/3/4", or a number; by what they are told from it, "inode" or "path".
  std::string file_system = {}, told_by = {};
};

Finding ProbeSealedMemory();  // memfd_create and seals
Finding ProbeHugePages();     // MADV_COLLAPSE on a memfd
Finding ProbeTouching();      // MADV_POPULATE_WRITE
Finding ProbeUring(bool daemon_lacks_it);
Finding ProbeMd5();
Finding ProbeCopy();             // which stores libcairn copies into images with
Finding ProbePinnedMemory();     // with RLIMIT_MEMLOCK
Finding ProbePeerCredentials();  // SO_PEERCRED
// In `directory`, or the nearest parent that is there:
Finding ProbeWritable(Disk& disk, const std::string& name,
                      const std::string& directory);            // write, sync, create once, rename
Finding ProbePrefix(Disk& disk, const std::string& directory);  // the same, and exclusive creation
Finding ProbeInodes(Disk& disk, const std::string& directory);  // a directory has one number on all nodes
// A folder that is redundant itself (redundant.path): there, writable, of which kind, and on another device than the
// cache and /. `apart`: else it is not used (redundant.apart).
Finding ProbeRedundant(Disk& disk, const std::string& directory, const std::string& cache, bool apart);
Finding ProbeDirectIo(Disk& disk, const std::string& name, const std::string& directory);
// Files of the cache, by applications that restore.
Finding ProbeHanding(Disk& disk, const std::string& directory);
// Of transfers. `measured`: a daemon measures this disk.
Finding ProbePriorities(Disk& disk, const std::string& name, const std::string& directory, bool measured);
Finding ProbeReserved(Disk& disk, const std::string& directory);  // blocks of files, before they are written
Finding ProbeShared(Disk& disk, const std::string& directory);    // extents of files that are the same
// What the daemon says of the transfers of its cache's disk; or, if none says anything, what is in the record that one
// has left in `cache`, if `settings` let a daemon use it, else why not.
Finding TellTransfers(const admin::CacheTransfers& told);
Finding FindTransfers(Disk& disk, const std::string& cache, const Config::Cache& settings);
Finding ProbePersistence(const std::string& directory);  // not a file system in memory

// Which kinds of file systems ProbeInodes knows, for people.
std::string FileSystemTable();

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_PROBES_H_
