// The files that `verify` and `inspect` know, told by their first bytes: FTI-FF checkpoint files, SCR's kvtree files,
// catalogues.
#ifndef CAIRN_CLIENT_CLI_KNOWN_FILE_H_
#define CAIRN_CLIENT_CLI_KNOWN_FILE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "proto/catalogue.pb.h"
#include "storage/base/disk.h"
#include "storage/ftiff/codec.h"
#include "storage/kvtree/tree.h"

namespace cairn::cli {

struct CheckpointFile {
  std::unique_ptr<File> file;
  ftiff::FileMetadata metadata;
  ftiff::ReadAt reader() const;  // valid while this lives
};
struct TreeFile {
  kvtree::Tree tree;
  std::uint64_t payload_bytes = 0;  // behind the tree: SCR's redundancy files
};
using KnownFile = std::variant<CheckpointFile, TreeFile, catalogue::Catalogue>;

// Reads and checks what the file says of itself: all of a tree or catalogue, the metadata of a checkpoint file (its
// data: VerifyData). kNotFound; kDataLoss: damaged, or none of the three; kFailedPrecondition: a newer version.
absl::StatusOr<KnownFile> OpenKnownFile(Disk& disk, const std::string& path);

std::string_view KindOf(const KnownFile& file);  // "FTI-FF", "kvtree", "catalogue"

// Checks the data of a checkpoint file against its hashes; the others were checked when opened. kDataLoss.
absl::Status VerifyData(const KnownFile& file, std::string_view name);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_KNOWN_FILE_H_
