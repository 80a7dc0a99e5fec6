// Which jobs the batch system says are over. It is asked in a pool, about each job at most once in ten seconds, however
// many ranks wait for the end of its launch, and not waited for longer than five seconds: its program may lie on a file
// system that hangs. Strand only.
#ifndef CAIRN_DAEMON_CORE_ENDED_JOBS_H_
#define CAIRN_DAEMON_CORE_ENDED_JOBS_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "daemon/core/context.h"

namespace cairn {

class EndedJobs {
 public:
  explicit EndedJobs(const Context& context) : context_(context) {}
  EndedJobs(const EndedJobs&) = delete;

  bool CanAsk() const { return context_.env.job_is_over != nullptr; }
  // `then` runs once, not inside the call. False: it is not over, or nothing is known. REQUIRES: CanAsk.
  using Then = std::function<void(bool over)>;
  void Ask(const std::string& job, Then then);

 private:
  struct Asked {
    bool asking = true;  // its answer has not come
    SteadyTime answered;
    bool over = false;
    std::vector<Then> waiting;  // for the answer, not yet in vain
  };
  void Tell(const std::string& job);

  const Context& context_;
  std::map<std::string, Asked> asked_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_ENDED_JOBS_H_
