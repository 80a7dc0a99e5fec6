#include "daemon/core/spares.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "storage/base/status.h"
#include "storage/place/cache/dataset_folder.h"

namespace cairn {

std::uint64_t Spares::RemoveFolder(DatasetId id, std::uint64_t bytes_max, std::function<void()> then) {
  if (bytes_max < kSpareBytesMin || bytes_ > 0 || ledger_.over()) {
    folders_.Change(
        id, [cache = cache_, id] { return cache->Remove(id); }, std::move(then));
    return 0;
  }
  bytes_ += bytes_max;
  const auto files = std::make_shared<std::vector<SpareFile>>();
  auto work = [cache = cache_, id, bytes_max, files] {
    // First nobody believes in it any more, durably. What is wrong with that Remove finds as well.
    const absl::Status retired = cache->Retire(id);
    const std::string folder = cache->DatasetPath(id);
    if ((retired.ok() || absl::IsNotFound(retired)) && IsGivenUp(cache->disk(), folder).value_or(false)) {
      *files = TakeSpareFiles(cache->disk(), cache->path(), RecordsFolder(folder), bytes_max);
    }
    return cache->Remove(id);
  };
  folders_.Change(id, std::move(work), [this, take = takes_, bytes_max, files, then = std::move(then)] {
    Arrived(take, bytes_max, std::move(*files));
    if (then) then();
  });
  return bytes_max;
}

void Spares::Arrived(std::uint64_t take, std::uint64_t planned, std::vector<SpareFile> files) {
  if (take != takes_) return Remove(std::move(files));
  bytes_ -= planned;
  for (const SpareFile& file : files) bytes_ += file.bytes;
  files_ = std::move(files);
  Update();
}

std::vector<SpareFile> Spares::Take() {
  ++takes_;
  bytes_ = 0;
  return std::exchange(files_, {});
}

void Spares::Remove(std::vector<SpareFile> spares) {
  if (spares.empty()) return;
  auto remove = [cache = cache_, spares = std::move(spares)] {
    absl::Status all;
    for (const SpareFile& spare : spares) {
      absl::Status removed = cache->disk().Remove(spare.path);
      if (!removed.ok() && !absl::IsNotFound(removed) && all.ok()) all = std::move(removed);
    }
    return all;
  };
  context_.OnCache(std::move(remove), [this](const absl::Status& removed) {
    if (removed.ok()) return;
    context_.Warn(fmt::format("{}: what later redundancy files were to be written over stays until the next start: {}",
                              cache_->path(), MessageOf(removed)));
  });
}

}  // namespace cairn
