// Gravitation among particles, in C++: several processes without MPI, which find each other through shared memory. Each
// owns a share of the particles and saves only that; the sums have the same order on any number of processes, so the
// result does not depend on it, nor on being killed.
//
// What Cairn needs is in `Work::Open`, `Work::Protect`, `Work::Save` and `Work::Resume`. Each process opens a session
// of its own after the fork, and all of one start have the same launch key.
#include <cairn.hpp>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "options.h"

namespace {

using Vector = std::array<double, 3>;

constexpr double kTimeStep = 1e-3, kSoftening = 1e-2;

[[noreturn]] void GiveUp(const char* what, const std::string& why) {
  std::fprintf(stderr, "particles: %s: %s\n", what, why.c_str());
  std::exit(1);
}

// What the processes share: where all particles are, twice, so that one step's readers never meet the next one's
// writers.
class Board {
 public:
  Board(std::size_t particles, unsigned ranks) : particles_(particles) {
    const std::size_t bytes = sizeof(pthread_barrier_t) + 2 * particles * sizeof(Vector);
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) GiveUp("mmap", "no memory");
    positions_ = static_cast<Vector*>(memory);
    barrier_ = reinterpret_cast<pthread_barrier_t*>(positions_ + 2 * particles);
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(barrier_, &attributes, ranks);
  }
  std::span<Vector> Page(std::uint64_t step) const { return {positions_ + (step % 2) * particles_, particles_}; }
  void Meet() const { pthread_barrier_wait(barrier_); }

 private:
  std::size_t particles_;
  Vector* positions_;
  pthread_barrier_t* barrier_;
};

// One process's share.
class Work {
 public:
  Work(const example_options& options, const Board& board, unsigned rank)
      : options_(options),
        board_(board),
        rank_(rank),
        first_(options.size * rank / options.ranks),
        position_(options.size * (rank + 1) / options.ranks - first_),
        velocity_(position_.size()) {
    Begin();
  }

  void Run(const std::string& launch) {
    if (options_.every != 0) {
      Open(launch);
      Protect();
      Resume();
    }
    while (step_ < options_.steps) {
      Advance(rank_ == 0 && step_ + 1 == options_.die_at);
      if (session_ && step_ % options_.every == 0) Save();
    }
    if (options_.out != nullptr) Write();
    if (session_ && !session_->close()) GiveUp("close", "the daemon did not answer");
    if (rank_ == 0) std::printf("done after step %llu\n", static_cast<unsigned long long>(step_));
  }

 private:
  void Begin() {
    step_ = 0;
    for (std::size_t i = 0; i < position_.size(); ++i) {
      const double n = static_cast<double>(first_ + i) + 1.0;
      position_[i] = {std::fmod(n * 0.754877666, 1.0), std::fmod(n * 0.569840291, 1.0), std::fmod(n * 0.362, 1.0)};
      velocity_[i] = {0.1 * (position_[i][1] - 0.5), -0.1 * (position_[i][0] - 0.5), 0.0};
    }
  }

  void Open(const std::string& launch) {
    cairn::Options options;
    options.rank = static_cast<std::int32_t>(rank_);
    options.nranks = static_cast<std::int32_t>(options_.ranks);
    options.launch = launch;
    auto session = cairn::Session::open(options);
    if (!session) GiveUp("open", session.error().message);
    session_.emplace(*std::move(session));
  }

  void Protect() {
    const cairn::Box box{.shape = {options_.size, 3}, .start = {first_, 0}, .count = {position_.size(), 3}};
    for (const auto& done : {session_->value(1, "step", step_), session_->array(2, "position", Flat(position_), box),
                             session_->array(3, "velocity", Flat(velocity_), box)}) {
      if (!done) GiveUp("protect", done.error().message);
    }
  }

  void Resume() {
    const auto resumed = session_->resume();
    if (resumed.code() == cairn::Code::kDirty) {  // no copy is whole, and part of one is in some process's memory
      std::fprintf(stderr, "particles: rank %u: %s\n", rank_, resumed.error().message.c_str());
      Begin();
      Protect();
    }
    if (resumed.code() == cairn::Code::kNotFound || resumed.code() == cairn::Code::kDirty) {
      return Say("starting fresh");
    }
    if (!resumed) GiveUp("resume", resumed.error().message);
    Say("resumed from step " + std::to_string(resumed->step) + " (dataset " + std::to_string(resumed->dataset) +
        ", tier " + example_tier(static_cast<std::int32_t>(resumed->tier)) + ")");
  }

  // A checkpoint that fails costs only itself: the run goes on and tries again at the next one.
  void Save() {
    const auto dataset = session_->checkpoint(step_);
    std::optional<cairn::Error> error;
    if (!dataset) {
      error = dataset.error();
    } else if (options_.level != CAIRN_LEVEL_NONE) {
      const auto done = session_->wait(*dataset, static_cast<cairn::Level>(options_.level), std::chrono::minutes(1));
      if (!done) error = done.error();
    }
    if (error) {
      std::fprintf(stderr, "particles: rank %u: checkpoint: %s\n", rank_, error->message.c_str());
    } else {
      Say("checkpoint of step " + std::to_string(step_) + " is dataset " + std::to_string(*dataset));
    }
  }

  // `dies`: only half of the step.
  void Advance(bool dies) {
    const std::span<Vector> all = board_.Page(step_);
    std::copy(position_.begin(), position_.end(), all.begin() + static_cast<std::ptrdiff_t>(first_));
    board_.Meet();
    for (std::size_t i = 0; i < position_.size(); ++i) {
      if (dies && i == position_.size() / 2) ::raise(SIGKILL);
      const Vector force = ForceOn(position_[i], all);
      for (std::size_t d = 0; d < 3; ++d) {
        velocity_[i][d] += kTimeStep * force[d];
        position_[i][d] += kTimeStep * velocity_[i][d];
      }
    }
    ++step_;
  }

  static Vector ForceOn(const Vector& here, std::span<const Vector> all) {
    Vector force{};
    for (const Vector& there : all) {
      Vector away;
      double square = kSoftening;
      for (std::size_t d = 0; d < 3; ++d) {
        away[d] = there[d] - here[d];
        square += away[d] * away[d];
      }
      const double strength = 1.0 / (square * std::sqrt(square) * static_cast<double>(all.size()));
      for (std::size_t d = 0; d < 3; ++d) force[d] += strength * away[d];
    }
    return force;
  }

  // First all positions, then all velocities.
  void Write() const {
    const int fd = ::open(options_.out, O_CREAT | O_WRONLY, 0644);
    const auto size = static_cast<ssize_t>(position_.size() * sizeof(Vector));
    const auto place = static_cast<off_t>(first_ * sizeof(Vector));
    const auto half = static_cast<off_t>(options_.size * sizeof(Vector));
    if (fd < 0 || ::pwrite(fd, position_.data(), static_cast<std::size_t>(size), place) != size ||
        ::pwrite(fd, velocity_.data(), static_cast<std::size_t>(size), half + place) != size || ::close(fd) != 0) {
      GiveUp("cannot write", options_.out);
    }
  }

  static std::span<double> Flat(std::vector<Vector>& vectors) {
    return vectors.empty() ? std::span<double>() : std::span<double>(vectors.front().data(), 3 * vectors.size());
  }

  void Say(const std::string& text) const {
    if (rank_ != 0) return;
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }

  const example_options options_;
  const Board& board_;
  const unsigned rank_;
  const std::uint64_t first_;
  std::vector<Vector> position_, velocity_;
  std::uint64_t step_ = 0;
  std::optional<cairn::Session> session_;
};

// New for every start, the same for all its processes.
std::string LaunchKey() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) GiveUp("getrandom", "no random number");
  return "particles-" + std::to_string(number);
}

// One that fails takes the others with it: they would wait for it for ever.
int WaitForAll(std::vector<pid_t> children) {
  int code = 0;
  for (std::size_t left = children.size(); left > 0; --left) {
    int status = 0;
    const pid_t ended = ::wait(&status);
    std::erase(children, ended);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    if (code == 0) {
      code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : 1;
      for (const pid_t child : children) ::kill(child, SIGKILL);
    }
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  example_options options{};
  options.steps = 400;
  options.every = 50;
  options.size = 600;
  options.ranks = 2;
  example_parse(argc, argv, &options);
  if (options.ranks == 0 || options.ranks > 256) GiveUp("--ranks", "1 to 256");
  const Board board(options.size, static_cast<unsigned>(options.ranks));
  const std::string launch = LaunchKey();
  std::vector<pid_t> children;
  for (unsigned rank = 0; rank < options.ranks; ++rank) {
    const pid_t child = ::fork();
    if (child < 0) GiveUp("fork", "no process");
    if (child == 0) {
      Work(options, board, rank).Run(launch);
      return 0;
    }
    children.push_back(child);
  }
  return WaitForAll(children);
}
