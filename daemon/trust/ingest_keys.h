// The keys of one life of a daemon for clients on other hosts: an authority that nobody has the key to any more, and
// two certificates that it has signed. Stateless, hence thread-safe.
#ifndef CAIRN_DAEMON_TRUST_INGEST_KEYS_H_
#define CAIRN_DAEMON_TRUST_INGEST_KEYS_H_

#include <absl/status/statusor.h>

#include <string>

namespace cairn {

struct IngestKeys {
  std::string name;       // in the daemon's certificate: no other daemon's, and none that anybody looks up
  std::string authority;  // PEM, like the rest
  std::string daemon_certificate, daemon_key;
  std::string client_certificate, client_key;
};

// New ones. They are good for as long as the daemon keeps its own, whatever the clocks say: each life has others.
absl::StatusOr<IngestKeys> MakeIngestKeys();

}  // namespace cairn

#endif  // CAIRN_DAEMON_TRUST_INGEST_KEYS_H_
