// While the client copies, until it has handed over its part.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "daemon/core/captures.h"
#include "storage/base/checksum.h"
#include "storage/base/status.h"

namespace cairn {

void Captures::Misbehaved(const SessionPtr& session, const local::Request& request, const absl::Status& status) {
  if (session->connection) {
    local::Reply reply;
    reply.set_call(request.call());
    SetStatus(status, reply.mutable_status());
    session->connection->Send(reply, nullptr);
  }
  if (const WriterPtr writer = WriterOf(*session)) return Fail(*writer, status);
  given_.waits.Changed();
}

void Captures::Filled(const SessionPtr& session, const local::Request& request) {
  const WriterPtr writer = WriterOf(*session);
  if (!writer || !writer->has_plan()) return;  // a failed dataset's last words
  const std::uint64_t pieces = request.filled().pieces();
  if (pieces < writer->filled || pieces > writer->plan->size()) {
    return Misbehaved(session, request,
                      InvalidArgument("{} pieces filled after {} of {}", pieces, writer->filled, writer->plan->size()));
  }
  writer->filled = pieces;
  if (!writer->capture) return;
  if (absl::Status status = writer->capture->Filled(pieces); !status.ok()) Misbehaved(session, request, status);
}

void Captures::Piece(const SessionPtr& session, const local::Request& request) {
  const WriterPtr writer = WriterOf(*session);
  if (!writer || !writer->has_plan()) return;
  if (request.piece().index() < writer->filled) return;  // sent again after a resume
  if (absl::Status taken = TakePiece(*writer, request.piece()); !taken.ok()) Misbehaved(session, request, taken);
}

absl::Status Captures::TakePiece(Writer& writer, const local::Piece& piece) {
  if (piece.index() != writer.filled || piece.index() >= writer.plan->size()) {
    return InvalidArgument("piece {} came instead of {} of {}", piece.index(), writer.filled, writer.plan->size());
  }
  const PlanPiece& planned = (*writer.plan)[piece.index()];
  const std::int32_t id = writer.variables.at(static_cast<int>(planned.variable)).id();
  const std::span<const std::byte> data = std::as_bytes(std::span(piece.data()));
  if (data.size() != planned.bytes || piece.offset() != planned.variable_offset || piece.id() != id) {
    return InvalidArgument("piece {}: variable {}, offset {}, {} bytes; the plan says {}, {}, {}", piece.index(),
                           piece.id(), piece.offset(), data.size(), id, planned.variable_offset, planned.bytes);
  }
  if (Crc32c(data) != piece.crc32c()) return DataLoss("piece {}: the CRC32C of its bytes differs", piece.index());
  if (planned.after_released > 0 && !writer.capture) {
    return InvalidArgument("piece {}: its slot was not released", piece.index());
  }
  const std::uint32_t crc = piece.crc32c();
  writer.digest = Crc32c(std::as_bytes(std::span(&crc, 1)), writer.digest);
  ++writer.filled;
  if (writer.capture) return writer.capture->Put(piece.index(), data, crc);
  std::memcpy(writer.image->bytes().data() + planned.image_offset, data.data(), data.size());
  return absl::OkStatus();
}

void Captures::Commit(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Commit& commit) {
  const WriterPtr writer = WriterOf(*session);
  if (context_.phase >= Phase::kQuiesced) return call->Fail(Unavailable("the daemon is going away"));
  if (!writer) return call->Fail(FailedPrecondition("no checkpoint is begun"));
  if (writer->stage == Writer::Stage::kWantsImage) {
    return call->Fail(FailedPrecondition("the begin of this checkpoint is not answered"));
  }
  open_.erase(session->id);
  if (writer->ended()) return call->Fail(given_.ledger.WhyFailed(*writer->dataset));
  absl::Status wrong;
  if (writer->filled != writer->plan->size()) {
    wrong = FailedPrecondition("{} of {} pieces are filled", writer->filled, writer->plan->size());
  } else if (commit.has_digest() && commit.digest() != writer->digest) {
    wrong = DataLoss("the digest over all pieces differs");
  } else if (writer->capture) {
    wrong = writer->capture->Commit();
  }
  if (!wrong.ok()) {
    call->Fail(wrong);
    return Fail(*writer, wrong);
  }
  // Until the client is answered: what begins with its end would take the core from the answer.
  const std::optional<WorkPool::Hold> copies = std::move(writer->copies);
  writer->Pass(Writer::Stage::kCommitted);
  if (writer->image) writer->image->SealLabel();  // before the client hears of it
  given_.ledger.Captured(*writer->dataset, session->rank);
  given_.lists.HandedOver(*session, writer->list);
  if (session->followed) {
    given_.home.Captured(*session);
    if (open_.empty()) given_.home.CopiesEnded();
  } else {
    given_.steering.HandedOver(*session, *writer->dataset);  // its time ends before the client goes on
  }
  local::Reply reply;
  reply.mutable_committed()->set_dataset(writer->dataset->id);
  call->Reply(std::move(reply));
  if (const auto writers = capturing_.find(writer->dataset->id);
      writers != capturing_.end() && AllHaveCopied(*writer->dataset)) {
    for (const auto& [rank, other] : std::map(writers->second)) WantFolder(other);
  }
  // Last: where the folder is there already, this is the end of the writer.
  if (writer->variables.empty() && !writer->ended()) EndWithoutFile(writer);
  given_.waits.Changed();
}

// Of ranks on other nodes it would be known too late.
bool Captures::AllHaveCopied(const Dataset& dataset) const {
  if (dataset.all_captured()) return true;
  if (!dataset.followed && !dataset.over_nodes()) return false;
  const auto writers = capturing_.find(dataset.id);
  return writers != capturing_.end() && std::ranges::all_of(writers->second, [](const auto& of) {
           return of.second->stage == Writer::Stage::kCommitted;
         });
}

// There is nothing to capture: the folder is all that it needs.
void Captures::EndWithoutFile(const WriterPtr& writer) {
  if (writer->dataset->foretold) return;
  given_.entry.WithFolder(writer->dataset, [this, writer](const absl::Status& status) {
    if (!status.ok()) return CaptureEnded(writer, status);
    CaptureEnded(writer, CaptureResult{});
  });
}

void Captures::Resume(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Resume& resume) {
  local::Reply reply;
  local::ResumeReply& resumed = *reply.mutable_resume();
  const WriterPtr writer = WriterOf(*session);
  if (writer && writer->dataset->id == resume.dataset() && writer->has_plan()) {
    resumed.set_pieces(writer->filled);
    writer->begin_call = call->number();  // Released replies follow under this call
    resumed.set_released(writer->released);
    return call->Reply(std::move(reply));
  }
  const DatasetPtr dataset = given_.ledger.Get(resume.dataset());
  if (dataset && dataset->launch == session->launch && dataset->has_captured(session->rank)) {
    resumed.set_committed(true);
    return call->Reply(std::move(reply));
  }
  call->Fail(NotFound("dataset {} is not being written by rank {}", resume.dataset(), session->rank));
}

}  // namespace cairn
