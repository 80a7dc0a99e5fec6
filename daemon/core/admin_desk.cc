#include "daemon/core/admin_desk.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "daemon/core/commands.h"
#include "daemon/core/leave_command.h"
#include "daemon/core/over_nodes.h"
#include "daemon/core/rebuild_command.h"
#include "daemon/core/run_report.h"
#include "storage/base/status.h"
#include "storage/base/version.h"
#include "storage/io/disk.h"

namespace cairn {
namespace {

void Put(const DiskMechanisms& of, admin::Mechanisms::OfDisk& told) {
  told.set_engine(std::string(of.engine));
  told.set_direct_off(!of.direct);
  told.set_files(of.files);
  told.set_files_direct(of.files_direct);
  told.set_files_asked(of.files_asked);
  told.set_files_handed(of.files_handed);
}

}  // namespace

AdminDesk::AdminDesk(const Context& context, Runs& runs, const CacheRoom& room, const ImageStore& images,
                     const DiskTuner& tuner, std::uint64_t incarnation)
    : context_(context),
      runs_(runs),
      room_(room),
      images_(images),
      tuner_(tuner),
      incarnation_(incarnation),
      started_(context.now()) {}

// --- This node, and the others ---

absl::StatusOr<std::vector<Run*>> AdminDesk::Named(const std::string& run) const {
  std::vector<Run*> named;
  if (run.empty()) {
    for (const auto& [id, known] : runs_.all()) named.push_back(known.get());
    return named;
  }
  CAIRN_ASSIGN_OR_RETURN(Run* const found, runs_.FindNamed(run));
  named.push_back(found);
  return named;
}

void AdminDesk::AskOthers(std::vector<Run*> runs, const peer::Question& question,
                          std::function<void(Heard heard)> then) const {
  std::erase_if(runs, [](const Run* run) { return !run->nodes.has_others(); });
  if (runs.empty()) return then({});
  struct Round {
    std::size_t left;
    Heard heard;
    std::function<void(Heard heard)> then;
  };
  auto round = std::make_shared<Round>(Round{.left = runs.size(), .heard = {}, .then = std::move(then)});
  for (Run* const run : runs) {
    run->nodes.AskOthers(question, [round, id = run->id](std::vector<Nodes::Said> said) {
      if (!said.empty()) round->heard[id] = std::move(said);
      if (--round->left == 0) round->then(std::move(round->heard));
    });
  }
}

admin::StatusReply AdminDesk::StatusHere() const {
  using std::chrono::milliseconds;
  admin::StatusReply reply;
  reply.set_version(std::string("cairn ") + kVersion);
  reply.set_pid(context_.env.process.pid);
  reply.set_host(context_.env.process.host);
  reply.set_uptime_ms(
      static_cast<std::uint64_t>(std::chrono::duration_cast<milliseconds>(context_.now() - started_).count()));
  reply.set_incarnation(incarnation_);
  reply.set_quiescing(context_.quiescing());
  reply.set_cache(context_.config.cache.path);
  reply.set_cache_bytes_used(room_.BytesUsed());
  reply.set_cache_bytes_max(room_.bytes_max());
  reply.set_image_bytes_used(images_.used());
  reply.set_image_bytes_max(images_.bytes_max());
  tuner_.Describe(*reply.mutable_transfers());
  images_.Describe(*reply.mutable_mechanisms());
  reply.mutable_mechanisms()->set_background_io_priority(context_.config.background.io_priority);
  reply.mutable_mechanisms()->set_background_bytes_per_s(context_.config.background.beside_captures);
  Put(context_.env.cache_disk.mechanisms(), *reply.mutable_mechanisms()->mutable_cache());
  Put(context_.env.prefix_disk.mechanisms(), *reply.mutable_mechanisms()->mutable_prefix());
  for (const auto& [id, run] : runs_.all()) *reply.add_runs() = StatusOf(*run, context_);
  for (const auto& [prefix, since] : context_.env.pools.prefix.BusySince()) {
    if (context_.now() < since + kHangsAfter || runs_.AnyAt(prefix)) continue;
    admin::HungPrefix& hung = *reply.add_hung();
    hung.set_prefix(prefix);
    hung.set_since_us(SinceEpochUs(since, context_));
  }
  for (const std::string& warning : context_.warnings->all()) reply.add_warnings(warning);
  return reply;
}

void AdminDesk::Status(const admin::StatusRequest& request, std::function<void(admin::StatusReply)> done) const {
  peer::Question question;
  question.mutable_status();
  const auto all = *Named("");
  AskOthers(request.this_node_only() ? std::vector<Run*>() : all, question,
            [this, question, all, done = std::move(done)](Heard heard) {
              admin::StatusReply reply = StatusHere();
              int row = 0;
              for (const auto& [id, run] : runs_.all()) {
                admin::RunStatus& status = *reply.mutable_runs(row++);
                const auto said = heard.find(id);
                if (said == heard.end()) continue;
                const OverNodes over(id, question, run->nodes.Own(), std::move(said->second));
                for (admin::NodeAnswer& node : over.nodes()) *status.add_nodes() = std::move(node);
              }
              done(std::move(reply));
            });
}

void AdminDesk::List(const admin::ListRequest& request,
                     std::function<void(absl::StatusOr<admin::ListReply>)> done) const {
  const auto runs = Named(request.run());
  if (!runs.ok()) return done(runs.status());
  peer::Question question;
  question.mutable_list();
  AskOthers(request.this_node_only() ? std::vector<Run*>() : *runs, question,
            [question, runs = *runs, done = std::move(done)](Heard heard) {
              admin::ListReply reply;
              for (const Run* const run : runs) {
                OverNodes::Rows rows = RowsOf(*run);
                if (const auto said = heard.find(run->id); said != heard.end()) {
                  const OverNodes over(run->id, question, run->nodes.Own(), std::move(said->second));
                  rows = over.List(std::move(rows), run->gate.path());
                  admin::RunNodesAsked& asked = *reply.add_asked();
                  asked.set_run(run->id.Hex());
                  asked.set_prefix(run->gate.path());
                  for (admin::NodeAnswer& node : over.nodes()) *asked.add_nodes() = std::move(node);
                }
                for (auto& [id, row] : rows) *reply.add_datasets() = std::move(row);
              }
              done(std::move(reply));
            });
}

void AdminDesk::ShowHere(Run& run, DatasetId id, std::function<void(absl::StatusOr<admin::ShowReply>)> done) const {
  const DatasetPtr dataset = run.ledger.Get(id);
  if (!dataset) {
    const LevelAnswer answer = run.levels.Ask(id, Level::kCaptured);
    return done(NotFound("{}", answer.status.message()));
  }
  // What other nodes have of it they tell themselves: it is not on the prefix to be read there.
  if (dataset->in_cache() && !dataset->in_prefix()) return done(Shown(run, *dataset));
  run.inventory.Describe(dataset, [&run, dataset, done](const absl::Status& status) {
    if (!status.ok()) return done(status);
    done(Shown(run, *dataset));
  });
}

void AdminDesk::Show(const admin::DatasetRequest& request,
                     std::function<void(absl::StatusOr<admin::ShowReply>)> done) const {
  const auto found = runs_.FindNamed(request.run());
  if (!found.ok()) return done(found.status());
  Run& run = **found;
  peer::Question question;
  question.mutable_show()->set_dataset(request.dataset());
  AskOthers(request.this_node_only() ? std::vector<Run*>() : std::vector<Run*>{&run}, question,
            [this, &run, question, done = std::move(done)](Heard heard) {
              const DatasetId id = question.show().dataset();
              if (heard.empty()) return ShowHere(run, id, done);
              ShowHere(run, id, [&run, question, done, said = std::move(heard.begin()->second)](auto own) {
                done(OverNodes(run.id, question, run.nodes.Own(), said).Show(std::move(own), run.gate.path()));
              });
            });
}

// --- What is to be done ---

void AdminDesk::Wait(const admin::WaitRequest& request, std::function<void(admin::WaitReply)> done) const {
  const auto answer = [done](const local::Status& status, Level level, std::string held_up_by = "") {
    admin::WaitReply reply;
    *reply.mutable_status() = status;
    reply.set_level(static_cast<local::Level>(level));
    reply.set_held_up_by(std::move(held_up_by));
    done(std::move(reply));
  };
  const auto found = runs_.FindNamed(request.run());
  if (!found.ok()) return answer(StatusMessage(found.status()), Level::kNone);
  if (!local::Level_IsValid(request.level())) {
    const int level = static_cast<int>(request.level());
    return answer(StatusMessage(InvalidArgument("{} is no level that this daemon knows", level)), Level::kNone);
  }
  Run* const run = *found;
  const DatasetId id = request.dataset();
  const Level level = static_cast<Level>(request.level());
  if (level == Level::kPrefix) run->flusher.Want(id);
  struct State {
    bool answered = false;
    Loop::TimerId timer = 0;
  };
  auto state = std::make_shared<State>();
  constexpr std::uint64_t kWeekMs = 7ull * 24 * 3600 * 1000;
  const std::uint64_t asked_ms = request.timeout_ms() != 0 ? request.timeout_ms() : context_.config.call_ms_default;
  const std::uint64_t ms = std::min(asked_ms, kWeekMs);
  state->timer = context_.loop().After(std::chrono::milliseconds(ms), [state, answer, run, id, level, ms] {
    if (std::exchange(state->answered, true)) return;
    const LevelAnswer now = run->levels.Ask(id, level);
    answer(StatusMessage(DeadlineExceeded("dataset {} did not reach level {} within {} ms", id, NameOf(level), ms)),
           now.level, level == Level::kPrefix ? run->HeldUpBy(id) : "");
  });
  run->waits.Wait([this, state, answer, run, id, level] {
    if (state->answered) return true;
    const LevelAnswer now = run->levels.Ask(id, level);
    if (!now.final) return false;
    state->answered = true;
    context_.loop().Cancel(state->timer);
    answer(now.status, now.level);
    return true;
  });
}

void AdminDesk::Flush(const admin::FlushRequest& request, std::function<void(admin::FlushReply)> done) const {
  Do(request, commands::Flush, std::move(done));
}

void AdminDesk::Pin(const admin::PinRequest& request, std::function<void(admin::PinReply)> done) const {
  Do(request, commands::Pin, std::move(done));
}

void AdminDesk::Remove(const admin::RemoveRequest& request, std::function<void(admin::RemoveReply)> done) const {
  Do(request, commands::Remove, std::move(done));
}

void AdminDesk::Rebuild(const admin::RebuildRequest& request, std::function<void(admin::RebuildReply)> done) const {
  Do(request, commands::Rebuild, std::move(done));
}

void AdminDesk::Leave(const admin::LeaveRequest& request, std::function<void(admin::LeaveReply)> done) const {
  const auto runs = Named(request.run());
  struct Gathered {
    std::size_t left = 1;
    absl::Status status;
    admin::LeaveReply reply;
  };
  const auto gathered = std::make_shared<Gathered>();
  gathered->status = runs.status();
  const auto one_less = [gathered, done = std::move(done)] {
    if (--gathered->left > 0) return;
    *gathered->reply.mutable_status() = StatusMessage(gathered->status);
    done(std::move(gathered->reply));
  };
  const commands::LeaveHow how{.patience = std::chrono::milliseconds(request.timeout_ms()),
                               .to_prefix = request.to_prefix()};
  for (Run* const run : runs.ok() ? *runs : std::vector<Run*>()) {
    ++gathered->left;
    commands::Leave(*run, context_, how, [gathered, one_less, run](absl::StatusOr<commands::OnlyHere> only_here) {
      if (!only_here.ok()) gathered->status = Annotate(only_here.status(), run->gate.path());
      if (only_here.ok()) gathered->reply.mutable_only_here()->Add(only_here->begin(), only_here->end());
      one_less();
    });
  }
  one_less();
}

template <typename Request, typename Reply>
void AdminDesk::Do(const Request& request, void (*command)(Run&, const Request&, std::function<void(Reply)>),
                   std::function<void(Reply)> done) const {
  const auto run = runs_.FindNamed(request.run());
  if (run.ok()) return command(**run, request, std::move(done));
  Reply reply;
  *reply.mutable_status() = StatusMessage(run.status());
  done(std::move(reply));
}

absl::StatusOr<admin::NodesReply> AdminDesk::DescribeNodes(const admin::NodesRequest& request) const {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<Run*> runs, Named(request.run()));
  admin::NodesReply reply;
  for (const Run* const run : runs) *reply.add_runs() = run->nodes.Describe();
  return reply;
}

}  // namespace cairn
