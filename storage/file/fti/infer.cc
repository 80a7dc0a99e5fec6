#include "storage/file/fti/infer.h"

#include <algorithm>
#include <numeric>

#include "storage/base/status.h"
#include "storage/file/fti/evidence.h"
#include "storage/file/fti/names.h"

namespace cairn::fti {
namespace {

constexpr std::uint32_t kNodeSizeTried = 1024, kGroupSizeTried = 64;
constexpr std::string_view kOptions = "say --node-size, --group-size, --ranks and --heads, or --config";

std::uint64_t RoundUp(std::uint64_t number, std::uint64_t unit) {
  return (number + unit - 1) / unit * unit;
}

// Numbers that are told, or all that may be.
std::vector<std::uint32_t> Choices(std::optional<std::uint32_t> told, std::uint32_t from, std::uint32_t to) {
  if (told.has_value()) return {*told};
  std::vector<std::uint32_t> choices(to >= from ? to - from + 1 : 0);
  std::iota(choices.begin(), choices.end(), from);
  return choices;
}

class Candidates {
 public:
  Candidates(const Told& told, const Seen& seen, bool grouped) : told_(told), seen_(seen), grouped_(grouped) {}

  std::vector<Topology> All() {
    const bool rank_0 = !seen_.has_files.empty() && seen_.has_files[0];
    if (!told_.heads.value_or(false)) WithHeads(false);
    if (told_.heads.value_or(!rank_0)) WithHeads(true);
    return std::move(all_);
  }

 private:
  void WithHeads(bool heads) {
    std::optional<std::uint32_t> node_size = told_.node_size;
    if (!node_size && told_.ranks && told_.nodes && *told_.nodes > 0) node_size = *told_.ranks / *told_.nodes;
    const std::uint32_t last = std::min(std::max(seen_.ranks, 1u), kNodeSizeTried);
    for (const std::uint32_t choice : Choices(node_size, heads ? 2 : 1, last)) {
      const std::size_t before = all_.size();
      if (choice > 0 && NodeSizeFits(choice, heads)) WithNodeSize(choice, heads);
      // Without groups and heads the node size says nothing about who has a file: the least one stands for all.
      if (all_.size() > before && !grouped_ && !heads) return;
    }
  }

  bool NodeSizeFits(std::uint32_t node_size, bool heads) const {
    if (heads && node_size < 2) return false;
    if (!told_.node_size) {
      for (const auto& [node, rank] : seen_.places) {
        if (rank / node_size != node) return false;
      }
    }
    for (std::size_t rank = 0; heads && rank < seen_.has_files.size(); rank += node_size) {
      if (seen_.has_files[rank]) return false;
    }
    return true;
  }

  void WithNodeSize(std::uint32_t node_size, bool heads) {
    std::optional<std::uint64_t> ranks;
    if (told_.ranks) {
      ranks = *told_.ranks;
    } else if (told_.nodes) {
      ranks = std::uint64_t{*told_.nodes} * node_size;
    }
    const std::uint64_t least = std::max(RoundUp(seen_.ranks, node_size), std::uint64_t{seen_.nodes} * node_size);
    const std::uint64_t nodes = ranks.value_or(least) / node_size;
    // Where the number of nodes is not told, up to half of them may be lost.
    const auto last = static_cast<std::uint32_t>(std::min<std::uint64_t>(ranks ? nodes : 2 * nodes, kGroupSizeTried));
    for (const std::uint32_t group_size : Choices(told_.group_size, grouped_ ? 2 : 1, grouped_ ? last : 1)) {
      if (group_size == 0) continue;
      const std::uint64_t all = ranks.value_or(RoundUp(least, std::uint64_t{node_size} * group_size));
      if (all > kRanksMax) continue;
      const Topology topology = {
          .ranks = static_cast<std::uint32_t>(all), .node_size = node_size, .group_size = group_size, .heads = heads};
      if (seen_.ranks <= topology.ranks && CheckTopology(topology).ok()) all_.push_back(topology);
    }
  }

  const Told& told_;
  const Seen& seen_;
  const bool grouped_;  // there are checkpoints of level 2 or 3
  std::vector<Topology> all_;
};

std::string TextOf(const Topology& topology) {
  return fmt::format("{} ranks, {} a node{}, {} nodes a group", topology.ranks, topology.node_size,
                     topology.heads ? " with heads" : "", topology.group_size);
}

}  // namespace

std::pair<std::uint32_t, std::uint32_t> Seen::NodeSizes() const {
  std::uint32_t least = 1, most = kRanksMax;
  for (const auto& [node, rank] : places) {
    least = std::max(least, rank / (node + 1) + 1);
    if (node > 0) most = std::min(most, rank / node);
  }
  return {least, most};
}

bool Seen::NodeSizeIsClear() const {
  const auto [least, most] = NodeSizes();
  return least == most;
}

absl::Status CheckTopology(const Topology& topology) {
  const auto& [ranks, node_size, group_size, heads] = topology;
  if (ranks == 0 || node_size == 0 || group_size == 0) {
    return InvalidArgument("{} ranks, {} a node, {} nodes a group: none of them may be 0", ranks, node_size,
                           group_size);
  }
  if (ranks > kRanksMax) return InvalidArgument("{} ranks, at most {} are handled", ranks, kRanksMax);
  if (ranks % node_size != 0) return InvalidArgument("{} ranks are no multiple of {} ranks a node", ranks, node_size);
  if (ranks / node_size % group_size != 0) {
    return InvalidArgument("{} nodes are no multiple of {} nodes a group", ranks / node_size, group_size);
  }
  if (heads && node_size < 2) return InvalidArgument("with heads a node has at least 2 ranks, not {}", node_size);
  return absl::OkStatus();
}

absl::Status CheckTold(const Told& told) {
  const std::uint64_t group_size = told.group_size.value_or(1), nodes = told.nodes.value_or(group_size);
  std::uint64_t node_size = told.node_size.value_or(1);
  const std::uint64_t ranks = told.ranks.has_value() ? *told.ranks : nodes * node_size;
  if (ranks > kRanksMax) return InvalidArgument("{} ranks, at most {} are handled", ranks, kRanksMax);
  if (told.ranks && told.nodes) {
    if (nodes == 0 || ranks % nodes != 0) return InvalidArgument("{} ranks are no multiple of {} nodes", ranks, nodes);
    node_size = told.node_size.value_or(ranks / nodes);
  }
  const bool nodes_known = !told.ranks || told.node_size || told.nodes;
  return CheckTopology({.ranks = static_cast<std::uint32_t>(ranks),
                        .node_size = static_cast<std::uint32_t>(node_size),
                        .group_size = nodes_known ? static_cast<std::uint32_t>(group_size) : 1,
                        .heads = told.node_size.has_value() && told.heads.value_or(false)});
}

absl::StatusOr<Topology> InferTopology(Disk& disk, const Told& told, const Seen& seen,
                                       const std::vector<Checkpoint>& checkpoints) {
  const bool grouped = std::any_of(checkpoints.begin(), checkpoints.end(), IsGrouped);
  std::vector<Topology> candidates = Candidates(told, seen, grouped).All();
  if (candidates.empty()) {
    return FailedPrecondition("no number of ranks, nodes and groups fits the files: {}", kOptions);
  }
  if (candidates.size() == 1) return candidates.front();
  Evidence evidence(disk, checkpoints);
  std::vector<Topology> proven, fitting;
  for (const Topology& candidate : candidates) {
    const Evidence::Answer answer = evidence.Ask(candidate);
    if (answer == Evidence::Answer::kProves) proven.push_back(candidate);
    if (answer == Evidence::Answer::kFits) fitting.push_back(candidate);
  }
  const std::vector<Topology>& best = proven.empty() ? fitting : proven;
  if (best.size() == 1) return best.front();
  if (best.empty())
    return FailedPrecondition("how ranks, nodes and groups were is not clear from the files: {}", kOptions);
  return FailedPrecondition("how ranks, nodes and groups were is not clear from the files ({}; or {}): {}",
                            TextOf(best[0]), TextOf(best[1]), kOptions);
}

}  // namespace cairn::fti
