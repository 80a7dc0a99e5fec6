#include "tests/support/etcd.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "storage/base/unique_fd.h"
#include "tests/integration/process.h"

namespace cairn::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kHealthyWithin = std::chrono::seconds(60);
constexpr int kStartsMax = 5;  // somebody else may take a port between its choice and its use

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Free just now: different ones.
std::vector<int> FreePorts(std::size_t count) {
  std::vector<UniqueFd> sockets;
  std::vector<int> ports;
  for (std::size_t i = 0; i < count; ++i) {
    sockets.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = Loopback(0);
    socklen_t bytes = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(sockets.back().get(), generic, bytes) != 0 ||
        ::getsockname(sockets.back().get(), generic, &bytes) != 0) {
      ADD_FAILURE() << "no free port";
    }
    ports.push_back(ntohs(address.sin_port));
  }
  return ports;
}

// The answer to GET, with its head; "" if there is none.
std::string Get(int port, const std::string& path) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = Loopback(port);
  const timeval patience{.tv_sec = 5, .tv_usec = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return "";
  const std::string request = "GET " + path + " HTTP/1.0\r\nHost: localhost\r\n\r\n";
  if (::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return "";
  std::string answer;
  std::array<char, 4096> block;
  for (ssize_t n; (n = ::recv(socket.get(), block.data(), block.size(), 0)) > 0;) {
    answer.append(block.data(), static_cast<std::size_t>(n));
  }
  return answer;
}

struct Member {
  std::string name, folder;
  int client_port = 0, peer_port = 0, metrics_port = 0;
  std::unique_ptr<Process> process = {};
};

class EtcdImpl final : public Etcd {
 public:
  explicit EtcdImpl(Options options) : options_(std::move(options)) {
    std::string name = ::testing::TempDir() + "cairn-etcd-XXXXXX";
    folder_ = mkdtemp(name.data());
    const std::vector<int> ports = FreePorts(3 * options_.members);
    for (std::size_t i = 0; i < options_.members; ++i) {
      const std::string member = "m" + std::to_string(i);
      members_.push_back({.name = member,
                          .folder = folder_ + "/" + member,
                          .client_port = ports[3 * i],
                          .peer_port = ports[3 * i + 1],
                          .metrics_port = ports[3 * i + 2]});
    }
  }

  ~EtcdImpl() override {
    members_.clear();
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }

  bool StartAll() {
    for (Member& member : members_) Launch(member);
    for (Member& member : members_) {
      if (!WaitUntilHealthy(member)) return false;
    }
    return true;
  }

  // What the members have to say for themselves.
  std::string Logs() const {
    std::string logs;
    for (const Member& member : members_) {
      std::ifstream file(member.folder + ".log");
      logs += member.name + ":\n" + std::string(std::istreambuf_iterator<char>(file), {});
    }
    return logs;
  }

  std::size_t members() const override { return members_.size(); }
  int port(std::size_t member) const override { return members_[member].client_port; }
  std::string endpoint(std::size_t member) const override { return UrlOf(members_[member]); }

  std::size_t Leader() const override {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (Get(members_[i].metrics_port, "/metrics").find("\netcd_server_is_leader 1\n") != std::string::npos) return i;
    }
    ADD_FAILURE() << "etcd has no leader\n" << Logs();
    return 0;
  }

  void Kill(std::size_t member) override { members_[member].process.reset(); }
  void Pause(std::size_t member) override {
    Process& process = *members_[member].process;
    process.Signal(SIGSTOP);
    // It may still run until the kernel says so.
    siginfo_t info{};
    EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(process.pid()), &info, WSTOPPED), 0);
  }
  void Resume(std::size_t member) override { members_[member].process->Signal(SIGCONT); }
  void StartAgain(std::size_t member) override {
    Launch(members_[member]);
    EXPECT_TRUE(WaitUntilHealthy(members_[member])) << Logs();
  }
  void StartEmpty() override {
    std::filesystem::remove_all(members_[0].folder);
    StartAgain(0);
  }

 private:
  std::string UrlOf(const Member& member) const {
    const std::string scheme = options_.certificates.empty() ? "http" : "https";
    return scheme + "://127.0.0.1:" + std::to_string(member.client_port);
  }
  static std::string PeerUrlOf(const Member& member) { return "http://127.0.0.1:" + std::to_string(member.peer_port); }

  void Launch(Member& member) {
    std::string cluster;
    for (const Member& each : members_) cluster += (cluster.empty() ? "" : ",") + each.name + "=" + PeerUrlOf(each);
    std::vector<std::string> arguments = {
        "etcd",
        "--name=" + member.name,
        "--data-dir=" + member.folder,
        "--listen-client-urls=" + UrlOf(member),
        "--advertise-client-urls=" + UrlOf(member),
        "--listen-peer-urls=" + PeerUrlOf(member),
        "--initial-advertise-peer-urls=" + PeerUrlOf(member),
        "--initial-cluster=" + cluster,
        "--initial-cluster-token=" + folder_,
        "--listen-metrics-urls=http://127.0.0.1:" + std::to_string(member.metrics_port),
        "--enable-grpc-gateway=false",
        "--logger=zap",
        "--log-level=warn",
        "--log-outputs=" + member.folder + ".log",
    };
    if (const std::string& folder = options_.certificates; !folder.empty()) {
      arguments.insert(arguments.end(),
                       {"--client-cert-auth", "--trusted-ca-file=" + folder + "/ca.pem",
                        "--cert-file=" + folder + "/server.pem", "--key-file=" + folder + "/server.key"});
    }
    member.process =
        Process::Start({.arguments = std::move(arguments), .environment = {}, .working_directory = folder_});
  }

  static bool WaitUntilHealthy(Member& member) {
    const auto end = Clock::now() + kHealthyWithin;
    while (Clock::now() < end && member.process->running()) {
      if (Get(member.metrics_port, "/health").find("\"health\":\"true\"") != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  const Options options_;
  std::string folder_;
  std::vector<Member> members_;
};

}  // namespace

std::vector<std::string> Etcd::endpoints() const {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < members(); ++i) all.push_back(endpoint(i));
  return all;
}

std::unique_ptr<Etcd> Etcd::Start(const Options& options) {
  std::string logs;
  for (int i = 0; i < kStartsMax; ++i) {
    auto etcd = std::make_unique<EtcdImpl>(options);
    if (etcd->StartAll()) return etcd;
    logs = etcd->Logs();
  }
  ADD_FAILURE() << "etcd does not start\n" << logs;
  return nullptr;
}

}  // namespace cairn::testing
