#include "daemon/core/flush_notes.h"

#include <set>
#include <utility>

#include "daemon/core/descriptor.h"
#include "storage/base/status.h"

namespace cairn {

FlushNotes::FlushNotes(const Context& context, const RunId& run, std::string run_name, const Ledger& ledger,
                       const PrefixGate& gate, std::shared_ptr<FlushFile> file,
                       std::function<bool(DatasetId)> in_flight)
    : context_(context),
      run_(run),
      run_name_(std::move(run_name)),
      ledger_(ledger),
      gate_(gate),
      file_(std::move(file)),
      in_flight_(std::move(in_flight)) {}

void FlushNotes::Update() {
  using FilePlace = FlushFile::Place;
  std::set<DatasetId> cached;
  for (const auto& [id, dataset] : ledger_.InPlay()) {
    if (!dataset->in_cache()) continue;
    cached.insert(id);
    if (in_flight_(id)) continue;
    const FilePlace place = dataset->in_prefix() ? FilePlace::kCacheAndPrefix : FilePlace::kCache;
    if (!file_->Says(id, place)) file_->Put(DescriptorOf(*dataset, true), place);
  }
  file_->KeepOnly(cached);
  if (!gate_.prefix() || writing_ || !file_->stale()) return;
  writing_ = true;
  auto write = [prefix = gate_.prefix(), run = run_, file = file_]() -> absl::Status {
    CAIRN_ASSIGN_OR_RETURN(const RunId now, prefix->CurrentRun());  // a prefix that is gone is not made anew
    if (now != run) return FailedPrecondition("{}: the prefix is run {} now", prefix->path(), now.Hex());
    return file->Write(*prefix);
  };
  context_.OnPrefix(gate_.path(), std::move(write), [this](const absl::Status& status) {
    writing_ = false;
    if (status.ok()) {
      failed_ = false;
      if (!context_.quiescing() && !gate_.replaced()) Update();
    } else if (!std::exchange(failed_, true)) {
      context_.Warn(fmt::format("run {}: {}", run_name_, MessageOf(status)));
    }
  });
}

}  // namespace cairn
