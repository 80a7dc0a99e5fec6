#include "client/cli/screen.h"

#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "client/cli/text.h"

namespace cairn::cli {
namespace {

// DEC private modes 1049 (alternate screen) and 25 (cursor); ECMA-48 CUP, EL and ED.
constexpr std::string_view kTakeWindow = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view kGiveBackWindow = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view kHome = "\x1b[H";
constexpr std::string_view kClearLine = "\x1b[K";
constexpr std::string_view kClearBelow = "\x1b[J";

sigset_t OurSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH}) sigaddset(&signals, signal);
  return signals;
}

// Whole, past stdio: it may be in the midst of another thread's call. A terminal that is gone takes nothing any more.
void WriteOut(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

std::string DrawnOver(std::string_view frame, std::size_t rows, std::size_t columns) {
  std::vector<std::string_view> lines;
  for (std::size_t at = 0, end = 0; (end = frame.find('\n', at)) != std::string_view::npos; at = end + 1) {
    lines.push_back(frame.substr(at, end - at));
  }
  const bool cut = rows > 0 && lines.size() > rows;
  const std::size_t shown = cut ? rows - 1 : lines.size();
  std::string drawn(kHome);
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) drawn += "\r\n";
    drawn += columns > 0 ? FirstColumns(lines[i], columns) : std::string(lines[i]);
    drawn += kClearLine;
  }
  if (cut) {
    const std::string rest = fmt::format("... {} more", Count(lines.size() - shown, "line"));
    drawn +=
        fmt::format("{}{}{}", shown > 0 ? "\r\n" : "", columns > 0 ? FirstColumns(rest, columns) : rest, kClearLine);
  }
  return drawn.append(kClearBelow);
}

Screen::Screen() {
  const sigset_t signals = OurSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  WriteOut(kTakeWindow);
  listener_ = std::thread([this] { Listen(); });
}

Screen::~Screen() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  pthread_kill(listener_.native_handle(), SIGWINCH);
  listener_.join();
  {
    const absl::MutexLock lock(&mutex_);
    GiveBack();
  }
  const sigset_t signals = OurSignals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

void Screen::GiveBack() {
  WriteOut(kGiveBackWindow);
  WriteOut(frame_);
}

void Screen::Draw(std::string frame) {
  winsize size{};
  ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  const absl::MutexLock lock(&mutex_);
  frame_ = std::move(frame);
  WriteOut(DrawnOver(frame_, size.ws_row, size.ws_col));
}

void Screen::Pause(std::chrono::milliseconds time) {
  const absl::Time until = absl::Now() + absl::FromChrono(time);
  const absl::MutexLock lock(&mutex_);
  while (!redraw_ && !changed_.WaitWithDeadline(&mutex_, until)) continue;
  redraw_ = false;
}

void Screen::Listen() {
  const sigset_t signals = OurSignals();
  for (;;) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) continue;
    const absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    if (signal == SIGTSTP) {
      GiveBack();
      kill(getpid(), SIGSTOP);  // all threads stop here, until SIGCONT
      WriteOut(kTakeWindow);
    } else if (signal != SIGWINCH) {
      GiveBack();
      _exit(0);  // the user has seen enough; another thread may be in a call that does not end
    }
    redraw_ = true;
    changed_.Signal();
  }
}

}  // namespace cairn::cli
