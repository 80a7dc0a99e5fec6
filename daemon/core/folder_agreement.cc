#include "daemon/core/folder_agreement.h"

#include <algorithm>
#include <chrono>

#include "storage/base/status.h"
#include "storage/place/prefix/redundant_mark.h"

namespace cairn {
namespace {

constexpr std::chrono::seconds kAtMost(10);

}  // namespace

void FolderAgreement::Ask(bool makes, Then then) {
  if (agreed_ || !context_.config.redundant.marked) return then(absl::OkStatus());
  const Launch* const newest = given_.ledger.newest();
  if (!given_.gate.prefix()) return then(given_.gate.OutOfReach());
  if (newest != nullptr && newest->provisional) {
    return then(Unavailable("{} has not answered since launch {} began", given_.gate.path(), newest->id));
  }
  const std::uint64_t number = ++last_;
  asked_[number] = {.makes = makes, .then = std::move(then)};
  context_.loop().After(kAtMost, [this, number] {
    Tell(number, Unavailable("{} or {} does not answer", given_.gate.path(), given_.lane));
  });
  if (std::exchange(asking_, true)) return;
  context_.OnPrefix(
      given_.gate.path(),
      [&disk = context_.env.prefix_disk, path = given_.gate.path(), run = given_.run] {
        return redundant_mark::Read(disk, path, run);
      },
      [this, path = given_.gate.path()](const absl::StatusOr<std::string>& mark) { Read(path, mark); });
}

void FolderAgreement::Tell(std::uint64_t number, const absl::Status& status) {
  if (const auto asked = asked_.extract(number)) asked.mapped().then(status);
}

void FolderAgreement::TellAll(const absl::Status& status) {
  asking_ = false;
  const std::map<std::uint64_t, Asked> asked = std::exchange(asked_, {});
  for (const auto& [number, one] : asked) one.then(status);
}

void FolderAgreement::Read(const std::string& prefix, const absl::StatusOr<std::string>& mark) {
  const bool makes = std::ranges::any_of(asked_, [](const auto& one) { return one.second.makes; });
  if (!absl::IsNotFound(mark.status())) return Noted(prefix, mark);
  if (!makes) return TellAll(mark.status());
  RunBlocking(
      context_.env.pools.flush, given_.lane, context_.loop(), [folder = given_.folder] { return folder->Mark(); },
      [this, prefix](const absl::StatusOr<std::string>& made) {
        made.ok() ? Note(prefix, *made) : TellAll(made.status());
      });
}

// Of several nodes one is the first.
void FolderAgreement::Note(const std::string& prefix, const std::string& mark) {
  context_.OnPrefix(
      prefix,
      [&disk = context_.env.prefix_disk, prefix, run = given_.run, mark] {
        return redundant_mark::Ensure(disk, prefix, run, mark);
      },
      [this, prefix](const absl::StatusOr<std::string>& noted) { Noted(prefix, noted); });
}

void FolderAgreement::Noted(const std::string& prefix, const absl::StatusOr<std::string>& mark) {
  if (!mark.ok()) return TellAll(mark.status());
  agreed_ = true;
  if (given_.folder->Expect(*mark, redundant_mark::PathOf(prefix, given_.run))) given_.on_another();
  TellAll(absl::OkStatus());
}

}  // namespace cairn
