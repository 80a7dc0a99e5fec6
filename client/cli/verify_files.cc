#include "client/cli/verify_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "client/cli/text.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/format/ftiff/codec.h"

namespace cairn::cli {
namespace {

constexpr std::size_t kBadShown = 10;  // as text; JSON has all

// Check 8. The number in a code file's own record may be arbitrary after a repair.
absl::Status CompareName(const std::string& path, const std::optional<fti::FileName>& name, bool is_code,
                         const ftiff::FileMetadata* metadata) {
  if (!name.has_value()) return absl::OkStatus();
  if (is_code != (name->kind == fti::FileKind::kCode)) {
    return DataLoss("{}: the name is that of a {} file, the content that of a {} file", path,
                    is_code ? "checkpoint" : "code", is_code ? "code" : "checkpoint");
  }
  const bool compares = name->kind == fti::FileKind::kRank || name->kind == fti::FileKind::kCopy;
  if (!compares || metadata == nullptr || !HoldsCheckpointId(metadata->letter)) return absl::OkStatus();
  if (metadata->header.checkpoint_id == name->id) return absl::OkStatus();
  return DataLoss("{}: ckptId is {}, expected {}, which the name says", path, metadata->header.checkpoint_id, name->id);
}

std::string Summary(const ftiff::FileMetadata& metadata) {
  const std::string id =
      HoldsCheckpointId(metadata.letter) ? fmt::format(", checkpoint {}", metadata.header.checkpoint_id) : "";
  return fmt::format("FTI-FF layout {}{}, {}, {}", static_cast<char>(metadata.letter), id,
                     Count(metadata.layout.containers.size(), "container"), Bytes(metadata.file_bytes));
}

VerifyReport::Details DetailsOf(const std::string& path, const ftiff::Verdict& verdict,
                                const ftiff::FileMetadata& metadata) {
  VerifyReport::Details details;
  Json bad = Json::array();
  for (const ftiff::BadChunk& chunk : verdict.bad) {
    const ftiff::Container& container = metadata.layout.containers[chunk.container];
    const std::string_view why = WithoutName(chunk.why, path);
    bad.push_back({{"id", container.id},
                   {"containerid", container.index},
                   {"dptr", container.variable_offset},
                   {"fptr", container.file_offset},
                   {"chunksize", container.chunk_bytes},
                   {"why", why}});
    if (details.lines.size() < kBadShown) {
      details.lines.push_back(fmt::format("variable {}, container {}: {}", container.id, container.index, why));
    }
  }
  if (verdict.bad.size() > kBadShown) {
    details.lines.push_back(fmt::format("and {} more", Count(verdict.bad.size() - kBadShown, "container")));
  }
  details.json = {{"layout", std::string(1, static_cast<char>(metadata.letter))}, {"bad", std::move(bad)}};
  if (HoldsCheckpointId(metadata.letter)) details.json["ckptId"] = metadata.header.checkpoint_id;
  if (!verdict.bad_checksum.empty()) {
    details.json["bad_checksum"] = WithoutName(verdict.bad_checksum, path);
    if (!verdict.bad.empty()) details.lines.emplace_back(WithoutName(verdict.bad_checksum, path));
  }
  return details;
}

// The damage of the data in one line; its details follow.
absl::Status StatusOf(const ftiff::Verdict& verdict, const ftiff::FileMetadata& metadata) {
  if (verdict.ok()) return absl::OkStatus();
  if (verdict.bad.empty()) return DataLoss("{}", verdict.bad_checksum);
  return DataLoss("{} of {} damaged", verdict.bad.size(), Count(metadata.layout.containers.size(), "container"));
}

// "0 to 3, 5".
std::string Ranges(const std::vector<std::uint32_t>& ranks) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    ranges.push_back(end - i == 1 ? fmt::format("{}", ranks[i]) : fmt::format("{} to {}", ranks[i], ranks[end - 1]));
    i = end;
  }
  const bool more = ranges.size() > kShown;
  if (more) ranges.resize(kShown);
  return fmt::format("{}{}", fmt::join(ranges, ", "), more ? ", …" : "");
}

std::string RanksText(const std::vector<std::uint32_t>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", Ranges(ranks));
}

std::string_view KindText(fti::FileKind kind) {
  switch (kind) {
    case fti::FileKind::kRank:
      return "checkpoint files";
    case fti::FileKind::kCopy:
      return "copies (Pcof)";
    case fti::FileKind::kCode:
      return "code files (RSed)";
    case fti::FileKind::kDifferential:
      return "differential files";
  }
  return "";
}

}  // namespace

void FileVerifier::Remember(const std::string& path, fti::FileKind kind, std::int32_t id, std::uint32_t rank) {
  folders_[{ParentOf(path), kind}][id].insert(rank);
}

void FileVerifier::VerifyCheckpoint(const std::string& path, const CheckpointFile& file) {
  const ftiff::FileMetadata& metadata = file.metadata;
  const std::optional<fti::FileName> name = fti::ParseFileName(BaseOf(path));
  const auto verdict = VerifyData(file, path);
  if (!verdict.ok()) return report_.Add(path, Summary(metadata), verdict.status());
  absl::Status status = StatusOf(*verdict, metadata);
  if (status.ok()) status = CompareName(path, name, /*is_code=*/false, &metadata);
  report_.Add(path, Summary(metadata), status, DetailsOf(path, *verdict, metadata));
  if (!name.has_value()) return;
  const bool id_in_file_alone = name->kind == fti::FileKind::kDifferential;
  if (id_in_file_alone && !HoldsCheckpointId(metadata.letter)) return;
  Remember(path, name->kind, id_in_file_alone ? metadata.header.checkpoint_id : name->id, name->rank);
}

void FileVerifier::VerifyCode(const std::string& path, const CodeFile& file) {
  const std::optional<fti::FileName> name = fti::ParseFileName(BaseOf(path));
  absl::Status status = VerifyData(file, path);
  if (status.ok()) status = CompareName(path, name, /*is_code=*/true, nullptr);
  report_.Add(path, fmt::format("FTI-FF code file of level 3, {}", Bytes(file.encoded.code_bytes)), status);
  if (name.has_value()) Remember(path, name->kind, name->id, name->rank);
}

void FileVerifier::Verify(const std::string& path) {
  const auto file = OpenKnownFile(disk_, path);
  if (!file.ok()) return report_.Add(path, "", file.status());
  if (const auto* checkpoint = std::get_if<CheckpointFile>(&*file)) return VerifyCheckpoint(path, *checkpoint);
  if (const auto* code = std::get_if<CodeFile>(&*file)) return VerifyCode(path, *code);
  report_.Add(path, KindOf(*file), absl::OkStatus());  // checked when it was opened
}

void FileVerifier::CompareRanks() {
  for (const auto& [folder, ids] : folders_) {
    if (ids.size() < 2) continue;
    std::set<std::uint32_t> all;
    for (const auto& [id, ranks] : ids) all.insert(ranks.begin(), ranks.end());
    const auto has_all = [&all](const auto& entry) { return entry.second == all; };
    VerifyReport::Details details;
    if (!std::all_of(ids.begin(), ids.end(), has_all)) {
      for (const auto& [id, ranks] : ids) {
        details.lines.push_back(fmt::format("checkpoint {}: {}", id, RanksText({ranks.begin(), ranks.end()})));
      }
    }
    const std::string what =
        fmt::format("the {} given are of {}", KindText(folder.second), Count(ids.size(), "checkpoint"));
    const absl::Status status =
        std::any_of(ids.begin(), ids.end(), has_all)
            ? absl::OkStatus()
            : DataLoss("{}, and none of these has all ranks: nothing can restart from them", what);
    report_.Add(folder.first, what, status, details);
  }
}

}  // namespace cairn::cli
