// What Slurm tells of a job, by its own `squeue`. Where there is none, where it does not answer in time, or says what
// is not understood, nothing is known: Slurm is asked where it is there, and needed by nobody.
#ifndef CAIRN_DAEMON_PROCESS_SLURM_H_
#define CAIRN_DAEMON_PROCESS_SLURM_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace cairn {

class Slurm {
 public:
  enum class Job : std::uint8_t {
    kUnknown,
    kThere,  // it waits, runs, or its processes are being ended
    kOver,   // it has ended, whatever the reason: no process of it is left
  };

  // `squeue` is looked for in PATH. It is killed when `patience` is over.
  explicit Slurm(std::string squeue = "squeue", std::chrono::milliseconds patience = std::chrono::seconds(3))
      : squeue_(std::move(squeue)), patience_(patience) {}

  // `job`: its number, as SLURM_JOB_ID has it; anything else is not asked for. Blocks. Any thread.
  Job StateOf(const std::string& job) const;

  // What `squeue --noheader --states=all --format=%T` has printed for a job: a line for each of its components.
  static Job StateIn(std::string_view printed);

 private:
  const std::string squeue_;
  const std::chrono::milliseconds patience_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_PROCESS_SLURM_H_
