// Files that are told by their bytes: catalogues and SCR's kvtree files by their first ones, FTI-FF's checkpoint files
// and level 3 code files by their records. Calls block on disk.
#ifndef CAIRN_STORAGE_FILE_KNOWN_KNOWN_FILE_H_
#define CAIRN_STORAGE_FILE_KNOWN_KNOWN_FILE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "proto/catalogue.pb.h"
#include "storage/format/ftiff/codec.h"
#include "storage/format/kvtree/tree.h"
#include "storage/io/disk.h"

namespace cairn {

struct CheckpointFile {
  std::unique_ptr<File> file;
  ftiff::FileMetadata metadata;
  ftiff::ReadAt reader() const;  // valid while this lives
};
struct CodeFile {
  std::unique_ptr<File> file;
  ftiff::EncodedFile encoded;
};
struct TreeFile {
  kvtree::Tree tree;
  std::uint64_t payload_bytes = 0;  // behind the tree: SCR's redundancy files
};
using KnownFile = std::variant<CheckpointFile, CodeFile, TreeFile, catalogue::Catalogue>;

// Reads and checks what the file says of itself: all of a tree or catalogue, the metadata of a checkpoint or code file
// (their data: VerifyData). kNotFound; kDataLoss: damaged, or none of these; kFailedPrecondition: a newer version.
absl::StatusOr<KnownFile> OpenKnownFile(Disk& disk, const std::string& path);

// The same for kvtree files alone: what is none is kDataLoss, naming section and offset. Of a payload nothing is read.
// A halt file is made by locking it, so it may have nothing in it yet: then its tree is empty.
absl::StatusOr<TreeFile> OpenTreeFile(Disk& disk, const std::string& path);

// The same for checkpoint files of FTI-FF. kInvalidArgument: a file of another kind; the message says which.
absl::StatusOr<CheckpointFile> OpenCheckpointFile(Disk& disk, const std::string& path);

// What an error says of `name`, without the "<name>: " that it may begin with.
std::string_view WithoutName(std::string_view message, std::string_view name);

std::string_view KindOf(const KnownFile& file);  // "FTI-FF", "FTI-FF code", "kvtree", "catalogue"

// Check 6 of the FTI-FF specification, section 10, on all cores. Errors of the disk pass through.
absl::StatusOr<ftiff::Verdict> VerifyData(const CheckpointFile& file, std::string_view name);
// The code bytes against their checksum. kDataLoss.
absl::Status VerifyData(const CodeFile& file, std::string_view name);
// VerifyData as one answer. kDataLoss: damaged; the message says where.
absl::Status CheckWhole(const CheckpointFile& file, const std::string& path);

}  // namespace cairn

#endif  // CAIRN_STORAGE_FILE_KNOWN_KNOWN_FILE_H_
