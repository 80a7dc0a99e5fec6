#include "daemon/config/drains.h"

#include <algorithm>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "daemon/config/units.h"
#include "storage/base/status.h"
#include "storage/io/io_priority.h"

namespace cairn {
namespace {

constexpr std::uint64_t kSettleMs = 10'000;
constexpr std::uint32_t kParallelMax = 64, kNiceMax = 19;
constexpr std::uint64_t kLookMsMin = 100;

constexpr std::string_view kExplained =
    "\n# Folders that are drained: what any program completes in `from` goes to `to`, verified (cairn drain --help).\n"
    "# One such table for each; %u is the user's name, %h this machine's; can be reloaded\n"
    "# [[drain]]\n"
    "# from = \"/bb/%u\"\n"
    "# to = \"/scratch/%u/drained/%h\"\n"
    "# a file is complete that has not changed for so long, if its writer was not seen closing it; never: age does not "
    "count\n"
    "# settle = \"10s\"\n"
    "# a file that says what is complete: DONE all in and below its folder, *.done the file of that name; then settle "
    "is never\n"
    "# marker = \"\"\n"
    "# what is safe at the target leaves the source\n"
    "# delete_source = false\n"
    "# what was written is read back and compared\n"
    "# check = true\n"
    "# limit; 0: none\n"
    "# bandwidth = \"0\"\n"
    "# files in flight\n"
    "# parallel = 2\n"
    "# of its threads and their transfers, as background.io_priority; nice: 0, as urgent as others, to 19, the last\n"
    "# nice = 19\n"
    "# io_priority = \"best-effort:7\"\n"
    "# all is looked at so often, besides what the kernel tells\n"
    "# look = \"1min\"\n";

bool IsWithin(const std::string& path, const std::string& folder) {
  return path == folder || path.starts_with(folder + "/");
}

absl::Status TakePath(const toml::node& node, std::string* path) {
  const auto* text = node.as_string();
  if (text == nullptr || !text->get().starts_with('/')) return InvalidArgument("expected an absolute path");
  *path = text->get();
  while (path->size() > 1 && path->back() == '/') path->pop_back();
  return absl::OkStatus();
}

absl::Status TakeSwitch(const toml::node& node, bool* value) {
  const auto* given = node.as_boolean();
  if (given == nullptr) return InvalidArgument("expected true|false");
  *value = given->get();
  return absl::OkStatus();
}

absl::Status TakeNumber(const toml::node& node, std::uint32_t min, std::uint32_t max, std::uint32_t* value) {
  const auto* number = node.as_integer();
  if (number == nullptr || number->get() < min || number->get() > max) {
    return InvalidArgument("expected a number in {}..{}", min, max);
  }
  *value = static_cast<std::uint32_t>(number->get());
  return absl::OkStatus();
}

absl::Status TakeDuration(const toml::node& node, std::uint64_t* ms) {
  const auto* text = node.as_string();
  if (text == nullptr) return InvalidArgument("expected a duration such as \"30s\"");
  CAIRN_ASSIGN_OR_RETURN(*ms, ParseDuration(text->get()));
  return absl::OkStatus();
}

absl::Status TakeSettle(const toml::node& node, std::optional<std::uint64_t>* settle) {
  if (const auto* text = node.as_string(); text != nullptr && text->get() == "never") {
    settle->reset();
    return absl::OkStatus();
  }
  std::uint64_t ms = 0;
  CAIRN_RETURN_IF_ERROR(TakeDuration(node, &ms));
  *settle = ms;
  return absl::OkStatus();
}

absl::Status TakeMarker(const toml::node& node, std::string* marker) {
  const auto* text = node.as_string();
  const bool right = text != nullptr && text->get().find('/') == std::string::npos &&
                     text->get().find('*', 1) == std::string::npos && text->get() != "*";
  if (!right) return InvalidArgument("expected a name such as \"DONE\", or a star and an ending such as \"*.done\"");
  *marker = text->get();
  return absl::OkStatus();
}

absl::Status TakeKey(std::string_view key, const toml::node& node, DrainFolder& folder) {
  if (key == "from") return TakePath(node, &folder.from);
  if (key == "to") return TakePath(node, &folder.to);
  if (key == "settle") return TakeSettle(node, &folder.settle_ms);
  if (key == "marker") return TakeMarker(node, &folder.marker);
  if (key == "delete_source") return TakeSwitch(node, &folder.delete_source);
  if (key == "check") return TakeSwitch(node, &folder.check);
  if (key == "bandwidth") {
    const auto* text = node.as_string();
    if (text == nullptr) return InvalidArgument("expected a rate such as \"2 GB/s\"");
    CAIRN_ASSIGN_OR_RETURN(folder.bytes_per_s, ParseRate(text->get()));
    return absl::OkStatus();
  }
  if (key == "parallel") return TakeNumber(node, 1, kParallelMax, &folder.parallel);
  if (key == "nice") return TakeNumber(node, 0, kNiceMax, &folder.nice);
  if (key == "io_priority") {
    const auto* text = node.as_string();
    if (text == nullptr) return InvalidArgument("expected an I/O priority such as \"best-effort:7\"");
    folder.io_priority = text->get();
    return IoPriority::Parse(folder.io_priority).status();
  }
  if (key == "look") {
    CAIRN_RETURN_IF_ERROR(TakeDuration(node, &folder.look_ms));
    return folder.look_ms < kLookMsMin ? InvalidArgument("less than {}", FormatDuration(kLookMsMin)) : absl::OkStatus();
  }
  return InvalidArgument("unknown key");
}

DrainFolder TakeTable(const toml::table& table, std::string_view name, std::vector<std::string>& errors) {
  DrainFolder folder;
  if (!table.contains("settle") && !table.contains("marker")) folder.settle_ms = kSettleMs;
  for (const auto& [key, node] : table) {
    const absl::Status taken = TakeKey(key.str(), node, folder);
    if (taken.ok()) continue;
    errors.push_back(fmt::format("{}:{}: drain.{}: {}", name, key.source().begin.line, key.str(), MessageOf(taken)));
  }
  const auto line = table.source().begin.line;
  if (folder.from.empty() || folder.to.empty()) {
    errors.push_back(fmt::format("{}:{}: drain: needs from and to", name, line));
  } else if (IsWithin(folder.from, folder.to) || IsWithin(folder.to, folder.from)) {
    errors.push_back(
        fmt::format("{}:{}: drain: of {} and {} one lies in the other", name, line, folder.from, folder.to));
  }
  return folder;
}

std::string TomlText(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

void Replace(std::string& text, std::string_view what, std::string_view by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
}

}  // namespace

absl::StatusOr<std::vector<DrainFolder>> ParseDrains(std::string_view name, std::string_view text) {
  const toml::parse_result parsed = toml::parse(text, name);
  if (!parsed) return InvalidArgument("{}: {}", name, parsed.error().description());
  std::vector<DrainFolder> folders;
  std::vector<std::string> errors;
  const toml::node* const drains = parsed.table().get("drain");
  if (drains == nullptr) return folders;
  const toml::array* const tables = drains->as_array();
  if (tables == nullptr) {
    return InvalidArgument("{}:{}: drain: expected tables, each under [[drain]]", name, drains->source().begin.line);
  }
  for (const toml::node& node : *tables) {
    const toml::table* const table = node.as_table();
    if (table == nullptr) {
      errors.push_back(fmt::format("{}:{}: drain: expected a table", name, node.source().begin.line));
      continue;
    }
    DrainFolder folder = TakeTable(*table, name, errors);
    const auto same = [&](const DrainFolder& other) { return !other.from.empty() && other.from == folder.from; };
    if (std::ranges::any_of(folders, same)) {
      errors.push_back(
          fmt::format("{}:{}: drain: {} is drained already", name, table->source().begin.line, folder.from));
    }
    folders.push_back(std::move(folder));
  }
  if (!errors.empty()) return InvalidArgument("{}", fmt::join(errors, "\n"));
  return folders;
}

absl::StatusOr<std::vector<DrainFolder>> Resolved(std::vector<DrainFolder> folders, std::string_view user,
                                                  std::string_view host) {
  for (DrainFolder& folder : folders) {
    for (std::string* const path : {&folder.from, &folder.to}) {
      Replace(*path, "%u", user);
      Replace(*path, "%h", host);
    }
  }
  for (auto folder = folders.begin(); folder != folders.end(); ++folder) {
    const auto same = [&](const DrainFolder& other) { return other.from == folder->from; };
    if (std::any_of(folders.begin(), folder, same)) return InvalidArgument("drain: {} is drained twice", folder->from);
  }
  return folders;
}

std::string PrintDrains(const std::vector<DrainFolder>& folders) {
  std::string text;
  for (const DrainFolder& folder : folders) {
    text += fmt::format("\n[[drain]]\nfrom = {}\nto = {}\nsettle = \"{}\"\nmarker = {}\n", TomlText(folder.from),
                        TomlText(folder.to), folder.settle_ms ? FormatDuration(*folder.settle_ms) : "never",
                        TomlText(folder.marker));
    text += fmt::format("delete_source = {}\ncheck = {}\nbandwidth = \"{}\"\nparallel = {}\n", folder.delete_source,
                        folder.check, FormatRate(folder.bytes_per_s), folder.parallel);
    text += fmt::format("nice = {}\nio_priority = \"{}\"\nlook = \"{}\"\n", folder.nice, folder.io_priority,
                        FormatDuration(folder.look_ms));
  }
  return text;
}

std::string_view DrainsExplained() {
  return kExplained;
}

}  // namespace cairn
