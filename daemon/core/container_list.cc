#include "daemon/core/container_list.h"

#include <algorithm>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::uint64_t kReservedMax = 4;  // times what a fresh list reserves

absl::StatusOr<ftiff::FileLayout> Plan(const ContainerList* last, const std::vector<ftiff::VariableSize>& sizes,
                                       ftiff::Packing packing) {
  if (last == nullptr) return ftiff::PlanFresh(sizes, packing);
  if (packing == ftiff::Packing::kExact) {
    return ftiff::PlanNext(*last->layout, last->restored, ftiff::ProcessingOrder(*last->layout, sizes), packing);
  }
  CAIRN_ASSIGN_OR_RETURN(ftiff::FileLayout next, ftiff::PlanNext(*last->layout, last->restored, sizes, packing));
  CAIRN_ASSIGN_OR_RETURN(ftiff::FileLayout fresh, ftiff::PlanFresh(sizes, packing));
  return next.data_bytes / kReservedMax >= fresh.data_bytes ? fresh : next;
}

}  // namespace

std::shared_ptr<ContainerList> ListOf(const ftiff::FileMetadata& metadata, bool restored) {
  auto list = std::make_shared<ContainerList>();
  list->layout = std::make_shared<const ftiff::FileLayout>(ftiff::Placed(metadata.layout, ftiff::Letter::kF));
  list->restored = restored;
  list->hashes = metadata.chunk_hashes;
  list->settled = true;
  return list;
}

absl::StatusOr<std::shared_ptr<ContainerList>> NextList(const ContainerList* last,
                                                        std::vector<ftiff::VariableSize> sizes, ftiff::Packing packing,
                                                        ftiff::Letter letter) {
  auto list = std::make_shared<ContainerList>();
  list->packing = packing;
  if (last != nullptr && last->packing == packing && last->sizes == sizes) {
    list->layout = last->layout;  // the rules change nothing
  } else {
    CAIRN_ASSIGN_OR_RETURN(ftiff::FileLayout layout, Plan(last, sizes, packing));
    list->layout = std::make_shared<const ftiff::FileLayout>(std::move(layout));
  }
  if (letter == ftiff::Letter::kA && !ftiff::AppearAsRegistered(*list->layout, sizes)) {
    CAIRN_ASSIGN_OR_RETURN(ftiff::FileLayout layout, Plan(nullptr, sizes, packing));
    list->layout = std::make_shared<const ftiff::FileLayout>(std::move(layout));
  }
  list->sizes = std::move(sizes);
  return list;
}

bool SamePlaces(const ftiff::FileLayout& a, const ftiff::FileLayout& b) {
  if (&a == &b) return true;
  const auto same = [](const ftiff::Container& x, const ftiff::Container& y) {
    return x.id == y.id && x.variable_offset == y.variable_offset && x.file_offset == y.file_offset &&
           x.chunk_bytes == y.chunk_bytes && x.container_bytes == y.container_bytes;
  };
  return std::equal(a.containers.begin(), a.containers.end(), b.containers.begin(), b.containers.end(), same);
}

bool HasEmptied(const ftiff::FileLayout& layout) {
  return std::any_of(layout.containers.begin(), layout.containers.end(),
                     [](const ftiff::Container& container) { return !container.has_content; });
}

std::vector<Md5Digest> LastHashes(const ContainerList* last, const ftiff::FileLayout& layout) {
  std::vector<Md5Digest> hashes(layout.containers.size(), Md5({}));
  if (last == nullptr) return hashes;
  CAIRN_CHECK(last->settled);
  const std::vector<ftiff::Container>& before = last->layout->containers;
  const std::size_t common = std::min({hashes.size(), before.size(), last->hashes.size()});
  for (std::size_t i = 0; i < common; ++i) {
    const ftiff::Container& now = layout.containers[i];
    if (now.id == before[i].id && now.index == before[i].index) hashes[i] = last->hashes[i];
  }
  return hashes;
}

}  // namespace cairn
