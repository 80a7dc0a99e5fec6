#include "tests/storage/job/drain/hooked_tree.h"

#include <chrono>
#include <utility>

#include "storage/base/lock_file.h"
#include "storage/base/status.h"

namespace cairn::testing {
namespace {

absl::StatusOr<FileInfo> Told(absl::StatusOr<FileInfo> info, const TreeHooks& hooks) {
  if (info.ok() && hooks.coarse_times) info->mtime.tv_nsec = info->ctime.tv_nsec = 0;
  if (info.ok() && hooks.other_device) ++info->device;
  return info;
}

class HookedFile final : public FileBelow {
 public:
  HookedFile(std::unique_ptr<FileBelow> file, std::string path, const TreeHooks& hooks)
      : file_(std::move(file)), path_(std::move(path)), hooks_(hooks) {}

  absl::StatusOr<std::size_t> ReadAt(std::uint64_t offset, std::span<std::byte> target) override {
    CAIRN_RETURN_IF_ERROR(hooks_.before("read", path_));
    const auto n = file_->ReadAt(offset, target);
    if (n.ok()) hooks_.came(path_, target.first(*n));
    return n;
  }
  absl::Status WriteAt(std::uint64_t offset, std::span<const std::byte> bytes) override {
    CAIRN_RETURN_IF_ERROR(hooks_.before("write", path_));
    CAIRN_RETURN_IF_ERROR(file_->WriteAt(offset, bytes));
    hooks_.after("write", path_, bytes);
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<Stretch>> DataFrom(std::uint64_t offset) override { return file_->DataFrom(offset); }
  absl::Status Reserve(std::uint64_t bytes) override {
    CAIRN_RETURN_IF_ERROR(hooks_.before("reserve", path_));
    return file_->Reserve(bytes);
  }
  absl::Status Truncate(std::uint64_t bytes) override {
    CAIRN_RETURN_IF_ERROR(hooks_.before("truncate", path_));
    return file_->Truncate(bytes);
  }
  absl::Status Sync() override {
    CAIRN_RETURN_IF_ERROR(hooks_.before("sync", path_));
    CAIRN_RETURN_IF_ERROR(file_->Sync());
    hooks_.after("sync", path_, {});
    return absl::OkStatus();
  }
  absl::StatusOr<FileInfo> Info() override { return Told(file_->Info(), hooks_); }
  FileInfo opened() const override { return *Told(file_->opened(), hooks_); }
  bool BypassCache() override { return hooks_.before("bypass cache", path_).ok() && file_->BypassCache(); }
  Writers LookForWriters() override { return hooks_.writers_unknown ? Writers::kUnknown : file_->LookForWriters(); }
  absl::StatusOr<LockFile> Lock(std::chrono::milliseconds patience) override { return file_->Lock(patience); }
  absl::StatusOr<TreeAttributes> Attributes() override { return file_->Attributes(); }
  absl::StatusOr<bool> SetAttributes(const FileInfo& info, const TreeAttributes& attributes) override {
    CAIRN_RETURN_IF_ERROR(hooks_.before("set attributes", path_));
    return file_->SetAttributes(info, attributes);
  }

 private:
  const std::unique_ptr<FileBelow> file_;
  const std::string path_;
  const TreeHooks& hooks_;
};

class HookedTree final : public Tree {
 public:
  HookedTree(std::unique_ptr<Tree> tree, const TreeHooks& hooks) : tree_(std::move(tree)), hooks_(hooks) {}

  absl::StatusOr<std::vector<TreeEntry>> List(const std::string& folder) override {
    CAIRN_RETURN_IF_ERROR(hooks_.before("list", folder));
    auto entries = tree_->List(folder);
    if (!entries.ok()) return entries;
    for (TreeEntry& entry : *entries) entry.info = *Told(entry.info, hooks_);
    return entries;
  }
  absl::StatusOr<FileInfo> Info(const std::string& path) override {
    CAIRN_RETURN_IF_ERROR(hooks_.before("info", path));
    return Told(tree_->Info(path), hooks_);
  }
  absl::StatusOr<std::unique_ptr<FileBelow>> Open(const std::string& path) override {
    CAIRN_RETURN_IF_ERROR(hooks_.before("open", path));
    return Hooked(tree_->Open(path), path);
  }
  absl::StatusOr<std::unique_ptr<FileBelow>> OpenFolder(const std::string& path) override {
    return Hooked(tree_->OpenFolder(path), path);
  }
  absl::StatusOr<std::unique_ptr<FileBelow>> Create(const std::string& path, std::uint32_t mode) override {
    CAIRN_RETURN_IF_ERROR(hooks_.before("create", path));
    return Hooked(tree_->Create(path, mode), path);
  }
  absl::StatusOr<std::unique_ptr<FileBelow>> OpenToWrite(const std::string& path) override {
    return Hooked(tree_->OpenToWrite(path), path);
  }
  absl::StatusOr<std::string> ReadLink(const std::string& path) override { return tree_->ReadLink(path); }
  absl::Status Symlink(const std::string& target, const std::string& path) override {
    CAIRN_RETURN_IF_ERROR(hooks_.before("symlink", path));
    return tree_->Symlink(target, path);
  }
  absl::Status SetLinkTimes(const std::string& path, const FileInfo& info) override {
    return tree_->SetLinkTimes(path, info);
  }
  absl::Status Link(const std::string& existing, const std::string& path) override {
    CAIRN_RETURN_IF_ERROR(hooks_.before("link", path));
    return tree_->Link(existing, path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    CAIRN_RETURN_IF_ERROR(hooks_.before("rename to", to));
    return tree_->Rename(from, to);
  }
  absl::Status RenameNew(const std::string& from, const std::string& to) override {
    CAIRN_RETURN_IF_ERROR(hooks_.before("rename to", to));
    return tree_->RenameNew(from, to);
  }
  absl::Status MakeFolder(const std::string& path) override {
    CAIRN_RETURN_IF_ERROR(hooks_.before("make folder", path));
    return tree_->MakeFolder(path);
  }
  absl::Status Remove(const std::string& path) override {
    CAIRN_RETURN_IF_ERROR(hooks_.before("remove", path));
    return tree_->Remove(path);
  }
  absl::Status SyncFolder(const std::string& path) override {
    CAIRN_RETURN_IF_ERROR(hooks_.before("sync folder", path));
    return tree_->SyncFolder(path);
  }
  absl::Status SyncAll() override {
    CAIRN_RETURN_IF_ERROR(hooks_.before("sync all", ""));
    return tree_->SyncAll();
  }
  bool syncs_as_a_whole() const override { return !hooks_.syncs_each && tree_->syncs_as_a_whole(); }
  absl::Status CheckRoot() override { return tree_->CheckRoot(); }
  void ForgetFolders() override { tree_->ForgetFolders(); }

 private:
  absl::StatusOr<std::unique_ptr<FileBelow>> Hooked(absl::StatusOr<std::unique_ptr<FileBelow>> file,
                                                    const std::string& path) {
    if (!file.ok()) return file.status();
    return std::make_unique<HookedFile>(*std::move(file), path, hooks_);
  }

  const std::unique_ptr<Tree> tree_;
  const TreeHooks& hooks_;
};

}  // namespace

std::unique_ptr<Tree> HookTree(std::unique_ptr<Tree> tree, const TreeHooks& hooks) {
  return std::make_unique<HookedTree>(std::move(tree), hooks);
}

}  // namespace cairn::testing
