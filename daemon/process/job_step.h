// Was the daemon started inside something that will end before it should?
#ifndef CAIRN_DAEMON_PROCESS_JOB_STEP_H_
#define CAIRN_DAEMON_PROCESS_JOB_STEP_H_

#include <string>
#include <string_view>

#include "daemon/config/config.h"

namespace cairn {

// Names the batch system's job or step that this process belongs to and that will end it ("Slurm step 7.0"); empty:
// none. `cgroup`: the text of /proc/self/cgroup.
std::string JobStepOf(const Surroundings& surroundings, std::string_view cgroup);

}  // namespace cairn

#endif  // CAIRN_DAEMON_PROCESS_JOB_STEP_H_
