// The daemon's answers, catalogues and kvtree files as JSON. Field names are those of the messages; what is text in a
// file but not UTF-8 is shown with replacement characters.
#ifndef CAIRN_CLIENT_CLI_JSON_H_
#define CAIRN_CLIENT_CLI_JSON_H_

#include <nlohmann/json.hpp>
#include <string>

#include "proto/admin.pb.h"
#include "proto/catalogue.pb.h"
#include "storage/format/kvtree/tree.h"

namespace cairn::cli {

using Json = nlohmann::ordered_json;

Json ToJson(const admin::StatusReply& status);
Json ToJson(const admin::DatasetRow& row);
Json ToJson(const admin::ShowReply& show);
Json ToJson(const local::Variable& variable);
Json ToJson(const catalogue::Catalogue& catalogue);
// Nested objects; a value is a key with an empty object. Keys as kvtree::KeyText has them.
Json ToJson(const kvtree::Tree& tree);

std::string NameOfType(std::uint32_t type);  // "double", "int32"; the number if it is none of ours

std::string Dump(const Json& json);  // with a line end

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_JSON_H_
