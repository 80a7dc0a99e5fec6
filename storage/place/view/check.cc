#include "storage/place/view/check.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "storage/base/status.h"
#include "storage/format/bp5/metadata.h"
#include "storage/format/view/view.h"
#include "storage/place/names.h"
#include "storage/place/view/folder.h"

namespace cairn::view {
namespace {

constexpr std::uint64_t kFileBytesMax = std::uint64_t{4} << 30;

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// As text, so that a difference can be told.
std::string NumbersOf(const bp5::Numbers& numbers) {
  std::string text;
  for (std::size_t i = 0; i < (numbers.empty() ? 0 : numbers.size()); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : " ", numbers[i]);
  }
  return text;
}

std::string BlockOf(const bp5::Block& block) {
  return fmt::format("writer {}, [{}] at [{}], location {}", block.writer, NumbersOf(block.count),
                     NumbersOf(block.offset), block.location);
}

// The next one with elements: an older release has put empty ones, too, which show nothing.
bool NextWithElements(bp5::BlockWalk& walk) {
  while (walk.Next()) {
    const bp5::Block& block = walk.block();
    bool has = true;
    for (std::size_t d = 0; d < block.dimensions(); ++d) has = has && block.count[d] != 0;
    if (has) return true;
  }
  return false;
}

absl::Status CompareBlocks(const bp5::Metadata& expected, bp5::VariableNumber expected_number,
                           const bp5::Metadata& found, bp5::VariableNumber number) {
  const std::string& name = expected.variables()[expected_number].name;
  bp5::BlockWalk wanted = expected.Blocks(expected_number, 0), there = found.Blocks(number, 0);
  while (NextWithElements(wanted)) {
    const bool has = NextWithElements(there);
    CAIRN_RETURN_IF_ERROR(there.status());
    const std::string expected_block = BlockOf(wanted.block());
    const std::string found_block = has ? BlockOf(there.block()) : "none";
    if (found_block != expected_block) {
      return DataLoss("\"{}\": block {}, expected {}", name, found_block, expected_block);
    }
  }
  CAIRN_RETURN_IF_ERROR(wanted.status());
  if (NextWithElements(there)) return DataLoss("\"{}\": block {}, expected none", name, BlockOf(there.block()));
  return there.status();
}

absl::Status CompareValue(const bp5::Metadata& expected, bp5::VariableNumber expected_number,
                          const bp5::Metadata& found, bp5::VariableNumber number) {
  CAIRN_ASSIGN_OR_RETURN(const std::uint32_t writer, expected.FirstWriter(expected_number, 0));
  CAIRN_ASSIGN_OR_RETURN(const auto wanted, expected.Scalar(expected_number, 0, writer));
  const auto there = found.Scalar(number, 0, writer);
  if (!there.ok() || !std::ranges::equal(wanted, *there)) {
    return DataLoss("\"{}\": not the value that rank {} has stored", expected.variables()[expected_number].name,
                    writer);
  }
  return absl::OkStatus();
}

absl::Status CompareMetadata(const bp5::Metadata& expected, const bp5::Metadata& found) {
  if (found.steps() != 1 || found.writers(0) != expected.writers(0)) {
    return DataLoss("{} steps, expected one of {} writers", found.steps(), expected.writers(0));
  }
  for (std::uint32_t writer = 0; writer < expected.writers(0); ++writer) {
    if (found.subfile(0, writer) != expected.subfile(0, writer)) {
      return DataLoss("writer {} has data.{}, expected data.{}", writer, found.subfile(0, writer),
                      expected.subfile(0, writer));
    }
  }
  if (found.variables().size() != expected.variables().size()) {
    return DataLoss("{} variables, expected {}", found.variables().size(), expected.variables().size());
  }
  for (bp5::VariableNumber v = 0; v < expected.variables().size(); ++v) {
    const bp5::Variable& wanted = expected.variables()[v];
    const auto number = found.FindVariable(wanted.name);
    if (!number) return DataLoss("no \"{}\"", wanted.name);
    const bp5::Variable& there = found.variables()[*number];
    if (there.kind != wanted.kind || there.type != wanted.type) {
      return DataLoss("\"{}\" is of another kind or type", wanted.name);
    }
    CAIRN_RETURN_IF_ERROR(bp5::IsArray(wanted.kind) ? CompareBlocks(expected, v, found, *number)
                                                    : CompareValue(expected, v, found, *number));
  }
  return absl::OkStatus();
}

absl::Status Extend(const ViewFiles& files, bp5::Metadata& metadata) {
  return metadata.Extend({.index = Bytes(files.index),
                          .formats = Bytes(files.formats),
                          .metadata_begin = 0,
                          .metadata = Bytes(files.metadata)});
}

// One that is not there is damage, once md.idx is.
absl::StatusOr<std::string> ReadPart(Disk& disk, const std::string& path) {
  auto text = ReadWhole(disk, path, kFileBytesMax);
  if (absl::IsNotFound(text.status()) || absl::IsInvalidArgument(text.status())) {
    return DataLoss("{}", MessageOf(text.status()));
  }
  return text;
}

absl::Status CheckLinks(Disk& disk, const std::string& folder, const std::vector<Link>& links) {
  for (const Link& link : links) {
    const std::string path = folder + "/" + link.name;
    const auto target = disk.ReadLink(path);
    if (absl::IsNotFound(target.status()) || absl::IsInvalidArgument(target.status())) {
      return DataLoss("{}: no link to {}", path, link.target);
    }
    if (!target.ok()) return target.status();
    if (*target != link.target) return DataLoss("{}: leads to {}, expected {}", path, *target, link.target);
    const absl::Status there = disk.Info(folder + "/" + link.target).status();
    if (absl::IsNotFound(there)) return DataLoss("{}: leads to {}, which is not there", path, *target);
    if (!there.ok()) return there;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFolder(Disk& disk, const std::string& prefix, std::vector<catalogue::Catalogue> catalogues) {
  if (catalogues.empty() || catalogues[0].files()) return NotFound("{}: there is nothing to show", prefix);
  const std::string folder = prefix + "/" + ViewFolderName(catalogues[0].dataset());
  const absl::Status there = disk.Info(folder + "/md.idx").status();
  if (!there.ok()) return there;
  CAIRN_RETURN_IF_ERROR(Complete(disk, prefix, catalogues));
  CAIRN_ASSIGN_OR_RETURN(const ViewFiles wanted, BuildView(catalogues));
  return CheckFolder(disk, folder, wanted);
}

absl::Status CheckFolder(Disk& disk, const std::string& folder, const ViewFiles& wanted) {
  ViewFiles found;
  CAIRN_ASSIGN_OR_RETURN(found.index, ReadPart(disk, folder + "/md.idx"));
  CAIRN_ASSIGN_OR_RETURN(found.metadata, ReadPart(disk, folder + "/md.0"));
  CAIRN_ASSIGN_OR_RETURN(found.formats, ReadPart(disk, folder + "/mmd.0"));
  CAIRN_RETURN_IF_ERROR(CheckLinks(disk, folder, wanted.links));
  if (found.index == wanted.index && found.metadata == wanted.metadata && found.formats == wanted.formats) {
    return absl::OkStatus();
  }
  // Another release may have written the same in other bytes.
  bp5::Metadata expected, decoded;
  CAIRN_RETURN_IF_ERROR(Extend(wanted, expected));
  absl::Status same = Extend(found, decoded);
  if (same.ok()) same = CompareMetadata(expected, decoded);
  return same.ok() ? same : DataLoss("{}: {}", folder, MessageOf(same));
}

}  // namespace cairn::view
