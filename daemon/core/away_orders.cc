#include "daemon/core/away_orders.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::size_t kNodeLettersShown = 8;

peer::FromHome Numbered(peer::FromHome order, std::uint64_t number) {
  if (order.has_complete()) {
    order.mutable_complete()->set_order(number);
  } else if (order.has_copy()) {
    order.mutable_copy()->set_order(number);
  } else if (order.has_rebuild()) {
    order.mutable_rebuild()->set_order(number);
  } else {
    CAIRN_CHECK(order.has_keep());
    order.mutable_keep()->set_order(number);
  }
  return order;
}

}  // namespace

AwayOrders::~AwayOrders() {
  for (const auto& [key, waiting] : waiting_) {
    if (waiting.timer != 0) context_.loop().Cancel(waiting.timer);
  }
}

void AwayOrders::Give(Kind kind, DatasetId dataset, const std::set<NodeId>& nodes, const peer::FromHome& order,
                      Then then) {
  struct Gathered {
    std::size_t left = 0;
    OrderEnded how;
  };
  const auto gathered = std::make_shared<Gathered>();
  gathered->left = std::max<std::size_t>(nodes.size(), 1);
  const auto one_ended = [this, gathered, then = std::move(then)](const OrderEnded& how) {
    if (gathered->how.status.ok()) gathered->how = how;
    if (--gathered->left == 0) context_.loop().Post([then, gathered] { then(gathered->how); });
  };
  if (nodes.empty()) return one_ended({});
  for (const NodeId& node : nodes) GiveOne({kind, dataset, node}, order, one_ended);
}

void AwayOrders::GiveOne(const Key& key, const peer::FromHome& order, Then then) {
  if (waiting_.contains(key)) return then({.status = Unavailable("it is being asked for it already")});
  Waiting& waiting = waiting_[key];
  waiting.number = ++last_;
  waiting.then = std::move(then);
  const auto& [kind, dataset, node] = key;
  if (kind == Kind::kCopy || kind == Kind::kRebuild) ExpectToGoOn(key, waiting);
  if (send_(node, Numbered(order, waiting.number))) return;
  End(key, {.status = Unavailable("node {} has no link to this one", node.substr(0, kNodeLettersShown))});
}

void AwayOrders::ExpectToGoOn(const Key& key, Waiting& waiting) {
  if (waiting.timer != 0) context_.loop().Cancel(waiting.timer);
  const std::chrono::milliseconds stalled(context_.config.flush.stalled_ms);
  waiting.timer = context_.loop().After(stalled, [this, key, stalled] {
    waiting_.at(key).timer = 0;
    End(key, {.status = DeadlineExceeded("{} on node {} has not got on for {} ms: its file system may hang",
                                         std::get<Kind>(key) == Kind::kCopy ? "the copy" : "what is made anew",
                                         std::get<NodeId>(key).substr(0, kNodeLettersShown), stalled.count())});
  });
}

void AwayOrders::End(const Key& key, const OrderEnded& how) {
  const auto ended = waiting_.extract(key);
  if (!ended) return;
  if (ended.mapped().timer != 0) context_.loop().Cancel(ended.mapped().timer);
  ended.mapped().then(how);
}

void AwayOrders::Answered(Kind kind, const NodeId& node, DatasetId dataset, std::uint64_t number,
                          const OrderEnded& how) {
  const Key key{kind, dataset, node};
  const auto waiting = waiting_.find(key);
  if (waiting != waiting_.end() && waiting->second.number == number) End(key, how);
}

void AwayOrders::CopyGoesOn(const NodeId& node, const peer::CopyGoesOn& said) {
  for (const Kind kind : {Kind::kCopy, Kind::kRebuild}) {
    const Key key{kind, said.dataset(), node};
    const auto waiting = waiting_.find(key);
    if (waiting != waiting_.end() && waiting->second.number == said.order()) ExpectToGoOn(key, waiting->second);
  }
}

void AwayOrders::LinkLost(const NodeId& node, const absl::Status& why) {
  std::vector<Key> lost;
  for (const auto& [key, waiting] : waiting_) {
    if (std::get<NodeId>(key) == node) lost.push_back(key);
  }
  for (const Key& key : lost) End(key, {.status = why});
}

}  // namespace cairn
