// What `cairn verify` says: one line for each target as soon as it is known, or one JSON document at the end.
#ifndef CAIRN_CLIENT_CLI_VERIFY_REPORT_H_
#define CAIRN_CLIENT_CLI_VERIFY_REPORT_H_

#include <absl/status/status.h>

#include <string>
#include <string_view>
#include <vector>

#include "client/cli/exit_code.h"
#include "client/cli/json.h"

namespace cairn::cli {

class VerifyReport {
 public:
  // More than one line about a target.
  struct Details {
    std::vector<std::string> lines;  // further ones, as text
    Json json = Json::object();      // further fields
    std::string_view verdict = {};   // another word than the status has; in JSON "verdict"
  };

  explicit VerifyReport(bool json) : json_(json) {}

  // `what`: which kind of file, or what was looked at.
  void Add(const std::string& target, std::string_view what, const absl::Status& status);
  void Add(const std::string& target, std::string_view what, const absl::Status& status, const Details& details);

  // Prints what is left; kDamaged if any target is damaged, else the first error.
  ExitCode Finish();

 private:
  const bool json_;
  Json rows_ = Json::array();
  ExitCode code_ = ExitCode::kOk;
};

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_VERIFY_REPORT_H_
