// The containers of a rank's checkpoint file, which its next checkpoint goes on with (FTI-FF specification, section 5).
#ifndef CAIRN_DAEMON_CORE_CONTAINER_LIST_H_
#define CAIRN_DAEMON_CORE_CONTAINER_LIST_H_

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/format/ftiff/codec.h"
#include "storage/format/ftiff/layout.h"

namespace cairn {

struct ContainerList {
  std::shared_ptr<const ftiff::FileLayout> layout;  // F's offsets
  std::optional<ftiff::Packing> packing;            // that it was planned with; none: read from a file
  std::vector<ftiff::VariableSize> sizes;           // that it was planned for, as the client gave them
  bool restored = false;                            // read from the file that its launch restored

  // One per container, of emptied ones the last that they had; there once the file is written, or will never be.
  std::vector<Md5Digest> hashes;
  bool settled = false;
  std::vector<std::function<void()>> waiting;  // for that
};

// The list that a file has, whatever its layout.
std::shared_ptr<ContainerList> ListOf(const ftiff::FileMetadata& metadata, bool restored);

// The list of the next checkpoint; `last`: null if there is none. With kAligned, which does not have to be as FTI's
// own, a list that reserves four times the bytes of a fresh one gives way to it; in layout A one in which variables do
// not appear as they are registered (ftiff::AppearAsRegistered). Not settled. Errors as
// ftiff::PlanNext.
absl::StatusOr<std::shared_ptr<ContainerList>> NextList(const ContainerList* last,
                                                        std::vector<ftiff::VariableSize> sizes, ftiff::Packing packing,
                                                        ftiff::Letter letter = ftiff::Letter::kF);

// Do all containers have the same place in the file and hold the same bytes of the same variables?
bool SamePlaces(const ftiff::FileLayout& a, const ftiff::FileLayout& b);

bool HasEmptied(const ftiff::FileLayout& layout);  // a container without content

// What the containers of `layout` had as hash in `last` (null: none), where they are the same; else that of no bytes.
// REQUIRES: last is null or settled.
std::vector<Md5Digest> LastHashes(const ContainerList* last, const ftiff::FileLayout& layout);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_CONTAINER_LIST_H_
