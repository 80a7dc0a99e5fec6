#include "storage/job/verify/verify_prefix.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/status.h"
#include "storage/file/fti/names.h"
#include "storage/file/transfer/transfer.h"
#include "storage/format/catalogue/verified_by.h"
#include "storage/format/scr/descriptor.h"
#include "storage/place/prefix/index_tools.h"
#include "storage/place/prefix/prefix.h"
#include "storage/place/view/check.h"

namespace cairn::verify {
namespace {

// What is committed, and yet is gone, is damage.
absl::Status AsDamage(const absl::Status& status) {
  return absl::IsNotFound(status) ? DataLoss("{}", MessageOf(status)) : status;
}

class PrefixVerifier {
 public:
  PrefixVerifier(Disk& disk, const std::string& path, DatasetId wanted, const Report& report)
      : disk_(disk), path_(path), wanted_(wanted), report_(report) {}

  void Verify();

 private:
  void Tell(const absl::Status& status) { report_({.target = path_, .dataset = {}, .status = status}); }
  void Tell(DatasetId id, const absl::Status& status) {
    of_dataset_.push_back({.target = path_, .dataset = id, .status = status});
  }

  void VerifyOne(Prefix& prefix, const scr::Descriptor& descriptor, bool by_cairn, const std::string& failed);
  bool WasRemoved(Prefix& prefix, DatasetId id) const;
  // `failed`: when a restart from it has failed; empty: none has.
  void Check(Prefix& prefix, const scr::Descriptor& descriptor, bool by_cairn, const std::string& failed);
  // Of what Cairn and SCR committed. nullopt: damage, which was told.
  absl::StatusOr<std::optional<CheckedDataset>> VerifyOwn(Prefix& prefix, DatasetId id);
  absl::StatusOr<std::optional<CheckedDataset>> VerifyOfScr(const scr::Descriptor& descriptor);
  absl::StatusOr<std::optional<CheckedDataset>> VerifyFiles(Prefix& prefix, DatasetId id,
                                                            const std::vector<catalogue::Catalogue>& catalogues);
  // Where it waits, if it does, else under its name.
  absl::Status VerifyOneFile(const Prefix& prefix, const catalogue::FileEntry& file, const WaitingFiles& waiting);

  Disk& disk_;
  const std::string& path_;
  const DatasetId wanted_;  // 0: all
  const Report& report_;
  // Held back until all of it was looked at: a removal takes its files away one by one.
  std::vector<Finding> of_dataset_;
};

absl::Status PrefixVerifier::VerifyOneFile(const Prefix& prefix, const catalogue::FileEntry& file,
                                           const WaitingFiles& waiting) {
  if (const auto at = waiting.find(file.prefix_name()); at != waiting.end()) {
    const absl::Status status = VerifyFile(disk_, at->second, file);
    if (!absl::IsNotFound(status)) return status;  // else it has come to its name meanwhile
  }
  return VerifyFile(disk_, prefix.FilePath(file.prefix_name()), file);
}

absl::StatusOr<std::optional<CheckedDataset>> PrefixVerifier::VerifyFiles(
    Prefix& prefix, DatasetId id, const std::vector<catalogue::Catalogue>& catalogues) {
  CAIRN_ASSIGN_OR_RETURN(const WaitingFiles waiting, prefix.Waiting(catalogues));
  CheckedDataset checked{
      .by_cairn = true, .ranks = catalogues.size(), .unverified = UnverifiedFiles(catalogues), .failed = {}};
  bool good = true;
  for (const catalogue::Catalogue& catalogue : catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      const absl::Status status = AsDamage(VerifyOneFile(prefix, file, waiting));
      if (!status.ok()) Tell(id, status);
      good = good && status.ok();
      checked.bytes += file.bytes();
      ++checked.files;
    }
  }
  return good ? std::optional(checked) : std::nullopt;
}

absl::StatusOr<std::optional<CheckedDataset>> PrefixVerifier::VerifyOwn(Prefix& prefix, DatasetId id) {
  const auto catalogues = prefix.Catalogues(id);
  if (!catalogues.ok()) return AsDamage(catalogues.status());
  CAIRN_ASSIGN_OR_RETURN(const std::optional<CheckedDataset> checked, VerifyFiles(prefix, id, *catalogues));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> wrong, CheckRecords(disk_, path_, id));
  for (const std::string& record : wrong) Tell(id, DataLoss("{}", record));
  const absl::Status shown = view::CheckFolder(disk_, path_, *catalogues);
  const bool misleads = !shown.ok() && !absl::IsNotFound(shown);  // that there is no view is no damage
  if (misleads && checked.has_value()) Tell(id, Annotate(shown, "its BP5 view"));
  return wrong.empty() && !misleads ? checked : std::nullopt;
}

absl::StatusOr<std::optional<CheckedDataset>> PrefixVerifier::VerifyOfScr(const scr::Descriptor& descriptor) {
  const auto sizes = CheckScrSizes(disk_, path_, descriptor);
  if (!sizes.ok()) return AsDamage(sizes.status());
  return CheckedDataset{
      .by_cairn = false, .ranks = sizes->ranks, .files = sizes->files, .bytes = sizes->bytes, .failed = {}};
}

void PrefixVerifier::Check(Prefix& prefix, const scr::Descriptor& descriptor, bool by_cairn,
                           const std::string& failed) {
  auto checked = by_cairn ? VerifyOwn(prefix, descriptor.id) : VerifyOfScr(descriptor);
  if (!checked.ok()) return Tell(descriptor.id, checked.status());
  if (!checked->has_value()) return;
  (*checked)->failed = failed;
  const absl::Status status =
      failed.empty() ? absl::OkStatus() : FailedPrecondition("a restart from it failed at {}", failed);
  of_dataset_.push_back({.target = path_, .dataset = descriptor.id, .status = status, .what = **std::move(checked)});
}

bool PrefixVerifier::WasRemoved(Prefix& prefix, DatasetId id) const {
  if (std::ranges::all_of(of_dataset_, [](const Finding& finding) { return finding.status.ok(); })) return false;
  const auto contents = prefix.Contents();
  return contents.ok() && contents->removed.contains(id);
}

void PrefixVerifier::VerifyOne(Prefix& prefix, const scr::Descriptor& descriptor, bool by_cairn,
                               const std::string& failed) {
  of_dataset_.clear();
  Check(prefix, descriptor, by_cairn, failed);
  if (by_cairn && WasRemoved(prefix, descriptor.id)) {
    const absl::Status status = wanted_ == 0 ? absl::OkStatus() : NotFound("it was removed while it was looked at");
    of_dataset_ = {{.target = path_, .dataset = descriptor.id, .status = status, .what = RemovedMeanwhile()}};
  }
  for (const Finding& finding : of_dataset_) report_(finding);
}

void PrefixVerifier::Verify() {
  const auto prefix = Prefix::OpenReadOnly(disk_, path_);
  if (!prefix.ok()) return Tell(prefix.status());
  const auto committed = (*prefix)->Committed();
  if (!committed.ok()) return Tell(committed.status());
  for (const std::string& warning : (*prefix)->TakeWarnings()) Tell(DataLoss("{}", warning));
  bool found = false;
  for (const auto& [id, dataset] : *committed) {
    if (wanted_ != 0 && wanted_ != id) continue;
    found = true;
    VerifyOne(**prefix, dataset.descriptor, dataset.by_cairn, "");
  }
  // Those that no restart uses any more. A damaged index was told of above.
  const auto rows = ListIndex(disk_, path_);
  for (const IndexRow& row : rows.ok() ? *rows : std::vector<IndexRow>()) {
    const DatasetId id = row.entry.descriptor.id;
    if (row.entry.failed.empty() || !row.entry.complete || (wanted_ != 0 && wanted_ != id)) continue;
    found = true;
    VerifyOne(**prefix, row.entry.descriptor, row.by_cairn, row.entry.failed);
  }
  if (found) return;
  if (wanted_ != 0) return Tell(NotFound("no dataset {} is committed there", wanted_));
  report_({.target = path_, .dataset = {}, .status = absl::OkStatus(), .what = NothingCommitted()});
}

bool Has(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// The files with FTI's names in a folder: one of FTI's own, or of one dataset.
absl::StatusOr<std::vector<std::string>> FilesOfFti(Disk& disk, const std::string& folder,
                                                    const std::vector<std::string>& names) {
  std::vector<std::string> files;
  for (const std::string& name : names) {
    if (!fti::ParseFileName(name).has_value()) continue;
    const std::string path = folder + "/" + name;
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk.Info(path));
    if (!info.is_directory()) files.push_back(path);
  }
  return files;
}

absl::Status WhyNotBp(const std::string& path) {
  return InvalidArgument(
      "{}: a BP5 directory, which has no checksums: `cairn vars {}` checks its metadata; bytes are compared by "
      "`cairn verify RUN`, where it is a dataset's or a view",
      path, path);
}

}  // namespace

void VerifyPrefix(Disk& disk, const std::string& path, DatasetId wanted, const Report& report) {
  PrefixVerifier(disk, path, wanted, report).Verify();
}

void VerifyDirectory(Disk& disk, const std::string& path, DatasetId wanted, FileVerifier& files, const Report& report) {
  const auto tell = [&](const absl::Status& status) { report({.target = path, .dataset = {}, .status = status}); };
  const auto names = disk.List(path);
  if (!names.ok()) return tell(names.status());
  // A run may have files of its own under FTI's names.
  if (Has(*names, ".scr") || Has(*names, ".cairn")) return VerifyPrefix(disk, path, wanted, report);
  const auto found = FilesOfFti(disk, path, *names);
  if (!found.ok()) return tell(found.status());
  for (const std::string& file : *found) files.Verify(file);
  if (!found->empty()) return;
  if (Has(*names, "md.idx")) return tell(WhyNotBp(path));
  VerifyPrefix(disk, path, wanted, report);
}

}  // namespace cairn::verify
