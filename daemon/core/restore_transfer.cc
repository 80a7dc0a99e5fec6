#include "daemon/core/restore_transfer.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "daemon/core/container_list.h"
#include "proto/frame.h"
#include "storage/base/checksum.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

// A restore goes through a ring of slots even if there is room for all of it: a new process's first image has fresh
// pages, and touching them costs more than reading the disk. Without shared memory a smaller one bounds what is in
// flight.
constexpr std::uint64_t kRingBytes = 64 << 20;
constexpr std::uint64_t kRemoteRingBytes = 16 << 20;
constexpr std::uint64_t kDoorbellBytes = 4 << 20;
constexpr std::uint64_t kImageNameBytes = 64;  // of an image in a reply

void FillPlan(const std::vector<PlanPiece>& pieces, local::Plan* plan) {
  const bool strides = std::any_of(pieces.begin(), pieces.end(), [](const PlanPiece& piece) { return piece.rows > 1; });
  for (const PlanPiece& piece : pieces) {
    plan->add_variable(piece.variable);
    plan->add_variable_offset(piece.variable_offset);
    plan->add_image_offset(piece.image_offset);
    plan->add_bytes(piece.bytes);
    if (!strides) continue;
    plan->add_rows(piece.rows);
    plan->add_variable_stride(piece.variable_stride);
    plan->add_image_stride(piece.file_stride);
  }
  plan->set_doorbell_bytes(kDoorbellBytes);
}

}  // namespace

bool ChosenCopies::far() const {
  return std::any_of(tiers.begin(), tiers.end(), [](Tier tier) { return !IsNearer(tier, Tier::kPartner); });
}

Tier ChosenCopies::weakest() const {
  return from.empty() ? Tier::kNone : *std::max_element(from.begin(), from.end(), IsNearer);
}

LocalTransfer::LocalTransfer(const Context& context, ImageStore& images, SessionPtr session, std::shared_ptr<Call> call,
                             VariableList variables)
    : context_(context),
      images_(images),
      session_(std::move(session)),
      call_(std::move(call)),
      variables_(std::move(variables)) {}

void LocalTransfer::Find(ChosenCopies copies, std::vector<Wanted> wanted, bool own_file, Then then) {
  copies_ = std::move(copies);
  then_ = std::move(then);
  auto find = [&disk = context_.env.cache_disk, sources = copies_.sources, from = copies_.ranks,
               wanted = std::move(wanted), rank = session_->rank, own_file] {
    Found found;
    std::vector<ftiff::FileMetadata> metadata;
    found.pieces = FindPieces(disk, sources, from, wanted, &found.bad, &metadata);
    for (std::size_t i = 0; i < metadata.size(); ++i) {
      if (own_file && from[i] == rank) found.list = ListOf(metadata[i], /*restored=*/true);
    }
    if (!found.pieces.ok()) return found;
    found.image_bytes = Restore::ImageBytes(sources, *found.pieces);
    return found;
  };
  auto found = [self = shared_from_this()](Found result) { self->PiecesFound(std::move(result)); };
  if (copies_.far()) {
    RunBlocking(context_.env.pools.far, copies_.lane, context_.loop(), std::move(find), std::move(found));
  } else {
    context_.OnCache(std::move(find), std::move(found));
  }
}

void LocalTransfer::PiecesFound(Found found) {
  if (!then_) return;
  if (!found.pieces.ok()) return Tell(found.pieces.status(), found.bad);
  pieces_ = *std::move(found.pieces);
  image_bytes_ = found.image_bytes;
  list_ = std::move(found.list);
  Tell(absl::OkStatus(), 0);
}

void LocalTransfer::Start(Then then) {
  then_ = std::move(then);
  const bool remote = !call_->connection()->shares_memory();
  // What it would wait for may be the room of the kept images that it reads.
  images_.Acquire({.owner = session_->images,
                   .call = call_,
                   .bytes = std::min(image_bytes_, remote ? kRemoteRingBytes : kRingBytes),
                   .then = [self = shared_from_this()](
                               absl::StatusOr<std::shared_ptr<Image>> image) { self->ImageCame(std::move(image)); },
                   .waits = FirstKept() == copies_.sources.size()});
}

// The first source that is in memory; as many as there are: none.
std::size_t LocalTransfer::FirstKept() const {
  const auto kept = [](const RestoreSource& source) { return source.kept != nullptr; };
  return static_cast<std::size_t>(std::ranges::find_if(copies_.sources, kept) - copies_.sources.begin());
}

void LocalTransfer::ImageCame(absl::StatusOr<std::shared_ptr<Image>> image) {
  if (!then_) return images_.Release(session_->images, image.ok() ? *std::move(image) : nullptr);
  if (!image.ok()) {
    return Tell(image.status(), absl::IsResourceExhausted(image.status()) ? FirstKept() : copies_.sources.size());
  }
  image_ = *std::move(image);
  sent_ = 0;
  Restore::Callbacks callbacks;
  callbacks.on_ready = [self = shared_from_this()](std::uint64_t pieces) {
    self->context_.loop().Post([self, pieces] { self->Ready(pieces); });
  };
  callbacks.on_end = [self = shared_from_this()](absl::Status status, std::size_t source) {
    self->context_.loop().Post([self, status = std::move(status), source] { self->Ended(status, source); });
  };
  context_.transfers->Begun();
  restore_ = Restore::Start(context_.env.cache_disk, context_.env.pools.work, copies_.sources, pieces_, image_,
                            std::move(callbacks), copies_.far() ? context_.FarAt(copies_.lane) : nullptr,
                            &context_.transfers->blocks());
  if (absl::Status told = TellPlan(); !told.ok()) Tell(told, copies_.sources.size());
}

absl::Status LocalTransfer::TellPlan() {
  local::Reply reply;
  local::RestoreReply& begun = *reply.mutable_restore();
  begun.set_round(++round_);
  FillPlan(restore_->plan(), begun.mutable_plan());
  if (const std::uint64_t bytes = reply.ByteSizeLong() + kImageNameBytes; bytes > CAIRN_FRAME_BYTES_MAX) {
    return ResourceExhausted("rank {}: a plan of {} pieces has {} bytes, a message at most {}", session_->rank,
                             restore_->plan().size(), bytes, CAIRN_FRAME_BYTES_MAX);
  }
  std::shared_ptr<Image> descriptor;
  if (image_ && call_->connection()->shares_memory()) {
    images_.Describe(*session_->images, image_, begun.mutable_image());
    if (begun.image().fresh()) descriptor = image_;
  }
  const auto has_holes = [](const local::Variable& variable) { return variable.holes(); };
  delivered_ = delivered_ || std::any_of(variables_.begin(), variables_.end(), has_holes);
  call_->Push(std::move(reply), std::move(descriptor));
  return absl::OkStatus();
}

void LocalTransfer::Ready(std::uint64_t pieces) {
  if (!then_) return;
  delivered_ = true;
  if (call_->connection()->shares_memory()) {
    local::Reply reply;
    reply.mutable_ready()->set_pieces(pieces);
    return call_->Push(std::move(reply));
  }
  for (; sent_ < pieces; ++sent_) SendPiece(sent_);
}

void LocalTransfer::SendPiece(std::uint64_t index) {
  const PlanPiece& planned = restore_->plan()[index];
  local::Reply reply;
  local::Piece& piece = *reply.mutable_piece();
  piece.set_index(index);
  piece.set_id(variables_.at(static_cast<int>(planned.variable)).id());
  piece.set_offset(planned.variable_offset);
  piece.mutable_data()->reserve(planned.all_bytes());
  for (std::uint64_t row = 0; row < planned.rows; ++row) {
    const std::span<const std::byte> bytes =
        image_->bytes().subspan(planned.image_offset + row * planned.file_stride, planned.bytes);
    piece.mutable_data()->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  piece.set_crc32c(Crc32c(std::as_bytes(std::span(piece.data()))));
  call_->Push(std::move(reply));
}

absl::Status LocalTransfer::Copied(const local::Copied& copied) {
  if (!restore_ || copied.round() != round_) return absl::OkStatus();  // of a plan that has been replaced meanwhile
  return restore_->Copied(copied.pieces());
}

void LocalTransfer::Ended(const absl::Status& status, std::size_t copy) {
  context_.transfers->Ended();
  images_.Release(session_->images, std::exchange(image_, nullptr));
  restore_ = nullptr;
  Tell(status, copy);
}

void LocalTransfer::Abort() {
  then_ = nullptr;
  // It lives until it has ended. From here on it alone holds this transfer.
  if (const std::shared_ptr<Restore> restore = std::exchange(restore_, nullptr)) restore->Abort();
}

void LocalTransfer::Tell(const absl::Status& status, std::size_t copy) {
  if (const Then then = std::exchange(then_, nullptr)) then(status, copy);
}

}  // namespace cairn
