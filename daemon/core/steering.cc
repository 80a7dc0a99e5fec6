// Should the run stop, is a checkpoint due: the first rank that asks decides for all. SCR specification, 12.7.
#include "daemon/core/steering.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/core/core_impl.h"
#include "storage/base/status.h"
#include "storage/prefix/halt_file.h"

namespace cairn {
namespace {

// What was read of the halt file is good for so long.
constexpr std::chrono::seconds kFresh{1};
// So long a rank waits for the prefix, and a writer for the halt file's lock.
constexpr std::chrono::seconds kPatience{2};
// The last rank's Close waits so long for the halt file to say that the run has ended.
constexpr std::chrono::seconds kClosePatience{1};

struct HaltRead {
  absl::StatusOr<scr::Halt> halt = absl::UnknownError("");
  absl::Status counted;
};

// Blocks. Reads the file; if it counts checkpoints down, takes `whole` off before.
HaltRead ReadAndCount(Disk& disk, const std::string& prefix, std::uint64_t whole) {
  HaltRead read;
  read.halt = ReadHalt(disk, prefix);
  if (!read.halt.ok() || whole == 0 || read.halt->checkpoints_left.value_or(0) == 0) return read;
  scr::Halt after;
  read.counted = ChangeHalt(
      disk, prefix,
      [&after, whole](scr::Halt& halt) {
        if (halt.checkpoints_left) *halt.checkpoints_left -= std::min(*halt.checkpoints_left, whole);
        after = halt;
      },
      kPatience);
  if (read.counted.ok()) read.halt = after;
  return read;
}

// Blocks. A prefix that holds no records of SCR's gets none by this.
absl::Status WriteFinalized(Disk& disk, const std::string& prefix) {
  if (!disk.Info(prefix + "/.scr").ok()) return absl::OkStatus();
  CAIRN_ASSIGN_OR_RETURN(const scr::Halt before, ReadHalt(disk, prefix));
  if (!before.reason.empty()) return absl::OkStatus();
  return ChangeHalt(
      disk, prefix,
      [](scr::Halt& halt) {
        if (halt.reason.empty()) halt.reason = scr::kFinalizeCalled;
      },
      kPatience);
}

std::int64_t EpochSeconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

// What an earlier rank has said stays.
void Merge(const local::Rhythm& said, local::Rhythm* wanted) {
  if (said.has_every() && !wanted->has_every()) {
    wanted->set_has_every(true);
    wanted->set_every(said.every());
  }
  if (said.has_interval() && !wanted->has_interval()) {
    wanted->set_has_interval(true);
    wanted->set_interval_ms(said.interval_ms());
  }
  if (said.has_overhead() && !wanted->has_overhead()) {
    wanted->set_has_overhead(true);
    wanted->set_overhead_percent(said.overhead_percent());
  }
  if (said.has_mtbf() && !wanted->has_mtbf()) {
    wanted->set_has_mtbf(true);
    wanted->set_mtbf_ms(said.mtbf_ms());
  }
}

}  // namespace

// --- Who is there, what checkpoints cost ---

void CoreImpl::JoinSteering(const SessionPtr& session, const local::Open& open) {
  const RunPtr& run = session->run;
  Launch* launch = run->ledger.Find(session->launch);
  Steering& steering = run->steering;
  if (steering.launch != session->launch) {
    Steering fresh;
    fresh.launch = session->launch;
    fresh.should_exit = Answers(launch->nranks);
    fresh.need_checkpoint = Answers(launch->nranks);
    fresh.costs = CheckpointCosts(clocks_.steady());
    fresh.settling = std::move(steering.settling);
    fresh.halt = std::move(steering.halt);
    steering = std::move(fresh);
    ++steering.halt.wanted;  // what was asked for before the launch began counts for it
  }
  Merge(open.rhythm(), &steering.wanted);
  if (open.end_time_s() > 0 && (steering.end_time_s == 0 || open.end_time_s() < steering.end_time_s)) {
    steering.end_time_s = open.end_time_s();
  }
  steering.hosts.insert(session->peer.host);
  if (launch->live < launch->nranks || std::exchange(steering.all_came, true)) return;
  BlockingPrefix([prefix = run->prefix,
                  nodes = static_cast<std::uint32_t>(steering.hosts.size())] { return prefix->PutNodes(nodes); },
                 [this, run](const absl::Status& status) {
                   if (!status.ok()) Warn(fmt::format("run {}: {}", run->name, MessageOf(status)));
                 });
}

// The rank computes no more from its begin until it has handed over its part.
void CoreImpl::BeginTimed(const SessionPtr& session, const CallPtr& call, Requested request) {
  const auto dataset = [&session]() -> DatasetPtr {
    if (session->writer && !session->writer->ended) return session->writer->dataset;
    return session->files && !session->files->failed ? session->files->dataset : nullptr;
  };
  if (!dataset()) session->held_up_since = clocks_.steady();  // else it asks again, or one too much
  if (request->has_begin()) {
    HandleBegin(session, call, request->begin());
  } else {
    HandleOutputBegin(session, call, request->output_begin());
  }
  if (const DatasetPtr begun = dataset()) CheckpointBegun(session, *begun);
}

void CoreImpl::HandOverTimed(const SessionPtr& session, const CallPtr& call, Requested request) {
  const std::shared_ptr<PartWriter> writer = session->writer;
  const std::shared_ptr<FilesWriter> files = session->files;
  if (request->has_commit()) {
    HandleCommit(session, call, request->commit());
    if (writer && writer->committed) PartHandedOver(session, *writer->dataset);
  } else {
    HandleOutputEnd(session, call, request->output_end());
    if (files && files->ended && !files->failed) PartHandedOver(session, *files->dataset);
  }
}

void CoreImpl::CheckpointBegun(const SessionPtr& session, const Dataset& dataset) {
  Steering& steering = session->run->steering;
  if (!dataset.checkpoint || steering.launch != dataset.launch) return;
  steering.costs.Begun(dataset.id, session->held_up_since);
}

void CoreImpl::PartHandedOver(const SessionPtr& session, const Dataset& dataset) {
  Steering& steering = session->run->steering;
  if (!dataset.checkpoint || steering.launch != dataset.launch) return;
  CheckpointBegun(session, dataset);
  steering.costs.HeldUp(dataset.id, clocks_.steady() - session->held_up_since);
  steering.settling.insert(dataset.id);
  ++steering.halt.wanted;  // what was asked for before this checkpoint counts for it
}

// --- The halt file ---

// After every change of a run: which of the checkpoints that were handed over are whole now?
void CoreImpl::CountWhole(const RunPtr& run) {
  Steering& steering = run->steering;
  const std::uint64_t before = steering.halt.whole;
  std::erase_if(steering.settling, [&](DatasetId id) {
    const DatasetPtr dataset = run->ledger.Get(id);
    if (dataset && dataset->level() < Level::kLocal) return false;
    if (dataset) ++steering.halt.whole;
    return true;
  });
  if (steering.halt.whole > before) ReadHaltFile(run);
}

void CoreImpl::ReadHaltFile(const RunPtr& run) {
  HaltState& halt = run->steering.halt;
  if (std::exchange(halt.working, true)) return;
  halt.timer = loop_.After(kPatience, [this, run] {
    HaltState& hanging = run->steering.halt;
    hanging.timer = 0;
    hanging.late = true;
    Warn(fmt::format("run {}: {} does not answer: halt conditions are as they were last seen", run->name,
                     run->prefix_path));
    LookAtWatchers(run);
  });
  BlockingPrefix(
      [this, prefix = run->prefix_path, whole = halt.whole] { return ReadAndCount(prefix_disk_, prefix, whole); },
      [this, run, whole = halt.whole, wanted = halt.wanted](HaltRead read) {
        HaltState& done = run->steering.halt;
        if (done.timer != 0) loop_.Cancel(std::exchange(done.timer, 0));
        done.working = done.late = false;
        done.read_at = clocks_.steady();
        done.read = wanted;
        const absl::Status& status = read.halt.ok() ? read.counted : read.halt.status();
        // Who holds the lock lets it go at some time; whatever else is wrong would be so again. What was whole before
        // anybody asked for a number of checkpoints is none of them.
        if (!absl::IsUnavailable(status) || !done.known.checkpoints_left) done.whole -= whole;
        if (read.halt.ok()) done.known = *std::move(read.halt);
        const std::string error = Readable(MessageOf(status));
        if (!status.ok() && error != done.error) Warn(fmt::format("run {}: {}", run->name, error));
        done.error = error;
        if (status.ok() && done.whole > 0) ReadHaltFile(run);
        LookAtWatchers(run);
      });
}

std::optional<std::string> CoreImpl::WhyHalted(const Steering& steering) const {
  const std::optional<std::int64_t> end = steering.end_time_s > 0 ? std::optional(steering.end_time_s) : std::nullopt;
  return scr::WhyHalt(steering.halt.known, EpochSeconds(clocks_.wall()), end);
}

// All ranks have closed, none was lost: SCR's scripts do not start the job again.
void CoreImpl::FinalizeHalt(const RunPtr& run, const CallPtr& call) {
  BlockingPrefix([this, prefix = run->prefix_path] { return WriteFinalized(prefix_disk_, prefix); },
                 [this, run, call](const absl::Status& status) {
                   if (!status.ok()) Warn(fmt::format("run {}: {}", run->name, MessageOf(status)));
                   call->Reply({});
                 });
  loop_.After(kClosePatience, [call] { call->Reply({}); });
}

// --- The questions ---

void CoreImpl::HandleAsk(const SessionPtr& session, const CallPtr& call, Requested request) {
  const bool exit = request->has_should_exit();
  const std::uint64_t number = exit ? request->should_exit().number() : request->need_checkpoint().number();
  Steering& steering = session->run->steering;
  if (steering.launch != session->launch) return call->Fail(local::FENCED, "a newer launch has taken over");
  const auto asked = (exit ? steering.should_exit : steering.need_checkpoint).Ask(session->rank, number);
  if (!asked.ok()) return call->Fail(asked.status());
  const std::shared_ptr<Answer> answer = *asked;
  call->WaitingFor(exit ? "the halt conditions, and checkpoints on their way to `local`," : "the halt conditions");
  Watch(session->run, [this, session, call, answer, exit] {
    if (call->answered()) return true;
    if (session->ended) {
      call->Fail(local::FENCED, "the session ended while it asked");
      return true;
    }
    if (!answer->decided && !TryAnswer(session, answer, exit)) return false;
    local::Reply reply;
    local::Advice& advice = exit ? *reply.mutable_should_exit() : *reply.mutable_need_checkpoint();
    advice.set_yes(answer->yes);
    advice.set_why(answer->why);
    call->Reply(std::move(reply));
    return true;
  });
  if (answer->decided || std::exchange(answer->awaited, true)) return;
  const std::uint64_t ms = request->deadline_ms() != 0 ? request->deadline_ms() : config_.call_ms_default;
  answer->timer = loop_.After(std::chrono::milliseconds(ms - ms / 8), [this, run = session->run, answer] {
    answer->timer = 0;
    answer->hurry = true;
    LookAtWatchers(run);
  });
}

// Decides, unless something is still to come that counts. Only what this rank itself has begun is waited for: the
// others need not be at this question before they have begun it, too.
bool CoreImpl::TryAnswer(const SessionPtr& session, const std::shared_ptr<Answer>& answer, bool exit) {
  const RunPtr& run = session->run;
  Steering& steering = run->steering;
  const HaltState& halt = steering.halt;
  const bool waits = !halt.late && !answer->hurry;
  const auto now = clocks_.steady();
  if (steering.launch == session->launch) {
    if (halt.read < halt.wanted || !halt.read_at || now - *halt.read_at >= kFresh) {
      ReadHaltFile(run);
      if (waits) return false;
    }
    if (exit && halt.known.checkpoints_left.value_or(0) > 0) {
      if (waits && halt.error.empty() && halt.whole > 0) return false;  // they are being taken off
      if (!answer->hurry && HasSettling(*session)) return false;
    }
  }
  std::optional<std::string> why = WhyHalted(steering);
  if (why) why = "halt: " + DescribeReason(*why);
  if (!exit && !why) {
    why = WhyDue(RhythmOf(config_.checkpoint, steering.wanted), steering.costs, answer->number, now,
                 static_cast<std::uint32_t>(steering.hosts.size()));
  }
  answer->decided = true;
  answer->yes = why.has_value();
  answer->why = why.value_or("");
  if (answer->timer != 0) loop_.Cancel(std::exchange(answer->timer, 0));
  if (answer->awaited) loop_.Post([this, run] { LookAtWatchers(run); });
  if (exit && answer->yes) spdlog::info("run {}: launch {} is told to stop: {}", run->name, session->launch, *why);
  return true;
}

void CoreImpl::DescribeSteering(const Run& run, admin::RunStatus* status) const {
  const Steering& steering = run.steering;
  if (steering.halt.read_at) *status->mutable_halt() = DescribeHalt(steering, EpochSeconds(clocks_.wall()));
  if (steering.launch == 0) return;
  *status->mutable_rhythm() = DescribeRhythm(steering, RhythmOf(config_.checkpoint, steering.wanted), clocks_.steady());
}

// Whether checkpoints that this rank has handed over are not yet whole.
bool CoreImpl::HasSettling(const Session& session) const {
  const Run& run = *session.run;
  return std::any_of(run.steering.settling.begin(), run.steering.settling.end(), [&](DatasetId id) {
    const DatasetPtr dataset = run.ledger.Get(id);
    return dataset && dataset->launch == session.launch && session.rank < dataset->parts.size() &&
           dataset->parts[session.rank].state >= Part::State::kCaptured;
  });
}

}  // namespace cairn
