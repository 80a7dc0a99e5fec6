// A file of another node, fetched through the Disk that the core is given, against plain TLS 1.3 with the same
// certificates, memory to memory, over as many connections.
//
// usage: bulk_bench [PAIRS]
//
// Ours: two peer doors on loopback; the file is on /dev/shm. Plain: one thread at each end of each connection, OpenSSL
// on a blocking socket, a MiB at a time. All in one process, connections are there before the first pair.
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/bulk/bulk.h"
#include "daemon/trust/openssl.h"
#include "storage/base/check.h"
#include "storage/base/clock.h"
#include "storage/base/unique_fd.h"
#include "storage/io/posix_disk.h"
#include "tests/bench/ratio.h"
#include "tests/daemon/door/peer_node.h"
#include "tests/daemon/door/raw_peer.h"
#include "tests/daemon/trust/members.h"

namespace cairn {
namespace {

using bench::Ratio;
using testing::CredentialOf;
using testing::MemberOf;
using testing::NewAuthority;
using testing::PeerNode;
using testing::RunOf;

constexpr std::size_t kBytes = 256u << 20;
constexpr std::size_t kBlock = 1 << 20;

const RunId kRun = RunOf(1);

double Seconds(const auto& work) {
  const auto begun = SteadyNow();
  work();
  return std::chrono::duration<double>(SteadyNow() - begun).count();
}

class Ours {
 public:
  Ours(const std::shared_ptr<const Authority>& authority, std::size_t connections, const std::string& folder)
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
    auto file = files_->Open("/file", {});
    CAIRN_CHECK(file.ok());
    file_ = *std::move(file);
  }
  double Fetch(std::span<std::byte> target) {
    return Seconds([&] { CAIRN_CHECK(file_->ReadAt(0, target).ok()); });
  }

 private:
  const std::unique_ptr<PosixDisk> disk_;
  PeerNode here_, there_;
  std::unique_ptr<BulkNet> serving_, asking_;
  std::shared_ptr<Disk> files_;
  std::unique_ptr<File> file_;
};

class Plain {
 public:
  Plain(const Authority& authority, std::size_t connections) {
    const Credential credential = CredentialOf(authority, MemberOf(kRun, 3), WallNow());
    int port = 0;
    const UniqueFd listening = testing::ListenOnLoopback(port);
    for (std::size_t i = 0; i < connections; ++i) {
      UniqueFd near = testing::ConnectToLoopback(port);
      UniqueFd far(::accept(listening.get(), nullptr, nullptr));
      ends_.push_back({End(std::move(near), TLS_client_method(), credential),
                       End(std::move(far), TLS_server_method(), credential)});
      std::thread accepting([&] { CAIRN_CHECK(SSL_accept(ends_.back().far.ssl.get()) == 1); });
      CAIRN_CHECK(SSL_connect(ends_.back().near.ssl.get()) == 1);
      accepting.join();
    }
  }
  double Fetch(std::span<const std::byte> source, std::span<std::byte> target) {
    return Seconds([&] {
      std::vector<std::thread> threads;
      const std::size_t share = source.size() / ends_.size();
      for (std::size_t i = 0; i < ends_.size(); ++i) {
        threads.emplace_back([&, i] { Send(ends_[i].far.ssl.get(), source.subspan(i * share, share)); });
        threads.emplace_back([&, i] { Receive(ends_[i].near.ssl.get(), target.subspan(i * share, share)); });
      }
      for (std::thread& thread : threads) thread.join();
    });
  }

 private:
  struct End {
    End(UniqueFd its_fd, const SSL_METHOD* method, const Credential& credential)
        : fd(std::move(its_fd)), context(SSL_CTX_new(method)), ssl(SSL_new(context.get())) {
      const int on = 1;
      ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      SSL_set_min_proto_version(ssl.get(), TLS1_3_VERSION);
      CAIRN_CHECK(SSL_use_certificate(ssl.get(), credential.certificate.get()) == 1);
      CAIRN_CHECK(SSL_use_PrivateKey(ssl.get(), credential.key.get()) == 1);
      SSL_set_fd(ssl.get(), fd.get());
    }
    UniqueFd fd;
    TlsContext context;
    std::unique_ptr<SSL, FreedBy<&SSL_free>> ssl;
  };
  struct Ends {
    End near, far;
  };

  static void Send(SSL* ssl, std::span<const std::byte> bytes) {
    for (; !bytes.empty(); bytes = bytes.subspan(kBlock)) {
      CAIRN_CHECK(SSL_write(ssl, bytes.data(), kBlock) == static_cast<int>(kBlock));
    }
  }
  static void Receive(SSL* ssl, std::span<std::byte> target) {
    while (!target.empty()) {
      const int n = SSL_read(ssl, target.data(), static_cast<int>(std::min(target.size(), kBlock)));
      CAIRN_CHECK(n > 0);
      target = target.subspan(static_cast<std::size_t>(n));
    }
  }

  std::vector<Ends> ends_;
};

void Measure(const std::string& folder, std::span<const std::byte> source, std::size_t connections, int pairs) {
  const auto authority = NewAuthority(kRun);
  Ours ours(authority, connections, folder);
  Plain plain(*authority, connections);
  std::vector<std::byte> target(kBytes);
  const auto check = [&] {
    CAIRN_CHECK(std::memcmp(target.data(), source.data(), kBytes) == 0);
    std::memset(target.data(), 0, kBytes);
  };
  ours.Fetch(target);
  check();
  plain.Fetch(source, target);
  check();
  std::vector<Ratio> ratios;
  for (int i = 0; i < pairs; ++i) {
    Ratio pair;
    for (const bool first : {true, false}) {
      if (first == (i % 2 == 0)) {
        pair.limit = ours.Fetch(target);
      } else {
        pair.measured = plain.Fetch(source, target);
      }
      check();
    }
    ratios.push_back(pair);
  }
  const Ratio median = bench::Median(ratios);
  bench::PrintRatios(fmt::format("{} MiB over {} connection(s), {:.2f} GB/s against {:.2f}", kBytes >> 20, connections,
                                 kBytes / median.limit / 1e9, kBytes / median.measured / 1e9),
                     ratios, "plain TLS", /*inverse=*/true);
  std::fflush(stdout);
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  spdlog::set_level(spdlog::level::warn);
  const int pairs = argc > 1 ? std::atoi(argv[1]) : 21;
  std::string folder = "/dev/shm/cairn-bulk-XXXXXX";
  CAIRN_CHECK(::mkdtemp(folder.data()) != nullptr);
  std::vector<std::byte> source(cairn::kBytes);
  std::uint64_t state = 88172645463325252u;
  for (std::byte& byte : source) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    byte = static_cast<std::byte>(state);
  }
  const std::string path = folder + "/file";
  {
    const auto disk = cairn::MakePosixDisk();
    const auto file = disk->Open(path, {.writable = true, .create = true});
    CAIRN_CHECK(file.ok() && (*file)->WriteAt(0, source).ok());
  }
  for (const std::size_t connections : {1, 2, 4}) cairn::Measure(folder, source, connections, pairs);
  ::unlink(path.c_str());
  ::rmdir(folder.c_str());
  return 0;
}
