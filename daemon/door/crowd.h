// Connections from outside that have not proven anything yet: who has to go when there are too many? Who comes from an
// address that few others come from gets in, however many come from elsewhere. One thread at a time.
#ifndef CAIRN_DAEMON_DOOR_CROWD_H_
#define CAIRN_DAEMON_DOOR_CROWD_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace cairn {

class Crowd {
 public:
  using Id = std::uint64_t;  // ascending: the older, the smaller

  // `from`: whom it counts for.
  Id Add(std::string from) {
    members_.emplace(++last_, std::move(from));
    return last_;
  }
  void Remove(Id id) { members_.erase(id); }
  std::size_t size() const { return members_.size(); }

  // The oldest of those for whom most are counted (the newest never, if there is another). None: it is empty.
  std::optional<Id> Victim() const;

 private:
  std::map<Id, std::string> members_;
  Id last_ = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_CROWD_H_
