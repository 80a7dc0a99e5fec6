// What the daemon before this one had only captured, taken up: images and labels that were left, and what of their
// datasets lies in the cache already, become datasets that are whole in the cache. README.md, "Taken up after a crash".
// Blocks; one thread, before anything else reads the cache.
#ifndef CAIRN_DAEMON_CORE_SALVAGE_H_
#define CAIRN_DAEMON_CORE_SALVAGE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/data/deposits.h"
#include "daemon/data/image_label.h"
#include "daemon/data/work_pool.h"
#include "storage/base/ids.h"
#include "storage/base/sealed_memory.h"
#include "storage/base/unique_fd.h"
#include "storage/format/scr/records.h"
#include "storage/place/cache/cache_folder.h"

namespace cairn {

class Salvage {
 public:
  static constexpr std::uint64_t kTriesMax = 5;  // then a label is dropped: it must not keep a daemon from starting

  // Reads what labels are left. `deposits`: null: nothing is left, and nothing is done. `pool` is borrowed.
  Salvage(std::shared_ptr<Deposits> deposits, WorkPool& pool);
  // Gives up whatever is left, if TakeWarnings has been called: a start that did not get there leaves it to the next.
  ~Salvage();
  Salvage(const Salvage&) = delete;

  // Makes whole what it can of this run's datasets. REQUIRES: the folder's Load comes after it.
  // An error is the disk's or the machine's, which may pass: what is left stays so for the next start, and counts as
  // tried. This one must not go on: Load would remove the parts that are in the folder.
  absl::Status Into(CacheFolder& folder);
  // What was made whole, and what was not, and why; and what is left for no run of this cache. For the log.
  // `unread`: runs whose folders could not be looked at: theirs stays with who holds it; as does all that is left,
  // unless all runs of the cache are known.
  std::vector<std::string> TakeWarnings(const std::set<RunId>& unread = {}, bool all_runs_known = true);

 private:
  struct Left {
    CapturedPart part;
    SealedMemory memory;
    UniqueFd fd;
    std::uint64_t label = 0;  // its inode; 0: it was given up
    UniqueFd label_fd;
  };
  struct Found {  // one dataset
    scr::Descriptor descriptor;
    std::vector<Left*> parts;
  };

  void ReadLabels(std::vector<UniqueFd> left);
  void GiveUp(Left& left);
  absl::Status MakeWhole(CacheFolder& folder, const Found& found);
  absl::Status Store(CacheFolder& folder, Left& left);

  const std::shared_ptr<Deposits> deposits_;
  WorkPool& pool_;
  std::vector<Left> left_;
  std::vector<std::uint64_t> nothing_in_;  // inodes of what holds nothing
  std::vector<std::string> warnings_;
  bool told_ = false;  // what was found has been dealt with
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_SALVAGE_H_
