#include "client/cli/bp/summary.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <span>

#include "client/cli/bp/value.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

using bp5::Kind;

// A number that is the same everywhere, or differs.
class Common {
 public:
  void See(std::uint64_t number) {
    differs_ |= seen_ && number != number_;
    number_ = number;
    seen_ = true;
  }
  std::string Text() const { return differs_ ? "__" : std::to_string(number_); }

 private:
  bool seen_ = false, differs_ = false;
  std::uint64_t number_ = 0;
};

class CommonShape {
 public:
  template <typename Numbers>
  void See(const Numbers& extents) {
    if (extents_.size() < extents.size()) extents_.resize(extents.size());
    for (std::size_t d = 0; d < extents.size(); ++d) extents_[d].See(extents[d]);
  }
  std::string Text() const {
    std::string text;
    for (const Common& extent : extents_) text += (text.empty() ? "" : ", ") + extent.Text();
    return "{" + text + "}";
  }

 private:
  std::vector<Common> extents_;
};

absl::StatusOr<std::string> ShapeText(const bp5::Metadata& metadata, bp5::VariableNumber number) {
  const bp5::Variable& variable = metadata.variables()[number];
  if (variable.kind == Kind::kGlobalValue) return "scalar";
  CommonShape shape;
  if (variable.kind != Kind::kLocalArray) {
    for (const std::uint32_t step : variable.steps) {
      CAIRN_ASSIGN_OR_RETURN(const Extents extents, metadata.Shape(number, step));
      shape.See(extents);
    }
    return shape.Text();
  }
  Common blocks;
  for (const std::uint32_t step : variable.steps) {
    std::uint64_t count = 0;
    bp5::BlockWalk walk = metadata.Blocks(number, step);
    for (; walk.Next(); ++count) shape.See(walk.block().count);
    CAIRN_RETURN_IF_ERROR(walk.status());
    blocks.See(count);
  }
  return fmt::format("[{}]*{}", blocks.Text(), shape.Text());
}

// A scalar that is there in one step only is shown itself.
absl::StatusOr<std::string> ValueOrBounds(const bp5::Metadata& metadata, bp5::VariableNumber number) {
  const bp5::Variable& variable = metadata.variables()[number];
  if (variable.kind == Kind::kGlobalValue && variable.steps.size() == 1) {
    CAIRN_ASSIGN_OR_RETURN(const std::uint32_t writer, metadata.FirstWriter(number, variable.steps[0]));
    return ScalarText(metadata, number, variable.steps[0], writer);
  }
  CAIRN_ASSIGN_OR_RETURN(const auto bounds, metadata.MinMaxOf(number));
  std::string text = BoundsText(variable.type, bounds);
  if (text.empty() || bounds->blocks_without == 0) return text;
  // Those without statistics may have less, and more.
  const std::size_t steps = variable.steps.size();
  if (bounds->steps_without == 0) return text + "  (not of all blocks)";
  return text + fmt::format("  (of {} of {} steps)", steps - bounds->steps_without, steps);
}

std::string NamesOf(const bp5::Metadata& metadata) {
  constexpr std::size_t kShown = 20;
  std::vector<std::string> names;
  for (const bp5::Variable& variable : metadata.variables()) {
    if (!variable.steps.empty()) names.push_back(variable.name);
  }
  if (names.empty()) return "there are none";
  std::sort(names.begin(), names.end());
  const bool more = names.size() > kShown;
  if (more) names.resize(kShown);
  return fmt::format("there are {}{}", fmt::join(names, ", "), more ? ", …: see `cairn vars`" : "");
}

}  // namespace

Summary Summarize(const bp5::Metadata& metadata, bp5::VariableNumber number) {
  Summary summary{.number = number, .steps_and_shape = "?", .bounds = {}, .status = {}};
  const std::size_t steps = metadata.variables()[number].steps.size();
  const auto shape = ShapeText(metadata, number);
  summary.status = shape.status();
  if (!shape.ok()) return summary;
  summary.steps_and_shape = steps == 1 ? *shape : fmt::format("{}*{}", steps, *shape);
  const auto bounds = ValueOrBounds(metadata, number);
  summary.status = bounds.status();
  if (bounds.ok()) summary.bounds = *bounds;
  return summary;
}

absl::StatusOr<std::string> ScalarText(const bp5::Metadata& metadata, bp5::VariableNumber number, std::uint32_t step,
                                       std::uint32_t writer) {
  const bp5::Type type = metadata.variables()[number].type;
  if (type == bp5::Type::kString) {
    CAIRN_ASSIGN_OR_RETURN(const std::string_view text, metadata.String(number, step, writer));
    return Quoted(text);
  }
  CAIRN_ASSIGN_OR_RETURN(const auto bytes, metadata.Scalar(number, step, writer));
  std::string out;
  AppendExact(out, type, bytes.data());
  return out;
}

absl::StatusOr<std::string> ScalarJson(const bp5::Metadata& metadata, bp5::VariableNumber number, std::uint32_t step,
                                       std::uint32_t writer) {
  const bp5::Type type = metadata.variables()[number].type;
  if (type == bp5::Type::kString) {
    CAIRN_ASSIGN_OR_RETURN(const std::string_view text, metadata.String(number, step, writer));
    return JsonString(text);
  }
  CAIRN_ASSIGN_OR_RETURN(const auto bytes, metadata.Scalar(number, step, writer));
  std::string out;
  AppendJson(out, type, bytes.data());
  return out;
}

std::string BoundsText(bp5::Type type, const std::optional<bp5::MinMax>& bounds) {
  if (!bounds) return "";
  std::string text;
  AppendShort(text, type, bounds->min.data());
  text += " / ";
  AppendShort(text, type, bounds->max.data());
  return text;
}

std::string AttributeText(const bp5::Attribute& attribute) {
  std::string text;
  const auto add = [&](auto append) {
    if (!text.empty()) text += ", ";
    append();
  };
  for (const std::string& value : attribute.strings) add([&] { text += Quoted(value); });
  if (const std::uint32_t bytes = bp5::ElementBytes(attribute.type); bytes > 0) {
    const auto values = std::as_bytes(std::span(attribute.values));
    for (std::size_t at = 0; bytes <= values.size() - at; at += bytes) {
      add([&] { AppendExact(text, attribute.type, values.data() + at); });
    }
  }
  return attribute.single ? text : "{" + text + "}";
}

absl::StatusOr<std::vector<bp5::VariableNumber>> ChooseVariables(const bp5::Metadata& metadata,
                                                                 const std::vector<std::string>& patterns) {
  const auto variables = metadata.variables();
  std::vector<bp5::VariableNumber> chosen;
  std::vector<bool> matched(patterns.size(), false);
  for (bp5::VariableNumber number = 0; number < variables.size(); ++number) {
    if (variables[number].steps.empty()) continue;  // some writer's format has it, but none wrote it
    bool wanted = patterns.empty();
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      const std::string& name = variables[number].name;
      if (patterns[i] != name && fnmatch(patterns[i].c_str(), name.c_str(), 0) != 0) continue;
      wanted = matched[i] = true;
    }
    if (wanted) chosen.push_back(number);
  }
  const auto lost = std::find(matched.begin(), matched.end(), false);
  if (lost != matched.end()) {
    return NotFound("no variable {}; {}", patterns[static_cast<std::size_t>(lost - matched.begin())],
                    NamesOf(metadata));
  }
  std::sort(chosen.begin(), chosen.end(), [&](auto a, auto b) { return variables[a].name < variables[b].name; });
  return chosen;
}

absl::StatusOr<bp5::VariableNumber> FindNamed(const bp5::Metadata& metadata, const std::string& name) {
  const auto number = metadata.FindVariable(name);
  if (number && !metadata.variables()[*number].steps.empty()) return *number;
  return NotFound("no variable {}; {}", name, NamesOf(metadata));
}

}  // namespace cairn::cli
