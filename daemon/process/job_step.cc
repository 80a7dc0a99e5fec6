#include "daemon/process/job_step.h"

#include <fmt/format.h>

namespace cairn {

std::string JobStepOf(const Surroundings& surroundings, std::string_view cgroup) {
  const auto variable = [&](const char* name) { return surroundings.variable(name).value_or(""); };
  if (const std::string step = variable("SLURM_STEP_ID"); !step.empty()) {
    return fmt::format("Slurm step {}.{}", variable("SLURM_JOB_ID"), step);
  }
  if (const std::string job = variable("PBS_JOBID"); !job.empty()) return fmt::format("PBS job {}", job);
  if (const std::string job = variable("LSB_JOBID"); !job.empty()) return fmt::format("LSF job {}", job);
  // A batch script carries no step id, but Slurm puts it into a step's control group all the same.
  while (!cgroup.empty()) {
    const std::string_view line = cgroup.substr(0, cgroup.find('\n'));
    if (line.find("/job_") != line.npos && line.find("/step_") != line.npos) {
      return fmt::format("Slurm step in control group {}", line.substr(line.find('/')));
    }
    cgroup.remove_prefix(std::min(cgroup.size(), line.size() + 1));
  }
  return "";
}

}  // namespace cairn
