#include "daemon/core/restore_transfer.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "daemon/core/container_list.h"
#include "proto/frame.h"
#include "storage/base/checksum.h"
#include "storage/base/status.h"
#include "storage/base/transfer_shape.h"
#include "storage/io/disk.h"

namespace cairn {
namespace {

// A restore goes through a ring of slots even if there is room for all of it: a new process's first image has fresh
// pages, and touching them costs more than reading the disk. Without shared memory a smaller one bounds what is in
// flight.
constexpr std::uint64_t kRingBytes = 64 << 20;
constexpr std::uint64_t kRemoteRingBytes = 16 << 20;
constexpr std::uint64_t kDoorbellBytes = 4 << 20;
constexpr std::uint64_t kImageNameBytes = 64;  // of an image in a reply
// The client reads so much at once, so often at once, at most; each of these reads has a thread.
constexpr std::uint64_t kStraightBytes = 4 << 20;
constexpr std::uint64_t kStraightReadsMax = 8;

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

// Where the bytes of each variable begin in their page. None: nothing is read straight into it.
std::vector<std::optional<std::uint64_t>> MemoryOf(const VariableList& variables) {
  std::vector<std::optional<std::uint64_t>> memory;
  for (const local::Variable& variable : variables) {
    const bool told = variable.memory() > 0 && variable.memory() <= kDirectAlignment;
    memory.push_back(told ? std::optional<std::uint64_t>(variable.memory() - 1) : std::nullopt);
  }
  return memory;
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
  if (restore_ || ended_) {  // a home that does not wait for what it has asked
    return then(FailedPrecondition("a restore of rank {} goes on", session_->rank), copies.sources.size());
  }
  copies_ = std::move(copies);
  then_ = std::move(then);
  auto find = [&disk = context_.env.cache_disk, sources = copies_.sources, from = copies_.ranks,
               wanted = std::move(wanted), rank = session_->rank, own_file, variables = variables_,
               straight = !without_straight_ && call_->connection()->shares_memory()] {
    Found found;
    std::vector<ftiff::FileMetadata> metadata;
    found.pieces = FindPieces(disk, sources, from, wanted, &found.bad, &metadata);
    for (std::size_t i = 0; i < metadata.size(); ++i) {
      if (own_file && from[i] == rank) found.list = ListOf(metadata[i], /*restored=*/true);
    }
    if (!found.pieces.ok()) return found;
    found.image_bytes = Restore::ImageBytes(sources, *found.pieces);
    for (std::size_t i = 0; straight && i < sources.size() && !found.divided; ++i) {
      if (from[i] == rank) found.divided = Divide(disk, sources, i, *found.pieces, variables);
    }
    return found;
  };
  auto found = [self = shared_from_this()](Found result) { self->PiecesFound(std::move(result)); };
  if (copies_.far()) {
    RunBlocking(context_.env.pools.far, copies_.lane, context_.loop(), std::move(find), std::move(found));
  } else {
    context_.OnCache(std::move(find), std::move(found));
  }
}

// The rank's own file, if it is in the cache: what lies elsewhere may keep a reader waiting for ever, and of the
// others' files several ranks may want the same. None: nothing can be read straight.
std::optional<LocalTransfer::Division> LocalTransfer::Divide(Disk& disk, const std::vector<RestoreSource>& sources,
                                                             std::size_t own, const std::vector<RestorePiece>& pieces,
                                                             const VariableList& variables) {
  const RestoreSource& source = sources[own];
  const auto memory = MemoryOf(variables);
  const bool offered = std::ranges::any_of(memory, [](const auto& begins) { return begins.has_value(); });
  if (!offered || source.kept != nullptr || source.disk != nullptr) return std::nullopt;
  absl::StatusOr<HandedFile> file = disk.OpenForHanding(source.path);
  // What is wrong with a file the restore finds, too, and says.
  if (!file.ok() || file->bytes != source.file_bytes || kDirectAlignment % file->memory_alignment != 0) {
    return std::nullopt;
  }
  std::vector<std::uint64_t> alignments(sources.size());
  alignments[own] = file->memory_alignment;
  StraightPlan plan = PlanStraight(sources, pieces, alignments, memory);
  if (plan.sources.empty()) return std::nullopt;
  Division division{.pieces = std::move(plan.rest), .straight = std::move(plan.sources)};
  division.image_bytes = Restore::ImageBytes(sources, division.pieces);
  division.files.push_back(std::make_shared<const UniqueFd>(std::move(file->fd)));
  return division;
}

void LocalTransfer::PiecesFound(Found found) {
  if (!then_) return;
  if (!found.pieces.ok()) return Tell(found.pieces.status(), found.bad);
  all_ = {.pieces = *std::move(found.pieces), .image_bytes = found.image_bytes};
  divided_ = std::move(found.divided);
  list_ = std::move(found.list);
  Tell(absl::OkStatus(), 0);
}

void LocalTransfer::Start(Then then) {
  then_ = std::move(then);
  const bool remote = !call_->connection()->shares_memory();
  // What it would wait for may be the room of the kept images that it reads.
  images_.Acquire({.owner = session_->images,
                   .call = call_,
                   .bytes = std::min((divided_ ? *divided_ : all_).image_bytes, remote ? kRemoteRingBytes : kRingBytes),
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
  files_read_ = 0;
  Restore::Callbacks callbacks;
  callbacks.on_ready = [self = shared_from_this()](std::uint64_t pieces) {
    self->context_.loop().Post([self, pieces] { self->Ready(pieces); });
  };
  callbacks.on_end = [self = shared_from_this()](absl::Status status, std::size_t source) {
    self->context_.loop().Post([self, status = std::move(status), source] { self->Ended(status, source); });
  };
  context_.transfers->Begun();
  restore_ = Restore::Start(context_.env.cache_disk, context_.env.pools.work, copies_.sources,
                            (divided_ ? *divided_ : all_).pieces, image_, std::move(callbacks),
                            copies_.far() ? context_.FarAt(copies_.lane) : nullptr, &context_.transfers->blocks());
  if (absl::Status told = TellPlan(); !told.ok()) Tell(told, copies_.sources.size());
}

absl::Status LocalTransfer::TellPlan() {
  local::Reply reply;
  local::RestoreReply& begun = *reply.mutable_restore();
  begun.set_round(++round_);
  FillPlan(restore_->plan(), begun.mutable_plan());
  if (divided_) TellStraight(begun);
  if (const std::uint64_t bytes = reply.ByteSizeLong() + kImageNameBytes; bytes > CAIRN_FRAME_BYTES_MAX) {
    return ResourceExhausted("rank {}: a plan of {} pieces has {} bytes, a message at most {}", session_->rank,
                             restore_->plan().size(), bytes, CAIRN_FRAME_BYTES_MAX);
  }
  SharedFd descriptor;
  if (image_ && call_->connection()->shares_memory()) {
    images_.Describe(*session_->images, image_, begun.mutable_image());
    if (begun.image().fresh()) descriptor = Image::FdOf(image_);
  }
  const auto has_holes = [](const local::Variable& variable) { return variable.holes(); };
  delivered_ = delivered_ || std::any_of(variables_.begin(), variables_.end(), has_holes);
  call_->Push(std::move(reply), std::move(descriptor));
  if (divided_) HandFiles();
  return absl::OkStatus();
}

void LocalTransfer::TellStraight(local::RestoreReply& begun) const {
  const TransferShape shape = context_.env.cache_disk.shapes().read;
  begun.set_straight_bytes(kStraightBytes);
  begun.set_straight_reads(static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(shape.bytes_in_flight() / kStraightBytes, 2, kStraightReadsMax)));
  for (const StraightSource& source : divided_->straight) {
    local::Straight& straight = *begun.add_straight();
    const std::vector<std::uint32_t>& crc32c = copies_.sources[source.source].crc32c;
    for (const StraightRun& run : source.runs) {
      straight.add_variable(run.variable);
      straight.add_variable_offset(run.variable_offset);
      straight.add_file_offset(run.file_offset);
      straight.add_blocks(run.blocks);
      const std::uint64_t first = run.file_offset / kCrcBlockBytes;
      for (std::uint64_t block = first; block < first + run.blocks; ++block) straight.add_crc32c(crc32c[block]);
    }
  }
}

void LocalTransfer::HandFiles() {
  delivered_ = true;
  for (std::size_t i = 0; i < divided_->files.size(); ++i) {
    local::Reply reply;
    reply.mutable_straight_file()->set_round(round_);
    reply.mutable_straight_file()->set_index(static_cast<std::uint32_t>(i));
    call_->Push(std::move(reply), divided_->files[i]);
  }
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
  // Of a plan that has been replaced meanwhile, or is about to be.
  if (copied.round() != round_ || !then_ || (!restore_ && !ended_)) return absl::OkStatus();
  if (restore_ && !again_) CAIRN_RETURN_IF_ERROR(restore_->Copied(copied.pieces()));
  return ReadStraight(copied);
}

absl::Status LocalTransfer::ReadStraight(const local::Copied& copied) {
  const std::size_t files = divided_ ? divided_->files.size() : 0;
  if (copied.straight() < files_read_ || copied.straight() > files || (copied.straight_failed() && files == 0)) {
    return InvalidArgument("restore: {} files read after {}, of {}", copied.straight(), files_read_, files);
  }
  files_read_ = copied.straight();
  if (copied.straight_failed() && !again_) {
    again_ = without_straight_ = true;
    if (restore_) restore_->Abort();
  }
  Settle();
  return absl::OkStatus();
}

void LocalTransfer::Ended(const absl::Status& status, std::size_t copy) {
  images_.Release(session_->images, std::exchange(image_, nullptr));
  restore_ = nullptr;
  ended_ = {.status = status, .copy = copy};
  Settle();
}

// The restore has ended, and what the client reads as well, or nobody waits for it.
void LocalTransfer::Settle() {
  if (!ended_) return;
  const bool reads = divided_ && files_read_ < divided_->files.size();
  if (then_ && ended_->status.ok() && reads && !again_) return;
  const Outcome outcome = *std::exchange(ended_, std::nullopt);
  context_.transfers->Ended();
  divided_.reset();
  if (std::exchange(again_, false) && then_ && (outcome.status.ok() || absl::IsCancelled(outcome.status))) {
    return Start(std::exchange(then_, nullptr));
  }
  Tell(outcome.status, outcome.copy);
}

void LocalTransfer::Abort() {
  then_ = nullptr;
  // It lives until it has ended. From here on it alone holds this transfer.
  if (const std::shared_ptr<Restore> restore = std::exchange(restore_, nullptr)) restore->Abort();
  Settle();
}

void LocalTransfer::Tell(const absl::Status& status, std::size_t copy) {
  if (const Then then = std::exchange(then_, nullptr)) then(status, copy);
}

}  // namespace cairn
