#include "client/cli/redundancy_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "client/cli/describe.h"
#include "client/cli/nodes_asked.h"
#include "client/cli/text.h"
#include "storage/format/catalogue/scheme.h"

namespace cairn::cli {
namespace {

std::string SchemeText(const kept::Set& set) {
  switch (set.scheme()) {
    case kept::PARTNER:
      return "partner";
    case kept::XOR:
      return "xor";
    case kept::RS:
      return fmt::format("rs, {} checksums", set.checksums());
    default:
      return "single";
  }
}

// With copies: does each run of lost or useless members leave one that keeps the copy? The next ones to the right keep
// it.
int CopiesBear(const SetState& state) {
  const std::size_t count = state.members.size();
  const auto replicas = static_cast<std::size_t>(state.set.replicas());
  int bears = static_cast<int>(replicas);
  for (std::size_t i = 0; i < count; ++i) {
    const bool lost = state.members[i].nodes.empty();
    int copies = lost ? 0 : 1;
    for (std::size_t k = 1; k <= replicas; ++k) {
      const SetState::Member& keeper = state.members[(i + k) % count];
      copies += !keeper.nodes.empty() && keeper.keeps ? 1 : 0;
    }
    bears = std::min(bears, copies - 1);
  }
  return bears;
}

int Bears(const SetState& state) {
  if (state.set.scheme() == kept::PARTNER) return CopiesBear(state);
  const int checksums = state.set.scheme() == kept::RS ? static_cast<int>(state.set.checksums()) : 1;
  const auto useless = std::ranges::count_if(
      state.members, [](const SetState::Member& member) { return member.nodes.empty() || !member.keeps; });
  return std::max(checksums - static_cast<int>(useless), state.lost == 0 ? 0 : -1);
}

std::string BearsText(const SetState& state) {
  if (state.bears < 0) return fmt::format("{} lost, too many to rebuild", state.lost);
  const std::string lost = state.lost == 0 ? "" : fmt::format("{} lost, can be rebuilt; ", state.lost);
  if (state.bears == 0) return lost + "none of its members may be lost now";
  return fmt::format("{}any {} of its members may be lost", lost, state.bears);
}

std::string MemberText(const SetState::Member& member) {
  if (member.nodes.empty()) return "[.....] [.....]  on no node that answered";
  return fmt::format("[files] {}  {}", member.keeps ? "[keeps]" : "[     ]", fmt::join(member.nodes, ", "));
}

}  // namespace

std::vector<SetState> SetsOf(const admin::ShowReply& show) {
  std::map<std::uint32_t, SetState> by_group;
  std::map<Rank, const admin::RankRow*> rows;
  for (const admin::RankRow& row : show.ranks()) {
    rows[row.rank()] = &row;
    if (row.has_set()) by_group[row.set().group()].set = row.set();
  }
  std::vector<SetState> all;
  for (auto& [group, state] : by_group) {
    for (const Rank rank : state.set.ranks()) {
      SetState::Member member{.rank = rank, .nodes = {}};
      if (const auto row = rows.find(rank); row != rows.end()) {
        member.nodes.assign(row->second->nodes().begin(), row->second->nodes().end());
        if (member.nodes.empty() && row->second->in_cache()) member.nodes.emplace_back("this node");
        member.keeps = row->second->has_set();
      }
      state.lost += member.nodes.empty() ? 1 : 0;
      state.members.push_back(std::move(member));
    }
    state.bears = Bears(state);
    all.push_back(std::move(state));
  }
  return all;
}

std::string DescribeRedundancy(const admin::ShowReply& show) {
  const admin::DatasetRow& row = show.dataset();
  std::string text = fmt::format("dataset {} of run {}  {}\n  step {}, {} ranks, level {}, in {}\n", row.dataset(),
                                 row.run().substr(0, 8), Clean(row.prefix()), row.step(), row.nranks(),
                                 LevelText(row.level()), WhereText(row));
  text += DescribeScheme(AskedShown(show));
  const std::vector<SetState> sets = SetsOf(show);
  if (row.in_folder()) text += "  it is in redundant.path, and survives the loss of all nodes\n";
  if (sets.empty() && !row.in_folder()) {
    text += fmt::format("  no rank keeps anything for others{}\n",
                        show.not_redundant().empty() ? "" : ": " + Clean(show.not_redundant()));
  }
  for (const SetState& state : sets) {
    text += fmt::format("  set {} of {} ({}): {}\n", state.set.group() + 1, state.set.groups(), SchemeText(state.set),
                        BearsText(state));
    for (const SetState::Member& member : state.members) {
      text += fmt::format("    rank {:<6} {}\n", member.rank, Clean(MemberText(member)));
    }
  }
  if (row.in_prefix()) text += "  it is on the prefix, and survives the loss of all nodes\n";
  return text + DescribeSilent(show.nodes());
}

Json RedundancyJson(const admin::ShowReply& show) {
  Json sets = Json::array();
  for (const SetState& state : SetsOf(show)) {
    Json members = Json::array();
    for (const SetState::Member& member : state.members) {
      members.push_back({{"rank", member.rank}, {"nodes", member.nodes}, {"keeps", member.keeps}});
    }
    sets.push_back({{"scheme", SchemeText(state.set)},
                    {"set", state.set.group() + 1},
                    {"members", std::move(members)},
                    {"lost", state.lost},
                    {"bears", state.bears}});
  }
  return {{"dataset", show.dataset().dataset()},
          {"level", LevelText(show.dataset().level())},
          {"in_folder", show.dataset().in_folder()},
          {"in_prefix", show.dataset().in_prefix()},
          {"asked_scheme", TextOfScheme(AskedShown(show))},
          {"sets", std::move(sets)},
          {"not_redundant", show.not_redundant()}};
}

std::string DescribeRebuilt(DatasetId dataset, const admin::RebuildReply& reply) {
  if (reply.ranks().empty()) return fmt::format("dataset {}: nothing of it is lost\n", dataset);
  std::string text;
  for (const admin::RebuiltRank& rank : reply.ranks()) {
    std::vector<Rank> others;
    for (const Rank member : rank.set().ranks()) {
      if (member != rank.rank()) others.push_back(member);
    }
    text += fmt::format("dataset {}: rank {} ({}) was rebuilt from what ranks {} have and keep on {} ({})\n", dataset,
                        rank.rank(), Bytes(rank.bytes()), fmt::join(others, ", "), fmt::join(rank.nodes(), ", "),
                        SchemeText(rank.set()));
  }
  return text;
}

Json RebuiltJson(const admin::RebuildReply& reply) {
  Json all = Json::array();
  for (const admin::RebuiltRank& rank : reply.ranks()) {
    all.push_back({{"rank", rank.rank()},
                   {"bytes", rank.bytes()},
                   {"scheme", SchemeText(rank.set())},
                   {"set", std::vector<Rank>(rank.set().ranks().begin(), rank.set().ranks().end())},
                   {"nodes", std::vector<std::string>(rank.nodes().begin(), rank.nodes().end())}});
  }
  return all;
}

}  // namespace cairn::cli
