#include "daemon/config/config.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <limits>
#include <utility>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "daemon/config/config_file.h"
#include "daemon/config/drains.h"
#include "daemon/config/fields.h"
#include "daemon/config/ingest_address.h"
#include "daemon/config/peer_address.h"
#include "daemon/config/shares.h"
#include "daemon/config/tcp_trust.h"
#include "daemon/config/units.h"
#include "storage/base/status.h"
#include "storage/base/transfer_shape.h"
#include "storage/format/catalogue/scheme.h"
#include "storage/io/io_priority.h"

namespace cairn {
namespace {

constexpr std::size_t kSocketPathMax = 107;  // sizeof(sockaddr_un::sun_path) less the zero
constexpr std::string_view kLongestSocketName = "/cairnd-grpc.sock";

std::string UnitOf(const Field& field) {
  switch (field.kind) {
    case FieldKind::kText:
      return "text";
    case FieldKind::kPath:
      return "path";
    case FieldKind::kSize:
      return "size";
    case FieldKind::kRate:
      return "rate";
    case FieldKind::kDuration:
      return "duration";
    case FieldKind::kNumber:
      return "number";
    case FieldKind::kSwitch:
      return "true|false";
    case FieldKind::kChoice:
      return fmt::format("{}|{}", field.no, field.yes);
  }
  return "";
}

// --- text to field ---

absl::StatusOr<std::uint64_t> ParseNumber(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return InvalidArgument("\"{}\" is not a number", text);
  return number;
}

absl::StatusOr<std::uint64_t> ParseInteger(FieldKind kind, std::string_view text) {
  switch (kind) {
    case FieldKind::kSize:
      return ParseSize(text);
    case FieldKind::kRate:
      return ParseRate(text);
    case FieldKind::kDuration:
      return ParseDuration(text);
    default:
      return ParseNumber(text);
  }
}

absl::StatusOr<bool> ParseChoice(std::string_view text, std::string_view no, std::string_view yes) {
  if (text == no || text == yes) return text == yes;
  return InvalidArgument("\"{}\" is neither {} nor {}", text, no, yes);
}

std::string FormatInteger(FieldKind kind, std::uint64_t value) {
  switch (kind) {
    case FieldKind::kSize:
      return FormatSize(value);
    case FieldKind::kRate:
      return FormatRate(value);
    case FieldKind::kDuration:
      return FormatDuration(value);
    default:
      return fmt::format("{}", value);
  }
}

absl::Status SetField(Config& config, const Field& field, std::string_view text) {
  if (auto* place = std::get_if<std::string* (*)(Config&)>(&field.place)) {
    *(*place)(config) = text;
    return absl::OkStatus();
  }
  if (auto* place = std::get_if<bool* (*)(Config&)>(&field.place)) {
    CAIRN_ASSIGN_OR_RETURN(*(*place)(config), ParseChoice(text, field.no, field.yes));
    return absl::OkStatus();
  }
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t value, ParseInteger(field.kind, text));
  auto* narrow = std::get_if<std::uint32_t* (*)(Config&)>(&field.place);
  const std::uint64_t max = narrow ? std::min<std::uint64_t>(field.max, ~std::uint32_t{0}) : field.max;
  if (field.kind == FieldKind::kRate && value != 0 && value < field.min) {
    return InvalidArgument("{} is less than {}; 0: no limit", text, FormatRate(field.min));
  }
  if ((field.kind != FieldKind::kRate && value < field.min) || value > max) {
    return InvalidArgument("{} is not in {}..{}", text, FormatInteger(field.kind, field.min),
                           FormatInteger(field.kind, max));
  }
  if (narrow) {
    *(*narrow)(config) = static_cast<std::uint32_t>(value);
  } else {
    *std::get<std::uint64_t* (*)(Config&)>(field.place)(config) = value;
  }
  return absl::OkStatus();
}

// --- TOML to field ---

bool IsQuantity(FieldKind kind) {
  return kind == FieldKind::kSize || kind == FieldKind::kRate || kind == FieldKind::kDuration;
}

absl::Status SetFromNode(Config& config, const Field& field, const toml::node& node) {
  if (const auto* text = node.as_string();
      text && field.kind != FieldKind::kNumber && field.kind != FieldKind::kSwitch) {
    return SetField(config, field, text->get());
  }
  if (const auto* number = node.as_integer(); number && (field.kind == FieldKind::kNumber || IsQuantity(field.kind))) {
    return SetField(config, field, fmt::format("{}", number->get()));
  }
  if (const auto* value = node.as_boolean(); value && field.kind == FieldKind::kSwitch) {
    return SetField(config, field, value->get() ? "true" : "false");
  }
  const std::string unit = UnitOf(field);
  if (!IsQuantity(field.kind)) return InvalidArgument("expected {}", unit);
  return InvalidArgument("expected a {} such as \"{}\"", unit,
                         field.kind == FieldKind::kDuration ? "30s"
                         : field.kind == FieldKind::kRate   ? "2 GB/s"
                                                            : "64MiB");
}

bool IsSection(std::string_view key) {
  return std::ranges::any_of(Fields(), [&](const Field& field) {
    return field.key.size() > key.size() && field.key.starts_with(key) && field.key[key.size()] == '.';
  });
}

// By its old name: `set` sets the field that it is given. What earlier versions took is taken. The log is not there
// yet: what is said of it waits.
template <typename Set>
absl::Status SetOld(Config& config, const OldName& name, const Set& set) {
  config.warnings.push_back(
      fmt::format("{} is an old name of {}, which counts where both are given", name.old_key, name.key));
  Field field = *FindField(name.key);
  auto* const place = std::get_if<std::uint64_t* (*)(Config&)>(&field.place);
  if (field.kind != FieldKind::kRate || place == nullptr) return set(field);
  const std::uint64_t min = std::exchange(field.min, 0);
  CAIRN_RETURN_IF_ERROR(set(field));
  std::uint64_t& rate = *(*place)(config);
  if (rate == 0 || rate >= min) return absl::OkStatus();
  config.warnings.push_back(fmt::format("{}: {} is raised to {}, the least that is possible", name.old_key,
                                        FormatRate(rate), FormatRate(min)));
  rate = min;
  return absl::OkStatus();
}

// What a file of an earlier version has. Before the others: the new names count.
void LayOld(const toml::table& table, std::string_view file, Config& config, std::vector<std::string>& errors) {
  for (const OldName& name : OldNames()) {
    const toml::node* const node = table.at_path(name.old_key).node();
    if (node == nullptr) continue;
    const absl::Status status =
        SetOld(config, name, [&](const Field& field) { return SetFromNode(config, field, *node); });
    if (status.ok()) continue;
    errors.push_back(fmt::format("{}:{}: {}: {}", file, node->source().begin.line, name.old_key, MessageOf(status)));
  }
}

// Walks a table; what is wrong is added to `errors`, a line each.
void Lay(const toml::table& table, std::string_view name, const std::string& section, Config& config,
         std::vector<std::string>& errors) {
  for (const auto& [toml_key, node] : table) {
    const std::string key = section + std::string(toml_key.str());
    const auto line = toml_key.source().begin.line;
    const auto where = [&] { return fmt::format("{}:{}: {}", name, line, key); };
    const Field* field = FindField(key);
    if (key == "drain") continue;  // ParseDrains
    if (FindOldName(key) != nullptr) continue;
    if (field != nullptr) {
      const absl::Status status = SetFromNode(config, *field, node);
      if (!status.ok()) errors.push_back(fmt::format("{}: {}", where(), MessageOf(status)));
    } else if (node.is_table() && section.empty() && IsSection(key)) {
      Lay(*node.as_table(), name, key + ".", config, errors);
    } else {
      errors.push_back(fmt::format("{}: unknown {}", where(), node.is_table() ? "section" : "key"));
    }
  }
}

// A TOML basic string.
std::string Quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string FormatField(const Field& field, Config& config) {
  if (auto* place = std::get_if<std::string* (*)(Config&)>(&field.place)) return Quote(*(*place)(config));
  if (auto* place = std::get_if<bool* (*)(Config&)>(&field.place)) {
    const bool value = *(*place)(config);
    const std::string word(value ? field.yes : field.no);
    return field.kind == FieldKind::kChoice ? Quote(word) : word;
  }
  auto* narrow = std::get_if<std::uint32_t* (*)(Config&)>(&field.place);
  const std::uint64_t value = narrow ? *(*narrow)(config) : *std::get<std::uint64_t* (*)(Config&)>(field.place)(config);
  const std::string text = FormatInteger(field.kind, value);
  return IsQuantity(field.kind) ? Quote(text) : text;
}

// The three files of TLS in a section: all or none. True: all.
template <typename Section>
absl::StatusOr<bool> HasTlsFiles(std::string_view name, const Section& section) {
  const int files = !section.tls_ca.empty() + !section.tls_cert.empty() + !section.tls_key.empty();
  if (files != 0 && files != 3) {
    return InvalidArgument("{0}.tls_ca, {0}.tls_cert and {0}.tls_key: all three or none", name);
  }
  return files == 3;
}

absl::Status ValidateIngest(const Config::Ingest& ingest) {
  if (ingest.listen.empty()) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(Annotate(ParseIngestAddress(ingest.listen).status(), "ingest.listen"));
  const bool brackets = ingest.name.starts_with('[') && ingest.name.ends_with(']');
  const bool odd = std::ranges::any_of(
      ingest.name, [&](unsigned char c) { return c <= 0x20 || c >= 0x7f || c == '/' || (c == ':' && !brackets); });
  if (odd) return InvalidArgument("ingest.name: \"{}\" is no name or address of a host", ingest.name);
  if (!ingest.announce.empty() && ingest.announce != "~" && !ingest.announce.starts_with('/')) {
    return InvalidArgument("ingest.announce: \"{}\" is neither an absolute path nor ~", ingest.announce);
  }
  CAIRN_ASSIGN_OR_RETURN(const bool tls, HasTlsFiles("ingest", ingest));
  if (tls && ingest.insecure_loopback) {
    return InvalidArgument("ingest.insecure_loopback: contradicts the ingest.tls_* files");
  }
  if (ingest.insecure_loopback && !IsLoopback(ingest.listen)) {
    return InvalidArgument("ingest.insecure_loopback: \"{}\" is not a loopback address", ingest.listen);
  }
  return absl::OkStatus();
}

// What the endpoints must be, the client says.
absl::Status ValidateArbiter(const Config::Arbiter& arbiter) {
  if (arbiter.etcd && arbiter.endpoints.empty()) return InvalidArgument("arbiter.kind: etcd needs arbiter.endpoints");
  return HasTlsFiles("arbiter", arbiter).status();
}

absl::Status ValidatePeers(const Config::Peers& peers) {
  CAIRN_RETURN_IF_ERROR(HasTlsFiles("peers", peers).status());
  CAIRN_RETURN_IF_ERROR(Annotate(ParsePorts(peers.ports).status(), "peers.ports"));
  CAIRN_RETURN_IF_ERROR(Annotate(ParsePeerAddresses(peers.fixed).status(), "peers.explicit"));
  constexpr std::array<std::string_view, 3> kMunge{"auto", "require", "off"};
  if (std::ranges::find(kMunge, peers.munge) == kMunge.end()) {
    return InvalidArgument("peers.munge: \"{}\" is none of {}", peers.munge, fmt::join(kMunge, ", "));
  }
  const std::string_view interface = peers.interface;
  if (std::ranges::any_of(interface, [](unsigned char c) { return c <= 0x20 || c >= 0x7f; })) {
    return InvalidArgument("peers.interface: neither a name of an interface nor an address");
  }
  if (interface.empty() && !peers.fixed.empty()) {
    return InvalidArgument("peers.explicit: needs peers.interface, without which there are no links");
  }
  return absl::OkStatus();
}

absl::Status ValidateRedundancy(const Config& config) {
  const Config::Redundancy& redundancy = config.redundancy;
  const absl::StatusOr<AskedScheme> scheme = ParseScheme(redundancy.scheme);
  if (!scheme.ok()) return InvalidArgument("redundancy.scheme: {}", MessageOf(scheme.status()));
  if (redundancy.scheme == "rs" && redundancy.checksums >= redundancy.members) {
    return InvalidArgument("redundancy.checksums: {} of the {} members of a set (redundancy.members) cannot be lost",
                           redundancy.checksums, redundancy.members);
  }
  if (redundancy.scheme == "folder" && config.redundant.path.empty()) {
    return InvalidArgument("redundancy.scheme: \"folder\" needs redundant.path");
  }
  const std::string_view group = redundancy.group;
  if (group.size() > HOST_NAME_MAX) return InvalidArgument("redundancy.group: longer than {} bytes", HOST_NAME_MAX);
  if (std::ranges::any_of(group, [](unsigned char c) { return c <= 0x20 || c >= 0x7f; })) {
    return InvalidArgument("redundancy.group: a name without spaces and control characters");
  }
  return absl::OkStatus();
}

absl::Status ValidateSupervision(const Config::Supervision& supervisor) {
  const std::string_view cgroup = supervisor.cgroup;
  const bool path = cgroup.starts_with('/') && cgroup.size() > 1 && !cgroup.ends_with('/') &&
                    cgroup.find("/../") == cgroup.npos && !cgroup.ends_with("/..");
  if (cgroup != "auto" && cgroup != "off" && !path) {
    return InvalidArgument("supervisor.cgroup: \"{}\" is none of auto, off, and a group's name such as /cairn", cgroup);
  }
  return Annotate(ParseShares(supervisor.shares_of).status(), "supervisor.shares_of");
}

absl::Status ValidatePath(std::string_view key, std::string_view path) {
  if (!path.empty() && !path.starts_with('/')) return InvalidArgument("{}: \"{}\" is not an absolute path", key, path);
  if (path.find('\0') != path.npos) return InvalidArgument("{}: contains a zero byte", key);
  return absl::OkStatus();
}

absl::Status ValidateNode(std::string_view node) {
  if (node.size() > HOST_NAME_MAX) return InvalidArgument("cache.node: longer than {} bytes", HOST_NAME_MAX);
  const bool has_control = std::ranges::any_of(node, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  return has_control ? InvalidArgument("cache.node: contains a control character") : absl::OkStatus();
}

}  // namespace

absl::StatusOr<Config> ParseConfig(std::string_view name, std::string_view text, const Config& base) {
  const toml::parse_result parsed = toml::parse(text, name);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return InvalidArgument("{}:{}:{}: {}", name, error.source().begin.line, error.source().begin.column,
                           error.description());
  }
  Config config = base;
  std::vector<std::string> errors;
  LayOld(parsed.table(), name, config, errors);
  Lay(parsed.table(), name, "", config, errors);
  if (const auto drains = ParseDrains(name, text); !drains.ok()) errors.emplace_back(MessageOf(drains.status()));
  if (!errors.empty()) return InvalidArgument("{}", fmt::join(errors, "\n"));
  return config;
}

absl::StatusOr<Config> LoadConfigFile(const std::string& path, const Config& base) {
  CAIRN_ASSIGN_OR_RETURN(const std::string text, ReadConfigFile(path));
  return ParseConfig(path, text, base);
}

absl::Status SetConfigField(Config& config, std::string_view key, std::string_view value) {
  if (const OldName* const old = FindOldName(key); old != nullptr) {
    return Annotate(SetOld(config, *old, [&](const Field& field) { return SetField(config, field, value); }), key);
  }
  const Field* field = FindField(key);
  if (field == nullptr) return NotFound("{}: unknown key", key);
  return Annotate(SetField(config, *field, value), key);
}

absl::Status ValidateTransfers(const Config::Cache& cache) {
  for (const auto& [key, bytes] :
       {std::pair{"cache.write_bytes", cache.write_bytes}, std::pair{"cache.read_bytes", cache.read_bytes}}) {
    if (bytes == 0) continue;
    if (bytes <= TransferShape::kBytesMax && TransferShape{.bytes = static_cast<std::uint32_t>(bytes)}.valid())
      continue;
    return InvalidArgument("{}: {} is neither 0 nor a power of two from {} to {}", key, FormatSize(bytes),
                           FormatSize(TransferShape::kBytesMin), FormatSize(TransferShape::kBytesMax));
  }
  return absl::OkStatus();
}

absl::Status ValidateConfig(const Config& config) {
  Config copy = config;
  for (const Field& field : Fields()) {
    if (field.kind != FieldKind::kPath) continue;
    CAIRN_RETURN_IF_ERROR(ValidatePath(field.key, *std::get<std::string* (*)(Config&)>(field.place)(copy)));
  }
  if (config.runtime_dir.size() + kLongestSocketName.size() > kSocketPathMax) {
    return InvalidArgument("runtime_dir: longer than {} bytes, which leaves no room for the sockets' names",
                           kSocketPathMax - kLongestSocketName.size());
  }
  if (config.flush.retry_ms_min > config.flush.retry_ms_max) {
    return InvalidArgument("flush.retry_min ({}) is more than flush.retry_max ({})",
                           FormatDuration(config.flush.retry_ms_min), FormatDuration(config.flush.retry_ms_max));
  }
  CAIRN_RETURN_IF_ERROR(ValidateNode(config.cache.node));
  CAIRN_RETURN_IF_ERROR(ValidateTransfers(config.cache));
  constexpr std::array<std::string_view, 6> kLevels{"trace", "debug", "info", "warn", "error", "off"};
  if (std::ranges::find(kLevels, config.log_level) == kLevels.end()) {
    return InvalidArgument("log_level: \"{}\" is none of {}", config.log_level, fmt::join(kLevels, ", "));
  }
  CAIRN_RETURN_IF_ERROR(ValidateArbiter(config.arbiter));
  CAIRN_RETURN_IF_ERROR(ValidatePeers(config.peers));
  CAIRN_RETURN_IF_ERROR(ValidateRedundancy(config));
  CAIRN_RETURN_IF_ERROR(Annotate(IoPriority::Parse(config.background.io_priority).status(), "background.io_priority"));
  CAIRN_RETURN_IF_ERROR(ValidateSupervision(config.supervisor));
  return ValidateIngest(config.ingest);
}

std::string PrintConfig(const Config& config) {
  Config copy = config;
  std::string text, section;
  for (const Field& field : Fields()) {
    const std::size_t dot = field.key.find('.');
    const std::string_view name = dot == field.key.npos ? field.key : field.key.substr(dot + 1);
    const std::string_view of = dot == field.key.npos ? std::string_view() : field.key.substr(0, dot);
    if (of != section) text += fmt::format("\n[{}]\n", section = of);
    text += fmt::format("# {}\n{} = {}\n", field.help, name, FormatField(field, copy));
  }
  text += DrainsExplained();
  return text;
}

std::vector<ConfigFieldInfo> ConfigFields() {
  Config defaults;
  std::vector<ConfigFieldInfo> infos;
  for (const Field& field : Fields()) {
    infos.push_back({.key = std::string(field.key),
                     .unit = UnitOf(field),
                     .help = std::string(field.help),
                     .value = FormatField(field, defaults)});
  }
  return infos;
}

std::vector<std::string> OldConfigKeys() {
  std::vector<std::string> keys;
  for (const OldName& name : OldNames()) keys.emplace_back(name.old_key);
  return keys;
}

Surroundings Surroundings::OfThisProcess() {
  return {.variable = [](const char* name) -> std::optional<std::string> {
            const char* value = std::getenv(name);
            if (value == nullptr || *value == '\0') return std::nullopt;
            return value;
          },
          .uid = ::geteuid()};
}

void ResolvePaths(Config& config, const Surroundings& surroundings, Serves serves) {
  if (serves == Serves::kAllUsers) {
    if (config.runtime_dir.empty()) config.runtime_dir = "/run/cairn";
    if (config.cache.path.empty()) config.cache.path = "/var/cache/cairn";
    return;
  }
  if (config.ingest.announce == "~") {
    config.ingest.announce = surroundings.variable("HOME").value_or(config.ingest.announce);
  }
  if (config.runtime_dir.empty()) {
    if (const auto runtime = surroundings.variable("XDG_RUNTIME_DIR")) {
      config.runtime_dir = *runtime + "/cairn";
    } else {
      config.runtime_dir = surroundings.uid == 0 ? "/run/cairn" : fmt::format("/tmp/cairn-{}", surroundings.uid);
    }
  }
  if (config.cache.path.empty()) {
    config.cache.path =
        surroundings.variable("CAIRN_CACHE").value_or(fmt::format("/var/tmp/cairn-{}/cache", surroundings.uid));
  }
}

}  // namespace cairn
