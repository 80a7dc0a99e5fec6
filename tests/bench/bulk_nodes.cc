#include "tests/bench/bulk_nodes.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/clock.h"
#include "tests/daemon/door/raw_peer.h"
#include "tests/daemon/trust/members.h"

namespace cairn::bench {
namespace {

constexpr std::size_t kBlock = 1 << 20;

const RunId kRun = testing::RunOf(1);

void Send(SSL* ssl, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), kBlock);
    CAIRN_CHECK(SSL_write(ssl, bytes.data(), static_cast<int>(count)) == static_cast<int>(count));
    bytes = bytes.subspan(count);
  }
}

void Receive(SSL* ssl, std::span<std::byte> target) {
  while (!target.empty()) {
    const int n = SSL_read(ssl, target.data(), static_cast<int>(std::min(target.size(), kBlock)));
    CAIRN_CHECK(n > 0);
    target = target.subspan(static_cast<std::size_t>(n));
  }
}

}  // namespace

std::shared_ptr<const Authority> NewBulkAuthority() {
  return testing::NewAuthority(kRun);
}

BulkNodes::BulkNodes(const std::shared_ptr<const Authority>& authority, const std::string& folder,
                     std::size_t connections)
    : disk_(MakePosixDisk()), here_(1), there_(2) {
  BulkOptions options;
  options.connections_max = connections;
  options.threads = std::min<std::size_t>(connections, 2);
  serving_ = MakeBulk(options, there_.lines());
  asking_ = MakeBulk(options, here_.lines());
  here_.Enter(authority);
  there_.Enter(authority);
  serving_->Serve(kRun, *disk_, folder);
  files_ = asking_->DiskOf(kRun, there_.options().node, there_.address());
}

PlainTls::PlainTls(const Authority& authority, std::size_t connections) {
  const Credential credential = testing::CredentialOf(authority, testing::MemberOf(kRun, 3), WallNow());
  int port = 0;
  const UniqueFd listening = testing::ListenOnLoopback(port);
  for (std::size_t i = 0; i < connections; ++i) {
    UniqueFd near = testing::ConnectToLoopback(port);
    UniqueFd far(::accept(listening.get(), nullptr, nullptr));
    ends_.push_back(
        {End(std::move(near), TLS_client_method(), credential), End(std::move(far), TLS_server_method(), credential)});
    std::thread accepting([&] { CAIRN_CHECK(SSL_accept(ends_.back().far.ssl.get()) == 1); });
    CAIRN_CHECK(SSL_connect(ends_.back().near.ssl.get()) == 1);
    accepting.join();
  }
}

void PlainTls::Fetch(std::span<const std::byte> source, std::span<std::byte> target) {
  std::vector<std::thread> threads;
  const std::size_t share = (source.size() + ends_.size() - 1) / ends_.size();
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    const std::size_t begin = std::min(source.size(), i * share), count = std::min(source.size() - begin, share);
    threads.emplace_back([&, i, begin, count] { Send(ends_[i].far.ssl.get(), source.subspan(begin, count)); });
    threads.emplace_back([&, i, begin, count] { Receive(ends_[i].near.ssl.get(), target.subspan(begin, count)); });
  }
  for (std::thread& thread : threads) thread.join();
}

PlainTls::End::End(UniqueFd its_fd, const SSL_METHOD* method, const Credential& credential)
    : fd(std::move(its_fd)), context(SSL_CTX_new(method)), ssl(SSL_new(context.get())) {
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  SSL_set_min_proto_version(ssl.get(), TLS1_3_VERSION);
  CAIRN_CHECK(SSL_use_certificate(ssl.get(), credential.certificate.get()) == 1);
  CAIRN_CHECK(SSL_use_PrivateKey(ssl.get(), credential.key.get()) == 1);
  SSL_set_fd(ssl.get(), fd.get());
}

}  // namespace cairn::bench
