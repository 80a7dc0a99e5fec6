// The daemon's configuration: embedded defaults, then a TOML file, then flags.
#ifndef CAIRN_DAEMON_CONFIG_CONFIG_H_
#define CAIRN_DAEMON_CONFIG_CONFIG_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn {

struct Config {
  std::string runtime_dir;             // sockets: cairnd.sock, cairnd-grpc.sock, cairnd.lock; made 0700
  struct Cache {
    std::string path;                  // the cache directory: <path>/<user>/scr.<run>/…
    std::uint64_t bytes_max = 0;       // 0: 90 % of the file system
    std::uint32_t keep = 2;            // whole checkpoints kept per run beyond what must stay
    std::uint64_t linger_ms = 0;       // keep a finished run's cached datasets that are on the prefix for so long; 0: until room is needed
    bool direct = true;                // direct I/O where the file system has it
  } cache;
  struct Images {
    std::uint64_t bytes_max = 0;       // 0: 25 % of memory
  } image;
  struct Flush {
    std::uint32_t every = 1;           // every so many-th checkpoint of a launch goes to the prefix; 0: none by itself
    bool superseded = false;           // false ("skip"): an unstarted flush of a superseded checkpoint is dropped; true ("keep")
    std::uint64_t bytes_per_s = 0;     // 0: no limit
    std::uint32_t parallel = 2;        // datasets in flight
    std::uint64_t retry_ms_min = 1000;
    std::uint64_t retry_ms_max = 300000;
  } flush;
  struct PrefixPolicy {
    std::uint32_t keep_last = 0;       // 0: all
    std::uint32_t keep_every = 0;      // every m-th step's checkpoint stays as well; 0: none
  } prefix;
  struct Ingest {
    std::string listen;                // host:port; empty: no TCP
    std::string tls_ca, tls_cert, tls_key;
    bool insecure_loopback = false;    // without TLS, only on a loopback address, only if asked for by this name
    std::uint64_t resume_ms = 30000;   // a broken stream keeps its session so long
  } ingest;
  std::uint64_t call_ms_default = 120000;
  std::uint64_t quiesce_ms = 60000;    // SIGTERM: at most so long to bring captured datasets to `local`
  std::uint32_t threads = 0;           // of the pools; 0: number of cores, at most 8
  std::string log_level = "info";
  std::string log_file;                // empty: standard error
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CONFIG_CONFIG_H_
