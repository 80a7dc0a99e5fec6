#include "client/cli/json.h"

#include <array>

#include "storage/base/ids.h"
#include "storage/format/kvtree/json.h"

namespace cairn::cli {
namespace {

std::string LevelName(local::Level level) {
  return std::string(NameOf(static_cast<Level>(level)));
}

Json ToJson(const admin::FlushStatus& flush) {
  return {{"dataset", flush.dataset()}, {"step", flush.step()},
          {"state", flush.state()},     {"bytes_done", flush.bytes_done()},
          {"bytes", flush.bytes()},     {"bytes_per_s", flush.bytes_per_s()},
          {"error", flush.error()},     {"retry_in_ms", flush.retry_in_ms()}};
}

Json ToJson(const google::protobuf::RepeatedPtrField<admin::GrowingDirectory>& directories) {
  Json rows = Json::array();
  for (const admin::GrowingDirectory& growing : directories) {
    rows.push_back({{"dataset", growing.dataset()},
                    {"name", growing.name()},
                    {"steps_complete", growing.steps_complete()},
                    {"steps_flushed", growing.steps_flushed()},
                    {"bytes", growing.bytes()},
                    {"error", growing.error()}});
  }
  return rows;
}

Json ToJson(const admin::HaltStatus& halt) {
  Json json = {{"why", halt.why()},
               {"reason", halt.reason()},
               {"exit_before_s", halt.exit_before_s()},
               {"exit_after_s", halt.exit_after_s()},
               {"halt_seconds", halt.halt_seconds()},
               {"end_time_s", halt.end_time_s()},
               {"error", halt.error()}};
  json["checkpoints_left"] = halt.counts_checkpoints() ? Json(halt.checkpoints_left()) : Json();
  return json;
}

Json ToJson(const admin::RhythmStatus& rhythm) {
  return {{"checkpoints", rhythm.checkpoints()},     {"cost_us", rhythm.cost_us()},
          {"cost_total_us", rhythm.cost_total_us()}, {"elapsed_ms", rhythm.elapsed_ms()},
          {"interval_ms", rhythm.interval_ms()},     {"nodes", rhythm.nodes()}};
}

Json ToJson(const admin::RunStatus& run) {
  Json flushes = Json::array();
  for (const admin::FlushStatus& flush : run.flushes()) flushes.push_back(ToJson(flush));
  return {{"run", run.run()},
          {"prefix", run.prefix()},
          {"cache_folder", run.cache_folder()},
          {"launch", run.launch()},
          {"nranks", run.nranks()},
          {"sessions", run.sessions()},
          {"newest_step", run.newest_step()},
          {"halt", run.has_halt() ? ToJson(run.halt()) : Json()},
          {"rhythm", run.has_rhythm() ? ToJson(run.rhythm()) : Json()},
          {"flushes", std::move(flushes)},
          {"growing", ToJson(run.growing())}};
}

}  // namespace

Json ToJson(const admin::StatusReply& status) {
  Json runs = Json::array();
  for (const admin::RunStatus& run : status.runs()) runs.push_back(ToJson(run));
  return {{"version", status.version()},
          {"pid", status.pid()},
          {"host", status.host()},
          {"uptime_ms", status.uptime_ms()},
          {"incarnation", status.incarnation()},
          {"quiescing", status.quiescing()},
          {"cache", status.cache()},
          {"cache_bytes_used", status.cache_bytes_used()},
          {"cache_bytes_max", status.cache_bytes_max()},
          {"image_bytes_used", status.image_bytes_used()},
          {"image_bytes_max", status.image_bytes_max()},
          {"runs", std::move(runs)},
          {"warnings", std::vector<std::string>(status.warnings().begin(), status.warnings().end())}};
}

Json ToJson(const admin::DatasetRow& row) {
  return {{"run", row.run()},
          {"prefix", row.prefix()},
          {"dataset", row.dataset()},
          {"launch", row.launch()},
          {"step", row.step()},
          {"nranks", row.nranks()},
          {"checkpoint", row.checkpoint()},
          {"output", row.output()},
          {"files", row.files()},
          {"level", LevelName(row.level())},
          {"state", row.state()},
          {"error", row.error()},
          {"pinned", row.pinned()},
          {"in_cache", row.in_cache()},
          {"in_prefix", row.in_prefix()},
          {"bytes", row.bytes()},
          {"bytes_written", row.bytes_written()},
          {"created_us", row.created_us()},
          {"growing", ToJson(row.growing())}};
}

Json ToJson(const admin::ShowReply& show) {
  Json ranks = Json::array();
  for (const admin::RankRow& rank : show.ranks()) {
    Json variables = Json::array();
    for (const local::Variable& variable : rank.variables()) variables.push_back(ToJson(variable));
    ranks.push_back({{"rank", rank.rank()},
                     {"level", LevelName(rank.level())},
                     {"bytes", rank.bytes()},
                     {"bytes_written", rank.bytes_written()},
                     {"variables", std::move(variables)},
                     {"files", std::vector<std::string>(rank.files().begin(), rank.files().end())}});
  }
  Json json = ToJson(show.dataset());
  json["ranks"] = std::move(ranks);
  return json;
}

Json ToJson(const local::Variable& variable) {
  constexpr std::array<const char*, 3> kKinds = {"plain", "value", "array"};
  const auto numbers = [](const auto& list) { return std::vector<std::uint64_t>(list.begin(), list.end()); };
  const auto kind = static_cast<std::size_t>(variable.kind());
  return {{"id", variable.id()},
          {"kind", kind < kKinds.size() ? kKinds[kind] : "unknown"},
          {"type", NameOfType(variable.type())},
          {"name", variable.name()},
          {"count", variable.count()},
          {"bytes", variable.bytes()},
          {"shape", numbers(variable.shape())},
          {"box_start", numbers(variable.box_start())},
          {"box_count", numbers(variable.box_count())}};
}

Json ToJson(const catalogue::Catalogue& catalogue) {
  Json variables = Json::array();
  for (const local::Variable& variable : catalogue.variables()) variables.push_back(ToJson(variable));
  Json files = Json::array();
  for (const catalogue::FileEntry& file : catalogue.file()) {
    Json entry = {{"name", file.name()},
                  {"prefix_name", file.prefix_name()},
                  {"bytes", file.bytes()},
                  {"crc32c", std::vector<std::uint32_t>(file.crc32c().begin(), file.crc32c().end())},
                  {"mode", file.mode()},
                  {"mtime_s", file.mtime_s()},
                  {"mtime_ns", file.mtime_ns()}};
    if (file.has_crc32()) entry["crc32"] = file.crc32();
    if (file.bytes_written() > 0) entry["bytes_written"] = file.bytes_written();
    files.push_back(std::move(entry));
  }
  return {{"run", catalogue.run()},     {"launch", catalogue.launch()},      {"dataset", catalogue.dataset()},
          {"step", catalogue.step()},   {"rank", catalogue.rank()},          {"nranks", catalogue.nranks()},
          {"files", catalogue.files()}, {"variables", std::move(variables)}, {"file", std::move(files)}};
}

Json ToJson(const kvtree::Tree& tree) {
  Json json = Json::object();
  // Keys are unique as they are: looking for each among those before would take a wide level's width squared.
  Json::object_t::Container& members = json.get_ref<Json::object_t&>();
  for (const auto& [key, child] : tree.elements()) members.emplace_back(kvtree::KeyText(key), ToJson(child));
  return json;
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
