#include "client/cli/verify_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "client/cli/file_argument.h"
#include "client/cli/run_prefix.h"
#include "client/cli/text.h"
#include "client/cli/verify_files.h"
#include "client/cli/verify_report.h"
#include "storage/base/status.h"
#include "storage/file/fti/names.h"
#include "storage/file/transfer/transfer.h"
#include "storage/io/posix_disk.h"
#include "storage/place/prefix/index_tools.h"
#include "storage/place/prefix/prefix.h"
#include "storage/place/view/check.h"

namespace cairn::cli {
namespace {

// What a prefix has to say beside its rows, once.
struct Remarks {
  bool sizes_only = false, failed = false;
};

class PrefixVerifier {
 public:
  PrefixVerifier(Disk& disk, const std::string& path, VerifyReport& report, Remarks& remarks)
      : disk_(disk), path_(path), report_(report), remarks_(remarks) {}

  void Verify(DatasetId wanted);

 private:
  std::string Target(DatasetId id) const { return fmt::format("{}: dataset {}", path_, id); }
  void VerifyOne(Prefix& prefix, const scr::Descriptor& descriptor, bool by_cairn, const std::string& failed);
  absl::StatusOr<std::string> VerifyOwn(Prefix& prefix, DatasetId id);
  absl::StatusOr<std::string> VerifyFiles(const Prefix& prefix, const std::vector<catalogue::Catalogue>& catalogues,
                                          const std::string& target);

  Disk& disk_;
  const std::string& path_;
  VerifyReport& report_;
  Remarks& remarks_;
};

// What is committed, and yet is gone, is damage.
absl::Status AsDamage(const absl::Status& status) {
  return absl::IsNotFound(status) ? DataLoss("{}", MessageOf(status)) : status;
}

// What there is; empty: damage, which is reported.
absl::StatusOr<std::string> PrefixVerifier::VerifyFiles(const Prefix& prefix,
                                                        const std::vector<catalogue::Catalogue>& catalogues,
                                                        const std::string& target) {
  std::uint64_t files = 0, bytes = 0;
  bool good = true;
  for (const catalogue::Catalogue& catalogue : catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      const absl::Status status = AsDamage(VerifyFile(disk_, prefix.FilePath(file.prefix_name()), file));
      if (!status.ok()) report_.Add(target, "", status);
      good = good && status.ok();
      bytes += file.bytes();
      ++files;
    }
  }
  if (!good) return std::string();
  return fmt::format("{}, {}, {}", Count(catalogues.size(), "rank"), Count(files, "file"), Bytes(bytes));
}

absl::StatusOr<std::string> PrefixVerifier::VerifyOwn(Prefix& prefix, DatasetId id) {
  const auto catalogues = prefix.Catalogues(id);
  if (!catalogues.ok()) return AsDamage(catalogues.status());
  CAIRN_ASSIGN_OR_RETURN(std::string what, VerifyFiles(prefix, *catalogues, Target(id)));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> wrong, CheckRecords(disk_, path_, id));
  for (const std::string& record : wrong) report_.Add(Target(id), "", DataLoss("{}", record));
  const absl::Status shown = view::CheckFolder(disk_, path_, *catalogues);
  const bool misleads = !shown.ok() && !absl::IsNotFound(shown);  // that there is no view is no damage
  if (misleads && !what.empty()) report_.Add(Target(id), "", Annotate(shown, "its BP5 view"));
  return wrong.empty() && !misleads ? what : std::string();
}

// `failed`: when a restart from it has failed; empty: none has.
void PrefixVerifier::VerifyOne(Prefix& prefix, const scr::Descriptor& descriptor, bool by_cairn,
                               const std::string& failed) {
  const DatasetId id = descriptor.id;
  std::string what;
  if (by_cairn) {
    const auto verified = VerifyOwn(prefix, id);
    if (!verified.ok()) return report_.Add(Target(id), "", verified.status());
    what = *verified;
  } else {
    const auto sizes = CheckScrSizes(disk_, path_, descriptor);
    if (!sizes.ok()) return report_.Add(Target(id), "", AsDamage(sizes.status()));
    what = fmt::format("SCR's own: {}, {}, {} by size; not read", Count(sizes->ranks, "rank"),
                       Count(sizes->files, "file"), Bytes(sizes->bytes));
  }
  if (what.empty()) return;
  VerifyReport::Details details;
  absl::Status status;
  if (!failed.empty()) {
    details.verdict = "failed";
    remarks_.failed = true;
    status = FailedPrecondition("a restart from it failed at {}; what is there now: {}", failed, what);
  } else if (!by_cairn) {
    details.verdict = "sizes only";
    remarks_.sizes_only = true;
  }
  report_.Add(Target(id), what, status, details);
}

void PrefixVerifier::Verify(DatasetId wanted) {
  const auto prefix = Prefix::OpenReadOnly(disk_, path_);
  if (!prefix.ok()) return report_.Add(path_, "", prefix.status());
  const auto committed = (*prefix)->Committed();
  if (!committed.ok()) return report_.Add(path_, "", committed.status());
  for (const std::string& warning : (*prefix)->TakeWarnings()) report_.Add(path_, "", DataLoss("{}", warning));
  bool found = false;
  for (const auto& [id, dataset] : *committed) {
    if (wanted != 0 && wanted != id) continue;
    found = true;
    VerifyOne(**prefix, dataset.descriptor, dataset.by_cairn, "");
  }
  // Those that no restart uses any more. A damaged index was told of above.
  const auto rows = ListIndex(disk_, path_);
  for (const IndexRow& row : rows.ok() ? *rows : std::vector<IndexRow>()) {
    const DatasetId id = row.entry.descriptor.id;
    if (row.entry.failed.empty() || !row.entry.complete || (wanted != 0 && wanted != id)) continue;
    found = true;
    VerifyOne(**prefix, row.entry.descriptor, row.by_cairn, row.entry.failed);
  }
  if (found) return;
  if (wanted != 0) return report_.Add(path_, "", NotFound("no dataset {} is committed there", wanted));
  report_.Add(path_, "no dataset is committed there", absl::OkStatus());
}

// The files with FTI's names in a folder: one of FTI's own, or of one dataset. A prefix has none beside its folders.
absl::StatusOr<std::vector<std::string>> FilesOfFti(Disk& disk, const std::string& folder) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk.List(folder));
  std::vector<std::string> files;
  for (const std::string& name : names) {
    if (fti::ParseFileName(name).has_value()) files.push_back(folder + "/" + name);
  }
  return files;
}

void VerifyDirectory(Disk& disk, const std::string& path, DatasetId wanted, FileVerifier& verifier,
                     VerifyReport& report, Remarks& remarks) {
  const auto files = FilesOfFti(disk, path);
  if (!files.ok()) return report.Add(path, "", files.status());
  if (files->empty()) return PrefixVerifier(disk, path, report, remarks).Verify(wanted);
  for (const std::string& file : *files) verifier.Verify(file);
}

}  // namespace

ExitCode RunVerify(const Context& context, const std::vector<std::string>& targets, DatasetId dataset) {
  const auto disk = MakePosixDisk();
  VerifyReport report(context.json);
  FileVerifier files(*disk, report);
  Remarks remarks;
  for (const std::string& target : targets) {
    std::error_code error;
    const std::filesystem::path path = std::filesystem::canonical(target, error);
    if (!error && std::filesystem::is_directory(path, error)) {
      VerifyDirectory(*disk, path.string(), dataset, files, report, remarks);
    } else if (!error) {
      files.Verify(path.string());
    } else if (target.find('/') != std::string::npos) {
      report.Add(target, "", NotFound("{}", error.message()));
    } else if (const auto prefix = FindPrefix(context, target); prefix.ok()) {
      PrefixVerifier(*disk, *prefix, report, remarks).Verify(dataset);
    } else {
      report.Add(target, "", prefix.status());
    }
  }
  files.CompareRanks();
  if (remarks.sizes_only && !context.json) {
    Note("sizes only: SCR keeps no checksums that would tell whether the bytes are right");
  }
  if (remarks.failed && !context.json) {
    Note(
        "failed: no restart uses such a dataset; `cairn index add RUN NAME` looks at it anew and lets restarts use it");
  }
  return report.Finish();
}

}  // namespace cairn::cli
