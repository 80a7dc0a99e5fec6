#include "daemon/supervisor/status.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace cairn {
namespace {

// 0 for what lies in the past.
std::uint64_t InMilliseconds(SteadyTime::duration time) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, ms));
}

}  // namespace

std::string StatusOf(const Users& users, std::size_t workers, std::size_t workers_max, SteadyTime began,
                     SteadyTime now) {
  const SupervisorStatus head{.magic = kStatusMagic,
                              .row_bytes = sizeof(WorkerStatus),
                              .rows = static_cast<std::uint32_t>(std::min<std::size_t>(users.size(), kStatusRowsMax)),
                              .pid = static_cast<std::uint32_t>(::getpid()),
                              .uptime_ms = InMilliseconds(now - began),
                              .workers = static_cast<std::uint32_t>(workers),
                              .workers_max = static_cast<std::uint32_t>(workers_max)};
  std::string answer(reinterpret_cast<const char*>(&head), sizeof head);
  std::uint32_t rows = 0;
  for (const auto& [uid, user] : users) {
    if (rows++ == head.rows) break;
    WorkerStatus row{};
    row.uid = uid;
    row.waiting = static_cast<std::uint32_t>(user.waiting.size());
    row.starts = user.starts, row.lost = user.lost, row.refused = user.refused;
    row.pause_ms = InMilliseconds(user.back_off.until() - now);
    if (user.worker) {
      row.pid = static_cast<std::uint32_t>(user.worker->process.pid);
      row.ending = user.worker->kill_at ? 1 : 0;
      row.age_ms = InMilliseconds(now - user.worker->started);
      row.counters = user.worker->process.page.Read();
    }
    answer.append(reinterpret_cast<const char*>(&row), sizeof row);
  }
  return answer;
}

}  // namespace cairn
