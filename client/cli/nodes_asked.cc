#include "client/cli/nodes_asked.h"

#include <fmt/format.h>

#include <vector>

#include "client/cli/text.h"

namespace cairn::cli {
namespace {

constexpr int kNamesMax = 3;  // more are only counted

std::string StateOf(const admin::NodeAnswer& node) {
  if (node.here()) return "here";
  if (node.missing()) return "missing";
  return node.error().empty() ? "answers" : "silent";
}

}  // namespace

std::string NamesText(const NodeNames& names) {
  if (names.empty()) return "-";
  const int shown = names.size() > kNamesMax ? kNamesMax - 1 : names.size();
  std::string text;
  for (int i = 0; i < shown; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", Clean(names[i]));
  return shown == names.size() ? text : fmt::format("{} and {} more", text, names.size() - shown);
}

std::string DescribeSilent(const NodeAnswers& nodes) {
  std::string text;
  for (const admin::NodeAnswer& node : nodes) {
    if (node.error().empty()) continue;
    text += fmt::format("{} did not answer: {}\n", Clean(node.name()), Clean(node.error()));
  }
  return text;
}

std::string DescribeTotals(const NodeAnswers& nodes) {
  std::vector<std::vector<std::string>> cells = {{"  NODE", "STATE", "RANKS", "DATASETS", "NEWEST", "IN CACHE"}};
  for (const admin::NodeAnswer& node : nodes) {
    cells.push_back({"  " + Clean(node.name()), StateOf(node), std::to_string(node.sessions()),
                     std::to_string(node.datasets()),
                     node.newest_dataset() == 0 ? "-" : std::to_string(node.newest_dataset()), Bytes(node.bytes())});
  }
  return Table(cells, {false, false, true, true, true, true});
}

Json AskedJson(const NodeAnswers& nodes) {
  Json asked = Json::array();
  for (const admin::NodeAnswer& node : nodes) {
    asked.push_back({{"name", node.name()},
                     {"node", node.node()},
                     {"here", node.here()},
                     {"missing", node.missing()},
                     {"error", node.error()}});
  }
  return asked;
}

}  // namespace cairn::cli
