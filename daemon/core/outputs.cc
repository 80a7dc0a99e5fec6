// The application's own files: written by it into the cache, then synced, summed up and taken up the ladder like a
// checkpoint file.
#include <algorithm>
#include <chrono>
#include <set>

#include "daemon/core/core_impl.h"
#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/cache/catalogue.h"
#include "storage/prefix/place.h"

namespace cairn {
namespace {

// A rank's names go into one record of at most 64 MiB, with some hundred bytes each.
constexpr std::size_t kFilesMax = 64 << 10;

// What the application has left under the names that it was given. Blocks.
absl::StatusOr<ListedFiles> ListRouted(Disk& disk, const std::map<std::string, RoutedFile>& routed) {
  ListedFiles listed;
  std::set<std::string> folders;
  for (const auto& [name, file] : routed) {
    const std::string root = file.path.substr(0, file.path.size() - name.size());
    for (std::size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
      const std::string folder = root + name.substr(0, slash);
      if (!folders.insert(folder).second) continue;
      CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk.Info(folder));
      if (!info.is_directory()) return FailedPrecondition("{} is not a directory any more", folder);
    }
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk.Info(file.path));
    if (!info.is_regular()) return FailedPrecondition("{} is not a regular file", file.path);
    listed[name] = {.routed = file, .info = info};
  }
  return listed;
}

}  // namespace

void CoreImpl::HandleOutputBegin(const SessionPtr& session, const CallPtr& call, const local::OutputBegin& begin) {
  if (quiescing_) return call->Fail(Unavailable("the daemon is going away"));
  if (session->files && session->files->failed) session->files = nullptr;
  if (const auto open = session->files;
      open && open->dataset->step == begin.step() && open->dataset->attempt == begin.attempt()) {
    local::Reply again;  // the answer was lost with the connection
    again.mutable_output_begin()->set_dataset(open->dataset->id);
    return call->Reply(std::move(again));
  }
  if (session->writer || session->files) {
    return call->Fail(FailedPrecondition("the last checkpoint or output of this session is not ended"));
  }
  if (!begin.checkpoint() && !begin.output()) {
    return call->Fail(InvalidArgument("an output must be CAIRN_CHECKPOINT, CAIRN_OUTPUT or both"));
  }
  if (begin.attempt() == 0) return call->Fail(InvalidArgument("attempts count from 1"));
  auto dataset = EnterDataset(session,
                              {.step = begin.step(),
                               .attempt = begin.attempt(),
                               .files = true,
                               .checkpoint = begin.checkpoint(),
                               .output = begin.output(),
                               .now_us = NowUs()},
                              {});
  if (!dataset.ok()) {
    call->Fail(dataset.status());
    return Changed(session->run);
  }
  auto files = std::make_shared<FilesWriter>();
  files->dataset = *dataset;
  files->lease = LeaseOf(session->run, (*dataset)->id);
  session->files = files;
  if (begin.growing()) BeginGrowing(session->run, *dataset);
  WithDirectory(session->run, *dataset, [this, session, files, call](const absl::Status& status) {
    if (!status.ok()) {
      call->Fail(status);
      session->run->ledger.Fail(files->dataset->id, std::string(MessageOf(status)));
      return Changed(session->run);
    }
    local::Reply reply;
    reply.mutable_output_begin()->set_dataset(files->dataset->id);
    call->Reply(std::move(reply));
  });
}

void CoreImpl::HandleRouteFile(const SessionPtr& session, const CallPtr& call, const local::RouteFile& route) {
  const std::shared_ptr<FilesWriter> files = session->files;
  if (!files) return call->Fail(FailedPrecondition("no output is begun"));
  if (files->failed) return call->Fail(WhyFailed(*session->run, *files->dataset));
  if (route.file().ends_with('/')) return RouteDirectory(session, files, call, route.file());
  auto name = NormalizeFileName(session->run->prefix_path, route.file());
  if (!name.ok()) return call->Fail(name.status());
  auto& owners = session->run->routed[files->dataset->id];
  if (!owners.contains(*name) && (files->routed.size() >= kFilesMax || owners.size() >= 8 * kFilesMax)) {
    return call->Fail(ResourceExhausted("more than {} files of a rank, or {} of a dataset", kFilesMax, 8 * kFilesMax));
  }
  if (const absl::Status free = CheckRouted(*session->run, files->dataset->id, *name, /*directory=*/false);
      !free.ok()) {
    return call->Fail(free);
  }
  auto [owner, first] = owners.try_emplace(*name, session->rank);
  if (!first && owner->second != session->rank) {
    return call->Fail(InvalidArgument("{} is rank {}'s file in dataset {}", *name, owner->second, files->dataset->id));
  }
  CheckDirectory(session, files, *name,
                 [this, session, files, call, name = *name, given = route.file()](const absl::Status& status) {
                   if (status.ok()) return RouteInStore(session, files, call, name, given);
                   GiveNameBack(*session->run, *files, name);
                   call->Fail(status);
                 });
}

// It was not routed: another rank may have the name.
void CoreImpl::GiveNameBack(Run& run, const FilesWriter& files, const std::string& name) {
  const auto owners = run.routed.find(files.dataset->id);
  if (owners != run.routed.end() && !files.routed.contains(name)) owners->second.erase(name);
}

// Where the file is to go on the prefix: its directory is looked at once. A prefix that cannot be reached now is looked
// at again by the flush.
void CoreImpl::CheckDirectory(const SessionPtr& session, const std::shared_ptr<FilesWriter>& files,
                              const std::string& name, std::function<void(absl::Status)> then) {
  const std::size_t slash = name.rfind('/');
  const std::string directory = slash == std::string::npos ? "" : name.substr(0, slash);
  const RunPtr& run = session->run;
  if (directory.empty() || files->checked.contains(directory) || !run->prefix) return then(absl::OkStatus());
  BlockingPrefix(
      [this, path = run->prefix_path, directory] { return RealDirectory(prefix_disk_, path, directory).status(); },
      [files, directory, then = std::move(then)](const absl::Status& status) {
        if (absl::IsFailedPrecondition(status)) return then(status);
        files->checked.insert(directory);
        then(absl::OkStatus());
      });
}

void CoreImpl::RouteInStore(const SessionPtr& session, const std::shared_ptr<FilesWriter>& files, const CallPtr& call,
                            const std::string& name, const std::string& given) {
  const DatasetPtr& dataset = files->dataset;
  BlockingStore(
      *dataset,
      [store = StoreOf(*session->run, *dataset), id = dataset->id, name] { return store->RouteFile(id, name); },
      [this, run = session->run, files, call, name, given](absl::StatusOr<std::string> path) {
        if (files->dataset->bypass) TellWithdrawn(run);
        if (!path.ok()) {
          GiveNameBack(*run, *files, name);
          return call->Fail(path.status());
        }
        if (files->ended) return call->Fail(FailedPrecondition("{}: the output has ended meanwhile", name));
        files->routed[name] = {.path = *path, .given = given};
        local::Reply reply;
        reply.mutable_route_file()->set_path(*path);
        call->Reply(std::move(reply));
      });
}

void CoreImpl::HandleOutputEnd(const SessionPtr& session, const CallPtr& call, const local::OutputEnd& end) {
  if (quiesced_) return call->Fail(Unavailable("the daemon is going away"));
  const std::shared_ptr<FilesWriter> files = std::exchange(session->files, nullptr);
  if (!files && session->last_output != 0 && call->connection()->resumable()) {
    local::Reply again;  // the answer was lost with the connection
    again.mutable_committed()->set_dataset(session->last_output);
    return call->Reply(std::move(again));
  }
  if (!files) return call->Fail(FailedPrecondition("no output is begun"));
  if (files->failed) return call->Fail(WhyFailed(*session->run, *files->dataset));
  files->ended = true;
  if (!end.valid()) {
    session->run->ledger.Fail(files->dataset->id, fmt::format("rank {} could not write its files", session->rank));
    call->Reply({});
    return Changed(session->run);
  }
  const bool last = IsLastToEnd(*session->run, *files->dataset, session->rank);
  auto list = [&disk = DiskOf(*files->dataset), routed = files->routed, last,
               directories =
                   session->run->routed_directories[files->dataset->id].by_name]() -> absl::StatusOr<OutputList> {
    OutputList listed{.own = {}, .below = {}, .last = last};
    CAIRN_ASSIGN_OR_RETURN(listed.own, ListRouted(disk, routed));
    if (last) {
      CAIRN_ASSIGN_OR_RETURN(listed.below, ListDirectories(disk, directories));
    }
    return listed;
  };
  BlockingStore(*files->dataset, std::move(list), [this, session, files, call](absl::StatusOr<OutputList> listed) {
    OutputListed(session, files, call, std::move(listed));
  });
}

// Names, sizes, times and inodes are taken: `captured`. The rest happens behind the application's back.
void CoreImpl::OutputListed(const SessionPtr& session, const std::shared_ptr<FilesWriter>& files, const CallPtr& call,
                            absl::StatusOr<OutputList> listed) {
  const RunPtr run = session->run;
  const DatasetPtr dataset = files->dataset;
  const Rank rank = session->rank;
  if (run->ledger.Get(dataset->id) != dataset) {
    return call->Fail(WhyFailed(*run, *dataset));
  }
  if (!listed.ok()) {
    run->ledger.Fail(dataset->id, fmt::format("rank {}: {}", rank, MessageOf(listed.status())));
    call->Fail(listed.status());
    return Changed(run);
  }
  for (const auto& [name, file] : listed->own) dataset->parts[rank].bytes += file.info.bytes;
  if (listed->last) TakeDirectories(run, dataset, std::move(listed->below));
  run->ledger.Captured(*dataset, rank);
  if (dataset->all_captured()) run->last_files_bytes = dataset->bytes();
  // How much it is was not known at its begin; what may go makes room now.
  if (!dataset->bypass) EnsureRoom(run, 0).IgnoreError();
  session->last_output = dataset->id;
  local::Reply reply;
  reply.mutable_committed()->set_dataset(dataset->id);
  call->Reply(std::move(reply));
  StoreFiles(run, files, rank, std::move(listed->own));
  Changed(run);
}

// Sums of all files, then the rank's records. What is in directories that it has routed may not be known yet.
void CoreImpl::StoreFiles(const RunPtr& run, const std::shared_ptr<FilesWriter>& files, Rank rank, ListedFiles listed) {
  const DatasetPtr dataset = files->dataset;
  if (run->ledger.Get(dataset->id) != dataset) return;  // failed meanwhile
  if (files->has_directories) {
    RoutedDirectories& directories = run->routed_directories[dataset->id];
    if (!directories.taken) {
      directories.waiting[rank] = [this, run, files, rank, listed = std::move(listed)] {
        StoreFiles(run, files, rank, listed);
      };
      return;
    }
    listed.merge(directories.files[rank]);
  }
  if (listed.size() > kFilesMax) {
    run->ledger.Fail(dataset->id,
                     fmt::format("rank {} has {} files, at most {} are possible", rank, listed.size(), kFilesMax));
    return Changed(run);
  }
  catalogue::Catalogue catalogue;
  catalogue.set_run(run->id.Hex());
  catalogue.set_launch(dataset->launch);
  catalogue.set_dataset(dataset->id);
  catalogue.set_step(dataset->step);
  catalogue.set_rank(rank);
  catalogue.set_nranks(dataset->nranks);
  catalogue.set_files(true);
  // On the prefix that may last: it is done where flushes are.
  RunBlocking(
      dataset->bypass ? pools_.flush : pools_.cache, loop_,
      [store = StoreOf(*run, *dataset), listed = std::move(listed),
       catalogue]() mutable -> absl::StatusOr<catalogue::Catalogue> {
        for (const auto& [name, file] : listed) {
          catalogue::FileEntry& entry = *catalogue.add_file();
          entry.set_name(name);
          entry.set_prefix_name(name);
          if (file.routed.given != name) entry.set_original(file.routed.given);
          CAIRN_RETURN_IF_ERROR(ChecksumFile(store->disk(), file.routed.path, file.info, /*sync=*/true, &entry));
        }
        CAIRN_RETURN_IF_ERROR(store->CommitRankFiles(catalogue));
        return catalogue;
      },
      [this, run, dataset, rank, files](absl::StatusOr<catalogue::Catalogue> done) {
        files->lease = nullptr;
        if (run->ledger.Get(dataset->id) != dataset) return;
        if (done.ok()) return PartLocal(run, dataset, rank, *std::move(done));
        run->ledger.Fail(dataset->id, fmt::format("rank {}: {}", rank, MessageOf(done.status())));
        Changed(run);
      });
}

void CoreImpl::HandleRestartFile(const SessionPtr& session, const CallPtr& call, const local::RestartFile& restart) {
  const RunPtr& run = session->run;
  DatasetPtr dataset = run->ledger.Get(restart.dataset());
  if (!dataset || !dataset->files) {
    return call->Fail(NotFound("run {} has no dataset {} of files", run->name, restart.dataset()));
  }
  if (!run->restored_files.contains(dataset->id)) {
    return call->Fail(FailedPrecondition("dataset {} must be restored before its files can be read", dataset->id));
  }
  const bool directory = restart.file().ends_with('/');
  auto name =
      directory ? DirectoryName(run->prefix_path, restart.file()) : NormalizeFileName(run->prefix_path, restart.file());
  if (!name.ok()) return call->Fail(name.status());
  for (const Part& part : dataset->parts) {
    for (const catalogue::FileEntry& file : part.catalogue.file()) {
      if (directory ? !file.prefix_name().starts_with(*name + "/") : file.prefix_name() != *name) continue;
      local::Reply reply;
      reply.mutable_restart_file()->set_path(dataset->in_cache ? run->cache->DatasetPath(dataset->id) + "/" +
                                                                     (directory ? *name : file.name())
                                                               : run->prefix->FilePath(*name));
      return call->Reply(std::move(reply));
    }
  }
  call->Fail(NotFound("dataset {} has no file {}{}", dataset->id, directory ? "below " : "", *name));
}

}  // namespace cairn
