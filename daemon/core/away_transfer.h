// The bytes of a rank that another node's daemon serves on their way back: each step is done there, and told here
// (away.h). Strand only.
#ifndef CAIRN_DAEMON_CORE_AWAY_TRANSFER_H_
#define CAIRN_DAEMON_CORE_AWAY_TRANSFER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "daemon/core/away.h"
#include "daemon/core/call.h"
#include "daemon/core/dataset.h"
#include "daemon/core/restore_plan.h"
#include "daemon/core/restore_transfer.h"
#include "daemon/core/variables.h"
#include "proto/local.pb.h"
#include "proto/peer.pb.h"

namespace cairn {

class AwayTransfer final : public RestoreTransfer, public std::enable_shared_from_this<AwayTransfer> {
 public:
  AwayTransfer(Away& away, std::shared_ptr<Call> call, DatasetPtr dataset, VariableList variables)
      : away_(away), call_(std::move(call)), dataset_(std::move(dataset)), variables_(std::move(variables)) {}

  void Find(ChosenCopies copies, std::vector<Wanted> wanted, bool own_file, Then then) override;
  void Start(Then then) override;
  absl::Status Copied(const local::Copied& copied) override;
  void Abort() override;

 private:
  Away::Moved Ender();

  Away& away_;
  const std::shared_ptr<Call> call_;
  const DatasetPtr dataset_;
  const VariableList variables_;
  Then then_;  // null: nobody waits for a step to end
};

// What is wanted, as it is said to the rank's daemon. FromMessage:
//   kInvalidArgument  the message names the field
peer::Wanted ToMessage(const Wanted& wanted);
absl::StatusOr<Wanted> FromMessage(const peer::Wanted& message);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_AWAY_TRANSFER_H_
