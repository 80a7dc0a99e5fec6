// What `cairn verify` says: one line for each finding as soon as it is known, or one JSON document at the end.
#ifndef CAIRN_CLIENT_CLI_VERIFY_REPORT_H_
#define CAIRN_CLIENT_CLI_VERIFY_REPORT_H_

#include "client/cli/exit_code.h"
#include "client/cli/json.h"
#include "storage/job/verify/finding.h"

namespace cairn::cli {

class VerifyReport {
 public:
  explicit VerifyReport(bool json) : json_(json) {}

  void Add(const verify::Finding& finding);

  // Prints what is left; kDamaged if anything is damaged, else the first error.
  ExitCode Finish();

 private:
  const bool json_;
  Json rows_ = Json::array();
  ExitCode code_ = ExitCode::kOk;
  bool sizes_only_ = false, unverified_ = false, failed_ = false;  // of some dataset
};

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_VERIFY_REPORT_H_
