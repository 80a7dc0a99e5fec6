// `cairn run`: which run a directory is, and who works there.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/arbiters.h"
#include "client/cli/commands.h"
#include "client/cli/file_argument.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/run_prefix.h"
#include "client/cli/run_wait.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"
#include "storage/job/run_arbiter/run_arbiter.h"
#include "storage/job/run_info/run_info.h"
#include "storage/place/arbiter/arbiter_record.h"
#include "storage/place/prefix/identity.h"

namespace cairn::cli {
namespace {

struct RunOptions {
  std::string run;
};

const char* NameOf(LeaseRecord::State state) {
  switch (state) {
    case LeaseRecord::State::kLive:
      return "live";
    case LeaseRecord::State::kDraining:
      return "draining";
    case LeaseRecord::State::kEnded:
      return "ended";
  }
  return "?";
}

// --- moved ---

struct Moved {
  std::string prefix;
  RunInfo was;
  RunIdentity now;
};

absl::StatusOr<Moved> TakeBack(const Context& context, const std::string& run) {
  Moved moved;
  CAIRN_ASSIGN_OR_RETURN(moved.prefix, FindPrefix(context, run));
  const auto disk = MakePosixDisk();
  CAIRN_ASSIGN_OR_RETURN(moved.was, ReadRunInfo(*disk, moved.prefix));
  CAIRN_ASSIGN_OR_RETURN(moved.now, identity::TakeBack(*disk, moved.prefix));
  return moved;
}

std::string Describe(const Moved& moved) {
  const RunIdentity& was = moved.was.identity;
  std::string what = "; nobody had opened it as a branch";
  if (was.run == moved.now.run) {
    what = ", also if its path is another";
  } else if (!was.provisional) {
    what = fmt::format("; it had become branch {} on {}", was.run.ShortHex(), LocalTime(moved.was.since_us));
  }
  return fmt::format("{} is run {} again{}\n", Clean(moved.prefix), moved.now.run.ShortHex(), what);
}

Json MovedJson(const Moved& moved) {
  const RunIdentity& was = moved.was.identity;
  const bool branch = was.run != moved.now.run && !was.provisional;
  return {{"prefix", Clean(moved.prefix)},
          {"run", moved.now.run.Hex()},
          {"branch", branch ? Json(was.run.Hex()) : Json()},
          {"branch_since_us", branch ? moved.was.since_us : 0}};
}

ExitCode RunMoved(const Context& context, const RunOptions& options) {
  const auto moved = TakeBack(context, options.run);
  if (!moved.ok()) return ComplainOfFile(moved.status());
  Print(context.json ? Dump(MovedJson(*moved)) : Describe(*moved));
  return ExitCode::kOk;
}

// --- arbiter ---

struct ArbiterOptions {
  std::string run, kind;
  bool force = false;
};

std::string DescribeArbiter(const ArbiterRecord& record) {
  return record.where.empty() ? std::string(NameOf(record.kind))
                              : fmt::format("{} ({})", NameOf(record.kind), Clean(record.where));
}

struct ShownArbiter {
  std::string prefix;
  ArbiterRecord record;
  bool changed = false;
};

absl::StatusOr<ShownArbiter> FindOrChangeArbiter(const Context& context, const ArbiterOptions& options) {
  ShownArbiter shown;
  CAIRN_ASSIGN_OR_RETURN(shown.prefix, FindPrefix(context, options.run));
  const auto disk = MakePosixDisk();
  CAIRN_RETURN_IF_ERROR(Prefix::RunAt(*disk, shown.prefix).status());
  CAIRN_ASSIGN_OR_RETURN(const auto now, arbiter_record::Read(*disk, shown.prefix));
  shown.record = now.value_or(ArbiterRecord());
  const auto wanted = ArbiterKindOf(options.kind);
  if (!wanted || (*wanted == shown.record.kind && !options.force)) return shown;
  CAIRN_ASSIGN_OR_RETURN(const auto to, ConfiguredArbiters(*wanted));
  std::shared_ptr<const Arbiters> from;
  if (!options.force) {
    CAIRN_ASSIGN_OR_RETURN(from, ConfiguredArbiters(shown.record.kind));
  }
  const auto note = [](const std::string& text) { fmt::print(stderr, "{}\n", Clean(text)); };
  CAIRN_ASSIGN_OR_RETURN(shown.record,
                         ChangeArbiter(*disk, shown.prefix, {.from = from.get(), .to = *to, .wait = {}, .note = note}));
  shown.changed = true;
  return shown;
}

ExitCode RunArbiter(const Context& context, const ArbiterOptions& options) {
  const auto shown = FindOrChangeArbiter(context, options);
  if (!shown.ok()) return ComplainOfFile(shown.status());
  const std::string text = fmt::format("{}: the arbiter is {}{}\n", Clean(shown->prefix),
                                       DescribeArbiter(shown->record), shown->changed ? " from now on" : "");
  Print(context.json ? Dump({{"prefix", Clean(shown->prefix)},
                             {"arbiter", NameOf(shown->record.kind)},
                             {"where", Clean(shown->record.where)},
                             {"changed", shown->changed}})
                     : text);
  return ExitCode::kOk;
}

// --- show ---

bool IsElsewhere(const RunInfo& info) {
  return info.arbiter && info.arbiter->kind != ArbiterKind::kPrefix;
}

std::string DescribeLease(const RunInfo& info) {
  if (IsElsewhere(info)) return "the arbiter knows: `cairn status` where a daemon serves it";
  if (!info.lease) return info.newest->has_base() ? "nobody has said so" : "not known: release 0.1.0 made it";
  if (!info.lease->record) return "not known: its lease cannot be read";
  const LeaseRecord& lease = *info.lease->record;
  if (lease.run != info.identity.run) return "nobody: its lease was copied with the directory";
  const std::string who = fmt::format("process {} on {}{}", lease.pid, Clean(lease.host),
                                      lease.what.empty() ? "" : fmt::format(" ({})", Clean(lease.what)));
  switch (lease.state) {
    case LeaseRecord::State::kEnded:
      return "nobody: it has ended";
    case LeaseRecord::State::kDraining:
      return who + ", which still brings data to the prefix";
    case LeaseRecord::State::kLive:
      break;
  }
  return fmt::format("{}, unless its lease has not changed for {}", who, Duration(lease.term_ms));
}

std::string Describe(const std::string& prefix, const RunInfo& info) {
  const RunIdentity& identity = info.identity;
  std::string text = fmt::format("{}\n  run       {}", Clean(prefix), identity.run.Hex());
  if (info.since_us != 0) text += fmt::format(", since {}", LocalTime(info.since_us));
  if (identity.provisional) text += ", once somebody opens it who may write there";
  if (identity.parent) text += fmt::format("\n  branch of {}", identity.parent->Hex());
  for (const RunId& other : identity.before) {
    if (other != identity.parent) text += fmt::format("\n  was       {}", other.Hex());
  }
  if (info.newest) {
    const LaunchRecord& launch = *info.newest;
    text += fmt::format("\n  launch    {} on {}, {}, made {}{}", launch.id, Clean(launch.maker.host),
                        Count(launch.nranks, "rank"), LocalTime(launch.created_us),
                        launch.abandoned ? "; abandoned: nothing of it counts" : "");
    text += fmt::format("\n  works     {}", DescribeLease(info));
  } else {
    text += "\n  launch    none";
  }
  if (IsElsewhere(info)) text += fmt::format("\n  arbiter   {}", DescribeArbiter(*info.arbiter));
  text +=
      fmt::format("\n  ids       {}", info.id_highest ? fmt::format("reserved up to {}", *info.id_highest) : "none");
  for (const std::string& damaged : info.damaged) text += fmt::format("\n  DAMAGED   {}", Clean(damaged));
  return text + "\n";
}

Json LaunchJson(const LaunchRecord& launch) {
  return {{"launch", launch.id},
          {"ranks", launch.nranks},
          {"created_us", launch.created_us},
          {"host", Clean(launch.maker.host)},
          {"pid", launch.maker.pid},
          {"abandoned", launch.abandoned},
          {"release_0_1_0", !launch.has_base()}};
}

Json LeaseJson(const RunInfo& info) {
  if (!info.lease || !info.lease->record) return nullptr;
  const LeaseRecord& lease = *info.lease->record;
  return {{"epoch", lease.epoch},      {"state", NameOf(lease.state)},
          {"host", Clean(lease.host)}, {"pid", lease.pid},
          {"what", Clean(lease.what)}, {"term_ms", lease.term_ms},
          {"counter", lease.counter},  {"own", lease.run == info.identity.run}};
}

Json RunJson(const std::string& prefix, const RunInfo& info) {
  const RunIdentity& identity = info.identity;
  Json before = Json::array(), damaged = Json::array();
  for (const RunId& other : identity.before) before.push_back(other.Hex());
  for (const std::string& text : info.damaged) damaged.push_back(Clean(text));
  return {{"prefix", Clean(prefix)},
          {"run", identity.run.Hex()},
          {"since_us", info.since_us},
          {"provisional", identity.provisional},
          {"parent", identity.parent ? Json(identity.parent->Hex()) : Json()},
          {"before", std::move(before)},
          {"arbiter", NameOf(info.arbiter ? info.arbiter->kind : ArbiterKind::kPrefix)},
          {"newest", info.newest ? LaunchJson(*info.newest) : Json()},
          {"lease", LeaseJson(info)},
          {"id_highest", info.id_highest ? Json(*info.id_highest) : Json()},
          {"damaged", std::move(damaged)}};
}

ExitCode ShowRun(const Context& context, const RunOptions& options) {
  const auto prefix = FindPrefix(context, options.run);
  if (!prefix.ok()) return Complain(prefix.status());
  const auto disk = MakePosixDisk();
  const auto info = ReadRunInfo(*disk, *prefix);
  if (!info.ok()) return ComplainOfFile(info.status());
  Print(context.json ? Dump(RunJson(*prefix, *info)) : Describe(*prefix, *info));
  return info->damaged.empty() ? ExitCode::kOk : ExitCode::kDamaged;
}

}  // namespace

namespace {

void AddArbiter(Command run, CommandLine& line) {
  const auto options = std::make_shared<ArbiterOptions>();
  const Command arbiter = run.AddCommand("arbiter",
                                         "Show who decides races between nodes for the run, or name "
                                         "another");
  AddRun(arbiter, options->run);
  arbiter.AddOption("kind", options->kind, "prefix: the run's own folder; etcd: the one of arbiter.endpoints")
      .ValueName("KIND")
      .OneOf({"prefix", "etcd"});
  arbiter.AddFlag("--force", options->force,
                  "Do not ask the old one whether somebody works under the run: it is gone for good");
  arbiter.Footer(
      "A run keeps the arbiter with which it began, and refuses a daemon that is set to another one (arbiter.kind).\n"
      "So if you change that setting, call `cairn run arbiter DIR etcd` for each run that goes on. The command\n"
      "waits until nobody works under the run. It reads the daemon's settings: $CAIRN_CONFIG, else\n"
      "/etc/cairn/cairnd.toml. With --force the next launch fences everybody who works there now: what they commit\n"
      "after it does not count.\n"
      "\n"
      "Exit codes: 0 shown, or changed; 1 refused or failed; 4 no run is there; 5 a record is damaged.");
  SetRun(arbiter, line, options, RunArbiter);
}

}  // namespace

void AddRunCommand(Command app, CommandLine& line) {
  const Command run = app.AddCommand("run", "Show which run a directory is, and who works there; needs no daemon");
  run.RequireCommand(1, 1);

  const auto shown = std::make_shared<RunOptions>();
  const Command show = run.AddCommand("show", "Show the run's identity, newest launch, who works under it, and ids");
  show.Footer(
      "Example:\n  cairn run show /scratch/me/heat\n\nExit codes: 0 shown; 4 no run is there; 5 a record is damaged.");
  AddRun(show, shown->run);
  SetRun(show, line, shown, ShowRun);

  AddRunWait(run, line);

  const auto options = std::make_shared<RunOptions>();
  const Command moved = run.AddCommand("moved",
                                       "Say that the directory is no copy: the run itself has moved here, "
                                       "and goes on");
  moved.Footer(
      "A copy of a run's directory becomes a branch when it is first used: a run of its own, which keeps the\n"
      "checkpoints of the run that was copied, but not its caches. Cairn knows a copy by the inode of DIR/.cairn,\n"
      "or by the path. So a directory that was moved may look like a copy. Call `cairn run moved DIR`\n"
      "  after  rsync, tar or cp, if the old directory is gone for good;\n"
      "         mv to another file system; lfs migrate; a restore from tape or from a backup;\n"
      "  but not after  cp -a to try something else in the copy: branches are made for that.\n"
      "The command refuses as long as the run lives in its old place. After it, Cairn uses the run's caches again.\n"
      "What was made in the meantime, as a branch, stays.\n"
      "\n"
      "Example:\n"
      "  rsync -a /scratch/old/heat /scratch/new/ && rm -r /scratch/old/heat && cairn run moved /scratch/new/heat\n"
      "\n"
      "Exit codes: 0 it is the run again; 1 refused or failed; 4 no run is there; 5 a record is damaged.");
  AddRun(moved, options->run);
  SetRun(moved, line, options, RunMoved);
  AddArbiter(run, line);
}

}  // namespace cairn::cli
