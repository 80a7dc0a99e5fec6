#include "storage/place/cache/node_identity.h"

#include <algorithm>
#include <climits>
#include <cstdint>

#include "storage/base/ids.h"
#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/io/create_once.h"

namespace cairn {
namespace {

struct NodeRecord {
  std::string id, host;
  std::uint64_t inode = 0;
};

bool IsHostName(std::string_view host) {
  return !host.empty() && host.size() <= HOST_NAME_MAX &&
         std::none_of(host.begin(), host.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

absl::Status Validate(const std::string& cache, std::string_view user, std::string_view host) {
  if (!cache.starts_with('/')) return InvalidArgument("cache \"{}\" is not absolute", cache);
  if (user.empty() || user == "." || user == ".." || user.find('/') != std::string_view::npos) {
    return InvalidArgument("{} is no user name", Quoted(user));
  }
  if (!IsHostName(host)) return InvalidArgument("{} is no name of a node", Quoted(host));
  return absl::OkStatus();
}

absl::StatusOr<std::uint64_t> MakeFolder(Disk& disk, const std::string& folder) {
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, folder, 0700));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk.Info(folder));
  if (!info.is_directory()) return PermissionDenied("{}: is no directory", folder);
  return info.inode;
}

kvtree::Tree ToTree(const NodeRecord& record) {
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  tree.Set("ID", record.id);
  tree.Set("HOST", record.host);
  tree.Set("INODE", record.inode);
  return tree;
}

absl::StatusOr<NodeRecord> NodeFromTree(const std::string& path, const kvtree::Tree& tree) {
  const auto version = tree.GetUnsigned("VERSION");
  if (!version.ok()) return DataLoss("{}: VERSION: {}", path, MessageOf(version.status()));
  if (*version != 1) return FailedPrecondition("{}: VERSION {}, this program knows 1", path, *version);
  const auto id = RunId::Parse(tree.Get("ID").value_or(""));
  if (!id.ok()) return DataLoss("{}: ID: {}", path, MessageOf(id.status()));
  const std::string_view host = tree.Get("HOST").value_or("");
  if (!IsHostName(host)) return DataLoss("{}: HOST: {} is no name of a node", path, Quoted(host));
  const auto inode = tree.GetUnsigned("INODE");
  if (!inode.ok()) return DataLoss("{}: INODE: {}", path, MessageOf(inode.status()));
  return NodeRecord{.id = id->Hex(), .host = std::string(host), .inode = *inode};
}

absl::StatusOr<NodeRecord> Read(Disk& disk, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const kvtree::Tree tree, ReadTreeOnce(disk, path));
  return NodeFromTree(path, tree);
}

// Made by us, or by a daemon of another node at the same moment: then theirs.
absl::StatusOr<NodeRecord> Make(Disk& disk, const std::string& path, const NodeRecord& fresh) {
  const absl::Status made = CreateFileOnce(disk, path, kvtree::Encode(ToTree(fresh)), 0600);
  if (made.ok()) return fresh;
  if (!absl::IsAlreadyExists(made)) return made;
  return Read(disk, path);
}

absl::Status OfAnother(const std::string& path, const NodeRecord& record, std::string_view host) {
  return FailedPrecondition(
      "{}: this cache is {}'s (this node is {}): two daemons would repair each other's datasets where locks are not "
      "shared; if {} is gone or was renamed, start once with --take-cache, or set cache.node",
      path, record.host, host, record.host);
}

}  // namespace

absl::StatusOr<NodeIdentity> OpenNode(Disk& disk, const std::string& cache, std::string_view user,
                                      std::string_view host, bool take) {
  CAIRN_RETURN_IF_ERROR(Validate(cache, user, host));
  const std::string folder = fmt::format("{}/{}", cache, user), path = folder + "/node.cairn";
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t inode, MakeFolder(disk, folder));
  const NodeRecord fresh{.id = RunId::Random().Hex(), .host = std::string(host), .inode = inode};
  NodeIdentity node{.id = fresh.id, .host = fresh.host, .warnings = {}};

  auto record = Read(disk, path);
  if (absl::IsDataLoss(record.status())) {
    CAIRN_ASSIGN_OR_RETURN(const std::string aside, MoveAside(disk, path, path + ".damaged"));
    node.warnings.push_back(
        fmt::format("moved aside to {}, the cache has a new id: {}", aside, MessageOf(record.status())));
  }
  if (absl::IsDataLoss(record.status()) || absl::IsNotFound(record.status())) record = Make(disk, path, fresh);
  if (!record.ok()) return record.status();

  if (record->host != host) {
    if (!take) return OfAnother(path, *record, host);
    node.warnings.push_back(
        fmt::format("{}: this cache was {}'s; taken for {}, it has a new id", path, record->host, host));
  } else if (record->inode != inode) {
    node.warnings.push_back(
        fmt::format("{}: {} had inode {} and has {} now: it is a copy or was moved, and has a new id", path, folder,
                    record->inode, inode));
  } else {
    node.id = record->id;
    return node;
  }
  CAIRN_RETURN_IF_ERROR(ReplaceTree(disk, path, ToTree(fresh)));
  return node;
}

}  // namespace cairn
