#include "storage/format/placement/placement.h"

#include <algorithm>
#include <unordered_map>

#include "storage/base/status.h"

namespace cairn::view {
namespace {

using VariableList = google::protobuf::RepeatedPtrField<local::Variable>;

std::unordered_map<std::int32_t, std::size_t> IndexById(const VariableList& variables) {
  std::unordered_map<std::int32_t, std::size_t> index;
  index.reserve(variables.size());
  for (int i = 0; i < variables.size(); ++i) index.emplace(variables[i].id(), i);
  return index;
}

bool IsLoneValue(const local::Variable& variable) {
  return variable.kind() == local::VALUE && variable.count() == 1;
}

// The runs of one variable, as its containers come.
class Runs {
 public:
  Runs(const local::Variable& variable, catalogue::Placement& placement)
      : type_(variable.type()), keeps_bytes_(IsLoneValue(variable)), placement_(placement) {}

  void Add(const ftiff::Container& container, const Bounds& bounds) {
    const std::uint32_t element = std::max<std::uint32_t>(ElementBytesOf(type_), 1);
    const bool whole = container.variable_offset % element == 0 && container.chunk_bytes % element == 0;
    const Bounds its = whole ? bounds : Bounds{};
    if (run_ != nullptr && run_->offset() + run_->bytes() == container.file_offset) {
      run_->set_bytes(run_->bytes() + container.chunk_bytes);
      // A lone value that is cut in two keeps nothing: there is no order to join by.
      bounds_ = keeps_bytes_ ? Bounds{} : Join(type_, bounds_, its);
      return;
    }
    EndRun();
    run_ = placement_.add_run();
    run_->set_offset(container.file_offset);
    run_->set_bytes(container.chunk_bytes);
    bounds_ = its;
  }
  void EndRun() {
    if (run_ == nullptr) return;
    if (std::string min_max = MinMaxOf(type_, bounds_); !min_max.empty()) run_->set_min_max(std::move(min_max));
  }

 private:
  const std::uint32_t type_;
  const bool keeps_bytes_;
  catalogue::Placement& placement_;
  catalogue::Run* run_ = nullptr;
  Bounds bounds_;
};

}  // namespace

std::vector<catalogue::Placement> PlacementOf(const catalogue::Catalogue& catalogue, const ftiff::FileLayout& layout,
                                              std::span<const Bounds> bounds) {
  const auto index = IndexById(catalogue.variables());
  std::vector<std::vector<std::size_t>> containers(catalogue.variables_size());
  for (std::size_t i = 0; i < layout.containers.size(); ++i) {
    const ftiff::Container& container = layout.containers[i];
    const auto variable = index.find(container.id);
    if (variable != index.end() && container.has_content && container.chunk_bytes > 0) {
      containers[variable->second].push_back(i);
    }
  }
  std::vector<catalogue::Placement> placements(catalogue.variables_size());
  for (std::size_t v = 0; v < placements.size(); ++v) {
    const auto offset_of = [&](std::size_t i) { return layout.containers[i].variable_offset; };
    std::ranges::stable_sort(containers[v], {}, offset_of);
    Runs runs(catalogue.variables(static_cast<int>(v)), placements[v]);
    std::uint64_t at = 0;
    for (const std::size_t i : containers[v]) {
      const ftiff::Container& container = layout.containers[i];
      if (container.variable_offset != at) {
        at = ~std::uint64_t{0};
        break;
      }
      runs.Add(container, i < bounds.size() ? bounds[i] : Bounds{});
      at += container.chunk_bytes;
    }
    runs.EndRun();
    if (at == ~std::uint64_t{0}) placements[v].clear_run();
  }
  return placements;
}

std::vector<BoundsScan> ScansFor(const VariableList& variables, const ftiff::FileLayout& layout) {
  const auto index = IndexById(variables);
  std::vector<BoundsScan> scans(layout.containers.size());
  for (std::size_t i = 0; i < scans.size(); ++i) {
    const ftiff::Container& container = layout.containers[i];
    const auto at = index.find(container.id);
    if (at == index.end()) continue;
    const local::Variable& variable = variables[static_cast<int>(at->second)];
    // One that begins within an element knows nothing of its elements.
    if (container.variable_offset % std::max<std::uint32_t>(ElementBytesOf(variable.type()), 1) != 0) continue;
    scans[i] =
        BoundsScan(variable.type(), IsLoneValue(variable) ? BoundsScan::Keep::kElement : BoundsScan::Keep::kBounds);
  }
  return scans;
}

absl::Status CheckPlacement(const catalogue::Catalogue& catalogue) {
  if (catalogue.placement_size() == 0) return absl::OkStatus();
  if (catalogue.placement_size() != catalogue.variables_size()) {
    return DataLoss("placement: {} for {} variables", catalogue.placement_size(), catalogue.variables_size());
  }
  const std::uint64_t file_bytes = catalogue.file_size() == 1 ? catalogue.file(0).bytes() : 0;
  for (int v = 0; v < catalogue.placement_size(); ++v) {
    const local::Variable& variable = catalogue.variables(v);
    const std::size_t min_max_bytes = 2 * std::size_t{ElementBytesOf(variable.type())};
    std::uint64_t bytes = 0;
    for (int r = 0; r < catalogue.placement(v).run_size(); ++r) {
      const catalogue::Run& run = catalogue.placement(v).run(r);
      if (run.offset() > file_bytes || run.bytes() > file_bytes - run.offset() ||
          __builtin_add_overflow(bytes, run.bytes(), &bytes)) {
        return DataLoss("placement[{}].run[{}]: {} bytes at {} leave the file of {}", v, r, run.bytes(), run.offset(),
                        file_bytes);
      }
      if (!run.min_max().empty() && run.min_max().size() != min_max_bytes) {
        return DataLoss("placement[{}].run[{}].min_max: {} bytes, expected {}", v, r, run.min_max().size(),
                        min_max_bytes);
      }
    }
    if (bytes != variable.bytes()) {
      return DataLoss("placement[{}]: runs of {} bytes, variable {} has {}", v, bytes, variable.id(), variable.bytes());
    }
  }
  return absl::OkStatus();
}

}  // namespace cairn::view
