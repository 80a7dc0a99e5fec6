// A munged of a test's own, with a key of its own or another one's: on this machine, as this user, in a folder of its
// own; all of it is gone with this.
#ifndef CAIRN_TESTS_SUPPORT_MUNGED_H_
#define CAIRN_TESTS_SUPPORT_MUNGED_H_

#include <memory>
#include <string>

namespace cairn::testing {

class Munged {
 public:
  // Ready. `key` of 32 bytes or more: who has the same one, is of the same realm. None, with a failure of the test, if
  // it is not there after a minute.
  static std::unique_ptr<Munged> Start(const std::string& key);
  virtual ~Munged() = default;

  virtual const std::string& socket() const = 0;
  virtual void Kill() = 0;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_SUPPORT_MUNGED_H_
