#include "storage/file/redundancy/stripes.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/file/redundancy/gf256.h"

namespace cairn::redundancy {
namespace {

constexpr std::uint64_t kMemoryBytes = 8 << 20;
constexpr std::uint64_t kBlockBytesMax = 64 << 10;  // so that those of a set are in a core's own cache together
constexpr std::uint64_t kBlockBytesMin = 4 << 10;

// A member's part in one stripe.
struct Shard {
  std::uint32_t member = 0;
  std::optional<std::uint32_t> checksum;  // which; else it is data
  std::uint64_t offset = 0;               // in the payload, or in the logical file
  bool there = false;
  WriteAt write;  // lost and wanted
};

// What is to be computed of a stripe: the first shards are read, the others made of them.
struct Plan {
  std::vector<Shard> sources, targets;
  Matrix factors;  // by target, then by source
};

class Stripes {
 public:
  // `compare`: what is there and not needed is compared with what the rest makes of it.
  Stripes(const Set& set, const std::map<std::uint32_t, Targets>& targets, bool compare = true)
      : set_(set),
        targets_(targets),
        compare_(compare),
        members_(static_cast<std::uint32_t>(set.members.size())),
        checksums_(ChecksumsOf(set)) {
    for (std::uint32_t i = 0; i < checksums_; ++i) {
      rows_.push_back(set.scheme == scr::Scheme::kRs ? ChecksumRow(members_, i) : Row(members_, 1));
    }
  }

  absl::StatusOr<std::optional<Difference>> Walk() {
    for (std::uint32_t stripe = 0; stripe < members_; ++stripe) CAIRN_RETURN_IF_ERROR(CheckLosses(stripe));
    std::optional<Difference> first;
    // A member's checksums are those of the stripe of its number and of the next ones.
    const std::uint32_t begin = targets_.empty() ? 0 : targets_.begin()->first;
    for (std::uint32_t i = 0; i < members_; ++i) {
      CAIRN_ASSIGN_OR_RETURN(const auto difference, WalkStripe((begin + i) % members_, 0, set_.chunk_bytes));
      if (difference && !first) first = difference;
    }
    return first;
  }

  absl::Status CheckData(std::uint32_t member) const {
    for (std::uint32_t stripe = 0; stripe < members_; ++stripe) {
      const Shard shard = ShardOf(stripe, member);
      if (shard.checksum || shard.offset >= set_.members[member].bytes) continue;
      CAIRN_RETURN_IF_ERROR(CheckLosses(stripe));
    }
    return absl::OkStatus();
  }

  // [begin, end) of the member's data, by way of its target.
  absl::Status WalkData(std::uint32_t member, std::uint64_t begin, std::uint64_t end) const {
    for (std::uint32_t stripe = 0; stripe < members_; ++stripe) {
      const Shard shard = ShardOf(stripe, member);
      const std::uint64_t from = std::max(begin, shard.offset), to = std::min(end, shard.offset + set_.chunk_bytes);
      if (shard.checksum || from >= to) continue;
      CAIRN_RETURN_IF_ERROR(CheckLosses(stripe));
      CAIRN_RETURN_IF_ERROR(WalkStripe(stripe, from - shard.offset, to - shard.offset).status());
    }
    return absl::OkStatus();
  }

  std::vector<Ranges> Unchecked() const {
    std::vector<Ranges> unchecked(members_);
    for (std::uint32_t stripe = 0; stripe < members_; ++stripe) {
      const std::vector<Shard> shards = ShardsOf(stripe);
      const std::uint64_t end = SpareFrom(shards);
      for (const Shard& shard : shards) {
        if (shard.checksum || end == 0) continue;
        AddRange({.begin = shard.offset, .end = std::min(shard.offset + end, set_.members[shard.member].bytes)},
                 &unchecked[shard.member]);
      }
    }
    return unchecked;
  }

 private:
  // A member holds checksum (stripe - member) mod n if that is below k; else the chunk whose number is that of the
  // stripe, less the stripes before in which it holds checksums: those from `member` on, around the end.
  Shard ShardOf(std::uint32_t stripe, std::uint32_t member) const {
    Shard shard{.member = member, .checksum = {}, .write = {}};
    const Member& of = set_.members[member];
    const auto target = targets_.find(member);
    if (const std::uint32_t distance = (stripe + members_ - member) % members_; distance < checksums_) {
      shard.checksum = distance;
      shard.offset = distance * set_.chunk_bytes;
      shard.there = static_cast<bool>(of.payload);
      if (!shard.there && target != targets_.end()) shard.write = target->second.payload;
      return shard;
    }
    const std::uint32_t around = member + checksums_ > members_ ? member + checksums_ - members_ : 0;
    const std::uint32_t before = stripe > member ? checksums_ - around : 0;
    shard.offset = (stripe - before - std::min(around, stripe)) * set_.chunk_bytes;
    shard.there = static_cast<bool>(of.data);
    if (!shard.there && target != targets_.end()) shard.write = target->second.data;
    return shard;
  }

  std::vector<Shard> ShardsOf(std::uint32_t stripe) const {
    std::vector<Shard> shards;
    for (std::uint32_t member = 0; member < members_; ++member) shards.push_back(ShardOf(stripe, member));
    return shards;
  }

  static std::size_t ChecksumsThere(const std::vector<Shard>& shards) {
    return static_cast<std::size_t>(
        std::count_if(shards.begin(), shards.end(), [](const Shard& shard) { return shard.checksum && shard.there; }));
  }

  // How much the files have of the chunks that are lost, the most first: behind that a chunk is zeros, which are known.
  std::vector<std::uint64_t> LostBytes(const std::vector<Shard>& shards) const {
    std::vector<std::uint64_t> lost;
    for (const Shard& shard : shards) {
      const std::uint64_t bytes = set_.members[shard.member].bytes;
      if (shard.checksum || shard.there || bytes <= shard.offset) continue;
      lost.push_back(std::min(bytes - shard.offset, set_.chunk_bytes));
    }
    std::sort(lost.rbegin(), lost.rend());
    return lost;
  }

  // From where on in the stripe's chunks a checksum is there that no lost chunk takes.
  std::uint64_t SpareFrom(const std::vector<Shard>& shards) const {
    const std::vector<std::uint64_t> lost = LostBytes(shards);
    const std::size_t checksums = ChecksumsThere(shards);
    if (checksums == 0) return set_.chunk_bytes;
    return lost.size() < checksums ? 0 : lost[checksums - 1];
  }

  // Where what is lost changes within the stripe's chunks, from where on it can be made of the rest.
  std::vector<std::uint64_t> BoundsOf(const std::vector<Shard>& shards) const {
    const std::vector<std::uint64_t> lost = LostBytes(shards);
    const std::size_t checksums = ChecksumsThere(shards);
    std::vector<std::uint64_t> bounds = {lost.size() > checksums ? lost[checksums] : 0, set_.chunk_bytes};
    bounds.insert(bounds.end(), lost.begin(), lost.begin() + std::min(lost.size(), checksums));
    std::sort(bounds.begin(), bounds.end());
    bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
    return bounds;
  }

  // From `at` on in the chunks. Behind a file's end nothing is lost.
  std::vector<Shard> ShardsAt(std::vector<Shard> shards, std::uint64_t at) const {
    for (Shard& shard : shards) {
      if (shard.checksum || shard.there || shard.offset + at < set_.members[shard.member].bytes) continue;
      shard.there = true;
      shard.write = {};
    }
    return shards;
  }

  // Each lost chunk takes one checksum that is there. (A chunk of zeros beyond a short file's end counts, too: as SCR
  // has it, whoever has lost his files is lost.)
  absl::Status CheckLosses(std::uint32_t stripe) const {
    std::uint32_t chunks_lost = 0, checksums = 0;
    bool wanted = false;
    std::string lost;
    for (const Shard& shard : ShardsOf(stripe)) {
      wanted |= static_cast<bool>(shard.write);
      if (shard.checksum) checksums += shard.there;
      if (!shard.checksum) chunks_lost += !shard.there;
      if (!shard.there) lost += fmt::format("{}{}", lost.empty() ? "" : ", ", shard.member);
    }
    if (!wanted || chunks_lost <= checksums) return absl::OkStatus();
    return DataLoss("members {} of the set of {} are lost, more than {} can be rebuilt", lost, members_, checksums_);
  }

  // Sources are the chunks that are there, and for each lost one a checksum; all other shards are targets.
  // nullopt: nothing can be said of them.
  std::optional<Plan> MakePlan(std::vector<Shard> shards) const {
    Plan plan;
    std::vector<Shard> lost, spare;
    for (Shard& shard : Sorted(std::move(shards))) {
      if (!shard.checksum && shard.there)
        plan.sources.push_back(std::move(shard));
      else if (!shard.checksum)
        lost.push_back(std::move(shard));
      else
        spare.push_back(std::move(shard));
    }
    Matrix system, known;  // of the checksums taken: factors of the lost chunks, and of the sources
    for (auto shard = spare.begin(); shard != spare.end() && system.size() < lost.size();) {
      if (!shard->there) {
        ++shard;
        continue;
      }
      const Row& row = rows_[*shard->checksum];
      Row of_lost;
      for (const Shard& chunk : lost) of_lost.push_back(row[chunk.member]);
      system.push_back(std::move(of_lost));
      plan.sources.push_back(std::move(*shard));
      shard = spare.erase(shard);
    }
    if (system.size() < lost.size() || plan.sources.empty()) return std::nullopt;
    const Matrix chunks = LostChunks(plan.sources, Inverted(std::move(system)));
    for (std::size_t i = 0; i < lost.size(); ++i) AddTarget(lost[i], chunks[i], plan);
    for (const Shard& shard : spare) AddTarget(shard, Checksum(*shard.checksum, plan.sources, lost, chunks), plan);
    return plan;
  }

  static std::vector<Shard> Sorted(std::vector<Shard> shards) {
    std::stable_sort(shards.begin(), shards.end(),
                     [](const Shard& a, const Shard& b) { return a.checksum.value_or(0) < b.checksum.value_or(0); });
    return shards;
  }

  void AddTarget(const Shard& shard, Row factors, Plan& plan) const {
    if (shard.there ? !compare_ : !shard.write) return;
    plan.targets.push_back(shard);
    plan.factors.push_back(std::move(factors));
  }

  // The lost chunks, made of the sources: solution * (checksum taken + what the chunks that are there add to it).
  Matrix LostChunks(const std::vector<Shard>& sources, const Matrix& solution) const {
    const std::size_t data = sources.size() - solution.size();
    Matrix chunks(solution.size(), Row(sources.size()));
    for (std::size_t i = 0; i < solution.size(); ++i) {
      for (std::size_t taken = 0; taken < solution.size(); ++taken) {
        const Row& row = rows_[*sources[data + taken].checksum];
        chunks[i][data + taken] = solution[i][taken];
        for (std::size_t s = 0; s < data; ++s) chunks[i][s] ^= Multiply(solution[i][taken], row[sources[s].member]);
      }
    }
    return chunks;
  }

  Row Checksum(std::uint32_t checksum, const std::vector<Shard>& sources, const std::vector<Shard>& lost,
               const Matrix& chunks) const {
    Row factors(sources.size());
    for (std::size_t s = 0; s < sources.size(); ++s) {
      if (!sources[s].checksum) factors[s] = rows_[checksum][sources[s].member];
      for (std::size_t i = 0; i < lost.size(); ++i) {
        factors[s] ^= Multiply(rows_[checksum][lost[i].member], chunks[i][s]);
      }
    }
    return factors;
  }

  // [begin, end) of a stripe's chunks.
  absl::StatusOr<std::optional<Difference>> WalkStripe(std::uint32_t stripe, std::uint64_t begin,
                                                       std::uint64_t end) const {
    const std::vector<Shard> shards = ShardsOf(stripe);
    const std::vector<std::uint64_t> bounds = BoundsOf(shards);
    std::optional<Difference> first;
    for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
      const std::uint64_t from = std::max(begin, bounds[i]), to = std::min(end, bounds[i + 1]);
      if (from >= to) continue;
      CAIRN_ASSIGN_OR_RETURN(const auto difference,
                             WalkPart(MakePlan(ShardsAt(shards, bounds[i])), from, to, bounds[i + 1]));
      if (difference && !first) first = difference;
    }
    return first;
  }

  // The same, where all of it is lost or there alike: up to `part_end`.
  absl::StatusOr<std::optional<Difference>> WalkPart(const std::optional<Plan>& plan, std::uint64_t begin,
                                                     std::uint64_t end, std::uint64_t part_end) const {
    if (!plan || plan->targets.empty()) return std::nullopt;
    for (const Shard& shard : plan->sources) Expect(shard, begin, part_end);
    for (const Shard& shard : plan->targets) {
      if (shard.there) Expect(shard, begin, part_end);
    }
    const std::size_t sources = plan->sources.size(), targets = plan->targets.size();
    const std::uint64_t shards_count = sources + targets + 1;  // one to compare with
    const std::uint64_t block =
        std::min<std::uint64_t>(std::clamp(kMemoryBytes / shards_count, kBlockBytesMin, kBlockBytesMax), end - begin);
    Shards shards(shards_count, block);
    Mixer mixer(plan->factors);
    std::vector<const std::byte*> from(sources);
    std::vector<std::byte*> made(targets);
    for (std::size_t i = 0; i < targets; ++i) made[i] = shards.at(sources + i);
    std::optional<Difference> first;
    for (std::uint64_t at = begin; at < end; at += block) {
      const auto count = static_cast<std::size_t>(std::min(block, end - at));
      for (std::size_t i = 0; i < sources; ++i) {
        CAIRN_ASSIGN_OR_RETURN(from[i], Find(plan->sources[i], at, {shards.at(i), count}));
      }
      mixer.Mix(from, made, count);
      for (std::size_t i = 0; i < targets; ++i) {
        CAIRN_ASSIGN_OR_RETURN(const auto difference,
                               Finish(plan->targets[i], at, {made[i], count}, {shards.at(shards_count - 1), count}));
        if (difference && !first) first = difference;
      }
    }
    return first;
  }

  // How much of [offset, offset + count) the member's file has.
  std::size_t Within(const Shard& shard, std::uint64_t offset, std::size_t count) const {
    if (shard.checksum) return count;
    const std::uint64_t bytes = set_.members[shard.member].bytes;
    return offset >= bytes ? 0 : static_cast<std::size_t>(std::min<std::uint64_t>(count, bytes - offset));
  }

  const Source& SourceOf(const Shard& shard) const {
    const Member& member = set_.members[shard.member];
    return shard.checksum ? member.payload : member.data;
  }

  void Expect(const Shard& shard, std::uint64_t begin, std::uint64_t end) const {
    const Source& source = SourceOf(shard);
    const std::size_t count = Within(shard, shard.offset + begin, end - begin);
    if (source.expect && count > 0) source.expect(shard.offset + begin, count);
  }

  // Where so many bytes of the shard are, from `at` on: at their owner's, if he has all of them in one piece, else in
  // `scratch`.
  absl::StatusOr<const std::byte*> Find(const Shard& shard, std::uint64_t at, std::span<std::byte> scratch) const {
    const std::uint64_t offset = shard.offset + at;
    if (const Source& source = SourceOf(shard);
        source.lend && Within(shard, offset, scratch.size()) == scratch.size()) {
      CAIRN_ASSIGN_OR_RETURN(const auto lent, source.lend(offset, scratch.size()));
      if (lent.size() == scratch.size()) return lent.data();
    }
    CAIRN_RETURN_IF_ERROR(Read(shard, at, scratch));
    return scratch.data();
  }

  absl::Status Read(const Shard& shard, std::uint64_t at, std::span<std::byte> target) const {
    const std::uint64_t offset = shard.offset + at;
    const std::size_t count = Within(shard, offset, target.size());
    std::fill(target.begin() + static_cast<std::ptrdiff_t>(count), target.end(), std::byte{0});
    return count == 0 ? absl::OkStatus() : SourceOf(shard).read(offset, target.first(count));
  }

  // Writes a target that is lost, or compares one that is there: a checksum that was not needed.
  absl::StatusOr<std::optional<Difference>> Finish(const Shard& shard, std::uint64_t at,
                                                   std::span<const std::byte> made,
                                                   std::span<std::byte> scratch) const {
    const std::uint64_t offset = shard.offset + at;
    if (!shard.there) {
      if (const std::size_t count = Within(shard, offset, made.size()); count > 0) {
        CAIRN_RETURN_IF_ERROR(shard.write(offset, made.first(count)));
      }
      return std::nullopt;
    }
    CAIRN_RETURN_IF_ERROR(Read(shard, at, scratch));
    if (std::memcmp(made.data(), scratch.data(), made.size()) == 0) return std::nullopt;
    const auto differs = std::mismatch(made.begin(), made.end(), scratch.begin());
    const auto index = static_cast<std::uint64_t>(differs.first - made.begin());
    return Difference{.member = shard.member, .offset = offset + index};
  }

  const Set& set_;
  const std::map<std::uint32_t, Targets>& targets_;
  const bool compare_;
  const std::uint32_t members_, checksums_;
  Matrix rows_;
};

}  // namespace

std::uint32_t ChecksumsOf(const Set& set) {
  return set.scheme == scr::Scheme::kRs ? set.checksums : 1;
}

absl::StatusOr<std::optional<Difference>> WalkStripes(const Set& set, const std::map<std::uint32_t, Targets>& targets) {
  return Stripes(set, targets).Walk();
}

absl::Status CheckLostStripes(const Set& set, std::uint32_t member) {
  const WriteAt none = [](std::uint64_t, std::span<const std::byte>) { return absl::OkStatus(); };
  return Stripes(set, {{member, {.data = none, .payload = {}}}}).CheckData(member);
}

absl::Status ReadLostStripes(const Set& set, std::uint32_t member, std::uint64_t offset, std::span<std::byte> target) {
  const WriteAt write = [&](std::uint64_t at, std::span<const std::byte> bytes) {
    std::ranges::copy(bytes, target.begin() + static_cast<std::ptrdiff_t>(at - offset));
    return absl::OkStatus();
  };
  return Stripes(set, {{member, {.data = write, .payload = {}}}}, /*compare=*/false)
      .WalkData(member, offset, offset + target.size());
}

std::vector<Ranges> UncheckedStripes(const Set& set) {
  return Stripes(set, {}).Unchecked();
}

}  // namespace cairn::redundancy
