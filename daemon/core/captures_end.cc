// From the dataset's folder to a stored part.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "daemon/core/captures.h"
#include "daemon/core/part_record.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/format/placement/placement.h"

namespace cairn {
namespace {

// In the order in which this launch's application has registered them.
std::vector<std::int32_t> IdsOf(const VariableList& variables) {
  std::vector<std::int32_t> ids;
  ids.reserve(static_cast<std::size_t>(variables.size()));
  for (const local::Variable& variable : variables) ids.push_back(variable.id());
  return ids;
}

}  // namespace

Capture::Spec Captures::SpecOf(const Writer& writer) {
  Capture::Spec spec;
  spec.layout = *writer.list->layout;
  spec.letter = writer.letter;
  // The list may go on with a file of another launch, which registered in another order.
  if (spec.letter == ftiff::Letter::kA) spec.registered = IdsOf(writer.variables);
  if (HasEmptied(spec.layout)) spec.last_hashes = LastHashes(writer.last.get(), spec.layout);
  if (spec.letter == ftiff::Letter::kF && !writer.dataset->kind.past_cache) {
    spec.want_digests = given_.bases.Differential();
    spec.base = given_.bases.Take(writer.dataset->id, writer.rank);
    // A client that waits for slots of a ring would wait for the whole base to be read.
    if (spec.base && writer.ring && !spec.base->digests) spec.base->compared = false;
    if (spec.base && spec.base->clone && !spec.base->compared) spec.base.reset();  // each block would be copied first
  }
  spec.scans = view::ScansFor(writer.variables, spec.layout);
  spec.plan = *writer.plan;
  spec.image = writer.image;
  spec.checkpoint_id = static_cast<std::int32_t>(writer.dataset->id);
  spec.timestamp_ns = static_cast<std::uint64_t>(context_.now_us()) * 1000;
  spec.work_path = writer.work_path;
  spec.waits = Waits(writer);
  return spec;
}

// A rank's checkpoints go to the cache one after the other: two at once would both take twice the time, and then let
// the client go on twice at once, so that it would wait all the longer for the third. Where each prefix has a disk of
// its own that may hang, nothing waits for another.
bool Captures::Waits(const Writer& writer) const {
  if (writer.dataset->kind.past_cache) return false;
  for (const auto& [id, writers] : capturing_) {
    if (id >= writer.dataset->id) return false;
    const auto earlier = writers.find(writer.rank);
    if (earlier != writers.end() && !earlier->second->dataset->kind.past_cache) return true;
  }
  return false;
}

void Captures::NextMayGo(Rank rank) {
  for (const auto& [id, writers] : capturing_) {
    const auto next = writers.find(rank);
    if (next == writers.end() || next->second->dataset->kind.past_cache) continue;
    if (next->second->capture) next->second->capture->Go();
    return;
  }
}

void Captures::StartCapture(const WriterPtr& writer) {
  // Without variables there is no file: its commit alone makes the part whole.
  if (writer->variables.empty() || context_.phase == Phase::kStopping) return;
  if (writer->last && !writer->last->settled && HasEmptied(*writer->list->layout)) {
    writer->last->waiting.push_back([this, writer] {  // the hashes come from the file that is being written
      if (!writer->ended()) StartCapture(writer);
    });
    return;
  }
  Capture::Callbacks callbacks;
  callbacks.on_released = [&loop = context_.loop(), writer](std::uint64_t windows) {
    loop.Post([writer, windows] {
      writer->released = windows;
      TellReleased(*writer);
    });
  };
  callbacks.on_end = [this, writer](absl::StatusOr<CaptureResult> result) {
    context_.loop().Post([this, writer, result = std::move(result)]() mutable {
      context_.transfers->Ended();
      CaptureEnded(writer, std::move(result));
    });
  };
  context_.transfers->Begun();
  writer->capture = Capture::Start(given_.stores.DiskOf(*writer->dataset), context_.env.pools.work, SpecOf(*writer),
                                   std::move(callbacks), given_.stores.WhereCapturesWait(*writer->dataset), company_);
  // What the client told while the folder was made. A wrong count was refused when it was told.
  absl::Status status = writer->capture->Filled(writer->filled);
  if (status.ok() && writer->stage == Writer::Stage::kCommitted) status = writer->capture->Commit();
  if (!status.ok()) Fail(*writer, status);
}

void Captures::CaptureEnded(const WriterPtr& writer, absl::StatusOr<CaptureResult> result) {
  std::shared_ptr<void> lease = std::exchange(writer->lease, nullptr);
  writer->capture = nullptr;  // it holds the image
  if (auto writers = capturing_.find(writer->dataset->id); writers != capturing_.end()) {
    writers->second.erase(writer->rank);
    if (writers->second.empty()) capturing_.erase(writers);
  }
  NextMayGo(writer->rank);
  given_.lists.Settle(writer->list, std::exchange(writer->last, nullptr),
                      result.ok() ? std::optional(std::move(result->chunk_hashes)) : std::nullopt);
  if (result.ok() && !writer->ended()) {
    TakeResult(writer, *result);
    return StorePart(writer, *result, std::move(lease));
  }
  given_.images.Release(writer->images, std::exchange(writer->image, nullptr));
  if (!writer->ended()) {
    writer->Pass(Writer::Stage::kEnded);
    return Fail(*writer, result.status());
  }
  given_.waits.Changed();
}

// What it has found out about its base, its blocks' digests, and the image, which a restore may want.
void Captures::TakeResult(const WriterPtr& writer, CaptureResult& result) {
  const Dataset& dataset = *writer->dataset;
  if (!result.base_status.ok()) {
    context_.Warn(fmt::format("run {}: dataset {}: rank {} is written {}: {}", given_.run_name, dataset.id,
                              writer->rank, result.new_file ? "into a new file" : "from a damaged file",
                              MessageOf(result.base_status)));
    BaseIsDamaged(*writer, result.base_status);
  }
  if (result.digests && !dataset.kind.past_cache) {
    given_.bases.Keep(dataset.id, writer->rank, std::move(result.digests));
  }
  // What its label says must hold until the part is in the cache: else it could be lost with this process.
  if (!writer->image || !writer->image->is_labelled()) PutImageBack(*writer, std::move(result.metadata));
}

// A restore may want what it holds; else it is free for the next.
void Captures::PutImageBack(Writer& writer, std::vector<std::byte> metadata) {
  std::shared_ptr<Image> image = std::exchange(writer.image, nullptr);
  const Dataset& dataset = *writer.dataset;
  if (!image || writer.ring || writer.letter != ftiff::Letter::kF) {
    if (!image || !image->is_labelled()) return given_.images.Release(writer.images, std::move(image));
    return given_.images.KeepLabel(given_.run, dataset.id, dataset.created_us, writer.rank, std::move(image),
                                   writer.images);
  }
  auto kept = std::make_shared<KeptImage>();
  kept->image = std::move(image);
  kept->data_bytes = writer.list->layout->data_bytes;
  kept->metadata = std::move(metadata);
  given_.images.Keep(given_.run, dataset.id, dataset.created_us, writer.rank, std::move(kept), writer.images);
}

// What a capture has found out about a file that shares its extents and stays: its dataset is not whole any more.
void Captures::BaseIsDamaged(const Writer& writer, const absl::Status& why) {
  if (!absl::IsDataLoss(why) && !absl::IsNotFound(why)) return;
  const DatasetPtr base = given_.ledger.Get(given_.bases.ClonedFrom(writer.dataset->id));
  if (!base || !base->in_cache() || base->readers > 0) return;  // a restore finds out for itself
  given_.cache.FoundDamaged(base, CheckpointFileName(base->id, writer.rank), why);
}

void Captures::StorePart(const WriterPtr& writer, CaptureResult& result, std::shared_ptr<void> lease) {
  const DatasetPtr& dataset = writer->dataset;
  catalogue::Catalogue catalogue = PartRecord(given_.run, *dataset, writer->rank, writer->variables);
  PutFile(result, writer->letter, &catalogue);
  std::string work_path = catalogue.file_size() > 0 ? writer->work_path : std::string();
  const bool first = !storing_.contains(dataset->id);
  storing_[dataset->id].push_back({.writer = writer,
                                   .part = {.catalogue = std::move(catalogue), .work_path = std::move(work_path)},
                                   .lease = std::move(lease),
                                   .metadata = std::move(result.metadata)});
  if (first) StoreParts(dataset);
}

// Its image is in nobody's hands but the writer's, if it has one still.
void Captures::StoreEnded(Unstored& one, const absl::Status& status) {
  Writer& writer = *one.writer;
  if (!given_.ledger.Has(writer.dataset)) {
    given_.images.Release(writer.images, std::exchange(writer.image, nullptr));
  } else if (status.ok()) {
    // One label is enough to take up a dataset whose other parts are stored, and who is not stored yet has one: only
    // that of the last part stays, until the dataset's entry is in the index. Else a rank that is ahead would wait for
    // those that are slow. If the last part has none (of a ring, of no bytes, of an image that nobody else holds), the
    // dataset could not be taken up before either: no other image waits in its place. Nor does any of what lies on
    // several nodes, which is not taken up.
    const Dataset& dataset = *writer.dataset;
    const bool last = dataset.stored + 1 == dataset.nranks;
    if (writer.image && (!last || dataset.over_nodes())) writer.image->ClearLabel();
    if (writer.image) PutImageBack(writer, std::move(one.metadata));
    given_.completion.Stored(writer.dataset, writer.rank, std::move(one.part.catalogue));
  } else {
    given_.images.Release(writer.images, std::exchange(writer.image, nullptr));
    Fail(writer, status);
  }
}

void Captures::StoreParts(const DatasetPtr& dataset) {
  const auto storing = storing_.find(dataset->id);
  std::deque<Unstored>& waiting = storing->second;
  if (waiting.empty() || !given_.ledger.Has(dataset)) {  // it may have failed meanwhile
    std::deque<Unstored> left = std::move(waiting);
    storing_.erase(storing);
    for (Unstored& one : left) StoreEnded(one, absl::OkStatus());
    return;
  }
  const auto end = waiting.begin() + static_cast<std::ptrdiff_t>(std::min(waiting.size(), kPartsAtOnce));
  auto unstored = std::make_shared<std::vector<Unstored>>(std::move_iterator(waiting.begin()), std::move_iterator(end));
  waiting.erase(waiting.begin(), end);
  std::vector<DatasetStore::Part> parts;
  for (const Unstored& one : *unstored) parts.push_back(one.part);
  auto store = [store = given_.stores.Of(*dataset), parts = std::move(parts)] { return store->CommitRanks(parts); };
  given_.stores.Blocking(*dataset, std::move(store), [this, dataset, unstored](const absl::Status& status) {
    for (Unstored& one : *unstored) StoreEnded(one, status);
    unstored->clear();
    StoreParts(dataset);
  });
}

}  // namespace cairn
