#include "storage/format/view/view.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "storage/base/box.h"
#include "storage/base/status.h"
#include "storage/format/bp5/encode.h"
#include "storage/format/bp5/image.h"
#include "storage/format/placement/placement.h"
#include "storage/format/view/names.h"

namespace cairn::view {
namespace {

using bp5::Kind;
using bp5::Put;
using bp5::PutBlock;
using bp5::Type;

constexpr std::uint64_t kDataAlignment = 16;

std::uint64_t RoundUp(std::uint64_t bytes) {
  return (bytes + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
}

// Are all runs whole elements of a known type?
bool HasElements(const local::Variable& variable, const catalogue::Placement& placement) {
  const std::uint32_t element = ElementBytesOf(variable.type());
  if (element == 0 || variable.bytes() / element != variable.count() || variable.bytes() % element != 0) return false;
  return std::ranges::all_of(placement.run(), [element](const auto& run) { return run.bytes() % element == 0; });
}

// How one variable of one rank is shown.
struct Shown {
  const local::Variable& variable;
  const catalogue::Placement& placement;
  Names::Meaning meaning;
  std::uint32_t element_bytes = 1;
  Extents shape;  // of a global array
  Box box;        // this rank's elements, of arrays and values
};

Shown Show(const local::Variable& variable, const catalogue::Placement& placement) {
  Shown shown{.variable = variable, .placement = placement, .meaning = {.dimensions = 1}, .shape = {}, .box = {}};
  if (!HasElements(variable, placement)) return shown;
  shown.element_bytes = ElementBytesOf(variable.type());
  shown.meaning.type = static_cast<Type>(variable.type());
  if (variable.kind() == local::ARRAY) {
    shown.meaning.kind = Kind::kGlobalArray;
    shown.meaning.dimensions = variable.shape_size();
    shown.shape.assign(variable.shape().begin(), variable.shape().end());
    shown.box.start.assign(variable.box_start().begin(), variable.box_start().end());
    shown.box.count.assign(variable.box_count().begin(), variable.box_count().end());
  } else if (variable.kind() == local::VALUE) {
    const bool lone = variable.count() == 1;
    shown.meaning.value = true;
    shown.meaning.kind = lone ? Kind::kGlobalValue : Kind::kGlobalArray;
    shown.meaning.dimensions = lone ? 0 : 1;
    // A lone character cannot be told from a small number (BP5 specification, section 7).
    if (lone && shown.meaning.type == Type::kChar) shown.meaning.type = Type::kInt8;
    shown.shape = {variable.count()};
    shown.box = {.start = {0}, .count = {variable.count()}};
  }
  return shown;
}

std::string NameOf(const local::Variable& variable) {
  return variable.name().empty() ? fmt::format("var_{}", variable.id()) : variable.name();
}

std::vector<PutBlock> BlocksOf(const Shown& shown) {
  std::vector<PutBlock> blocks;
  blocks.reserve(std::max(shown.placement.run_size(), 1));
  const bool global = shown.meaning.kind == Kind::kGlobalArray;
  const bool typed = shown.variable.type() == static_cast<std::uint32_t>(shown.meaning.type);
  std::uint64_t begin = 0;  // of the run, in elements
  for (const catalogue::Run& run : shown.placement.run()) {
    const std::uint64_t elements = run.bytes() / shown.element_bytes;
    if (elements == 0) continue;
    const std::string& min_max = typed ? run.min_max() : std::string();
    if (!global) {
      blocks.push_back({.box = {.start = {0}, .count = {elements}}, .location = run.offset(), .min_max = min_max});
      continue;
    }
    if (elements == shown.variable.count()) {
      blocks.push_back({.box = shown.box, .location = run.offset(), .min_max = min_max});
      break;
    }
    std::uint64_t location = run.offset();
    for (Box& box : RunAsBoxes(shown.box, begin, begin + elements)) {
      const std::uint64_t its_elements = *Elements(box.count);  // at most those of the run
      blocks.push_back({.box = std::move(box), .location = location, .min_max = min_max});
      location += its_elements * shown.element_bytes;
    }
    begin += elements;
  }
  // An empty one, so that the variable is seen.
  if (blocks.empty()) blocks.push_back({global ? shown.box : Box{.start = {0}, .count = {0}}, 0, {}});
  return blocks;
}

Put PutOf(const Shown& shown, std::string name) {
  Put put;
  put.name = std::move(name);
  put.kind = shown.meaning.kind;
  put.type = shown.meaning.type;
  if (put.kind == Kind::kGlobalValue) {
    put.value = shown.placement.run(0).min_max().substr(0, shown.element_bytes);
    return put;
  }
  if (put.kind == Kind::kGlobalArray) put.shape = shown.shape;
  put.blocks = BlocksOf(shown);
  return put;
}

// What one rank puts. REQUIRES: the catalogue is checked.
std::vector<Put> PutsOf(const catalogue::Catalogue& catalogue, Names& names) {
  std::vector<Put> puts;
  puts.reserve(catalogue.variables_size());
  for (int v = 0; v < catalogue.variables_size(); ++v) {
    const Shown shown = Show(catalogue.variables(v), catalogue.placement(v));
    std::optional<std::string> name =
        names.Take(catalogue.rank(), NameOf(shown.variable), shown.variable.id(), shown.meaning, shown.shape);
    if (name) puts.push_back(PutOf(shown, *std::move(name)));
  }
  return puts;
}

bool ShowsElements(const Put& put) {
  return !bp5::IsArray(put.kind) ||
         std::ranges::any_of(put.blocks, [](const PutBlock& block) { return !Empty(block.box); });
}

// ADIOS2's tools take the bounds of an empty block, which has none, for elements of the array. So empty ones are left
// out; of an array that has no others in the step the first stays, so that it is seen.
void LeaveEmptyOut(std::vector<std::vector<Put>>& puts_of) {
  const auto all_have = [](const std::vector<Put>& puts) { return std::ranges::all_of(puts, ShowsElements); };
  if (std::ranges::all_of(puts_of, all_have)) return;
  std::unordered_set<std::string> seen;
  for (const std::vector<Put>& puts : puts_of) {
    for (const Put& put : puts) {
      if (ShowsElements(put)) seen.insert(put.name);
    }
  }
  for (std::vector<Put>& puts : puts_of) {
    std::erase_if(puts, [&seen](const Put& put) { return !ShowsElements(put) && !seen.insert(put.name).second; });
  }
}

// Behind the last byte that a block shows.
std::uint64_t EndOfData(const catalogue::Catalogue& catalogue) {
  std::uint64_t end = 0;
  for (const catalogue::Placement& placement : catalogue.placement()) {
    for (const catalogue::Run& run : placement.run()) end = std::max(end, run.offset() + run.bytes());
  }
  return end;
}

bp5::Attribute NumberAttribute(std::string name, std::uint64_t number) {
  return {.name = std::move(name),
          .type = Type::kUint64,
          .single = true,
          .values = std::string(reinterpret_cast<const char*>(&number), sizeof number),
          .strings = {}};
}

std::vector<bp5::Attribute> AttributesOf(const catalogue::Catalogue& catalogue) {
  return {{.name = "cairn/run", .type = Type::kString, .single = true, .values = {}, .strings = {catalogue.run()}},
          NumberAttribute("cairn/dataset", catalogue.dataset()),
          NumberAttribute("cairn/step", catalogue.step()),
          NumberAttribute("cairn/launch", catalogue.launch())};
}

absl::Status CheckRank(const catalogue::Catalogue& catalogue, const catalogue::Catalogue& first, std::size_t rank,
                       std::size_t ranks) {
  if (catalogue.rank() != rank || catalogue.nranks() != ranks || catalogue.dataset() != first.dataset() ||
      catalogue.run() != first.run()) {
    return InvalidArgument("catalogue {} is of dataset {}, rank {} of {}; expected dataset {}, rank {} of {}", rank,
                           catalogue.dataset(), catalogue.rank(), catalogue.nranks(), first.dataset(), rank, ranks);
  }
  if (catalogue.files()) {
    return InvalidArgument("dataset {} is of the application's own files: there is nothing to show", first.dataset());
  }
  if (catalogue.placement_size() == 0 && catalogue.variables_size() > 0) {
    return FailedPrecondition("dataset {}, rank {}: the catalogue does not say where variables are", first.dataset(),
                              rank);
  }
  const absl::Status placed = CheckPlacement(catalogue);
  if (!placed.ok()) return Annotate(placed, fmt::format("dataset {}, rank {}", first.dataset(), rank));
  for (int v = 0; v < catalogue.variables_size(); ++v) {
    const Shown shown = Show(catalogue.variables(v), catalogue.placement(v));
    if (shown.meaning.kind == Kind::kGlobalValue && shown.placement.run(0).min_max().empty()) {
      return FailedPrecondition("dataset {}, rank {}: the catalogue does not have value \"{}\"", first.dataset(), rank,
                                shown.variable.name());
    }
    if (shown.meaning.kind == Kind::kGlobalArray) {
      const std::optional<std::uint64_t> elements = Elements(shown.box.count);
      if (elements != shown.variable.count() || !Inside(shown.box, {Extents(shown.shape.size(), 0), shown.shape})) {
        return DataLoss("dataset {}, rank {}: the box of \"{}\" does not fit its {} elements or its shape",
                        first.dataset(), rank, shown.variable.name(), shown.variable.count());
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Check(std::span<const catalogue::Catalogue> catalogues) {
  if (catalogues.empty()) return InvalidArgument("no catalogues");
  for (std::size_t rank = 0; rank < catalogues.size(); ++rank) {
    CAIRN_RETURN_IF_ERROR(CheckRank(catalogues[rank], catalogues[0], rank, catalogues.size()));
  }
  return absl::OkStatus();
}

}  // namespace

struct Steps::Impl {
  std::string to_prefix;
  Names names;
  std::vector<bp5::WriterEncoder> encoders;  // by rank
  bpdir::Image image{bp5::IndexOptions{}};
  std::vector<Link> links;
  std::uint32_t steps = 0;
  std::uint32_t subfiles = 0;

  absl::Status Add(std::span<const catalogue::Catalogue> catalogues);
};

absl::Status Steps::Impl::Add(std::span<const catalogue::Catalogue> catalogues) {
  CAIRN_RETURN_IF_ERROR(Check(catalogues));
  if (catalogues.size() > std::numeric_limits<std::uint32_t>::max() - subfiles) {
    return InvalidArgument("dataset {}: too many ranks on top of {} subfiles", catalogues[0].dataset(), subfiles);
  }
  names.BeginStep();
  while (encoders.size() < catalogues.size()) encoders.emplace_back();
  std::vector<bp5::EncodedStep> writers;
  std::vector<std::uint32_t> subfile_of;
  std::vector<Link> its_links;
  writers.reserve(catalogues.size());
  subfile_of.reserve(catalogues.size());
  std::vector<std::vector<Put>> puts_of;
  puts_of.reserve(catalogues.size());
  for (const catalogue::Catalogue& catalogue : catalogues) puts_of.push_back(PutsOf(catalogue, names));
  LeaveEmptyOut(puts_of);
  for (const catalogue::Catalogue& catalogue : catalogues) {
    const std::vector<bp5::Attribute> attributes =
        catalogue.rank() == 0 ? AttributesOf(catalogue) : std::vector<bp5::Attribute>();
    auto encoded =
        encoders[catalogue.rank()].Encode(puts_of[catalogue.rank()], RoundUp(EndOfData(catalogue)), attributes);
    if (!encoded.ok()) {
      return Annotate(encoded.status(), fmt::format("dataset {}, rank {}", catalogue.dataset(), catalogue.rank()));
    }
    writers.push_back(*std::move(encoded));
    const std::uint32_t subfile = subfiles + catalogue.rank();
    subfile_of.push_back(subfile);
    for (const catalogue::FileEntry& file : catalogue.file()) {
      its_links.push_back({fmt::format("data.{}", subfile), to_prefix + "/" + file.prefix_name()});
    }
  }
  image.Append(writers, std::vector<bp5::WriterData>(writers.size()), subfile_of, /*new_map=*/true);
  std::ranges::move(its_links, std::back_inserter(links));
  subfiles += static_cast<std::uint32_t>(catalogues.size());
  ++steps;
  return absl::OkStatus();
}

Steps::Steps(std::string to_prefix) : impl_(std::make_unique<Impl>()) {
  impl_->to_prefix = std::move(to_prefix);
}
Steps::~Steps() = default;
Steps::Steps(Steps&&) noexcept = default;

absl::Status Steps::Add(std::span<const catalogue::Catalogue> catalogues) {
  return impl_->Add(catalogues);
}

std::uint32_t Steps::size() const {
  return impl_->steps;
}

ViewFiles Steps::Files() const {
  return {.index = impl_->image.index(),
          .metadata = impl_->image.metadata(),
          .formats = impl_->image.formats(),
          .links = impl_->links};
}

absl::StatusOr<ViewFiles> BuildView(std::span<const catalogue::Catalogue> catalogues) {
  Steps steps("..");
  CAIRN_RETURN_IF_ERROR(steps.Add(catalogues));
  return steps.Files();
}

}  // namespace cairn::view
