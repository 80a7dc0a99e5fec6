#include "tests/support/fuse/fuse_server.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fuse/fuse_control.h"
#include "tests/support/fuse/fuse_nodes.h"

namespace cairn {
namespace {

// Of the protocol (linux/fuse.h), which says by version what the structures have. This one has all that is used.
constexpr std::uint32_t kMinor = 31;
constexpr std::uint32_t kWriteBytesMax = 128 << 10;
constexpr std::size_t kRequestBytesMax = kWriteBytesMax + 8192;

// One request, and what is answered.
class Request {
 public:
  explicit Request(std::string bytes) : bytes_(std::move(bytes)) {}

  const fuse_in_header& head() const { return *reinterpret_cast<const fuse_in_header*>(bytes_.data()); }
  template <typename T>
  const T& Arguments() const {
    return *reinterpret_cast<const T*>(bytes_.data() + sizeof(fuse_in_header));
  }
  // Behind the arguments, which are `bytes` long: a name, or what is to be written.
  const char* After(std::size_t bytes) const { return bytes_.data() + sizeof(fuse_in_header) + bytes; }

  // The name in it, if it has one.
  const char* Name() const {
    switch (head().opcode) {
      case FUSE_LOOKUP:
      case FUSE_UNLINK:
      case FUSE_RMDIR:
      case FUSE_SYMLINK:
        return After(0);
      case FUSE_MKDIR:
        return After(sizeof(fuse_mkdir_in));
      case FUSE_MKNOD:
        return After(sizeof(fuse_mknod_in));
      case FUSE_CREATE:
        return After(sizeof(fuse_create_in));
      case FUSE_LINK:
        return After(sizeof(fuse_link_in));
      case FUSE_RENAME:
        return After(sizeof(fuse_rename_in));
      case FUSE_RENAME2:
        return After(sizeof(fuse_rename2_in));
      default:
        return nullptr;
    }
  }

 private:
  std::string bytes_;  // ends with a zero, so that no name leads beyond it
};

template <typename T>
std::string BytesOf(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

int Result(long done) {
  return done < 0 ? -errno : 0;
}

class Server {
 public:
  explicit Server(const FuseServing& serving) : serving_(serving), nodes_(serving.root) {}
  void Run();

 private:
  bool TakeRequest();
  bool TakeControl();
  void Handle(const Request& request);
  void Answer(const Request& request, int error, const std::string& body = {});
  FuseControl* FaultOf(const Request& request);
  void Interrupt(std::uint64_t unique);

  // Each answers 0 and fills `body`, or a negative errno.
  int Do(const Request& request, std::string* body);
  int Init(const Request& request, std::string* body);
  int Entry(std::uint64_t parent, const char* name, std::string* body);
  int Made(const Request& request, int result, const char* name, std::string* body);
  int Attributes(std::uint64_t node, std::string* body);
  int SetAttributes(const Request& request, std::string* body);
  int Rename(const Request& request, std::uint64_t to, std::uint32_t flags, const char* name);
  int Open(const Request& request, std::string* body);
  int Create(const Request& request, std::string* body);
  int Read(const Request& request, std::string* body);
  int Write(const Request& request, std::string* body);
  int Sync(const Request& request);
  int OpenDirectory(const Request& request, std::string* body);
  int ReadDirectory(const Request& request, std::string* body);
  int FileSystem(std::string* body);
  void ForgetMany(const Request& request);

  const FuseServing serving_;
  FuseNodes nodes_;
  std::vector<FuseControl> faults_;
  std::vector<Request> hanging_;
};

void Server::Run() {
  for (;;) {
    std::array<pollfd, 2> ready = {pollfd{.fd = serving_.device, .events = POLLIN, .revents = 0},
                                   pollfd{.fd = serving_.control, .events = POLLIN, .revents = 0}};
    if (::poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) return;
    if (ready[1].revents != 0 && !TakeControl()) return;
    if (ready[0].revents != 0 && !TakeRequest()) return;
  }
}

bool Server::TakeControl() {
  FuseControl message{};
  if (::recv(serving_.control, &message, sizeof message, 0) != sizeof message) return false;
  if (message.kind == FuseControl::kFail || message.kind == FuseControl::kHang) faults_.push_back(message);
  if (message.kind == FuseControl::kRelease) {
    faults_.clear();
    for (const Request& request : std::exchange(hanging_, {})) Handle(request);
  }
  const auto hanging = static_cast<std::uint32_t>(hanging_.size());
  return ::send(serving_.control, &hanging, sizeof hanging, MSG_NOSIGNAL) == sizeof hanging;
}

bool Server::TakeRequest() {
  std::string bytes(kRequestBytesMax, '\0');
  const ssize_t size = ::read(serving_.device, bytes.data(), bytes.size());
  if (size < 0) return errno == EINTR || errno == EAGAIN || errno == ENOENT;  // ENODEV: unmounted
  bytes.resize(static_cast<std::size_t>(size));
  Request request(std::move(bytes));
  FuseControl* const fault = FaultOf(request);
  if (fault == nullptr) {
    Handle(request);
    return true;
  }
  --fault->times;
  if (fault->kind == FuseControl::kHang) {
    hanging_.push_back(std::move(request));
  } else {
    Answer(request, -fault->error);
  }
  return true;
}

FuseControl* Server::FaultOf(const Request& request) {
  const std::uint32_t opcode = request.head().opcode;
  if (opcode == FUSE_INIT || opcode == FUSE_FORGET || opcode == FUSE_BATCH_FORGET || opcode == FUSE_INTERRUPT) {
    return nullptr;
  }
  const char* const given = request.Name();
  const std::string name = given != nullptr ? given : nodes_.NameOf(request.head().nodeid);
  for (FuseControl& fault : faults_) {
    if (fault.times > 0 && (fault.opcode == 0 || fault.opcode == opcode) &&
        name.find(fault.name_part) != std::string::npos) {
      return &fault;
    }
  }
  return nullptr;
}

void Server::Answer(const Request& request, int error, const std::string& body) {
  fuse_out_header head{};
  head.unique = request.head().unique;
  head.error = error;
  head.len = static_cast<std::uint32_t>(sizeof head + (error == 0 ? body.size() : 0));
  const std::array<iovec, 2> parts = {iovec{&head, sizeof head},
                                      iovec{const_cast<char*>(body.data()), error == 0 ? body.size() : 0}};
  // ENOENT: the process that waited has been killed.
  [[maybe_unused]] const ssize_t written = ::writev(serving_.device, parts.data(), parts.size());
}

void Server::Handle(const Request& request) {
  switch (request.head().opcode) {  // those without an answer
    case FUSE_FORGET:
      return nodes_.Forget(request.head().nodeid, request.Arguments<fuse_forget_in>().nlookup);
    case FUSE_BATCH_FORGET:
      return ForgetMany(request);
    case FUSE_INTERRUPT:
      return Interrupt(request.Arguments<fuse_interrupt_in>().unique);
    default:
      break;
  }
  std::string body;
  const int error = Do(request, &body);
  Answer(request, error, body);
}

void Server::Interrupt(std::uint64_t unique) {
  const auto found = std::find_if(hanging_.begin(), hanging_.end(),
                                  [unique](const Request& request) { return request.head().unique == unique; });
  if (found == hanging_.end()) return;
  Answer(*found, -EINTR);
  hanging_.erase(found);
}

void Server::ForgetMany(const Request& request) {
  const auto& all = request.Arguments<fuse_batch_forget_in>();
  const auto* one = reinterpret_cast<const fuse_forget_one*>(request.After(sizeof all));
  for (std::uint32_t i = 0; i < all.count; ++i) nodes_.Forget(one[i].nodeid, one[i].nlookup);
}

int Server::Do(const Request& request, std::string* body) {
  const fuse_in_header& head = request.head();
  const int here = nodes_.Of(head.nodeid);
  switch (head.opcode) {
    case FUSE_INIT:
      return Init(request, body);
    case FUSE_LOOKUP:
      return Entry(head.nodeid, request.Name(), body);
    case FUSE_GETATTR:
      return Attributes(head.nodeid, body);
    case FUSE_SETATTR:
      return SetAttributes(request, body);
    case FUSE_READLINK: {
      body->resize(PATH_MAX);
      const ssize_t size = ::readlinkat(here, "", body->data(), body->size());
      body->resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
      return Result(size);
    }
    case FUSE_SYMLINK: {
      const std::string name = request.Name();
      return Made(request, ::symlinkat(request.After(name.size() + 1), here, name.c_str()), name.c_str(), body);
    }
    case FUSE_MKNOD: {
      const auto& in = request.Arguments<fuse_mknod_in>();
      return Made(request, ::mknodat(here, request.Name(), in.mode, in.rdev), request.Name(), body);
    }
    case FUSE_MKDIR:
      return Made(request, ::mkdirat(here, request.Name(), request.Arguments<fuse_mkdir_in>().mode), request.Name(),
                  body);
    case FUSE_UNLINK:
      return Result(::unlinkat(here, request.Name(), 0));
    case FUSE_RMDIR:
      return Result(::unlinkat(here, request.Name(), AT_REMOVEDIR));
    case FUSE_RENAME:
      return Rename(request, request.Arguments<fuse_rename_in>().newdir, 0, request.Name());
    case FUSE_RENAME2: {
      const auto& in = request.Arguments<fuse_rename2_in>();
      return Rename(request, in.newdir, in.flags, request.Name());
    }
    case FUSE_LINK: {
      if (serving_.options.no_links != 0) return -serving_.options.no_links;
      const std::string from = nodes_.PathOf(request.Arguments<fuse_link_in>().oldnodeid);
      if (::linkat(AT_FDCWD, from.c_str(), here, request.Name(), AT_SYMLINK_FOLLOW) != 0) return -errno;
      return Entry(head.nodeid, request.Name(), body);
    }
    case FUSE_OPEN:
      return Open(request, body);
    case FUSE_CREATE:
      return Create(request, body);
    case FUSE_READ:
      return Read(request, body);
    case FUSE_WRITE:
      return Write(request, body);
    case FUSE_FSYNC:
    case FUSE_FSYNCDIR:
      return Sync(request);
    case FUSE_FLUSH:
      return 0;
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
      nodes_.Close(request.Arguments<fuse_release_in>().fh);
      return 0;
    case FUSE_OPENDIR:
      return OpenDirectory(request, body);
    case FUSE_READDIR:
      return ReadDirectory(request, body);
    case FUSE_STATFS:
      return FileSystem(body);
    case FUSE_FALLOCATE: {
      const auto& in = request.Arguments<fuse_fallocate_in>();
      FuseNodes::Handle* const handle = nodes_.HandleOf(in.fh);
      if (handle == nullptr) return -EBADF;
      return Result(::fallocate(handle->fd.get(), static_cast<int>(in.mode), static_cast<off_t>(in.offset),
                                static_cast<off_t>(in.length)));
    }
    default:
      return -ENOSYS;  // the kernel does without, and does not ask again
  }
}

int Server::Init(const Request& request, std::string* body) {
  const auto& in = request.Arguments<fuse_init_in>();
  fuse_init_out out{};
  out.major = FUSE_KERNEL_VERSION;
  out.minor = kMinor;
  out.max_readahead = in.max_readahead;
  out.flags = in.flags & (FUSE_BIG_WRITES | FUSE_MAX_PAGES);
  out.max_background = 16;
  out.congestion_threshold = 12;
  out.max_write = kWriteBytesMax;
  out.max_pages = kWriteBytesMax / 4096;
  out.time_gran = 1;
  *body = BytesOf(out);
  return in.major == FUSE_KERNEL_VERSION ? 0 : -EPROTO;
}

int Server::Entry(std::uint64_t parent, const char* name, std::string* body) {
  fuse_entry_out entry{};
  const int error = nodes_.Find(parent, name, &entry);
  *body = BytesOf(entry);
  return error;
}

int Server::Made(const Request& request, int result, const char* name, std::string* body) {
  if (result != 0) return -errno;
  const fuse_in_header& head = request.head();
  if (::fchownat(nodes_.Of(head.nodeid), name, head.uid, head.gid, AT_SYMLINK_NOFOLLOW) != 0) return -errno;
  return Entry(head.nodeid, name, body);
}

int Server::Attributes(std::uint64_t node, std::string* body) {
  fuse_attr_out out{};
  const int error = nodes_.AttributesOf(node, &out.attr);
  *body = BytesOf(out);
  return error;
}

int Server::SetAttributes(const Request& request, std::string* body) {
  const auto& in = request.Arguments<fuse_setattr_in>();
  const std::string path = nodes_.PathOf(request.head().nodeid);
  if ((in.valid & FATTR_MODE) != 0 && ::chmod(path.c_str(), in.mode & 07777) != 0) return -errno;
  if ((in.valid & (FATTR_UID | FATTR_GID)) != 0) {
    const uid_t uid = (in.valid & FATTR_UID) != 0 ? in.uid : static_cast<uid_t>(-1);
    const gid_t gid = (in.valid & FATTR_GID) != 0 ? in.gid : static_cast<gid_t>(-1);
    if (::chown(path.c_str(), uid, gid) != 0) return -errno;
  }
  if ((in.valid & FATTR_SIZE) != 0 && ::truncate(path.c_str(), static_cast<off_t>(in.size)) != 0) return -errno;
  if ((in.valid & (FATTR_ATIME | FATTR_MTIME)) != 0) {
    const auto time = [&](std::uint32_t set, std::uint32_t now, std::uint64_t seconds, std::uint32_t nanoseconds) {
      const bool at_all = (in.valid & set) != 0;
      return timespec{.tv_sec = static_cast<time_t>(seconds),
                      .tv_nsec = !at_all                 ? UTIME_OMIT
                                 : (in.valid & now) != 0 ? UTIME_NOW
                                                         : long{nanoseconds}};
    };
    const timespec times[2] = {time(FATTR_ATIME, FATTR_ATIME_NOW, in.atime, in.atimensec),
                               time(FATTR_MTIME, FATTR_MTIME_NOW, in.mtime, in.mtimensec)};
    if (::utimensat(AT_FDCWD, path.c_str(), times, 0) != 0) return -errno;
  }
  return Attributes(request.head().nodeid, body);
}

int Server::Rename(const Request& request, std::uint64_t to, std::uint32_t flags, const char* name) {
  if (flags != 0 && serving_.options.no_rename_flags != 0) return -serving_.options.no_rename_flags;
  const std::string from = name;
  const char* const new_name = name + from.size() + 1;
  return Result(::renameat2(nodes_.Of(request.head().nodeid), from.c_str(), nodes_.Of(to), new_name, flags));
}

int Server::Open(const Request& request, std::string* body) {
  const auto flags = static_cast<int>(request.Arguments<fuse_open_in>().flags);
  UniqueFd fd(::open(nodes_.PathOf(request.head().nodeid).c_str(), (flags & (O_ACCMODE | O_APPEND)) | O_CLOEXEC));
  if (!fd.valid()) return -errno;
  fuse_open_out out{};
  out.fh = nodes_.AddHandle(std::move(fd));
  *body = BytesOf(out);
  return 0;
}

int Server::Create(const Request& request, std::string* body) {
  const auto& in = request.Arguments<fuse_create_in>();
  const int flags = (static_cast<int>(in.flags) & (O_ACCMODE | O_APPEND | O_EXCL | O_TRUNC)) | O_CREAT | O_CLOEXEC;
  const int here = nodes_.Of(request.head().nodeid);
  UniqueFd fd(::openat(here, request.Name(), flags | O_NOFOLLOW, in.mode & 07777));
  if (!fd.valid()) return -errno;
  if (const int error = Made(request, 0, request.Name(), body); error != 0) return error;
  fuse_open_out out{};
  out.fh = nodes_.AddHandle(std::move(fd));
  body->append(BytesOf(out));
  return 0;
}

int Server::Read(const Request& request, std::string* body) {
  const auto& in = request.Arguments<fuse_read_in>();
  FuseNodes::Handle* const handle = nodes_.HandleOf(in.fh);
  if (handle == nullptr) return -EBADF;
  body->resize(in.size);
  const ssize_t size = ::pread(handle->fd.get(), body->data(), body->size(), static_cast<off_t>(in.offset));
  body->resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  return Result(size);
}

int Server::Write(const Request& request, std::string* body) {
  const auto& in = request.Arguments<fuse_write_in>();
  FuseNodes::Handle* const handle = nodes_.HandleOf(in.fh);
  if (handle == nullptr) return -EBADF;
  const ssize_t size = ::pwrite(handle->fd.get(), request.After(sizeof in), in.size, static_cast<off_t>(in.offset));
  fuse_write_out out{};
  out.size = static_cast<std::uint32_t>(std::max<ssize_t>(size, 0));
  *body = BytesOf(out);
  return Result(size);
}

int Server::Sync(const Request& request) {
  FuseNodes::Handle* const handle = nodes_.HandleOf(request.Arguments<fuse_fsync_in>().fh);
  return handle == nullptr ? -EBADF : Result(::fsync(handle->fd.get()));
}

int Server::OpenDirectory(const Request& request, std::string* body) {
  UniqueFd fd(::openat(nodes_.Of(request.head().nodeid), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return -errno;
  fuse_open_out out{};
  out.fh = nodes_.AddHandle(std::move(fd));
  *body = BytesOf(out);
  return 0;
}

int Server::ReadDirectory(const Request& request, std::string* body) {
  const auto& in = request.Arguments<fuse_read_in>();
  FuseNodes::Handle* const handle = nodes_.HandleOf(in.fh);
  if (handle == nullptr) return -EBADF;
  if (in.offset == 0) {
    handle->entries.clear();
    const int again = ::openat(handle->fd.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(again), ::closedir);
    if (directory == nullptr) return -errno;
    while (const dirent* entry = ::readdir(directory.get())) {
      struct stat stat {};
      stat.st_ino = entry->d_ino;
      stat.st_mode = entry->d_type;
      handle->entries.emplace_back(entry->d_name, stat);
    }
  }
  for (std::size_t i = in.offset; i < handle->entries.size(); ++i) {
    const auto& [name, stat] = handle->entries[i];
    fuse_dirent head{};
    head.ino = stat.st_ino;
    head.off = i + 1;
    head.namelen = static_cast<std::uint32_t>(name.size());
    head.type = stat.st_mode;
    std::string entry(FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + name.size()), '\0');
    if (body->size() + entry.size() > in.size) break;
    std::memcpy(entry.data(), &head, FUSE_NAME_OFFSET);
    std::memcpy(entry.data() + FUSE_NAME_OFFSET, name.data(), name.size());
    body->append(entry);
  }
  return 0;
}

int Server::FileSystem(std::string* body) {
  struct statvfs stat {};
  if (::fstatvfs(nodes_.Of(FUSE_ROOT_ID), &stat) != 0) return -errno;
  fuse_statfs_out out{};
  out.st.blocks = stat.f_blocks;
  out.st.bfree = stat.f_bfree;
  out.st.bavail = stat.f_bavail;
  out.st.files = stat.f_files;
  out.st.ffree = stat.f_ffree;
  out.st.bsize = static_cast<std::uint32_t>(stat.f_bsize);
  out.st.namelen = static_cast<std::uint32_t>(stat.f_namemax);
  out.st.frsize = static_cast<std::uint32_t>(stat.f_frsize);
  *body = BytesOf(out);
  return 0;
}

}  // namespace

void ServeFuse(const FuseServing& serving) {
  ::umask(0);  // the kernel has applied that of the process that asks
  Server(serving).Run();
}

}  // namespace cairn
