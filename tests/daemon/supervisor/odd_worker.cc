// A program in the place of a worker. Each connection brings one word, which says what it does with itself:
//   look       answers with what it is and what it can reach
//   abort, stop, deaf (takes no more connections), garbage (on the page of counters), busy, stubborn (SIGTERM and the
//   supervisor's end change nothing), signals (answers with the signals that it got)
// and answers "done" where it still can.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "daemon/supervisor/hand_over.h"
#include "daemon/supervisor/page.h"

extern char** environ;

namespace {

std::string Look() {
  std::stringstream text;
  text << std::ifstream("/proc/self/status").rdbuf() << "sid " << getsid(0) << " pid " << getpid() << "\n";
  for (char** variable = environ; *variable != nullptr; ++variable) text << "env " << *variable << "\n";
  DIR* const folder = opendir("/proc/self/fd");
  for (const dirent* entry = readdir(folder); entry != nullptr; entry = readdir(folder)) {
    char target[256] = {};
    const std::string name = std::string("/proc/self/fd/") + entry->d_name;
    if (readlink(name.c_str(), target, sizeof target - 1) > 0) text << "fd " << entry->d_name << " " << target << "\n";
  }
  closedir(folder);
  return text.str();
}

}  // namespace

int main(int argc, char** argv) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  const int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);
  auto page = cairn::CountersWriter::Map(cairn::UniqueFd(dup(cairn::kPageFd)));
  if (!page.ok()) return 3;
  page->Set(&cairn::WorkerCounters::ready, 1);
  bool stubborn = false, deaf = false;
  std::string got;
  for (;;) {
    pollfd polls[] = {{.fd = signal_fd, .events = POLLIN, .revents = 0},
                      {.fd = deaf ? -1 : cairn::kLinkFd, .events = POLLIN, .revents = 0}};
    poll(polls, 2, 20);
    page->Add(&cairn::WorkerCounters::beats, 1);
    if (polls[0].revents == 0 && polls[1].revents == 0) continue;
    if (polls[0].revents != 0) {
      signalfd_siginfo info{};
      if (read(signal_fd, &info, sizeof info) != sizeof info) return 4;
      got += " " + std::to_string(info.ssi_signo);
      fprintf(stderr, "signal %u\n", info.ssi_signo);
      if (info.ssi_signo == SIGTERM && !stubborn) return 0;
      continue;
    }
    const auto handed = cairn::ReceiveConnection(cairn::kLinkFd);
    if (!handed.ok() && !stubborn) return 0;
    if (!handed.ok()) {
      deaf = true;
      continue;
    }
    page->Add(&cairn::WorkerCounters::taken, 1);
    char word[32] = {};
    const int connection = handed->connection.get();
    fcntl(connection, F_SETFL, 0);
    const ssize_t n = read(connection, word, sizeof word - 1);
    if (n <= 0) continue;
    std::string answer = "done";
    const std::string asked = word;
    if (asked == "look") {
      answer = Look();
      for (int i = 0; i < argc; ++i) answer += std::string("arg ") + argv[i] + "\n";
    }
    if (asked == "signals") answer = got;
    if (asked == "abort") abort();
    if (asked == "stop") raise(SIGSTOP);
    if (asked == "busy") page->Set(&cairn::WorkerCounters::busy, 1);
    if (asked == "stubborn") stubborn = true;
    if (asked == "deaf") deaf = true;
    if (asked == "garbage") {
      void* const place = mmap(nullptr, cairn::kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, cairn::kPageFd, 0);
      std::memset(place, 0xa5, cairn::kPageBytes);
      std::memcpy(place, &cairn::kPageMagic, sizeof cairn::kPageMagic);
      answer = ftruncate(cairn::kPageFd, 0) == 0 ? "cut" : "done";
    }
    if (write(connection, answer.data(), answer.size()) < 0) continue;
  }
}
