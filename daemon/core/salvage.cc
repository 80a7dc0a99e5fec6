#include "daemon/core/salvage.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "daemon/core/container_list.h"
#include "daemon/core/part_record.h"
#include "daemon/data/capture.h"
#include "daemon/data/image.h"
#include "daemon/data/plan.h"
#include "storage/base/status.h"
#include "storage/format/placement/placement.h"
#include "storage/io/disk.h"

namespace cairn {
namespace {

// What a disk surely does in a second. Whoever waits for this daemon is told how long it may take.
constexpr std::uint64_t kBytesPerSecond = 16 << 20;
constexpr std::uint64_t kSecondsAtLeast = 60;
constexpr std::uint64_t kRanksPerSecond = 16;  // whose records are made anew
constexpr std::size_t kRanksNamed = 8;

scr::Descriptor DescriptorOf(const CapturedPart& part) {
  scr::Descriptor descriptor;
  descriptor.id = part.catalogue.dataset();
  descriptor.name = part.name;
  descriptor.checkpoint = true;
  descriptor.created_us = part.created_us;
  descriptor.user = part.user;
  descriptor.job_id = part.job;
  descriptor.launch = part.catalogue.launch();
  descriptor.mark = part.mark;
  descriptor.step = part.catalogue.step();
  descriptor.ranks = part.catalogue.nranks();
  return descriptor;
}

bool SameDataset(const scr::Descriptor& a, const scr::Descriptor& b) {
  return a.id == b.id && a.name == b.name && a.created_us == b.created_us && a.launch == b.launch && a.mark == b.mark &&
         a.step == b.step && a.ranks == b.ranks && a.user == b.user && a.job_id == b.job_id;
}

struct Memory {
  SealedMemory memory;
  UniqueFd fd;
};
using Images = std::map<std::uint64_t, Memory>;  // by inode

struct Believed {
  std::uint64_t image = 0;
  CapturedPart part;
};

// None: nothing is in its image.
absl::StatusOr<std::optional<Believed>> Believe(int label, const Images& images) {
  CAIRN_ASSIGN_OR_RETURN(const std::optional<std::string> frame, ReadLabel(label, Salvage::kTriesMax));
  if (!frame) return std::nullopt;
  CountTry(label, 1);
  Believed believed{.image = ImageOfLabel(*frame), .part = {}};
  CountTry(label, -1);
  const auto image = images.find(believed.image);
  const SealedMemory memory = image == images.end() ? SealedMemory() : image->second.memory;
  CountTry(label, 1);
  absl::StatusOr<CapturedPart> part = DecodeLabel(*frame, memory);
  CountTry(label, -1);
  CAIRN_ASSIGN_OR_RETURN(believed.part, std::move(part));
  if (image == images.end()) return DataLoss("a label: image: {} was not left", believed.image);
  return believed;
}

// It says nothing of what was captured: a disk that is full or does not answer, memory that is short.
bool MayPass(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDeadlineExceeded:
      return true;
    default:
      return false;
  }
}

std::string NameOf(const scr::Descriptor& descriptor) {
  return fmt::format("dataset {} (step {}, launch {})", descriptor.id, descriptor.step.value_or(0),
                     descriptor.launch.value_or(0));
}

absl::StatusOr<Capture::Spec> SpecOf(const CapturedPart& part, std::shared_ptr<Image> image, std::string work_path) {
  Capture::Spec spec;
  std::vector<ftiff::VariableSize> sizes;
  for (const local::Variable& variable : part.catalogue.variables()) {
    sizes.push_back({.id = variable.id(), .bytes = variable.bytes()});
    if (part.letter == ftiff::Letter::kA) spec.registered.push_back(variable.id());
  }
  CAIRN_ASSIGN_OR_RETURN(spec.plan, MakePlan(part.layout, sizes, image->bytes().size()));
  spec.layout = part.layout;
  spec.letter = part.letter;
  if (HasEmptied(part.layout)) spec.last_hashes = part.last_hashes;
  spec.scans = view::ScansFor(part.catalogue.variables(), part.layout);
  spec.image = std::move(image);
  spec.checkpoint_id = static_cast<std::int32_t>(part.catalogue.dataset());
  spec.timestamp_ns = static_cast<std::uint64_t>(part.created_us) * 1000;
  spec.work_path = std::move(work_path);
  return spec;
}

// As if the client had just committed it.
absl::StatusOr<CaptureResult> RunCapture(Disk& disk, WorkPool& pool, Capture::Spec spec) {
  const auto ended = std::make_shared<std::promise<absl::StatusOr<CaptureResult>>>();
  std::future<absl::StatusOr<CaptureResult>> result = ended->get_future();
  const std::uint64_t pieces = spec.plan.size();
  const auto capture =
      Capture::Start(disk, pool, std::move(spec),
                     {.on_released = [](std::uint64_t) {},
                      .on_end = [ended](absl::StatusOr<CaptureResult> end) { ended->set_value(std::move(end)); }});
  absl::Status committed = capture->Filled(pieces);
  if (committed.ok()) committed = capture->Commit();
  if (!committed.ok()) capture->Abort();
  return result.get();
}

}  // namespace

Salvage::Salvage(std::shared_ptr<Deposits> deposits, WorkPool& pool) : deposits_(std::move(deposits)), pool_(pool) {
  if (deposits_) ReadLabels(deposits_->TakeLeft());
}

Salvage::~Salvage() {
  if (!told_) return;
  for (Left& left : left_) GiveUp(left);
  for (const std::uint64_t inode : nothing_in_) deposits_->GiveUp(inode);
}

void Salvage::ReadLabels(std::vector<UniqueFd> left) {
  std::vector<Memory> labels;
  Images images;
  for (UniqueFd& fd : left) {
    const absl::StatusOr<SealedMemory> memory = LookAtMemory(fd.get());
    if (!memory.ok()) {
      warnings_.push_back(fmt::format("what the last daemon has left: {}", MessageOf(memory.status())));
    } else if (IsLabel(*memory)) {
      labels.push_back({.memory = *memory, .fd = std::move(fd)});
    } else {
      images[memory->inode] = {.memory = *memory, .fd = std::move(fd)};
    }
  }
  for (Memory& label : labels) {
    auto found = Believe(label.fd.get(), images);
    if (!found.ok()) {
      warnings_.push_back(
          fmt::format("what the last daemon has captured is not believed: {}", MessageOf(found.status())));
    }
    if (!found.ok() || !*found) {
      nothing_in_.push_back(label.memory.inode);
      continue;
    }
    auto image = images.extract((*found)->image);
    left_.push_back({.part = std::move((*found)->part),
                     .memory = image.mapped().memory,
                     .fd = std::move(image.mapped().fd),
                     .label = label.memory.inode,
                     .label_fd = std::move(label.fd)});
  }
  for (const auto& [inode, image] : images) nothing_in_.push_back(inode);
}

void Salvage::GiveUp(Left& left) {
  if (left.label == 0) return;
  // Whatever becomes of the memory: what has come to be of the dataset by then is not to come back.
  UnsealLabel(left.label_fd.get());
  deposits_->GiveUp(std::exchange(left.label, 0));
  deposits_->GiveUp(left.memory.inode);
  left.fd.Reset();
}

std::vector<std::string> Salvage::TakeWarnings(const std::set<RunId>& unread, bool all_runs_known) {
  told_ = true;
  for (Left& left : left_) {
    if (left.label == 0) continue;
    const std::string what = fmt::format("run {}: {}, rank {}: captured by the last daemon", left.part.catalogue.run(),
                                         NameOf(DescriptorOf(left.part)), left.part.catalogue.rank());
    const auto of = std::ranges::find_if(unread, [&](RunId run) { return run.Hex() == left.part.catalogue.run(); });
    if (of != unread.end() || !all_runs_known) {
      warnings_.push_back(fmt::format("{}: left to the next start", what));
      left.label = 0;  // who holds both has them still
      continue;
    }
    warnings_.push_back(fmt::format("{} for no run of this cache: dropped", what));
    GiveUp(left);
  }
  return std::exchange(warnings_, {});
}

absl::Status Salvage::Into(CacheFolder& folder) {
  if (!deposits_) return absl::OkStatus();
  std::map<DatasetId, Found> datasets;
  if (auto unfinished = folder.FindUnfinished(); unfinished.ok()) {
    for (scr::Descriptor& one : *unfinished) datasets[one.id].descriptor = std::move(one);
  } else {
    warnings_.push_back(fmt::format("{}: {}", folder.path(), MessageOf(unfinished.status())));
  }
  // Not what it was before: a copy of the prefix has that, too, and a dataset of its own under the same number.
  const std::string run = folder.record().run.run.Hex();
  for (Left& left : left_) {
    if (left.label == 0 || run != left.part.catalogue.run()) continue;
    Found& found = datasets[left.part.catalogue.dataset()];
    if (found.parts.empty()) found.descriptor = DescriptorOf(left.part);
    found.parts.push_back(&left);
  }
  absl::Status passing;
  for (const auto& [id, found] : datasets) {
    for (const Left* left : found.parts) CountTry(left->label_fd.get(), 1);
    const absl::Status whole = MakeWhole(folder, found);
    const std::string what = fmt::format("{}: {}", folder.path(), NameOf(found.descriptor));
    if (MayPass(whole) && !found.parts.empty()) {  // its images stay with who holds them
      if (passing.ok()) passing = Annotate(whole, what);
      continue;
    }
    if (whole.ok()) {
      spdlog::info("{}, which the last daemon had captured, is taken up: it is local", what);
    } else if (!absl::IsAlreadyExists(whole)) {  // then it was whole, and its labels not cleared yet
      warnings_.push_back(fmt::format("{}, which the last daemon had begun, is dropped: {}", what, MessageOf(whole)));
    }
    for (Left* left : found.parts) GiveUp(*left);
  }
  return passing;
}

absl::Status Salvage::MakeWhole(CacheFolder& folder, const Found& found) {
  std::set<Rank> ranks;
  for (const Left* left : found.parts) {
    if (!SameDataset(found.descriptor, DescriptorOf(left->part))) {
      return DataLoss("rank {} says that it is another dataset", left->part.catalogue.rank());
    }
    if (!ranks.insert(left->part.catalogue.rank()).second) {
      return DataLoss("rank {} is there twice", left->part.catalogue.rank());
    }
  }
  deposits_->NeedsTime(kSecondsAtLeast + found.descriptor.ranks.value_or(0) / kRanksPerSecond);
  CAIRN_ASSIGN_OR_RETURN(const std::vector<Rank> stored, folder.TakeUp(found.descriptor));
  ranks.insert(stored.begin(), stored.end());
  const std::uint32_t nranks = *found.descriptor.ranks;
  if (ranks.size() != nranks) {
    std::vector<Rank> missing;
    for (Rank rank = 0; rank < nranks && missing.size() < kRanksNamed; ++rank) {
      if (!ranks.contains(rank)) missing.push_back(rank);
    }
    return FailedPrecondition("{} of {} ranks had been captured here, not {}{}", ranks.size(), nranks,
                              fmt::join(missing, ", "), missing.size() < nranks - ranks.size() ? ", …" : "");
  }
  for (Left* left : found.parts) {
    // A part that is stored is as good as its image, and was made of it.
    if (std::ranges::find(stored, left->part.catalogue.rank()) != stored.end()) continue;
    CAIRN_RETURN_IF_ERROR(Annotate(Store(folder, *left), fmt::format("rank {}", left->part.catalogue.rank())));
  }
  scr::Descriptor whole = found.descriptor;
  whole.complete = true;
  return folder.Complete(whole);
}

absl::Status Salvage::Store(CacheFolder& folder, Left& left) {
  deposits_->NeedsTime(kSecondsAtLeast + left.memory.bytes / kBytesPerSecond);
  ImageBudget budget(left.memory.bytes);
  CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<Image> image, Image::TakeUp(budget, std::move(left.fd)));
  const DatasetId id = left.part.catalogue.dataset();
  const Rank rank = left.part.catalogue.rank();
  const std::string work_path = folder.WorkPath(id, rank);
  CAIRN_ASSIGN_OR_RETURN(Capture::Spec spec, SpecOf(left.part, std::move(image), work_path));
  CAIRN_ASSIGN_OR_RETURN(const CaptureResult result, RunCapture(folder.disk(), pool_, std::move(spec)));
  DatasetStore::Part part{.catalogue = left.part.catalogue, .work_path = work_path};
  PutFile(result, left.part.letter, &part.catalogue);
  return folder.CommitRanks({&part, 1});
}

}  // namespace cairn
