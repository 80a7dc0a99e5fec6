#include "daemon/core/outputs.h"

#include <algorithm>
#include <utility>

#include "daemon/core/part_record.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/place/prefix/place.h"

namespace cairn {
namespace {

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

// Sums of all files, then the rank's records, which it answers. Blocks.
absl::StatusOr<catalogue::Catalogue> SumAndCommit(DatasetStore& store, const ListedFiles& listed,
                                                  catalogue::Catalogue catalogue) {
  for (const auto& [name, file] : listed) {
    catalogue::FileEntry& entry = *catalogue.add_file();
    entry.set_name(name);
    entry.set_prefix_name(name);
    if (file.routed.given != name) entry.set_original(file.routed.given);
    CAIRN_RETURN_IF_ERROR(ChecksumFile(store.disk(), file.routed.path, file.info, /*sync=*/true, &entry));
  }
  CAIRN_RETURN_IF_ERROR(store.CommitRankFiles(catalogue));
  return catalogue;
}

void AnswerBegin(Call& call, DatasetId id) {
  local::Reply reply;
  reply.mutable_output_begin()->set_dataset(id);
  call.Reply(std::move(reply));
}

void AnswerEnd(Call& call, DatasetId id) {
  local::Reply reply;
  reply.mutable_committed()->set_dataset(id);
  call.Reply(std::move(reply));
}

void AnswerRoute(Call& call, const std::string& path) {
  local::Reply reply;
  reply.mutable_route_file()->set_path(path);
  call.Reply(std::move(reply));
}

void AnswerRestart(Call& call, const absl::StatusOr<std::string>& path) {
  if (!path.ok()) return call.Fail(path.status());
  local::Reply reply;
  reply.mutable_restart_file()->set_path(*path);
  call.Reply(std::move(reply));
}

// A file's, or a directory's, below the prefix.
absl::StatusOr<std::string> NameOf(const std::string& prefix, const std::string& given) {
  return given.ends_with('/') ? RoutedNames::DirectoryName(prefix, given) : NormalizeFileName(prefix, given);
}

// As the launch's home has it: where the prefix is, it may call by another name.
local::Request ForHome(local::Request request, const std::string& name) {
  request.mutable_route_file()->set_file(request.route_file().file().ends_with('/') ? name + "/" : name);
  return request;
}

}  // namespace

Outputs::WriterPtr Outputs::WriterOf(const Session& session) const {
  const auto open = open_.find(session.id);
  return open == open_.end() ? nullptr : open->second;
}

void Outputs::Fail(const Dataset& dataset, const std::string& why) {
  given_.ledger.Fail(dataset.id, why);
  given_.waits.Changed();
}

// --- Begin ---

void Outputs::Begin(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Request& request) {
  const local::OutputBegin& begin = request.output_begin();
  WriterPtr open = WriterOf(*session);
  if (open && open->failed) open = nullptr;
  if (!open && !session->followed) given_.steering.Arrived(*session);  // else it asks again, or one too much
  if (context_.quiescing()) return call->Fail(Unavailable("the daemon is going away"));
  if (!open) open_.erase(session->id);
  if (open && open->dataset->step == begin.step() && open->dataset->attempt == begin.attempt()) {
    return AnswerBegin(*call, open->dataset->id);  // the answer was lost with the connection
  }
  if (open) return call->Fail(FailedPrecondition("the last checkpoint or output of this session is not ended"));
  const auto wish = DatasetEntry::WishOf(begin);
  if (!wish.ok()) return call->Fail(wish.status());
  if (session->followed) {
    return given_.home.Ask(session, call, request, [this, session, call](const local::Reply& reply) {
      Follow(session, call, reply.output_begin().dataset());
    });
  }
  // Its files would be written from that memory. What nobody restarts from may be.
  if (const std::string dirty = given_.ledger.WhyDirty(session->launch); !dirty.empty() && begin.checkpoint()) {
    return call->Fail(local::DIRTY, dirty);
  }
  const auto dataset = given_.entry.Enter(*session, *wish, {});
  if (!dataset.ok()) {
    call->Fail(dataset.status());
    return given_.waits.Changed();
  }
  given_.steering.Begun(*session, **dataset);
  if (begin.growing()) given_.growing.Begin(*dataset);
  Entered(session, call, *dataset);
}

// The rank has begun it at the launch's home. Whether there is room for its files is known here.
void Outputs::Follow(const SessionPtr& session, const std::shared_ptr<Call>& call, DatasetId id) {
  const DatasetPtr dataset = given_.ledger.Get(id);
  if (!dataset || !dataset->expects(session->rank) || !dataset->kind.files || session->ended || IsOpen(*session)) {
    return call->Fail(Aborted("dataset {} failed meanwhile", id));
  }
  const absl::Status room = given_.entry.Follow(dataset, session->rank, /*bytes=*/0);
  if (room.ok()) return Entered(session, call, dataset);
  call->Fail(room);
  Fail(*dataset, fmt::format("rank {}: {}", session->rank, MessageOf(room)));
}

void Outputs::Entered(const SessionPtr& session, const std::shared_ptr<Call>& call, const DatasetPtr& dataset) {
  auto writer = std::make_shared<Writer>();
  writer->dataset = dataset;
  writer->lease = given_.folders.Lease(dataset->id);
  open_[session->id] = writer;
  given_.entry.WithFolder(dataset, [this, dataset, call](const absl::Status& status) {
    if (status.ok()) return AnswerBegin(*call, dataset->id);
    call->Fail(status);
    Fail(*dataset, std::string(MessageOf(status)));
  });
}

// --- Names ---

void Outputs::RouteFile(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Request& request) {
  const std::string& file = request.route_file().file();
  const WriterPtr writer = WriterOf(*session);
  if (!writer) return call->Fail(FailedPrecondition("no output is begun"));
  if (writer->failed) return call->Fail(given_.ledger.WhyFailed(*writer->dataset));
  if (file.ends_with('/')) return RouteDirectory(session, writer, call, request);
  const auto name = NormalizeFileName(given_.gate.path(), file);
  if (!name.ok()) return call->Fail(name.status());
  const absl::Status taken =
      given_.names.Take(writer->dataset->id, *name, session->rank, /*own_files=*/writer->routed.size());
  if (!taken.ok()) return call->Fail(taken);
  CheckDirectory(writer, *name, [this, session, writer, call, request, name = *name](const absl::Status& status) {
    if (status.ok()) return TakeName(session, writer, call, request, name);
    GiveNameBack(*writer, name);
    call->Fail(status);
  });
}

// From the ranks on other nodes, too. A name that was once had there stays the rank's.
void Outputs::TakeName(const SessionPtr& session, const WriterPtr& writer, const std::shared_ptr<Call>& call,
                       const local::Request& request, const std::string& name) {
  const std::string given = request.route_file().file();
  if (!session->followed || writer->routed.contains(name)) return RouteInStore(writer, call, name, given);
  given_.home.AskWhatever(session, call, ForHome(request, name),
                          [this, writer, call, name, given](const local::Reply& reply) {
                            if (reply.status().code() == local::OK) return RouteInStore(writer, call, name, given);
                            GiveNameBack(*writer, name);
                            call->Reply(reply);
                          });
}

// It was not routed now. It may have been before: then it stays the rank's.
void Outputs::GiveNameBack(const Writer& writer, const std::string& name) {
  if (!writer.routed.contains(name)) given_.names.GiveBack(writer.dataset->id, name);
}

// Where the file is to go on the prefix: its directory is looked at once. A prefix that cannot be reached now is looked
// at again by the flush.
void Outputs::CheckDirectory(const WriterPtr& writer, const std::string& name, std::function<void(absl::Status)> then) {
  const std::size_t slash = name.rfind('/');
  const std::string directory = slash == std::string::npos ? "" : name.substr(0, slash);
  if (directory.empty() || writer->checked.contains(directory) || !given_.gate.prefix()) return then(absl::OkStatus());
  context_.OnPrefix(
      given_.gate.path(),
      [&disk = context_.env.prefix_disk, path = given_.gate.path(), directory] {
        return RealDirectory(disk, path, directory).status();
      },
      [writer, directory, then = std::move(then)](const absl::Status& status) {
        if (absl::IsFailedPrecondition(status)) return then(status);
        writer->checked.insert(directory);
        then(absl::OkStatus());
      });
}

void Outputs::RouteInStore(const WriterPtr& writer, const std::shared_ptr<Call>& call, const std::string& name,
                           const std::string& given) {
  const Dataset& dataset = *writer->dataset;
  given_.stores.Blocking(
      dataset, [store = given_.stores.Of(dataset), id = dataset.id, name] { return store->RouteFile(id, name); },
      [this, writer, call, name, given](const absl::StatusOr<std::string>& path) {
        if (writer->dataset->kind.past_cache) given_.stores.TellWithdrawn();
        if (!path.ok()) {
          GiveNameBack(*writer, name);
          return call->Fail(path.status());
        }
        if (writer->ended) return call->Fail(FailedPrecondition("{}: the output has ended meanwhile", name));
        writer->routed[name] = {.path = *path, .given = given};
        AnswerRoute(*call, *path);
      });
}

void Outputs::RouteDirectory(const SessionPtr& session, const WriterPtr& writer, const std::shared_ptr<Call>& call,
                             const local::Request& request) {
  const std::string& given = request.route_file().file();
  const auto name = RoutedNames::DirectoryName(given_.gate.path(), given);
  if (!name.ok()) return call->Fail(name.status());
  if (const absl::Status free = given_.names.CheckDirectory(writer->dataset->id, *name); !free.ok()) {
    return call->Fail(free);
  }
  const auto make = [this, rank = session->rank, writer, call, name = *name, given] {
    MakeDirectory(rank, writer, call, name, given);
  };
  CheckDirectory(writer, *name + "/", [this, session, call, request, name = *name, make](const absl::Status& status) {
    if (!status.ok()) return call->Fail(status);
    if (!session->followed) return make();
    given_.home.Ask(session, call, ForHome(request, name), [make](const local::Reply&) { make(); });
  });
}

void Outputs::MakeDirectory(Rank rank, const WriterPtr& writer, const std::shared_ptr<Call>& call,
                            const std::string& name, const std::string& given) {
  const Dataset& dataset = *writer->dataset;
  auto make = [store = given_.stores.Of(dataset), id = dataset.id, name]() -> absl::StatusOr<std::string> {
    CAIRN_ASSIGN_OR_RETURN(const std::string file, store->RouteFile(id, name + "/md.idx"));  // makes its directory
    return ParentOf(file);
  };
  given_.stores.Blocking(
      dataset, std::move(make), [this, rank, writer, call, name, given](const absl::StatusOr<std::string>& path) {
        if (writer->dataset->kind.past_cache) given_.stores.TellWithdrawn();
        if (!path.ok()) return call->Fail(path.status());
        if (writer->ended) return call->Fail(FailedPrecondition("{}: the output has ended meanwhile", name));
        // Its names are forgotten, also if the rank itself gave it up: `failed` does not say that.
        if (!given_.ledger.Has(writer->dataset)) return call->Fail(given_.ledger.WhyFailed(*writer->dataset));
        const absl::Status added =
            given_.names.AddDirectory(writer->dataset->id, name, {.path = *path, .given = given}, rank);
        if (!added.ok()) return call->Fail(added);
        writer->has_directories = true;
        AnswerRoute(*call, *path);
      });
}

// --- End ---

void Outputs::End(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Request& request) {
  if (context_.phase >= Phase::kQuiesced) return call->Fail(Unavailable("the daemon is going away"));
  const auto open = open_.extract(session->id);
  if (!open) {
    const auto last = last_ended_.find(session->id);
    if (last != last_ended_.end() && call->connection()->resumable()) {
      return AnswerEnd(*call, last->second);  // the answer was lost with the connection
    }
    return call->Fail(FailedPrecondition("no output is begun"));
  }
  const WriterPtr writer = open.mapped();
  if (writer->failed) return call->Fail(given_.ledger.WhyFailed(*writer->dataset));
  writer->ended = true;
  if (request.output_end().valid()) {
    ListOutput(session, writer, call, request);
  } else {
    given_.ledger.Fail(writer->dataset->id, fmt::format("rank {} could not write its files", session->rank));
    call->Reply({});
    given_.waits.Changed();
  }
  if (!session->followed) given_.steering.HandedOver(*session, *writer->dataset);
}

void Outputs::ListOutput(const SessionPtr& session, const WriterPtr& writer, const std::shared_ptr<Call>& call,
                         const local::Request& request) {
  const Dataset& dataset = *writer->dataset;
  // Over nodes the last one need not be here: AllEnded.
  const bool last = !dataset.over_nodes() && given_.names.Ended(dataset, session->rank);
  auto list = [&disk = given_.stores.DiskOf(dataset), routed = writer->routed, last,
               directories = given_.names.Directories(dataset.id)]() -> absl::StatusOr<Listed> {
    Listed listed{.own = {}, .below = {}, .last = last};
    CAIRN_ASSIGN_OR_RETURN(listed.own, ListRouted(disk, routed));
    if (last) {
      CAIRN_ASSIGN_OR_RETURN(listed.below, RoutedNames::List(disk, directories));
    }
    return listed;
  };
  given_.stores.Blocking(dataset, std::move(list),
                         [this, session, writer, call, request](absl::StatusOr<Listed> listed) {
                           OutputListed(session, writer, call, request, std::move(listed));
                         });
}

// Names, sizes, times and inodes are taken: `captured`. The rest happens behind the application's back.
void Outputs::OutputListed(const SessionPtr& session, const WriterPtr& writer, const std::shared_ptr<Call>& call,
                           const local::Request& request, absl::StatusOr<Listed> listed) {
  const DatasetPtr dataset = writer->dataset;
  const Rank rank = session->rank;
  if (!given_.ledger.Has(dataset)) return call->Fail(given_.ledger.WhyFailed(*dataset));
  if (!listed.ok()) {
    given_.ledger.Fail(dataset->id, fmt::format("rank {}: {}", rank, MessageOf(listed.status())));
    call->Fail(listed.status());
    return given_.waits.Changed();
  }
  for (const auto& [name, file] : listed->own) given_.ledger.FilesListed(*dataset, rank, file.info.bytes);
  if (listed->last) TakeDirectories(*dataset, std::move(listed->below));
  given_.ledger.Captured(*dataset, rank);
  if (session->followed) given_.home.Say(*session, request);
  if (dataset->over_nodes() && dataset->all_captured()) AllEnded(dataset);
  if (dataset->all_captured()) given_.stores.FilesWere(dataset->bytes_here());
  // How much it is was not known at its begin; what may go makes room now.
  if (!dataset->kind.past_cache) given_.cache.Reserve(0).IgnoreError();  // the bytes are there, come what may
  if (!session->ended) last_ended_[session->id] = dataset->id;
  AnswerEnd(*call, dataset->id);
  StoreFiles(writer, rank, std::move(listed->own));
  given_.waits.Changed();
}

void Outputs::TakeDirectories(const Dataset& dataset, std::map<std::string, ListedFiles> below) {
  const auto add = [this, &dataset](Rank owner, std::uint64_t bytes) {
    given_.ledger.FilesListed(dataset, owner, bytes);
  };
  for (auto& [waiting, next] : given_.names.DirectoriesListed(dataset.id, std::move(below), add)) {
    context_.loop().Post(std::move(next));
  }
}

void Outputs::AllEnded(const DatasetPtr& dataset) {
  const bool open =
      std::ranges::any_of(dataset->parts, [](const Part& part) { return !part.elsewhere && !part.captured(); });
  if (!given_.ledger.Has(dataset) || !dataset->kind.files || open) return;
  if (!dataset->followed) given_.away.AllEnded(*dataset);
  if (!given_.names.StartListing(dataset->id)) return;
  auto list = [&disk = given_.stores.DiskOf(*dataset), directories = given_.names.Directories(dataset->id)] {
    return RoutedNames::List(disk, directories);
  };
  given_.stores.Blocking(*dataset, std::move(list),
                         [this, dataset, lease = given_.folders.Lease(dataset->id)](
                             absl::StatusOr<std::map<std::string, ListedFiles>> below) {
                           if (!given_.ledger.Has(dataset)) return;
                           if (!below.ok()) return Fail(*dataset, std::string(MessageOf(below.status())));
                           TakeDirectories(*dataset, *std::move(below));
                         });
}

// Sums of all files, then the rank's records. What is in directories that it has routed may not be known yet.
void Outputs::StoreFiles(const WriterPtr& writer, Rank rank, ListedFiles listed) {
  const DatasetPtr dataset = writer->dataset;
  if (!given_.ledger.Has(dataset)) return;  // failed meanwhile
  if (writer->has_directories) {
    if (!given_.names.AreListed(dataset->id)) {
      auto next = [this, writer, rank, listed = std::move(listed)]() mutable {
        StoreFiles(writer, rank, std::move(listed));
      };
      return given_.names.WhenListed(dataset->id, rank, std::move(next));
    }
    listed.merge(given_.names.TakeListed(dataset->id, rank));
  }
  if (listed.size() > RoutedNames::kFilesMax) {
    return Fail(*dataset, fmt::format("rank {} has {} files, at most {} are possible", rank, listed.size(),
                                      RoutedNames::kFilesMax));
  }
  catalogue::Catalogue catalogue = PartRecord(given_.run, *dataset, rank, {});
  catalogue.set_files(true);
  auto sum = [store = given_.stores.Of(*dataset), listed = std::move(listed), catalogue = std::move(catalogue)] {
    return SumAndCommit(*store, listed, catalogue);
  };
  auto summed = [this, writer, dataset, rank](absl::StatusOr<catalogue::Catalogue> done) {
    writer->lease = nullptr;
    if (!given_.ledger.Has(dataset)) return;
    if (done.ok()) return given_.completion.Stored(dataset, rank, *std::move(done));
    Fail(*dataset, fmt::format("rank {}: {}", rank, MessageOf(done.status())));
  };
  if (!dataset->kind.past_cache) return context_.OnCache(std::move(sum), std::move(summed));
  // On the prefix that may last: neither captures and restores there nor flushes, which give way, have its threads. The
  // client waits for it.
  RunBlocking(context_.env.pools.far, "files written past the cache to " + given_.gate.path(), context_.env.loop,
              std::move(sum), std::move(summed));
}

// --- Reading them back ---

void Outputs::RestartFile(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Request& request) {
  const local::RestartFile& restart = request.restart_file();
  const bool directory = restart.file().ends_with('/');
  const auto name = NameOf(given_.gate.path(), restart.file());
  if (session->followed) {
    if (!name.ok()) return call->Fail(name.status());
    local::Request asked = request;  // whether it was restored, and has the file, is known there
    asked.mutable_restart_file()->set_file(directory ? *name + "/" : *name);
    return given_.home.Ask(session, call, std::move(asked), [this, call, name = *name](const local::Reply&) {
      const std::shared_ptr<Prefix>& prefix = given_.gate.prefix();
      AnswerRestart(*call, prefix ? absl::StatusOr<std::string>(prefix->FilePath(name)) : given_.gate.OutOfReach());
    });
  }
  const DatasetPtr dataset = given_.ledger.Get(restart.dataset());
  if (!dataset || !dataset->kind.files) {
    return call->Fail(NotFound("run {} has no dataset {} of files", given_.run_name, restart.dataset()));
  }
  const Launch* const launch = given_.ledger.newest();
  if (launch == nullptr || !launch->restored_files.contains(dataset->id)) {
    return call->Fail(FailedPrecondition("dataset {} must be restored before its files can be read", dataset->id));
  }
  if (!name.ok()) return call->Fail(name.status());
  for (const Part& part : dataset->parts) {
    for (const catalogue::FileEntry& file : part.catalogue.file()) {
      if (directory ? !file.prefix_name().starts_with(*name + "/") : file.prefix_name() != *name) continue;
      return AnswerRestart(*call, PathToRead(*launch, *dataset, directory ? *name : file.name()));
    }
  }
  call->Fail(NotFound("dataset {} has no file {}{}", dataset->id, directory ? "below " : "", *name));
}

// In the cache and on the prefix it has the same name.
absl::StatusOr<std::string> Outputs::PathToRead(const Launch& launch, const Dataset& dataset,
                                                const std::string& name) const {
  if (dataset.in_cache() && !FilesAreReadOnPrefix(launch, dataset)) {
    return given_.cache_folder.DatasetPath(dataset.id) + "/" + name;
  }
  if (!given_.gate.prefix()) return given_.gate.OutOfReach();
  return given_.gate.prefix()->FilePath(name);
}

// --- What ends it early ---

void Outputs::Abort(const Session& session, const std::string& reason) {
  const auto open = open_.extract(session.id);
  if (!open) return;
  given_.ledger.Fail(open.mapped()->dataset->id, fmt::format("rank {} gave up: {}", session.rank, reason));
}

void Outputs::DatasetFailed(const DatasetPtr& dataset) {
  for (auto& [id, writer] : open_) {
    if (writer->dataset != dataset) continue;
    writer->failed = true;
    writer->lease = nullptr;
  }
}

void Outputs::SessionEnded(const Session& session) {
  open_.erase(session.id);
  last_ended_.erase(session.id);
}

}  // namespace cairn
