#include "daemon/peers/questions.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "daemon/peers/answers.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

using Id = std::uint64_t;

class QuestionsImpl final : public Questions {
 public:
  QuestionsImpl(const Given& given, Answerer answer);
  ~QuestionsImpl() override;

  void Ask(const Member& member, const peer::Question& question, milliseconds deadline, Then then) override {
    Begin(member, question, deadline, nullptr, std::move(then));
  }
  void AskAll(std::vector<Member> members, const peer::Question& question, const Patience& patience,
              ThenAll then) override;
  void Stop() override;

 private:
  using Budget = std::shared_ptr<std::uint64_t>;  // bytes that may still come
  struct Asking {
    Member member;
    answers::Gathering gathering;
    Budget budget;
    Then then;
    Loop::TimerId timer = 0;
    std::shared_ptr<PeerLink> link = nullptr;  // null: it is being dialled
  };
  // One AskAll.
  struct Round {
    peer::Question question;
    Patience patience;
    ThenAll then;
    Answers rows;
    Budget budget;
    Loop::TimerId timer = 0;
    std::size_t next = 0;  // row to be asked
    std::set<Id> under_way = {};
    bool over = false;  // nobody else is asked
  };
  struct Served {
    std::shared_ptr<PeerLink> link;
    Loop::TimerId timer = 0;
    bool asked = false, answered = false;
  };

  // --- Asking ---
  Id Begin(const Member& member, const peer::Question& question, milliseconds deadline, Budget budget, Then then);
  void OnDialled(Id id, const peer::Question& question, absl::StatusOr<std::unique_ptr<PeerLink>> link);
  void OnAnswer(Id id, const peer::Frame& frame);
  void End(Id id, absl::StatusOr<peer::Answer> answer);
  void GoOn(Id round_id);
  void EndRound(Id round_id, const absl::Status& why);

  // --- Answering ---
  void OnLink(std::unique_ptr<PeerLink> link);
  void OnQuestion(Id id, const peer::Frame& frame);
  void Reply(Id id, const absl::StatusOr<peer::Answer>& answer);
  void Refuse(Id id, const absl::Status& why);
  void Close(Id id);
  std::optional<absl::Status> WhyFull(const NodeId& node) const;

  // `job`, unless this has gone by then.
  template <typename Job>
  auto IfAlive(Job job) {
    return [alive = std::weak_ptr<int>(alive_), job = std::move(job)](auto&&... values) {
      if (!alive.expired()) job(std::forward<decltype(values)>(values)...);
    };
  }
  void Cancel(Loop::TimerId timer) {
    if (timer != 0) given_.loop.Cancel(timer);
  }
  // It may be the one whose callback this is.
  void LetGo(std::shared_ptr<PeerLink> link) {
    if (link != nullptr) given_.loop.Post([link = std::move(link)] {});
  }

  const Given given_;
  const Answerer answer_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  Id last_id_ = 0;
  std::map<Id, Asking> asking_;
  std::map<Id, Round> rounds_;
  std::map<Id, Served> served_;
  bool stopped_ = false;
};

QuestionsImpl::QuestionsImpl(const Given& given, Answerer answer) : given_(given), answer_(std::move(answer)) {
  given_.net.Serve(given_.run, [this](std::unique_ptr<PeerLink> link) { OnLink(std::move(link)); });
}

QuestionsImpl::~QuestionsImpl() {
  alive_.reset();
  if (!stopped_) given_.net.Serve(given_.run, nullptr);
  for (auto& [id, asking] : asking_) {
    Cancel(asking.timer);
    LetGo(std::move(asking.link));
  }
  for (const auto& [id, round] : rounds_) Cancel(round.timer);
  while (!served_.empty()) Close(served_.begin()->first);
}

void QuestionsImpl::Stop() {
  stopped_ = true;
  given_.net.Serve(given_.run, nullptr);
  while (!served_.empty()) Close(served_.begin()->first);
  given_.loop.Post(IfAlive([this] {
    const absl::Status why = Cancelled("this daemon leaves the nodes of the run");
    std::vector<Id> rounds, asking;  // and none that begin meanwhile
    for (const auto& [id, round] : rounds_) rounds.push_back(id);
    for (const auto& [id, one] : asking_) asking.push_back(id);
    for (const Id id : rounds) EndRound(id, why);
    for (const Id id : asking) End(id, why);
  }));
}

// --- Asking ---

Id QuestionsImpl::Begin(const Member& member, const peer::Question& question, milliseconds deadline, Budget budget,
                        Then then) {
  const Id id = ++last_id_;
  absl::Status refused;
  if (stopped_) refused = Cancelled("this daemon leaves the nodes of the run");
  if (asking_.size() >= given_.limits.asking_max) {
    refused = ResourceExhausted("{} questions to other nodes are under way already", asking_.size());
  }
  Asking& asking = asking_
                       .emplace(id, Asking{.member = member,
                                           .gathering = answers::Gathering(question.body_case()),
                                           .budget = std::move(budget),
                                           .then = std::move(then)})
                       .first->second;
  if (!refused.ok()) {
    given_.loop.Post(IfAlive([this, id, refused] { End(id, refused); }));
    return id;
  }
  asking.timer = given_.loop.After(deadline, [this, id, deadline] {
    asking_.at(id).timer = 0;
    End(id, DeadlineExceeded("no answer within {} ms", deadline.count()));
  });
  given_.net.Dial(given_.run, member.address, deadline,
                  IfAlive([this, id, question](absl::StatusOr<std::unique_ptr<PeerLink>> link) {
                    OnDialled(id, question, std::move(link));
                  }));
  return id;
}

void QuestionsImpl::OnDialled(Id id, const peer::Question& question, absl::StatusOr<std::unique_ptr<PeerLink>> link) {
  const auto found = asking_.find(id);
  if (found == asking_.end()) return;
  if (!link.ok()) return End(id, link.status());
  Asking& asking = found->second;
  asking.link = *std::move(link);
  if (asking.link->peer().node != asking.member.node) {
    return End(id, Unavailable("{}: another node is there now", asking.member.address));
  }
  asking.link->Start({.on_frame = IfAlive([this, id](const peer::Frame& frame) { OnAnswer(id, frame); }),
                      .on_closed = IfAlive([this, id](const absl::Status& why) {
                        End(id, Unavailable("the link ended before the answer: {}", MessageOf(why)));
                      })});
  peer::Frame frame;
  *frame.mutable_question() = question;
  asking.link->Send(std::move(frame));
}

void QuestionsImpl::OnAnswer(Id id, const peer::Frame& frame) {
  const auto found = asking_.find(id);
  if (found == asking_.end()) return;
  answers::Gathering& gathering = found->second.gathering;
  const Budget budget = found->second.budget;
  const std::size_t before = gathering.bytes();
  std::optional<absl::StatusOr<peer::Answer>> answer = gathering.Add(frame);
  const std::size_t more = gathering.bytes() - before;
  if (budget && more > *budget) {
    *budget += before;
    return End(id, ResourceExhausted("all nodes' answers are more than {} bytes", given_.limits.bytes_max));
  }
  if (budget) *budget -= more;
  if (answer) End(id, *std::move(answer));
}

void QuestionsImpl::End(Id id, absl::StatusOr<peer::Answer> answer) {
  auto ended = asking_.extract(id);
  if (!ended) return;
  Cancel(ended.mapped().timer);
  LetGo(std::move(ended.mapped().link));
  ended.mapped().then(std::move(answer));
}

void QuestionsImpl::AskAll(std::vector<Member> members, const peer::Question& question, const Patience& patience,
                           ThenAll then) {
  const Id id = ++last_id_;
  Round& round = rounds_[id];
  round.question = question;
  round.patience = patience;
  round.then = std::move(then);
  round.budget = std::make_shared<std::uint64_t>(given_.limits.bytes_max);
  for (Member& member : members) {
    round.rows.emplace_back(std::move(member), DeadlineExceeded("not asked within {} ms", patience.total.count()));
  }
  round.timer = given_.loop.After(patience.total, [this, id, patience] {
    rounds_.at(id).timer = 0;
    EndRound(id, DeadlineExceeded("no answer within {} ms", patience.total.count()));
  });
  given_.loop.Post(IfAlive([this, id] { GoOn(id); }));
}

void QuestionsImpl::GoOn(Id round_id) {
  const auto found = rounds_.find(round_id);
  if (found == rounds_.end()) return;
  Round& round = found->second;
  while (!round.over && round.next < round.rows.size() && round.under_way.size() < given_.limits.at_once) {
    const std::size_t row = round.next++;
    const auto asked = std::make_shared<Id>(0);
    *asked = Begin(round.rows[row].first, round.question, round.patience.each, round.budget,
                   [this, round_id, row, asked](absl::StatusOr<peer::Answer> answer) {
                     Round& of = rounds_.at(round_id);  // it ends after its questions
                     of.rows[row].second = std::move(answer);
                     of.under_way.erase(*asked);
                     GoOn(round_id);
                   });
    round.under_way.insert(*asked);
  }
  if (!round.under_way.empty() || (round.next < round.rows.size() && !round.over)) return;
  Cancel(round.timer);
  auto ended = rounds_.extract(found);
  ended.mapped().then(std::move(ended.mapped().rows));
}

// Those that were not asked have their rows already.
void QuestionsImpl::EndRound(Id round_id, const absl::Status& why) {
  const auto found = rounds_.find(round_id);
  if (found == rounds_.end()) return;
  Round& round = found->second;
  round.over = true;
  if (round.under_way.empty()) return GoOn(round_id);
  const std::set<Id> under_way = round.under_way;
  for (const Id id : under_way) End(id, why);
}

// --- Answering ---

std::optional<absl::Status> QuestionsImpl::WhyFull(const NodeId& node) const {
  if (served_.size() >= given_.limits.answering_max) {
    return ResourceExhausted("{} others ask already", served_.size());
  }
  const auto of_it =
      std::ranges::count_if(served_, [&node](const auto& served) { return served.second.link->peer().node == node; });
  if (static_cast<std::size_t>(of_it) < given_.limits.of_one_max) return std::nullopt;
  return ResourceExhausted("{} questions of yours wait here already", of_it);
}

void QuestionsImpl::OnLink(std::unique_ptr<PeerLink> link) {
  if (link->peer().run != given_.run) return LetGo(std::move(link));
  if (const auto why = WhyFull(link->peer().node)) {
    link->Start({.on_frame = [](const peer::Frame&) {}, .on_closed = [](const absl::Status&) {}});
    link->Send(answers::Refusal(*why));
    return LetGo(std::move(link));
  }
  const Id id = ++last_id_;
  Served& served = served_[id];
  served.link = std::move(link);
  served.timer = given_.loop.After(given_.limits.answer_within, [this, id] {
    served_.at(id).timer = 0;
    Refuse(id, DeadlineExceeded("no answer within {} ms", given_.limits.answer_within.count()));
  });
  served.link->Start({.on_frame = IfAlive([this, id](const peer::Frame& frame) { OnQuestion(id, frame); }),
                      .on_closed = IfAlive([this, id](const absl::Status&) { Close(id); })});
}

void QuestionsImpl::OnQuestion(Id id, const peer::Frame& frame) {
  const auto found = served_.find(id);
  if (found == served_.end()) return;
  Served& served = found->second;
  if (!frame.has_question()) {
    return Refuse(id, InvalidArgument("frame: {} is no question", static_cast<int>(frame.body_case())));
  }
  if (std::exchange(served.asked, true)) return Refuse(id, InvalidArgument("question: a second one on one link"));
  if (const absl::Status known = answers::Check(frame.question()); !known.ok()) return Refuse(id, known);
  const PeerIdentity who = served.link->peer();
  answer_(who, frame.question(),
          IfAlive([this, id](const absl::StatusOr<peer::Answer>& answer) { Reply(id, answer); }));
}

// The link stays until who has asked closes it: it may not have read all of it.
void QuestionsImpl::Reply(Id id, const absl::StatusOr<peer::Answer>& answer) {
  const auto found = served_.find(id);
  if (found == served_.end() || std::exchange(found->second.answered, true)) return;
  for (peer::Frame& frame : answers::FramesOf(answer)) found->second.link->Send(std::move(frame));
}

void QuestionsImpl::Refuse(Id id, const absl::Status& why) {
  Reply(id, why);
  Close(id);
}

void QuestionsImpl::Close(Id id) {
  auto ended = served_.extract(id);
  if (!ended) return;
  Cancel(ended.mapped().timer);
  LetGo(std::move(ended.mapped().link));
}

}  // namespace

std::unique_ptr<Questions> Questions::Make(const Given& given, Answerer answer) {
  return std::make_unique<QuestionsImpl>(given, std::move(answer));
}

}  // namespace cairn
