// Other nodes, as a test has them: links by a simulated network without trust, which can refuse to let this daemon be a
// member, and their files on disks that the test gives.
#ifndef CAIRN_TESTS_DAEMON_CORE_FAKE_ACCESS_H_
#define CAIRN_TESTS_DAEMON_CORE_FAKE_ACCESS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/bulk/net.h"
#include "daemon/peers/access.h"
#include "tests/daemon/peers/sim_network.h"
#include "tests/support/fake_disk.h"

namespace cairn {

// Tells of bytes before they are read.
class ServedFile final : public File {
 public:
  using OnRead = std::function<void(std::uint64_t bytes)>;
  ServedFile(std::unique_ptr<File> file, OnRead on_read) : file_(std::move(file)), on_read_(std::move(on_read)) {}
  absl::Status ReadAt(std::uint64_t offset, std::span<std::byte> target) override {
    on_read_(target.size());
    return file_->ReadAt(offset, target);
  }
  void ReadAsync(std::uint64_t offset, std::span<std::byte> target, Done done) override {
    on_read_(target.size());
    file_->ReadAsync(offset, target, std::move(done));
  }
  absl::Status WriteAt(std::uint64_t, std::span<const std::byte>) override { return No(); }
  void WriteAsync(std::uint64_t, std::span<const std::byte>, Done done) override { done(No()); }
  absl::Status Truncate(std::uint64_t) override { return No(); }
  absl::Status Sync() override { return No(); }
  absl::StatusOr<FileInfo> Info() override { return file_->Info(); }
  absl::Status TryLock() override { return No(); }
  bool direct() const override { return file_->direct(); }
  const std::string& path() const override { return file_->path(); }

 private:
  static absl::Status No() { return absl::PermissionDeniedError("another node's file"); }
  const std::unique_ptr<File> file_;
  const OnRead on_read_;
};

// What a node serves of its disk: what is below a folder, to be read. Null: nobody answers there.
class ServedDisk final : public Disk {
 public:
  ServedDisk(Disk* disk, std::string folder, ServedFile::OnRead on_read = nullptr)
      : disk_(disk), folder_(std::move(folder)), on_read_(std::move(on_read)) {}
  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenOptions options) override {
    if (disk_ == nullptr) return Gone();
    auto file = disk_->Open(folder_ + path, options);
    if (!file.ok() || !on_read_) return file;
    return std::make_unique<ServedFile>(*std::move(file), on_read_);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    if (disk_ == nullptr) return Gone();
    return disk_->List(folder_ + path);
  }
  absl::StatusOr<FileInfo> Info(const std::string& path) override {
    if (disk_ == nullptr) return Gone();
    return disk_->Info(folder_ + path);
  }
  absl::Status Rename(const std::string&, const std::string&) override { return No(); }
  absl::Status RenameNew(const std::string&, const std::string&) override { return No(); }
  absl::Status Link(const std::string&, const std::string&) override { return No(); }
  absl::Status Clone(const std::string&, const std::string&) override { return No(); }
  absl::Status Symlink(const std::string&, const std::string&) override { return No(); }
  absl::StatusOr<std::string> ReadLink(const std::string&) override { return No(); }
  absl::StatusOr<std::string> RealPath(const std::string&) override { return No(); }
  absl::Status Remove(const std::string&) override { return No(); }
  absl::Status MakeDirectory(const std::string&, std::uint32_t) override { return No(); }
  absl::Status SyncDirectory(const std::string&) override { return No(); }
  absl::Status SetModeAndTimes(const std::string&, std::uint32_t, timespec, timespec) override { return No(); }
  absl::StatusOr<std::uint64_t> FreeBytes(const std::string&) override { return No(); }
  absl::StatusOr<std::uint64_t> FileSystemType(const std::string&) override { return No(); }

 private:
  static absl::Status No() { return absl::PermissionDeniedError("another node's disk"); }
  static absl::Status Gone() { return absl::UnavailableError("the node is gone"); }
  Disk* const disk_;
  const std::string folder_;
  const ServedFile::OnRead on_read_;
};

// Strand only.
class FakeBulk final : public BulkNet {
 public:
  // Where the nodes of a test find each other's files.
  struct Shared {
    std::map<std::string, std::pair<Disk*, std::string>> served;  // by address: a disk, and a folder on it
    // Before bytes of the files there are read by others.
    std::function<void(const std::string& address, std::uint64_t bytes)> on_read;
  };

  std::shared_ptr<Disk> DiskOf(const RunId&, const std::string& node, const std::string& at_address) override {
    if (shared != nullptr) {
      const auto at = shared->served.find(at_address);
      if (at == shared->served.end()) return std::make_shared<ServedDisk>(nullptr, "");
      return std::make_shared<ServedDisk>(at->second.first, at->second.second,
                                          [all = shared, at_address](std::uint64_t bytes) {
                                            if (all->on_read) all->on_read(at_address, bytes);
                                          });
    }
    const auto at = disks.find(node);
    return at == disks.end() ? std::make_shared<FakeDisk>() : at->second;
  }
  void Serve(const RunId&, Disk& disk, const std::string& folder) override {
    served = folder;
    if (shared != nullptr) shared->served[address] = {&disk, folder};
  }
  void Unserve(const RunId&) override {
    served.clear();
    if (shared != nullptr) shared->served.erase(address);
  }

  Shared* shared = nullptr;  // of all nodes of the test
  std::string address;       // of this one

  std::map<std::string, std::shared_ptr<Disk>> disks;  // by node; else it has no files
  std::string served;                                  // this daemon's folder; empty: none
};

class FakeAccess final : public PeerAccess {
 public:
  FakeAccess(SimNetwork& network, std::string address) : network_(network), address_(std::move(address)) {}
  absl::Status Open(Loop& loop, const std::string& node, std::uint64_t incarnation) override {
    net_ = &network_.Open(address_, {.run = run, .node = node, .incarnation = incarnation}, loop);
    return absl::OkStatus();
  }
  PeerNet& net() override { return *net_; }
  FakeBulk& bulk() override { return bulk_; }
  absl::StatusOr<std::function<void()>> Enter(Disk&, const std::string& prefix, const RunId&) override {
    ++entered;
    entered_at = prefix;
    if (!refuse.ok()) return refuse;
    return [this] { member = true; };
  }
  void Leave(const RunId&) override { member = false; }
  void Close() override {}

  RunId run;
  absl::Status refuse;
  int entered = 0;
  std::string entered_at;  // the prefix
  bool member = false;

 private:
  SimNetwork& network_;
  const std::string address_;
  PeerNet* net_ = nullptr;
  FakeBulk bulk_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_FAKE_ACCESS_H_
