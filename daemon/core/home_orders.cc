// What a launch's home says and orders, and what is answered: home.h.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "daemon/core/home.h"
#include "daemon/peers/answers.h"
#include "storage/base/status.h"

namespace cairn {

Home::OfRankPtr Home::RankOf(std::uint64_t number) const {
  const auto rank = ranks_.find(number);
  return rank == ranks_.end() ? nullptr : rank->second;
}

void Home::OnFrame(const peer::Frame& frame) {
  const peer::FromHome& said = frame.from_home();
  switch (said.body_case()) {
    case peer::FromHome::kToRank:
      return OnReply(said.to_rank());
    case peer::FromHome::kRankClosed:
      if (const OfRankPtr rank = RankOf(said.rank_closed().session())) rank->connection->Close();
      return;
    case peer::FromHome::kBegun:
      return orders_.on_begun(said.begun());
    case peer::FromHome::kForetold:
      return OnForetold(said.foretold());
    case peer::FromHome::kFailed:
      failing_ = said.failed().dataset();
      orders_.on_failed(failing_, said.failed().why());
      failing_ = 0;
      return;
    case peer::FromHome::kAllEnded:
      return orders_.on_all_ended(said.all_ended().dataset());
    case peer::FromHome::kComplete:
      return OnComplete(said.complete());
    case peer::FromHome::kWhole:
      return orders_.on_whole(said.whole().dataset());
    case peer::FromHome::kCopy:
      return OnCopy(said.copy());
    case peer::FromHome::kKeep:
      return OnKeep(said.keep());
    case peer::FromHome::kRebuild:
      return OnRebuild(said.rebuild());
    case peer::FromHome::kAllKept:
      return orders_.on_all_kept(said.all_kept());
    case peer::FromHome::kOnPrefix:
      return orders_.on_prefix(said.on_prefix().dataset());
    case peer::FromHome::kMayLeave:
      return orders_.may_leave(said.may_leave());
    case peer::FromHome::kLeaves:
      return orders_.leaves(said.leaves().dataset(), said.leaves().useless(), said.leaves().why());
    case peer::FromHome::kFind:
      return OnFind(said.find());
    case peer::FromHome::kStart:
      return OnStart(said.start());
    case peer::FromHome::kAbandon:
      return OnAbandon(said.abandon());
    default:
      return LinkLost(InvalidArgument("from_home.body: not what is to come"));
  }
}

void Home::OnForetold(const peer::Foretold& foretold) {
  const bool number = foretold.dataset() <= std::numeric_limits<std::int32_t>::max();
  if (!number) return LinkLost(InvalidArgument("foretold.dataset: {} is no number of a dataset", foretold.dataset()));
  if (foretold.launch() == launch_) foretold_ = foretold.dataset();
}

// --- What it orders ---

void Home::OnComplete(const peer::Complete& order) {
  peer::ToHome done;
  done.mutable_completed()->set_dataset(order.dataset());
  done.mutable_completed()->set_order(order.order());
  orders_.complete(order.dataset(), [this, done = std::move(done)](const absl::Status& status) mutable {
    if (!status.ok()) *done.mutable_completed()->mutable_refused() = answers::From(status);
    Send(std::move(done));
  });
}

void Home::OnCopy(const peer::Copy& order) {
  peer::ToHome on;
  on.mutable_copy_goes_on()->set_dataset(order.dataset());
  on.mutable_copy_goes_on()->set_order(order.order());
  peer::ToHome done;
  done.mutable_copied()->set_dataset(order.dataset());
  done.mutable_copied()->set_order(order.order());
  orders_.copy(
      order.dataset(), order.committer(), [this, on = std::move(on)] { Send(on); },
      [this, done = std::move(done)](const Orders::Copied& copied) mutable {
        done.mutable_copied()->set_damaged_file(copied.damaged_file);
        if (!copied.status.ok()) *done.mutable_copied()->mutable_refused() = answers::From(copied.status);
        Send(std::move(done));
      });
}

void Home::OnKeep(const peer::Keep& order) {
  peer::ToHome done;
  done.mutable_kept()->set_dataset(order.dataset());
  done.mutable_kept()->set_order(order.order());
  orders_.keep(order, [this, done = std::move(done)](const absl::Status& status) mutable {
    if (!status.ok()) *done.mutable_kept()->mutable_refused() = answers::From(status);
    Send(std::move(done));
  });
}

void Home::OnRebuild(const peer::Rebuild& order) {
  peer::ToHome done;
  done.mutable_rebuilt()->set_dataset(order.dataset().dataset());
  done.mutable_rebuilt()->set_order(order.order());
  peer::ToHome on;
  on.mutable_copy_goes_on()->set_dataset(order.dataset().dataset());
  on.mutable_copy_goes_on()->set_order(order.order());
  orders_.rebuild(
      order, [this, on] { Send(on); },
      [this, done](const absl::StatusOr<std::map<Rank, kept::Set>>& by) mutable {
        peer::Rebuilt& rebuilt = *done.mutable_rebuilt();
        if (!by.ok()) *rebuilt.mutable_refused() = answers::From(by.status());
        for (const auto& [rank, set] : by.ok() ? *by : std::map<Rank, kept::Set>()) {
          rebuilt.add_by()->set_rank(rank);
          *rebuilt.mutable_by()->rbegin()->add_sets() = set;
        }
        Send(std::move(done));
      });
}

void Home::OnReply(const peer::ToRank& said) {
  const OfRankPtr rank = RankOf(said.session());
  if (!rank) return;
  const auto answered = rank->asked.extract(said.reply().call());
  if (answered) answered.mapped()(said.reply());
}

// --- Restores ---

std::shared_ptr<Call> Home::CallOf(std::uint64_t number, std::uint64_t call, SessionPtr* session) const {
  const OfRankPtr rank = RankOf(number);
  if (!rank || !rank->session) return nullptr;
  *session = rank->session;
  const auto known = rank->calls.find(call);
  return known == rank->calls.end() ? nullptr : known->second.lock();
}

std::function<void(const absl::Status&, std::size_t, bool)> Home::MovedReporter(std::uint64_t session,
                                                                                std::uint64_t call) {
  return [this, session, call](const absl::Status& status, std::size_t copy, bool delivered) {
    peer::ToHome said;
    peer::Moved& moved = *said.mutable_moved();
    moved.set_session(session);
    moved.set_call(call);
    if (!status.ok()) *moved.mutable_refused() = answers::From(status);
    moved.set_copy(static_cast<std::uint32_t>(copy));
    moved.set_delivered(delivered);
    Send(std::move(said));
  };
}

void Home::OnFind(const peer::Find& find) {
  SessionPtr session;
  const std::shared_ptr<Call> call = CallOf(find.session(), find.call(), &session);
  const auto moved = MovedReporter(find.session(), find.call());
  if (!call || call->answered()) return moved(Unavailable("the rank does not ask for it any more"), SIZE_MAX, false);
  orders_.find(session, call, find, moved);
}

void Home::OnStart(const peer::Start& start) {
  SessionPtr session;
  const std::shared_ptr<Call> call = CallOf(start.session(), start.call(), &session);
  const auto moved = MovedReporter(start.session(), start.call());
  if (!call || call->answered()) return moved(Unavailable("the rank does not ask for it any more"), SIZE_MAX, false);
  orders_.start(session, call, moved);
}

void Home::OnAbandon(const peer::Abandon& abandon) {
  SessionPtr session;
  const std::shared_ptr<Call> call = CallOf(abandon.session(), abandon.call(), &session);
  if (call) orders_.abandon(session, call);
}

}  // namespace cairn
