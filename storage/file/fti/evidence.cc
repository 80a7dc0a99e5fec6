#include "storage/file/fti/evidence.h"

#include <algorithm>
#include <set>
#include <utility>

#include "storage/base/checksum.h"
#include "storage/base/status.h"
#include "storage/file/fti/code.h"
#include "storage/file/fti/infer.h"
#include "storage/file/fti/opened.h"

namespace cairn::fti {
namespace {

constexpr std::size_t kHeadBytes = 1024;
constexpr std::size_t kCheckpointsAsked = 16;
constexpr std::size_t kCopiesAsked = 64, kGroupsAsked = 8;  // of each checkpoint
constexpr std::size_t kSamplesMax = 1 << 16;                // remembered

}  // namespace

std::optional<Evidence::Sample> Evidence::ReadSample(const std::string& path, bool is_code, bool want_head) {
  Sample sample;
  if (is_code) {
    const absl::StatusOr<OpenedCode> code = OpenCodeFile(disk_, path);
    if (!code.ok()) return std::nullopt;
    sample.shard_bytes = code->record.code_bytes;
    sample.head.resize(std::min<std::uint64_t>(kHeadBytes, sample.shard_bytes / 2 * 2));
    if (!code->file->ReadAt(0, sample.head).ok()) return std::nullopt;
    return sample;
  }
  const absl::StatusOr<OpenedFile> opened = OpenRankFile(disk_, path, std::nullopt);
  if (!opened.ok()) return std::nullopt;
  sample.identity = fmt::format("{} {}", HexOf(opened->metadata.record_hash), opened->bytes);
  if (!want_head) return sample;
  const bool length_word = HasLengthWord(opened->metadata.letter);
  const std::int64_t shard_bytes = opened->metadata.header.file_bytes_max;
  const std::uint64_t least = opened->bytes + (length_word ? sizeof(std::uint64_t) : 0);
  if (shard_bytes < 0 || static_cast<std::uint64_t>(shard_bytes) < least) return std::nullopt;
  sample.shard_bytes = static_cast<std::uint64_t>(shard_bytes);
  sample.head.resize(std::min<std::uint64_t>(kHeadBytes, sample.shard_bytes / 2 * 2));
  const ReadShard read = DataShard(*opened->file, opened->bytes, sample.shard_bytes, length_word);
  if (!read(0, sample.head).ok()) return std::nullopt;
  return sample;
}

const std::optional<Evidence::Sample>& Evidence::SampleOf(const std::string& path, bool is_code, bool want_head) {
  const auto known = samples_.find(path);
  if (known != samples_.end()) return known->second;
  if (samples_.size() >= kSamplesMax) samples_.clear();
  return samples_.emplace(path, ReadSample(path, is_code, want_head)).first->second;
}

Evidence::Answer Evidence::AskCopies(const Topology& topology, const Checkpoint& checkpoint) {
  std::size_t asked = 0, fit = 0;
  for (const auto& [holder, path] : checkpoint.copies) {
    if (asked == kCopiesAsked) break;
    ++asked;
    const auto own = checkpoint.files.find(topology.LeftOf(holder));
    if (own == checkpoint.files.end()) continue;
    const std::optional<Sample> copy = SampleOf(path, false, false);
    const std::optional<Sample>& file = SampleOf(own->second, false, false);
    if (!copy || !file) continue;
    if (copy->identity != file->identity) return Answer::kContradicts;
    ++fit;
  }
  const std::uint32_t writers = topology.nodes() * (topology.node_size - (topology.heads ? 1 : 0));
  if (fit > 0 && fit == asked && checkpoint.copies.size() == writers) return Answer::kProves;
  return fit > 0 ? Answer::kFits : Answer::kNone;
}

// With k + 1 shards there is one too many: it must be what the others make of it.
Evidence::Answer Evidence::AskGroup(const Checkpoint& checkpoint, const std::vector<std::uint32_t>& group) {
  const auto k = static_cast<std::uint32_t>(group.size());
  std::vector<std::uint32_t> present;
  std::vector<Sample> samples;
  for (std::uint32_t shard = 0; shard < 2 * k && present.size() <= k; ++shard) {
    const auto& paths = shard < k ? checkpoint.files : checkpoint.codes;
    const auto path = paths.find(group[shard % k]);
    if (path == paths.end()) continue;
    const std::optional<Sample>& sample = SampleOf(path->second, shard >= k, true);
    if (!sample) continue;
    present.push_back(shard);
    samples.push_back(*sample);
    if (sample->shard_bytes != samples.front().shard_bytes) return Answer::kContradicts;
  }
  if (present.size() <= k) return Answer::kNone;
  const std::uint32_t checked = present.back();
  const absl::StatusOr<Recipe> recipe = MakeRecipe(k, present, {&checked, 1});
  if (!recipe.ok()) return Answer::kNone;
  std::vector<const std::byte*> sources;
  for (std::uint32_t i = 0; i < k; ++i) sources.push_back(samples[i].head.data());
  std::vector<std::byte> made(samples.front().head.size());
  std::byte* const target = made.data();
  Mixer(*recipe).Mix(sources, {&target, 1}, made.size());
  return made == samples.back().head ? Answer::kProves : Answer::kContradicts;
}

Evidence::Answer Evidence::AskCodes(const Topology& topology, const Checkpoint& checkpoint) {
  if (topology.group_size > kCodedGroupMax) return Answer::kContradicts;
  Answer answer = Answer::kNone;
  std::set<std::uint32_t> asked;  // groups, by their first rank
  for (const auto& [rank, path] : checkpoint.codes) {
    const std::vector<std::uint32_t> group = topology.GroupOf(rank);
    if (!asked.insert(group.front()).second) continue;
    if (asked.size() > kGroupsAsked) break;
    answer = std::max(answer, AskGroup(checkpoint, group));
    if (answer == Answer::kContradicts) break;
  }
  return answer;
}

Evidence::Answer Evidence::Ask(const Topology& topology) {
  Answer answer = Answer::kNone;
  std::size_t asked = 0;
  for (const Checkpoint& checkpoint : checkpoints_) {
    if (!IsGrouped(checkpoint)) continue;
    if (++asked > kCheckpointsAsked) break;
    if (checkpoint.level == Level::kPartner) answer = std::max(answer, AskCopies(topology, checkpoint));
    if (checkpoint.level == Level::kEncoded) answer = std::max(answer, AskCodes(topology, checkpoint));
    if (answer == Answer::kContradicts) break;
  }
  return answer;
}

}  // namespace cairn::fti
