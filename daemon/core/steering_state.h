// How the user steers a run, and how often its ranks want checkpoints: what the core keeps of it. Strand only.
#ifndef CAIRN_DAEMON_CORE_STEERING_STATE_H_
#define CAIRN_DAEMON_CORE_STEERING_STATE_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "daemon/config/config.h"
#include "daemon/core/answers.h"
#include "daemon/policy/rhythm.h"
#include "proto/admin.pb.h"
#include "proto/local.pb.h"
#include "storage/base/ids.h"
#include "storage/format/scr/halt.h"

namespace cairn {

// halt.scr, as last read. One job at a time reads it, and takes whole checkpoints off what is left of them.
struct HaltState {
  scr::Halt known;
  std::optional<std::chrono::steady_clock::time_point> read_at;  // none: never
  std::string error;                                             // of the last try
  std::uint64_t wanted = 0, read = 0;  // events after which it is to be read anew; those that were heeded
  bool working = false;
  bool late = false;        // the job hangs: nobody waits for it any more
  std::uint64_t timer = 0;  // until it is late
  std::uint64_t whole = 0;  // checkpoints to be taken off
};

struct SteeringState {
  // Of the newest launch that has come to this daemon.
  LaunchId launch = 0;
  Answers should_exit, need_checkpoint;
  CheckpointCosts costs;
  local::Rhythm wanted;         // by the ranks' environment, in place of the configuration
  std::int64_t end_time_s = 0;  // of the allocation; 0: not known
  std::set<std::string> hosts;  // that its ranks are on
  bool all_came = false;
  std::uint64_t put_off_at = 0;  // the question at which one was due that is not made up for; 0: none is
  std::uint64_t put_off = 0;     // so many since the launch began

  // Of the run.
  std::set<DatasetId> settling;  // checkpoints that were handed over by some rank and are not whole yet
  HaltState halt;
};

// What the configuration says, and in its place what the ranks say. What is no percentage counts as not set.
Rhythm RhythmOf(const Config::Checkpoint& configured, const local::Rhythm& wanted);

// What is known, for `cairn status`. `now_s`: since the epoch.
admin::HaltStatus DescribeHalt(const SteeringState& steering, std::int64_t now_s);
admin::RhythmStatus DescribeRhythm(const SteeringState& steering, const Rhythm& rhythm, CheckpointCosts::Time now);

// What others have written into a file, fit for logs, messages and terminals: at most some hundred bytes of UTF-8
// without control characters.
std::string Readable(std::string_view text);

// A halt condition in words, after SCR's name for it (scr::WhyHalt); readable.
std::string DescribeReason(const std::string& reason);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_STEERING_STATE_H_
