// The part of `verify` that checks files: each by itself, then whether those of one folder belong together.
// Source of the checks on FTI-FF: its specification, section 10. Calls block on disk.
#ifndef CAIRN_STORAGE_JOB_VERIFY_VERIFY_FILES_H_
#define CAIRN_STORAGE_JOB_VERIFY_VERIFY_FILES_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "storage/file/fti/names.h"
#include "storage/file/known/known_file.h"
#include "storage/io/disk.h"
#include "storage/job/verify/finding.h"

namespace cairn::verify {

class FileVerifier {
 public:
  // `disk` is borrowed.
  FileVerifier(Disk& disk, Report report) : disk_(disk), report_(std::move(report)) {}

  // Reads the file whole and compares it with its checksums and its name (checks 1 to 6 and 8). `path` is absolute.
  void Verify(const std::string& path);
  // Check 7, over all files that were verified: the ranks of one folder have one checkpoint. Several are all right (a
  // folder that keeps more than one), as long as one of them has all the ranks.
  void CompareRanks();

 private:
  using RanksById = std::map<std::int32_t, std::set<std::uint32_t>>;

  void VerifyCheckpoint(const std::string& path, const CheckpointFile& file);
  void VerifyCode(const std::string& path, const CodeFile& file);
  void VerifyRedundancy(const std::string& path, const TreeFile& file);
  void Remember(const std::string& path, fti::FileKind kind, std::int32_t id, std::uint32_t rank);

  Disk& disk_;
  const Report report_;
  std::map<std::pair<std::string, fti::FileKind>, RanksById> folders_;
};

}  // namespace cairn::verify

#endif  // CAIRN_STORAGE_JOB_VERIFY_VERIFY_FILES_H_
