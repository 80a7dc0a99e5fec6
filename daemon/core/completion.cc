// From a captured part to a whole dataset, and what goes when one fails.
#include <spdlog/spdlog.h>

#include "daemon/core/core_impl.h"
#include "storage/base/status.h"
#include "storage/cache/catalogue.h"
#include "storage/view/placement.h"

namespace cairn {
namespace {

catalogue::Catalogue CatalogueOf(const PartWriter& writer, const CaptureResult& result) {
  catalogue::Catalogue catalogue;
  catalogue.set_run(writer.run->id.Hex());
  catalogue.set_launch(writer.dataset->launch);
  catalogue.set_dataset(writer.dataset->id);
  catalogue.set_step(writer.dataset->step);
  catalogue.set_rank(writer.rank);
  catalogue.set_nranks(writer.dataset->nranks);
  *catalogue.mutable_variables() = writer.variables;
  if (!writer.variables.empty()) {
    catalogue::FileEntry& file = *catalogue.add_file();
    file.set_name(CheckpointFileName(writer.dataset->id, writer.rank));
    file.set_prefix_name(fmt::format("ckpt.{}/{}", writer.dataset->id, file.name()));
    file.set_bytes(result.file_bytes);
    file.set_bytes_written(result.bytes_written);
    file.mutable_crc32c()->Assign(result.crc32c.begin(), result.crc32c.end());
    file.set_crc32(result.crc32);
    file.set_has_crc32(true);
    for (catalogue::Placement& placement :
         view::PlacementOf(catalogue, ftiff::Placed(result.layout, writer.letter), result.bounds)) {
      *catalogue.add_placement() = std::move(placement);
    }
  }
  return catalogue;
}

}  // namespace

void CoreImpl::CaptureEnded(const std::shared_ptr<PartWriter>& writer, absl::StatusOr<CaptureResult> result) {
  const RunPtr run = writer->run;
  const std::shared_ptr<void> lease = std::exchange(writer->lease, nullptr);
  if (auto writers = run->writers.find(writer->dataset->id); writers != run->writers.end()) {
    writers->second.erase(writer->rank);
    if (writers->second.empty()) run->writers.erase(writers);
  }
  SettleList(writer, result.ok() ? std::optional(std::move(result->chunk_hashes)) : std::nullopt);
  if (!result.ok() || writer->ended) {
    ReleaseImage(writer->session, std::exchange(writer->image, nullptr));
    if (!std::exchange(writer->ended, true)) {
      run->ledger.Fail(writer->dataset->id, fmt::format("rank {}: {}", writer->rank, MessageOf(result.status())));
    }
    return Changed(run);
  }
  catalogue::Catalogue catalogue = CatalogueOf(*writer, *result);
  if (!result->base_status.ok()) {
    const bool in_full = result->bytes_written == result->file_bytes;
    Warn(fmt::format("run {}: dataset {}: rank {} is written {}: {}", run->name, writer->dataset->id, writer->rank,
                     in_full ? "in full" : "in part, from a damaged file", MessageOf(result->base_status)));
    BaseIsDamaged(run, *writer, result->base_status);
  }
  if (result->digests && !writer->dataset->bypass && writer->dataset->id > run->distrusted)
    run->digests[writer->dataset->id][writer->rank] = std::move(result->digests);
  if (writer->image && !writer->ring && writer->letter == ftiff::Letter::kF) {
    auto kept = std::make_shared<KeptImage>();
    kept->image = std::move(writer->image);
    kept->data_bytes = writer->list->layout->data_bytes;
    kept->metadata = std::move(result->metadata);
    run->kept[writer->dataset->id][writer->rank] = {.kept = std::move(kept), .session = writer->session};
    RetryImageWishes();  // kept ones give way
  } else {
    ReleaseImage(writer->session, std::exchange(writer->image, nullptr));
  }
  BlockingStore(
      *writer->dataset,
      [store = StoreOf(*run, *writer->dataset), catalogue,
       path = catalogue.file_size() > 0 ? writer->work_path : std::string()] {
        return store->CommitRank(catalogue, path);
      },
      [this, run, writer, catalogue, lease](const absl::Status& status) mutable {
        if (writer->ended) return;
        if (status.ok()) return PartLocal(run, writer->dataset, writer->rank, std::move(catalogue));
        run->ledger.Fail(writer->dataset->id, fmt::format("rank {}: {}", writer->rank, MessageOf(status)));
        Changed(run);
      });
}

void CoreImpl::PartLocal(const RunPtr& run, const DatasetPtr& dataset, Rank rank, catalogue::Catalogue catalogue) {
  if (run->ledger.Get(dataset->id) != dataset) return;  // failed meanwhile
  run->ledger.Local(*dataset, rank, std::move(catalogue));
  if (dataset->local == dataset->nranks) CompleteDataset(run, dataset);
}

void CoreImpl::CompleteDataset(const RunPtr& run, const DatasetPtr& dataset) {
  auto complete = [store = StoreOf(*run, *dataset), descriptor = DescriptorOf(*dataset, true)] {
    return store->Complete(descriptor);
  };
  BlockingStore(*dataset, complete,
                [this, run, dataset, lease = LeaseOf(run, dataset->id)](const absl::Status& status) {
                  if (run->ledger.Get(dataset->id) != dataset) return;
                  if (!status.ok()) {
                    run->ledger.Fail(dataset->id, std::string(MessageOf(status)));
                    return Changed(run);
                  }
                  dataset->in_cache = !dataset->bypass;
                  // Its place in the rhythm is to hold over a restart.
                  if (dataset->in_cache && dataset->checkpoint && config_.flush.every > 1) StoreFlushRecord(run);
                  run->routed.erase(dataset->id);
                  run->routed_directories.erase(dataset->id);
                  if (run->growing.contains(dataset->id)) {  // what has begun on the prefix is finished there
                    run->asked.insert(dataset->id);
                    StopGrowth(run, dataset->id);
                  }
                  EndReuse(run, dataset->id);
                  if (dataset->checkpoint) RetireKept(run, dataset->id);
                  if (auto kept = run->kept.find(dataset->id); kept != run->kept.end()) {
                    for (auto& [rank, part] : kept->second) {
                      MakeSpareImage(part.session.lock(), part.kept->image->bytes().size());
                    }
                  }
                  if (dataset->bypass) return BypassComplete(run, dataset);
                  Changed(run);
                });
}

absl::Status CoreImpl::WhyFailed(const Run& run, const Dataset& dataset) {
  const Gone* gone = run.ledger.FindGone(dataset.id);
  return Aborted("dataset {} (step {}): {}", dataset.id, dataset.step, gone ? gone->message : "failed");
}

// The ledger has taken the dataset out; what belongs to it goes now.
void CoreImpl::OnFailed(const RunPtr& run, const DatasetPtr& dataset, const std::string& why) {
  Warn(fmt::format("run {}: dataset {} (step {}) failed: {}", run->name, dataset->id, dataset->step, why));
  for (auto& [rank, session] : run->sessions) {
    if (session->files && session->files->dataset == dataset) {
      session->files->failed = true;
      session->files->lease = nullptr;
    }
  }
  const std::shared_ptr<void> lease = LeaseOf(run, dataset->id);
  run->failed_folders.insert(dataset->id);
  run->routed.erase(dataset->id);
  run->routed_directories.erase(dataset->id);
  StopGrowth(run, dataset->id);
  if (auto writers = run->writers.find(dataset->id); writers != run->writers.end()) {
    auto ranks = std::move(writers->second);
    run->writers.erase(writers);
    for (auto& [rank, writer] : ranks) {
      writer->ended = true;
      if (writer->capture) {
        writer->capture->Abort();  // its end gives the image back
      } else {
        writer->lease = nullptr;
        SettleList(writer, std::nullopt);
        ReleaseImage(writer->session, std::exchange(writer->image, nullptr));
        if (SessionPtr session = writer->session.lock()) DropImageWishes(session, writer->begin_call);
      }
    }
  }
  if (auto kept = run->kept.find(dataset->id); kept != run->kept.end()) {
    auto ranks = std::move(kept->second);
    run->kept.erase(kept);
    for (auto& [rank, part] : ranks) ReleaseImage(part.session, part.kept->image);
  }
  if (auto state = run->directories.find(dataset->id); state != run->directories.end()) {
    // Later, since this may be deep within a call of theirs.
    for (auto& next : state->second.waiting) loop_.Post([next, why] { next(Aborted("{}", why)); });
    run->directories.erase(state);
  }
}

// While anybody holds a lease, something may still write to the dataset's folder. A failed one's folder is removed when
// the last lease is gone.
std::shared_ptr<void> CoreImpl::LeaseOf(const RunPtr& run, DatasetId id) {
  std::weak_ptr<void>& known = run->leases[id];
  if (std::shared_ptr<void> lease = known.lock()) return lease;
  std::shared_ptr<void> lease(nullptr, [this, weak = std::weak_ptr<Run>(run), id](void*) {
    if (ended_) return;  // the core is ending: the next start removes what was never whole
    loop_.Post([this, weak, id] {
      if (RunPtr owner = weak.lock()) LeaseEnded(owner, id);
    });
  });
  known = lease;
  return lease;
}

void CoreImpl::LeaseEnded(const RunPtr& run, DatasetId id) {
  auto known = run->leases.find(id);
  if (known == run->leases.end() || !known->second.expired()) return;  // taken anew meanwhile
  run->leases.erase(known);
  if (run->failed_folders.erase(id) == 0) return;
  EndReuse(run, id);
  if (run->bypassing.contains(id)) return RemoveBypassed(run, id);
  BlockingCache([cache = run->cache, id] { return cache->Remove(id); },
                [this, id](const absl::Status& status) {
                  // What could not be removed now has no COMPLETE: the next start removes it.
                  if (!status.ok()) Warn(fmt::format("dataset {}: {}", id, MessageOf(status)));
                });
}

}  // namespace cairn
