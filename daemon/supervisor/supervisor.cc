#include "daemon/supervisor/supervisor.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/supervisor/folders.h"
#include "daemon/supervisor/hand_over.h"
#include "daemon/supervisor/status.h"
#include "daemon/supervisor/worker_table.h"
#include "storage/base/clock.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

using Milliseconds = Supervisor::Milliseconds;

constexpr int kHeldByAnother = 3;  // exit code of cairnd
constexpr auto kEdges = static_cast<std::uint32_t>(EPOLLET);
constexpr int kAcceptsAtOnce = 64;  // of one socket, before the others get their turn
constexpr int kCacheEntriesMax = 1 << 16;
constexpr std::uint32_t kLivesLostMax = 30;  // then what was left is let go of: half an hour, at the longest pauses
constexpr Milliseconds kTickWaiting(50), kTickIdle(1000), kAcceptPause(100), kSecondSignal(2000), kTellEvery(10'000);

// What an event is of: a listener's index, the signals, or a worker's user and which of the user's workers it is. One
// that was started in the middle of a batch of events must not get those of the one before.
constexpr std::uint64_t kKinds = 7ull << 61;
constexpr std::uint64_t kReportEvent = 0, kListenerEvent = 1ull << 61, kSignalEvent = 2ull << 61;
constexpr std::uint64_t kLinkEvent = 3ull << 61, kDepositEvent = 4ull << 61;
constexpr std::uint64_t WorkerEvent(std::uint64_t kind, uid_t uid, std::uint64_t starts) {
  return kind | (starts & 0x1fff'ffff) << 32 | uid;
}

class SupervisorImpl final : public Supervisor {
 public:
  explicit SupervisorImpl(Options options)
      : options_(std::move(options)),
        desk_(options_.deposits_max, options_.notify_holder),
        rate_(options_.start_burst, options_.start_every) {}
  ~SupervisorImpl() override;

  absl::Status Prepare();
  bool Run() override;

 private:
  absl::Status Watch(int fd, std::uint32_t events, std::uint64_t what);
  void WantWorkersOfCaches();
  void Handle(const epoll_event& event);
  void TakeSignals();
  // Connections
  void AcceptAll(Listener& listener);
  void Admit(Door door, UniqueFd connection);
  void AnswerStatus(const UniqueFd& connection);
  void Refuse(uid_t uid, User& user, Waiting waiting, std::string_view why);
  void RefuseFirst(uid_t uid, User& user, std::string_view why);
  void TellRefusals(uid_t uid, User& user, std::string_view why, SteadyTime now);
  // Workers
  void Serve(uid_t uid, User& user);
  void ReadReport(uid_t uid, User& user);
  void Deliver(uid_t uid, User& user);
  bool MayStart(const User& user, SteadyTime now);
  void Start(uid_t uid, User& user);
  void LinkClosed(User& user);
  // Deposits
  void TakeBackDeposits();
  void AnswerRequests(uid_t uid, User& user);
  void KeepOrLetGo(uid_t uid, User& user, bool in_order);
  void LifeLost(uid_t uid, User& user);
  void AskToEnd(Worker& worker, Milliseconds patience);
  void Reap();
  void Ended(uid_t uid, User& user, int status);
  // Time
  void Tick();
  void LookAt(uid_t uid, User& user, SteadyTime now);
  Milliseconds NextTick() const;
  void Stop();

  template <typename... Args>
  void Say(Tone tone, fmt::format_string<Args...> format, Args&&... args) const {
    if (options_.log) options_.log(tone, fmt::format(format, std::forward<Args>(args)...));
  }

  Options options_;
  WorkerSetting setting_;
  UniqueFd program_, runtime_, cache_, epoll_, signals_;
  sigset_t mask_before_{};
  Users users_;
  DepositDesk desk_;
  StartRate rate_;
  std::size_t waiting_ = 0, workers_ = 0;
  SteadyTime began_{}, accept_after_{}, next_watchdog_{};
  bool accepting_ = true;  // false: out of descriptors, for a moment
  bool stopping_ = false, in_order_ = true;
};

SupervisorImpl::~SupervisorImpl() {
  for (Listener& listener : options_.listeners) CloseListener(&listener);
}

absl::Status SupervisorImpl::Watch(int fd, std::uint32_t events, std::uint64_t what) {
  epoll_event event{.events = events, .data = {.u64 = what}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return absl::OkStatus();
  return Unavailable("epoll: {}", std::strerror(errno));
}

absl::Status SupervisorImpl::Prepare() {
  began_ = SteadyNow();
  program_ = UniqueFd(::open(options_.program.c_str(), O_PATH | O_CLOEXEC));
  if (!program_.valid()) return Unavailable("{}: {}", options_.program, std::strerror(errno));
  CAIRN_ASSIGN_OR_RETURN(runtime_, OpenSharedFolder(options_.runtime_dir, 0755));
  CAIRN_ASSIGN_OR_RETURN(cache_, OpenSharedFolder(options_.cache_dir, 0755));
  if (const absl::Status quota = options_.quota.Check(cache_.get()); !quota.ok()) {
    Say(Tone::kWarning, "caches are not limited by project quotas: {}: {}", options_.cache_dir, MessageOf(quota));
    options_.quota = {};
  }
  setting_ = {.program = program_.get(),
              .arguments = options_.arguments,
              .runtime_dir = options_.runtime_dir,
              .cache_dir = options_.cache_dir,
              .runtime = runtime_.get(),
              .cache = cache_.get(),
              .uid_min = options_.uid_min,
              .limits = options_.limits,
              .groups = options_.groups,
              .quota = options_.quota,
              .account = options_.account};
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  signals_ = UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!signals_.valid() || !epoll_.valid()) return Unavailable("signals: {}", std::strerror(errno));
  CAIRN_RETURN_IF_ERROR(Watch(signals_.get(), EPOLLIN, kSignalEvent));
  CAIRN_RETURN_IF_ERROR(MakeListeners(options_.runtime_dir, &options_.listeners));
  for (std::size_t i = 0; i < options_.listeners.size(); ++i) {
    CAIRN_RETURN_IF_ERROR(Watch(options_.listeners[i].fd.get(), EPOLLIN, kListenerEvent | i));
  }
  WantWorkersOfCaches();
  TakeBackDeposits();
  return absl::OkStatus();
}

// What a cache holds may not be on the prefix yet, and its user may never come again.
void SupervisorImpl::WantWorkersOfCaches() {
  DIR* const folder = ::fdopendir(::openat(cache_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder == nullptr) return Say(Tone::kWarning, "{}: {}", options_.cache_dir, std::strerror(errno));
  int left = kCacheEntriesMax;
  for (const dirent* entry = ::readdir(folder); entry != nullptr && left > 0; entry = ::readdir(folder), --left) {
    struct stat info {};
    if (entry->d_name[0] == '.' || ::fstatat(cache_.get(), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISDIR(info.st_mode) || info.st_uid == 0 || info.st_uid < options_.uid_min) continue;
    users_.try_emplace(info.st_uid, BackOff(options_.pause_min, options_.pause_max)).first->second.wanted = true;
  }
  ::closedir(folder);
}

bool SupervisorImpl::Run() {
  if (options_.notify) options_.notify("READY=1");
  Tick();
  SteadyTime next = SteadyNow() + NextTick();
  while (!stopping_ || workers_ > 0) {
    std::array<epoll_event, 64> events;
    const auto left = std::chrono::ceil<Milliseconds>(next - SteadyNow()).count();
    const int ready = ::epoll_wait(epoll_.get(), events.data(), events.size(), left > 0 ? static_cast<int>(left) : 0);
    for (int i = 0; i < ready; ++i) Handle(events[static_cast<std::size_t>(i)]);
    // Whatever comes in, time passes: a flood of connections must not keep waits and ends from being looked at.
    if (SteadyNow() < next && SteadyNow() + NextTick() >= next) continue;
    Tick();
    next = SteadyNow() + NextTick();
  }
  return in_order_;
}

void SupervisorImpl::Handle(const epoll_event& event) {
  const std::uint64_t kind = event.data.u64 & kKinds;
  const auto number = static_cast<std::uint32_t>(event.data.u64);
  if (kind == kSignalEvent) return TakeSignals();
  if (kind == kListenerEvent) return AcceptAll(options_.listeners[number]);
  const auto user = users_.find(number);
  if (user == users_.end() || !user->second.worker) return;
  if (event.data.u64 != WorkerEvent(kind, number, user->second.starts)) return;
  if (kind == kReportEvent) return ReadReport(number, user->second);
  if (kind == kDepositEvent) return AnswerRequests(number, user->second);
  if ((event.events & (EPOLLHUP | EPOLLERR)) != 0) return LinkClosed(user->second);
  user->second.worker->link_full = false;
  Deliver(number, user->second);
}

void SupervisorImpl::TakeSignals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) {
      Reap();
    } else if (signal == SIGHUP) {
      for (const auto& [uid, user] : users_) {
        if (user.worker) ::kill(user.worker->process.pid, SIGHUP);
      }
    } else {
      Stop();
    }
  }
}

// --- Connections ---

void SupervisorImpl::AcceptAll(Listener& listener) {
  for (int i = 0; i < kAcceptsAtOnce && listener.fd.valid(); ++i) {
    UniqueFd connection(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection.valid()) {
      Admit(listener.door, std::move(connection));
      continue;
    }
    if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS) return;
    Say(Tone::kWarning, "accept: {}", std::strerror(errno));
    accepting_ = false;  // the listeners stay readable: not to be asked about at once again
    accept_after_ = SteadyNow() + kAcceptPause;
    for (const Listener& one : options_.listeners) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, one.fd.get(), nullptr);
    return;
  }
}

void SupervisorImpl::Admit(Door door, UniqueFd connection) {
  ucred who{};
  socklen_t bytes = sizeof who;
  if (::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0) return;
  if (door == Door::kStatus) {
    if (who.uid == ::geteuid()) AnswerStatus(connection);
    return;
  }
  const auto found = users_.try_emplace(who.uid, BackOff(options_.pause_min, options_.pause_max)).first;
  User& user = found->second;
  Waiting waiting{.door = door, .fd = std::move(connection), .since = SteadyNow()};
  if (who.uid == 0 || who.uid < options_.uid_min) {
    return Refuse(who.uid, user, std::move(waiting), "users below supervisor.uid_min are not served");
  }
  if (user.waiting.size() >= options_.waiting_max_user) {
    return Refuse(who.uid, user, std::move(waiting), "too many connections wait for this user's worker");
  }
  user.waiting.push_back(std::move(waiting));
  ++waiting_;
  if (waiting_ > options_.waiting_max) {
    const auto most = MostWaiting(users_);
    RefuseFirst(most->first, most->second, "too many connections wait for workers");
  }
  Serve(who.uid, user);
}

// Nothing is read: to connect is to ask.
void SupervisorImpl::AnswerStatus(const UniqueFd& connection) {
  const std::string answer = StatusOf(users_, workers_, options_.workers_max, began_, SteadyNow());
  const int bytes = static_cast<int>(2 * answer.size() + (64 << 10));
  ::setsockopt(connection.get(), SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
  // What does not fit is cut off, which the reader can tell: root's own reader must not hold up others either.
  if (::send(connection.get(), answer.data(), answer.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    Say(Tone::kWarning, "status: {}", std::strerror(errno));
  }
}

void SupervisorImpl::Refuse(uid_t uid, User& user, Waiting waiting, std::string_view why) {
  if (waiting.door == Door::kLocal && !options_.refusal.empty()) {
    // Who has gone already needs no answer.
    (void)::send(waiting.fd.get(), options_.refusal.data(), options_.refusal.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  ++user.refused;
  ++user.refused_untold;
  TellRefusals(uid, user, why, SteadyNow());
}

void SupervisorImpl::RefuseFirst(uid_t uid, User& user, std::string_view why) {
  Waiting first = std::move(user.waiting.front());
  user.waiting.pop_front();
  --waiting_;
  Refuse(uid, user, std::move(first), why);
}

// One line for many: the log is no place that a user may fill.
void SupervisorImpl::TellRefusals(uid_t uid, User& user, std::string_view why, SteadyTime now) {
  if (now - user.told < kTellEvery) return;
  user.told = now;
  Say(Tone::kWarning, "user {}: {} connections refused: {}", uid, std::exchange(user.refused_untold, 0), why);
}

// --- Workers ---

void SupervisorImpl::Serve(uid_t uid, User& user) {
  if (user.worker) return Deliver(uid, user);
  if (!stopping_ && MayStart(user, SteadyNow())) Start(uid, user);
}

bool SupervisorImpl::MayStart(const User& user, SteadyTime now) {
  if (now < user.back_off.until()) return false;
  if (workers_ < options_.workers_max) return rate_.Take(now);
  // Somebody's who has nothing to do gives way to somebody who waits.
  if (user.waiting.empty()) return false;
  if (const auto idle = LongestIdle(users_); idle != users_.end()) {
    idle->second.worker->retired = true;
    AskToEnd(*idle->second.worker, options_.stop);
  }
  return false;
}

void SupervisorImpl::Start(uid_t uid, User& user) {
  user.wanted = false;
  absl::StatusOr<StartedWorker> started = StartWorker(uid, setting_, user.deposits.fds());
  const SteadyTime now = SteadyNow();
  if (!started.ok()) {
    Say(Tone::kError, "user {}: no worker: {}", uid, MessageOf(started.status()));
    user.back_off.Lost(now, now);
    if (!user.deposits.empty()) LifeLost(uid, user);
    return;
  }
  ++user.starts;
  ++workers_;
  user.worker.emplace(*std::move(started), now);
  Say(Tone::kInfo, "user {}: worker {} started", uid, user.worker->process.pid);
  const StartedWorker& process = user.worker->process;
  absl::Status watched = Watch(process.report.get(), EPOLLIN, WorkerEvent(kReportEvent, uid, user.starts));
  if (watched.ok()) watched = Watch(process.link.get(), EPOLLOUT | kEdges, WorkerEvent(kLinkEvent, uid, user.starts));
  const std::uint64_t requests = WorkerEvent(kDepositEvent, uid, user.starts);
  if (watched.ok()) watched = Watch(process.deposits.get(), EPOLLIN, requests);
  if (watched.ok()) return;
  Say(Tone::kError, "user {}: {}", uid, MessageOf(watched));
  user.worker->kill_at = now;
}

// Its end: the worker is executed, and no code of ours runs there any more. Connections wait for that: those that a
// failure leaves behind can be told so.
void SupervisorImpl::ReadReport(uid_t uid, User& user) {
  Worker& worker = *user.worker;
  std::array<char, kReportBytesMax> text;
  const ssize_t n = ::read(worker.process.report.get(), text.data(), text.size());
  if (n < 0) return;
  if (n == 0) {
    worker.process.report.Reset();
    worker.executed = worker.report.empty();
    return Deliver(uid, user);
  }
  worker.report.assign(text.data(), static_cast<std::size_t>(n));
  std::ranges::replace_if(
      worker.report, [](unsigned char c) { return std::isprint(c) == 0; }, '?');
}

void SupervisorImpl::Deliver(uid_t uid, User& user) {
  Worker& worker = *user.worker;
  // One that ends takes nothing new: what comes waits for the next.
  while (!user.waiting.empty() && worker.executed && worker.link_open && !worker.link_full && !worker.kill_at) {
    const Waiting& first = user.waiting.front();
    const int error = SendConnection(worker.process.link.get(), first.door, first.fd.get());
    if (error == EAGAIN || error == ETOOMANYREFS || error == ENOBUFS || error == ENOMEM) {
      worker.link_full = true;
      return;
    }
    if (error != 0) {
      Say(Tone::kWarning, "user {}: worker {}: {}", uid, worker.process.pid, std::strerror(error));
      return LinkClosed(user);
    }
    ++worker.handed;
    worker.NotIdle();
    user.waiting.pop_front();
    --waiting_;
  }
}

// The worker ends, or will not take connections any more: it is given the time of a stop for it.
void SupervisorImpl::LinkClosed(User& user) {
  Worker& worker = *user.worker;
  worker.link_open = false;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, worker.process.link.get(), nullptr);
  if (!worker.kill_at) worker.kill_at = SteadyNow() + options_.stop;
}

void SupervisorImpl::AskToEnd(Worker& worker, Milliseconds patience) {
  worker.kill_at = SteadyNow() + patience;
  ::kill(worker.process.pid, SIGTERM);
  ::kill(worker.process.pid, SIGCONT);  // one that was stopped can still save what it has
}

void SupervisorImpl::Reap() {
  for (auto& [uid, user] : users_) {
    if (!user.worker) continue;
    const pid_t pid = user.worker->process.pid;
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid)
      continue;
    ::kill(-pid, SIGKILL);  // what it has left behind in its session; its number is still its own
    int status = 0;
    ::waitpid(pid, &status, 0);
    Ended(uid, user, status);
  }
}

void SupervisorImpl::Ended(uid_t uid, User& user, int status) {
  Worker& worker = *user.worker;
  if (worker.process.report.valid()) ReadReport(uid, user);
  const bool in_order = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  const std::string report = worker.report;
  if (!in_order && (worker.retired || stopping_)) in_order_ = false;
  if (!worker.retired) {
    // Also one that ended in order: its user can make it end as often as they like.
    ++user.lost;
    user.back_off.Lost(worker.started, SteadyNow());
    // What a crash has interrupted goes on, though nobody may come; also once the worker of a supervisor that was
    // killed lets go of the cache.
    const bool held = WIFEXITED(status) && WEXITSTATUS(status) == kHeldByAnother;
    user.wanted = !stopping_ && !in_order && report.empty() && (held || worker.process.page.Read().busy != 0);
  }
  Say(in_order ? Tone::kInfo : Tone::kWarning, "user {}: worker {} ended, {}{}{}", uid, worker.process.pid,
      HowItEnded(status), report.empty() ? "" : ": ", report);
  KeepOrLetGo(uid, user, in_order);
  user.worker.reset();
  --workers_;
  options_.groups.Remove(uid);
  if (!report.empty()) {
    while (!user.waiting.empty()) RefuseFirst(uid, user, report);
  }
}

// --- Deposits ---

void SupervisorImpl::TakeBackDeposits() {
  for (GivenDeposit& given : options_.deposits) {
    const uid_t uid = given.user;
    User& user = users_.try_emplace(uid, BackOff(options_.pause_min, options_.pause_max)).first->second;
    const absl::StatusOr<std::uint64_t> added = desk_.TakeBack(user.deposits, std::move(given));
    if (!added.ok()) Say(Tone::kWarning, "user {}: a deposit: {}", uid, MessageOf(added.status()));
    user.wanted = true;
  }
  options_.deposits.clear();
}

void SupervisorImpl::AnswerRequests(uid_t uid, User& user) {
  const int socket = user.worker->process.deposits.get();
  const DepositDesk::Asked asked = desk_.Answer(uid, user.deposits, socket);
  if (asked == DepositDesk::Asked::kSome) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket, nullptr);
  user.worker->asks_later = asked == DepositDesk::Asked::kLater;
}

// Its worker has ended. One that did so in order has brought everything to the cache.
void SupervisorImpl::KeepOrLetGo(uid_t uid, User& user, bool in_order) {
  if (user.deposits.empty()) return;
  if (in_order) return desk_.LetGoOfAll(uid, user.deposits);
  if (user.worker->process.page.Read().ready != 0) user.lives_lost = 0;
  LifeLost(uid, user);
}

// What is left needs another worker, though nobody may come; but not for ever.
void SupervisorImpl::LifeLost(uid_t uid, User& user) {
  if (++user.lives_lost <= kLivesLostMax) {
    user.wanted = !stopping_;
    return;
  }
  Say(Tone::kError, "user {}: {} workers did not take up what was left: it is let go of", uid, kLivesLostMax);
  user.lives_lost = 0;
  desk_.LetGoOfAll(uid, user.deposits);
}

// --- Time ---

Milliseconds SupervisorImpl::NextTick() const {
  const bool waits = waiting_ > 0 || !accepting_ || stopping_;
  return waits ? kTickWaiting : options_.watchdog ? std::min(kTickIdle, *options_.watchdog) : kTickIdle;
}

void SupervisorImpl::Tick() {
  const SteadyTime now = SteadyNow();
  if (options_.watchdog && options_.notify && now >= next_watchdog_) {
    next_watchdog_ = now + *options_.watchdog;
    options_.notify("WATCHDOG=1");
  }
  if (!accepting_ && now >= accept_after_) {
    accepting_ = true;
    for (std::size_t i = 0; i < options_.listeners.size(); ++i) {
      const absl::Status watched = Watch(options_.listeners[i].fd.get(), EPOLLIN, kListenerEvent | i);
      if (!watched.ok() && !stopping_) Say(Tone::kError, "{}", MessageOf(watched));
    }
  }
  desk_.TellPending();
  for (auto user = users_.begin(); user != users_.end();) {
    LookAt(user->first, user->second, now);
    user = user->second.Forgettable(now) ? users_.erase(user) : std::next(user);
  }
}

void SupervisorImpl::LookAt(uid_t uid, User& user, SteadyTime now) {
  if (user.refused_untold > 0) TellRefusals(uid, user, "as before", now);
  while (!user.waiting.empty() && now - user.waiting.front().since >= options_.wait) {
    RefuseFirst(uid, user, "no worker took them in time");
  }
  if (!user.worker) {
    if (user.wanted || !user.waiting.empty()) Serve(uid, user);
    return;
  }
  Worker& worker = *user.worker;
  if (worker.asks_later) {
    worker.asks_later =
        !Watch(worker.process.deposits.get(), EPOLLIN, WorkerEvent(kDepositEvent, uid, user.starts)).ok();
  }
  if (worker.kill_at && now >= *worker.kill_at) {
    Say(Tone::kError, "user {}: worker {} does not end, and is killed", uid, worker.process.pid);
    ::kill(-worker.process.pid, SIGKILL);
    ::kill(worker.process.pid, SIGKILL);
    worker.kill_at = now + options_.stop;
    return;
  }
  if (worker.kill_at) return;
  const WorkerCounters counters = worker.process.page.Read();
  if (counters.ready == 0 && counters.beats != worker.beats) {
    worker.beats = counters.beats;
    worker.heard = now;
  }
  if (counters.ready == 0 && now - worker.heard >= options_.ready) {
    Say(Tone::kError, "user {}: worker {} does not become ready", uid, worker.process.pid);
    worker.kill_at = now;
    return;
  }
  if (!user.waiting.empty()) {
    worker.NotIdle();
    worker.link_full = false;  // tried again; edges may have been missed while memory was short
    return Deliver(uid, user);
  }
  worker.Counted(counters, now);
  if (options_.idle.count() == 0 || !worker.idle_since || now - *worker.idle_since < options_.idle) return;
  worker.retired = true;
  AskToEnd(worker, options_.stop);
}

void SupervisorImpl::Stop() {
  if (!stopping_ && options_.notify) options_.notify("STOPPING=1");
  const bool again = std::exchange(stopping_, true);
  for (Listener& listener : options_.listeners) CloseListener(&listener);
  for (auto& [uid, user] : users_) {
    while (!user.waiting.empty()) RefuseFirst(uid, user, "the daemon ends");
    user.wanted = false;
    if (!user.worker) continue;
    // One that ends already keeps the time that it has for that.
    const bool ends = user.worker->retired || !user.worker->link_open;
    user.worker->retired = true;
    if (again || !ends) AskToEnd(*user.worker, again ? kSecondSignal : options_.stop);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Supervisor>> Supervisor::Open(Options options) {
  auto supervisor = std::make_unique<SupervisorImpl>(std::move(options));
  CAIRN_RETURN_IF_ERROR(supervisor->Prepare());
  return supervisor;
}

}  // namespace cairn
