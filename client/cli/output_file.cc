#include "client/cli/output_file.h"

#include <limits.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "storage/base/path.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;

// Where the output goes: absolute, without links.
absl::StatusOr<std::string> Resolve(const std::string& given, const OutputFile::Options& options) {
  if (given.empty()) return InvalidArgument("the output has no name");
  if (given == "-")
    return InvalidArgument(
        "the parts of this file are not written in order: it cannot go to "
        "standard output");
  std::error_code error;
  if (!fs::exists(fs::symlink_status(given, error))) {
    const fs::path folder = fs::path(given).parent_path();
    const fs::path parent = fs::canonical(folder.empty() ? "." : folder, error);
    if (error) return NotFound("{}: its directory: {}", given, error.message());
    const std::string name = fs::path(given).filename();
    if (name.empty()) return InvalidArgument("{} is the name of a directory: name a file", given);
    return (parent / name).string();
  }
  const fs::path path = fs::canonical(given, error);
  if (error) return InvalidArgument("{} is a symbolic link that leads nowhere: {}", given, error.message());
  if (fs::is_directory(path, error)) return InvalidArgument("{} is a directory: name a file in it", given);
  if (!fs::is_regular_file(path, error)) return InvalidArgument("{} is a device or a pipe: only files are made", given);
  if (fs::equivalent(path, options.input, error)) return InvalidArgument("{} is the input itself", given);
  if (!options.force) return AlreadyExists("{} is there already: --force replaces it", given);
  return path.string();
}

// What a signal leaves behind is removed by its handler, which may use nothing but a name in a fixed place.
std::array<char, PATH_MAX> work_to_remove;
constexpr std::array<int, 3> kEndings = {SIGINT, SIGTERM, SIGHUP};

void RemoveAndEnd(int signal_number) {
  ::unlink(work_to_remove.data());
  ::signal(signal_number, SIG_DFL);
  ::raise(signal_number);
}

void RemoveOnSignal(const std::string& work) {
  if (work.size() >= work_to_remove.size()) return;  // beyond PATH_MAX nothing can be opened either
  std::memcpy(work_to_remove.data(), work.c_str(), work.size() + 1);
  for (const int ending : kEndings) {
    struct sigaction before {};
    // nohup: what is ignored stays ignored.
    if (::sigaction(ending, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    ::signal(ending, RemoveAndEnd);
  }
  ::signal(SIGXFSZ, SIG_IGN);  // a file beyond the limit is an error of the write, which says so
}

void ForgetOnSignal() {
  for (const int ending : kEndings) {
    struct sigaction before {};
    if (::sigaction(ending, nullptr, &before) == 0 && before.sa_handler == RemoveAndEnd) ::signal(ending, SIG_DFL);
  }
}

}  // namespace

OutputFile::OutputFile(Disk& disk, std::string path, bool force)
    : disk_(disk), path_(std::move(path)), work_(WorkName(path_)), force_(force) {}

OutputFile::~OutputFile() {
  if (committed_) return;
  file_.reset();
  disk_.Remove(work_).IgnoreError();  // nothing was promised; it may never have been made
  ForgetOnSignal();
}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(Disk& disk, const std::string& given, Options options) {
  CAIRN_ASSIGN_OR_RETURN(std::string path, Resolve(given, options));
  auto output = std::unique_ptr<OutputFile>(new OutputFile(disk, std::move(path), options.force));
  RemoveOnSignal(output->work_);
  CAIRN_ASSIGN_OR_RETURN(
      output->file_,
      disk.Open(output->work_, {.writable = true, .create = true, .exclusive = true, .mode = options.mode & 0666}));
  if (options.bytes > 0) {
    CAIRN_ASSIGN_OR_RETURN(const std::uint64_t free_bytes, disk.FreeBytes(ParentOf(output->path_)));
    if (options.bytes > free_bytes) {
      return ResourceExhausted("{}: it takes {} bytes, {} are free", output->path_, options.bytes, free_bytes);
    }
    CAIRN_RETURN_IF_ERROR(output->file_->Truncate(options.bytes));
  }
  return output;
}

absl::Status OutputFile::Publish() {
  if (force_) return disk_.Rename(work_, path_);
  const absl::Status linked = disk_.Link(work_, path_);
  if (linked.ok()) return disk_.Remove(work_);
  if (absl::IsAlreadyExists(linked)) return linked;
  // A file system without links. What is made there between these two calls is lost.
  if (disk_.Info(path_).ok()) return AlreadyExists("{} was made by somebody else meanwhile", path_);
  return disk_.Rename(work_, path_);
}

absl::Status OutputFile::Commit() {
  CAIRN_RETURN_IF_ERROR(file_->Sync());
  CAIRN_RETURN_IF_ERROR(Publish());
  committed_ = true;
  ForgetOnSignal();
  return disk_.SyncDirectory(ParentOf(path_));
}

}  // namespace cairn::cli
