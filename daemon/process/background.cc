#include "daemon/process/background.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::size_t kMessageBytesMax = 8192;

// All that the child says until it closes the pipe or the time is over: two digits of the exit code, then the text.
std::string ReadMessage(int fd, int wait_ms) {
  std::string message;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms);
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd poll{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = left > 0 ? ::poll(&poll, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return "";
    std::array<char, 512> block;
    const ssize_t n = ::read(fd, block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || message.size() > kMessageBytesMax) return message;
    message.append(block.data(), static_cast<std::size_t>(n));
  }
}

[[noreturn]] void ActAsParent(pid_t child, int fd, int wait_ms) {
  const std::string message = ReadMessage(fd, wait_ms);
  if (message.size() < 2) {
    std::fprintf(stderr, "cairnd: ended, or took longer than %d s, before it was ready\n", wait_ms / 1000);
    ::kill(child, SIGKILL);
    std::_Exit(1);
  }
  const int exit_code = std::atoi(message.substr(0, 2).c_str());
  std::fprintf(exit_code == 0 ? stdout : stderr, "%s\n", message.c_str() + 2);
  std::fflush(nullptr);
  std::_Exit(exit_code);
}

// Replaces a standard stream. A failure leaves the old one, which only costs the caller a held terminal.
void Redirect(int stream, const char* path, int flags) {
  const UniqueFd fd(::open(path, flags | O_CLOEXEC, 0600));
  if (fd.valid()) ::dup2(fd.get(), stream);
}

}  // namespace

absl::StatusOr<Background> Background::Start(int wait_ms) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Unavailable("pipe: {}", std::strerror(errno));
  UniqueFd reader(ends[0]), writer(ends[1]);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return Unavailable("fork: {}", std::strerror(errno));
  if (child > 0) {
    writer.Reset();
    ActAsParent(child, reader.get(), wait_ms);
  }
  ::setsid();
  Redirect(STDIN_FILENO, "/dev/null", O_RDONLY);
  Redirect(STDOUT_FILENO, "/dev/null", O_WRONLY);
  return Background(std::move(writer));
}

void Background::Tell(int exit_code, std::string_view text) {
  CAIRN_CHECK(exit_code >= 0 && exit_code <= 99);
  const std::string message = fmt::format("{:02}{}", exit_code, text.substr(0, kMessageBytesMax));
  std::string_view rest = message;
  while (!rest.empty()) {
    const ssize_t n = ::write(fd_.get(), rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;  // The parent is gone: nobody is left to tell.
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  fd_.Reset();
}

void Background::Ready(std::string_view text, const std::string& log_file) {
  Redirect(STDERR_FILENO, log_file.empty() ? "/dev/null" : log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND);
  Tell(0, text);
}

void Background::Failed(int exit_code, std::string_view text) {
  Tell(exit_code, text);
}

}  // namespace cairn
