// That a run uses one folder that is redundant itself, the same on all nodes, and never the empty one in which that is
// to be mounted: the folder has a mark, and the first node that brings something there notes it on the prefix
// (storage/place/prefix/redundant_mark.h). From then on no other folder is used. Strand only.
#ifndef CAIRN_DAEMON_CORE_FOLDER_AGREEMENT_H_
#define CAIRN_DAEMON_CORE_FOLDER_AGREEMENT_H_

#include <absl/status/status.h>

#include <functional>
#include <memory>
#include <string>

#include "daemon/core/context.h"
#include "daemon/core/ledger.h"
#include "daemon/core/prefix_gate.h"
#include "storage/base/ids.h"
#include "storage/place/redundant/redundant_folder.h"

namespace cairn {

class FolderAgreement {
 public:
  struct Given {
    Ledger& ledger;    // borrowed
    PrefixGate& gate;  // borrowed
    RunId run;
    std::shared_ptr<RedundantFolder> folder;
    std::string lane;  // that has the folder
  };
  FolderAgreement(const Context& context, Given given) : context_(context), given_(std::move(given)) {}
  FolderAgreement(const FolderAgreement&) = delete;

  using Then = std::function<void(const absl::Status& status)>;
  // What the folder must be is known, and it is checked by each of its calls from now on. `then` may come inside the
  // call. It comes late, or never, if prefix or folder hang.
  //   kUnavailable  the prefix is not in reach, or the launch is not made there yet
  //   others        the disks', and RedundantFolder::Mark
  void Agree(Then then);
  // Something was wrong there: the prefix is asked anew, where somebody may have taken the note away.
  void Doubt() { agreed_ = false; }

 private:
  void Note(const std::string& prefix, const std::string& mark, Then then);
  void Noted(const std::string& prefix, const absl::StatusOr<std::string>& mark, const Then& then);

  const Context& context_;
  const Given given_;
  bool agreed_ = false;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_FOLDER_AGREEMENT_H_
