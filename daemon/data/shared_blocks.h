// Blocks that several restores want at the same time, such as the columns of an array that was stored by rows: on a
// node each block is read by whoever comes to it first, and copied from there by the others.
//
// Nothing here is trusted: what is lent lies in an image that its owner's client may write to, and whose slot may be
// used anew meanwhile. Who copies a block checks the copy against its own catalogue, and reads the block itself if that
// fails. Thread-safe.
#ifndef CAIRN_DAEMON_DATA_SHARED_BLOCKS_H_
#define CAIRN_DAEMON_DATA_SHARED_BLOCKS_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/data/image.h"
#include "storage/io/disk.h"

namespace cairn {

// One file's blocks, as long as a restore reads the file.
class SharedFile {
 public:
  struct Lent {
    std::shared_ptr<Image> image;  // null: there is none, the block is to be asked for again
    std::span<const std::byte> bytes;
  };
  using Owner = const void*;  // a restore

  // True: the block is the caller's to read. It says Lend or Forget afterwards, whatever comes of it.
  bool Claim(std::uint64_t block, Owner owner);
  // `then` gets what the block's owner has, now or when it has read it. Without an owner it gets nothing. It may run
  // before the call returns, and must only post.
  void Ask(std::uint64_t block, std::function<void(Lent)> then);
  // The owner has the block, checked. Until it forgets that.
  void Lend(std::uint64_t block, Owner owner, Lent lent);
  // Somebody else's: nothing happens.
  void Forget(std::uint64_t block, Owner owner);

 private:
  struct Block {
    Owner owner = nullptr;
    Lent lent;  // no image: it is being read
    std::vector<std::function<void(Lent)>> waiting;
  };

  absl::Mutex mutex_;
  std::map<std::uint64_t, Block> blocks_ ABSL_GUARDED_BY(mutex_);
};

class SharedBlocks {
 public:
  // The same for all that read that file now.
  std::shared_ptr<SharedFile> FileOf(Disk& disk, const std::string& path);

 private:
  absl::Mutex mutex_;
  std::map<std::pair<Disk*, std::string>, std::weak_ptr<SharedFile>> files_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_SHARED_BLOCKS_H_
