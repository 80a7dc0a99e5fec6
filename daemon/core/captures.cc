#include "daemon/core/captures.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "daemon/core/descriptor.h"
#include "daemon/core/part_record.h"
#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

// A ring needs word of what is in it often. In a whole image nobody touches anything before the commit: no word is
// needed, and every one would wake the daemon while the client copies.
constexpr std::uint64_t kNoDoorbell = std::uint64_t{1} << 62;

// For so long no file is made beside the copies: a copy of some MiB would take several times as long. A long one takes
// no notice, and its file is there when it ends.
constexpr std::chrono::milliseconds kCopiesFirst(5);

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

std::uint64_t BytesOf(const std::shared_ptr<Image>& image) {
  return image ? image->bytes().size() : 0;
}

}  // namespace

// A capture under way holds its writer.
Captures::~Captures() {
  for (const auto& [dataset, writers] : capturing_) {
    for (const auto& [rank, writer] : writers) writer->capture = nullptr;
  }
}

Captures::WriterPtr Captures::WriterOf(const Session& session) const {
  const auto open = open_.find(session.id);
  return open == open_.end() ? nullptr : open->second;
}

void Captures::Begin(const SessionPtr& session, const std::shared_ptr<Call>& call, const Request& request) {
  const local::Begin& begin = request->begin();
  if (context_.quiescing()) return call->Fail(Unavailable("the daemon is going away"));
  if (const WriterPtr open = WriterOf(*session)) {
    if (!open->ended()) {
      if (AnsweredAgain(open, session, call, begin)) return;
      return call->Fail(FailedPrecondition("the last checkpoint of this session is not committed"));
    }
    open_.erase(session->id);  // it failed before its commit
  }
  if (!session->followed) given_.steering.Arrived(*session);
  if (absl::Status status = DatasetEntry::Check(begin); !status.ok()) return call->Fail(status);
  TryBegin(session, call, request);
}

void Captures::TryBegin(const SessionPtr& session, const std::shared_ptr<Call>& call, const Request& request) {
  given_.lists.WhenKnown(session, [this, session, call, request] {
    // Meanwhile the session may have ended, or begun something else.
    if (session->ended) return call->Fail(local::FENCED, "the session ended meanwhile");
    if (context_.quiescing()) return call->Fail(Unavailable("the daemon is going away"));
    if (given_.has_output(*session)) {
      return call->Fail(FailedPrecondition("an output of files is open: memory and files do not mix"));
    }
    if (IsOpen(*session)) return call->Fail(FailedPrecondition("the last checkpoint of this session is not committed"));
    if (!call->answered()) ListKnown(session, call, request);
  });
}

// All is asked for that the begin needs; from here on only the image may take its time.
void Captures::ListKnown(const SessionPtr& session, const std::shared_ptr<Call>& call, const Request& request) {
  const local::Begin& begin = request->begin();
  if (const std::string dirty = given_.ledger.WhyDirty(session->launch); !dirty.empty()) {
    return call->Fail(local::DIRTY, dirty);
  }
  const ftiff::Letter letter = given_.bases.LetterOfFiles();
  const auto list = given_.lists.Next(*session, SizesOf(begin.variables()), letter);
  if (!list.ok()) return call->Fail(list.status());
  const std::uint64_t file_bytes = begin.variables().empty() ? 0 : (*list)->layout->file_bytes(letter);
  if (session->followed) return BeginElsewhere(session, call, request, {.list = *list, .file_bytes = file_bytes});
  const DatasetEntry::Wish wish = DatasetEntry::WishOf(begin, file_bytes);
  const auto dataset = given_.entry.Enter(*session, wish, begin.variables());
  if (IsRoomToCome(dataset.status())) {
    const std::string why(MessageOf(dataset.status()));
    call->WaitingFor(fmt::format("room ({})", why));
    call->OnExpired([this, session, wish, why] {
      given_.entry.GiveUp(*session, wish, why);
      given_.waits.Changed();
    });
    return given_.cache.WhenRoomChanges([this, session, call, request] {
      if (!call->answered()) TryBegin(session, call, request);
    });
  }
  if (!dataset.ok()) {
    call->Fail(dataset.status());
    return given_.waits.Changed();
  }
  given_.steering.Begun(*session, **dataset);
  Entered(session, call, begin, *dataset, *list);
}

Captures::WriterPtr Captures::Entered(const SessionPtr& session, const std::shared_ptr<Call>& call,
                                      const local::Begin& begin, const DatasetPtr& dataset, const ListPtr& list) {
  const WriterPtr writer = MakeWriter(session, *call, begin, dataset, list);
  call->OnExpired([this, writer] {
    given_.ledger.Fail(writer->dataset->id, fmt::format("rank {}: no image in time", writer->rank));
    given_.waits.Changed();
  });
  given_.images.Acquire({.owner = session->images,
                         .call = call,
                         .bytes = writer->list->layout->data_bytes,
                         .takes_turn = !dataset->kind.past_cache,
                         .then = [this, writer, call](absl::StatusOr<std::shared_ptr<Image>> image) {
                           ImageReady(writer, call, std::move(image));
                         }});
  return writer;
}

Captures::WriterPtr Captures::MakeWriter(const SessionPtr& session, const Call& call, const local::Begin& begin,
                                         const DatasetPtr& dataset, const ListPtr& list) {
  auto writer = std::make_shared<Writer>();
  writer->dataset = dataset;
  writer->rank = session->rank;
  writer->session = session;
  writer->images = session->images;
  writer->variables = begin.variables();
  writer->list = list;
  writer->last = given_.lists.LastOf(*session);
  writer->letter = given_.bases.LetterOfFiles();
  writer->work_path = given_.stores.Of(*dataset)->WorkPath(dataset->id, session->rank);
  writer->begin_call = call.number();
  writer->begin_connection = call.connection();
  writer->lease = given_.folders.Lease(dataset->id);
  capturing_[dataset->id][session->rank] = writer;
  open_[session->id] = writer;
  return writer;
}

void Captures::Fail(const Writer& writer, const absl::Status& why) {
  given_.ledger.Fail(writer.dataset->id, fmt::format("rank {}: {}", writer.rank, MessageOf(why)));
  given_.waits.Changed();
}

void Captures::ImageReady(const WriterPtr& writer, const std::shared_ptr<Call>& call,
                          absl::StatusOr<std::shared_ptr<Image>> image) {
  const SessionPtr session = writer->session.lock();
  if (writer->ended() || !session || session->ended) {
    given_.images.Release(writer->images, image.ok() ? *std::move(image) : nullptr);
    return call->Fail(given_.ledger.WhyFailed(*writer->dataset));
  }
  const auto planned = image.ok() ? given_.lists.PlanFor(*session, writer->list, BytesOf(*image))
                                  : absl::StatusOr<ContainerLists::Planned>(image.status());
  if (!planned.ok()) {
    given_.images.Release(writer->images, image.ok() ? *std::move(image) : nullptr);
    call->Fail(planned.status());
    return Fail(*writer, planned.status());
  }
  writer->plan = planned->plan;
  writer->image = *std::move(image);
  writer->ring = BytesOf(writer->image) < writer->list->layout->data_bytes;
  writer->stage = Writer::Stage::kFilling;
  const bool copies = call->connection()->shares_memory() && writer->image && !writer->ring;
  if (copies && context_.phase < Phase::kStopping) writer->copies.emplace(context_.env.pools.work.HoldForClient());
  AnswerBegin(*writer, *call, planned->told);
  if (!session->followed) WriteLabel(*writer);
  copies ? WantFolderAfterCopies(writer) : WantFolder(writer);
}

// While the client copies. Of a ring, and of what goes past the cache, a daemon after this one could make nothing.
void Captures::WriteLabel(const Writer& writer) const {
  const Dataset& dataset = *writer.dataset;
  if (!writer.image || !writer.image->has_label() || writer.ring || dataset.kind.past_cache) return;
  CapturedPart part{.catalogue = PartRecord(given_.run, dataset, writer.rank, writer.variables),
                    .name = NameInRecords(dataset),
                    .user = dataset.user,
                    .job = dataset.job,
                    .mark = dataset.mark,
                    .created_us = dataset.created_us,
                    .letter = writer.letter,
                    .layout = *writer.list->layout,
                    .last_hashes = {}};
  // Those of a file that is still being written are not known yet: it gets those of no bytes.
  if (HasEmptied(part.layout) && (!writer.last || writer.last->settled)) {
    part.last_hashes = LastHashes(writer.last.get(), part.layout);
  }
  writer.image->WriteLabel(part);
}

// What the folder is to say of the dataset is not known before its launch's home has begun it.
void Captures::WantFolder(const WriterPtr& writer) {
  if (writer->dataset->foretold || writer->ended() || std::exchange(writer->wants_folder, true)) return;
  given_.entry.WithFolder(writer->dataset, [this, writer](const absl::Status& status) {
    if (writer->ended()) return;
    if (status.ok()) return StartCapture(writer);
    given_.ledger.Fail(writer->dataset->id, std::string(MessageOf(status)));
    given_.waits.Changed();
  });
}

// At the latest. If all ranks have copied before, Commit asks for it.
void Captures::WantFolderAfterCopies(const WriterPtr& writer) {
  context_.loop().After(kCopiesFirst, [this, writer, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired() && context_.phase < Phase::kStopping) WantFolder(writer);
  });
}

// The image and the plan; `same_plan`: as last told to this connection.
void Captures::AnswerBegin(const Writer& writer, Call& call, bool same_plan) {
  local::Reply reply;
  local::BeginReply& begun = *reply.mutable_begin();
  begun.set_dataset(writer.dataset->id);
  SharedFd descriptor;
  if (writer.image && call.connection()->shares_memory()) {
    given_.images.Describe(*writer.images, writer.image, begun.mutable_image());
    if (begun.image().fresh()) descriptor = Image::FdOf(writer.image);
  }
  if (same_plan) {
    begun.set_same_plan(true);
  } else {
    const std::uint64_t doorbell = writer.ring ? std::max(kWindowBytes, BytesOf(writer.image) / 8) : kNoDoorbell;
    PutPlan(*writer.plan, writer.ring, doorbell, begun.mutable_plan());
  }
  call.Reply(std::move(reply), std::move(descriptor));
}

// The stream broke under the answer to this very Begin: the client asks again, over the next one.
bool Captures::AnsweredAgain(const WriterPtr& writer, const SessionPtr& session, const std::shared_ptr<Call>& call,
                             const local::Begin& begin) {
  const Dataset& dataset = *writer->dataset;
  if (!writer->has_plan() || writer->begin_connection.lock() == call->connection() || dataset.step != begin.step() ||
      dataset.attempt != begin.attempt() || !SameVariables(writer->variables, begin.variables())) {
    return false;
  }
  given_.lists.TellAgain(*session, writer->list, writer->plan, BytesOf(writer->image));
  writer->begin_call = call->number();
  writer->begin_connection = call->connection();
  AnswerBegin(*writer, *call, /*same_plan=*/false);
  if (writer->released > 0) TellReleased(*writer);
  return true;
}

void Captures::TellReleased(const Writer& writer) {
  const SessionPtr session = writer.session.lock();
  if (!session || !session->connection || writer.stage != Writer::Stage::kFilling) return;
  local::Reply reply;
  reply.set_call(writer.begin_call);
  reply.mutable_released()->set_windows(writer.released);
  session->connection->Send(reply, nullptr);
}

// --- Its end ---

void Captures::Abort(const Session& session, const std::string& reason) {
  const auto open = open_.extract(session.id);
  if (!open) return;
  given_.ledger.Fail(open.mapped()->dataset->id, fmt::format("rank {} gave up: {}", session.rank, reason));
}

void Captures::DatasetFailed(const DatasetPtr& dataset) {
  const auto writers = capturing_.extract(dataset->id);
  if (!writers) return;
  for (const auto& [rank, writer] : writers.mapped()) {
    writer->Pass(Writer::Stage::kEnded);
    if (writer->image) writer->image->ClearLabel();
    if (writer->capture) {
      std::exchange(writer->capture, nullptr)->Abort();  // its end gives the image back
    } else {
      writer->lease = nullptr;
      given_.lists.Settle(writer->list, std::exchange(writer->last, nullptr), std::nullopt);
      given_.images.Release(writer->images, std::exchange(writer->image, nullptr));
      given_.images.DropWishes(writer->images, writer->begin_call);
    }
    NextMayGo(rank);
  }
}

void Captures::Stop() {
  for (const auto& [dataset, writers] : capturing_) {
    for (const auto& [rank, writer] : writers) {
      writer->copies.reset();
      if (writer->capture) writer->capture->Abort();
    }
  }
}

}  // namespace cairn
