// Protected memory of one run's ranks, from Begin to a stored part. The client is answered as soon as there is an
// image; the dataset's folder and file are made once all its ranks have copied, or while they copy if that takes them
// longer than some ms. Strand only.
#ifndef CAIRN_DAEMON_CORE_CAPTURES_H_
#define CAIRN_DAEMON_CORE_CAPTURES_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/base_files.h"
#include "daemon/core/call.h"
#include "daemon/core/completion.h"
#include "daemon/core/container_lists.h"
#include "daemon/core/context.h"
#include "daemon/core/dataset_entry.h"
#include "daemon/core/dataset_folders.h"
#include "daemon/core/home.h"
#include "daemon/core/image_store.h"
#include "daemon/core/ledger.h"
#include "daemon/core/run_cache.h"
#include "daemon/core/session.h"
#include "daemon/core/steering.h"
#include "daemon/core/stores.h"
#include "daemon/core/waits.h"
#include "daemon/data/capture.h"
#include "daemon/data/work_pool.h"
#include "proto/local.pb.h"

namespace cairn {

class Captures {
 public:
  struct Given {  // all borrowed
    const RunId& run;
    const std::string& run_name;
    ImageStore& images;
    Ledger& ledger;
    Waits& waits;
    ContainerLists& lists;
    DatasetFolders& folders;
    BaseFiles& bases;
    RunCache& cache;
    Stores& stores;
    DatasetEntry& entry;
    Completion& completion;
    Steering& steering;
    Home& home;
    std::function<bool(const Session&)> has_output;  // of files, open
  };
  Captures(const Context& context, const Given& given) : context_(context), given_(given) {}
  ~Captures();
  Captures(const Captures&) = delete;

  using Request = std::shared_ptr<const local::Request>;
  // --- What ranks ask. REQUIRES: no output of files is open in the session ---
  void Begin(const SessionPtr& session, const std::shared_ptr<Call>& call, const Request& request);
  void Commit(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Commit& commit);
  void Resume(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Resume& resume);
  void Abort(const Session& session, const std::string& reason);  // nothing if none is open
  // What they say without waiting for an answer. A client that gets it wrong spoils its dataset, and is told so.
  void Filled(const SessionPtr& session, const local::Request& request);
  // The ingest door's payload. The image is the daemon's own then; the next piece goes where the plan says.
  void Piece(const SessionPtr& session, const local::Request& request);

  // --- What happens ---
  // So many bytes are about to come, sooner or later.
  void Expect(const Session& session, std::uint64_t bytes) { given_.images.Expect(session.images, bytes); }
  bool IsOpen(const Session& session) const { return open_.contains(session.id); }
  void DatasetFailed(const DatasetPtr& dataset);
  void HomeHasBegun(const DatasetPtr& dataset);  // what ranks here have begun as it was foretold
  void SessionEnded(const Session& session) { open_.erase(session.id); }
  void Stop();  // aborts what is under way

 private:
  // One rank's part on its way. Kept alive by its session, then by the capture.
  struct Writer {
    // kEnded: stored, failed or given up: nothing more comes of it.
    enum class Stage : std::uint8_t { kWantsImage, kFilling, kCommitted, kEnded };
    Stage stage = Stage::kWantsImage;
    DatasetPtr dataset;
    Rank rank = 0;
    std::weak_ptr<const Session> session;
    ImageOwnerPtr images;
    VariableList variables;
    ListPtr list;  // of this checkpoint
    ListPtr last;  // of the one before it; null: none, or not needed any more
    PlanPtr plan;
    std::shared_ptr<Image> image;  // null: no bytes
    bool ring = false;
    ftiff::Letter letter = ftiff::Letter::kF;  // of its file
    std::string work_path;
    std::uint64_t begin_call = 0;                // Released replies carry its number
    std::weak_ptr<Connection> begin_connection;  // that the Begin came over
    std::shared_ptr<Capture> capture;            // from when the dataset's folder is there
    std::uint64_t filled = 0;                    // pieces, as told
    std::uint64_t released = 0;                  // windows of the ring, as told
    std::uint32_t digest = 0;                    // over the pieces' CRCs (gRPC)
    std::shared_ptr<void> lease;                 // of the dataset's folder
    bool wants_folder = false;                   // it has been asked for
    std::optional<WorkPool::Hold> copies;        // while its client, on this node, fills an image of the whole file

    bool ended() const { return stage == Stage::kEnded; }
    bool has_plan() const { return stage == Stage::kFilling || stage == Stage::kCommitted; }
    void Pass(Stage to) {  // from filling
      stage = to;
      copies.reset();
    }
  };
  using WriterPtr = std::shared_ptr<Writer>;
  // What is captured of a dataset and not stored yet. While some parts are being stored, others gather, so that all of
  // these wait for the disk once.
  struct Unstored {
    WriterPtr writer;
    DatasetStore::Part part;
    std::shared_ptr<void> lease;
    std::vector<std::byte> metadata;  // that its file has behind the image's bytes
  };
  static constexpr std::size_t kPartsAtOnce = 32;  // some files of each are open at once

  // captures.cc: until the client can copy
  WriterPtr WriterOf(const Session& session) const;  // null: none
  void TryBegin(const SessionPtr& session, const std::shared_ptr<Call>& call, const Request& request);
  void ListKnown(const SessionPtr& session, const std::shared_ptr<Call>& call, const Request& request);
  WriterPtr Entered(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Begin& begin,
                    const DatasetPtr& dataset, const ListPtr& list);
  WriterPtr MakeWriter(const SessionPtr& session, const Call& call, const local::Begin& begin,
                       const DatasetPtr& dataset, const ListPtr& list);
  void ImageReady(const WriterPtr& writer, const std::shared_ptr<Call>& call,
                  absl::StatusOr<std::shared_ptr<Image>> image);
  bool AnsweredAgain(const WriterPtr& writer, const SessionPtr& session, const std::shared_ptr<Call>& call,
                     const local::Begin& begin);
  void AnswerBegin(const Writer& writer, Call& call, bool same_plan);
  void WriteLabel(const Writer& writer) const;
  void WantFolder(const WriterPtr& writer);
  void WantFolderAfterCopies(const WriterPtr& writer);
  static void TellReleased(const Writer& writer);
  void Fail(const Writer& writer, const absl::Status& why);

  // captures_follow.cc: the same, of a launch that has its home on another node
  struct Following {
    DatasetId dataset = 0;  // as the home has answered; 0: it has not
    ListPtr list;
    std::uint64_t file_bytes = 0;
  };
  void BeginElsewhere(const SessionPtr& session, const std::shared_ptr<Call>& call, const Request& request,
                      Following following);
  bool BeginForetold(const SessionPtr& session, const std::shared_ptr<Call>& call, const Request& request,
                     const Following& following);
  void AnsweredForetold(const Writer& writer, const local::Reply& reply);
  void Follow(const SessionPtr& session, const std::shared_ptr<Call>& call, const Request& request,
              const Following& following);

  // captures_end.cc: from the folder to a stored part
  Capture::Spec SpecOf(const Writer& writer);
  void StartCapture(const WriterPtr& writer);
  bool Waits(const Writer& writer) const;
  void NextMayGo(Rank rank);
  void CaptureEnded(const WriterPtr& writer, absl::StatusOr<CaptureResult> result);
  void TakeResult(const WriterPtr& writer, CaptureResult& result);
  void BaseIsDamaged(const Writer& writer, const absl::Status& why);
  void PutImageBack(Writer& writer, std::vector<std::byte> metadata);
  void StorePart(const WriterPtr& writer, CaptureResult& result, std::shared_ptr<void> lease);
  void StoreEnded(Unstored& one, const absl::Status& status);
  void StoreParts(const DatasetPtr& dataset);

  // captures_fill.cc: while the client copies
  bool AllHaveCopied(const Dataset& dataset) const;
  void EndWithoutFile(const WriterPtr& writer);
  void Misbehaved(const SessionPtr& session, const local::Request& request, const absl::Status& status);
  absl::Status TakePiece(Writer& writer, const local::Piece& piece);

  const Context& context_;
  const Given given_;
  std::map<SessionId, WriterPtr> open_;                       // until the rank has committed
  std::map<DatasetId, std::map<Rank, WriterPtr>> capturing_;  // until the capture has ended
  std::map<DatasetId, std::deque<Unstored>> storing_;         // from the first until none is left
  const std::shared_ptr<HashCompany> company_ = MakeHashCompany(context_.env.pools.work);
  const std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_CAPTURES_H_
