#include "daemon/core/salvage.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "daemon/core/container_list.h"
#include "daemon/core/part_record.h"
#include "daemon/data/capture.h"
#include "daemon/data/image.h"
#include "daemon/data/plan.h"
#include "storage/base/caught.h"
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

// It says nothing of what was captured: a disk that is full, does not answer or may not be written to, memory that is
// short. And what nobody has thought of.
bool MayPass(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return true;
    default:
      return false;
  }
}

// It may be the label's doing, as a death is.
bool IsUnexplained(const absl::Status& status) {
  return absl::IsInternal(status) || absl::IsUnknown(status);
}

std::string NameOf(const scr::Descriptor& descriptor) {
  return fmt::format("dataset {} (step {}, launch {})", descriptor.id, descriptor.step.value_or(0),
                     descriptor.launch.value_or(0));
}

std::string WhatIs(const CapturedPart& part) {
  return fmt::format("run {}: {}, rank {}, captured by the last daemon", part.catalogue.run(),
                     NameOf(DescriptorOf(part)), part.catalogue.rank());
}

absl::Status CheckAllThere(const std::set<Rank>& ranks, std::uint32_t nranks) {
  const auto there = static_cast<std::uint32_t>(std::distance(ranks.begin(), ranks.lower_bound(nranks)));
  if (there == nranks) return absl::OkStatus();
  std::vector<Rank> missing;
  for (Rank rank = 0; rank < nranks && missing.size() < kRanksNamed; ++rank) {
    if (!ranks.contains(rank)) missing.push_back(rank);
  }
  return FailedPrecondition("{} of {} ranks had been captured here, not {}{}", there, nranks, fmt::join(missing, ", "),
                            missing.size() < nranks - there ? ", …" : "");
}

// Another try may need it, too.
absl::StatusOr<UniqueFd> Again(const UniqueFd& fd) {
  UniqueFd again(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (again.valid()) return again;
  return ResourceExhausted("a descriptor for an image: {}", std::strerror(errno));
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

Salvage::Salvage(std::shared_ptr<Deposits> deposits, WorkPool& pool,
                 std::function<std::chrono::system_clock::time_point()> wall)
    : deposits_(std::move(deposits)), pool_(pool), wall_(std::move(wall)) {
  if (!deposits_) return;
  const absl::MutexLock lock(&mutex_);
  ReadLabels(deposits_->TakeLeft());
  Count();
}

void Salvage::ReadLabels(std::vector<UniqueFd> left) {
  std::vector<Memory> labels;
  Images images;
  for (UniqueFd& fd : left) {
    const absl::StatusOr<SealedMemory> memory = LookAtMemory(fd.get());
    if (!memory.ok()) {
      unbelieved_.push_back(fmt::format("what the last daemon has left: {}", MessageOf(memory.status())));
    } else if (IsLabel(*memory)) {
      labels.push_back({.memory = *memory, .fd = std::move(fd)});
    } else {
      images[memory->inode] = {.memory = *memory, .fd = std::move(fd)};
    }
  }
  for (Memory& label : labels) {
    auto found = Believe(label.fd.get(), images);
    if (!found.ok()) {
      unbelieved_.push_back(
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

bool Salvage::Has(const RunId& run) const {
  const absl::MutexLock lock(&mutex_);
  return std::ranges::any_of(left_, [&](const Left& left) { return left.part.catalogue.run() == run.Hex(); });
}

// By a clock that may have been set meanwhile, and by what a label says: neither makes it last.
bool Salvage::IsKept(std::int64_t since_us) const {
  using std::chrono::microseconds;
  const std::int64_t kept_us = microseconds(kKeptFor).count();
  const std::int64_t now_us = std::chrono::duration_cast<microseconds>(wall_().time_since_epoch()).count();
  std::int64_t age_us = 0;
  return !__builtin_sub_overflow(now_us, since_us, &age_us) && age_us > -kept_us && age_us < kept_us;
}

// Whatever becomes of the memory: what has come to be of the dataset by then is not to come back.
void Salvage::GiveUp(const Left& left) {
  UnsealLabel(left.label_fd.get());
  deposits_->GiveUp(left.label);
  deposits_->GiveUp(left.memory.inode);
}

bool Salvage::Waits(const Left& left, std::vector<std::string>& warnings) {
  if (IsKept(left.part.created_us)) return true;
  warnings.push_back(fmt::format("{}: dropped: its run's folder could not be looked at for a day", WhatIs(left.part)));
  GiveUp(left);
  return false;
}

std::vector<std::string> Salvage::DropStrangers(const std::set<RunId>& unread, bool all_runs_known) {
  const absl::MutexLock lock(&mutex_);
  std::vector<std::string> warnings = std::exchange(unbelieved_, {});
  for (const std::uint64_t inode : std::exchange(nothing_in_, {})) deposits_->GiveUp(inode);
  std::erase_if(left_, [&](const Left& left) {
    const auto is_its_run = [&left](const RunId& run) { return run.Hex() == left.part.catalogue.run(); };
    if (!all_runs_known || std::ranges::any_of(unread, is_its_run)) {
      if (!Waits(left, warnings)) return true;
      warnings.push_back(fmt::format("{}: kept until its run can be opened, or for the next start", WhatIs(left.part)));
      return false;
    }
    warnings.push_back(fmt::format("{}: dropped: it is for no run of this cache", WhatIs(left.part)));
    GiveUp(left);
    return true;
  });
  Count();
  return warnings;
}

absl::StatusOr<std::vector<std::string>> Salvage::DropOld() {
  const absl::MutexLock lock(&mutex_);
  std::vector<std::string> warnings;
  std::erase_if(left_, [&](const Left& left) { return !Waits(left, warnings); });
  Count();
  return warnings;
}

// What is left of one run, while it is made whole: nobody else has to wait for that.
class Salvage::OfRun {
 public:
  OfRun(Salvage& salvage, const RunId& run) : salvage_(salvage) {
    const absl::MutexLock lock(&salvage_.mutex_);
    for (auto at = salvage_.left_.begin(); at != salvage_.left_.end();) {
      const auto one = at++;
      if (one->part.catalogue.run() == run.Hex()) left.splice(left.end(), salvage_.left_, one);
    }
    taken_ = left.size();
    salvage_.in_work_ += taken_;
  }
  ~OfRun() {
    const absl::MutexLock lock(&salvage_.mutex_);
    salvage_.left_.splice(salvage_.left_.end(), left);
    salvage_.in_work_ -= taken_;
    salvage_.Count();
  }
  OfRun(const OfRun&) = delete;

  std::list<Left> left;

 private:
  Salvage& salvage_;
  std::size_t taken_ = 0;
};

// Not of what the run was before: a copy of the prefix has that, too, and a dataset of its own under the same number.
absl::Status Salvage::Into(CacheFolder& folder, std::vector<std::string>& warnings) {
  if (!deposits_) return absl::OkStatus();
  OfRun mine(*this, folder.record().run.run);
  Datasets datasets;
  const absl::StatusOr<CacheFolder::Unfinished> unfinished = folder.FindUnfinished();
  absl::Status passing = unfinished.status();
  const auto note = [&passing](const absl::Status& status) {
    if (passing.ok()) passing = status;
  };
  if (unfinished.ok()) {
    for (const scr::Descriptor& one : unfinished->datasets) datasets[one.id].descriptor = one;
    warnings.insert(warnings.end(), unfinished->refused.begin(), unfinished->refused.end());
  }
  for (const Left& left : mine.left) {
    Found& found = datasets[left.part.catalogue.dataset()];
    if (found.parts.empty()) found.descriptor = DescriptorOf(left.part);
    found.parts.push_back(&left);
  }
  for (const auto& [id, found] : datasets) {
    const absl::Status status = Try(folder, found, warnings);
    note(status);
    if (status.ok()) std::erase_if(mine.left, [&found = found](const Left& left) { return found.Has(left); });
  }
  if (!unfinished.ok()) return passing;
  for (const auto& [id, why] : unfinished->unread) {
    if (!datasets.contains(id)) note(Skip(folder, id, why, warnings));
  }
  return passing;
}

// Nobody knows of how many ranks it is, nor when it was begun: but if one is lacking among those that are stored, and
// no image is left, it was never whole; and its folder has not changed since its last rank was stored.
absl::Status Salvage::Skip(CacheFolder& folder, DatasetId id, const absl::Status& why,
                           std::vector<std::string>& warnings) {
  const absl::StatusOr<std::set<Rank>> ranks = folder.FindRanks(id);
  const absl::StatusOr<FileInfo> info = folder.disk().Info(folder.DatasetPath(id));
  const bool perhaps_all = !ranks.ok() || (!ranks->empty() && *ranks->rbegin() == ranks->size() - 1);
  if (perhaps_all && info.ok() && IsKept(std::int64_t{info->mtime.tv_sec} * 1'000'000)) {
    return Annotate(why, fmt::format("{}: dataset {}, which the last daemon had begun, is kept", folder.path(), id));
  }
  warnings.push_back(fmt::format("{}: dataset {}, which the last daemon had begun, cannot be taken up: {}",
                                 folder.path(), id, MessageOf(why)));
  return absl::OkStatus();
}

// OK: it was made whole, or given up, which `warnings` say.
absl::Status Salvage::Try(CacheFolder& folder, const Found& found, std::vector<std::string>& warnings) {
  for (const Left* left : found.parts) CountTry(left->label_fd.get(), 1);
  const absl::Status whole = Caught([&] { return MakeWhole(folder, found); });
  const std::string what = fmt::format("{}: {}", folder.path(), NameOf(found.descriptor));
  if (MayPass(whole) && IsKept(found.descriptor.created_us)) {
    for (const Left* left : found.parts) {
      if (!IsUnexplained(whole)) CountTry(left->label_fd.get(), -1);
    }
    return Annotate(whole, fmt::format("{}, captured by the last daemon, is kept", what));
  }
  if (whole.ok()) {
    spdlog::info("{}, which the last daemon had captured, is taken up: it is local", what);
  } else if (absl::IsAlreadyExists(whole)) {  // it was whole, and its labels not cleared yet
    spdlog::info("{}, of which labels are left: {}", what, MessageOf(whole));
  } else if (const absl::Status dropped = folder.Drop(found.descriptor.id); dropped.ok()) {
    warnings.push_back(fmt::format("{}, which the last daemon had begun, is dropped: {}", what, MessageOf(whole)));
  } else {
    warnings.push_back(fmt::format("{}, which the last daemon had begun, is not taken up: {}. Its folder is kept: {}",
                                   what, MessageOf(whole), MessageOf(dropped)));
  }
  for (const Left* left : found.parts) GiveUp(*left);
  return absl::OkStatus();
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
  const std::uint32_t nranks = found.descriptor.ranks.value_or(0);
  deposits_->NeedsTime(kSecondsAtLeast + nranks / kRanksPerSecond);
  // First: what was never captured by all is worth no work, nor any wait for a disk that has no room for it.
  CAIRN_ASSIGN_OR_RETURN(std::set<Rank> perhaps, folder.FindRanks(found.descriptor.id));
  perhaps.insert(ranks.begin(), ranks.end());
  CAIRN_RETURN_IF_ERROR(CheckAllThere(perhaps, nranks));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<Rank> stored, folder.TakeUp(found.descriptor));
  ranks.insert(stored.begin(), stored.end());
  CAIRN_RETURN_IF_ERROR(CheckAllThere(ranks, nranks));
  for (const Left* left : found.parts) {
    // A part that is stored is as good as its image, and was made of it.
    if (std::ranges::find(stored, left->part.catalogue.rank()) != stored.end()) continue;
    CAIRN_RETURN_IF_ERROR(Annotate(Store(folder, *left), fmt::format("rank {}", left->part.catalogue.rank())));
  }
  scr::Descriptor whole = found.descriptor;
  whole.complete = true;
  return folder.Complete(whole);
}

absl::Status Salvage::Store(CacheFolder& folder, const Left& left) {
  deposits_->NeedsTime(kSecondsAtLeast + left.memory.bytes / kBytesPerSecond);
  ImageBudget budget(left.memory.bytes);
  CAIRN_ASSIGN_OR_RETURN(UniqueFd fd, Again(left.fd));
  CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<Image> image, Image::TakeUp(budget, std::move(fd)));
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
