// What the supervisor, its workers and `cairn status --all` tell each other: numbers of a fixed layout, no text.
//
// A worker is given three descriptors, and those that were left (kDepositFd): kLinkFd, a SOCK_SEQPACKET socket on which
// the supervisor sends one byte for each connection, with the connection's descriptor (SCM_RIGHTS); and kPageFd, a page
// of counters which the worker writes and the supervisor copies. The worker belongs to its user: nothing on the page is
// believed to be true, and nothing is read from that socket. The supervisor's end of the socket is gone when the
// supervisor is.
#ifndef CAIRN_PROTO_SUPERVISOR_H_
#define CAIRN_PROTO_SUPERVISOR_H_

#include <cstdint>
#include <type_traits>

namespace cairn {

inline constexpr int kLinkFd = 3;
inline constexpr int kPageFd = 4;

// The byte that comes with a connection: at which socket it was made.
enum class Door : std::uint8_t {
  kLocal = 'L',   // cairnd.sock
  kGrpc = 'G',    // cairnd-grpc.sock
  kStatus = 'S',  // cairnd-status.sock: root's, answered by the supervisor itself
  // Not with connections, but on kDepositFd:
  kDeposit = 'D',    // with the memory that was asked for
  kNoDeposit = 'N',  // without: there is no room
};

// Memory that outlives a worker. On kDepositFd, a SOCK_SEQPACKET socket, a worker sends such requests; one for memory
// is answered by a byte, with its descriptor (SCM_RIGHTS). What a worker leaves is handed to the next one of its user,
// in descriptors from kFirstLeftFd on, without a gap. The supervisor reads these two numbers, and takes no descriptor.
inline constexpr int kDepositFd = 5;
inline constexpr int kFirstLeftFd = 6;
struct DepositRequest {
  std::uint64_t bytes;  // of new memory; 0: `inode` is to be let go of
  std::uint64_t inode;
};
static_assert(std::has_unique_object_representations_v<DepositRequest>);

// The sockets in the supervisor's runtime directory.
inline constexpr char kLocalSocketName[] = "cairnd.sock";
inline constexpr char kGrpcSocketName[] = "cairnd-grpc.sock";
inline constexpr char kStatusSocketName[] = "cairnd-status.sock";

inline constexpr std::uint64_t kPageBytes = 4096;
inline constexpr std::uint64_t kPageMagic = 0x31676150'6e726943;  // "CirnPag1"

// At offset 0 of the page. Each number is written and read on its own.
struct WorkerCounters {
  std::uint64_t magic;  // kPageMagic
  std::uint64_t ready;  // 1: the worker serves
  std::uint64_t beats;  // grows while it does
  std::uint64_t taken;  // connections that it has received
  std::uint64_t busy;   // 0: nothing is under way that its end would hold up
  std::uint64_t connections;
  std::uint64_t sessions;
  std::uint64_t runs;
  std::uint64_t flushes;
  std::uint64_t warnings;
  std::uint64_t cache_bytes_used;
  std::uint64_t cache_bytes_max;
  std::uint64_t image_bytes_used;
  std::uint64_t image_bytes_max;
  std::uint64_t drains;          // folders that it drains
  std::uint64_t drains_failing;  // of these: they cannot work, or the last pass could not bring all
  std::uint64_t drain_bytes_left;
};
static_assert(sizeof(WorkerCounters) == 17 * sizeof(std::uint64_t) && sizeof(WorkerCounters) <= kPageBytes);
static_assert(std::has_unique_object_representations_v<WorkerCounters>);

// What is sent to root that connects to kStatusSocketName, and asks nothing: this, then `rows` rows; then the end.
inline constexpr std::uint32_t kStatusMagic = 0x31745343;  // "CSt1"
inline constexpr std::uint32_t kStatusRowsMax = 1 << 16;

struct SupervisorStatus {
  std::uint32_t magic;      // kStatusMagic
  std::uint32_t row_bytes;  // sizeof(WorkerStatus)
  std::uint32_t rows;       // at most kStatusRowsMax
  std::uint32_t pid;
  std::uint64_t uptime_ms;
  std::uint32_t workers;
  std::uint32_t workers_max;
};
static_assert(std::has_unique_object_representations_v<SupervisorStatus>);

struct WorkerStatus {
  std::uint32_t uid;
  std::uint32_t pid;        // 0: no worker
  std::uint32_t ending;     // 1: it was asked to end
  std::uint32_t waiting;    // connections that wait for it
  std::uint64_t age_ms;     // of the worker
  std::uint64_t starts;     // workers of this user since the supervisor began, or forgot the user
  std::uint64_t lost;       // of these ended without being asked to
  std::uint64_t refused;    // connections
  std::uint64_t pause_ms;   // until the next may start
  WorkerCounters counters;  // as the worker says; all 0: it says nothing
};
static_assert(std::has_unique_object_representations_v<WorkerStatus>);

}  // namespace cairn

#endif  // CAIRN_PROTO_SUPERVISOR_H_
