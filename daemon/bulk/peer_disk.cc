#include "daemon/bulk/peer_disk.h"

#include <absl/synchronization/mutex.h>

#include <utility>

#include "daemon/bulk/frame.h"
#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/io/read_only.h"

namespace cairn {
namespace {

// A folder has no more: what a peer says is not believed without end.
constexpr std::size_t kListBytesMax = 64 << 20;

// What one call brought, for a thread that waits.
class Outcome {
 public:
  void Set(absl::Status status, const bulk::Answer& answer, const std::string& payload) {
    const absl::MutexLock lock(&mutex_);
    status_ = std::move(status);
    answer_ = answer;
    payload_ = payload;
    there_ = true;
    came_.SignalAll();
  }
  // It comes: each call of a peer ends.
  absl::Status Wait() {
    const absl::MutexLock lock(&mutex_);
    while (!there_) came_.Wait(&mutex_);
    return status_;
  }
  // After Wait.
  const bulk::Answer& answer() const { return answer_; }
  const std::string& payload() const { return payload_; }

 private:
  absl::Mutex mutex_;
  absl::CondVar came_;
  bool there_ = false;
  absl::Status status_;
  bulk::Answer answer_;
  std::string payload_;
};

std::shared_ptr<Outcome> AskAndWait(PeerCalls& calls, bulk::Request request) {
  auto outcome = std::make_shared<Outcome>();
  calls.Start({.request = std::move(request),
               .offset = 0,
               .target = {},
               .done = [outcome](absl::Status status, const bulk::Answer& answer, const std::string& payload) {
                 outcome->Set(std::move(status), answer, payload);
               }});
  outcome->Wait().IgnoreError();  // who asks looks for himself
  return outcome;
}

absl::StatusOr<std::string> NameOf(const std::string& path) {
  if (!path.starts_with('/')) return InvalidArgument("{}: not an absolute path", Quoted(path));
  const absl::Status status = CheckName(std::string_view(path).substr(1));
  if (!status.ok()) return Annotate(status, Quoted(path));
  return path.substr(1);
}

bulk::Request Question(bulk::Request::Op op, const std::string& name) {
  bulk::Request request;
  request.set_op(op);
  request.set_name(name);
  return request;
}

absl::StatusOr<FileInfo> AskForInfo(PeerCalls& calls, bulk::Request request) {
  const std::string name = request.name();
  const auto outcome = AskAndWait(calls, std::move(request));
  CAIRN_RETURN_IF_ERROR(outcome->Wait());
  auto info = FromMessage(outcome->answer().info());
  if (!info.ok()) return Unavailable("{}: /{}: its answer: {}", calls.title(), name, MessageOf(info.status()));
  return info;
}

class PeerFile final : public ReadOnlyFile {
 public:
  PeerFile(std::shared_ptr<PeerCalls> calls, std::string path, const FileInfo& opened)
      : calls_(std::move(calls)), path_(std::move(path)), opened_(opened) {}

  absl::Status ReadAt(std::uint64_t offset, std::span<std::byte> target) override {
    auto outcome = std::make_shared<Outcome>();
    ReadAsync(offset, target, [outcome](absl::Status status) { outcome->Set(std::move(status), {}, {}); });
    return outcome->Wait();
  }
  void ReadAsync(std::uint64_t offset, std::span<std::byte> target, Done done) override {
    if (target.empty()) return done(absl::OkStatus());
    calls_->Start({.request = Meant(bulk::Request::READ),
                   .offset = offset,
                   .target = target,
                   .done = [done = std::move(done)](absl::Status status, const bulk::Answer&, const std::string&) {
                     done(std::move(status));
                   }});
  }
  absl::StatusOr<FileInfo> Info() override { return AskForInfo(*calls_, Meant(bulk::Request::INFO)); }

  const std::string& path() const override { return path_; }

 private:
  // Of the file that was opened, whatever has its name now.
  bulk::Request Meant(bulk::Request::Op op) const {
    bulk::Request request = Question(op, path_.substr(1));
    request.set_device(opened_.device);
    request.set_inode(opened_.inode);
    return request;
  }

  const std::shared_ptr<PeerCalls> calls_;
  const std::string path_;
  const FileInfo opened_;
};

class PeerDisk final : public ReadOnlyDisk {
 public:
  explicit PeerDisk(std::shared_ptr<PeerCalls> calls) : calls_(std::move(calls)) {}

  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenOptions options) override {
    if (options.writable || options.create) return OnlyRead(path);
    CAIRN_ASSIGN_OR_RETURN(const std::string name, NameOf(path));
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, AskForInfo(*calls_, Question(bulk::Request::OPEN, name)));
    if (!info.is_regular()) return InvalidArgument("{}: {}: not a regular file", calls_->title(), path);
    return std::make_unique<PeerFile>(calls_, path, info);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::StatusOr<FileInfo> Info(const std::string& path) override {
    CAIRN_ASSIGN_OR_RETURN(const std::string name, NameOf(path));
    return AskForInfo(*calls_, Question(bulk::Request::INFO, name));
  }
  // No name here leads through a link.
  absl::StatusOr<std::string> RealPath(const std::string& path) override {
    CAIRN_RETURN_IF_ERROR(Info(path).status());
    return path;
  }
  absl::StatusOr<std::string> ReadLink(const std::string& path) override {
    CAIRN_RETURN_IF_ERROR(Info(path).status());
    return InvalidArgument("{}: {}: not a symbolic link", calls_->title(), path);
  }

 private:
  const std::shared_ptr<PeerCalls> calls_;
};

absl::StatusOr<std::vector<std::string>> PeerDisk::List(const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const std::string name, NameOf(path));
  std::vector<std::string> all;
  std::size_t bytes = 0;
  for (;;) {
    bulk::Request request = Question(bulk::Request::LIST, name);
    if (!all.empty()) request.set_after(all.back());
    const auto outcome = AskAndWait(*calls_, std::move(request));
    CAIRN_RETURN_IF_ERROR(outcome->Wait());
    auto names = ParseNames(outcome->payload(), all.empty() ? std::string_view() : all.back());
    if (!names.ok()) return Unavailable("{}: {}: its answer: {}", calls_->title(), path, MessageOf(names.status()));
    const bool more = outcome->answer().more();
    bytes += outcome->payload().size();
    if (bytes > kListBytesMax || (more && names->empty())) {
      return Unavailable("{}: {}: its answer: names without end", calls_->title(), path);
    }
    all.insert(all.end(), std::make_move_iterator(names->begin()), std::make_move_iterator(names->end()));
    if (!more) return all;
  }
}

}  // namespace

std::shared_ptr<Disk> MakePeerDisk(std::shared_ptr<PeerCalls> calls) {
  return std::make_shared<PeerDisk>(std::move(calls));
}

}  // namespace cairn
