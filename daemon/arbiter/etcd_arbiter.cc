#include "daemon/arbiter/etcd_arbiter.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/arbiter/sealed.h"
#include "storage/base/status.h"
#include "storage/io/create_once.h"
#include "storage/place/arbiter/folder_arbiter.h"
#include "storage/place/prefix/lease.h"

namespace cairn {
namespace {

constexpr std::string_view kLeaseEnd = ".lease";
constexpr std::string_view kLaunchStem = "launch.";
constexpr int kWriteOversMax = 8;            // of what does not count, before somebody else is taken to write there
constexpr std::size_t kStrangersMax = 1000;  // values that do not count and that one listing looks at
constexpr std::size_t kOldLeasesMax = 100;   // removed at a time

bool IsLease(std::string_view name) {
  return name.ends_with(kLeaseEnd);
}

// It becomes a file's name.
bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= kEtcdNameBytesMax && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

class EtcdArbiter final : public Arbiter {
 public:
  EtcdArbiter(std::shared_ptr<EtcdClient> client, Disk& disk, const std::string& prefix, const RunId& run,
              std::string secret)
      : client_(std::move(client)),
        disk_(disk),
        folder_(prefix + "/.cairn"),
        prefix_arbiter_(MakeFolderArbiter(disk, prefix)),
        root_(fmt::format("/cairn/{}/", run.Hex())),
        secret_(std::move(secret)) {}

  absl::Status Create(const std::string& name, std::string_view bytes) override;
  absl::StatusOr<std::vector<std::string>> Names() override;
  absl::Status CreateLease(const std::string& name, std::string_view bytes) override;
  absl::Status WriteLease(const std::string& name, std::string_view bytes) override;
  absl::StatusOr<std::string> ReadLease(const std::string& name, std::size_t bytes_max) override;

 private:
  std::string KeyOf(std::string_view name) const { return root_ + std::string(name); }

  absl::Status Check(std::string_view name, bool lease, std::size_t bytes) const;
  absl::StatusOr<std::optional<std::string>> Decide(const std::string& name, std::string_view bytes);
  absl::Status Copy(const std::string& name, std::string_view bytes);
  absl::StatusOr<std::optional<std::string>> Find(const std::string& name);
  absl::StatusOr<bool> Adopt(const std::string& name);
  void RemoveLeasesBefore(LaunchId launch);

  const std::shared_ptr<EtcdClient> client_;
  Disk& disk_;
  const std::string folder_;
  const std::unique_ptr<Arbiter> prefix_arbiter_;
  const std::string root_, secret_;
};

absl::Status EtcdArbiter::Check(std::string_view name, bool lease, std::size_t bytes) const {
  if (!IsName(name) || IsLease(name) != lease) {
    return InvalidArgument("{}{}: no name of a {}", root_, name, lease ? "lease" : "record");
  }
  if (bytes > kRecordBytesMax) {
    return InvalidArgument("{}{}: {} bytes, at most {}", root_, name, bytes, kRecordBytesMax);
  }
  return absl::OkStatus();
}

// --- What etcd decides, and what the prefix then has ---

// None: we were first. Else the bytes of whoever was. What does not count is written over. If the answer to our
// transaction was lost, the next one finds our own value, which no other is like.
absl::StatusOr<std::optional<std::string>> EtcdArbiter::Decide(const std::string& name, std::string_view bytes) {
  const std::string key = KeyOf(name), ours = Seal(secret_, key, bytes);
  std::int64_t revision = 0;
  for (int i = 0; i < kWriteOversMax; ++i) {
    CAIRN_ASSIGN_OR_RETURN(const auto there, client_->PutIfUnchanged(key, ours, revision));
    if (!there || there->bytes == ours) return std::optional<std::string>();
    if (auto theirs = Unseal(secret_, key, there->bytes)) return theirs;
    revision = there->revision;
  }
  return Unavailable("etcd {}: {} is written again and again by somebody who is not of this run", client_->where(),
                     key);
}

// kAlreadyExists: there is another in .cairn, which wins.
absl::Status EtcdArbiter::Copy(const std::string& name, std::string_view bytes) {
  const absl::Status made = prefix_arbiter_->Create(name, bytes);
  if (!absl::IsAlreadyExists(made)) return made;
  auto there = ReadOnce(disk_, folder_ + "/" + name, kRecordBytesMax);
  // Longer: not ours.
  if (there.ok() ? *there != bytes : absl::IsResourceExhausted(there.status())) return made;
  if (absl::IsNotFound(there.status())) return Unavailable("{}: another has made it, and it is not to be seen", name);
  return there.status();
}

absl::Status EtcdArbiter::Create(const std::string& name, std::string_view bytes) {
  CAIRN_RETURN_IF_ERROR(Check(name, /*lease=*/false, bytes.size()));
  CAIRN_ASSIGN_OR_RETURN(const std::optional<std::string> theirs, Decide(name, bytes));
  const absl::Status copied = Copy(name, theirs ? *theirs : bytes);
  if (theirs && copied.ok()) return AlreadyExists("{}: another has made it", KeyOf(name));
  return copied;
}

// None: not there, or it does not count.
absl::StatusOr<std::optional<std::string>> EtcdArbiter::Find(const std::string& name) {
  const std::string key = KeyOf(name);
  CAIRN_ASSIGN_OR_RETURN(const auto there, client_->Get(key));
  return there ? Unseal(secret_, key, there->bytes) : std::nullopt;
}

// True: it counts. A record then is in .cairn.
absl::StatusOr<bool> EtcdArbiter::Adopt(const std::string& name) {
  CAIRN_ASSIGN_OR_RETURN(const auto bytes, Find(name));
  if (!bytes || IsLease(name)) return bytes.has_value();
  if (bytes->size() > kRecordBytesMax) return false;
  const absl::Status copied = Copy(name, *bytes);
  if (!copied.ok() && !absl::IsAlreadyExists(copied)) return copied;
  return true;
}

// etcd is asked first: what depends on a record was made after that was in .cairn.
absl::StatusOr<std::vector<std::string>> EtcdArbiter::Names() {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> keys, client_->Keys(root_, root_.size() + kEtcdNameBytesMax));
  CAIRN_ASSIGN_OR_RETURN(std::vector<std::string> names, prefix_arbiter_->Names());
  std::vector<std::string> more;
  std::size_t strangers = 0;
  for (const std::string& key : keys) {
    const std::string name = key.substr(root_.size());
    if (!IsName(name) || std::ranges::binary_search(names, name)) continue;
    CAIRN_ASSIGN_OR_RETURN(const bool counts, Adopt(name));
    if (counts) more.push_back(name);
    if (!counts && ++strangers > kStrangersMax) {
      return ResourceExhausted(
          "etcd {}: more than {} keys below {} are not of this run: somebody else writes there; all of them may be "
          "deleted (etcdctl del --prefix {}) while nothing works under the run",
          client_->where(), kStrangersMax, root_, root_);
    }
  }
  names.insert(names.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  std::ranges::sort(names);
  return names;
}

// --- Leases ---

absl::Status EtcdArbiter::CreateLease(const std::string& name, std::string_view bytes) {
  CAIRN_RETURN_IF_ERROR(Check(name, /*lease=*/true, bytes.size()));
  CAIRN_ASSIGN_OR_RETURN(const auto theirs, Decide(name, bytes));
  if (theirs) return AlreadyExists("{}: another has made it", KeyOf(name));
  if (const auto lease = lease::Parse(name)) RemoveLeasesBefore(lease->first - 1);
  return absl::OkStatus();
}

absl::Status EtcdArbiter::WriteLease(const std::string& name, std::string_view bytes) {
  CAIRN_RETURN_IF_ERROR(Check(name, /*lease=*/true, bytes.size()));
  return client_->PutIfThere(KeyOf(name), Seal(secret_, KeyOf(name), bytes));
}

absl::StatusOr<std::string> EtcdArbiter::ReadLease(const std::string& name, std::size_t bytes_max) {
  CAIRN_RETURN_IF_ERROR(Check(name, /*lease=*/true, 0));
  const std::string key = KeyOf(name);
  CAIRN_ASSIGN_OR_RETURN(const auto there, client_->Get(key));
  if (!there) return NotFound("etcd {}: {} is not there", client_->where(), key);
  std::string bytes = Unseal(secret_, key, there->bytes).value_or("");
  if (bytes.size() > bytes_max) bytes.resize(bytes_max + 1);
  return bytes;
}

// They tell nobody anything any more, and etcd's room is for all. Whoever makes a lease next tries again.
void EtcdArbiter::RemoveLeasesBefore(LaunchId launch) {
  const std::string stem = KeyOf(kLaunchStem);
  const auto keys = client_->Keys(stem, root_.size() + kEtcdNameBytesMax);
  absl::Status status = keys.status();
  std::size_t removed = 0;
  for (std::size_t i = 0; status.ok() && i < keys->size() && removed < kOldLeasesMax; ++i) {
    const std::string name = (*keys)[i].substr(root_.size());
    const auto lease = lease::Parse(name);
    if (!lease || lease->first >= launch) continue;
    const auto bytes = Find(name);
    status = bytes.status();
    if (!status.ok() || !*bytes) continue;
    status = client_->Remove((*keys)[i]);
    ++removed;
  }
  if (!status.ok()) spdlog::debug("old leases stay in etcd: {}", MessageOf(status));
}

class EtcdArbiters final : public Arbiters {
 public:
  explicit EtcdArbiters(std::shared_ptr<EtcdClient> client) : client_(std::move(client)) {}

  ArbiterKind kind() const override { return ArbiterKind::kEtcd; }
  std::string where() const override { return client_->where(); }
  absl::Status Reach() const override { return client_->Get("/cairn/").status(); }
  absl::StatusOr<std::unique_ptr<Arbiter>> Make(Disk& disk, const std::string& prefix, const RunId& run,
                                                const ArbiterRecord& record) const override {
    if (record.secret.size() != ArbiterRecord::kSecretBytes) {
      return InvalidArgument("{}: the arbiter's record has no secret", prefix);
    }
    return MakeEtcdArbiter(client_, disk, prefix, run, record.secret);
  }

 private:
  const std::shared_ptr<EtcdClient> client_;
};

}  // namespace

std::unique_ptr<Arbiter> MakeEtcdArbiter(std::shared_ptr<EtcdClient> client, Disk& disk, const std::string& prefix,
                                         const RunId& run, const std::string& secret) {
  return std::make_unique<EtcdArbiter>(std::move(client), disk, prefix, run, secret);
}

absl::StatusOr<std::unique_ptr<Arbiters>> MakeEtcdArbiters(const EtcdSettings& settings) {
  CAIRN_ASSIGN_OR_RETURN(auto client, EtcdClient::Make(settings));
  return std::make_unique<EtcdArbiters>(std::move(client));
}

}  // namespace cairn
