// Memory of a bench and of the ranks that it forks. What goes wrong ends the program.
#ifndef CAIRN_TESTS_BENCH_SHARED_MEMORY_H_
#define CAIRN_TESTS_BENCH_SHARED_MEMORY_H_

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/bench/bench_daemon.h"

namespace cairn::bench {

// Shared with what is forked afterwards; its `barrier` is for so many processes.
template <typename Shared>
Shared* MakeShared(int parties) {
  void* at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) Die("no memory");
  auto* shared = new (at) Shared{};
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared->barrier, &attributes, static_cast<unsigned>(parties));
  return shared;
}

// A process of a rank; in the parent its number. One that does not end with 0 ends the program, and the others with it:
// they would wait at their barrier for ever.
inline pid_t ForkRank() {
  struct sigaction action {};
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_NOCLDSTOP;
  action.sa_sigaction = [](int, siginfo_t* child, void*) {
    if (child->si_code != CLD_EXITED || child->si_status != 0) std::_Exit(1);
  };
  sigaction(SIGCHLD, &action, nullptr);
  const pid_t pid = fork();
  if (pid < 0) Die("fork");
  if (pid == 0) {
    signal(SIGCHLD, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
  }
  return pid;
}

// In huge pages, if there are any; every byte has been written.
inline std::byte* Touched(std::size_t bytes, int value) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) Die("no memory");
  madvise(at, bytes, MADV_HUGEPAGE);
  std::memset(at, value, bytes);
  return static_cast<std::byte*>(at);
}

// As an application does from one checkpoint to the next: no block is what it was, so that each is written.
inline void ChangeAll(std::byte* data, std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  for (std::size_t at = 0; at < bytes; at += kPage) data[at] = static_cast<std::byte>(static_cast<int>(data[at]) + 1);
}

}  // namespace cairn::bench

#endif  // CAIRN_TESTS_BENCH_SHARED_MEMORY_H_
