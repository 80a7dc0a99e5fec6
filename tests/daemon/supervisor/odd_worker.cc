// A program in the place of a worker. Each connection brings one word, which says what it does with itself:
//   look       answers with what it is and what it has
//   reach      answers with what of the supervisor's, root's and user 41002's it can get at, as somebody who has taken
//   it
//              over would try: "reached WHAT" in lines, then "looked"
//   abort, stop, deaf (takes no more connections), garbage (on the page of counters), busy, stubborn (SIGTERM and the
//   supervisor's end change nothing), signals (answers with the signals that it got)
//   deposit (asks for memory that outlives it, writes into it whose it is, and answers with its inode, or "none"), left
//   (answers with what was left to it: "left INODE TEXT" in lines, then "end"), drop (lets go of that)
//   sick N (makes the first deposit one that the next N workers do not survive: they end before they serve)
//   flood (asks for deposits without end for a while, then for one, and answers as deposit does)
// and answers "done" where it still can.
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "daemon/supervisor/hand_over.h"
#include "daemon/supervisor/page.h"
#include "proto/supervisor.h"
#include "storage/base/unique_fd.h"

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

bool Opens(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

std::string Argument(int argc, char** argv, const std::string& name) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (name == argv[i]) return argv[i + 1];
  }
  return "";
}

bool Connects(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const cairn::UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

// Of one process: what a debugger, or a thief, would want of it.
std::string ReachProcess(const std::string& name, pid_t pid) {
  std::string reached;
  const auto tell = [&](bool gets, const char* what) { reached += gets ? "reached " + name + what + "\n" : ""; };
  const std::string proc = "/proc/" + std::to_string(pid) + "/";
  char byte = 0;
  iovec here{.iov_base = &byte, .iov_len = 1}, there{.iov_base = reinterpret_cast<void*>(0x1000), .iov_len = 1};
  tell(kill(pid, 0) == 0, ", by a signal");
  tell(ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) == 0, ", traced");
  tell(process_vm_readv(pid, &here, 1, &there, 1, 0) == 1 || errno == EFAULT, "'s pages");
  tell(Opens(proc + "mem", O_RDONLY), "'s memory");
  tell(Opens(proc + "environ", O_RDONLY), "'s environment");
  tell(Opens(proc + "fd", O_RDONLY | O_DIRECTORY), "'s descriptors");
  const rlimit files{.rlim_cur = 16, .rlim_max = 16};
  tell(prlimit(pid, RLIMIT_NOFILE, &files, nullptr) == 0, "'s limits");
  return reached;
}

std::string Reach(const std::string& runtime, const std::string& cache) {
  std::string reached;
  const auto tell = [&](bool gets, const std::string& what) { reached += gets ? "reached " + what + "\n" : ""; };
  const std::string all = runtime.substr(0, runtime.rfind('/'));
  tell(Opens(runtime, O_RDONLY | O_DIRECTORY), "my folder");
  tell(Opens(cache + "/user41001", O_RDONLY | O_DIRECTORY), "my cache");
  tell(Opens(all + "/41002", O_RDONLY | O_DIRECTORY), "another's folder");
  tell(Opens(all + "/41002/cairnd.log", O_RDONLY), "another's log");
  tell(Opens(cache + "/user41002", O_RDONLY | O_DIRECTORY), "another's cache");
  tell(Opens(cache + "/cairnd.41002.lock", O_RDONLY), "another's lock");
  tell(Opens(all, O_RDWR | O_TMPFILE), "the runtime folder");
  tell(mkdir((cache + "/user41003").c_str(), 0700) == 0, "the folder of caches");
  tell(rename((all + "/cairnd.sock").c_str(), (all + "/x").c_str()) == 0, "a socket's name");
  tell(Connects(all + "/" + cairn::kStatusSocketName), "the status of all");
  tell(Opens("/proc/self/exe", O_WRONLY), "its program");
  tell(Opens("/etc/shadow", O_RDONLY), "what root alone reads");
  // Its link brings connections, and nothing else goes either way.
  const char byte = 'x';
  tell(send(cairn::kLinkFd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1, "the supervisor, by the link");
  tell(ftruncate(cairn::kPageFd, 1 << 20) == 0 || ftruncate(cairn::kPageFd, 0) == 0, "the page's size");
  tell(setuid(0) == 0 || setgid(0) == 0 || setgroups(0, nullptr) == 0, "root's ids");
  tell(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 || chroot("/") == 0, "mounts");
  return reached + ReachProcess("the supervisor", getppid());
}

std::string Deposit(const std::string& text) {
  const cairn::DepositRequest request{.bytes = 2 << 20, .inode = 0};
  if (send(cairn::kDepositFd, &request, sizeof request, MSG_NOSIGNAL) != sizeof request) return "not asked";
  const auto answer = cairn::ReceiveConnection(cairn::kDepositFd);
  if (!answer.ok() || !answer->connection.valid()) return "none";
  struct stat info {};
  if (pwrite(answer->connection.get(), text.c_str(), text.size() + 1, 0) < 0) return "not written";
  return fstat(answer->connection.get(), &info) == 0 ? std::to_string(info.st_ino) : "not there";
}

// `drop`: lets go of it, too.
std::string Left(int count, bool drop) {
  std::string answer;
  for (int fd = cairn::kFirstLeftFd; fd < cairn::kFirstLeftFd + count; ++fd) {
    struct stat info {};
    char text[32] = {};
    if (fstat(fd, &info) != 0 || pread(fd, text, sizeof text - 1, 0) < 0) return "cannot be read";
    answer += "left " + std::to_string(info.st_ino) + " " + text + "\n";
    const cairn::DepositRequest request{.bytes = 0, .inode = info.st_ino};
    if (drop && send(cairn::kDepositFd, &request, sizeof request, MSG_NOSIGNAL) < 0) return "not dropped";
  }
  return answer + "end";
}

// A worker lets go of and makes two times 512 at the most; so many are a flood.
std::string Flood() {
  const cairn::DepositRequest request{.bytes = 0, .inode = 1};
  for (int i = 0; i < 1024 + 150; ++i) {
    if (send(cairn::kDepositFd, &request, sizeof request, MSG_NOSIGNAL) != sizeof request) return "not asked";
  }
  return Deposit("after the flood");
}

// Counts down what Sick wrote. True: this worker is one of those.
bool FallsSick(int left) {
  char text[32] = {};
  int lives = 0;
  if (left == 0 || pread(cairn::kFirstLeftFd, text, sizeof text - 1, 0) < 0) return false;
  if (sscanf(text, "sick %d", &lives) != 1 || lives == 0) return false;
  const std::string rest = "sick " + std::to_string(lives - 1);
  return pwrite(cairn::kFirstLeftFd, rest.c_str(), rest.size() + 1, 0) > 0;
}

std::string Sick(int left, const std::string& text) {
  if (left == 0) return Deposit(text);
  return pwrite(cairn::kFirstLeftFd, text.c_str(), text.size() + 1, 0) < 0 ? "not written" : "done";
}

int CountLeft() {
  int count = 0;
  while (fcntl(cairn::kFirstLeftFd + count, F_GET_SEALS) >= 0) ++count;
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  const int left = CountLeft();
  if (FallsSick(left)) return 5;
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
    if (asked == "reach") {
      answer = Reach(Argument(argc, argv, "--runtime-dir"), Argument(argc, argv, "--cache")) + "looked";
    }
    if (asked == "signals") answer = got;
    if (asked == "deposit") answer = Deposit("of " + std::to_string(getuid()));
    if (asked == "flood") answer = Flood();
    if (asked.starts_with("sick ")) answer = Sick(left, asked);
    if (asked == "left") answer = Left(left, false);
    if (asked == "drop") Left(left, true);
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
