#include "tests/daemon/core/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

namespace cairn {
namespace {

constexpr std::uint32_t kRetriesMax = 20;

bool IsGone(local::Code code) {
  return code == local::NOT_FOUND || code == local::SUPERSEDED || code == local::FAILED || code == local::DATA_LOSS;
}

}  // namespace

Job::Job(SimulatedDaemon& daemon, Disk& cache, Disk& prefix, RunModel& model, JobPlan plan)
    : daemon_(daemon),
      cache_(cache),
      prefix_(prefix),
      model_(model),
      plan_(std::move(plan)),
      latest_at_least_(model.LatestAtLeast()),
      ranks_(kModelRanks) {}

void Job::Start() {
  running_ = kModelRanks;
  for (Rank rank = 0; rank < kModelRanks; ++rank) {
    daemon_.Spawn([self = shared_from_this(), rank] {
      self->Live(rank);
      self->ranks_[rank].client = nullptr;
      --self->running_;
    });
  }
}

void Job::Live(Rank rank) {
  RankState& self = ranks_[rank];
  while (true) {
    try {
      if (!daemon_.WaitFor([this] { return daemon_.running(); })) return;
      if (!Open(self, rank)) return;
      GoOn(self, rank);
      while (self.next < plan_.deeds.size()) Do(self, rank, plan_.deeds[self.next++]);
      if (plan_.closes) {
        local::Request request;
        request.mutable_close();
        Expect(self.client->Ask(std::move(request)), "close");
      }
      return;
    } catch (const SimulatedDaemon::Lost&) {
      if (self.client) self.client->Drop();
      if (!plan_.comes_back) return;
    }
  }
}

bool Job::Open(RankState& self, Rank rank) {
  auto client = std::make_unique<FakeClient>(daemon_, plan_.client);
  if (self.client) client->TakeOver(*self.client);
  self.client = std::move(client);
  const local::Reply opened = self.client->Open({.rank = rank,
                                                 .nranks = kModelRanks,
                                                 .key = fmt::format("job.{}", plan_.number),
                                                 .takeover = plan_.takeover && self.launch == 0,
                                                 .launch = self.launch,
                                                 .token = self.token,
                                                 .prefix = plan_.prefix});
  Expect(opened, "open");
  if (CodeOfReply(opened) != local::OK) return false;
  model_.Opened(self.client->launch());
  self.launch = self.client->launch();
  self.token = self.client->token();
  return true;
}

void Job::Do(RankState& self, Rank rank, const Deed& deed) {
  switch (deed.kind) {
    case Deed::Kind::kCheckpoint:
      return Checkpoint(self, rank, deed);
    case Deed::Kind::kFiles:
      return Files(*self.client, rank, deed);
    case Deed::Kind::kRestart:
      return Restart(*self.client, self.next - 1, rank);
    case Deed::Kind::kRestore:
      return RestorePromised(*self.client, rank, self.next - 1);
  }
}

void Job::Expect(const local::Reply& reply, const char* what) {
  const local::Code code = CodeOfReply(reply);
  if (code == local::INTERNAL) model_.Violated(fmt::format("{}: {}", what, reply.status().message()));
  // That the cache is full may come out late.
  full_ |= code == local::RESOURCE_EXHAUSTED || reply.status().message().find("is full") != std::string::npos;
  if (!plan_.calm || code == local::OK || full_) return;
  model_.Violated(fmt::format("{} in launch {}, where nothing is wrong: {} {}", what, plan_.number,
                              local::Code_Name(code), reply.status().message()));
}

void Job::ExpectIn(bool fenced, const local::Reply& reply, const char* what) {
  Expect(reply, what);
  if (!fenced || CodeOfReply(reply) != local::OK) return;
  model_.Violated(fmt::format("{} in launch {} is OK, and a newer one has taken over", what, plan_.number));
}

void Job::Hear(DatasetId id, const local::Reply& reply, local::Level level) {
  if (CodeOfReply(reply) == local::OK) {
    model_.Told(id, reply.has_test() ? reply.test().level() : level);
  } else if (IsGone(CodeOfReply(reply)) && level <= local::LOCAL) {
    model_.ToldGone(id, fmt::format("{} {}", local::Code_Name(CodeOfReply(reply)), reply.status().message()));
  }
}

// A rank with a part of what it could not restore begins nothing; then it initialises its memory, for the next time.
void Job::ExpectWhole(FakeClient& client, const local::Reply& begun) {
  if (!client.spoiled()) return;
  if (CodeOfReply(begun) == local::OK) {
    model_.Violated(fmt::format("launch {} begins a checkpoint of what it could not restore", plan_.number));
  }
  client.ProtectAnew();
}

// --- What is written ---

void Job::Checkpoint(RankState& self, Rank rank, const Deed& deed) {
  FakeClient& client = *self.client;
  const bool fenced = model_.IsFenced(client.launch());
  const local::Reply begun = client.Begin(deed.written.step, MemoryOf(deed.written, rank));
  ExpectIn(fenced, begun, "begin");
  ExpectWhole(client, begun);
  if (CodeOfReply(begun) != local::OK) return Expect(client.Abort("it did not begin"), "abort");  // as libcairn does
  self.open = begun.begin().dataset();
  model_.Begun(self.open, deed.written);
  if (deed.abort && rank == 1) {
    self.open = 0;
    return Expect(client.Abort("had enough"), "abort");
  }
  FinishCheckpoint(self, rank, deed, 0);
}

void Job::FinishCheckpoint(RankState& self, Rank rank, const Deed& deed, std::size_t from) {
  FakeClient& client = *self.client;
  client.Fill(MemoryOf(deed.written, rank), from);
  model_.HandsOver(self.open, rank);
  const bool fenced = model_.IsFenced(client.launch());
  const local::Reply done = client.Commit();
  const DatasetId id = std::exchange(self.open, 0);
  if (!deed.abort) ExpectIn(fenced, done, "commit");
  if (CodeOfReply(done) != local::OK) return;
  if (done.committed().dataset() != id) {
    model_.Violated(fmt::format("dataset {} is committed in place of {}", done.committed().dataset(), id));
  }
  if (!deed.abort) WaitFor(client, id, deed.wait);
}

void Job::GoOn(RankState& self, Rank rank) {
  if (self.open == 0) return;
  if (!plan_.client.resumable) {
    self.open = 0;
    return;
  }
  local::Request request;
  request.mutable_resume()->set_dataset(self.open);
  const local::Reply reply = self.client->Ask(std::move(request));
  if (CodeOfReply(reply) == local::OK && reply.resume().committed()) {
    self.open = 0;
  } else if (CodeOfReply(reply) == local::OK) {
    FinishCheckpoint(self, rank, plan_.deeds[self.next - 1], reply.resume().pieces());
  } else {
    self.open = 0;
    Expect(self.client->Abort("it could not be gone on with"), "abort");
  }
}

void Job::Files(FakeClient& client, Rank rank, const Deed& deed) {
  const local::Reply begun = client.OutputBegin(deed.written.step, deed.written.checkpoint, deed.written.output);
  Expect(begun, "begin of files");
  if (deed.written.checkpoint) ExpectWhole(client, begun);
  if (CodeOfReply(begun) != local::OK) return;
  const DatasetId id = begun.output_begin().dataset();
  model_.Begun(id, deed.written);
  bool valid = true;
  for (const auto& [name, bytes] : FilesOf(deed.written, rank)) {
    const local::Reply routed = client.RouteFile(name);
    Expect(routed, "route");
    valid = valid && CodeOfReply(routed) == local::OK && Write(routed.route_file().path(), bytes);
  }
  if (valid) model_.HandsOver(id, rank);
  const local::Reply done = client.OutputEnd(valid);
  Expect(done, "end of files");
  if (CodeOfReply(done) == local::OK && valid) WaitFor(client, id, deed.wait);
}

bool Job::Write(const std::string& path, const std::string& bytes) {
  Disk& disk = path.starts_with(plan_.prefix) ? prefix_ : cache_;
  auto file = disk.Open(path, {.writable = true, .create = true});
  return file.ok() && (*file)->WriteAt(0, std::as_bytes(std::span(bytes))).ok();
}

void Job::WaitFor(FakeClient& client, DatasetId id, local::Level level) {
  if (level == local::NONE) return Hear(id, client.Test(id, local::LOCAL), local::LOCAL);
  const local::Reply reply = client.Wait(id, level);
  Hear(id, reply, level);
}

// --- What is read ---

std::optional<DatasetId> Job::Latest(FakeClient& client, std::size_t deed, std::uint32_t round) {
  const bool fenced = model_.IsFenced(client.launch());
  const std::set<DatasetId> retried = retried_;  // when it asks
  const local::Reply latest = client.Latest();
  const local::Code code = CodeOfReply(latest);
  const DatasetId id = code == local::OK ? latest.latest().dataset() : 0;
  const bool nothing = code == local::NOT_FOUND || code == local::DIRTY;
  if (!nothing) ExpectIn(fenced, latest, "latest");
  if (code == local::NOT_FOUND && client.spoiled()) {
    model_.Violated(fmt::format("launch {} is to start afresh with a part of what it could not restore", plan_.number));
  }
  if (code != local::OK && !nothing) return std::nullopt;
  const bool undisturbed = !plan_.reads_fail && !model_.anything_hurt();
  if (id < latest_at_least_ && undisturbed) {
    model_.Violated(
        fmt::format("launch {} is told {} as the latest, and {} was promised", plan_.number, id, latest_at_least_));
  }
  const RunModel::Dataset* dataset = model_.Find(id);
  if (id != 0 && (dataset == nullptr || !dataset->perhaps_whole() || dataset->written.step != latest.latest().step())) {
    model_.Violated(fmt::format("{} is offered, and was never handed over so", id));
    return std::nullopt;
  }
  if (id != 0 && retried.contains(id) && !plan_.restarts) {
    model_.Violated(fmt::format("{} is offered to launch {} again, which could not restore it", id, plan_.number));
  }
  const auto [agreed, first] = agreed_.try_emplace({deed, round}, id);
  if (plan_.calm && deed == 0 && agreed->second != id) {
    model_.Violated(fmt::format("launch {}: ranks are told {} and {}", plan_.number, agreed->second, id));
  }
  return agreed->second;
}

void Job::Restart(FakeClient& client, std::size_t deed, Rank rank) {
  for (std::uint32_t round = 0; round < kRetriesMax; ++round) {
    const std::optional<DatasetId> id = Latest(client, deed, round);
    if (!id || *id == 0 || RestoreOnce(client, rank, *id, deed, round) != local::RETRY) return;
  }
  if (!plan_.reads_fail && !model_.anything_hurt()) model_.Violated("restores are retried without end");
}

local::Code Job::RestoreOnce(FakeClient& client, Rank rank, DatasetId id, std::size_t deed, std::uint32_t round) {
  const Written written = model_.Find(id)->written;
  const Memory wanted = written.files ? Memory() : MemoryOf(written, rank);
  Memory memory = Blank(wanted);
  const FakeClient::Restored restored = client.Restore(id, memory);
  if (restored.code == local::OK || restored.code == local::RETRY) {
    const auto [first, is_first] = restored_.try_emplace({deed, round}, restored.code);
    if (first->second != restored.code && !plan_.restarts && !plan_.comes_back) {
      model_.Violated(fmt::format("dataset {} is restored on some ranks and not on others", id));
    }
  }
  if (restored.code != local::OK) {
    // What the launch has not pinned may be superseded before the last rank comes to it.
    const bool there = deed == 0 || model_.MustBeThere(id);
    if (plan_.calm && !full_ && there) model_.Violated(fmt::format("restore of {}: {}", id, restored.message));
    if (restored.code == local::RETRY) retried_.insert(id);
    return restored.code;
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (memory[i].bytes != wanted[i].bytes) {
      model_.Violated(fmt::format("dataset {}, rank {}: variable {} comes back with other bytes, from {}", id, rank, i,
                                  local::Tier_Name(restored.tier)));
    }
  }
  if (written.files) CompareFiles(client, rank, id, written);
  return local::OK;
}

void Job::RestorePromised(FakeClient& client, Rank rank, std::size_t deed) {
  const DatasetId id = plan_.deeds[deed].dataset;
  const local::Code code = RestoreOnce(client, rank, id, deed, 0);
  if (code == local::OK) return;
  model_.Violated(fmt::format("dataset {}, promised at {}, is not restored: {}", id,
                              local::Level_Name(model_.Find(id)->promised), local::Code_Name(code)));
}

void Job::CompareFiles(FakeClient& client, Rank rank, DatasetId id, const Written& written) {
  for (const auto& [name, bytes] : FilesOf(written, rank)) {
    const local::Reply reply = client.RestartFile(id, name);
    if (CodeOfReply(reply) != local::OK) continue;
    const std::string& path = reply.restart_file().path();
    const auto read = ReadWhole(path.starts_with(plan_.prefix) ? prefix_ : cache_, path, 1 << 20);
    if (read.ok() && *read != bytes) {
      model_.Violated(fmt::format("dataset {}, rank {}: {} comes back with other bytes", id, rank, name));
    }
  }
}

}  // namespace cairn
