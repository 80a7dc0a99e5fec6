#include "daemon/core/over_nodes.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "storage/base/status.h"
#include "storage/format/catalogue/scheme.h"
#include "storage/place/cache/redundancy_record.h"

namespace cairn {
namespace {

constexpr std::size_t kNodeLettersShown = 8;

// --- What another node says ---

absl::Status CheckRow(const admin::DatasetRow& row, const RunId& run) {
  if (row.run() != run.Hex()) return InvalidArgument("run: not the one of the link");
  if (row.dataset() == 0) return InvalidArgument("dataset: 0");
  if (!local::Level_IsValid(row.level())) return InvalidArgument("level: {}", static_cast<int>(row.level()));
  return absl::OkStatus();
}

absl::Status CheckList(const admin::ListReply& list, const RunId& run) {
  DatasetId last = 0;
  for (int i = 0; i < list.datasets_size(); ++i) {
    const admin::DatasetRow& row = list.datasets(i);
    absl::Status status = CheckRow(row, run);
    if (status.ok() && row.dataset() <= last) status = InvalidArgument("dataset: {} after {}", row.dataset(), last);
    if (!status.ok()) return InvalidArgument("answer.list.datasets[{}].{}", i, MessageOf(status));
    last = row.dataset();
  }
  return absl::OkStatus();
}

absl::Status CheckShow(const admin::ShowReply& show, const RunId& run, DatasetId asked) {
  absl::Status status = CheckRow(show.dataset(), run);
  if (status.ok() && show.dataset().dataset() != asked) status = InvalidArgument("dataset: not the one asked for");
  if (!status.ok()) return InvalidArgument("answer.show.dataset.{}", MessageOf(status));
  CAIRN_RETURN_IF_ERROR(Annotate(CheckAsked(AskedShown(show)), "answer.show.asked_scheme"));
  for (int i = 0; i < show.ranks_size(); ++i) {
    const admin::RankRow& row = show.ranks(i);
    const bool in_order = i == 0 || row.rank() > show.ranks(i - 1).rank();
    if (!in_order || row.rank() >= show.dataset().nranks()) {
      return InvalidArgument("answer.show.ranks[{}].rank: {} of {}", i, row.rank(), show.dataset().nranks());
    }
    if (row.has_set()) {
      const absl::Status sound = CheckSet(row.set(), show.dataset().nranks());
      if (!sound.ok()) return InvalidArgument("answer.show.ranks[{}].set: {}", i, MessageOf(sound));
    }
    if (!local::Level_IsValid(row.level())) {
      return InvalidArgument("answer.show.ranks[{}].level: {}", i, static_cast<int>(row.level()));
    }
  }
  return absl::OkStatus();
}

absl::Status Check(const peer::Answer& answer, const peer::Question& question, const RunId& run) {
  switch (answer.body_case()) {
    case peer::Answer::kList:
      return CheckList(answer.list(), run);
    case peer::Answer::kShow:
      return CheckShow(answer.show(), run, question.show().dataset());
    case peer::Answer::kStatus:
      if (answer.status().run() != run.Hex()) return InvalidArgument("answer.status.run: not the one of the link");
      if (answer.status().nodes_size() == 1) return absl::OkStatus();
      return InvalidArgument("answer.status.nodes: {}, not 1", answer.status().nodes_size());
    default:
      return InvalidArgument("answer.body: {} is not known", static_cast<int>(answer.body_case()));
  }
}

void TakeTotals(const admin::NodeAnswer& from, admin::NodeAnswer& to) {
  to.set_sessions(from.sessions());
  to.set_datasets(from.datasets());
  to.set_bytes(from.bytes());
  to.set_newest_dataset(from.newest_dataset());
}

NodeVoice VoiceOf(Nodes::Said said, const peer::Question& question, const RunId& run) {
  const Member& member = said.node.member;
  NodeVoice voice;
  admin::NodeAnswer& node = voice.node;
  node.set_name(member.host);
  node.set_node(member.node);
  node.set_missing(said.node.missing);
  node.set_sessions(member.summary.sessions);
  node.set_datasets(member.summary.datasets);
  node.set_bytes(member.summary.bytes);
  node.set_newest_dataset(member.summary.newest_dataset);
  absl::Status status = said.answer.status();
  if (absl::IsNotFound(status)) return voice;
  if (status.ok()) status = Check(*said.answer, question, run);
  if (!status.ok()) {
    node.set_error(std::string(MessageOf(status)));
    return voice;
  }
  voice.answer = *std::move(said.answer);
  if (voice.answer.has_status()) TakeTotals(voice.answer.status().nodes(0), node);
  return voice;
}

// --- Rows ---

// `row` is what the node of this name says of it.
void Join(admin::DatasetRow row, const std::string& name, admin::DatasetRow& all) {
  const bool known = all.dataset() != 0;
  auto nodes = std::move(*all.mutable_nodes());
  if (row.in_cache()) nodes.Add(std::string(name));
  const bool in_cache = (known && all.in_cache()) || row.in_cache();
  const bool in_prefix = (known && all.in_prefix()) || row.in_prefix();
  const bool in_folder = (known && all.in_folder()) || row.in_folder();
  const bool pinned = (known && all.pinned()) || row.pinned();
  if (!known || row.level() > all.level()) all = std::move(row);
  all.set_in_cache(in_cache);
  all.set_in_prefix(in_prefix);
  all.set_in_folder(in_folder);
  all.set_pinned(pinned);
  *all.mutable_nodes() = std::move(nodes);
}

void Join(admin::RankRow row, const std::string& name, std::optional<admin::RankRow>& all) {
  auto nodes = all ? std::move(*all->mutable_nodes()) : google::protobuf::RepeatedPtrField<std::string>();
  if (row.in_cache()) nodes.Add(std::string(name));
  const bool in_cache = (all && all->in_cache()) || row.in_cache();
  const auto with_set = row.has_set() ? std::optional(row.set()) : std::nullopt;
  if (!all || row.level() > all->level()) {
    if (all && all->has_set()) *row.mutable_set() = all->set();
    all = std::move(row);
  }
  if (with_set) *all->mutable_set() = *with_set;
  all->set_in_cache(in_cache);
  *all->mutable_nodes() = std::move(nodes);
}

}  // namespace

OverNodes::OverNodes(const RunId& run, const peer::Question& question, const admin::NodeAnswer& own,
                     std::vector<Nodes::Said> said) {
  voices_.push_back({.node = own, .answer = {}});
  for (Nodes::Said& one : said) voices_.push_back(VoiceOf(std::move(one), question, run));
  std::multiset<std::string> hosts;
  for (const NodeVoice& voice : voices_) hosts.insert(voice.node.name());
  for (NodeVoice& voice : voices_) {
    if (hosts.count(voice.node.name()) == 1) continue;
    voice.node.set_name(fmt::format("{} ({})", voice.node.name(), voice.node.node().substr(0, kNodeLettersShown)));
  }
  std::sort(voices_.begin() + 1, voices_.end(),
            [](const NodeVoice& a, const NodeVoice& b) { return a.node.name() < b.node.name(); });
}

std::vector<admin::NodeAnswer> OverNodes::nodes() const {
  std::vector<admin::NodeAnswer> nodes;
  for (const NodeVoice& voice : voices_) nodes.push_back(voice.node);
  return nodes;
}

OverNodes::Rows OverNodes::List(Rows own, const std::string& prefix) const {
  Rows all;
  for (auto& [id, row] : own) Join(std::move(row), voices_.front().node.name(), all[id]);
  for (const NodeVoice& voice : voices_) {
    for (const admin::DatasetRow& row : voice.answer.list().datasets()) {
      Join(row, voice.node.name(), all[row.dataset()]);
      all[row.dataset()].set_prefix(prefix);  // as it is called here
    }
  }
  return all;
}

absl::StatusOr<admin::ShowReply> OverNodes::Show(absl::StatusOr<admin::ShowReply> own,
                                                 const std::string& prefix) const {
  std::vector<admin::NodeAnswer> asked = nodes();
  if (!own.ok() && !absl::IsNotFound(own.status())) asked.front().set_error(std::string(MessageOf(own.status())));
  admin::DatasetRow all;
  std::map<Rank, std::optional<admin::RankRow>> ranks;
  std::string not_redundant;  // the launch's home knows; the others have nothing to say
  AskedScheme scheme;
  const auto add = [&](const admin::ShowReply& show, const std::string& name) {
    Join(show.dataset(), name, all);
    if (!show.not_redundant().empty()) not_redundant = show.not_redundant();
    if (show.asked_scheme() != local::SCHEME_NOT_GIVEN) scheme = AskedShown(show);
    for (const admin::RankRow& row : show.ranks()) Join(row, name, ranks[row.rank()]);
  };
  if (own.ok()) add(*own, asked.front().name());
  for (const NodeVoice& voice : voices_) {
    if (voice.answer.has_show()) add(voice.answer.show(), voice.node.name());
  }
  if (all.dataset() == 0) {
    std::string silent;
    for (const admin::NodeAnswer& node : asked) {
      if (!node.here() && !node.error().empty())
        silent += fmt::format("; {} did not answer: {}", node.name(), node.error());
    }
    return MakeError(own.status().code(), "{}{}", MessageOf(own.status()), silent);
  }
  all.set_prefix(prefix);
  admin::ShowReply reply;
  if (all.level() < local::REDUNDANT) reply.set_not_redundant(not_redundant);
  ShowAsked(scheme, reply);
  *reply.mutable_dataset() = std::move(all);
  for (auto& [rank, row] : ranks) *reply.add_ranks() = std::move(*row);
  for (admin::NodeAnswer& node : asked) *reply.add_nodes() = std::move(node);
  return reply;
}

}  // namespace cairn
