// The daemon's configuration: embedded defaults, then a TOML file, then flags (command_line.h).
#ifndef CAIRN_DAEMON_CONFIG_CONFIG_H_
#define CAIRN_DAEMON_CONFIG_CONFIG_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

struct Config {
  std::string runtime_dir;  // sockets: cairnd.sock, cairnd-grpc.sock, cairnd.lock; made 0700; empty: see ResolvePaths
  struct Cache {
    std::string path;             // the cache directory: <path>/<user>/scr.<run>/…; empty: see ResolvePaths
    std::uint64_t bytes_max = 0;  // 0: 90 % of the file system; of a user's worker: its share (shares.h)
    std::uint64_t reserve = 0;    // free space of the file system that is left to others; 0: none, of a worker 5 %
    std::uint32_t keep = 2;       // whole checkpoints kept per run beyond what must stay
    std::uint64_t linger_ms =
        0;  // keep a finished run's cached datasets that are on the prefix for so long; 0: until room is needed
    std::uint64_t grace_ms = 7 * 86'400'000;         // of what nobody will ask for again; 0: it stays
    std::uint64_t keep_damaged_ms = 7 * 86'400'000;  // what was set aside as damaged; 0: until its room is needed
    bool direct = true;                              // direct I/O where the file system has it
    bool probe = true;                               // measure which transfers its disk needs, once
    std::uint64_t write_bytes = 0, read_bytes = 0;   // of one such transfer; 0: as measured
    std::uint32_t write_depth = 0, read_depth = 0;   // at once; 0: as measured
    bool bypass = true;  // what finds no room goes straight to the prefix; false: it waits for flushes, or is refused
    std::string node;    // this node's name in node.cairn (storage/place/cache/node_identity.h); empty: the host's name
    bool take = false;   // make another node's cache ours: --take-cache only, no key of the file
  } cache;
  struct Images {
    std::uint64_t bytes_max = 0;       // 0: 25 % of memory, or of what control groups leave of it; a worker: its share
    std::uint64_t linger_ms = 600000;  // of the last checkpoint's image once its application is gone
    bool read_ahead = true;            // what a rank will most likely restore from far away, when it opens
  } image;
  struct Flush {
    std::uint32_t every = 1;            // every so many-th checkpoint of a launch goes to the prefix; 0: none by itself
    std::uint32_t every_redundant = 0;  // the same for one that is redundant; 0: as `every` says
    bool superseded = false;  // false ("skip"): an unstarted flush of a superseded checkpoint is dropped; true ("keep")
    std::uint64_t bytes_per_s = 0;  // 0: no limit
    std::uint32_t parallel = 2;     // datasets in flight
    std::uint64_t retry_ms_min = 1000;
    std::uint64_t retry_ms_max = 300000;
    std::uint64_t stalled_ms = 30000;  // a copy that has not got on for so long hangs, and holds no slot
    std::uint64_t follow_ms = 2000;    // growing outputs are looked at so often
  } flush;
  // What nobody waits for: flushes, what is kept for other nodes, what is made anew in the cache, drains.
  struct Background {
    std::uint64_t beside_captures = 100'000'000;  // of all together while captures and restores go on; 0: no limit
    std::string io_priority = "none";             // as IoPriority (storage/io/io_priority.h) takes it; not of drains
  } background;
  // When cairn_need_checkpoint says yes; any of these that is set does. All 0: never.
  struct Checkpoint {
    std::uint32_t every = 0;             // at every so many-th call
    std::uint64_t interval_ms = 0;       // so long after the last one
    std::uint32_t overhead_percent = 0;  // while the application has spent less than this on checkpoints
    std::uint64_t mtbf_ms = 0;    // of one node, mean time between failures: at the interval that loses least by it
    bool skip_when_busy = false;  // a due one is put off while the one before is on its way to `local`
  } checkpoint;
  struct Ftiff {
    bool layout_a = false;     // of the files in cache and prefix: false ("F") the current one, true ("A") FTI 1.1's
    bool exact = false;        // false ("aligned"): for speed; true ("exact"): FTI's own packing
    bool differential = true;  // of a file that is not needed any more, only what differs is written over; else all
  } ftiff;
  struct PrefixPolicy {
    std::uint32_t keep_last = 0;   // 0: all
    std::uint32_t keep_every = 0;  // every m-th step's checkpoint stays as well; 0: none
    bool views = true;             // checkpoints are shown as BP5, too
  } prefix;
  struct Lease {
    std::uint64_t term_ms = 120000;  // without a sign of life for so long, others count this daemon's launches as over
  } lease;
  struct Slurm {
    std::string squeue = "squeue";  // whether a job is over is asked of it, where it is there; empty: not
  } slurm;
  // Who decides races between nodes, for all runs of this daemon (storage/place/arbiter/arbiter_record.h).
  struct Arbiter {
    bool etcd = false;      // false ("prefix"): the run's own folder on the prefix
    std::string endpoints;  // of etcd: https://host:port, several with commas
    std::string tls_ca, tls_cert, tls_key;
  } arbiter;
  struct Ingest {
    std::string listen;                     // host:port or host:first-last; empty: no TCP (ingest_address.h)
    std::string name;                       // of this node, told to clients; empty: the host that is listened on
    std::string announce;                   // a folder besides those of runs that clients are told in; "~": home
    std::string tls_ca, tls_cert, tls_key;  // empty: keys of this daemon's own, told in the folders of its runs
    bool insecure_loopback = false;         // without TLS, only on a loopback address, only if asked for by this name
    std::uint64_t resume_ms = 30000;        // a broken stream keeps its session so long
  } ingest;
  // Links to the daemons of the same run on other nodes.
  struct Peers {
    std::string interface;                  // its name, or an address of this node; empty: no links
    std::string ports = "17600-17699";      // the first free one is taken (peer_address.h)
    std::string tls_ca, tls_cert, tls_key;  // a site's own authority; empty: certificates of the run's
    std::string munge = "auto";             // "auto", "require" or "off"
    std::uint64_t term_ms = 12000;          // of the coordinator's lease (daemon/peers/membership.h)
    std::string fixed;                      // "explicit": address:port of other daemons, several with commas
    std::uint32_t fan_in = 32;              // links below, of each tree (daemon/peers, daemon/relay)
  } peers;
  // What ranks on several nodes keep for each other (storage/job/protect).
  struct Redundancy {
    std::string scheme = "single";  // as ParseScheme (storage/format/catalogue/scheme.h) takes it
    std::uint32_t members = 8;      // of a set, at least, where there are as many; if the scheme does not say it
    std::uint32_t checksums = 2;    // "rs": members of a set that may be lost; likewise
    std::string group;              // what may fail together with this node (a switch, a rack); empty: its host
    std::uint64_t bytes_per_s = 0;  // 0: no limit
  } redundancy;
  // One daemon for all users of a node (daemon/supervisor).
  struct Supervision {
    std::uint64_t idle_ms = 900'000;  // a worker without anything to do is ended after so long; 0: never
    std::uint32_t workers_max = 512;
    std::uint32_t uid_min = 1000;      // users below are not served
    std::string cgroup = "auto";       // "auto", "off", or the name of the group below which workers have theirs
    std::uint32_t memory_percent = 0;  // of the machine's, for each worker; 0: no limit
    std::uint32_t cpu_weight = 100;    // of each worker; 100 is what others have
    std::uint32_t io_weight = 100;     // the same
    std::uint32_t tasks_max = 0;       // processes and threads of each worker; 0: no limit
    std::uint32_t shares = 4;          // the cache and the memory for images are divided into so many (shares.h)
    std::string shares_of;             // "alice=10,bob=2": users with more than one
    std::uint32_t projects = 0;        // a user's project for the kernel's quota: this plus the uid; 0: no quota
  } supervisor;
  // A folder of a file system that outlives the loss of nodes, and that all nodes mount (storage/place/redundant).
  struct Redundant {
    std::string path;    // empty: there is none
    bool apart = true;   // never on the device of the cache, or of /
    bool marked = true;  // a run keeps to the one that it has used first
  } redundant;
  std::uint64_t call_ms_default = 120000;
  std::uint64_t quiesce_ms = 60000;  // SIGTERM: at most so long to bring captured datasets to `local`
  std::uint32_t threads = 0;         // of the pools; 0: number of cores, at most 8
  std::string log_level = "info";
  std::string log_file;  // empty: standard error
  std::vector<std::string> warnings;  // none of the settings: what is to be said of them once there is a log
};

// Lays a TOML file's text over `base`. Every error names `name`, line and key; all of them come in one message.
// What a field was called by earlier versions is taken, too, with a warning; where the file has both, the new one
// counts.
//   kInvalidArgument  not TOML, unknown key, wrong type, unit or range
absl::StatusOr<Config> ParseConfig(std::string_view name, std::string_view text, const Config& base);

// Reads the file, at most 1 MiB, and parses it. kNotFound, kPermissionDenied, and as ParseConfig.
absl::StatusOr<Config> LoadConfigFile(const std::string& path, const Config& base);

// One field from text, as a flag gives it: key "flush.every", value "3"; old names as above. kInvalidArgument,
// kNotFound (no such key).
absl::Status SetConfigField(Config& config, std::string_view key, std::string_view value);

// What each field must be in itself and next to the others. The error names the keys.
absl::Status ValidateConfig(const Config& config);

// TOML with each field's explanation above it; ParseConfig reads it back to an equal Config.
std::string PrintConfig(const Config& config);

// The fields in the order of the file.
struct ConfigFieldInfo {
  std::string key;  // "flush.every"
  std::string
      unit;  // what a value looks like: "size", "duration", "rate", "number", "text", "true|false", "skip|keep", …
  std::string help;
  std::string value;  // the default, as PrintConfig writes it
};
std::vector<ConfigFieldInfo> ConfigFields();

// Names of fields by earlier versions.
std::vector<std::string> OldConfigKeys();

// What the defaults depend on.
struct Surroundings {
  std::function<std::optional<std::string>(const char* name)> variable;  // of the environment
  std::uint32_t uid = 0;
  static Surroundings OfThisProcess();
};

// Whose daemon it is: a user's own, or the one of the system for all users.
enum class Serves : std::uint8_t { kOneUser, kAllUsers };

// Fills empty paths: runtime_dir with $XDG_RUNTIME_DIR/cairn, as root /run/cairn, else /tmp/cairn-<uid>; cache.path
// with $CAIRN_CACHE, else /var/tmp/cairn-<uid>/cache. For all users: /run/cairn and /var/cache/cairn. Of one user's
// ingest.announce "~" becomes $HOME. Touches no file.
void ResolvePaths(Config& config, const Surroundings& surroundings, Serves serves = Serves::kOneUser);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CONFIG_CONFIG_H_
