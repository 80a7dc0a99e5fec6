#include "daemon/core/ended_jobs.h"

#include <absl/status/statusor.h>

#include <chrono>
#include <utility>

namespace cairn {
namespace {

constexpr std::chrono::seconds kHolds(10);  // an answer
constexpr std::chrono::seconds kPatience(5);

}  // namespace

void EndedJobs::Ask(const std::string& job, Then then) {
  const SteadyTime now = context_.now();
  std::erase_if(asked_,
                [now](const auto& item) { return !item.second.asking && now >= item.second.answered + kHolds; });
  const auto [at, first] = asked_.try_emplace(job);
  Asked& asked = at->second;
  if (!first && asked.waiting.empty()) {
    return context_.loop().Post([then = std::move(then), over = asked.over] { then(over); });
  }
  asked.waiting.push_back(std::move(then));
  if (!first) return;
  RunBlocking(
      context_.env.pools.far, "Slurm", context_.loop(),
      [ask = context_.env.job_is_over, job]() -> absl::StatusOr<bool> { return ask(job); },
      [this, job](const absl::StatusOr<bool>& over) {
        Asked& answered = asked_.at(job);
        answered.asking = false;
        answered.answered = context_.now();
        answered.over = over.ok() && *over;
        Tell(job);
      });
  context_.loop().After(kPatience, [this, job] { Tell(job); });
}

// What is known by now; nothing is, while it does not answer.
void EndedJobs::Tell(const std::string& job) {
  const auto at = asked_.find(job);
  if (at == asked_.end()) return;
  const bool over = at->second.over;
  for (const Then& waiting : std::exchange(at->second.waiting, {})) waiting(over);
}

}  // namespace cairn
