// What a rank will most likely ask for when its application begins again: its own file of the newest checkpoint. If
// this node's cache does not have it, the file is read from farther away into an image while the application gets
// ready, is verified, and kept as a capture's is, so that the restore copies memory. A restore that comes meanwhile
// takes what has been read from there (daemon/data/shared_blocks.h).
//
// It is a guess. It has the room that nobody else wants, and is given up when the session captures or ends. It keeps no
// dataset from being removed, evicted or made anew: what it reads is checked. Its errors are told to nobody: a restore
// meets them again, and says so. For ranks of this node, in launches of as many ranks as the dataset has. Strand only.
#ifndef CAIRN_DAEMON_CORE_READ_AHEAD_H_
#define CAIRN_DAEMON_CORE_READ_AHEAD_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <string>

#include "daemon/core/context.h"
#include "daemon/core/image_store.h"
#include "daemon/core/inventory.h"
#include "daemon/core/ledger.h"
#include "daemon/core/restore_copies.h"
#include "daemon/core/session.h"
#include "daemon/data/image.h"
#include "daemon/data/restore.h"
#include "storage/base/ids.h"

namespace cairn {

class ReadAhead {
 public:
  struct Given {  // all borrowed
    const RunId& run;
    const std::string& run_name;
    ImageStore& images;
    Ledger& ledger;
    Inventory& inventory;
    const RestoreCopies& copies;
  };
  ReadAhead(const Context& context, const Given& given) : context_(context), given_(given) {}
  ~ReadAhead() { Stop(); }
  ReadAhead(const ReadAhead&) = delete;

  // A rank's new session is there. The work begins a little later: an application that asks at once needs none.
  void SessionOpened(const SessionPtr& session);
  // It restores: what has not begun to be read would come too late.
  void RestoreBegan(const Session& session);
  // It captures, or has ended, or its connection has.
  void GiveUp(const Session& session);
  void Stop();

 private:
  struct Work {
    SessionPtr session;
    DatasetPtr dataset;
    Tier tier = Tier::kNone;                  // that it is read from
    std::string lane;                         // that reads it
    RestoreSource source;                     // the rank's file there
    std::shared_ptr<Image> image;             // of the session
    std::shared_ptr<cairn::Restore> reading;  // null: not begun, or ended
    bool given_up = false;
  };
  using WorkPtr = std::shared_ptr<Work>;

  void Choose(const WorkPtr& work);
  void Described(const WorkPtr& work, const absl::Status& status);
  void Read(const WorkPtr& work, std::shared_ptr<Image> image);
  void Ended(const WorkPtr& work, const absl::Status& status);
  void Forget(const WorkPtr& work);
  bool MayGoOn(const Work& work) const;

  const Context& context_;
  const Given given_;
  std::map<SessionId, WorkPtr> works_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_READ_AHEAD_H_
