#include "daemon/core/read_ahead.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>
#include <vector>

#include "daemon/core/restore_group.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

// Before images are made for its checkpoints (image_store.h), which come later.
constexpr std::chrono::milliseconds kGetsReady(10);

}  // namespace

void ReadAhead::SessionOpened(const SessionPtr& session) {
  // Of a launch that a daemon before this one has made, ranks come back as they are.
  const Launch* launch = given_.ledger.Find(session->launch);
  if (!context_.config.image.read_ahead || launch == nullptr || launch->from_record) return;
  const auto work = std::make_shared<Work>();
  work->session = session;
  works_[session->id] = work;
  context_.loop().After(kGetsReady, [this, weak = std::weak_ptr(work)] {
    if (const WorkPtr work = weak.lock()) Choose(work);
  });
}

// It is still wanted, and there is no reason to think of something else.
bool ReadAhead::MayGoOn(const Work& work) const {
  const Session& session = *work.session;
  if (work.given_up || session.ended || session.followed || context_.quiescing()) return false;
  if (!session.connection || !session.connection->shares_memory()) return false;
  const Launch* launch = given_.ledger.Find(session.launch);
  if (launch == nullptr || launch->fenced() || launch->pin.state == Launch::Pin::State::kEnded) return false;
  return !work.dataset || (given_.ledger.Has(work.dataset) && work.dataset->restorable());
}

void ReadAhead::Choose(const WorkPtr& work) {
  if (!MayGoOn(*work)) return Forget(work);
  const Launch& launch = *given_.ledger.Find(work->session->launch);
  work->dataset = given_.ledger.NewestRestorableFor(launch);
  if (!work->dataset || work->dataset->kind.files || work->dataset->nranks != launch.nranks) return Forget(work);
  if (work->dataset->described()) return Described(work, absl::OkStatus());
  given_.inventory.Describe(work->dataset, [this, work](const absl::Status& status) { Described(work, status); });
}

void ReadAhead::Described(const WorkPtr& work, const absl::Status& status) {
  if (!status.ok() || !MayGoOn(*work) || !work->dataset->described()) return Forget(work);
  const Rank rank = work->session->rank;
  RestoreGroup alone;  // of which no copy has been found bad yet
  alone.dataset = work->dataset;
  alone.launch = work->session->launch;
  auto copies = given_.copies.Choose(alone, {{.rank = rank, .bytes = 1}}, /*reader=*/"");
  // From the node's own disk a restore is as fast as from memory: both are bound by checking and copying.
  if (!copies.ok() || copies->sources.size() != 1 || !copies->far()) return Forget(work);
  work->tier = copies->tiers[0];
  work->lane = copies->lane;
  work->source = std::move(copies->sources[0]);
  given_.images.MakeIfFree(work->session->images, work->source.file_bytes,
                           [this, work](std::shared_ptr<Image> image) { Read(work, std::move(image)); });
}

void ReadAhead::Read(const WorkPtr& work, std::shared_ptr<Image> image) {
  if (!image || !MayGoOn(*work) || given_.images.KeptOf(given_.run, work->dataset->id, work->session->rank).kept) {
    given_.images.Release(work->session->images, std::move(image));
    return Forget(work);
  }
  work->image = std::move(image);
  context_.transfers->Begun();
  cairn::Restore::Callbacks callbacks;
  callbacks.on_ready = [this, work](std::uint64_t pieces) {
    context_.loop().Post([work, pieces] {
      // All have their place in the image: nothing waits for their being taken but the end. Refused once it has ended.
      if (work->reading && pieces == work->reading->plan().size()) work->reading->Copied(pieces).IgnoreError();
    });
  };
  callbacks.on_end = [this, work](const absl::Status& status, std::size_t) {
    context_.loop().Post([this, work, status] { Ended(work, status); });
  };
  const std::vector<RestorePiece> whole = {{.source = 0, .file_offset = 0, .bytes = work->source.file_bytes}};
  work->reading =
      cairn::Restore::Start(context_.env.cache_disk, context_.env.pools.work, {work->source}, whole, work->image,
                            std::move(callbacks), context_.FarAt(work->lane), &context_.transfers->blocks());
}

void ReadAhead::Ended(const WorkPtr& work, const absl::Status& status) {
  work->reading = nullptr;
  context_.transfers->Ended();
  const Rank rank = work->session->rank;
  const bool wanted = status.ok() && MayGoOn(*work);
  if (!wanted) {
    given_.images.Release(work->session->images, std::move(work->image));
    return Forget(work);
  }
  auto kept = std::make_shared<KeptImage>();
  kept->image = std::move(work->image);
  kept->data_bytes = work->source.file_bytes;  // the metadata is behind them, in the image, too
  given_.images.Keep(given_.run, work->dataset->id, work->dataset->created_us, rank, std::move(kept),
                     work->session->images, work->tier);
  spdlog::debug("run {}: rank {}'s file of dataset {} has been read ahead, from the {}", given_.run_name, rank,
                work->dataset->id, NameOf(work->tier));
  Forget(work);
}

void ReadAhead::Forget(const WorkPtr& work) {
  const auto known = works_.find(work->session->id);
  if (known != works_.end() && known->second == work) works_.erase(known);
}

void ReadAhead::RestoreBegan(const Session& session) {
  const auto work = works_.find(session.id);
  if (work != works_.end() && !work->second->reading) GiveUp(session);
}

void ReadAhead::GiveUp(const Session& session) {
  const auto known = works_.find(session.id);
  if (known == works_.end()) return;
  const WorkPtr work = known->second;
  works_.erase(known);
  work->given_up = true;
  if (work->reading) work->reading->Abort();  // tells its end
}

void ReadAhead::Stop() {
  for (const auto& [id, work] : works_) {
    work->given_up = true;
    if (work->reading) work->reading->Abort();
  }
  works_.clear();
}

}  // namespace cairn
