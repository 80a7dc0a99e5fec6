// The files of a peer as a Disk that can only be read (net.h has the contract).
#ifndef CAIRN_DAEMON_BULK_PEER_DISK_H_
#define CAIRN_DAEMON_BULK_PEER_DISK_H_

#include <memory>

#include "daemon/bulk/peer_calls.h"
#include "storage/io/disk.h"

namespace cairn {

std::shared_ptr<Disk> MakePeerDisk(std::shared_ptr<PeerCalls> calls);

}  // namespace cairn

#endif  // CAIRN_DAEMON_BULK_PEER_DISK_H_
