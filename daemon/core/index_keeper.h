// index.scr of a long run follows what is on the prefix, in the background: a commit does not wait until thousands of
// entries are written anew (storage/place/prefix/changed_file.h). What is SCR's sees a dataset a moment after it has
// reached `prefix`. Strand only.
#ifndef CAIRN_DAEMON_CORE_INDEX_KEEPER_H_
#define CAIRN_DAEMON_CORE_INDEX_KEEPER_H_

#include <absl/status/status.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "daemon/core/context.h"
#include "daemon/core/loop.h"
#include "daemon/core/prefix_gate.h"

namespace cairn {

class IndexKeeper {
 public:
  IndexKeeper(const Context& context, std::string run_name, const PrefixGate& gate, std::function<void()> on_end)
      : context_(context), run_name_(std::move(run_name)), gate_(gate), on_end_(std::move(on_end)) {}
  IndexKeeper(const IndexKeeper&) = delete;

  // Something has changed: the index follows after a second in which it did not change again, ten seconds later at the
  // latest; and rests ten times as long as it took.
  void Update();
  // The daemon is going, and nothing changes the index any more. False: it follows now, and `on_end` is called when it
  // has, or has failed.
  bool Quiesced();
  void Stop();

 private:
  // A commit that meets the work is held up by it. So it waits for a moment without changes, unless SCR would be behind
  // for too long.
  static constexpr std::chrono::milliseconds kQuiet{1000}, kBehindMax{10000};

  void WaitForQuiet();
  void CatchUp();
  void Ended(const absl::Status& status, SteadyTime began);

  const Context& context_;
  const std::string run_name_;
  const PrefixGate& gate_;
  const std::function<void()> on_end_;
  bool working_ = false;
  bool failed_ = false;  // the last time
  bool warned_ = false;
  std::chrono::milliseconds rest_ = kQuiet;
  Loop::TimerId timer_ = 0;  // 0: none
  SteadyTime since_{};       // when it was first seen to be behind
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_INDEX_KEEPER_H_
