// Hashing for several captures at once. MD5 runs in as many lanes as a vector has; a small file has one chunk and fills
// one lane. So a thread that hashes for one capture takes chunks of others along that wait for their turn, until its
// lanes are full.
#ifndef CAIRN_DAEMON_DATA_HASH_COMPANY_H_
#define CAIRN_DAEMON_DATA_HASH_COMPANY_H_

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/synchronization/mutex.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/data/hash_queue.h"
#include "daemon/data/work_pool.h"
#include "storage/base/fifo.h"

namespace cairn {

// What a job takes of one partner.
struct HashPart {
  bool posted = false;  // taken by a job that the partner has asked for
  HashWork work;        // none: nothing is claimed
};

// Whose bytes are hashed. Any thread.
class HashPartner {
 public:
  virtual ~HashPartner() = default;
  // Takes work for so many lanes. False: there is none. Then, and if it throws, neither Publish nor GiveBack follows.
  virtual bool Claim(HashPart& part, std::size_t lanes_max) = 0;
  virtual void Publish(const HashPart& part) = 0;
  virtual void GiveBack(const HashPart& part) = 0;  // it is not hashed: others are to do it
  virtual bool NoMore() const = 0;                  // nobody wants the results any more
  virtual void HashingFailed(const absl::Status& why) = 0;
};

// Thread-safe. `pool` is borrowed. Lives as long as one of its jobs is posted.
class HashCompany : public std::enable_shared_from_this<HashCompany> {
 public:
  explicit HashCompany(WorkPool& pool) : pool_(pool) {}
  HashCompany(const HashCompany&) = delete;

  // A job that claims from `partner`, and then from others that have posted one. Never runs before it returns.
  void Post(const std::shared_ptr<HashPartner>& partner);

 private:
  class Round;

  std::shared_ptr<Round> NewRound() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Begins(Round& round);
  std::shared_ptr<HashPartner> NextThatWaits();  // null: none does
  void Ended(std::shared_ptr<Round> round);

  WorkPool& pool_;
  absl::Mutex mutex_;
  Fifo<std::weak_ptr<Round>> waiting_ ABSL_GUARDED_BY(mutex_);        // jobs that have not begun, and some that have
  std::vector<std::shared_ptr<Round>> idle_ ABSL_GUARDED_BY(mutex_);  // with their memory, for the next jobs
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_HASH_COMPANY_H_
