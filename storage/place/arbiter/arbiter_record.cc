#include "storage/place/arbiter/arbiter_record.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/base/path.h"
#include "storage/base/random.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/kvtree/tree.h"
#include "storage/io/create_once.h"
#include "storage/io/fresh_list.h"
#include "storage/place/arbiter/folder_arbiter.h"

namespace cairn {
namespace {

constexpr std::string_view kFirst = "arbiter";
constexpr std::string_view kStem = "arbiter.";
constexpr std::string_view kLaunchStem = "launch.";
constexpr std::size_t kWhereBytesMax = 1000;

constexpr std::array<std::pair<ArbiterKind, std::string_view>, 2> kKinds = {{
    {ArbiterKind::kPrefix, "prefix"},
    {ArbiterKind::kEtcd, "etcd"},
}};

std::string FolderOf(const std::string& prefix) {
  return prefix + "/.cairn";
}

std::string RecordName(std::uint64_t number) {
  return number == 0 ? std::string(kFirst) : fmt::format("{}{}", kStem, number);
}

absl::StatusOr<ArbiterRecord> FromTree(const kvtree::Tree& tree) {
  ArbiterRecord record;
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t version, tree.GetUnsigned("VERSION"));
  if (version != 1) return FailedPrecondition("VERSION {}, this program knows 1", version);
  CAIRN_ASSIGN_OR_RETURN(const std::string kind, tree.GetString("KIND"));
  const auto known = ArbiterKindOf(kind);
  if (!known) return FailedPrecondition("KIND \"{}\", this program knows prefix and etcd", kind);
  record.kind = *known;
  CAIRN_ASSIGN_OR_RETURN(const std::string hex, tree.GetString("SECRET"));
  const auto secret = BytesOfHex(hex);
  if (!secret || secret->size() != ArbiterRecord::kSecretBytes) {
    return DataLoss("SECRET is not {} hex digits", 2 * ArbiterRecord::kSecretBytes);
  }
  record.secret = *secret;
  record.where = tree.Get("WHERE").value_or("");
  return record;
}

absl::StatusOr<ArbiterRecord> ReadNumber(Disk& disk, const std::string& prefix, std::uint64_t number) {
  const std::string path = FolderOf(prefix) + "/" + RecordName(number);
  CAIRN_ASSIGN_OR_RETURN(const kvtree::Tree tree, ReadTreeOnce(disk, path));
  auto record = FromTree(tree);
  if (!record.ok())
    return absl::Status(record.status().code(), fmt::format("{}: {}", path, MessageOf(record.status())));
  record->number = number;
  return record;
}

absl::StatusOr<std::optional<ArbiterRecord>> NewestOf(Disk& disk, const std::string& prefix,
                                                      const std::vector<std::string>& names) {
  std::vector<std::uint64_t> numbers;
  for (const std::string& name : names) {
    if (name == kFirst) numbers.push_back(0);
    if (const auto number = NumberAfter(name, kStem)) numbers.push_back(*number);
  }
  std::ranges::sort(numbers);
  for (; !numbers.empty(); numbers.pop_back()) {
    auto record = ReadNumber(disk, prefix, numbers.back());
    if (absl::IsNotFound(record.status())) continue;  // its maker has not come to the end
    if (!record.ok()) return record.status();
    return std::optional(*std::move(record));
  }
  return std::optional<ArbiterRecord>();
}

// kAlreadyExists.
absl::StatusOr<ArbiterRecord> MakeNumber(Disk& disk, const std::string& prefix, ArbiterRecord record) {
  std::array<std::byte, ArbiterRecord::kSecretBytes> secret;
  FillRandom(secret);
  record.secret.assign(reinterpret_cast<const char*>(secret.data()), secret.size());
  record.where.resize(std::min(record.where.size(), kWhereBytesMax));
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  tree.Set("KIND", NameOf(record.kind));
  tree.Set("SECRET", HexOf(secret));
  if (!record.where.empty()) tree.Set("WHERE", record.where);
  CAIRN_RETURN_IF_ERROR(disk.SyncDirectory(prefix));
  CAIRN_RETURN_IF_ERROR(CreateFileOnce(disk, FolderOf(prefix) + "/" + RecordName(record.number), kvtree::Encode(tree)));
  return record;
}

bool HasLaunch(const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [](const std::string& name) { return NumberAfter(name, kLaunchStem).has_value(); });
}

class FolderArbiters final : public Arbiters {
 public:
  ArbiterKind kind() const override { return ArbiterKind::kPrefix; }
  std::string where() const override { return ""; }
  absl::Status Reach() const override { return absl::OkStatus(); }
  absl::StatusOr<std::unique_ptr<Arbiter>> Make(Disk& disk, const std::string& prefix, const RunId&,
                                                const ArbiterRecord&) const override {
    return MakeFolderArbiter(disk, prefix);
  }
};

}  // namespace

std::string_view NameOf(ArbiterKind kind) {
  return std::ranges::find(kKinds, kind, &decltype(kKinds)::value_type::first)->second;
}

std::optional<ArbiterKind> ArbiterKindOf(std::string_view name) {
  const auto* const found = std::ranges::find(kKinds, name, &decltype(kKinds)::value_type::second);
  return found == kKinds.end() ? std::nullopt : std::optional(found->first);
}

namespace arbiter_record {

absl::StatusOr<std::optional<ArbiterRecord>> Read(Disk& disk, const std::string& prefix) {
  const auto names = disk.List(FolderOf(prefix));
  if (absl::IsNotFound(names.status())) return std::optional<ArbiterRecord>();
  if (!names.ok()) return names.status();
  return NewestOf(disk, prefix, *names);
}

absl::StatusOr<ArbiterRecord> Ensure(Disk& disk, const std::string& prefix, ArbiterKind kind,
                                     const std::string& where) {
  CAIRN_ASSIGN_OR_RETURN(auto known, Read(disk, prefix));
  if (known) return *std::move(known);
  for (int i = 0; i < 2; ++i) {
    CAIRN_ASSIGN_OR_RETURN(const auto names, FreshList(disk, FolderOf(prefix)));
    CAIRN_ASSIGN_OR_RETURN(known, NewestOf(disk, prefix, names));
    if (known) return *std::move(known);
    const bool older = HasLaunch(names);
    auto made = MakeNumber(disk, prefix,
                           {.kind = older ? ArbiterKind::kPrefix : kind,
                            .secret = {},
                            .where = older ? std::string() : where,
                            .number = 0});
    if (!absl::IsAlreadyExists(made.status())) return made;
  }
  return Unavailable("{}/{}: another node has made it, but this node cannot see it yet", FolderOf(prefix), kFirst);
}

absl::StatusOr<ArbiterRecord> Change(Disk& disk, const std::string& prefix, const ArbiterRecord& from, ArbiterKind kind,
                                     const std::string& where) {
  CAIRN_ASSIGN_OR_RETURN(const auto names, FreshList(disk, FolderOf(prefix)));
  CAIRN_ASSIGN_OR_RETURN(const auto newest, NewestOf(disk, prefix, names));
  const auto changed = [&] { return Aborted("{}: the arbiter was changed meanwhile", FolderOf(prefix)); };
  if (!newest || newest->number != from.number) return changed();
  auto made = MakeNumber(disk, prefix, {.kind = kind, .secret = {}, .where = where, .number = from.number + 1});
  if (absl::IsAlreadyExists(made.status())) return changed();
  return made;
}

}  // namespace arbiter_record

const Arbiters& PrefixArbiters() {
  static const FolderArbiters arbiters;
  return arbiters;
}

absl::StatusOr<std::unique_ptr<Arbiter>> OpenArbiter(const Arbiters& arbiters, Disk& disk, const std::string& prefix,
                                                     const RunId& run) {
  CAIRN_ASSIGN_OR_RETURN(const ArbiterRecord record,
                         arbiter_record::Ensure(disk, prefix, arbiters.kind(), arbiters.where()));
  if (record.kind != arbiters.kind()) {
    const std::string at = record.where.empty() ? "" : fmt::format(" ({})", record.where);
    return FailedPrecondition(
        "{}: the arbiter of this run is {}{}, this program is configured for {} (arbiter.kind); change one of the two: "
        "`cairn run arbiter {}`, when nothing works under the run, names another",
        prefix, NameOf(record.kind), at, NameOf(arbiters.kind()), prefix);
  }
  return arbiters.Make(disk, prefix, run, record);
}

}  // namespace cairn
