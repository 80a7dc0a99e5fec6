#include "daemon/core/container_lists.h"

#include "daemon/core/restore_plan.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

ftiff::Packing PackingOf(const Config& config) {
  return config.ftiff.exact ? ftiff::Packing::kExact : ftiff::Packing::kAligned;
}

// Do both make the same plan, in an image of the same size?
bool SamePlan(const ContainerList& a, const ContainerList& b) {
  return a.sizes == b.sizes && SamePlaces(*a.layout, *b.layout);
}

}  // namespace

// What waits for a list may hold that list.
ContainerLists::~ContainerLists() {
  for (const std::weak_ptr<ContainerList>& known : unsettled_) {
    if (const ListPtr list = known.lock()) std::exchange(list->waiting, {}).clear();
  }
}

// --- The rank's last list ---

// The newest checkpoint that the session's launch has left in the cache, when this daemon has not seen it being made.
DatasetPtr ContainerLists::ToRead(const Session& session) const {
  const auto known = lists_.find(session.rank);
  if (known != lists_.end() && known->second.launch == session.launch) return nullptr;
  const Datasets& in_play = ledger_.InPlay();
  for (auto at = in_play.rbegin(); at != in_play.rend(); ++at) {
    const Dataset& dataset = *at->second;
    if (dataset.launch != session.launch || !dataset.in_cache() || dataset.kind.files) continue;
    return session.rank < dataset.parts.size() ? at->second : nullptr;
  }
  return nullptr;
}

void ContainerLists::WhenKnown(const SessionPtr& session, std::function<void()> then) {
  const DatasetPtr last = ToRead(*session);
  if (!last) return then();
  Read(session, *last, std::move(then));
}

void ContainerLists::Read(const SessionPtr& session, const Dataset& dataset, std::function<void()> then) {
  RestoreSource source;
  const catalogue::Catalogue& catalogue = dataset.parts[session->rank].catalogue;
  if (catalogue.file_size() == 1) {
    source.path = cache_->DatasetPath(dataset.id) + "/" + catalogue.file(0).name();
    source.file_bytes = catalogue.file(0).bytes();
  }
  context_.OnCache(
      [&disk = context_.env.cache_disk, source]() -> absl::StatusOr<ListPtr> {
        if (source.path.empty()) return nullptr;
        const auto metadata = ReadMetadata(disk, source);
        return metadata.ok() ? ListOf(*metadata, /*restored=*/false) : nullptr;
      },
      [this, session, then = std::move(then)](const absl::StatusOr<ListPtr>& list) {
        RankList& known = lists_[session->rank];
        if (known.launch != session->launch) known = {.launch = session->launch, .list = list.value_or(nullptr)};
        then();
      });
}

ListPtr ContainerLists::LastOf(const Session& session) const {
  const auto known = lists_.find(session.rank);
  if (known == lists_.end() || known->second.launch != session.launch) return nullptr;
  return known->second.list;
}

void ContainerLists::HandedOver(const Session& session, const ListPtr& list) {
  lists_[session.rank] = {.launch = session.launch, .list = list};
}

void ContainerLists::Restored(LaunchId launch, Rank rank, const ListPtr& list) {
  lists_[rank] = {.launch = launch, .list = list};
}

// --- The next list and its plan ---

absl::StatusOr<ListPtr> ContainerLists::Next(const Session& session, std::vector<ftiff::VariableSize> sizes,
                                             ftiff::Letter letter) {
  CAIRN_ASSIGN_OR_RETURN(ListPtr list,
                         NextList(LastOf(session).get(), std::move(sizes), PackingOf(context_.config), letter));
  if (const auto told = told_.find(session.id); told != told_.end()) {
    if (SamePlan(*told->second.list, *list)) {
      told->second.list = list;
    } else {
      told_.erase(told);
    }
  }
  std::erase_if(unsettled_, [](const std::weak_ptr<ContainerList>& known) {
    const ListPtr other = known.lock();
    return !other || other->settled;
  });
  unsettled_.push_back(list);
  return list;
}

absl::StatusOr<ContainerLists::Planned> ContainerLists::PlanFor(const Session& session, const ListPtr& list,
                                                                std::uint64_t image_bytes) {
  if (const auto told = told_.find(session.id);
      told != told_.end() && told->second.list == list && told->second.image_bytes == image_bytes) {
    return Planned{.plan = told->second.plan, .told = true};
  }
  CAIRN_ASSIGN_OR_RETURN(std::vector<PlanPiece> pieces, MakePlan(*list->layout, list->sizes, image_bytes));
  const auto plan = std::make_shared<const std::vector<PlanPiece>>(std::move(pieces));
  told_[session.id] = {.plan = plan, .list = list, .image_bytes = image_bytes};
  return Planned{.plan = plan, .told = false};
}

void ContainerLists::TellAgain(const Session& session, const ListPtr& list, const PlanPtr& plan,
                               std::uint64_t image_bytes) {
  told_[session.id] = {.plan = plan, .list = list, .image_bytes = image_bytes};
}

// --- What a list's containers have ---

void ContainerLists::Settle(const ListPtr& list, const ListPtr& last, std::optional<std::vector<Md5Digest>> hashes) {
  if (list->settled) return;
  if (!hashes && last && !last->settled) {
    last->waiting.push_back([this, list, last] { Settle(list, last, std::nullopt); });
    return;
  }
  list->hashes = hashes ? *std::move(hashes) : LastHashes(last.get(), *list->layout);
  list->settled = true;
  for (auto& next : std::exchange(list->waiting, {})) context_.loop().Post(std::move(next));
}

}  // namespace cairn
