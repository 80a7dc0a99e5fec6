#include "storage/base/launch_key.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "storage/base/path.h"

namespace cairn {
namespace {

struct SlurmJob {
  std::string job;
  std::uint64_t restarts = 0;
};

std::vector<std::string_view> Fields(std::string_view text, char separator) {
  std::vector<std::string_view> fields;
  for (;;) {
    const std::size_t at = text.find(separator);
    fields.push_back(text.substr(0, at));
    if (at == text.npos) return fields;
    text.remove_prefix(at + 1);
  }
}

// "slurm:<job>.<step>.<restarts>", or "pmix:<name space>:<pmix job>:<job>:<restarts>:<more>" (ompi: likewise).
std::optional<SlurmJob> JobOf(std::string_view key) {
  const bool slurm = key.starts_with("slurm:");
  if (!slurm && !key.starts_with("pmix:") && !key.starts_with("ompi:")) return std::nullopt;
  const std::vector<std::string_view> fields = slurm ? Fields(key.substr(6), '.') : Fields(key, ':');
  if (slurm ? fields.size() != 3 : fields.size() < 6) return std::nullopt;
  const std::string_view job = slurm ? fields[0] : fields[3];
  const std::string_view restarts = slurm ? fields[2] : fields[4];
  const auto number = NumberAfter(restarts.empty() ? "0" : restarts, "");
  if (job.empty() || !number) return std::nullopt;
  return SlurmJob{.job = std::string(job), .restarts = *number};
}

}  // namespace

std::string SlurmJobOf(std::string_view key) {
  const auto job = JobOf(key);
  const bool number = job && std::ranges::all_of(job->job, [](char c) { return c >= '0' && c <= '9'; });
  return number ? job->job : "";
}

bool IsRestartOf(std::string_view later, std::string_view earlier) {
  const auto now = JobOf(later), before = JobOf(earlier);
  return now && before && now->job == before->job && now->restarts > before->restarts;
}

}  // namespace cairn
