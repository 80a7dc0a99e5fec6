#include "daemon/core/folder_agreement.h"

#include <utility>

#include "storage/base/status.h"
#include "storage/place/prefix/redundant_mark.h"

namespace cairn {

void FolderAgreement::Agree(Then then) {
  if (agreed_ || !context_.config.redundant.marked) return then(absl::OkStatus());
  const Launch* const newest = given_.ledger.newest();
  if (!given_.gate.prefix()) return then(given_.gate.OutOfReach());
  if (newest != nullptr && newest->provisional) {
    return then(Unavailable("{} has not answered since launch {} began", given_.gate.path(), newest->id));
  }
  context_.OnPrefix(
      given_.gate.path(),
      [&disk = context_.env.prefix_disk, path = given_.gate.path(), run = given_.run] {
        return redundant_mark::Read(disk, path, run);
      },
      [this, path = given_.gate.path(), then = std::move(then)](const absl::StatusOr<std::string>& mark) {
        if (!absl::IsNotFound(mark.status())) return Noted(path, mark, then);
        RunBlocking(
            context_.env.pools.flush, given_.lane, context_.loop(), [folder = given_.folder] { return folder->Mark(); },
            [this, path, then](const absl::StatusOr<std::string>& made) {
              made.ok() ? Note(path, *made, then) : then(made.status());
            });
      });
}

// Of several nodes one is the first.
void FolderAgreement::Note(const std::string& prefix, const std::string& mark, Then then) {
  context_.OnPrefix(
      prefix,
      [&disk = context_.env.prefix_disk, prefix, run = given_.run, mark] {
        return redundant_mark::Ensure(disk, prefix, run, mark);
      },
      [this, prefix, then = std::move(then)](const absl::StatusOr<std::string>& noted) { Noted(prefix, noted, then); });
}

void FolderAgreement::Noted(const std::string& prefix, const absl::StatusOr<std::string>& mark, const Then& then) {
  if (!mark.ok()) return then(mark.status());
  given_.folder->Expect(*mark, redundant_mark::PathOf(prefix, given_.run));
  agreed_ = true;
  then(absl::OkStatus());
}

}  // namespace cairn
