// Container lists: each rank's next checkpoint goes on with the containers of its last one. README.md, "Container
// lists", has where the last one is taken from.
#include "daemon/core/core_impl.h"
#include "daemon/core/restore_plan.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

ftiff::Packing PackingOf(const Config& config) {
  return config.ftiff.exact ? ftiff::Packing::kExact : ftiff::Packing::kAligned;
}

}  // namespace

// The newest checkpoint that the session's launch has left in the cache, when this daemon has not seen it being made.
CoreImpl::DatasetPtr CoreImpl::ListToRead(const Session& session) const {
  const Run& run = *session.run;
  const auto known = run.lists.find(session.rank);
  if (known != run.lists.end() && known->second.launch == session.launch) return nullptr;
  for (auto at = run.ledger.datasets().rbegin(); at != run.ledger.datasets().rend(); ++at) {
    const Dataset& dataset = *at->second;
    if (dataset.launch != session.launch || !dataset.in_cache || dataset.files) continue;
    return session.rank < dataset.parts.size() ? at->second : nullptr;
  }
  return nullptr;
}

// A list that cannot be read is none: the next checkpoint gets a fresh one.
void CoreImpl::ReadList(const SessionPtr& session, const DatasetPtr& dataset, std::function<void()> then) {
  const RunPtr run = session->run;
  RestoreSource source;
  const catalogue::Catalogue& catalogue = dataset->parts[session->rank].catalogue;
  if (catalogue.file_size() == 1) {
    source.path = run->cache->DatasetPath(dataset->id) + "/" + catalogue.file(0).name();
    source.file_bytes = catalogue.file(0).bytes();
  }
  BlockingCache(
      [this, source]() -> std::shared_ptr<ContainerList> {
        if (source.path.empty()) return nullptr;
        const auto metadata = ReadMetadata(cache_disk_, source);
        return metadata.ok() ? ListOf(*metadata, /*restored=*/false) : nullptr;
      },
      [run, session, then = std::move(then)](std::shared_ptr<ContainerList> list) {
        RankList& known = run->lists[session->rank];
        if (known.launch != session->launch) known = {.launch = session->launch, .list = std::move(list)};
        then();
      });
}

std::shared_ptr<ContainerList> CoreImpl::LastList(const Session& session) {
  const auto known = session.run->lists.find(session.rank);
  if (known == session.run->lists.end() || known->second.launch != session.launch) return nullptr;
  return known->second.list;
}

// The list of the session's next checkpoint. If it does not change the plan, the client need not be told it again.
absl::StatusOr<std::shared_ptr<ContainerList>> CoreImpl::PlanList(Session& session, const ContainerList* last,
                                                                  std::vector<ftiff::VariableSize> sizes) {
  CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<ContainerList> list, NextList(last, std::move(sizes), PackingOf(config_)));
  if (session.plan &&
      (session.plan_list->sizes != list->sizes || !SamePlaces(*session.plan_list->layout, *list->layout))) {
    session.plan.reset();
  }
  session.plan_list = list;
  return list;
}

// What the containers have now, or, if this file never came to be, had before.
void CoreImpl::SettleList(const std::shared_ptr<PartWriter>& writer, std::optional<std::vector<Md5Digest>> hashes) {
  const std::shared_ptr<ContainerList> list = writer->list, last = writer->last;
  if (list->settled) return;
  if (!hashes && last && !last->settled) {
    last->waiting.push_back([this, writer] { SettleList(writer, std::nullopt); });
    return;
  }
  writer->last = nullptr;
  list->hashes = hashes ? *std::move(hashes) : LastHashes(last.get(), *list->layout);
  list->settled = true;
  for (auto& next : std::exchange(list->waiting, {})) loop_.Post(std::move(next));
}

}  // namespace cairn
