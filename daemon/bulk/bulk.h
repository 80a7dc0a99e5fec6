// The real BulkNet: TLS 1.3 streams beside the peer door's links, several to each peer. The peer door accepts, dials
// and lets both ends prove who they are (daemon/door/peer_line.h); then a connection lives here, on one of `threads`.
//
// The protocol is in proto/bulk.proto and README.md.
#ifndef CAIRN_DAEMON_BULK_BULK_H_
#define CAIRN_DAEMON_BULK_BULK_H_

#include <chrono>
#include <cstddef>
#include <memory>

#include "daemon/bulk/net.h"
#include "daemon/door/peer_line.h"

namespace cairn {

struct BulkOptions {
  std::size_t threads = 2;  // of the network: encryption is done there, so that one connection has one core

  // Asking. A window is at most 1 MiB; what is asked for goes into the memory of whoever reads.
  std::size_t connections_max = 4;  // to one peer, made as there is something to ask
  std::size_t windows_max = 4;      // that one connection has asked for and not received
  std::size_t calls_max = 4096;     // of one peer, under way or waiting; beyond: kUnavailable
  std::chrono::milliseconds dial{10'000};
  std::chrono::milliseconds answer{20'000};  // from the answer before, or the question, until a whole answer is here
  std::chrono::milliseconds idle{30'000};    // a connection without questions is closed

  // Answering.
  std::size_t serving_max = 1024;            // connections; beyond, new ones are refused
  std::size_t serving_per_node_max = 16;     // of one node and run
  std::size_t serving_windows_max = 64;      // in memory, of all connections together: others wait for their turn
  std::size_t serving_windows_each = 2;      // of one connection
  std::size_t disk_threads = 4;              // that read
  std::chrono::milliseconds take{20'000};    // a peer that has not taken a whole answer by then loses its connection,
  std::chrono::milliseconds quiet{120'000};  // and so does one that asks nothing for so long
};

// `lines` is borrowed, and outlives what is made here. The destructor closes all connections; reads that are under way
// fail with kUnavailable, their `done` runs before it returns. It waits for what is being read from a served disk just
// now. Any thread, but not in a `done`.
std::unique_ptr<BulkNet> MakeBulk(const BulkOptions& options, PeerLines& lines);

}  // namespace cairn

#endif  // CAIRN_DAEMON_BULK_BULK_H_
