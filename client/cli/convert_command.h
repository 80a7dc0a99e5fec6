// `cairn convert`: a checkpoint file again in layout A or F. Needs no daemon.
#ifndef CAIRN_CLIENT_CLI_CONVERT_COMMAND_H_
#define CAIRN_CLIENT_CLI_CONVERT_COMMAND_H_

#include <string>

#include "client/cli/context.h"
#include "storage/format/ftiff/letter.h"

namespace cairn::cli {

struct ConvertRequest {
  std::string file;
  ftiff::Letter letter = ftiff::Letter::kF;  // A or F
  bool exact = false;                        // one container a variable; else the containers of `file`, unless it
                                             // ends inside one, as B may: then exact, too, which is noted
  std::string output;
  bool force = false;
};

// Keeps checkpoint id, timestamp, maxFs and ptFs. The file is verified before and while it is converted: kDamaged, and
// no output is left.
ExitCode RunConvert(const Context& context, const ConvertRequest& request);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_CONVERT_COMMAND_H_
