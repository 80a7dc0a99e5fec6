#include "client/cli/verify_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "client/cli/run_prefix.h"
#include "client/cli/text.h"
#include "client/cli/verify_files.h"
#include "client/cli/verify_report.h"
#include "storage/base/status.h"
#include "storage/fti/names.h"
#include "storage/io/posix_disk.h"
#include "storage/prefix/prefix.h"
#include "storage/transfer/transfer.h"

namespace cairn::cli {
namespace {

void VerifyDataset(Disk& disk, Prefix& prefix, const CommittedDataset& dataset, VerifyReport& report) {
  const DatasetId id = dataset.descriptor.id;
  const std::string target = fmt::format("{}: dataset {}", prefix.path(), id);
  if (!dataset.by_cairn) return report.Add(target, "SCR's own, without checksums of Cairn: not read", absl::OkStatus());
  const auto catalogues = prefix.Catalogues(id);
  if (!catalogues.ok()) {
    // Committed, and yet its catalogues are gone: that is damage.
    const bool missing = absl::IsNotFound(catalogues.status());
    const std::string why(MessageOf(catalogues.status()));
    return report.Add(target, "", missing ? DataLoss("{}", why) : catalogues.status());
  }
  std::uint64_t files = 0, bytes = 0;
  bool good = true;
  for (const catalogue::Catalogue& catalogue : *catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      absl::Status status = VerifyFile(disk, prefix.FilePath(file.prefix_name()), file);
      if (absl::IsNotFound(status)) status = DataLoss("{}", MessageOf(status));
      if (!status.ok()) report.Add(target, "", status);
      good = good && status.ok();
      bytes += file.bytes();
      ++files;
    }
  }
  if (good) {
    report.Add(target, fmt::format("{} ranks, {} files, {}", catalogues->size(), files, Bytes(bytes)),
               absl::OkStatus());
  }
}

void VerifyPrefix(Disk& disk, const std::string& path, DatasetId wanted, VerifyReport& report) {
  const auto prefix = Prefix::OpenReadOnly(disk, path);
  if (!prefix.ok()) return report.Add(path, "", prefix.status());
  const auto committed = (*prefix)->Committed();
  if (!committed.ok()) return report.Add(path, "", committed.status());
  for (const std::string& warning : (*prefix)->TakeWarnings()) report.Add(path, "", DataLoss("{}", warning));
  if (wanted != 0 && !committed->contains(wanted)) {
    return report.Add(path, "", NotFound("no dataset {} is committed there", wanted));
  }
  if (committed->empty()) return report.Add(path, "no dataset is committed there", absl::OkStatus());
  for (const auto& [id, dataset] : *committed) {
    if (wanted == 0 || wanted == id) VerifyDataset(disk, **prefix, dataset, report);
  }
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
                     VerifyReport& report) {
  const auto files = FilesOfFti(disk, path);
  if (!files.ok()) return report.Add(path, "", files.status());
  if (files->empty()) return VerifyPrefix(disk, path, wanted, report);
  for (const std::string& file : *files) verifier.Verify(file);
}

}  // namespace

ExitCode RunVerify(const Context& context, const std::vector<std::string>& targets, DatasetId dataset) {
  const auto disk = MakePosixDisk();
  VerifyReport report(context.json);
  FileVerifier files(*disk, report);
  for (const std::string& target : targets) {
    std::error_code error;
    const std::filesystem::path path = std::filesystem::canonical(target, error);
    if (!error && std::filesystem::is_directory(path, error)) {
      VerifyDirectory(*disk, path.string(), dataset, files, report);
    } else if (!error) {
      files.Verify(path.string());
    } else if (target.find('/') != std::string::npos) {
      report.Add(target, "", NotFound("{}", error.message()));
    } else if (const auto prefix = FindPrefix(context, target); prefix.ok()) {
      VerifyPrefix(*disk, *prefix, dataset, report);
    } else {
      report.Add(target, "", prefix.status());
    }
  }
  files.CompareRanks();
  return report.Finish();
}

}  // namespace cairn::cli
