#include "storage/job/verify/verify_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <variant>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/fti/names.h"
#include "storage/format/ftiff/codec.h"
#include "storage/format/scr/redset_records.h"

namespace cairn::verify {
namespace {

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

CheckedCheckpoint Describe(const ftiff::FileMetadata& metadata) {
  CheckedCheckpoint checked;
  checked.letter = metadata.letter;
  if (HoldsCheckpointId(metadata.letter)) checked.id = metadata.header.checkpoint_id;
  checked.containers = metadata.layout.containers.size();
  checked.file_bytes = metadata.file_bytes;
  return checked;
}

void TakeVerdict(const std::string& path, const ftiff::FileMetadata& metadata, const ftiff::Verdict& verdict,
                 CheckedCheckpoint& checked) {
  checked.data_read = true;
  for (const ftiff::BadChunk& chunk : verdict.bad) {
    checked.bad.push_back({metadata.layout.containers[chunk.container], std::string(WithoutName(chunk.why, path))});
  }
  checked.bad_checksum = WithoutName(verdict.bad_checksum, path);
}

// The damage of the data in one line.
absl::Status StatusOf(const ftiff::Verdict& verdict, std::size_t containers) {
  if (verdict.ok()) return absl::OkStatus();
  if (verdict.bad.empty()) return DataLoss("{}", verdict.bad_checksum);
  return DataLoss("{} of {} container{} damaged", verdict.bad.size(), containers, containers == 1 ? "" : "s");
}

// By its name, or by what is in it if it has another one now.
bool IsRedundancy(const std::string& path, const TreeFile& file) {
  const auto name = scr::ParseRedsetName(BaseOf(path));
  if (name.has_value()) return name->what == scr::RedsetName::What::kHeader;
  return file.payload_bytes > 0 && scr::GetRedundancyHeader(file.tree).ok();
}

}  // namespace

void FileVerifier::Remember(const std::string& path, fti::FileKind kind, std::int32_t id, std::uint32_t rank) {
  folders_[{ParentOf(path), kind}][id].insert(rank);
}

void FileVerifier::VerifyCheckpoint(const std::string& path, const CheckpointFile& file) {
  const ftiff::FileMetadata& metadata = file.metadata;
  const std::optional<fti::FileName> name = fti::ParseFileName(BaseOf(path));
  CheckedCheckpoint checked = Describe(metadata);
  const auto verdict = VerifyData(file, path);
  if (!verdict.ok()) {
    return report_({.target = path, .dataset = {}, .status = verdict.status(), .what = std::move(checked)});
  }
  absl::Status status = StatusOf(*verdict, checked.containers);
  if (status.ok()) status = CompareName(path, name, /*is_code=*/false, &metadata);
  TakeVerdict(path, metadata, *verdict, checked);
  report_({.target = path, .dataset = {}, .status = status, .what = std::move(checked)});
  if (!name.has_value()) return;
  const bool id_in_file_alone = name->kind == fti::FileKind::kDifferential;
  if (id_in_file_alone && !HoldsCheckpointId(metadata.letter)) return;
  Remember(path, name->kind, id_in_file_alone ? metadata.header.checkpoint_id : name->id, name->rank);
}

void FileVerifier::VerifyCode(const std::string& path, const CodeFile& file) {
  const std::optional<fti::FileName> name = fti::ParseFileName(BaseOf(path));
  absl::Status status = VerifyData(file, path);
  if (status.ok()) status = CompareName(path, name, /*is_code=*/true, nullptr);
  report_({.target = path, .dataset = {}, .status = status, .what = CheckedCode{file.encoded.code_bytes}});
  if (name.has_value()) Remember(path, name->kind, name->id, name->rank);
}

// What is behind the header has no checksum of its own: whether it is right shows when all of its set is compared.
void FileVerifier::VerifyRedundancy(const std::string& path, const TreeFile& file) {
  const auto header = scr::GetRedundancyHeader(file.tree);
  if (!header.ok()) return report_({.target = path, .dataset = {}, .status = Annotate(header.status(), path)});
  if (const std::uint64_t expected = header->payload_bytes(); file.payload_bytes != expected) {
    const absl::Status cut =
        DataLoss("{}: {} bytes behind the header, expected {}", path, file.payload_bytes, expected);
    return report_({.target = path, .dataset = {}, .status = cut});
  }
  report_({.target = path,
           .dataset = {},
           .status = absl::OkStatus(),
           .what = CheckedRedundancy{.scheme = scr::NameOf(header->scheme()), .payload_bytes = file.payload_bytes}});
}

void FileVerifier::Verify(const std::string& path) {
  const auto file = OpenKnownFile(disk_, path);
  if (!file.ok()) return report_({.target = path, .dataset = {}, .status = file.status()});
  if (const auto* checkpoint = std::get_if<CheckpointFile>(&*file)) return VerifyCheckpoint(path, *checkpoint);
  if (const auto* code = std::get_if<CodeFile>(&*file)) return VerifyCode(path, *code);
  if (const auto* tree = std::get_if<TreeFile>(&*file); tree != nullptr && IsRedundancy(path, *tree)) {
    return VerifyRedundancy(path, *tree);
  }
  // Checked when it was opened.
  report_({.target = path, .dataset = {}, .status = absl::OkStatus(), .what = CheckedRecord{KindOf(*file)}});
}

void FileVerifier::CompareRanks() {
  for (const auto& [folder, ids] : folders_) {
    if (ids.size() < 2) continue;
    std::set<std::uint32_t> all;
    for (const auto& [id, ranks] : ids) all.insert(ranks.begin(), ranks.end());
    const auto has_all = [&all](const auto& entry) { return entry.second == all; };
    const absl::Status status =
        std::ranges::any_of(ids, has_all)
            ? absl::OkStatus()
            : DataLoss(
                  "the {} given are of {} checkpoints, and none of these has all ranks: nothing can restart from "
                  "them",
                  fti::PluralOf(folder.second), ids.size());
    report_({.target = folder.first,
             .dataset = {},
             .status = status,
             .what = CheckedRanks{folder.second, ids, std::ranges::all_of(ids, has_all)}});
  }
}

}  // namespace cairn::verify
