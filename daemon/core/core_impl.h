// The core's inside: one class whose handlers are grouped by file.
//
//   core.cc         start, stop, connections, dispatch          runs.cc        what is known of runs
//   open.cc         launches and sessions                       images.cc      who gets which image
//   checkpoint.cc   from Begin to `captured`                    completion.cc  from there to `local`
//   levels.cc       test, wait, latest, stored                  restore.cc     restores, all ranks or none
//   outputs.cc      the application's own files                 remake.cc      from the prefix into the cache
//   routed_directories.cc  directories of theirs                growing.cc     step by step to the prefix
//   flush.cc        to the prefix                               admin.cc       the commands
//   evict.cc        out of the cache, off the prefix            bypass.cc      past the cache
//   lists.cc        container lists                             reuse.cc       differential checkpoints
//   steering.cc     stop now? a checkpoint now?                 read.cc        parts of a dataset, for one session
//   observers.cc    sessions that only read                     views.cc       what BP5 shows of the prefix
//
// Everything runs on the strand unless a comment says otherwise.
#ifndef CAIRN_DAEMON_CORE_CORE_IMPL_H_
#define CAIRN_DAEMON_CORE_CORE_IMPL_H_

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/core/call.h"
#include "daemon/core/core.h"
#include "daemon/core/environment.h"
#include "daemon/core/loop.h"
#include "daemon/core/run.h"
#include "daemon/data/image.h"
#include "daemon/data/work_pool.h"
#include "daemon/flusher/flush_work.h"
#include "daemon/flusher/policy.h"
#include "storage/transfer/transfer.h"

namespace cairn {

class CoreImpl final : public Core {
 public:
  CoreImpl(const Config& config, const Environment& environment);
  ~CoreImpl() override;
  absl::Status LoadCachedRuns();  // before anything else; blocks

  // Receiver; any thread.
  void Attach(std::shared_ptr<Connection> connection) override;
  void Receive(const std::shared_ptr<Connection>& connection, std::unique_ptr<local::Request> request) override;
  void Detach(const std::shared_ptr<Connection>& connection) override;

  // Core; any thread.
  void Quiesce(std::function<void(bool all_local)> done) override;
  void Stop(std::function<void()> done) override;
  void Reload(const Config& config) override;
  void Status(std::function<void(admin::StatusReply)> done) override;
  void List(const admin::ListRequest& request, std::function<void(absl::StatusOr<admin::ListReply>)> done) override;
  void Show(const admin::DatasetRequest& request, std::function<void(absl::StatusOr<admin::ShowReply>)> done) override;
  void Wait(const admin::WaitRequest& request, std::function<void(admin::WaitReply)> done) override;
  void Flush(const admin::FlushRequest& request, std::function<void(admin::FlushReply)> done) override;
  void Pin(const admin::PinRequest& request, std::function<void(admin::PinReply)> done) override;
  void Remove(const admin::RemoveRequest& request, std::function<void(admin::RemoveReply)> done) override;

 private:
  using RunPtr = std::shared_ptr<Run>;
  using SessionPtr = std::shared_ptr<Session>;
  using DatasetPtr = std::shared_ptr<Dataset>;
  using CallPtr = std::shared_ptr<Call>;
  using Requested = const std::shared_ptr<local::Request>&;

  struct Opening;
  struct ConnectionState {
    std::shared_ptr<Connection> connection;
    SessionPtr session;
    std::shared_ptr<Opening> opening;        // under way, its call perhaps answered already
    std::vector<std::weak_ptr<Call>> calls;  // not yet answered, and some that are
  };

  // --- core.cc ---
  void Dispatch(const std::shared_ptr<Connection>& connection, Requested request);
  void DispatchInSession(const SessionPtr& session, const CallPtr& call, Requested request);
  CallPtr MakeCall(ConnectionState& state, const local::Request& request);
  void Warn(std::string text);
  void Changed(const RunPtr& run);  // looks at the run's watchers, applies the policy
  void LookAtWatchers(const RunPtr& run);
  void ConnectionLost(const SessionPtr& session);
  void AbandonCalls(const Connection& connection);
  void Watch(const RunPtr& run, std::function<bool()> watcher);
  void CheckQuiesced();
  void EndQuiescing(bool all_local);
  void AbortTransfers();
  bool AnyCaptured() const;
  void TransferEnded();
  std::int64_t NowUs() const;  // since the epoch
  // Work on the prefix. It may hang for hours; nothing that needs only the cache waits for it.
  template <typename Work, typename Then>
  void BlockingPrefix(Work work, Then then) {
    RunBlocking(pools_.prefix, loop_, std::move(work), std::move(then));
  }
  template <typename Work, typename Then>
  void BlockingCache(Work work, Then then) {
    RunBlocking(pools_.cache, loop_, std::move(work), std::move(then));
  }

  // --- open.cc ---
  // What the prefix holds, with the catalogues of the newest of those that were not known.
  struct Committed {
    PrefixContents found;
    std::map<DatasetId, std::vector<catalogue::Catalogue>> catalogues;
    std::vector<std::string> warnings;
  };
  struct Prepared;
  void HandleOpen(const std::shared_ptr<Connection>& connection, const CallPtr& call, const local::Open& open);
  void PrepareOpening(std::shared_ptr<Opening> opening);
  void LoadRun(std::shared_ptr<Opening> opening, std::shared_ptr<Prepared> prepared);
  void RunKnown(std::shared_ptr<Opening> opening, std::shared_ptr<Prepared> prepared);
  void Decide(std::shared_ptr<Opening> opening, const RunPtr& run);
  static bool OnlyBrokenStreams(const Run& run);
  void DecideLater(std::shared_ptr<Opening> opening, const RunPtr& run);
  static bool NeverHeardOfItsSession(const Opening& opening, Run& run);
  void Reattach(std::shared_ptr<Opening> opening, const RunPtr& run);
  void MakeLaunch(std::shared_ptr<Opening> opening, const RunPtr& run);
  void LaunchMade(std::shared_ptr<Opening> opening, const RunPtr& run, const LaunchRecord& record);
  static void WhatIsKnown(const Run& run, std::set<DatasetId>* known, std::set<DatasetId>* had);
  static absl::Status ReadCommitted(Prefix& prefix, const std::set<DatasetId>& known, Committed* committed);
  Launch& EnterLaunch(const RunPtr& run, const LaunchRecord& record);
  void Admit(std::shared_ptr<Opening> opening, const RunPtr& run, Launch& launch);
  void EndOpening(std::shared_ptr<Opening> opening);
  void TellRunsApart(const std::string& prefix_path);
  void Replaced(const RunPtr& run, const RunId& by);
  void ReserveIds(const RunPtr& run, std::function<void(absl::Status)> then);
  RunPtr AddRun(const RunId& id, const std::string& prefix_path, std::shared_ptr<CacheFolder> cache);
  // What the cache and this node's record say of a run.
  struct Loaded {
    std::shared_ptr<CacheFolder> cache;
    CacheLoad load;
    kvtree::Tree record;  // flush.cairn
  };
  static absl::StatusOr<Loaded> LoadFolder(std::shared_ptr<CacheFolder> cache);  // blocks
  void AdoptCached(const RunPtr& run, Loaded loaded);
  void AdoptCommitted(const RunPtr& run, const Committed& committed);
  void AdoptSince(const RunPtr& run, const Committed& committed, const std::set<DatasetId>& had);
  void TakenOut(const RunPtr& run, const DatasetPtr& dataset, const Committed& committed);
  void GiveUpId(const RunPtr& run, const DatasetPtr& dataset, const Committed& committed);
  void AdoptOne(const RunPtr& run, DatasetId id, const Committed& committed);
  static void PutCatalogues(Dataset& dataset, const std::vector<catalogue::Catalogue>& catalogues);
  void Describe(const RunPtr& run, const DatasetPtr& dataset, std::function<void(absl::Status)> then);
  void EndSession(const SessionPtr& session, bool closed);
  void HandleClose(const SessionPtr& session, const CallPtr& call);

  // --- images.cc ---
  struct ImageWish {
    SessionPtr session;
    CallPtr call;
    std::uint64_t bytes = 0;  // of the whole file or all blocks
    std::function<void(absl::StatusOr<std::shared_ptr<Image>>)> then;
  };
  void AcquireImage(ImageWish wish);
  bool TakeIdleImage(ImageWish& wish);
  std::uint64_t MakeRoomForImage(Session& session, std::uint64_t bytes);
  void MakeImage(ImageWish wish, std::uint64_t bytes);
  void ReleaseImage(const std::weak_ptr<Session>& session, std::shared_ptr<Image> image);
  void RetryImageWishes();
  void DropImageWishes(const SessionPtr& session, std::uint64_t call = 0);
  void RetireKept(const RunPtr& run, DatasetId before);
  bool DropOldestKept();
  void ForgetKeptLater(const RunPtr& run);
  void MakeSpareImage(const SessionPtr& session, std::uint64_t bytes);
  void DescribeImage(Session& session, const std::shared_ptr<Image>& image, local::Image* out);

  // --- checkpoint.cc ---
  // What a dataset's captures may start from, as the pool has found it.
  struct ReadyBases {
    std::map<Rank, CaptureBase> files;
    std::vector<std::string> warnings;
  };
  void HandleBegin(const SessionPtr& session, const CallPtr& call, const local::Begin& begin);
  absl::StatusOr<DatasetPtr> EnterDataset(const SessionPtr& session, const Ledger::BeginSpec& spec,
                                          const VariableList& variables);
  absl::StatusOr<DatasetId> NextId(const RunPtr& run);
  absl::Status EnsureRoom(const RunPtr& run, std::uint64_t bytes, const DatasetPtr& spare = nullptr);
  void StartWriter(const std::shared_ptr<PartWriter>& writer, const CallPtr& call, std::shared_ptr<Image> image);
  void AnswerBegin(const std::shared_ptr<PartWriter>& writer, const CallPtr& call, bool same_plan);
  bool AnsweredAgain(const SessionPtr& session, const CallPtr& call, const local::Begin& begin);
  void AnswerBegin(const std::shared_ptr<PartWriter>& writer, const CallPtr& call);
  void WithDirectory(const RunPtr& run, const DatasetPtr& dataset, std::function<void(absl::Status)> then);
  struct DirectoryMade {
    absl::Status status;
    ReadyBases bases;
  };
  void DirectoryReady(const RunPtr& run, DatasetId id, DirectoryMade made);
  Capture::Spec SpecOf(const PartWriter& writer);
  void StartCapture(const std::shared_ptr<PartWriter>& writer);
  void HandleFilled(const SessionPtr& session, const local::Request& request);
  void HandlePiece(const SessionPtr& session, const local::Request& request);
  void HandleCommit(const SessionPtr& session, const CallPtr& call, const local::Commit& commit);
  void HandleAbort(const SessionPtr& session, const CallPtr& call, const local::Abort& abort);
  void HandleResume(const SessionPtr& session, const CallPtr& call, const local::Resume& resume);
  void CaptureEnded(const std::shared_ptr<PartWriter>& writer, absl::StatusOr<CaptureResult> result);
  void PartLocal(const RunPtr& run, const DatasetPtr& dataset, Rank rank, catalogue::Catalogue catalogue);
  void CompleteDataset(const RunPtr& run, const DatasetPtr& dataset);
  void OnFailed(const RunPtr& run, const DatasetPtr& dataset, const std::string& why);
  static absl::Status WhyFailed(const Run& run, const Dataset& dataset);
  std::shared_ptr<void> LeaseOf(const RunPtr& run, DatasetId id);
  void LeaseEnded(const RunPtr& run, DatasetId id);
  void Misbehaved(const SessionPtr& session, const local::Request& request, const absl::Status& status);
  static scr::Descriptor DescriptorOf(const Dataset& dataset, bool complete);

  // --- lists.cc ---
  DatasetPtr ListToRead(const Session& session) const;
  void ReadList(const SessionPtr& session, const DatasetPtr& dataset, std::function<void()> then);
  static std::shared_ptr<ContainerList> LastList(const Session& session);
  absl::StatusOr<std::shared_ptr<ContainerList>> PlanList(Session& session, const ContainerList* last,
                                                          std::vector<ftiff::VariableSize> sizes);
  void SettleList(const std::shared_ptr<PartWriter>& writer, std::optional<std::vector<Md5Digest>> hashes);

  // --- reuse.cc ---
  ftiff::Letter LetterOfFiles() const;
  bool Differential() const;
  bool KeepsSpare(const Run& run) const;
  DatasetPtr SpareFor(const RunPtr& run, std::uint64_t rank_bytes, std::uint32_t nranks) const;
  void GiveFiles(const RunPtr& run, const DatasetPtr& spare, DatasetId to);
  void ShareFiles(const RunPtr& run, const Dataset& to);
  ReadyBases PrepareBases(CacheFolder& cache, const Reuse& reuse);
  static std::optional<CaptureBase> TakeBase(Run& run, DatasetId id, Rank rank);
  void EndReuse(const RunPtr& run, DatasetId id);
  void DistrustDigests(Run& run) const;
  static void DistrustBases(Reuse& reuse);
  void BaseIsDamaged(const RunPtr& run, const PartWriter& writer, const absl::Status& why);
  void CachedCopyIsDamaged(const RunPtr& run, const DatasetPtr& dataset, const std::string& file,
                           const absl::Status& why);
  void ForgetDigests(Run& run) const;

  // --- outputs.cc ---
  void HandleOutputBegin(const SessionPtr& session, const CallPtr& call, const local::OutputBegin& begin);
  void HandleRouteFile(const SessionPtr& session, const CallPtr& call, const local::RouteFile& route);
  void CheckDirectory(const SessionPtr& session, const std::shared_ptr<FilesWriter>& files, const std::string& name,
                      std::function<void(absl::Status)> then);
  static void GiveNameBack(Run& run, const FilesWriter& files, const std::string& name);
  void RouteInStore(const SessionPtr& session, const std::shared_ptr<FilesWriter>& files, const CallPtr& call,
                    const std::string& name, const std::string& given);
  void HandleOutputEnd(const SessionPtr& session, const CallPtr& call, const local::OutputEnd& end);
  // A rank's files; of the last rank to end the output also what is in the routed directories, by theirs.
  struct OutputList {
    ListedFiles own;
    std::map<std::string, ListedFiles> below;
    bool last = false;
  };
  void OutputListed(const SessionPtr& session, const std::shared_ptr<FilesWriter>& files, const CallPtr& call,
                    absl::StatusOr<OutputList> listed);
  void StoreFiles(const RunPtr& run, const std::shared_ptr<FilesWriter>& files, Rank rank, ListedFiles listed);

  // --- routed_directories.cc ---
  void RouteDirectory(const SessionPtr& session, const std::shared_ptr<FilesWriter>& files, const CallPtr& call,
                      const std::string& given);
  void MakeRouted(const SessionPtr& session, const std::shared_ptr<FilesWriter>& files, const CallPtr& call,
                  const std::string& name, const std::string& given);
  static absl::Status CheckRouted(Run& run, DatasetId id, const std::string& name, bool directory);
  static absl::StatusOr<std::string> DirectoryName(const std::string& prefix, std::string given);
  static bool IsLastToEnd(Run& run, const Dataset& dataset, Rank rank);
  static absl::StatusOr<std::map<std::string, ListedFiles>> ListDirectories(
      Disk& disk, const std::map<std::string, RoutedDirectory>& directories);
  void TakeDirectories(const RunPtr& run, const DatasetPtr& dataset, std::map<std::string, ListedFiles> below);
  void HandleRestartFile(const SessionPtr& session, const CallPtr& call, const local::RestartFile& restart);

  // --- steering.cc ---
  void JoinSteering(const SessionPtr& session, const local::Open& open);
  void BeginTimed(const SessionPtr& session, const CallPtr& call, Requested request);
  void HandOverTimed(const SessionPtr& session, const CallPtr& call, Requested request);
  void CheckpointBegun(const SessionPtr& session, const Dataset& dataset);
  void PartHandedOver(const SessionPtr& session, const Dataset& dataset);
  void CountWhole(const RunPtr& run);
  void ReadHaltFile(const RunPtr& run);
  std::optional<std::string> WhyHalted(const Steering& steering) const;
  void FinalizeHalt(const RunPtr& run, const CallPtr& call);
  void HandleAsk(const SessionPtr& session, const CallPtr& call, Requested request);
  bool TryAnswer(const SessionPtr& session, const std::shared_ptr<Answer>& answer, bool exit);
  bool HasSettling(const Session& session) const;
  void DescribeSteering(const Run& run, admin::RunStatus* status) const;

  // --- levels.cc ---
  void HandleTest(const SessionPtr& session, const CallPtr& call, const local::Test& test);
  void HandleWait(const SessionPtr& session, const CallPtr& call, const local::Wait& wait);
  void HandleLatest(const SessionPtr& session, const CallPtr& call);
  bool TryLatest(const SessionPtr& session, const CallPtr& call);
  void FailBad(const RunPtr& run, const Launch& launch, DatasetId chosen);
  void HandleStored(const SessionPtr& session, const CallPtr& call, const local::Stored& stored);
  // What is to be said of a dataset's level: answered (OK: it has the level, or an error), or not yet.
  struct LevelAnswer {
    bool final = false;
    local::Status status;
    Level level = Level::kNone;
  };
  LevelAnswer AskLevel(const RunPtr& run, DatasetId id, Level level);
  void WantFlushed(const RunPtr& run, DatasetId id);
  bool Settling(const Run& run, LaunchId before) const;

  // --- read.cc ---
  void HandleRead(const SessionPtr& session, const CallPtr& call, const local::Read& read);
  void ReadDone(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group);

  // --- observers.cc ---
  void PrepareObserving(std::shared_ptr<Opening> opening);
  void RunObserved(std::shared_ptr<Opening> opening, const RunPtr& run);
  void AdmitObserver(std::shared_ptr<Opening> opening, const RunPtr& run);
  void EndObserver(const SessionPtr& session);
  void DispatchObserver(const SessionPtr& session, const CallPtr& call, Requested request);
  void ObserveLatest(const SessionPtr& session, const CallPtr& call);

  // --- restore.cc ---
  void HandleRestore(const SessionPtr& session, const CallPtr& call, const local::Restore& restore);
  void HandleCopied(const SessionPtr& session, const local::Request& request);
  void PlanPart(const RunPtr& run, std::shared_ptr<RestoreGroup> group, std::shared_ptr<RestorePart> part);
  static std::string ChooseSources(const Run& run, RestoreGroup& group, RestorePart& part, Disk& prefix_disk);
  void FindPart(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group,
                const std::shared_ptr<RestorePart>& part);
  void PartMatched(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group,
                   const std::shared_ptr<RestorePart>& part);
  void StartPart(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group,
                 const std::shared_ptr<RestorePart>& part);
  void ImageForPart(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group,
                    const std::shared_ptr<RestorePart>& part, std::shared_ptr<Image> image);
  void TellPlan(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group,
                const std::shared_ptr<RestorePart>& part);
  void PartReady(const std::shared_ptr<RestorePart>& part, std::uint64_t pieces);
  void PartEnded(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group,
                 const std::shared_ptr<RestorePart>& part, const absl::Status& status, std::size_t source);
  void CopyIsBad(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group, Rank rank, Tier tier,
                 const absl::Status& why);
  void FetchNoted(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group);
  void MarkFailed(const RunPtr& run, DatasetId id);
  static void WithdrawDamaged(const std::shared_ptr<RestoreGroup>& group);
  void RemakeDamaged(const RunPtr& run, const DatasetPtr& dataset);
  void EndGroup(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group, local::Code code,
                const std::string& message);
  void PassOver(const RunPtr& run, LaunchId launch, DatasetId id);
  void RetryGroup(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group, const std::string& why);
  void GroupDone(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group);
  void SessionLeftRestore(const SessionPtr& session);

  // --- remake.cc ---
  void RestoreFiles(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group,
                    const std::shared_ptr<RestorePart>& part);
  void FilesChecked(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group,
                    const std::shared_ptr<RestorePart>& part, const absl::Status& status);
  void FetchFiles(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group);
  void Remake(const RunPtr& run, const DatasetPtr& dataset, std::function<void(const Remade&)> then);

  // --- flush.cc ---
  std::vector<DatasetFacts> FactsOf(const Run& run) const;
  void ApplyPolicy(const RunPtr& run);  // after every change of a run: flushes, drops, evictions
  void PlanFlushesOf(const RunPtr& run);
  void StartFlush(const RunPtr& run, const DatasetPtr& dataset);
  void RunFlush(const RunPtr& run, const std::shared_ptr<FlushJob>& job);
  struct FlushResult {
    FlushOutcome outcome;
    std::shared_ptr<Prefix> prefix;  // reached meanwhile
    std::optional<RunId> found;      // another run at the prefix
  };
  using FlushStep = std::function<FlushOutcome(Prefix& prefix)>;
  // Blocks. The step, if this run lives at the prefix; an unknown one is looked for.
  FlushResult AtPrefix(const std::string& path, const RunId& run, std::shared_ptr<Prefix> prefix,
                       const FlushStep& step);
  void CopyEnded(const RunPtr& run, const std::shared_ptr<FlushJob>& job, FlushResult result);
  void CommitNext(const RunPtr& run);
  void RunCommit(const RunPtr& run, const std::shared_ptr<FlushJob>& job);
  void CommitEnded(const RunPtr& run, const std::shared_ptr<FlushJob>& job, FlushResult result);
  void StepEnded(const RunPtr& run, const FlushJob& job, FlushResult& result);
  void FlushFailed(const RunPtr& run, const std::shared_ptr<FlushJob>& job, const FlushOutcome& outcome);
  void RemoveTooLate(const RunPtr& run, const std::shared_ptr<FlushJob>& job);
  void AfterFlush(const RunPtr& run);
  static std::string FlushText(const Run& run, const Dataset& dataset);
  void GaveWay(const RunPtr& run, DatasetId id, DatasetId to);
  void UpdateFlushFile(const RunPtr& run);

  // --- growing.cc ---
  void BeginGrowing(const RunPtr& run, const DatasetPtr& dataset);
  void LookAtGrowing(const RunPtr& run);
  void LookAtGrowth(const RunPtr& run, DatasetId id);
  void FindGrowing(const RunPtr& run, const DatasetPtr& dataset);
  void GrowingFound(const RunPtr& run, const DatasetPtr& dataset, const std::set<std::string>& found);
  static bool IsTaken(const Run& run, DatasetId id, const std::string& name);
  void PlaceGrowing(const RunPtr& run, const DatasetPtr& dataset);
  struct PlacesTaken {
    FlushResult result;
    std::set<std::string> names, too_late;
  };
  void GrowingPlaced(const RunPtr& run, const DatasetPtr& dataset, PlacesTaken taken);
  void StepGrowing(const RunPtr& run, const DatasetPtr& dataset);
  void GrowingStepped(const RunPtr& run, DatasetId id, const std::map<std::string, absl::Status>& stepped,
                      const FlushResult& result);
  void GrowthWorked(const RunPtr& run, DatasetId id);
  void CloseGrowth(const RunPtr& run, DatasetId id);
  void EndGrowth(const RunPtr& run, DatasetId id);
  void StopGrowth(const RunPtr& run, DatasetId id);
  void TellOnce(const Run& run, DatasetId id, const absl::Status& status, std::string* told);
  static std::set<std::string> GrownOf(const Run& run, DatasetId id);
  static DatasetId NewerGrowthOver(const Run& run, const FlushJob& job);

  // --- bypass.cc ---
  bool MayBypass(const Run& run) const;
  bool Bypasses(const Run& run, const Launch& launch, Rank rank, const Ledger::BeginSpec& spec) const;
  static std::shared_ptr<DatasetStore> StoreOf(const Run& run, const Dataset& dataset);
  // Runs `work` where it may wait for the dataset's disk.
  template <typename Work, typename Then>
  void BlockingStore(const Dataset& dataset, Work work, Then then) {
    RunBlocking(dataset.bypass ? pools_.prefix : pools_.cache, loop_, std::move(work), std::move(then));
  }
  Disk& DiskOf(const Dataset& dataset) const { return dataset.bypass ? prefix_disk_ : cache_disk_; }
  static bool FilesBypass(const Run& run);
  void BeginBypass(const RunPtr& run, const DatasetPtr& dataset, std::function<void(absl::Status)> then);
  void BypassComplete(const RunPtr& run, const DatasetPtr& dataset);
  void RemoveBypassed(const RunPtr& run, DatasetId id);
  void TellWithdrawn(const RunPtr& run);
  void VerifyOnPrefix(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group);

  // --- evict.cc ---
  void EvictOf(const RunPtr& run);
  void Unprefix(const RunPtr& run, const DatasetPtr& dataset);
  void Evict(const RunPtr& run, const DatasetPtr& dataset, const std::string& why);
  void LeaveCache(const RunPtr& run, const DatasetPtr& dataset, const std::string& why);
  void ChangeFolder(const RunPtr& run, DatasetId id, std::function<absl::Status()> work);
  static absl::Status IsScrs(DatasetId id);  // and hence not to be removed
  void RemoveFromPrefix(const RunPtr& run, const DatasetPtr& dataset, std::function<void(absl::Status)> then);
  void TidyPrefix(const RunPtr& run);
  void StoreFlushRecord(const RunPtr& run, std::function<void(const absl::Status&)> then = nullptr);
  std::uint64_t CacheBytesUsed() const;
  std::uint64_t CacheBytesOccupied() const;

  // --- views.cc ---
  void MakeMissingViews(const RunPtr& run);
  void MakeViewsBelow(const RunPtr& run, DatasetId below, std::uint32_t jobs);
  void TellOfPrefix(const RunPtr& run);

  // --- admin.cc ---
  absl::StatusOr<RunPtr> FindRun(const std::string& name) const;
  admin::DatasetRow RowOf(const Run& run, const Dataset& dataset) const;
  admin::RunStatus StatusOf(const Run& run) const;
  std::vector<admin::DatasetRow> RowsOf(const Run& run) const;
  absl::Status RemoveFromCache(const RunPtr& run, const DatasetPtr& dataset);

  Config config_;
  Loop& loop_;
  const Pools pools_;
  Disk& cache_disk_;
  Disk& prefix_disk_;
  const Clocks clocks_;
  const Process process_;
  ImageBudget budget_;
  std::uint64_t cache_bytes_max_ = 0;
  const std::uint64_t incarnation_;
  const std::chrono::steady_clock::time_point started_;
  Throttle throttle_;

  std::unordered_map<const Connection*, ConnectionState> connections_;
  std::map<RunId, RunPtr> runs_;
  std::map<std::string, std::deque<std::shared_ptr<Opening>>> openings_;  // by prefix as given
  std::map<RunId, std::vector<std::pair<std::shared_ptr<Opening>, std::shared_ptr<Prepared>>>> loading_;
  std::deque<ImageWish> image_wishes_;
  std::deque<std::string> warnings_;
  std::uint64_t last_session_ = 0;
  std::uint32_t flushes_running_ = 0;  // copies
  std::uint32_t commits_running_ = 0;
  std::uint32_t evictions_running_ = 0;
  bool quiescing_ = false;
  bool quiesced_ = false;  // nothing is promised any more
  bool stopping_ = false;
  std::uint32_t transfers_ = 0;  // captures and restores under way
  TransferProgress fetching_;    // of all fetches together
  std::function<void()> on_transfers_ended_;
  std::vector<std::function<void(bool)>> on_quiesced_;
  Loop::TimerId quiesce_timer_ = 0;
  std::atomic<bool> ended_ = false;  // loop and pools are not used any more
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_CORE_IMPL_H_
