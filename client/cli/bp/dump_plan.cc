#include "client/cli/bp/dump_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <system_error>

#include "client/cli/bp/value.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

constexpr std::uint64_t kSlabBytes = 4 << 20;
constexpr std::uint64_t kElementBytesMax = 64 << 20;
constexpr std::uint64_t kElementsOfRow = 120;  // a multiple of every number of columns that text has

absl::StatusOr<std::int64_t> ParseStep(const std::string& text) {
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || end != text.data() + text.size()) {
    return InvalidArgument("--step {}: a number, negative to count from the last, or all", text);
  }
  return step;
}

// "0, 2 to 5, 9".
std::string StepsText(const std::vector<std::uint32_t>& steps) {
  constexpr std::size_t kRunsShown = 10;
  std::string text;
  std::size_t runs = 0;
  for (std::size_t i = 0; i < steps.size();) {
    std::size_t end = i + 1;
    while (end < steps.size() && steps[end] == steps[end - 1] + 1) ++end;
    if (++runs > kRunsShown) return text + ", …";
    if (!text.empty()) text += ", ";
    text += std::to_string(steps[i]);
    if (end - i > 1) text += fmt::format(" to {}", steps[end - 1]);
    i = end;
  }
  return text;
}

// Of one dimension. kInvalidArgument.
absl::Status Choose(std::uint64_t extent, std::int64_t given_start, const std::int64_t* given_count,
                    std::uint64_t& start, std::uint64_t& count) {
  const auto size = static_cast<std::int64_t>(std::min<std::uint64_t>(extent, INT64_MAX));
  start = static_cast<std::uint64_t>(given_start < 0 ? given_start + size : given_start);
  if ((given_start < 0 && given_start + size < 0) || start > extent) return InvalidArgument("start {}", given_start);
  const std::uint64_t left = extent - start;
  count = left;
  if (given_count == nullptr) return absl::OkStatus();
  if (*given_count < 0) {
    const std::uint64_t less = static_cast<std::uint64_t>(-(*given_count + 1));
    if (less > left) return InvalidArgument("count {}", *given_count);
    count = left - less;
    return absl::OkStatus();
  }
  count = static_cast<std::uint64_t>(*given_count);
  if (count > left) return InvalidArgument("start {} and count {}", start, count);
  return absl::OkStatus();
}

absl::StatusOr<DumpPart> PartOfBlock(const bp5::Block& block, std::uint32_t step, const DumpSelection& selection) {
  DumpPart part{.step = step,
                .block = block.id,
                .writer = block.writer,
                .shape = block.ToBox().count,
                .box = {},
                .walked = block};
  CAIRN_ASSIGN_OR_RETURN(part.box, BoxOf(part.shape, selection));
  return part;
}

// Elements of each slab: whole rows, planes, … of the box, as many as `most` allows. REQUIRES: the box has elements.
std::uint64_t SlabElements(const Box& box, std::uint64_t most) {
  std::uint64_t inner = 1;
  for (std::size_t d = box.dimensions(); d-- > 0;) {
    if (box.count[d] > most / inner) break;
    inner *= box.count[d];
  }
  if (inner > 1) return most / inner * inner;
  return most >= kElementsOfRow ? most / kElementsOfRow * kElementsOfRow : most;
}

}  // namespace

absl::StatusOr<std::vector<std::int64_t>> ParseNumbers(std::string_view option, std::string_view text) {
  std::vector<std::int64_t> numbers;
  for (const char* at = text.data(); !text.empty();) {
    const auto [end, error] = std::from_chars(at, text.data() + text.size(), numbers.emplace_back());
    if (error == std::errc() && end == text.data() + text.size()) return numbers;
    if (error != std::errc() || *end != ',') break;
    at = end + 1;
  }
  if (text.empty()) return numbers;
  return InvalidArgument("{} {}: numbers with commas between, one for each dimension, as 0,10", option, text);
}

absl::StatusOr<std::vector<std::uint32_t>> StepsOf(const bp5::Variable& variable, std::uint32_t steps,
                                                   const DumpSelection& selection) {
  if (variable.steps.empty()) return NotFound("{} was written in no step", variable.name);
  if (selection.step == "all") return variable.steps;
  if (selection.step.empty()) {
    if (!bp5::IsArray(variable.kind)) return variable.steps;
    return std::vector<std::uint32_t>{variable.steps.back()};
  }
  CAIRN_ASSIGN_OR_RETURN(std::int64_t wanted, ParseStep(selection.step));
  // From the end it is always the variable's own steps that count: who says -1 wants its last.
  const bool own = selection.relative || wanted < 0;
  const auto size = static_cast<std::int64_t>(own ? variable.steps.size() : steps);
  const std::int64_t at = wanted < 0 ? wanted + size : wanted;
  if (at < 0 || at >= size) {
    return NotFound("--step {}: there {} {} step{}{}", selection.step, size == 1 ? "is" : "are", size,
                    size == 1 ? "" : "s", own ? " of " + variable.name : "");
  }
  if (own) return std::vector<std::uint32_t>{variable.steps[static_cast<std::size_t>(at)]};
  const auto step = static_cast<std::uint32_t>(at);
  if (!std::binary_search(variable.steps.begin(), variable.steps.end(), step)) {
    return NotFound("{} was not written in step {}; it was in {}", variable.name, step, StepsText(variable.steps));
  }
  return std::vector<std::uint32_t>{step};
}

absl::StatusOr<Box> BoxOf(std::span<const std::uint64_t> shape, const DumpSelection& selection) {
  for (const auto* const given : {&selection.start, &selection.count}) {
    if (!given->empty() && given->size() != shape.size()) {
      return InvalidArgument("{} numbers for an array of {} dimensions, {}", given->size(), shape.size(),
                             Braces(shape));
    }
  }
  Box box{.start = Extents(shape.size()), .count = Extents(shape.size())};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const absl::Status chosen =
        Choose(shape[d], selection.start.empty() ? 0 : selection.start[d],
               selection.count.empty() ? nullptr : &selection.count[d], box.start[d], box.count[d]);
    if (!chosen.ok()) {
      return InvalidArgument("{} in dimension {}: outside of {}", MessageOf(chosen), d, Braces(shape));
    }
  }
  return box;
}

absl::StatusOr<std::vector<DumpPart>> PartsOf(const bp5::Metadata& metadata, bp5::VariableNumber number,
                                              std::uint32_t step, const DumpSelection& selection) {
  const bp5::Variable& variable = metadata.variables()[number];
  std::vector<DumpPart> parts;
  if (variable.kind != bp5::Kind::kLocalArray && !selection.block) {
    CAIRN_ASSIGN_OR_RETURN(const Extents shape, metadata.Shape(number, step));
    CAIRN_ASSIGN_OR_RETURN(Box box, BoxOf(shape, selection));
    parts.push_back({.step = step, .block = {}, .shape = shape, .box = std::move(box), .walked = {}});
    return parts;
  }
  std::uint64_t blocks = 0;
  bp5::BlockWalk walk = metadata.Blocks(number, step);
  for (; walk.Next(); ++blocks) {
    if (selection.block && *selection.block != walk.block().id) continue;
    CAIRN_ASSIGN_OR_RETURN(DumpPart part, PartOfBlock(walk.block(), step, selection));
    parts.push_back(std::move(part));
  }
  CAIRN_RETURN_IF_ERROR(walk.status());
  if (selection.block && parts.empty()) {
    return NotFound("{} has no block {} in step {}: there are {}", variable.name, *selection.block, step, blocks);
  }
  return parts;
}

absl::StatusOr<bool> ReadPart(const bp5::Metadata& metadata, bp5::VariableNumber number, const DumpPart& part,
                              bp5::ByteSource& source, std::uint64_t slab_elements, const VisitSlab& visit) {
  const bp5::Variable& variable = metadata.variables()[number];
  const std::uint64_t bytes = variable.element_bytes;
  const auto elements = Elements(part.box.count);
  if (!elements) return DataLoss("{}: more elements than there can be", variable.name);
  if (*elements == 0) return true;
  if (bytes == 0 || bytes > kElementBytesMax) {
    return FailedPrecondition("{}: elements of {} bytes are not read", variable.name, bytes);
  }
  const std::uint64_t fitting = std::max<std::uint64_t>(kSlabBytes / bytes, 1);
  const std::uint64_t slab = SlabElements(part.box, slab_elements == 0 ? fitting : std::min(fitting, slab_elements));
  std::vector<std::byte> buffer(std::min(slab, *elements) * bytes);
  bool covered = true;
  for (std::uint64_t begin = 0, end = 0; begin < *elements; begin = end) {
    end = begin + std::min(slab, *elements - begin);
    const auto target = std::span(buffer).first((end - begin) * bytes);
    std::fill(target.begin(), target.end(), std::byte{0});
    std::uint64_t done = 0;
    for (const Box& box : RunAsBoxes(part.box, begin, end)) {
      const auto piece = target.subspan(done, *Elements(box.count) * bytes);
      done += piece.size();
      if (part.walked) {
        CAIRN_RETURN_IF_ERROR(bp5::ReadBlock(metadata, number, part.step, *part.walked, box, source, piece));
      } else {
        CAIRN_ASSIGN_OR_RETURN(const bool all, bp5::ReadSelection(metadata, number, part.step, box, source, piece));
        covered &= all;
      }
    }
    CAIRN_RETURN_IF_ERROR(visit(target));
  }
  return covered;
}

}  // namespace cairn::cli
