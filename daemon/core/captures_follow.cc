// Of a launch that has its home on another node: the begin of a rank that is here.
#include <utility>

#include "daemon/core/captures.h"
#include "storage/base/status.h"

namespace cairn {

// Which dataset it is, and whether it may begin, is decided at the launch's home; whether there is room for it, here.
void Captures::BeginElsewhere(const SessionPtr& session, const std::shared_ptr<Call>& call, const Request& request,
                              Following following) {
  if (BeginForetold(session, call, request, following)) return;
  local::Request asked = *request;
  asked.mutable_begin()->set_file_bytes(following.file_bytes);
  asked.mutable_begin()->clear_foretold();  // it is not the client's to say
  given_.home.Ask(session, call, std::move(asked), [=, this](const local::Reply& reply) mutable {
    following.dataset = reply.begin().dataset();
    Follow(session, call, request, following);
  });
}

// The home has said ahead which number its next checkpoint has: the rank goes on with that, and the home is told. If it
// was another one, or the home refuses, the dataset fails: whoever waits for it hears why.
bool Captures::BeginForetold(const SessionPtr& session, const std::shared_ptr<Call>& call, const Request& request,
                             const Following& following) {
  const DatasetId foretold = given_.home.foretold();
  const Launch* launch = given_.ledger.Find(session->launch);
  if (foretold == 0 || request->dirty() || launch == nullptr || !given_.home.Serves(*session)) return false;
  const local::Begin& begin = request->begin();
  const auto dataset =
      given_.entry.FollowForetold(*launch, foretold, session->rank, DatasetEntry::WishOf(begin, following.file_bytes));
  if (!dataset.ok()) return false;  // the home's answer settles it, and room may still come
  const WriterPtr writer = Entered(session, call, begin, *dataset, following.list);
  local::Request told = *request;
  told.mutable_begin()->set_file_bytes(following.file_bytes);
  told.mutable_begin()->set_foretold(foretold);
  const Home::When when = writer->image && !writer->ring ? Home::When::kAfterCopies : Home::When::kNow;
  given_.home.Tell(session, *call, std::move(told), when, [this, session, writer](const local::Reply& reply) {
    // What is handed over outlives its session and the link: the home says later what it knows of it.
    const bool lost = !given_.home.Serves(*session) && writer->stage == Writer::Stage::kCommitted;
    if (!writer->ended() && !lost) AnsweredForetold(*writer, reply);
  });
  return true;
}

void Captures::AnsweredForetold(const Writer& writer, const local::Reply& reply) {
  const DatasetId id = writer.dataset->id;
  if (reply.status().code() != local::OK) {
    given_.ledger.Fail(id, fmt::format("rank {}: {}", writer.rank, reply.status().message()));
  } else if (reply.begin().dataset() != id) {
    given_.ledger.Fail(
        id, fmt::format("rank {}: the launch's home takes it for dataset {}", writer.rank, reply.begin().dataset()));
  } else {
    return;
  }
  given_.waits.Changed();
}

void Captures::HomeHasBegun(const DatasetPtr& dataset) {
  const auto writers = capturing_.find(dataset->id);
  if (writers == capturing_.end()) return;
  for (const auto& [rank, writer] : std::map(writers->second)) {
    if (writer->ended() || !writer->has_plan()) continue;
    const bool without_file = writer->variables.empty() && writer->stage == Writer::Stage::kCommitted;
    without_file ? EndWithoutFile(writer) : WantFolder(writer);
  }
}

// The rank has begun it at the home: what has no room in time fails the dataset.
void Captures::Follow(const SessionPtr& session, const std::shared_ptr<Call>& call, const Request& request,
                      const Following& following) {
  const DatasetPtr dataset = given_.ledger.Get(following.dataset);
  const Rank rank = session->rank;
  if (!dataset || !dataset->expects(rank) || dataset->kind.files || session->ended || IsOpen(*session)) {
    return call->Fail(Aborted("dataset {} failed meanwhile", following.dataset));
  }
  const absl::Status room = given_.entry.Follow(dataset, rank, following.file_bytes);
  const auto fail = [this, dataset, rank](std::string_view why) {
    given_.ledger.Fail(dataset->id, fmt::format("rank {}: {}", rank, why));
    given_.waits.Changed();
  };
  if (IsRoomToCome(room)) {
    call->WaitingFor(fmt::format("room ({})", MessageOf(room)));
    call->OnExpired([this, dataset, fail, room] {
      if (given_.ledger.Has(dataset)) fail(MessageOf(room));
    });
    return given_.cache.WhenRoomChanges([=, this] {
      if (!call->answered()) Follow(session, call, request, following);
    });
  }
  if (room.ok()) {
    Entered(session, call, request->begin(), dataset, following.list);
    return;
  }
  fail(MessageOf(room));
  call->Fail(room);
}

}  // namespace cairn
