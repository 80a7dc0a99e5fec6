// That a run uses one folder that is redundant itself, the same on all nodes, and never the empty one in which that is
// to be mounted: the folder has a mark, and the first node that brings something there notes it on the prefix
// (storage/place/prefix/redundant_mark.h). From then on no other folder is used. Strand only.
#ifndef CAIRN_DAEMON_CORE_FOLDER_AGREEMENT_H_
#define CAIRN_DAEMON_CORE_FOLDER_AGREEMENT_H_

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

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
    std::function<void()> on_another;  // another folder is the right one from now on
  };
  FolderAgreement(const Context& context, Given given) : context_(context), given_(std::move(given)) {}
  FolderAgreement(const FolderAgreement&) = delete;

  using Then = std::function<void(const absl::Status& status)>;
  // What the folder must be is known, and it is checked by each of its calls from now on. `then` may come inside the
  // call, and comes within 10 s.
  //   kUnavailable  the prefix is not in reach, the launch is not made there yet, or prefix or folder do not answer
  //   others        the disks', and RedundantFolder::Mark
  void Agree(Then then) { Ask(/*makes=*/true, std::move(then)); }
  // The same, if the run has used one already; else kNotFound, and nothing is noted.
  void Learn(Then then) { Ask(/*makes=*/false, std::move(then)); }
  // It is not the one that was agreed upon: the prefix is asked anew, where somebody may have taken the note away.
  void Doubt() { agreed_ = false; }

 private:
  struct Asked {
    bool makes = false;
    Then then;
  };
  void Ask(bool makes, Then then);
  void Tell(std::uint64_t number, const absl::Status& status);
  void TellAll(const absl::Status& status);
  void Read(const std::string& prefix, const absl::StatusOr<std::string>& mark);
  void Note(const std::string& prefix, const std::string& mark);
  void Noted(const std::string& prefix, const absl::StatusOr<std::string>& mark);

  const Context& context_;
  const Given given_;
  bool agreed_ = false;
  bool asking_ = false;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, Asked> asked_;  // by number
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_FOLDER_AGREEMENT_H_
