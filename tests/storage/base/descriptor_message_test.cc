#include "storage/base/descriptor_message.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>

#include "storage/base/unique_fd.h"

namespace cairn {
namespace {

std::ptrdiff_t OpenDescriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

ino_t InodeOf(const UniqueFd& fd) {
  struct stat info {};
  EXPECT_EQ(::fstat(fd.get(), &info), 0);
  return info.st_ino;
}

class DescriptorMessageTest : public ::testing::Test {
 protected:
  DescriptorMessageTest() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    here_ = UniqueFd(ends[0]), there_ = UniqueFd(ends[1]);
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reader_ = UniqueFd(ends[0]), writer_ = UniqueFd(ends[1]);
  }

  // What comes there; "": nothing more.
  std::string Receive(UniqueFd* fd, int flags = MSG_DONTWAIT) const {
    std::array<char, 64> into;
    const ssize_t got = ReceiveWithDescriptor(there_.get(), into, fd, flags);
    return {into.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
  }

  UniqueFd here_, there_, reader_, writer_;
};

TEST_F(DescriptorMessageTest, ADescriptorGoesAlongAndTheSenderStillHasItsOwn) {
  ASSERT_EQ(SendWithDescriptor(here_.get(), "word", writer_.get()), 4);
  UniqueFd got;
  EXPECT_EQ(Receive(&got), "word");
  ASSERT_TRUE(got.valid());
  EXPECT_NE(got.get(), writer_.get());
  EXPECT_EQ(InodeOf(got), InodeOf(writer_));
  EXPECT_EQ(::fcntl(got.get(), F_GETFD), FD_CLOEXEC);
}

TEST_F(DescriptorMessageTest, WithoutOneNoneComesAndWhatWasThereIsClosed) {
  ASSERT_EQ(SendWithDescriptor(here_.get(), "word", -1), 4);
  UniqueFd got(::dup(writer_.get()));
  const std::ptrdiff_t open = OpenDescriptors();
  EXPECT_EQ(Receive(&got), "word");
  EXPECT_FALSE(got.valid());
  EXPECT_EQ(OpenDescriptors(), open - 1);
}

TEST_F(DescriptorMessageTest, OfTwoThatComeOneIsTakenAndNoneIsLeftOpen) {
  const std::ptrdiff_t open = OpenDescriptors();
  char byte = 'x';
  iovec part{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part, message.msg_iovlen = 1;
  message.msg_control = control.data(), message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(2 * sizeof(int));
  const std::array<int, 2> both = {writer_.get(), reader_.get()};
  std::memcpy(CMSG_DATA(header), both.data(), sizeof both);
  ASSERT_EQ(::sendmsg(here_.get(), &message, 0), 1);
  UniqueFd got;
  EXPECT_EQ(Receive(&got), "x");
  ASSERT_TRUE(got.valid());
  EXPECT_EQ(InodeOf(got), InodeOf(writer_));
  got.Reset();
  EXPECT_EQ(OpenDescriptors(), open);
}

TEST_F(DescriptorMessageTest, SendingDoesNotWaitAndSaysHowMuchWasTaken) {
  const std::string much(16 << 20, 'm');
  const ssize_t sent = SendWithDescriptor(here_.get(), much, writer_.get());
  ASSERT_GT(sent, 0);
  ASSERT_LT(sent, static_cast<ssize_t>(much.size()));
  EXPECT_EQ(SendWithDescriptor(here_.get(), much, -1), -1);
  EXPECT_EQ(errno, EAGAIN);
  UniqueFd got;
  EXPECT_EQ(Receive(&got), much.substr(0, 64)) << "it came with the first bytes";
  EXPECT_TRUE(got.valid());
  EXPECT_EQ(Receive(&got).size(), 64u);
  EXPECT_FALSE(got.valid());
}

TEST_F(DescriptorMessageTest, AnEndThatHasGoneIsAnErrorAndNoSignal) {
  UniqueFd got;
  std::array<char, 8> into;
  EXPECT_EQ(ReceiveWithDescriptor(there_.get(), into, &got, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
  here_.Reset();
  EXPECT_EQ(ReceiveWithDescriptor(there_.get(), into, &got), 0);
  EXPECT_EQ(SendWithDescriptor(there_.get(), "word", writer_.get()), -1);
  EXPECT_EQ(errno, EPIPE);
}

TEST_F(DescriptorMessageTest, ASocketThatIsNotConnectedSendsToAName) {
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  there_ = UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socklen_t bytes = sizeof(sa_family_t);
  ASSERT_EQ(::bind(there_.get(), reinterpret_cast<const sockaddr*>(&address), bytes), 0) << "a name of the kernel's";
  bytes = sizeof address;
  ASSERT_EQ(::getsockname(there_.get(), reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  const SocketAddress to{.name = reinterpret_cast<const sockaddr*>(&address), .bytes = bytes};
  ASSERT_EQ(SendWithDescriptor(socket.get(), "word", writer_.get(), to), 4);
  UniqueFd got;
  EXPECT_EQ(Receive(&got), "word");
  EXPECT_EQ(InodeOf(got), InodeOf(writer_));
}

// The handler has no SA_RESTART: recvmsg gives EINTR.
TEST_F(DescriptorMessageTest, ASignalDoesNotInterrupt) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGALRM, &action, nullptr), 0);
  const itimerval soon{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = 20'000}};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &soon, nullptr), 0);
  const timeval patience{.tv_sec = 0, .tv_usec = 100'000};
  ASSERT_EQ(::setsockopt(there_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
  UniqueFd got;
  std::array<char, 8> into;
  EXPECT_EQ(ReceiveWithDescriptor(there_.get(), into, &got), -1);
  EXPECT_EQ(errno, EAGAIN) << "the deadline, not the signal";
}

}  // namespace
}  // namespace cairn
