#include "daemon/core/commands.h"

#include <memory>
#include <string>
#include <utility>

#include "daemon/core/call.h"
#include "storage/base/status.h"

namespace cairn {

local::Status StatusMessage(const absl::Status& status) {
  local::Status out;
  SetStatus(status, &out);
  return out;
}

namespace commands {
namespace {

// A reply that says how it went, and no more.
template <typename Reply>
std::function<void(const absl::Status&)> Answering(std::function<void(Reply)> done) {
  return [done = std::move(done)](const absl::Status& status) {
    Reply reply;
    *reply.mutable_status() = StatusMessage(status);
    done(std::move(reply));
  };
}

absl::StatusOr<DatasetPtr> WholeDataset(const Run& run, DatasetId id) {
  const DatasetPtr dataset = run.ledger.Get(id);
  if (dataset && dataset->level() >= Level::kLocal) return dataset;
  return NotFound("run {} has no whole dataset {}", run.name, id);
}

// Also what is left of one whose other parts are gone: nobody else takes it away.
absl::StatusOr<DatasetPtr> ToRemove(const Run& run, DatasetId id) {
  const DatasetPtr dataset = run.ledger.Get(id);
  return dataset && dataset->in_cache() ? dataset : WholeDataset(run, id);
}

void RemoveSetAside(Run& run, bool whole_ones_too, std::function<void(admin::RemoveReply)> done) {
  run.cache.asides().RemoveByHand(whole_ones_too,
                                  [&run, done = std::move(done)](const absl::StatusOr<Asides::RemovedByHand>& removed) {
                                    admin::RemoveReply reply;
                                    *reply.mutable_status() = StatusMessage(removed.status());
                                    if (removed.ok()) {
                                      reply.set_set_aside(removed->count);
                                      reply.set_set_aside_bytes(removed->bytes);
                                      reply.set_in_use(removed->in_use);
                                    }
                                    done(std::move(reply));
                                    run.waits.Changed();
                                  });
}

absl::Status MayRemove(Run& run, const DatasetPtr& dataset) {
  if (dataset->pinned) return FailedPrecondition("dataset {} is pinned: unpin it first", dataset->id);
  if (dataset->readers > 0 || run.ledger.PinnedByLaunch(dataset->id)) {
    return FailedPrecondition("dataset {} is being restored", dataset->id);
  }
  if (dataset->in_prefix() && dataset->foreign) return Removals::IsScrs(dataset->id);
  if (dataset->in_prefix() && !run.gate.prefix()) return run.gate.OutOfReach();
  if (run.flusher.Cancel(dataset)) return absl::OkStatus();
  return Unavailable("dataset {} was being flushed; the flush is stopped, ask again", dataset->id);
}

// What the user has removed, once the prefix has it no more.
absl::Status RemoveFromCache(Run& run, const DatasetPtr& dataset) {
  if (dataset->in_cache() && (dataset->readers > 0 || dataset->pinned)) {  // since it was asked for
    return FailedPrecondition("dataset {} is pinned or being restored: it stays in the cache", dataset->id);
  }
  run.cache.Evict(dataset, "removed by the user");
  run.ledger.Forget(dataset->id, {.why = Gone::Why::kRemoved, .message = "was removed", .step = dataset->step});
  run.removals.Tidy();
  return absl::OkStatus();
}

// What is decided at a launch's home can be done there only: here it would be forgotten.
absl::Status WhyNotHere(const Run& run, const Dataset& dataset) {
  return FailedPrecondition("the home of dataset {}'s launch is the daemon on {}", dataset.id,
                            run.ledger.newest()->maker);
}

// The question to the home of the dataset's launch; then its answer, of which `take` makes the reply.
template <typename Reply>
void AtHome(Run& run, const Dataset& dataset, peer::Question question, Reply* (peer::Answer::*take)(),
            std::function<void(Reply)> done) {
  const auto fail = [done, why_not = WhyNotHere(run, dataset)](const absl::Status& status) {
    Reply reply;
    *reply.mutable_status() = StatusMessage(Annotate(status, MessageOf(why_not)));
    done(std::move(reply));
  };
  run.nodes.Ask(run.home.node(), question, [fail, take, done](absl::StatusOr<peer::Answer> answer) {
    answer.ok() ? done(std::move(*((*answer).*take)())) : fail(answer.status());
  });
}

absl::StatusOr<DatasetPtr> ToFlush(const Run& run, const admin::FlushRequest& request) {
  const bool newest = request.dataset() == 0;
  const DatasetPtr dataset = newest ? run.ledger.NewestRestorable() : run.ledger.Get(request.dataset());
  if (dataset) return dataset;
  if (newest) return NotFound("run {} has no whole checkpoint", run.name);
  return NotFound("run {} has no dataset {}", run.name, request.dataset());
}

// --- What is decided here ---

admin::FlushReply FlushHere(Run& run, const Dataset& dataset) {
  admin::FlushReply reply;
  *reply.mutable_status() = StatusMessage(absl::OkStatus());
  reply.set_dataset(dataset.id);
  run.flusher.Order(dataset.id);
  return reply;
}

void PinHere(Run& run, const Dataset& dataset, bool pinned, std::function<void(admin::PinReply)> done) {
  run.ledger.SetPinned(dataset, pinned);
  if (pinned) run.ledger.FlushOrdered(dataset);
  run.record.Store(Answering(std::move(done)));  // a pin holds over a restart
  run.waits.Changed();
}

void RemoveHere(Run& run, const DatasetPtr& dataset, std::function<void(admin::RemoveReply)> done) {
  const auto answer = Answering(std::move(done));
  if (const absl::Status may = MayRemove(run, dataset); !may.ok()) return answer(may);
  if (!dataset->in_prefix()) {
    answer(RemoveFromCache(run, dataset));
    return run.waits.Changed();
  }
  run.removals.Remove(dataset, [&run, dataset, answer](const absl::Status& removed) {
    answer(removed.ok() ? RemoveFromCache(run, dataset) : removed);
    run.waits.Changed();
  });
}

// An answer of what a command has replied.
template <typename Reply>
std::function<void(Reply)> AsAnswer(Reply* (peer::Answer::*put)(),
                                    std::function<void(absl::StatusOr<peer::Answer>)> done) {
  return [put, done = std::move(done)](Reply reply) {
    peer::Answer answer;
    *(answer.*put)() = std::move(reply);
    done(std::move(answer));
  };
}

absl::StatusOr<DatasetPtr> DecidedHere(const Run& run, absl::StatusOr<DatasetPtr> dataset) {
  if (dataset.ok() && (*dataset)->followed) return WhyNotHere(run, **dataset);
  return dataset;
}

}  // namespace

void Flush(Run& run, const admin::FlushRequest& request, std::function<void(admin::FlushReply)> done) {
  const auto dataset = ToFlush(run, request);
  if (!dataset.ok()) {
    admin::FlushReply reply;
    *reply.mutable_status() = StatusMessage(dataset.status());
    return done(std::move(reply));
  }
  if (!(*dataset)->followed) return done(FlushHere(run, **dataset));
  peer::Question question;
  question.mutable_flush()->set_dataset((*dataset)->id);
  AtHome(run, **dataset, std::move(question), &peer::Answer::mutable_flush, std::move(done));
}

void Pin(Run& run, const admin::PinRequest& request, std::function<void(admin::PinReply)> done) {
  const auto dataset = WholeDataset(run, request.dataset());
  if (!dataset.ok()) return Answering(std::move(done))(dataset.status());
  if (!(*dataset)->followed) return PinHere(run, **dataset, request.pinned(), std::move(done));
  peer::Question question;
  question.mutable_pin()->set_dataset(request.dataset());
  question.mutable_pin()->set_pinned(request.pinned());
  AtHome(run, **dataset, std::move(question), &peer::Answer::mutable_pin, std::move(done));
}

void Remove(Run& run, const admin::RemoveRequest& request, std::function<void(admin::RemoveReply)> done) {
  if (request.set_aside() != admin::RemoveRequest::NONE) {
    if (request.dataset() == 0) {
      return RemoveSetAside(run, request.set_aside() == admin::RemoveRequest::ALL, std::move(done));
    }
    return Answering(std::move(done))(InvalidArgument("a dataset, or what was set aside: not both"));
  }
  const auto dataset = ToRemove(run, request.dataset());
  if (!dataset.ok()) return Answering(std::move(done))(dataset.status());
  if (!(*dataset)->followed) return RemoveHere(run, *dataset, std::move(done));
  peer::Question question;
  question.mutable_remove()->set_dataset(request.dataset());
  AtHome(run, **dataset, std::move(question), &peer::Answer::mutable_remove, std::move(done));
}

bool IsOne(const peer::Question& question) {
  return question.has_flush() || question.has_pin() || question.has_remove();
}

void Answer(Run& run, const peer::Question& question, std::function<void(absl::StatusOr<peer::Answer>)> done) {
  const DatasetId id = question.has_flush() ? question.flush().dataset()
                       : question.has_pin() ? question.pin().dataset()
                                            : question.remove().dataset();
  const auto dataset = DecidedHere(run, question.has_flush() ? ToFlush(run, question.flush())
                                        : question.has_pin() ? WholeDataset(run, id)
                                                             : ToRemove(run, id));
  if (!dataset.ok()) return done(dataset.status());
  if (question.has_flush()) return AsAnswer(&peer::Answer::mutable_flush, std::move(done))(FlushHere(run, **dataset));
  if (question.has_pin()) {
    return PinHere(run, **dataset, question.pin().pinned(), AsAnswer(&peer::Answer::mutable_pin, std::move(done)));
  }
  RemoveHere(run, *dataset, AsAnswer(&peer::Answer::mutable_remove, std::move(done)));
}

}  // namespace commands
}  // namespace cairn
