// The BP5 views of what is on one run's prefix. They are made with the commit; here those that a crash, a full disk or
// an older release has left out. README.md, "Views". Strand only.
#ifndef CAIRN_DAEMON_CORE_VIEWS_H_
#define CAIRN_DAEMON_CORE_VIEWS_H_

#include <cstdint>
#include <string>

#include "daemon/core/context.h"
#include "daemon/core/prefix_gate.h"
#include "storage/base/ids.h"

namespace cairn {

class Views {
 public:
  Views(const Context& context, std::string run_name, const PrefixGate& gate)
      : context_(context), run_name_(std::move(run_name)), gate_(gate) {}
  Views(const Views&) = delete;

  // Once for each run, in the background; nothing if the prefix cannot be written now.
  void MakeMissing();
  // What the prefix has found out by the way goes to the warnings.
  void TellWarnings();

 private:
  void MakeBelow(DatasetId below, std::uint32_t jobs);

  const Context& context_;
  const std::string run_name_;
  const PrefixGate& gate_;
  bool looked_ = false;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_VIEWS_H_
