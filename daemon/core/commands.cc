#include "daemon/core/commands.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

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

// Also parts whose others are with nodes that this one does not know, or gone: nobody else takes these away.
absl::StatusOr<DatasetPtr> WholeOrInParts(const Run& run, DatasetId id) {
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

// The question to the home of the dataset's launch; then its answer, of which `take` makes the reply. `in_parts`: the
// home does not decide it (any more): it was started again, and knows only its own parts.
template <typename Reply>
void AtHome(Run& run, const DatasetPtr& dataset, const peer::Question& question, Reply* (peer::Answer::*take)(),
            std::function<void()> in_parts, std::function<void(Reply)> done) {
  const auto fail = [done, why_not = WhyNotHere(run, *dataset)](const absl::Status& status) {
    Reply reply;
    *reply.mutable_status() = StatusMessage(Annotate(status, MessageOf(why_not)));
    done(std::move(reply));
  };
  run.nodes.Ask(run.home.node(), question, [=, &run](absl::StatusOr<peer::Answer> answer) {
    if (answer.ok()) return done(std::move(*((*answer).*take)()));
    const bool nobody_decides = absl::IsFailedPrecondition(answer.status()) && run.ledger.Has(dataset);
    nobody_decides ? in_parts() : fail(answer.status());
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
  const auto from_cache = [&run, dataset, answer](const absl::Status& removed) {
    answer(removed.ok() ? RemoveFromCache(run, dataset) : removed);
    run.waits.Changed();
  };
  run.removals.Remove(dataset, [&run, dataset, from_cache](const absl::Status& removed) {
    // Of a run that is gone nothing comes back.
    if (!removed.ok() || run.watch.lost()) return from_cache(removed);
    run.removals.RemoveElsewhere(dataset, from_cache);
  });
}

// --- What nobody decides: parts, whose launch is over ---

// The rest of it is with other nodes, which this daemon does not know; one of them may.
bool IsInParts(const Dataset& dataset) {
  return !dataset.followed && dataset.in_cache() && dataset.unknown > 0;
}

absl::Status OnlyParts(DatasetId id) {
  return FailedPrecondition("only some parts of dataset {} are in this node's cache, and nobody knows the others", id);
}

// "; n2: why" for each whose status is not OK, nor that it has nothing of the dataset; empty: there is none.
std::string WhoDidNot(const std::vector<Nodes::Said>& all,
                      const std::function<absl::Status(const Nodes::Said& said)>& status_of) {
  std::string names;
  for (const Nodes::Said& said : all) {
    const absl::Status status = status_of(said);
    if (status.ok() || absl::IsNotFound(status)) continue;
    names += fmt::format("; {}: {}", said.node.member.host, MessageOf(status));
  }
  return names;
}

// By a node that knows where all of it is.
void FlushInParts(Run& run, DatasetId id, std::function<void(admin::FlushReply)> done) {
  peer::Question question;
  question.mutable_flush()->set_dataset(id);
  run.nodes.AskOthers(question, [id, done = std::move(done)](std::vector<Nodes::Said> said) {
    for (Nodes::Said& one : said) {
      if (one.answer.ok() && one.answer->flush().status().code() == local::OK) {
        return done(std::move(*one.answer->mutable_flush()));
      }
    }
    const std::string silent = WhoDidNot(said, [](const Nodes::Said& one) {
      // It does not know all of it, either.
      return absl::IsFailedPrecondition(one.answer.status()) ? absl::OkStatus() : one.answer.status();
    });
    admin::FlushReply reply;
    *reply.mutable_status() = StatusMessage(
        FailedPrecondition("{}; a launch over these nodes puts it together{}", MessageOf(OnlyParts(id)), silent));
    done(std::move(reply));
  });
}

// On each node that has parts.
void PinInParts(Run& run, const Dataset& dataset, bool pinned, std::function<void(admin::PinReply)> done) {
  peer::Question question;
  question.mutable_pin()->set_dataset(dataset.id);
  question.mutable_pin()->set_pinned(pinned);
  question.set_own_parts(true);
  PinHere(run, dataset, pinned, [&run, question, done = std::move(done)](admin::PinReply here) {
    if (here.status().code() != local::OK) return done(std::move(here));
    run.nodes.AskOthers(question, [question, done, here](const std::vector<Nodes::Said>& said) {
      const std::string others = WhoDidNot(said, [](const Nodes::Said& one) {
        if (!one.answer.ok()) return one.answer.status();
        const local::Status& noted = one.answer->pin().status();
        return noted.code() == local::OK ? absl::OkStatus() : Unavailable("{}", noted.message());
      });
      if (others.empty()) return done(here);
      const char* const what = question.pin().pinned() ? "pinned" : "unpinned";
      admin::PinReply reply;
      *reply.mutable_status() = StatusMessage(
          Unavailable("dataset {} is {} here, and may not be elsewhere{}", question.pin().dataset(), what, others));
      done(std::move(reply));
    });
  });
}

// The prefix tells the others that it is removed; those that are there hear of it at once.
void RemoveInParts(Run& run, const DatasetPtr& dataset, std::function<void(admin::RemoveReply)> done) {
  RemoveHere(run, dataset, [&run, id = dataset->id, done = std::move(done)](admin::RemoveReply here) {
    if (here.status().code() != local::OK) return done(std::move(here));
    peer::Question question;
    question.mutable_remove()->set_dataset(id);
    question.set_own_parts(true);
    run.nodes.AskOthers(question, [done, here](const std::vector<Nodes::Said>&) { done(here); });
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

// What is asked for with all its parts is not done with some of them.
absl::StatusOr<DatasetPtr> DecidedHere(const Run& run, const peer::Question& question) {
  auto dataset = question.has_flush()
                     ? ToFlush(run, question.flush())
                     : WholeOrInParts(run, question.has_pin() ? question.pin().dataset() : question.remove().dataset());
  if (!dataset.ok() || (question.own_parts() && !question.has_flush())) return dataset;
  if ((*dataset)->followed) return WhyNotHere(run, **dataset);
  const bool all_there = question.has_flush() && (*dataset)->in_prefix();
  if (IsInParts(**dataset) && !all_there) return OnlyParts((*dataset)->id);
  return dataset;
}

}  // namespace

void Flush(Run& run, const admin::FlushRequest& request, std::function<void(admin::FlushReply)> done) {
  const auto found = ToFlush(run, request);
  if (!found.ok()) {
    admin::FlushReply reply;
    *reply.mutable_status() = StatusMessage(found.status());
    return done(std::move(reply));
  }
  const DatasetPtr dataset = *found;
  const auto in_parts = [&run, id = dataset->id, done] { FlushInParts(run, id, done); };
  if (IsInParts(*dataset) && !dataset->in_prefix()) return in_parts();
  if (!dataset->followed) return done(FlushHere(run, *dataset));
  peer::Question question;
  question.mutable_flush()->set_dataset(dataset->id);
  AtHome(run, dataset, question, &peer::Answer::mutable_flush, in_parts, std::move(done));
}

void Pin(Run& run, const admin::PinRequest& request, std::function<void(admin::PinReply)> done) {
  const auto found = WholeOrInParts(run, request.dataset());
  if (!found.ok()) return Answering(std::move(done))(found.status());
  const DatasetPtr dataset = *found;
  const auto in_parts = [&run, dataset, pinned = request.pinned(), done] { PinInParts(run, *dataset, pinned, done); };
  if (IsInParts(*dataset)) return in_parts();
  if (!dataset->followed) return PinHere(run, *dataset, request.pinned(), std::move(done));
  peer::Question question;
  question.mutable_pin()->set_dataset(request.dataset());
  question.mutable_pin()->set_pinned(request.pinned());
  AtHome(run, dataset, question, &peer::Answer::mutable_pin, in_parts, std::move(done));
}

void Remove(Run& run, const admin::RemoveRequest& request, std::function<void(admin::RemoveReply)> done) {
  if (request.set_aside() != admin::RemoveRequest::NONE) {
    if (request.dataset() == 0) {
      return RemoveSetAside(run, request.set_aside() == admin::RemoveRequest::ALL, std::move(done));
    }
    return Answering(std::move(done))(InvalidArgument("a dataset, or what was set aside: not both"));
  }
  const auto found = WholeOrInParts(run, request.dataset());
  if (!found.ok()) return Answering(std::move(done))(found.status());
  const DatasetPtr dataset = *found;
  const auto in_parts = [&run, dataset, done] { RemoveInParts(run, dataset, done); };
  if (IsInParts(*dataset)) return in_parts();
  if (!dataset->followed) return RemoveHere(run, dataset, std::move(done));
  peer::Question question;
  question.mutable_remove()->set_dataset(request.dataset());
  AtHome(run, dataset, question, &peer::Answer::mutable_remove, in_parts, std::move(done));
}

bool IsOne(const peer::Question& question) {
  return question.has_flush() || question.has_pin() || question.has_remove();
}

void Answer(Run& run, const peer::Question& question, std::function<void(absl::StatusOr<peer::Answer>)> done) {
  const auto dataset = DecidedHere(run, question);
  if (!dataset.ok()) return done(dataset.status());
  if (question.has_flush()) return AsAnswer(&peer::Answer::mutable_flush, std::move(done))(FlushHere(run, **dataset));
  if (question.has_pin()) {
    return PinHere(run, **dataset, question.pin().pinned(), AsAnswer(&peer::Answer::mutable_pin, std::move(done)));
  }
  RemoveHere(run, *dataset, AsAnswer(&peer::Answer::mutable_remove, std::move(done)));
}

}  // namespace commands
}  // namespace cairn
