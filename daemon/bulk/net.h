// Bulk bytes between the daemons of one run on different nodes: the files that another daemon has in its cache of the
// run, as a Disk that can only be read; and this node's own, for the others. The real one is bulk.h; a test has disks
// of its own.
//
// Thread-safe; no call blocks.
#ifndef CAIRN_DAEMON_BULK_NET_H_
#define CAIRN_DAEMON_BULK_NET_H_

#include <memory>
#include <string>

#include "storage/base/ids.h"
#include "storage/io/disk.h"

namespace cairn {

class BulkNet {
 public:
  virtual ~BulkNet() = default;

  // The files of `run` on `node` (32 hex digits, of its cache), which listens at `address` ("10.0.0.7:17600", as in the
  // node table). Nobody is asked before the first use. Paths are "/" and a name below the run's folder in that node's
  // cache: "/scr.dataset.17/Ckpt17-Rank0.fti"; "/" is the folder itself. No part of a name is a symbolic link there.
  //
  // What storage/io/disk.h promises of Open for reading, List, Info, RealPath and File's reads and Info, and:
  //   kNotFound          there is no such file, or not any more: also of a file that was opened, and is now another
  //   kDataLoss          reading past the end, as of any Disk; or what has arrived is not what was sent (the message
  //                      says "arrived")
  //   kUnavailable       the peer does not answer in time, has gone, or serves no files of this run; or too much is
  //                      asked of it at once
  //   kPermissionDenied  what answers at the address is no member of the run, or another node; and all calls that would
  //                      change something
  // Nothing is direct(). Every call ends: each answer of the peer has a deadline; what a connection that breaks has not
  // brought is asked for once more on another. ReadAsync does not block, and many may be under way; its `done` runs on
  // a thread of the network.
  // The disk and its files may outlive this object: then they answer kUnavailable.
  virtual std::shared_ptr<Disk> DiskOf(const RunId& run, const std::string& node, const std::string& address) = 0;

  // From now on other members of the run may read the regular files below `folder` (absolute, no link in it), by
  // `disk`, which outlives this object. Again: another folder.
  // Connections come through the peer door: it must serve the run, too (PeerNet::Serve).
  virtual void Serve(const RunId& run, Disk& disk, const std::string& folder) = 0;
  // No more. What is being read for a peer just now may still be sent.
  virtual void Unserve(const RunId& run) = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_BULK_NET_H_
