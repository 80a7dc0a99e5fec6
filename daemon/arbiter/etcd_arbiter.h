// The arbiter that etcd is: for runs whose nodes see each other's files late, or whose file system makes no name once.
// storage/place/arbiter/README.md tells what lies in etcd, and what others who write there can do.
//
// A record is decided in etcd, by a transaction on /cairn/<run>/<name>, and copied to .cairn before anyone hears of it,
// by whoever meets it first. If the two ever differ (etcd was emptied, or somebody deleted keys there), .cairn wins.
// Leases are in etcd alone. All that lies there is sealed by the run's secret (ArbiterRecord::secret) for its key;
// what is not counts as absent, and is written over.
#ifndef CAIRN_DAEMON_ARBITER_ETCD_ARBITER_H_
#define CAIRN_DAEMON_ARBITER_ETCD_ARBITER_H_

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "daemon/arbiter/etcd_client.h"
#include "storage/base/ids.h"
#include "storage/io/disk.h"
#include "storage/place/arbiter/arbiter.h"
#include "storage/place/arbiter/arbiter_record.h"

namespace cairn {

// `disk` is borrowed. A name has at most kEtcdNameBytesMax bytes, and no '/'; those of leases, and only those, end in
// ".lease". Other errors than arbiter.h's are those of client and disk; kInvalidArgument: such a name.
std::unique_ptr<Arbiter> MakeEtcdArbiter(std::shared_ptr<EtcdClient> client, Disk& disk, const std::string& prefix,
                                         const RunId& run, const std::string& secret);

inline constexpr std::size_t kEtcdNameBytesMax = 200;

// All runs' arbiters, over one client. Reads the certificates; nothing goes over the network yet.
//   kInvalidArgument  as EtcdClient::Make
absl::StatusOr<std::unique_ptr<Arbiters>> MakeEtcdArbiters(const EtcdSettings& settings);

}  // namespace cairn

#endif  // CAIRN_DAEMON_ARBITER_ETCD_ARBITER_H_
