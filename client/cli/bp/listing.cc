#include "client/cli/bp/listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "client/cli/bp/element.h"
#include "client/cli/bp/summary.h"
#include "client/cli/bp/value.h"
#include "client/cli/text.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

using bp5::Kind;

constexpr std::size_t kNameColumnsMax = 48;  // longer names push their line aside, not all others

std::string WritersText(const bp5::Metadata& metadata) {
  std::uint32_t fewest = ~std::uint32_t{0}, most = 0;
  for (std::uint32_t step = 0; step < metadata.steps(); ++step) {
    fewest = std::min(fewest, metadata.writers(step));
    most = std::max(most, metadata.writers(step));
  }
  if (fewest >= most) return Count(most, "writer");
  return fmt::format("{} to {} writers", fewest, most);
}

// Names to attributes, as they are in the last step.
absl::StatusOr<std::map<std::string, bp5::Attribute>> LastAttributes(const bp5::Metadata& metadata) {
  if (metadata.steps() == 0) return std::map<std::string, bp5::Attribute>();
  return metadata.Attributes(metadata.steps() - 1);
}

std::string Headline(const BpPlace& place, const bp5::Metadata& metadata, std::size_t variables,
                     const absl::StatusOr<std::map<std::string, bp5::Attribute>>& attributes) {
  std::string text = fmt::format("{}: {}", Clean(place.title), Count(metadata.steps(), "step"));
  if (metadata.steps() > 0) text += ", " + WritersText(metadata);
  text += ", " + Count(variables, "variable");
  if (attributes.ok() && !attributes->empty()) text += ", " + Count(attributes->size(), "attribute");
  if (metadata.index_bytes() == 0) return text + ", md.idx has no header yet\n";
  text += metadata.header().active ? ", active (a writer has it open, or died)" : ", closed";
  if (metadata.header().column_major) text += ", column-major (shown with dimensions reversed)";
  if (metadata.header().flatten) text += ", asks to be read as one step";
  return text + "\n";
}

// --- -D ---

// How wide numbers are in each dimension, so that the boxes of a step stand below one another.
struct Widths {
  std::size_t id = 1, writer = 1;
  std::vector<std::size_t> at;
};

absl::StatusOr<Widths> WidthsOf(const bp5::Metadata& metadata, bp5::VariableNumber number, std::uint32_t step) {
  Widths widths;
  bp5::BlockWalk walk = metadata.Blocks(number, step);
  while (walk.Next()) {
    const bp5::Block& block = walk.block();
    widths.id = std::max(widths.id, DigitsOf(block.id));
    widths.writer = std::max(widths.writer, DigitsOf(block.writer));
    widths.at.resize(std::max(widths.at.size(), block.dimensions()), 1);
    for (std::size_t d = 0; d < block.dimensions(); ++d) {
      if (block.count[d] > 0) widths.at[d] = std::max(widths.at[d], DigitsOf(block.StartOf(d) + block.count[d] - 1));
    }
  }
  if (!walk.status().ok()) return walk.status();
  return widths;
}

std::string BoxText(const bp5::Block& block, const Widths& widths) {
  std::string text;
  for (std::size_t d = 0; d < block.dimensions(); ++d) {
    if (d > 0) text += ", ";
    const std::uint64_t start = block.StartOf(d), count = block.count[d];
    if (count == 0) {
      text += fmt::format("{:>{}}", "none", 2 * widths.at[d] + 1);
    } else {
      text += fmt::format("{:>{}}:{:>{}}", start, widths.at[d], start + count - 1, widths.at[d]);
    }
  }
  return "[" + text + "]";
}

std::string BlockText(const bp5::Variable& variable, const bp5::Block& block, const Widths& widths) {
  std::string text = fmt::format("          block {:>{}}: {}", block.id, widths.id, BoxText(block, widths));
  if (block.min != nullptr && block.max != nullptr) {
    text += " = ";
    AppendShort(text, variable.type, block.min);
    text += " / ";
    AppendShort(text, variable.type, block.max);
  }
  text += fmt::format("  (writer {}", block.writer);
  if (block.location == bp5::kNotStored) text += ", not stored";
  if (block.has_operator) text += fmt::format(", processed, {} bytes", block.stored_bytes);
  return text + ")\n";
}

absl::Status WriteBlocks(const bp5::Metadata& metadata, bp5::VariableNumber number, std::uint32_t step, TextOut& out) {
  CAIRN_ASSIGN_OR_RETURN(const Widths widths, WidthsOf(metadata, number, step));
  out.Write("\n");
  bp5::BlockWalk walk = metadata.Blocks(number, step);
  while (walk.Next() && !out.broken()) out.Write(BlockText(metadata.variables()[number], walk.block(), widths));
  return walk.status();
}

// Of a global value, the one that counts and how many there are; of a local value, all by writer.
absl::Status WriteValues(const bp5::Metadata& metadata, bp5::VariableNumber number, std::uint32_t step, TextOut& out) {
  const bool global = metadata.variables()[number].kind == Kind::kGlobalValue;
  std::uint32_t written = 0;
  for (std::uint32_t writer = 0; writer < metadata.writers(step); ++writer) {
    if (metadata.Find(number, step, writer) == nullptr) {
      if (!global) out.Write(" -");
      continue;
    }
    if (global && written++ > 0) continue;
    CAIRN_ASSIGN_OR_RETURN(const std::string value, ScalarText(metadata, number, step, writer));
    out.Write((global ? " = " : " ") + value);
  }
  if (global && written > 1) out.Write(fmt::format("  ({} writers have it)", written));
  out.Write("\n");
  return absl::OkStatus();
}

absl::Status WriteSteps(const bp5::Metadata& metadata, bp5::VariableNumber number, TextOut& out) {
  const bp5::Variable& variable = metadata.variables()[number];
  for (std::size_t relative = 0; relative < variable.steps.size() && !out.broken(); ++relative) {
    const std::uint32_t step = variable.steps[relative];
    out.Write(fmt::format("        step {}{}:", step, step == relative ? "" : fmt::format(" (its {})", relative)));
    const absl::Status written = bp5::IsArray(variable.kind) ? WriteBlocks(metadata, number, step, out)
                                                             : WriteValues(metadata, number, step, out);
    if (!written.ok()) {
      out.Write(" ?\n");
      return written;
    }
  }
  return absl::OkStatus();
}

// --- rows ---

struct ListingRow {
  std::string type, name, rest;
  const Summary* summary = nullptr;  // null: an attribute
};

// As bpls: variables and attributes together, by name.
std::vector<ListingRow> RowsOf(const bp5::Metadata& metadata, const std::vector<Summary>& summaries,
                               const std::map<std::string, bp5::Attribute>& attributes) {
  std::vector<ListingRow> rows;
  for (const Summary& summary : summaries) {
    const bp5::Variable& variable = metadata.variables()[summary.number];
    ListingRow row{.type = Clean(TypeText(Element(metadata, variable), variable)),
                   .name = Clean(variable.name),
                   .rest = summary.steps_and_shape + (summary.bounds.empty() ? "" : " = " + summary.bounds),
                   .summary = &summary};
    if (variable.has_operator) row.rest += "  (processed)";
    if (!variable.expression.empty()) row.rest += "  (derived)";
    rows.push_back(std::move(row));
  }
  for (const auto& [name, attribute] : attributes) {
    rows.push_back({.type = std::string(bp5::NameOf(attribute.type)),
                    .name = Clean(name),
                    .rest = "attr = " + AttributeText(attribute)});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const ListingRow& a, const ListingRow& b) { return a.name < b.name; });
  return rows;
}

std::string Spaces(std::string_view text, std::size_t columns) {
  return std::string(columns - std::min(columns, ColumnsOf(text)), ' ');
}

}  // namespace

absl::Status ListAsText(const BpPlace& place, const bp5::Metadata& metadata, const ListingOptions& options,
                        TextOut& out) {
  CAIRN_ASSIGN_OR_RETURN(const auto chosen, ChooseVariables(metadata, options.patterns));
  const auto attributes = LastAttributes(metadata);
  out.Write(Headline(place, metadata, chosen.size(), attributes));
  absl::Status first = attributes.status();
  std::vector<Summary> summaries;
  for (const bp5::VariableNumber number : chosen) {
    summaries.push_back(Summarize(metadata, number));
    first.Update(summaries.back().status);
  }
  const bool shown = options.attributes && attributes.ok();
  const auto rows = RowsOf(metadata, summaries, shown ? *attributes : std::map<std::string, bp5::Attribute>());
  std::size_t type = 0, name = 0;
  for (const ListingRow& row : rows) {
    type = std::max(type, ColumnsOf(row.type));
    name = std::max(name, std::min(ColumnsOf(row.name), kNameColumnsMax));
  }
  for (const ListingRow& row : rows) {
    if (out.broken()) break;
    out.Write(fmt::format("  {}{}  {}{}  {}\n", row.type, Spaces(row.type, type), row.name, Spaces(row.name, name),
                          row.rest));
    if (options.blocks && row.summary != nullptr) first.Update(WriteSteps(metadata, row.summary->number, out));
  }
  return first;
}

}  // namespace cairn::cli
