#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "client/cli/bp/dump_output.h"
#include "client/cli/bp/element.h"
#include "client/cli/bp/grid_text.h"
#include "client/cli/bp/summary.h"
#include "client/cli/bp/value.h"
#include "client/cli/text.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

constexpr std::uint64_t kSlabElements = 32 << 10;  // as texts they take a multiple of their bytes

std::string StepText(const DumpTarget& target, std::uint32_t step) {
  const auto& steps = target.variable().steps;
  const auto relative = std::lower_bound(steps.begin(), steps.end(), step) - steps.begin();
  if (relative == step) return fmt::format("step {}", step);
  return fmt::format("step {} (its {})", step, relative);
}

// "[0:6, 4:7] of {7, 11}"; the shape alone if all of it is wanted.
std::string PlaceText(const Extents& shape, const Box& box) {
  if (std::equal(box.count.begin(), box.count.end(), shape.begin(), shape.end())) return Braces(shape);
  std::string text;
  for (std::size_t d = 0; d < box.dimensions(); ++d) {
    if (d > 0) text += ", ";
    text += box.count[d] == 0 ? "none" : fmt::format("{}:{}", box.start[d], box.start[d] + box.count[d] - 1);
  }
  return fmt::format("[{}] of {}", text, Braces(shape));
}

absl::Status WritePart(const DumpTarget& target, const Element& element, const DumpPart& part, TextOut& out) {
  const bp5::Variable& variable = target.variable();
  out.Write(fmt::format("{} {} {}, {}", Clean(TypeText(element, variable)), Clean(variable.name),
                        PlaceText(part.shape, part.box), StepText(target, part.step)));
  if (part.block) out.Write(fmt::format(", block {} (writer {})", *part.block, part.writer));
  out.Write("\n");
  GridText grid(out, part.box);
  std::vector<std::string> items;
  const auto covered =
      ReadPart(target.metadata, target.number, part, target.source, kSlabElements, [&](auto bytes) -> absl::Status {
        items.assign(bytes.size() / element.bytes(), "");
        for (std::size_t i = 0; i < items.size(); ++i) {
          element.AppendExact(items[i], bytes.data() + i * element.bytes());
        }
        grid.Add(items);
        if (out.broken()) return Cancelled("nobody reads");
        return absl::OkStatus();
      });
  if (!covered.ok()) return covered.status();
  if (!*covered) out.Write("(some of these elements are in no block of the step; they are shown as 0)\n");
  return absl::OkStatus();
}

absl::Status WriteLocalValue(const DumpTarget& target, std::uint32_t step, TextOut& out) {
  const bp5::Variable& variable = target.variable();
  const Extents shape = {target.metadata.writers(step)};
  CAIRN_ASSIGN_OR_RETURN(const Box box, BoxOf(shape, target.selection));
  CAIRN_ASSIGN_OR_RETURN(auto values, LocalValues(target, step, box, ScalarText));
  out.Write(fmt::format("{} {} {}, {}, by writer\n", bp5::NameOf(variable.type), Clean(variable.name),
                        PlaceText(shape, box), StepText(target, step)));
  for (std::string& value : values) {
    if (value.empty()) value.push_back('-');
  }
  GridText(out, box).Add(values);
  return absl::OkStatus();
}

absl::Status WriteStep(const DumpTarget& target, const Element& element, std::uint32_t step, TextOut& out) {
  const bp5::Variable& variable = target.variable();
  if (variable.kind == bp5::Kind::kLocalValue) return WriteLocalValue(target, step, out);
  if (variable.kind == bp5::Kind::kGlobalValue) {
    CAIRN_ASSIGN_OR_RETURN(const std::uint32_t writer, target.metadata.FirstWriter(target.number, step));
    CAIRN_ASSIGN_OR_RETURN(const std::string value, ScalarText(target.metadata, target.number, step, writer));
    out.Write(fmt::format("{} {}, {}: {}\n", bp5::NameOf(variable.type), Clean(variable.name), StepText(target, step),
                          value));
    return absl::OkStatus();
  }
  CAIRN_ASSIGN_OR_RETURN(const auto parts, PartsOf(target.metadata, target.number, step, target.selection));
  for (const DumpPart& part : parts) CAIRN_RETURN_IF_ERROR(WritePart(target, element, part, out));
  return absl::OkStatus();
}

}  // namespace

absl::Status DumpAsText(const DumpTarget& target, TextOut& out) {
  const Element element(target.metadata, target.variable());
  for (const std::uint32_t step : target.steps) {
    CAIRN_RETURN_IF_ERROR(WriteStep(target, element, step, out));
    if (out.broken()) break;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> LocalValues(const DumpTarget& target, std::uint32_t step, const Box& box,
                                                     ScalarAs as) {
  std::vector<std::string> values(box.count[0]);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto writer = static_cast<std::uint32_t>(box.start[0] + i);
    if (target.metadata.Find(target.number, step, writer) == nullptr) continue;
    CAIRN_ASSIGN_OR_RETURN(values[i], as(target.metadata, target.number, step, writer));
  }
  return values;
}

}  // namespace cairn::cli
