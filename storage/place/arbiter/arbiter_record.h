// Which back end decides the races of a run: <prefix>/.cairn/arbiter, made by the first opener, and arbiter.<k>, made
// when that is changed; the highest k counts, none is ever rewritten. A run that release 0.1.0 made has none, and is
// the prefix' own. Calls block on disk. Stateless, hence thread-safe.
#ifndef CAIRN_STORAGE_PLACE_ARBITER_ARBITER_RECORD_H_
#define CAIRN_STORAGE_PLACE_ARBITER_ARBITER_RECORD_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "storage/base/ids.h"
#include "storage/io/disk.h"
#include "storage/place/arbiter/arbiter.h"

namespace cairn {

enum class ArbiterKind : std::uint8_t { kPrefix, kEtcd };
std::string_view NameOf(ArbiterKind kind);  // "prefix", "etcd"
std::optional<ArbiterKind> ArbiterKindOf(std::string_view name);

struct ArbiterRecord {
  static constexpr std::size_t kSecretBytes = 32;

  ArbiterKind kind = ArbiterKind::kPrefix;
  std::string secret;        // random: what the back end keeps for the run is authenticated by it
  std::string where;         // of the service, as its maker knew it; for messages
  std::uint64_t number = 0;  // k of arbiter.<k>; 0: arbiter
};

namespace arbiter_record {

// The one that counts; none: nobody has made one.
absl::StatusOr<std::optional<ArbiterRecord>> Read(Disk& disk, const std::string& prefix);
// The same; made if there is none: of `kind` if the run has no launch yet, else the prefix' own, which has decided so
// far. `where`: as ArbiterRecord's.
absl::StatusOr<ArbiterRecord> Ensure(Disk& disk, const std::string& prefix, ArbiterKind kind, const std::string& where);
// The next one. The caller has made sure that nobody works under a launch of the run; whoever begins just then by the
// old one is fenced by the next launch, whichever arbiter decides on that.
//   kAborted  another has changed it meanwhile
absl::StatusOr<ArbiterRecord> Change(Disk& disk, const std::string& prefix, const ArbiterRecord& from, ArbiterKind kind,
                                     const std::string& where);

}  // namespace arbiter_record

// What a program is configured to use: its back end, for each run whose record names the same.
class Arbiters {
 public:
  virtual ~Arbiters() = default;
  virtual ArbiterKind kind() const = 0;
  virtual std::string where() const = 0;  // of the service, for messages and records; "": none
  // Does it answer? kUnavailable, kPermissionDenied, …: what it, or nobody, said. Blocks for a bounded time.
  virtual absl::Status Reach() const = 0;
  // `disk` is borrowed, and so is this. No call over the network yet.
  virtual absl::StatusOr<std::unique_ptr<Arbiter>> Make(Disk& disk, const std::string& prefix, const RunId& run,
                                                        const ArbiterRecord& record) const = 0;
};

// The prefix' own folder.
const Arbiters& PrefixArbiters();

// The run's arbiter, whose record is made if need be.
//   kFailedPrecondition  the run's is of another kind than `arbiters`: the message says what to do
absl::StatusOr<std::unique_ptr<Arbiter>> OpenArbiter(const Arbiters& arbiters, Disk& disk, const std::string& prefix,
                                                     const RunId& run);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_ARBITER_ARBITER_RECORD_H_
