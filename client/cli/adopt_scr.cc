// `cairn adopt --scr`: from SCR's cache into a run.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "client/cli/adopt_kinds.h"
#include "client/cli/adopt_target.h"
#include "client/cli/describe.h"
#include "client/cli/file_argument.h"
#include "client/cli/json.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"
#include "storage/job/adopt/adopt_scr.h"

namespace cairn::cli {
namespace {

constexpr std::size_t kUnverifiedShown = 10;  // as text; JSON has all

struct ScrAdoption {
  std::string prefix;
  RunId run;
  std::string job;
  std::vector<AdoptedScr> adopted;  // not empty
};

// As it was when SCR ran: it need not be there any more.
absl::StatusOr<std::string> OldPrefix(const std::string& given) {
  if (given.empty()) return given;
  const std::filesystem::path path = std::filesystem::path(given).lexically_normal();
  if (!path.is_absolute()) return InvalidArgument("--prefix-was {}: not an absolute path", given);
  std::string text = path.string();
  if (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

absl::StatusOr<ScrAdoption> Adopt(const Context& context, const AdoptScrOptions& options, AdoptScrRequest request) {
  const auto disk = MakePosixDisk();
  CAIRN_ASSIGN_OR_RETURN(request.prefix_was, OldPrefix(options.prefix_was));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> roots, ExistingPaths(options.roots));
  CAIRN_ASSIGN_OR_RETURN(const ScrCache cache, FindScrCache(*disk, roots, options.job));
  for (const std::string& warning : cache.warnings) request.note(warning);
  CAIRN_ASSIGN_OR_RETURN(const AdoptTarget target, OpenAdoptTarget(context, *disk, options.run));
  auto adopted = AdoptScr(*disk, *target.prefix, cache, request);
  for (const std::string& warning : target.prefix->TakeWarnings()) request.note(warning);
  if (!adopted.ok()) return adopted.status();
  return ScrAdoption{
      .prefix = target.prefix->path(), .run = target.prefix->run(), .job = cache.job, .adopted = *std::move(adopted)};
}

std::string WayOf(catalogue::VerifiedBy by) {
  return by == catalogue::CHECKSUM ? "by SCR's CRC" : VerifiedByText(by);
}

// By what, of all files or of how many.
std::string DescribeVerified(const AdoptedScr& adopted) {
  if (adopted.verified.empty()) return "no byte to verify";
  if (adopted.verified.size() == 1) {
    const catalogue::VerifiedBy by = adopted.verified.begin()->first;
    return by == catalogue::NOTHING ? "NOT VERIFIED: as found" : "every byte verified " + WayOf(by);
  }
  std::string text;
  for (const auto& [by, files] : adopted.verified) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", Count(files, "file"), WayOf(by));
  }
  return (adopted.unverified.empty() ? "every byte verified: " : "NOT ALL VERIFIED: ") + text;
}

std::string Describe(const ScrAdoption& outcome, const AdoptedScr& adopted) {
  const std::string what =
      fmt::format("dataset {} ({}) of SCR's job {}", adopted.from.id, Clean(adopted.from.name), Clean(outcome.job));
  switch (adopted.how) {
    case AdoptedScr::How::kOnPrefix:
      return fmt::format("{} is on the prefix already, as SCR has flushed it; restarts from {} use it\n", what,
                         Clean(outcome.prefix));
    case AdoptedScr::How::kBefore:
      return fmt::format("{} was adopted before: it is dataset {} of {}{}\n", what, adopted.dataset,
                         Clean(outcome.prefix),
                         adopted.unverified.empty() ? "" : "; " + DescribeUnverified(adopted.unverified.size()));
    case AdoptedScr::How::kNow:
      break;
  }
  std::string text = fmt::format("adopted {} as dataset {} (step {}) of {}\n  {}, {}, {}, {}", what, adopted.dataset,
                                 adopted.step, Clean(outcome.prefix), Count(adopted.ranks, "rank"),
                                 Count(adopted.files, "file"), Bytes(adopted.bytes), DescribeVerified(adopted));
  if (adopted.rebuilt > 0) text += fmt::format("; {} rebuilt", Count(adopted.rebuilt, "file"));
  text += "\n";
  for (std::size_t i = 0; i < adopted.unverified.size() && i < kUnverifiedShown; ++i) {
    text += fmt::format("    verified by nothing: {}\n", Clean(adopted.unverified[i]));
  }
  if (adopted.unverified.size() > kUnverifiedShown) {
    text += fmt::format("    and {} more\n", adopted.unverified.size() - kUnverifiedShown);
  }
  return text;
}

std::string Describe(const ScrAdoption& outcome) {
  std::string text;
  for (const AdoptedScr& adopted : outcome.adopted) text += Describe(outcome, adopted);
  const auto newest = std::ranges::find_if(outcome.adopted.rbegin(), outcome.adopted.rend(),
                                           [](const AdoptedScr& adopted) { return adopted.from.checkpoint; });
  if (newest == outcome.adopted.rend() || newest->how != AdoptedScr::How::kNow) return text;
  return text + fmt::format(
                    "The next launch with CAIRN_PREFIX={} and {} restores dataset {}: cairn_resume, then "
                    "cairn_restart_file with the names below it.\n",
                    Clean(outcome.prefix), Count(newest->ranks, "rank"), newest->dataset);
}

// As the catalogue's JSON names them.
Json CountsJson(const VerifiedCounts& counts) {
  Json json = Json::object();
  for (const auto& [by, files] : counts) json[NameOfVerifiedBy(by)] = files;
  return json;
}

// False, too, if it is not known.
bool IsVerified(const AdoptedScr& adopted) {
  const bool known = adopted.how == AdoptedScr::How::kNow || !adopted.verified.empty();
  return known && adopted.unverified.empty();
}

Json AdoptedJson(const AdoptedScr& adopted) {
  return {{"dataset", adopted.dataset},
          {"adopted_before", adopted.how == AdoptedScr::How::kBefore},
          {"on_prefix", adopted.how == AdoptedScr::How::kOnPrefix},
          {"scr_dataset", adopted.from.id},
          {"name", adopted.from.name},
          {"checkpoint", adopted.from.checkpoint},
          {"output", adopted.from.output},
          {"step", adopted.step},
          {"ranks", adopted.ranks},
          {"files", adopted.files},
          {"rebuilt", adopted.rebuilt},
          {"verified", IsVerified(adopted)},
          {"verified_by", CountsJson(adopted.verified)},
          {"unverified", adopted.unverified},
          {"bytes", adopted.bytes}};
}

Json AdoptionJson(const ScrAdoption& outcome, const std::vector<std::string>& notes) {
  Json datasets = Json::array();
  for (const AdoptedScr& adopted : outcome.adopted) datasets.push_back(AdoptedJson(adopted));
  return {{"run", outcome.run.Hex()},
          {"prefix", outcome.prefix},
          {"job", outcome.job},
          {"datasets", datasets},
          {"notes", notes}};
}

}  // namespace

ExitCode RunAdoptScr(const Context& context, const AdoptScrOptions& options) {
  if (const auto was = OldPrefix(options.prefix_was); !was.ok()) {
    Complain(was.status());
    return ExitCode::kUsage;
  }
  std::vector<std::string> notes;
  const auto outcome = Adopt(context, options,
                             {.dataset = options.dataset,
                              .all = options.all,
                              .prefix_was = {},
                              .note =
                                  [&](const std::string& text) {
                                    if (std::ranges::find(notes, text) != notes.end())
                                      return;  // of several datasets alike
                                    notes.push_back(text);
                                    if (!context.json) Note(text);
                                  },
                              .wait = options.wait,
                              .unverified = options.unverified});
  if (!outcome.ok()) return ComplainOfFile(outcome.status());
  Print(context.json ? Dump(AdoptionJson(*outcome, notes)) : Describe(*outcome));
  return ExitCode::kOk;
}

}  // namespace cairn::cli
