#include "client/cli/json.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/format/catalogue/scheme.h"
#include "storage/format/kvtree/json.h"

namespace cairn::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Not shown.
constexpr auto kLeftOut = std::to_array<std::string_view>({
    "cairn.admin.HaltStatus.counts_checkpoints",
    "cairn.admin.RankRow.in_cache",
    "cairn.admin.RunStatus.at_work",
    "cairn.admin.RunStatus.only_here",
    "cairn.admin.ShowReply.asked_checksums",
    "cairn.admin.ShowReply.asked_members",
    "cairn.admin.ShowReply.dataset",
    "cairn.admin.ShowReply.nodes",
    "cairn.admin.ShowReply.not_redundant",
    "cairn.catalogue.Catalogue.placement",
    "cairn.catalogue.Catalogue.scheme_checksums",
    "cairn.catalogue.Catalogue.scheme_members",
    "cairn.catalogue.FileEntry.atime_ns",
    "cairn.catalogue.FileEntry.atime_s",
    "cairn.catalogue.FileEntry.has_crc32",
    "cairn.catalogue.FileEntry.inode",
    "cairn.catalogue.FileEntry.original",
    "cairn.local.Variable.holes",
    "cairn.local.Variable.memory",
});
// Shown elsewhere than by their numbers: where among those of the others.
constexpr auto kMoved = std::to_array<std::pair<std::string_view, double>>({
    {"cairn.admin.DatasetRow.bytes_written", 16.5},
    {"cairn.admin.DatasetRow.in_folder", 14.5},
    {"cairn.admin.GrowingDirectory.dataset", 0.5},
    {"cairn.admin.HaltStatus.checkpoints_left", 9.5},
    {"cairn.admin.RankRow.bytes_written", 3.5},
    {"cairn.admin.RunStatus.flushes", 10.5},
    {"cairn.admin.ShowReply.asked_scheme", 1.5},
    {"cairn.catalogue.Catalogue.scheme", 7.5},
    {"cairn.catalogue.FileEntry.crc32", 9.5},
});

double PlaceOf(const FieldDescriptor* field) {
  const auto moved = std::ranges::find(kMoved, field->full_name(), &std::pair<std::string_view, double>::first);
  return moved == kMoved.end() ? field->number() : moved->second;
}

// Without one nothing is shown.
void MendScheme(const AskedScheme& scheme, const std::string& member, Json& json) {
  json[member] = TextOfScheme(scheme);
  if (TextOfScheme(scheme).empty()) json.erase(member);
}

// What is another value than the schema says, or none.
void Mend(const Message& message, Json& json) {
  if (const auto* const variable = dynamic_cast<const local::Variable*>(&message)) {
    json["type"] = NameOfType(variable->type());
  } else if (const auto* const halt = dynamic_cast<const admin::HaltStatus*>(&message)) {
    if (!halt->counts_checkpoints()) json["checkpoints_left"] = nullptr;
  } else if (const auto* const file = dynamic_cast<const catalogue::FileEntry*>(&message)) {
    if (!file->has_crc32()) json.erase("crc32");
    if (file->bytes_written() == 0) json.erase("bytes_written");
    if (file->verified_by() == catalogue::NOT_NOTED) json.erase("verified_by");
  } else if (const auto* const rank = dynamic_cast<const admin::RankRow*>(&message)) {
    if (rank->verified_by().empty()) json.erase("verified_by");
    if (rank->nodes().empty()) json.erase("nodes");
    if (!rank->has_set()) json.erase("set");
  } else if (const auto* const row = dynamic_cast<const admin::DatasetRow*>(&message)) {
    if (row->nodes().empty()) json.erase("nodes");
    if (!row->in_folder()) json.erase("in_folder");
  } else if (const auto* const show = dynamic_cast<const admin::ShowReply*>(&message)) {
    MendScheme(AskedShown(*show), "asked_scheme", json);
  } else if (const auto* const catalogue = dynamic_cast<const catalogue::Catalogue*>(&message)) {
    MendScheme(AskedIn(*catalogue), "scheme", json);
  } else if (const auto* const run = dynamic_cast<const admin::RunStatus*>(&message)) {
    if (run->nodes().empty()) json.erase("nodes");
  }
}

std::string NameOfEnumerator(const google::protobuf::EnumDescriptor& type, int number) {
  const auto* const value = type.FindValueByNumber(number);
  std::string name = value == nullptr ? "unknown" : value->name();
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

// The field, or if it is repeated the item `index` of it.
Json ItemOf(const Message& message, const FieldDescriptor& field, int index) {
  using google::protobuf::Reflection;
  const auto get = [&, &reflection = *message.GetReflection()](auto single, auto repeated) -> decltype(auto) {
    return field.is_repeated() ? (reflection.*repeated)(message, &field, index) : (reflection.*single)(message, &field);
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return get(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64);
    case FieldDescriptor::CPPTYPE_BOOL:
      return get(&Reflection::GetBool, &Reflection::GetRepeatedBool);
    case FieldDescriptor::CPPTYPE_STRING:
      return get(&Reflection::GetString, &Reflection::GetRepeatedString);
    case FieldDescriptor::CPPTYPE_ENUM:
      return NameOfEnumerator(*field.enum_type(), get(&Reflection::GetEnumValue, &Reflection::GetRepeatedEnumValue));
    default:  // no message has real numbers
      if (!field.is_repeated() && !message.GetReflection()->HasField(message, &field)) return nullptr;
      return ToJson(field.is_repeated() ? message.GetReflection()->GetRepeatedMessage(message, &field, index)
                                        : message.GetReflection()->GetMessage(message, &field));
  }
}

Json ValueOf(const Message& message, const FieldDescriptor& field) {
  if (!field.is_repeated()) return ItemOf(message, field, 0);
  Json items = Json::array();
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
    items.push_back(ItemOf(message, field, i));
  }
  return items;
}

Json MembersOf(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = message.GetDescriptor()->field(i);
    if (std::ranges::find(kLeftOut, field->full_name()) == kLeftOut.end()) fields.push_back(field);
  }
  std::ranges::sort(fields, {}, PlaceOf);
  Json json = Json::object();
  for (const FieldDescriptor* const field : fields) json[field->name()] = ValueOf(message, *field);
  Mend(message, json);
  return json;
}

}  // namespace

Json ToJson(const Message& message) {
  return MembersOf(message);
}

Json ToJson(const admin::ShowReply& show) {
  Json json = ToJson(show.dataset());
  json.update(MembersOf(show));
  return json;
}

Json ToJson(const kvtree::Tree& tree) {
  Json json = Json::object();
  // Keys are unique as they are: looking for each among those before would take a wide level's width squared.
  Json::object_t::Container& members = json.get_ref<Json::object_t&>();
  for (const auto& [key, child] : tree.elements()) members.emplace_back(kvtree::KeyText(key), ToJson(child));
  return json;
}

std::string NameOfVerifiedBy(catalogue::VerifiedBy by) {
  return NameOfEnumerator(*catalogue::VerifiedBy_descriptor(), by);
}

std::string NameOfType(std::uint32_t type) {
  // The type codes of BP5 (client/cairn.h).
  constexpr std::array<const char*, 16> kNames = {
      "unknown", "int8",  "int16",  "int32",       "int64",         "uint8",          "uint16", "uint32",
      "uint64",  "float", "double", "long double", "complex float", "complex double", "",       "char"};
  return type < kNames.size() && *kNames[type] != '\0' ? kNames[type] : std::to_string(type);
}

std::string Dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cairn::cli
