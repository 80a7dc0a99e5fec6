// Goes on in the background, and lets the one who started it know when it is ready, or why it is not.
#ifndef CAIRN_DAEMON_PROCESS_BACKGROUND_H_
#define CAIRN_DAEMON_PROCESS_BACKGROUND_H_

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <utility>

#include "storage/base/unique_fd.h"

namespace cairn {

class Background {
 public:
  // Forks: REQUIRES that no thread was started. Returns in the child only, which leads a session of its own and has no
  // standard input and output. The parent waits for Ready or Failed, at most `wait_ms`, prints what it is told and
  // exits with that code; with 1 if the child ends without a word or takes too long (then it kills it). kUnavailable:
  // no pipe or no process; nothing has happened.
  static absl::StatusOr<Background> Start(int wait_ms);

  // Once: the parent prints `text` to standard output and exits with 0. Standard error goes to `log_file` from here on.
  void Ready(std::string_view text, const std::string& log_file);
  // The parent prints `text` to standard error and exits with `exit_code`, 1 to 99.
  void Failed(int exit_code, std::string_view text);

 private:
  explicit Background(UniqueFd fd) : fd_(std::move(fd)) {}
  void Tell(int exit_code, std::string_view text);

  UniqueFd fd_;  // write end
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_PROCESS_BACKGROUND_H_
