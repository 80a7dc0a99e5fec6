// The window of a terminal that is drawn over again and again, and given back as it was.
#ifndef CAIRN_CLIENT_CLI_SCREEN_H_
#define CAIRN_CLIENT_CLI_SCREEN_H_

#include <absl/synchronization/mutex.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <thread>

namespace cairn::cli {

// As many lines of `frame` as `rows`, each of at most `columns` characters, in place of what is in the window: each
// line is cleared as it is written over, so nothing flickers. Colours take no columns. The last line tells how many
// lines found no place. 0 rows or columns: not known, no limit.
std::string DrawnOver(std::string_view frame, std::size_t rows, std::size_t columns);

// Takes the window of standard output, which is a terminal, until its end: the alternate screen, without a cursor.
// SIGINT, SIGTERM and SIGHUP end the process with exit code 0 at any time, also during a call that hangs, after the
// window was given back with the last frame below what was there before. SIGTSTP gives it back until SIGCONT.
//
// Make it before any other thread: threads that are older could take the signals. One at a time. Call it from one
// thread.
class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // `frame`: ended lines. Kept until the next.
  void Draw(std::string frame);
  // Shorter if the window changes its size, or comes back.
  void Pause(std::chrono::milliseconds time);

 private:
  void Listen();
  void GiveBack() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  absl::CondVar changed_;
  bool redraw_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::string frame_ ABSL_GUARDED_BY(mutex_);
  std::thread listener_;
};

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_SCREEN_H_
