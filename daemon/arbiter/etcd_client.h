// A client of etcd's key-value service (proto/etcd.proto, as etcd 3.4 has it). Calls block until etcd answers, at most
// EtcdSettings::call_time or read_time in all. Each is tried at the endpoint that answered last, then at the others,
// again and again until then: one that is down, cut off, stopped, or has no leader is passed over. A call may then have
// been made twice; the calls here are such that this can be told, or does no harm. Thread-safe.
//
// What etcd answers is judged, not believed: it belongs to the site, and others write there, too.
//
// Errors of all calls:
//   kUnavailable        no endpoint answered: the message says what the last one said. A change may have been made
//   kPermissionDenied, kUnauthenticated   etcd refuses this client
//   kResourceExhausted  etcd is full, or an answer is larger than is accepted here (kAnswerBytesMax, kKeysMax)
#ifndef CAIRN_DAEMON_ARBITER_ETCD_CLIENT_H_
#define CAIRN_DAEMON_ARBITER_ETCD_CLIENT_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn {

// Endpoints are all "https://HOST:PORT", with all three files, or all "http://HOST:PORT" on loopback addresses, with
// none of them. With TLS both sides show a certificate, and etcd's must be for that HOST.
struct EtcdSettings {
  std::vector<std::string> endpoints = {};
  // Paths of PEM files: the authority of etcd's certificates; this client's own pair.
  std::string ca = {}, cert = {}, key = {};
  std::chrono::milliseconds try_time{2'000};    // of one call to one endpoint
  std::chrono::milliseconds call_time{10'000};  // of a call in all
  std::chrono::milliseconds read_time{0};       // the same, of one that changes nothing; 0: no less
};

class EtcdClient {
 public:
  struct Value {
    std::string bytes;
    std::int64_t revision = 0;  // of the last change of this key; no other change of any key has the same
  };

  // Reads the files. Nothing goes over the network yet.
  //   kInvalidArgument  what is wrong in the settings, and what to set
  static absl::StatusOr<std::shared_ptr<EtcdClient>> Make(const EtcdSettings& settings);
  virtual ~EtcdClient() = default;

  virtual const std::string& where() const = 0;  // all endpoints, for messages

  // Reads see all that was changed before the call began, whichever endpoint answers.
  virtual absl::StatusOr<std::optional<Value>> Get(const std::string& key) = 0;
  // All keys that begin with `prefix`, sorted, as they were at one instant; longer ones than `key_bytes_max` are left
  // out. REQUIRES: `prefix` is not empty and does not end in 0xff.
  virtual absl::StatusOr<std::vector<std::string>> Keys(const std::string& prefix, std::size_t key_bytes_max) = 0;

  // Puts `bytes` there if the key's revision still is `revision`; 0: if there is no such key. None: done. Else what is
  // there instead: after a try whose answer was lost, it may be our own.
  virtual absl::StatusOr<std::optional<Value>> PutIfUnchanged(const std::string& key, const std::string& bytes,
                                                              std::int64_t revision) = 0;
  // kNotFound: there is no such key.
  virtual absl::Status PutIfThere(const std::string& key, const std::string& bytes) = 0;
  // Not there: OK.
  virtual absl::Status Remove(const std::string& key) = 0;

  static constexpr std::size_t kAnswerBytesMax = 4 << 20;  // etcd accepts values of up to 1.5 MiB
  static constexpr std::size_t kKeysMax = 100'000;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_ARBITER_ETCD_CLIENT_H_
