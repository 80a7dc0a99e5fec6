#include <map>
#include <optional>
#include <span>

#include "client/cli/bp/element.h"
#include "client/cli/bp/json_out.h"
#include "client/cli/bp/listing.h"
#include "client/cli/bp/summary.h"
#include "client/cli/bp/value.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

using bp5::Kind;

std::string ValueJson(bp5::Type type, const std::byte* at) {
  std::string text;
  AppendJson(text, type, at);
  return text;
}

void WriteBounds(bp5::Type type, const absl::StatusOr<std::optional<bp5::MinMax>>& bounds, JsonOut& json,
                 absl::Status& first) {
  first.Update(bounds.status());
  if (!bounds.ok() || !bounds->has_value()) return;
  json.Key("min").Literal(ValueJson(type, (*bounds)->min.data()));
  json.Key("max").Literal(ValueJson(type, (*bounds)->max.data()));
  if ((*bounds)->blocks_without > 0) json.Key("bounds_partial").Bool(true);
}

void WriteBlock(const bp5::Variable& variable, const bp5::Block& block, JsonOut& json) {
  json.BeginObject(true);
  json.Key("block").Number(block.id);
  json.Key("writer").Number(block.writer);
  const Box box = block.ToBox();
  if (variable.kind != Kind::kLocalArray) json.Key("start").Numbers(box.start);
  json.Key("count").Numbers(box.count);
  if (block.min != nullptr && block.max != nullptr) {
    json.Key("min").Literal(ValueJson(variable.type, block.min));
    json.Key("max").Literal(ValueJson(variable.type, block.max));
  }
  if (block.location == bp5::kNotStored) {
    json.Key("stored").Bool(false);
  } else {
    json.Key("location").Number(block.location);
  }
  if (block.has_operator) json.Key("stored_bytes").Number(block.stored_bytes);
  json.EndObject();
}

void WriteArrayStep(const bp5::Metadata& metadata, bp5::VariableNumber number, std::uint32_t step, JsonOut& json,
                    absl::Status& first) {
  const bp5::Variable& variable = metadata.variables()[number];
  if (variable.kind != Kind::kLocalArray) {
    const auto shape = metadata.Shape(number, step);
    first.Update(shape.status());
    if (shape.ok()) json.Key("shape").Numbers(*shape);
  }
  WriteBounds(variable.type, metadata.MinMaxOf(number, step), json, first);
  json.Key("blocks").BeginArray();
  bp5::BlockWalk walk = metadata.Blocks(number, step);
  while (walk.Next()) WriteBlock(variable, walk.block(), json);
  first.Update(walk.status());
  json.EndArray();
}

// By writer, null where there is none; of a global value also the one that counts.
void WriteScalarStep(const bp5::Metadata& metadata, bp5::VariableNumber number, std::uint32_t step, JsonOut& json,
                     absl::Status& first) {
  const std::uint32_t writers = metadata.writers(step);
  if (metadata.variables()[number].kind == Kind::kLocalValue) {
    json.Key("shape").Numbers(std::vector<std::uint64_t>{writers});
  } else if (const auto writer = metadata.FirstWriter(number, step); writer.ok()) {
    const auto value = ScalarJson(metadata, number, step, *writer);
    first.Update(value.status());
    if (value.ok()) json.Key("value").Literal(*value);
  }
  json.Key("values").BeginArray(true);
  for (std::uint32_t writer = 0; writer < writers; ++writer) {
    if (metadata.Find(number, step, writer) == nullptr) {
      json.Literal("null");
      continue;
    }
    const auto value = ScalarJson(metadata, number, step, writer);
    first.Update(value.status());
    json.Literal(value.ok() ? *value : "null");
  }
  json.EndArray();
}

void WriteStruct(const Element& element, JsonOut& json) {
  if (element.struct_name().empty()) return;
  json.Key("struct").BeginObject();
  json.Key("name").Text(element.struct_name());
  json.Key("fields").BeginArray();
  for (const ElementField& field : element.fields()) {
    json.BeginObject(true).Key("name").Text(field.name).Key("type").Text(bp5::NameOf(field.type));
    json.Key("count").Number(field.count).Key("offset").Number(field.offset).EndObject();
  }
  json.EndArray().EndObject();
}

void WriteVariable(const bp5::Metadata& metadata, bp5::VariableNumber number, JsonOut& json, absl::Status& first) {
  const bp5::Variable& variable = metadata.variables()[number];
  json.BeginObject();
  json.Key("name").Text(variable.name);
  json.Key("type").Text(bp5::NameOf(variable.type));
  json.Key("kind").Text(KindName(variable.kind));
  json.Key("element_bytes").Number(variable.element_bytes);
  WriteStruct(Element(metadata, variable), json);
  if (variable.has_operator) json.Key("operator").Bool(true);
  if (!variable.expression.empty()) json.Key("expression").Text(variable.expression);
  json.Key("absolute_steps").BeginArray(true);
  for (const std::uint32_t step : variable.steps) json.Number(step);
  json.EndArray();
  WriteBounds(variable.type, metadata.MinMaxOf(number), json, first);
  json.Key("steps").BeginArray();
  for (std::size_t relative = 0; relative < variable.steps.size(); ++relative) {
    const std::uint32_t step = variable.steps[relative];
    json.BeginObject().Key("step").Number(step).Key("relative_step").Number(relative);
    const auto write = bp5::IsArray(variable.kind) ? WriteArrayStep : WriteScalarStep;
    write(metadata, number, step, json, first);
    json.EndObject();
  }
  json.EndArray().EndObject();
}

void WriteAttribute(const std::string& name, const bp5::Attribute& attribute, JsonOut& json) {
  json.BeginObject(true);
  json.Key("name").Text(name).Key("type").Text(bp5::NameOf(attribute.type)).Key("single").Bool(attribute.single);
  json.Key("values").BeginArray();
  for (const std::string& value : attribute.strings) json.Text(value);
  if (const std::uint32_t bytes = bp5::ElementBytes(attribute.type); bytes > 0) {
    const auto values = std::as_bytes(std::span(attribute.values));
    for (std::size_t at = 0; bytes <= values.size() - at; at += bytes) {
      json.Literal(ValueJson(attribute.type, values.data() + at));
    }
  }
  json.EndArray().EndObject();
}

void WriteHead(const BpPlace& place, const bp5::Metadata& metadata, JsonOut& json) {
  const bp5::Metadata::Header& header = metadata.header();
  json.Key("title").Text(place.title);
  if (!place.path.empty()) json.Key("path").Text(place.path);
  if (place.dataset) json.Key("prefix").Text(place.prefix).Key("dataset").Number(*place.dataset);
  json.Key("header").Text(header.text);
  json.Key("id").Number(header.id);
  json.Key("active").Bool(header.active);
  json.Key("column_major").Bool(header.column_major);
  json.Key("flatten").Bool(header.flatten);
  json.Key("notes").BeginArray();
  for (const std::string& note : place.notes) json.Text(note);
  json.EndArray();
  json.Key("steps").Number(metadata.steps());
  json.Key("writers_per_step").BeginArray(true);
  for (std::uint32_t step = 0; step < metadata.steps(); ++step) json.Number(metadata.writers(step));
  json.EndArray();
  json.Key("flushes_per_step").BeginArray(true);
  for (std::uint32_t step = 0; step < metadata.steps(); ++step) json.Number(metadata.flushes(step));
  json.EndArray();
}

}  // namespace

std::string KindName(bp5::Kind kind) {
  switch (kind) {
    case Kind::kGlobalValue:
      return "global_value";
    case Kind::kLocalValue:
      return "local_value";
    case Kind::kGlobalArray:
      return "global_array";
    case Kind::kLocalArray:
      return "local_array";
    case Kind::kJoinedArray:
      return "joined_array";
  }
  return "unknown";
}

absl::Status ListAsJson(const BpPlace& place, const bp5::Metadata& metadata, const ListingOptions& options,
                        TextOut& out) {
  CAIRN_ASSIGN_OR_RETURN(const auto chosen, ChooseVariables(metadata, options.patterns));
  absl::Status first;
  JsonOut json(out);
  json.BeginObject();
  WriteHead(place, metadata, json);
  json.Key("variables").BeginArray();
  for (const bp5::VariableNumber number : chosen) {
    if (!out.broken()) WriteVariable(metadata, number, json, first);
  }
  json.EndArray();
  json.Key("attributes").BeginArray();
  if (metadata.steps() > 0) {
    const auto attributes = metadata.Attributes(metadata.steps() - 1);
    first.Update(attributes.status());
    if (attributes.ok()) {
      for (const auto& [name, attribute] : *attributes) WriteAttribute(name, attribute, json);
    }
  }
  json.EndArray().EndObject().Finish();
  return first;
}

}  // namespace cairn::cli
