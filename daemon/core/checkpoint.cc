// Protected memory from Begin to `captured`. The client is answered as soon as there is an image; the dataset's
// directory and file are made while it copies.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "daemon/core/core_impl.h"
#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/cache/catalogue.h"
#include "storage/view/placement.h"

namespace cairn {
namespace {

// A ring needs word of what is in it often. In a whole image nobody touches anything before the commit: no word is
// needed, and every one would wake the daemon while the client copies.
constexpr std::uint64_t kNoDoorbell = std::uint64_t{1} << 62;

// An SCR job with this SCR_JOB_ID restarts from the cache: its folder is named so.
std::string JobOf(const CacheFolder& cache) {
  constexpr std::string_view kStem = "scr.";
  const std::string folder = BaseOf(cache.path());
  return folder.starts_with(kStem) ? folder.substr(kStem.size()) : folder;
}

std::vector<ftiff::VariableSize> SizesOf(const VariableList& variables) {
  std::vector<ftiff::VariableSize> sizes;
  sizes.reserve(static_cast<std::size_t>(variables.size()));
  for (const local::Variable& variable : variables) sizes.push_back({.id = variable.id(), .bytes = variable.bytes()});
  return sizes;
}

bool SameVariables(const VariableList& a, const VariableList& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const local::Variable& x, const local::Variable& y) {
    return x.SerializeAsString() == y.SerializeAsString();
  });
}

void TellReleased(const std::shared_ptr<PartWriter>& writer) {
  const std::shared_ptr<Session> session = writer->session.lock();
  if (!session || !session->connection || session->writer != writer) return;
  local::Reply reply;
  reply.set_call(writer->begin_call);
  reply.mutable_released()->set_windows(writer->released);
  session->connection->Send(reply, nullptr);
}

void PutPlan(const std::vector<PlanPiece>& pieces, bool ring, std::uint64_t doorbell_bytes, local::Plan* out) {
  const int count = static_cast<int>(pieces.size());
  out->mutable_variable()->Reserve(count);
  out->mutable_variable_offset()->Reserve(count);
  out->mutable_image_offset()->Reserve(count);
  out->mutable_bytes()->Reserve(count);
  for (const PlanPiece& piece : pieces) {
    out->add_variable(piece.variable);
    out->add_variable_offset(piece.variable_offset);
    out->add_image_offset(piece.image_offset);
    out->add_bytes(piece.bytes);
    if (ring) out->add_after_released(piece.after_released);
  }
  out->set_doorbell_bytes(doorbell_bytes);
}

}  // namespace

scr::Descriptor CoreImpl::DescriptorOf(const Dataset& dataset, bool complete) {
  scr::Descriptor descriptor;
  descriptor.id = dataset.id;
  descriptor.name = dataset.name.empty() ? fmt::format("ckpt.{}", dataset.id) : dataset.name;
  descriptor.checkpoint = dataset.checkpoint;
  descriptor.output = dataset.output;
  descriptor.created_us = dataset.created_us;
  descriptor.user = dataset.user;
  descriptor.job_id = dataset.job;
  descriptor.launch = dataset.launch;
  descriptor.step = dataset.step;
  descriptor.ranks = dataset.nranks;
  descriptor.own_files = dataset.files;
  if (complete) {
    descriptor.complete = true;
    for (const Part& part : dataset.parts) {
      // The catalogue is one of a rank's files, too.
      descriptor.files += static_cast<std::uint64_t>(part.catalogue.file_size()) + 1;
      descriptor.bytes += part.bytes + CatalogueFileBytes(part.catalogue);
    }
  }
  return descriptor;
}

absl::StatusOr<DatasetId> CoreImpl::NextId(const RunPtr& run) {
  if (run->ids.count == 0) std::swap(run->ids, run->next_ids);
  // The next block is fetched when half is used.
  if (run->ids.count <= 32 && run->next_ids.count == 0 && !run->reserving) {
    run->reserving = true;
    ReserveIds(run, [this, run](const absl::Status& status) {
      run->reserving = false;
      if (!status.ok()) Warn(fmt::format("run {}: {}", run->name, MessageOf(status)));
    });
  }
  if (run->ids.count == 0) return Unavailable("{}: no dataset ids: the prefix does not answer", run->prefix_path);
  --run->ids.count;
  return run->ids.first++;
}

// Joins or makes the dataset of this begin.
absl::StatusOr<CoreImpl::DatasetPtr> CoreImpl::EnterDataset(const SessionPtr& session, const Ledger::BeginSpec& spec,
                                                            const VariableList& variables) {
  const RunPtr& run = session->run;
  Launch* launch = run->ledger.Find(session->launch);
  CAIRN_CHECK(launch != nullptr);
  CAIRN_ASSIGN_OR_RETURN(DatasetPtr dataset, run->ledger.FindForBegin(*launch, session->rank, spec));
  DatasetPtr spare;
  if (!dataset) {
    // What is kept of a dataset grows with its ranks; a rank that runs ahead of one that never comes is stopped.
    const std::size_t open_max = std::clamp<std::size_t>((256 << 10) / launch->nranks, 2, 64);
    if (launch->open.size() >= open_max) {
      return ResourceExhausted("{} datasets of this launch wait for ranks that have not begun them", open_max);
    }
    bool bypass = Bypasses(*run, *launch, session->rank, spec);
    if (!bypass) {
      spare = spec.files ? nullptr : SpareFor(run, spec.bytes, launch->nranks);
      const absl::Status room = EnsureRoom(run, spec.bytes, spare);
      // Files are not refused for what others hold.
      bypass = !room.ok() && spec.files && MayBypass(*run);
      if (!room.ok() && !bypass) return room;
    }
    CAIRN_ASSIGN_OR_RETURN(const DatasetId id, NextId(run));
    dataset = run->ledger.Create(*launch, id, spec);
    dataset->user = process_.user;
    dataset->job = JobOf(*run->cache);
    dataset->bypass = bypass;
    if (bypass) {
      if (!run->bypass) run->bypass = Bypass::Make(prefix_disk_, run->prefix, config_.prefix.views);
      run->bypassing.insert(id);
    }
  } else if (absl::Status room = dataset->bypass || spec.files ? absl::OkStatus() : EnsureRoom(run, spec.bytes);
             !room.ok()) {
    if (dataset->bytes() + spec.bytes > cache_bytes_max_) run->outgrown = launch->nranks;
    run->ledger.Fail(dataset->id, fmt::format("rank {}: {}", session->rank, MessageOf(room)));
    return room;
  }
  CAIRN_RETURN_IF_ERROR(run->ledger.Begin(*launch, dataset, session->rank, spec, variables));
  if (spare && spare->in_cache) GiveFiles(run, spare, dataset->id);
  return dataset;
}

void CoreImpl::HandleBegin(const SessionPtr& session, const CallPtr& call, const local::Begin& begin) {
  if (quiescing_) return call->Fail(Unavailable("the daemon is going away"));
  if (session->writer && session->writer->ended) session->writer = nullptr;  // it failed before its commit
  if (session->writer) {
    if (AnsweredAgain(session, call, begin)) return;
    return call->Fail(FailedPrecondition("the last checkpoint of this session is not committed"));
  }
  if (session->files) return call->Fail(FailedPrecondition("an output of files is open: memory and files do not mix"));
  if (absl::Status status = ValidateVariables(begin.variables()); !status.ok()) return call->Fail(status);
  if (begin.attempt() == 0) return call->Fail(InvalidArgument("attempts count from 1"));

  if (const DatasetPtr last = ListToRead(*session)) {
    return ReadList(session, last, [this, session, call, begin] {
      if (session->ended) return call->Fail(local::FENCED, "the session ended meanwhile");
      if (!call->answered()) HandleBegin(session, call, begin);
    });
  }

  auto writer = std::make_shared<PartWriter>();
  writer->last = LastList(*session);
  auto list = PlanList(*session, writer->last.get(), SizesOf(begin.variables()));
  if (!list.ok()) return call->Fail(list.status());
  writer->list = *std::move(list);
  writer->letter = LetterOfFiles();
  const std::uint64_t file_bytes = begin.variables().empty() ? 0 : writer->list->layout->file_bytes(writer->letter);
  auto dataset =
      EnterDataset(session, {.step = begin.step(), .attempt = begin.attempt(), .bytes = file_bytes, .now_us = NowUs()},
                   begin.variables());
  if (!dataset.ok()) {
    call->Fail(dataset.status());
    return Changed(session->run);
  }
  writer->run = session->run;
  writer->dataset = *dataset;
  writer->rank = session->rank;
  writer->session = session;
  writer->variables = begin.variables();
  writer->work_path = StoreOf(*session->run, **dataset)->WorkPath((*dataset)->id, session->rank);
  writer->begin_call = call->number();
  writer->begin_connection = call->connection();
  writer->lease = LeaseOf(session->run, (*dataset)->id);
  session->run->writers[(*dataset)->id][session->rank] = writer;
  session->writer = writer;
  call->OnExpired([this, session, writer] {
    session->run->ledger.Fail(writer->dataset->id, fmt::format("rank {}: no image in time", writer->rank));
    Changed(session->run);
  });
  AcquireImage({.session = session,
                .call = call,
                .bytes = writer->list->layout->data_bytes,
                .then = [this, session, writer, call](absl::StatusOr<std::shared_ptr<Image>> image) {
                  if (writer->ended || session->ended) {
                    ReleaseImage(session, image.ok() ? *std::move(image) : nullptr);
                    return call->Fail(WhyFailed(*writer->run, *writer->dataset));
                  }
                  if (image.ok()) return StartWriter(writer, call, *std::move(image));
                  writer->run->ledger.Fail(writer->dataset->id,
                                           fmt::format("rank {}: {}", writer->rank, MessageOf(image.status())));
                  call->Fail(image.status());
                  Changed(writer->run);
                }});
}

void CoreImpl::StartWriter(const std::shared_ptr<PartWriter>& writer, const CallPtr& call,
                           std::shared_ptr<Image> image) {
  const SessionPtr session = writer->session.lock();
  CAIRN_CHECK(session != nullptr);
  const std::uint64_t image_bytes = image ? image->bytes().size() : 0;
  const bool same = session->plan && session->plan_image_bytes == image_bytes;
  if (!same) {
    auto plan = MakePlan(*writer->list->layout, writer->list->sizes, image_bytes);
    if (!plan.ok()) {
      ReleaseImage(session, std::move(image));
      writer->run->ledger.Fail(writer->dataset->id, fmt::format("rank {}: {}", writer->rank, MessageOf(plan.status())));
      call->Fail(plan.status());
      return Changed(writer->run);
    }
    session->plan = std::make_shared<const std::vector<PlanPiece>>(*std::move(plan));
    session->plan_image_bytes = image_bytes;
  }
  writer->plan = session->plan;
  writer->image = std::move(image);
  writer->ring = image_bytes < writer->list->layout->data_bytes;
  AnswerBegin(writer, call, same);
  WithDirectory(writer->run, writer->dataset, [this, writer](const absl::Status& status) {
    if (writer->ended) return;
    if (status.ok()) return StartCapture(writer);
    writer->run->ledger.Fail(writer->dataset->id, std::string(MessageOf(status)));
    Changed(writer->run);
  });
}

// The image and the plan; `same_plan`: as last told to this connection.
void CoreImpl::AnswerBegin(const std::shared_ptr<PartWriter>& writer, const CallPtr& call, bool same_plan) {
  const std::uint64_t image_bytes = writer->image ? writer->image->bytes().size() : 0;
  local::Reply reply;
  local::BeginReply& begun = *reply.mutable_begin();
  begun.set_dataset(writer->dataset->id);
  std::shared_ptr<Image> descriptor;
  if (writer->image && call->connection()->shares_memory()) {
    DescribeImage(*writer->session.lock(), writer->image, begun.mutable_image());
    if (begun.image().fresh()) descriptor = writer->image;
  }
  if (same_plan) {
    begun.set_same_plan(true);
  } else {
    const std::uint64_t doorbell = writer->ring ? std::max(kWindowBytes, image_bytes / 8) : kNoDoorbell;
    PutPlan(*writer->plan, writer->ring, doorbell, begun.mutable_plan());
  }
  call->Reply(std::move(reply), std::move(descriptor));
}

// The stream broke under the answer to this very Begin: the client asks again, over the next one.
bool CoreImpl::AnsweredAgain(const SessionPtr& session, const CallPtr& call, const local::Begin& begin) {
  const std::shared_ptr<PartWriter>& writer = session->writer;
  const Dataset& dataset = *writer->dataset;
  if (!writer->plan || writer->begin_connection.lock() == call->connection() || dataset.step != begin.step() ||
      dataset.attempt != begin.attempt() || !SameVariables(writer->variables, begin.variables())) {
    return false;
  }
  session->plan = writer->plan;
  session->plan_list = writer->list;
  session->plan_image_bytes = writer->image ? writer->image->bytes().size() : 0;
  writer->begin_call = call->number();
  writer->begin_connection = call->connection();
  AnswerBegin(writer, call, /*same_plan=*/false);
  if (writer->released > 0) TellReleased(writer);
  return true;
}

// The dataset's entry and directory in its store, made by the first rank that needs them.
void CoreImpl::WithDirectory(const RunPtr& run, const DatasetPtr& dataset, std::function<void(absl::Status)> then) {
  auto [at, first] = run->directories.try_emplace(dataset->id);
  if (at->second.ready) return then(absl::OkStatus());
  at->second.waiting.push_back(std::move(then));
  if (!first) return;
  const std::shared_ptr<void> lease = LeaseOf(run, dataset->id);
  if (dataset->bypass) {
    return BeginBypass(run, dataset, [this, run, id = dataset->id, lease](const absl::Status& status) {
      DirectoryReady(run, id, {.status = status, .bases = {}});
    });
  }
  ShareFiles(run, *dataset);
  std::optional<Reuse> reuse;
  if (auto known = run->reuse.find(dataset->id); known != run->reuse.end()) reuse = known->second;
  auto make = [this, cache = run->cache, descriptor = DescriptorOf(*dataset, false), reuse = std::move(reuse)] {
    DirectoryMade made;
    made.status = cache->Begin(descriptor);
    if (made.status.ok() && reuse) made.bases = PrepareBases(*cache, *reuse);
    return made;
  };
  BlockingCache(std::move(make),
                [this, run, id = dataset->id, lease](DirectoryMade made) { DirectoryReady(run, id, std::move(made)); });
}

void CoreImpl::DirectoryReady(const RunPtr& run, DatasetId id, DirectoryMade made) {
  for (const std::string& warning : made.bases.warnings) {
    Warn(fmt::format("run {}: dataset {} is written in full: {}", run->name, id, warning));
  }
  auto state = run->directories.find(id);
  if (state == run->directories.end()) return;  // the dataset failed meanwhile, they were told
  if (auto known = run->reuse.find(id); known != run->reuse.end()) {
    known->second.files = std::move(made.bases.files);
    if (id <= run->distrusted) DistrustBases(known->second);  // damage was found meanwhile
  }
  state->second.ready = made.status.ok();
  auto waiting = std::move(state->second.waiting);
  if (!made.status.ok()) run->directories.erase(state);
  for (auto& next : waiting) next(made.status);
}

Capture::Spec CoreImpl::SpecOf(const PartWriter& writer) {
  Capture::Spec spec;
  spec.layout = *writer.list->layout;
  spec.letter = writer.letter;
  if (HasEmptied(spec.layout)) spec.last_hashes = LastHashes(writer.last.get(), spec.layout);
  if (spec.letter == ftiff::Letter::kF && Differential() && !writer.dataset->bypass) {
    spec.want_digests = true;
    spec.base = TakeBase(*writer.run, writer.dataset->id, writer.rank);
    // A client that waits for slots of a ring would wait for the whole base to be read.
    if (writer.ring && spec.base && !spec.base->digests) spec.base.reset();
  }
  spec.scans = view::ScansFor(writer.variables, spec.layout);
  spec.plan = *writer.plan;
  spec.image = writer.image;
  spec.checkpoint_id = static_cast<std::int32_t>(writer.dataset->id);
  spec.timestamp_ns = static_cast<std::uint64_t>(NowUs()) * 1000;
  spec.work_path = writer.work_path;
  return spec;
}

void CoreImpl::StartCapture(const std::shared_ptr<PartWriter>& writer) {
  if (writer->variables.empty() || stopping_) return;  // no file: its commit alone makes the part whole
  if (writer->last && !writer->last->settled && HasEmptied(*writer->list->layout)) {
    writer->last->waiting.push_back([this, writer] {  // the hashes come from the file that is being written
      if (!writer->ended) StartCapture(writer);
    });
    return;
  }
  Capture::Callbacks callbacks;
  callbacks.on_released = [this, writer](std::uint64_t windows) {
    loop_.Post([writer, windows] {
      writer->released = windows;
      TellReleased(writer);
    });
  };
  callbacks.on_end = [this, writer](absl::StatusOr<CaptureResult> result) {
    loop_.Post([this, writer, result = std::move(result)]() mutable {
      TransferEnded();
      CaptureEnded(writer, std::move(result));
    });
  };
  ++transfers_;
  const bool bypass = writer->dataset->bypass;
  writer->capture = Capture::Start(bypass ? prefix_disk_ : cache_disk_, bypass ? pools_.far : pools_.work,
                                   SpecOf(*writer), std::move(callbacks));
  // What the client told while the directory was made. A wrong count was refused when it was told.
  absl::Status status = writer->capture->Filled(writer->filled);
  if (status.ok() && writer->committed) status = writer->capture->Commit();
  if (status.ok()) return;
  writer->run->ledger.Fail(writer->dataset->id, fmt::format("rank {}: {}", writer->rank, MessageOf(status)));
  Changed(writer->run);
}

// --- While the client copies ---

void CoreImpl::Misbehaved(const SessionPtr& session, const local::Request& request, const absl::Status& status) {
  if (session->connection) {
    local::Reply reply;
    reply.set_call(request.call());
    SetStatus(status, reply.mutable_status());
    session->connection->Send(reply, nullptr);
  }
  if (session->writer) {
    session->run->ledger.Fail(session->writer->dataset->id,
                              fmt::format("rank {}: {}", session->rank, MessageOf(status)));
  }
  Changed(session->run);
}

void CoreImpl::HandleFilled(const SessionPtr& session, const local::Request& request) {
  const std::shared_ptr<PartWriter> writer = session->writer;
  if (!writer || !writer->plan || writer->ended) return;  // a failed dataset's last words
  const std::uint64_t pieces = request.filled().pieces();
  if (pieces < writer->filled || pieces > writer->plan->size()) {
    return Misbehaved(session, request,
                      InvalidArgument("{} pieces filled after {} of {}", pieces, writer->filled, writer->plan->size()));
  }
  writer->filled = pieces;
  if (!writer->capture) return;
  if (absl::Status status = writer->capture->Filled(pieces); !status.ok()) Misbehaved(session, request, status);
}

// The ingest door's payload. The image is the daemon's own then; the next piece goes where the plan says.
void CoreImpl::HandlePiece(const SessionPtr& session, const local::Request& request) {
  const std::shared_ptr<PartWriter> writer = session->writer;
  if (!writer || !writer->plan || writer->ended) return;
  const local::Piece& piece = request.piece();
  if (piece.index() < writer->filled) return;  // sent again after a resume
  if (piece.index() != writer->filled || piece.index() >= writer->plan->size()) {
    return Misbehaved(
        session, request,
        InvalidArgument("piece {} came instead of {} of {}", piece.index(), writer->filled, writer->plan->size()));
  }
  const PlanPiece& planned = (*writer->plan)[piece.index()];
  const std::span<const std::byte> data = std::as_bytes(std::span(piece.data()));
  if (data.size() != planned.bytes || piece.offset() != planned.variable_offset ||
      piece.id() != writer->variables.at(static_cast<int>(planned.variable)).id()) {
    return Misbehaved(session, request,
                      InvalidArgument("piece {}: variable {}, offset {}, {} bytes; the plan says {}, {}, {}",
                                      piece.index(), piece.id(), piece.offset(), data.size(),
                                      writer->variables.at(static_cast<int>(planned.variable)).id(),
                                      planned.variable_offset, planned.bytes));
  }
  if (Crc32c(data) != piece.crc32c()) {
    return Misbehaved(session, request, DataLoss("piece {}: the CRC32C of its bytes differs", piece.index()));
  }
  if (planned.after_released > 0 && !writer->capture) {
    return Misbehaved(session, request, InvalidArgument("piece {}: its slot was not released", piece.index()));
  }
  const std::uint32_t crc = piece.crc32c();
  writer->digest = Crc32c(std::as_bytes(std::span(&crc, 1)), writer->digest);
  ++writer->filled;
  if (writer->capture) {
    if (absl::Status put = writer->capture->Put(piece.index(), data, crc); !put.ok()) {
      return Misbehaved(session, request, put);
    }
  } else {
    std::memcpy(writer->image->bytes().data() + planned.image_offset, data.data(), data.size());
  }
}

void CoreImpl::HandleCommit(const SessionPtr& session, const CallPtr& call, const local::Commit& commit) {
  const std::shared_ptr<PartWriter> writer = session->writer;
  if (quiesced_) return call->Fail(Unavailable("the daemon is going away"));
  if (!writer) return call->Fail(FailedPrecondition("no checkpoint is begun"));
  if (writer->ended) {
    session->writer = nullptr;
    return call->Fail(WhyFailed(*session->run, *writer->dataset));
  }
  absl::Status wrong;
  if (!writer->plan) {
    return call->Fail(FailedPrecondition("the begin of this checkpoint is not answered"));
  } else if (writer->filled != writer->plan->size()) {
    wrong = FailedPrecondition("{} of {} pieces are filled", writer->filled, writer->plan->size());
  } else if (commit.has_digest() && commit.digest() != writer->digest) {
    wrong = DataLoss("the digest over all pieces differs");
  }
  if (wrong.ok() && writer->capture) wrong = writer->capture->Commit();
  session->writer = nullptr;
  const RunPtr run = session->run;
  if (!wrong.ok()) {
    run->ledger.Fail(writer->dataset->id, fmt::format("rank {}: {}", session->rank, MessageOf(wrong)));
    call->Fail(wrong);
    return Changed(run);
  }
  writer->committed = true;
  run->ledger.Captured(*writer->dataset, session->rank);
  run->lists[session->rank] = {.launch = session->launch, .list = writer->list};
  local::Reply reply;
  reply.mutable_committed()->set_dataset(writer->dataset->id);
  call->Reply(std::move(reply));
  if (writer->variables.empty()) {
    WithDirectory(run, writer->dataset, [this, writer](const absl::Status& status) {
      if (!status.ok()) return CaptureEnded(writer, status);
      CaptureEnded(writer, CaptureResult{});
    });
  }
  Changed(run);
}

void CoreImpl::HandleAbort(const SessionPtr& session, const CallPtr& call, const local::Abort& abort) {
  const RunPtr run = session->run;
  if (const std::shared_ptr<PartWriter> writer = std::exchange(session->writer, nullptr)) {
    run->ledger.Fail(writer->dataset->id, fmt::format("rank {} gave up: {}", session->rank, abort.reason()));
  }
  if (const std::shared_ptr<FilesWriter> files = std::exchange(session->files, nullptr)) {
    run->ledger.Fail(files->dataset->id, fmt::format("rank {} gave up: {}", session->rank, abort.reason()));
  }
  call->Reply({});
  Changed(run);
}

void CoreImpl::HandleResume(const SessionPtr& session, const CallPtr& call, const local::Resume& resume) {
  local::Reply reply;
  local::ResumeReply& resumed = *reply.mutable_resume();
  const std::shared_ptr<PartWriter> writer = session->writer;
  if (writer && writer->dataset->id == resume.dataset() && writer->plan && !writer->ended) {
    resumed.set_pieces(writer->filled);
    writer->begin_call = call->number();  // Released replies follow under this call
    resumed.set_released(writer->released);
    return call->Reply(std::move(reply));
  }
  DatasetPtr dataset = session->run->ledger.Get(resume.dataset());
  if (dataset && dataset->launch == session->launch && session->rank < dataset->parts.size() &&
      dataset->parts[session->rank].state >= Part::State::kCaptured) {
    resumed.set_committed(true);
    return call->Reply(std::move(reply));
  }
  call->Fail(NotFound("dataset {} is not being written by rank {}", resume.dataset(), session->rank));
}

}  // namespace cairn
