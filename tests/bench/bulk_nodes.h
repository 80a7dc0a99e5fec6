// What brings a file from one node to another, as two nodes in this process, on loopback; and its limit.
#ifndef CAIRN_TESTS_BENCH_BULK_NODES_H_
#define CAIRN_TESTS_BENCH_BULK_NODES_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/bulk/bulk.h"
#include "daemon/trust/openssl.h"
#include "storage/base/unique_fd.h"
#include "storage/io/posix_disk.h"
#include "tests/daemon/door/peer_node.h"

namespace cairn::bench {

// The run that all of them are members of.
std::shared_ptr<const Authority> NewBulkAuthority();

// Two peer doors; one node has the files below `folder`, the other one asks for them.
class BulkNodes {
 public:
  // `connections`: at most, as BulkOptions has it.
  BulkNodes(const std::shared_ptr<const Authority>& authority, const std::string& folder,
            std::size_t connections = BulkOptions{}.connections_max);

  Disk& files() { return *files_; }  // "/name" is the file of that name below the folder

 private:
  const std::unique_ptr<PosixDisk> disk_;
  testing::PeerNode here_, there_;
  std::unique_ptr<BulkNet> serving_, asking_;
  std::shared_ptr<Disk> files_;
};

// The limit: TLS 1.3 with the same kind of certificates and cipher, memory to memory, over so many connections. One
// thread at each end of each connection, OpenSSL on a blocking socket, a MiB at a time.
class PlainTls {
 public:
  PlainTls(const Authority& authority, std::size_t connections);
  // REQUIRES: as many bytes in both.
  void Fetch(std::span<const std::byte> source, std::span<std::byte> target);

 private:
  struct End {
    End(UniqueFd its_fd, const SSL_METHOD* method, const Credential& credential);
    UniqueFd fd;
    TlsContext context;
    std::unique_ptr<SSL, FreedBy<&SSL_free>> ssl;
  };
  struct Ends {
    End near, far;
  };

  std::vector<Ends> ends_;
};

}  // namespace cairn::bench

#endif  // CAIRN_TESTS_BENCH_BULK_NODES_H_
