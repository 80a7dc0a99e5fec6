// The application's own files: written by it into the cache, then synced, summed up and taken up the ladder like a
// checkpoint file. README.md, "The application's own files". Strand only.
//
// Of a launch that has its home elsewhere, begins and names are asked there; files are taken here like any other.
#ifndef CAIRN_DAEMON_CORE_OUTPUTS_H_
#define CAIRN_DAEMON_CORE_OUTPUTS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "daemon/core/away.h"
#include "daemon/core/call.h"
#include "daemon/core/completion.h"
#include "daemon/core/context.h"
#include "daemon/core/dataset_entry.h"
#include "daemon/core/dataset_folders.h"
#include "daemon/core/growing.h"
#include "daemon/core/home.h"
#include "daemon/core/ledger.h"
#include "daemon/core/prefix_gate.h"
#include "daemon/core/routed_names.h"
#include "daemon/core/run_cache.h"
#include "daemon/core/session.h"
#include "daemon/core/steering.h"
#include "daemon/core/stores.h"
#include "daemon/core/waits.h"
#include "proto/catalogue.pb.h"
#include "proto/local.pb.h"
#include "storage/base/ids.h"
#include "storage/place/cache/cache_folder.h"

namespace cairn {

class Outputs {
 public:
  struct Given {  // all borrowed
    const RunId& run;
    const std::string& run_name;
    CacheFolder& cache_folder;
    Ledger& ledger;
    PrefixGate& gate;
    Waits& waits;
    DatasetFolders& folders;
    Stores& stores;
    RunCache& cache;
    DatasetEntry& entry;
    Completion& completion;
    Steering& steering;
    Growing& growing;
    RoutedNames& names;
    Away& away;
    Home& home;
  };
  Outputs(const Context& context, const Given& given) : context_(context), given_(given) {}
  Outputs(const Outputs&) = delete;

  // --- What ranks ask. REQUIRES: no checkpoint of memory is open in the session ---
  void Begin(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Request& request);
  void RouteFile(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Request& request);
  void End(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Request& request);
  void RestartFile(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Request& request);
  void Abort(const Session& session, const std::string& reason);  // nothing if none is open; Changed is the caller's

  // --- What happens ---
  bool IsOpen(const Session& session) const { return open_.contains(session.id); }
  void DatasetFailed(const DatasetPtr& dataset);  // its names are forgotten by the caller
  // Over nodes: the ranks of all of them have ended it. What is in routed directories here is listed; at the home, the
  // others are told.
  void AllEnded(const DatasetPtr& dataset);
  void SessionEnded(const Session& session);

 private:
  // An output that a rank has open.
  struct Writer {
    DatasetPtr dataset;
    bool failed = false;
    bool ended = false;                        // what is routed now comes too late
    std::map<std::string, RoutedFile> routed;  // by normalized name
    bool has_directories = false;
    std::set<std::string> checked;  // directories below the prefix that are where they seem to be
    std::shared_ptr<void> lease;    // of the dataset's folder
  };
  using WriterPtr = std::shared_ptr<Writer>;
  // A rank's files; of the last rank to end the output also what is in the routed directories, by their names.
  struct Listed {
    ListedFiles own;
    std::map<std::string, ListedFiles> below;
    bool last = false;
  };

  WriterPtr WriterOf(const Session& session) const;  // null: none
  void Fail(const Dataset& dataset, const std::string& why);
  void Follow(const SessionPtr& session, const std::shared_ptr<Call>& call, DatasetId id);
  void Entered(const SessionPtr& session, const std::shared_ptr<Call>& call, const DatasetPtr& dataset);
  void TakeName(const SessionPtr& session, const WriterPtr& writer, const std::shared_ptr<Call>& call,
                const local::Request& request, const std::string& name);
  void GiveNameBack(const Writer& writer, const std::string& name);
  void CheckDirectory(const WriterPtr& writer, const std::string& name, std::function<void(absl::Status)> then);
  void RouteInStore(const WriterPtr& writer, const std::shared_ptr<Call>& call, const std::string& name,
                    const std::string& given);
  void RouteDirectory(const SessionPtr& session, const WriterPtr& writer, const std::shared_ptr<Call>& call,
                      const local::Request& request);
  void MakeDirectory(Rank rank, const WriterPtr& writer, const std::shared_ptr<Call>& call, const std::string& name,
                     const std::string& given);
  void ListOutput(const SessionPtr& session, const WriterPtr& writer, const std::shared_ptr<Call>& call,
                  const local::Request& request);
  void OutputListed(const SessionPtr& session, const WriterPtr& writer, const std::shared_ptr<Call>& call,
                    const local::Request& request, absl::StatusOr<Listed> listed);
  void TakeDirectories(const Dataset& dataset, std::map<std::string, ListedFiles> below);
  void StoreFiles(const WriterPtr& writer, Rank rank, ListedFiles listed);
  absl::StatusOr<std::string> PathToRead(const Launch& launch, const Dataset& dataset, const std::string& name) const;

  const Context& context_;
  const Given given_;
  std::map<SessionId, WriterPtr> open_;        // until the rank has ended it
  std::map<SessionId, DatasetId> last_ended_;  // by this session
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_OUTPUTS_H_
