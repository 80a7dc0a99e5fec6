#include "client/cli/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "client/cli/json.h"
#include "client/cli/text.h"
#include "storage/base/ids.h"

namespace cairn::cli {

std::string KindText(const admin::DatasetRow& row) {
  std::string kind = row.checkpoint() ? "checkpoint" : "";
  if (row.output()) kind += kind.empty() ? "output" : "+output";
  return row.files() ? kind + " (files)" : kind;
}

std::string WhereText(const admin::DatasetRow& row) {
  std::vector<std::string_view> tiers;
  if (row.in_cache()) tiers.emplace_back("cache");
  if (row.in_folder()) tiers.emplace_back("redundant");
  if (row.in_prefix()) tiers.emplace_back("prefix");
  return tiers.empty() ? "-" : fmt::format("{}", fmt::join(tiers, ", "));
}

std::string StateText(const admin::DatasetRow& row) {
  return Clean(row.state()) + (row.unverified_files() > 0 ? ", unverified" : "") + (row.pinned() ? ", pinned" : "");
}

std::string LevelText(local::Level level) {
  return std::string(NameOf(static_cast<Level>(level)));
}

std::string DescribeScheme(const AskedScheme& scheme) {
  const std::string name = TextOfScheme(scheme);
  return name.empty() ? "" : fmt::format("  its application has asked for redundancy {}\n", name);
}

std::string DescribeVariable(const local::Variable& variable) {
  std::string text = fmt::format("    {:>6}  {}[{}]", variable.id(), NameOfType(variable.type()), variable.count());
  if (variable.kind() == local::VALUE) text += fmt::format("  value '{}'", Clean(variable.name()));
  if (variable.kind() == local::ARRAY) {
    text += fmt::format("  array '{}' [{}], box [{}] at [{}]", Clean(variable.name()), fmt::join(variable.shape(), ","),
                        fmt::join(variable.box_count(), ","), fmt::join(variable.box_start(), ","));
  }
  return text + fmt::format("  {}\n", Bytes(variable.bytes()));
}

std::string DescribeGrowing(const admin::GrowingDirectory& growing) {
  std::string text =
      fmt::format("{}: {}, {} of them on the prefix ({})", Clean(growing.name()),
                  Count(growing.steps_complete(), "step"), growing.steps_flushed(), Bytes(growing.bytes()));
  if (!growing.error().empty()) text += fmt::format(": {}", Clean(growing.error()));
  return text;
}

std::string VerifiedByText(catalogue::VerifiedBy by) {
  switch (by) {
    case catalogue::CHECKSUM:
      return "by a checksum of its own";
    case catalogue::PARITY:
      return "by parity";
    case catalogue::COPY:
      return "by a second copy";
    case catalogue::NOTHING:
      return "by nothing";
    default:
      return "by what was not noted";
  }
}

std::string DescribeUnverified(std::uint64_t files) {
  return fmt::format("{} {} as adopted: nothing could verify the bytes then", Count(files, "file"),
                     files == 1 ? "is" : "are");
}

std::string DescribeCatalogue(const catalogue::Catalogue& catalogue) {
  std::string text = fmt::format("catalogue of rank {} of {}: dataset {}, step {}, launch {}, run {}\n",
                                 catalogue.rank(), catalogue.nranks(), catalogue.dataset(), catalogue.step(),
                                 catalogue.launch(), Clean(catalogue.run()));
  text += DescribeScheme(AskedIn(catalogue));
  for (const local::Variable& variable : catalogue.variables()) text += DescribeVariable(variable);
  for (const catalogue::FileEntry& file : catalogue.file()) {
    text += fmt::format("  file {} ({}), {} blocks", Clean(file.name()), Bytes(file.bytes()), file.crc32c_size());
    if (file.has_crc32()) text += fmt::format(", crc32 {:#010x}", file.crc32());
    if (file.verified_by() != catalogue::NOT_NOTED) {
      text += fmt::format(", adopted, verified {}", VerifiedByText(file.verified_by()));
    }
    text += fmt::format("\n    on the prefix: {}\n", Clean(file.prefix_name()));
  }
  return text;
}

}  // namespace cairn::cli
