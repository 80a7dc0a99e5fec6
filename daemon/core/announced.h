// Where clients on other hosts reach this daemon, told in one run's folder on the prefix: as soon as the prefix is
// reached, anew in each life of the daemon, and when a launch begins here. If there is nothing to tell, what the last
// life has told goes, once this one reaches the prefix. Strand only.
#ifndef CAIRN_DAEMON_CORE_ANNOUNCED_H_
#define CAIRN_DAEMON_CORE_ANNOUNCED_H_

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/core/context.h"
#include "daemon/core/loop.h"
#include "daemon/core/prefix_gate.h"

namespace cairn {

class Announced {
 public:
  Announced(const Context& context, const std::string& run_name, PrefixGate& gate)
      : context_(context), run_name_(run_name), gate_(gate) {}
  Announced(const Announced&) = delete;

  // After every change of the run: tells it, if there is something that is not told yet (Context::announcement). What
  // fails is tried again, with the pauses of flushes. If the prefix is not there, or is not ours to write to, that ends
  // after half an hour (with the usual pauses); then each call here is one try.
  void Update();
  // The prefix is reached for the first time: no pause is waited for.
  void Reached();
  // A launch has begun here, or goes on, and so the prefix is reached: of several daemons that tell of themselves its
  // clients are to try this first.
  void Again() {
    if (told_ != "") told_.reset();
    Reached();
  }

 private:
  void Told(const std::string& text, const absl::Status& status);

  const Context& context_;
  const std::string& run_name_;
  PrefixGate& gate_;
  bool reached_ = false;
  std::optional<std::string> told_;  // stands there; empty: nothing
  bool telling_ = false;
  std::string why_not_;       // the last time
  std::uint32_t failed_ = 0;  // so often, one after the other
  Loop::TimerId timer_ = 0;   // until it is tried again
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_ANNOUNCED_H_
