#include "tests/support/cluster/control.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "storage/base/status.h"

namespace cairn::testing {
namespace {

constexpr std::size_t kLineMax = 4096, kAnswerMax = 64 << 10;

// An answer begins with the number of its code and a blank.
std::string Encode(const absl::StatusOr<std::string>& answer) {
  const int code = static_cast<int>(answer.status().code());
  return fmt::format("{} {}", code, answer.ok() ? *answer : std::string(MessageOf(answer.status())));
}

absl::StatusOr<std::string> Decode(const std::string& text) {
  const std::size_t blank = text.find(' ');
  if (blank == std::string::npos) return Unavailable("the cluster went away without an answer");
  const auto code = static_cast<absl::StatusCode>(std::atoi(text.c_str()));
  if (code == absl::StatusCode::kOk) return text.substr(blank + 1);
  return absl::Status(code, text.substr(blank + 1));
}

sockaddr_un AddressOf(const std::string& folder) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ControlSocket(folder).copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

void SetPatience(int fd, int seconds) {
  const timeval patience{.tv_sec = seconds, .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

// Until `end` comes ('\0': the end of the stream), or what may come at most.
std::string Receive(int fd, std::size_t bytes_max, char end) {
  std::string text;
  std::array<char, 1024> block;
  while (text.size() < bytes_max && (end == '\0' || text.find(end) == std::string::npos)) {
    const ssize_t n = ::recv(fd, block.data(), block.size(), 0);
    if (n < 0 && errno == EINTR) continue;  // with a limit of time it is not begun again by the kernel
    if (n <= 0) break;
    text.append(block.data(), static_cast<std::size_t>(n));
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> Ask(const std::string& folder, const std::string& line) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  SetPatience(fd.get(), 120);
  const sockaddr_un address = AddressOf(folder);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Unavailable("no cluster in {}: {}", folder, std::strerror(errno));
  }
  const std::string request = line + "\n";
  if (::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) {
    return Unavailable("the cluster in {} does not listen: {}", folder, std::strerror(errno));
  }
  return Decode(Receive(fd.get(), kAnswerMax, '\0'));
}

absl::StatusOr<ControlServer> ControlServer::Listen(const std::string& folder) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un address = AddressOf(folder);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd.get(), 16) != 0) {
    return Unavailable("{}: {}", ControlSocket(folder), std::strerror(errno));
  }
  return ControlServer(std::move(fd));
}

void ControlServer::ServeOne(
    const std::function<absl::StatusOr<std::string>(const std::vector<std::string>&)>& handle) {
  const UniqueFd caller(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!caller.valid()) return;  // gone already
  SetPatience(caller.get(), 5);
  std::istringstream line(Receive(caller.get(), kLineMax, '\n'));
  std::vector<std::string> words;
  for (std::string word; line >> word;) words.push_back(word);
  const std::string answer = Encode(handle(words));
  (void)!::send(caller.get(), answer.data(), answer.size(), MSG_NOSIGNAL);  // the caller may have gone meanwhile
}

}  // namespace cairn::testing
