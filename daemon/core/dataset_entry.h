// The begin of a dataset by one rank, of memory or of files: policy, room, id and base are asked for once, then it is
// done. Strand only.
#ifndef CAIRN_DAEMON_CORE_DATASET_ENTRY_H_
#define CAIRN_DAEMON_CORE_DATASET_ENTRY_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <string>

#include "daemon/core/base_files.h"
#include "daemon/core/context.h"
#include "daemon/core/dataset_folders.h"
#include "daemon/core/dataset_ids.h"
#include "daemon/core/foretold.h"
#include "daemon/core/ledger.h"
#include "daemon/core/run_cache.h"
#include "daemon/core/session.h"
#include "daemon/core/stores.h"
#include "daemon/core/variables.h"
#include "proto/local.pb.h"

namespace cairn {

class DatasetEntry {
 public:
  struct Given {  // all borrowed
    const std::string& run_name;
    std::shared_ptr<CacheFolder> cache_folder;
    Ledger& ledger;
    DatasetIds& ids;
    Foretold& foretold;
    RunCache& cache;
    Stores& stores;
    DatasetFolders& folders;
    BaseFiles& bases;
  };
  DatasetEntry(const Context& context, const Given& given);
  DatasetEntry(const DatasetEntry&) = delete;

  // What a rank asks for with its begin.
  struct Wish {
    std::uint64_t step = 0;
    std::uint32_t attempt = 1;
    Dataset::Kind kind = {};
    std::uint64_t bytes = 0;  // of its file, as planned; of files: not known
    std::string name = {};    // empty: none
    AskedScheme scheme = {};
    bool elsewhere = false;   // the bytes go to another node's cache
  };
  // kInvalidArgument: variables that are not sound, no attempt, or a scheme that is not known.
  static absl::Status Check(const local::Begin& begin);
  // Of memory, whose file has so many bytes. REQUIRES: Check is OK.
  static Wish WishOf(const local::Begin& begin, std::uint64_t file_bytes);
  // Of files. kInvalidArgument: neither a checkpoint nor an output, no attempt, or a scheme that is not known.
  static absl::StatusOr<Wish> WishOf(const local::OutputBegin& begin);
  // The dataset that it joins, or the first makes.
  //   kInvalidArgument     the name is none (CheckDatasetName)
  //   kAborted             the dataset has failed
  //   kFailedPrecondition  the rank has begun this attempt before
  //   kResourceExhausted   there is no room, or this launch has too many datasets open. IsRoomToCome: the rank has
  //   begun
  //                        nothing, and may ask again; or GiveUp
  //   kUnavailable         no id can be had: the prefix does not answer
  absl::StatusOr<DatasetPtr> Enter(const Session& session, const Wish& wish, const VariableList& variables);

  // Would a begin of this enter the dataset that has, or is to get, this number?
  bool WouldEnter(const Session& session, const Wish& wish, DatasetId id) const;

  // The room did not come in time: others that have begun the dataset are not to wait for this rank.
  void GiveUp(const Session& session, const Wish& wish, const std::string& why);

  // The same at a daemon whose launch has its home elsewhere, where the rank has begun `dataset`: room for its part.
  //   kResourceExhausted  there is none; IsRoomToCome: it may be asked for again
  absl::Status Follow(const DatasetPtr& dataset, Rank rank, std::uint64_t bytes);
  // The same before the home has heard of it, with the number `id` that it has said ahead. Nothing is changed if not
  // OK.
  //   kFailedPrecondition  this is not the checkpoint that has, or is to get, this number
  //   kResourceExhausted   there is no room
  absl::StatusOr<DatasetPtr> FollowForetold(const Launch& launch, DatasetId id, Rank rank, const Wish& wish);

  // The dataset's entry and folder in its store, with its bases ready; made by the first rank that needs it.
  void WithFolder(const DatasetPtr& dataset, std::function<void(absl::Status)> then);

 private:
  // What a new dataset gets.
  struct Place {
    bool past_cache = false;
    CacheRoom::Room room;
    DatasetPtr spare;  // that its files start from; null: none
  };
  absl::StatusOr<Place> PlaceFor(const Launch& launch, Rank rank, const Ledger::BeginSpec& spec);
  absl::StatusOr<DatasetPtr> Make(const Launch& launch, Rank rank, Ledger::BeginSpec spec,
                                  const VariableList& variables, bool elsewhere);
  absl::Status Join(const Launch& launch, const DatasetPtr& dataset, Rank rank, const Ledger::BeginSpec& spec,
                    const VariableList& variables, bool elsewhere);
  absl::Status ReserveFor(std::uint64_t bytes, const DatasetPtr& spare = nullptr);
  void MakeFolder(const DatasetPtr& dataset);

  const Context& context_;
  const Given given_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_DATASET_ENTRY_H_
