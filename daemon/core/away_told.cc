// What a home tells and orders of the daemons that serve ranks of its launch: away.h.
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/core/away.h"
#include "daemon/peers/frames.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/scheme.h"

namespace cairn {
namespace {

AwayOrders::Then StatusOnly(std::function<void(const absl::Status& status)> then) {
  return [then = std::move(then)](const OrderEnded& how) { then(how.status); };
}

}  // namespace

// --- What is told ---

void Away::Begun(const NodeId& node, const Dataset& dataset) {
  if (!HoldersOf(dataset).contains(node)) TellBegun(node, dataset);
}

void Away::TellBegun(const NodeId& node, const Dataset& dataset) {
  peer::FromHome said;
  peer::DatasetBegun& begun = *said.mutable_begun();
  begun.set_dataset(dataset.id);
  begun.set_step(dataset.step);
  begun.set_attempt(dataset.attempt);
  begun.set_created_us(dataset.created_us);
  begun.set_ordinal(dataset.ordinal);
  begun.set_name(dataset.name);
  begun.set_user(dataset.user);
  begun.set_job(dataset.job);
  begun.set_files(dataset.kind.files);
  begun.set_checkpoint(dataset.kind.checkpoint);
  begun.set_output(dataset.kind.output);
  PutAsked(dataset.scheme, begun);
  Send(node, std::move(said));
}

void Away::TellFailed(const NodeId& node, DatasetId dataset, const std::string& why) {
  peer::FromHome said;
  said.mutable_failed()->set_dataset(dataset);
  said.mutable_failed()->set_why(why.substr(0, frames::kTextBytesMax));
  Send(node, std::move(said));
}

void Away::TellState(const NodeId& node, const Dataset& dataset) {
  if (dataset.cache == Place::kArriving) TellBegun(node, dataset);  // it may have gone on with what was said ahead
  if (dataset.in_cache() && dataset.unknown == 0) Whole(dataset);   // what others had may have been unknown till now
  if (dataset.kind.files && dataset.cache == Place::kArriving && dataset.all_captured()) AllEnded(dataset);
  if (dataset.in_cache() && dataset.is_redundant()) AllKept(dataset);
  if (!dataset.in_prefix()) return;
  peer::FromHome said;
  said.mutable_on_prefix()->set_dataset(dataset.id);
  Send(node, std::move(said));
}

void Away::Failed(const Dataset& dataset, const std::string& why) {
  for (const NodeId& node : HoldersOf(dataset)) TellFailed(node, dataset.id, why);
}

void Away::AllEnded(const Dataset& dataset) {
  peer::FromHome said;
  said.mutable_all_ended()->set_dataset(dataset.id);
  SendToHolders(dataset, said);
}

void Away::Whole(const Dataset& dataset) {
  peer::FromHome said;
  said.mutable_whole()->set_dataset(dataset.id);
  SendToHolders(dataset, said);
}

void Away::OnPrefix(const Dataset& dataset) {
  peer::FromHome said;
  said.mutable_on_prefix()->set_dataset(dataset.id);
  SendToHolders(dataset, said);
}

void Away::AllKept(const Dataset& dataset) {
  for (const NodeId& node : HoldersOf(dataset)) {
    peer::FromHome said;
    said.mutable_all_kept()->set_dataset(dataset.id);
    for (kept::Set& set : SetsAt(dataset, node)) *said.mutable_all_kept()->add_sets() = std::move(set);
    Send(node, std::move(said));
  }
}

void Away::Leaves(const Dataset& dataset, bool useless, const std::string& why) {
  peer::FromHome said;
  said.mutable_leaves()->set_dataset(dataset.id);
  said.mutable_leaves()->set_useless(useless);
  said.mutable_leaves()->set_why(why.substr(0, frames::kTextBytesMax));
  SendToHolders(dataset, said);
}

void Away::MayLeave(const Leaving& leaving) {
  if (leaving == leaving_) return;
  leaving_ = leaving;
  const peer::FromHome said = LeavingFrame();
  for (const auto& [node, daemon] : daemons_) Send(node, said);
}

peer::FromHome Away::LeavingFrame() const {
  peer::FromHome frame;
  peer::MayLeave& leaving = *frame.mutable_may_leave();
  for (const DatasetId id : leaving_.may) leaving.add_datasets(id);
  for (const DatasetId id : leaving_.will) leaving.add_will(id);
  return frame;
}

// --- What is asked ---

void Away::Complete(const Dataset& dataset, std::function<void(const absl::Status& status)> then) {
  peer::FromHome order;
  order.mutable_complete()->set_dataset(dataset.id);
  orders_.Give(AwayOrders::Kind::kComplete, dataset.id, HoldersOf(dataset), order, StatusOnly(std::move(then)));
}

void Away::Copy(const Dataset& dataset, LaunchId committer, std::function<void(const OrderEnded& copied)> then) {
  peer::FromHome order;
  order.mutable_copy()->set_dataset(dataset.id);
  order.mutable_copy()->set_committer(committer);
  std::set<NodeId> holders = HoldersOf(dataset);
  std::erase_if(holders, [this](const NodeId& node) { return !HasLink(node); });
  orders_.Give(AwayOrders::Kind::kCopy, dataset.id, holders, order, std::move(then));
}

void Away::CompleteAt(const NodeId& node, const Dataset& dataset,
                      std::function<void(const absl::Status& status)> then) {
  peer::FromHome order;
  order.mutable_complete()->set_dataset(dataset.id);
  orders_.Give(AwayOrders::Kind::kComplete, dataset.id, {node}, order, StatusOnly(std::move(then)));
}

void Away::Keep(const NodeId& node, const peer::Keep& order, std::function<void(const absl::Status& status)> then) {
  peer::FromHome said;
  *said.mutable_keep() = order;
  if (const std::size_t bytes = said.ByteSizeLong(); bytes > frames::kCarriedBytesMax) {
    return context_.loop().Post([then = std::move(then), bytes] { then(TooLong("what it is to keep", bytes)); });
  }
  orders_.Give(AwayOrders::Kind::kKeep, order.dataset(), {node}, said, StatusOnly(std::move(then)));
}

void Away::Rebuild(const NodeId& node, const peer::Rebuild& order, Made then) {
  peer::FromHome said;
  *said.mutable_rebuild() = order;
  if (const std::size_t bytes = said.ByteSizeLong(); bytes > frames::kCarriedBytesMax) {
    return context_.loop().Post([then = std::move(then), bytes] { then(TooLong("what it is to make anew", bytes)); });
  }
  orders_.Give(
      AwayOrders::Kind::kRebuild, order.dataset().dataset(), {node}, said,
      [then = std::move(then)](const OrderEnded& how) { how.status.ok() ? then(how.made) : then(how.status); });
}

}  // namespace cairn
