// The daemon's answers, catalogues and kvtree files as JSON. Field names are those of the messages; what is text in a
// file but not UTF-8 is shown with replacement characters.
#ifndef CAIRN_CLIENT_CLI_JSON_H_
#define CAIRN_CLIENT_CLI_JSON_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "proto/admin.pb.h"
#include "storage/format/kvtree/tree.h"

namespace cairn::cli {

using Json = nlohmann::ordered_json;

// A message by its schema: numbers as numbers, however long; enumerators in lower case; a message that is not there as
// null. In the order of the fields' numbers, all of them, but for what the tables in json.cc say.
Json ToJson(const google::protobuf::Message& message);
Json ToJson(const admin::ShowReply& show);  // the dataset's members, then "ranks"
// Nested objects; a value is a key with an empty object. Keys as kvtree::KeyText has them.
Json ToJson(const kvtree::Tree& tree);

std::string NameOfVerifiedBy(catalogue::VerifiedBy by);  // as in the messages' JSON
std::string NameOfType(std::uint32_t type);              // "double", "int32"; the number if it is none of ours

std::string Dump(const Json& json);  // with a line end

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_JSON_H_
