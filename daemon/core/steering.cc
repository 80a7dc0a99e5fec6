#include "daemon/core/steering.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/place/prefix/halt_file.h"

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
  void FailWith(absl::Status why) { halt = std::move(why); }
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

Steering::Steering(const Context& context, std::string run_name, const Ledger& ledger, const PrefixGate& gate,
                   Waits& waits)
    : context_(context), run_name_(std::move(run_name)), ledger_(ledger), gate_(gate), waits_(waits) {}

// --- Who is there, what checkpoints cost ---

void Steering::Join(const Session& session, const local::Open& open) {
  const Launch* launch = ledger_.Find(session.launch);
  if (state_.launch != session.launch) {
    SteeringState fresh;
    fresh.launch = session.launch;
    fresh.should_exit = Answers(launch->nranks);
    fresh.need_checkpoint = Answers(launch->nranks);
    fresh.costs = CheckpointCosts(context_.now());
    fresh.settling = std::move(state_.settling);
    fresh.halt = std::move(state_.halt);
    state_ = std::move(fresh);
    ++state_.halt.wanted;  // what was asked for before the launch began counts for it
  }
  Merge(open.rhythm(), &state_.wanted);
  if (open.end_time_s() > 0 && (state_.end_time_s == 0 || open.end_time_s() < state_.end_time_s)) {
    state_.end_time_s = open.end_time_s();
  }
  state_.hosts.insert(session.peer.host);
  if (launch->live() < launch->nranks || std::exchange(state_.all_came, true)) return;
  context_.OnPrefix(
      gate_.path(),
      [prefix = gate_.prefix(), nodes = static_cast<std::uint32_t>(state_.hosts.size())] {
        return prefix->PutNodes(nodes);
      },
      [this](const absl::Status& status) {
        if (!status.ok()) context_.Warn(fmt::format("run {}: {}", run_name_, MessageOf(status)));
      });
}

void Steering::Arrived(const Session& session) {
  held_up_since_[session.id] = context_.now();
}

SteadyTime Steering::HeldUpSince(const Session& session) const {
  const auto since = held_up_since_.find(session.id);
  CAIRN_CHECK(since != held_up_since_.end());
  return since->second;
}

void Steering::Begun(const Session& session, const Dataset& dataset) {
  if (!dataset.kind.checkpoint || state_.launch != dataset.launch) return;
  state_.costs.Begun(dataset.id, HeldUpSince(session));
}

void Steering::HandedOver(const Session& session, const Dataset& dataset) {
  if (!dataset.kind.checkpoint || state_.launch != dataset.launch) return;
  Begun(session, dataset);
  state_.costs.HeldUp(dataset.id, context_.now() - HeldUpSince(session));
  state_.settling.insert(dataset.id);
  ++state_.halt.wanted;  // what was asked for before this checkpoint counts for it
}

// --- The halt file ---

void Steering::CountWhole() {
  const std::uint64_t before = state_.halt.whole;
  std::erase_if(state_.settling, [this](DatasetId id) {
    const DatasetPtr dataset = ledger_.Get(id);
    if (dataset && dataset->level() < Level::kLocal) return false;
    if (dataset) ++state_.halt.whole;
    return true;
  });
  if (state_.halt.whole > before) ReadHaltFile();
}

void Steering::ReadHaltFile() {
  HaltState& halt = state_.halt;
  if (std::exchange(halt.working, true)) return;
  halt.timer = context_.loop().After(kPatience, [this] {
    state_.halt.timer = 0;
    state_.halt.late = true;
    context_.Warn(
        fmt::format("run {}: {} does not answer: halt conditions are as they were last seen", run_name_, gate_.path()));
    waits_.Ask();
  });
  context_.OnPrefix(
      gate_.path(),
      [&disk = context_.env.prefix_disk, prefix = gate_.path(), whole = halt.whole] {
        return ReadAndCount(disk, prefix, whole);
      },
      [this, whole = halt.whole, wanted = halt.wanted](HaltRead read) {
        HaltFileRead(whole, wanted, std::move(read.halt), read.counted);
      });
}

void Steering::HaltFileRead(std::uint64_t whole, std::uint64_t wanted, absl::StatusOr<scr::Halt> read,
                            const absl::Status& counted) {
  HaltState& halt = state_.halt;
  if (halt.timer != 0) context_.loop().Cancel(std::exchange(halt.timer, 0));
  halt.working = halt.late = false;
  halt.read_at = context_.now();
  halt.read = wanted;
  const absl::Status status = read.ok() ? counted : read.status();
  // Another process that holds the lock lets it go at some time; any other error would come again. Checkpoints that
  // were whole before anybody asked for a number of them are not taken off that number.
  if (!absl::IsUnavailable(status) || !halt.known.checkpoints_left) halt.whole -= whole;
  if (read.ok()) halt.known = *std::move(read);
  const std::string error = Readable(MessageOf(status));
  if (!status.ok() && error != halt.error) context_.Warn(fmt::format("run {}: {}", run_name_, error));
  halt.error = error;
  if (status.ok() && halt.whole > 0) ReadHaltFile();
  waits_.Ask();
}

std::optional<std::string> Steering::WhyHalted() const {
  const std::optional<std::int64_t> end = state_.end_time_s > 0 ? std::optional(state_.end_time_s) : std::nullopt;
  return scr::WhyHalt(state_.halt.known, EpochSeconds(context_.env.clocks.wall()), end);
}

void Steering::Finalize(const std::shared_ptr<Call>& call) {
  context_.OnPrefix(
      gate_.path(), [&disk = context_.env.prefix_disk, prefix = gate_.path()] { return WriteFinalized(disk, prefix); },
      [this, call](const absl::Status& status) {
        if (!status.ok()) context_.Warn(fmt::format("run {}: {}", run_name_, MessageOf(status)));
        call->Reply({});
      });
  context_.loop().After(kClosePatience, [call] { call->Reply({}); });
}

// --- The questions ---

void Steering::Ask(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Request& request) {
  const bool exit = request.has_should_exit();
  const std::uint64_t number = exit ? request.should_exit().number() : request.need_checkpoint().number();
  if (state_.launch != session->launch) return call->Fail(local::FENCED, "a newer launch has taken over");
  const auto asked = (exit ? state_.should_exit : state_.need_checkpoint).Ask(session->rank, number);
  if (!asked.ok()) return call->Fail(asked.status());
  const std::shared_ptr<Answer> answer = *asked;
  call->WaitingFor(exit ? "the halt conditions, and checkpoints on their way to `local`," : "the halt conditions");
  waits_.Wait([this, session, call, answer, exit] {
    if (call->answered()) return true;
    if (session->ended) {
      call->Fail(local::FENCED, "the session ended while it asked");
      return true;
    }
    if (!answer->decided && !TryAnswer(*session, answer, exit)) return false;
    local::Reply reply;
    local::Advice& advice = exit ? *reply.mutable_should_exit() : *reply.mutable_need_checkpoint();
    advice.set_yes(answer->yes);
    advice.set_why(answer->why);
    call->Reply(std::move(reply));
    return true;
  });
  if (answer->decided || std::exchange(answer->awaited, true)) return;
  constexpr std::uint64_t kWeekMs = 7ull * 24 * 3600 * 1000;  // no call has a later deadline
  const std::uint64_t asked_ms = request.deadline_ms() != 0 ? request.deadline_ms() : context_.config.call_ms_default;
  const std::uint64_t ms = std::min(asked_ms, kWeekMs);
  answer->timer = context_.loop().After(std::chrono::milliseconds(ms - ms / 8), [this, answer] {
    answer->timer = 0;
    answer->hurry = true;
    waits_.Ask();
  });
}

// Decides, unless something is still to come that counts. Only checkpoints that this rank itself has begun are waited
// for: the others need not be at this question before they have begun them, too.
bool Steering::TryAnswer(const Session& session, const std::shared_ptr<Answer>& answer, bool exit) {
  const HaltState& halt = state_.halt;
  const bool waits = !halt.late && !answer->hurry;
  const auto now = context_.now();
  if (state_.launch == session.launch) {
    if (halt.read < halt.wanted || !halt.read_at || now - *halt.read_at >= kFresh) {
      ReadHaltFile();
      if (waits) return false;
    }
    if (exit && halt.known.checkpoints_left.value_or(0) > 0) {
      if (waits && halt.error.empty() && halt.whole > 0) return false;  // they are being taken off
      if (!answer->hurry && HasSettling(session)) return false;
    }
  }
  std::optional<std::string> why = WhyHalted();
  if (why) why = "halt: " + DescribeReason(*why);
  if (!exit && !why) why = WhyCheckpoint(session, *answer);
  answer->decided = true;
  answer->yes = why.has_value();
  answer->why = why.value_or("");
  if (answer->timer != 0) context_.loop().Cancel(std::exchange(answer->timer, 0));
  if (answer->awaited) context_.loop().Post([this] { waits_.Ask(); });
  if (exit && answer->yes) spdlog::info("run {}: launch {} is told to stop: {}", run_name_, session.launch, *why);
  return true;
}

// One that is due while another is on its way may be put off. It is made up for at the first question after that.
std::optional<std::string> Steering::WhyCheckpoint(const Session& session, const Answer& answer) {
  std::optional<std::string> why =
      WhyDue(RhythmOf(context_.config.checkpoint, state_.wanted), state_.costs, answer.number, context_.now(),
             static_cast<std::uint32_t>(state_.hosts.size()));
  if (context_.config.checkpoint.skip_when_busy && OneIsOnItsWay(session)) {
    if (why && state_.put_off_at == 0) {
      state_.put_off_at = answer.number;
      ++state_.put_off;
    }
    return std::nullopt;
  }
  const std::uint64_t put_off_at = std::exchange(state_.put_off_at, 0);
  if (!why && put_off_at != 0) {
    why = fmt::format("due since call {}, when the one before was still on its way", put_off_at);
  }
  return why;
}

// Whether a checkpoint that all ranks of the launch have begun is not yet whole. One whose rank could not begin it is
// over with the next that any rank begins, for which somebody must be told that it is due.
bool Steering::OneIsOnItsWay(const Session& session) const {
  return std::any_of(state_.settling.begin(), state_.settling.end(), [&](DatasetId id) {
    const DatasetPtr dataset = ledger_.Get(id);
    return dataset && dataset->launch == session.launch && dataset->all_begun();
  });
}

// Whether checkpoints that this rank has handed over are not yet whole.
bool Steering::HasSettling(const Session& session) const {
  return std::any_of(state_.settling.begin(), state_.settling.end(), [&](DatasetId id) {
    const DatasetPtr dataset = ledger_.Get(id);
    return dataset && dataset->launch == session.launch && dataset->has_captured(session.rank);
  });
}

void Steering::Describe(admin::RunStatus* status) const {
  if (state_.halt.read_at) *status->mutable_halt() = DescribeHalt(state_, EpochSeconds(context_.env.clocks.wall()));
  if (state_.launch == 0) return;
  *status->mutable_rhythm() =
      DescribeRhythm(state_, RhythmOf(context_.config.checkpoint, state_.wanted), context_.now());
}

}  // namespace cairn
