// An etcd of a test's own: one member or several, as an ordinary user, on loopback, each in a folder of its own; all of
// it is gone with this. What can happen to a member: it is killed, it stops (and answers nothing), it goes on, it is
// started again, with or without what it knew.
#ifndef CAIRN_TESTS_SUPPORT_ETCD_H_
#define CAIRN_TESTS_SUPPORT_ETCD_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace cairn::testing {

class Etcd {
 public:
  struct Options {
    std::size_t members = 1;
    // As deploy/make-certs.sh makes it. Clients need TLS then, and a certificate of its authority. "": plain HTTP.
    std::string certificates = {};
  };

  // All members, healthy. None, with a failure of the test, if they are not after a minute.
  static std::unique_ptr<Etcd> Start(const Options& options);
  static std::unique_ptr<Etcd> Start() { return Start(Options()); }
  virtual ~Etcd() = default;

  virtual std::size_t members() const = 0;
  virtual int port(std::size_t member) const = 0;
  // "http://127.0.0.1:PORT", or https://, of each member.
  std::vector<std::string> endpoints() const;
  virtual std::string endpoint(std::size_t member) const = 0;
  // REQUIRES: all members run and are healthy.
  virtual std::size_t Leader() const = 0;

  virtual void Kill(std::size_t member) = 0;
  virtual void Pause(std::size_t member) = 0;
  virtual void Resume(std::size_t member) = 0;
  // On the same ports. REQUIRES: it was killed.
  virtual void StartAgain(std::size_t member) = 0;
  // The same, with nothing of what it knew. REQUIRES: there is one member.
  virtual void StartEmpty() = 0;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_SUPPORT_ETCD_H_
