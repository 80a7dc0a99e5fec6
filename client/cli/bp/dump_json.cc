#include <algorithm>
#include <string>

#include "client/cli/bp/dump_output.h"
#include "client/cli/bp/element.h"
#include "client/cli/bp/json_out.h"
#include "client/cli/bp/listing.h"
#include "client/cli/bp/summary.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

// Flat, in row-major order: `count` says how they stand.
absl::Status WriteValues(const DumpTarget& target, const Element& element, const DumpPart& part, TextOut& out,
                         JsonOut& json) {
  json.Key("values").BeginArray(true);
  std::string text;
  const auto covered =
      ReadPart(target.metadata, target.number, part, target.source, 0, [&](auto bytes) -> absl::Status {
        for (std::size_t at = 0; at < bytes.size(); at += element.bytes()) {
          text.clear();
          element.AppendJson(text, bytes.data() + at);
          json.Literal(text);
        }
        if (out.broken()) return Cancelled("nobody reads");
        return absl::OkStatus();
      });
  json.EndArray();
  if (covered.ok() && !part.block) json.Key("complete").Bool(*covered);
  return covered.status();
}

absl::Status WriteArray(const DumpTarget& target, const Element& element, std::uint32_t step, TextOut& out,
                        JsonOut& json) {
  CAIRN_ASSIGN_OR_RETURN(const auto parts, PartsOf(target.metadata, target.number, step, target.selection));
  const bool blocks = target.variable().kind == bp5::Kind::kLocalArray || target.selection.block;
  if (blocks) json.Key("blocks").BeginArray();
  for (const DumpPart& part : parts) {
    if (blocks) json.BeginObject().Key("block").Number(part.block.value_or(0)).Key("writer").Number(part.writer);
    json.Key("shape").Numbers(part.shape);
    json.Key("start").Numbers(part.box.start);
    json.Key("count").Numbers(part.box.count);
    CAIRN_RETURN_IF_ERROR(WriteValues(target, element, part, out, json));
    if (blocks) json.EndObject();
  }
  if (blocks) json.EndArray();
  return absl::OkStatus();
}

absl::Status WriteLocalValue(const DumpTarget& target, std::uint32_t step, JsonOut& json) {
  const Extents shape = {target.metadata.writers(step)};
  CAIRN_ASSIGN_OR_RETURN(const Box box, BoxOf(shape, target.selection));
  CAIRN_ASSIGN_OR_RETURN(const auto values, LocalValues(target, step, box, ScalarJson));
  json.Key("shape").Numbers(shape).Key("start").Numbers(box.start).Key("count").Numbers(box.count);
  json.Key("values").BeginArray(true);
  for (const std::string& value : values) json.Literal(value.empty() ? "null" : value);
  json.EndArray();
  return absl::OkStatus();
}

absl::Status WriteStep(const DumpTarget& target, const Element& element, std::uint32_t step, TextOut& out,
                       JsonOut& json) {
  const bp5::Variable& variable = target.variable();
  const auto relative = std::lower_bound(variable.steps.begin(), variable.steps.end(), step) - variable.steps.begin();
  json.BeginObject().Key("step").Number(step).Key("relative_step").Number(static_cast<std::uint64_t>(relative));
  if (bp5::IsArray(variable.kind)) {
    CAIRN_RETURN_IF_ERROR(WriteArray(target, element, step, out, json));
  } else if (variable.kind == bp5::Kind::kLocalValue) {
    CAIRN_RETURN_IF_ERROR(WriteLocalValue(target, step, json));
  } else {
    CAIRN_ASSIGN_OR_RETURN(const std::uint32_t writer, target.metadata.FirstWriter(target.number, step));
    CAIRN_ASSIGN_OR_RETURN(const std::string value, ScalarJson(target.metadata, target.number, step, writer));
    json.Key("value").Literal(value);
  }
  json.EndObject();
  return absl::OkStatus();
}

}  // namespace

absl::Status DumpAsJson(const DumpTarget& target, TextOut& out) {
  const bp5::Variable& variable = target.variable();
  const Element element(target.metadata, variable);
  JsonOut json(out);
  json.BeginObject();
  json.Key("title").Text(target.title).Key("name").Text(variable.name).Key("type").Text(bp5::NameOf(variable.type));
  json.Key("kind").Text(KindName(variable.kind)).Key("element_bytes").Number(variable.element_bytes);
  json.Key("steps").BeginArray();
  for (const std::uint32_t step : target.steps) {
    CAIRN_RETURN_IF_ERROR(WriteStep(target, element, step, out, json));
    if (out.broken()) return absl::OkStatus();
  }
  json.EndArray().EndObject().Finish();
  return absl::OkStatus();
}

}  // namespace cairn::cli
