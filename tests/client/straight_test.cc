// Restores of which the client reads blocks of a file itself, against a daemon played by the test.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "client/cairn.h"
#include "storage/base/checksum.h"
#include "tests/client/fake_daemon.h"
#include "tests/client/played_session.h"

namespace cairn {
namespace {

constexpr std::uint64_t kMiB = kCrcBlockBytes;
constexpr std::uint64_t kBlocks = 9;  // of the file
constexpr std::uint64_t kTail = 1000;
constexpr std::uint64_t kBytes = kBlocks * kMiB + kTail;  // of the variable; the tail comes through the image

// One variable of bytes, whose whole blocks lie in a file in two runs, the second one first.
class StraightTest : public PlayedSessionTest {
 protected:
  StraightTest() : image_(5, 2 << 20), expected_(kBytes) {
    std::mt19937_64 random(1);
    for (std::uint64_t at = 0; at + 8 <= kBytes; at += 8) {
      const std::uint64_t word = random();
      std::memcpy(expected_.data() + at, &word, 8);
    }
    file_ = ::memfd_create("file", MFD_CLOEXEC);
    EXPECT_GE(file_, 0);
    // Blocks 0 and 1 of the file belong to the variable's end.
    Write(0, expected_.data() + 7 * kMiB, 2 * kMiB);
    Write(2 * kMiB, expected_.data(), 7 * kMiB);
    std::memcpy(image_.bytes().data(), expected_.data() + kBlocks * kMiB, kTail);
    data_ = static_cast<std::uint8_t*>(std::aligned_alloc(4096, (kBytes + 4095) / 4096 * 4096));
    std::memset(data_, 0xee, kBytes);
  }
  ~StraightTest() override {
    daemon_.Join();
    cairn_close(session_);
    std::free(data_);
    ::close(file_);
  }
  void Write(std::uint64_t at, const void* bytes, std::uint64_t count) const {
    EXPECT_EQ(::pwrite(file_, bytes, count, static_cast<off_t>(at)), static_cast<ssize_t>(count));
  }

  void OpenAndProtect(std::function<void(FakePeer&)> script, std::uint32_t deadline_ms = 5000) {
    session_ = Open(std::move(script), deadline_ms);
    ASSERT_EQ(cairn_protect(session_, 3, data_, kBytes, CAIRN_UINT8), CAIRN_OK);
  }
  static void AddRun(local::Straight& straight, std::uint64_t at, std::uint64_t file_offset, std::uint64_t blocks) {
    straight.add_variable(0);
    straight.add_variable_offset(at);
    straight.add_file_offset(file_offset);
    straight.add_blocks(blocks);
  }
  // The plan, which has the tail only. `files`: 2: as if each run had a file of its own.
  local::Reply Planned(int files = 1) const {
    local::Reply reply;
    local::RestoreReply& begun = *reply.mutable_restore();
    image_.Describe(begun.mutable_image(), true);
    begun.set_round(1);
    begun.mutable_plan()->add_variable(0);
    begun.mutable_plan()->add_variable_offset(kBlocks * kMiB);
    begun.mutable_plan()->add_image_offset(0);
    begun.mutable_plan()->add_bytes(kTail);
    begun.set_straight_bytes(2 * kMiB);
    begun.set_straight_reads(3);
    AddRun(*begun.add_straight(), 7 * kMiB, 0, 2);
    AddRun(files == 1 ? *begun.mutable_straight(0) : *begun.add_straight(), 0, 2 * kMiB, 7);
    for (const std::uint64_t block : {7, 8, 0, 1, 2, 3, 4, 5, 6}) {
      local::Straight& straight = *begun.mutable_straight(block < 7 ? files - 1 : 0);
      straight.add_crc32c(Crc32c({reinterpret_cast<const std::byte*>(expected_.data()) + block * kMiB, kMiB}));
    }
    return reply;
  }
  static local::Reply File(std::uint32_t index = 0) {
    local::Reply reply;
    reply.mutable_straight_file()->set_round(1);
    reply.mutable_straight_file()->set_index(index);
    return reply;
  }
  static local::Reply Ready() {
    local::Reply reply;
    reply.mutable_ready()->set_pieces(1);
    return reply;
  }
  static local::Reply End() {
    local::Reply reply;
    reply.mutable_restore_end()->set_tier(local::TIER_CACHE);
    return reply;
  }
  // The next Copied.
  static local::Copied Copied(FakePeer& peer) {
    while (const auto request = peer.Receive()) {
      if (request->has_copied()) return request->copied();
    }
    ADD_FAILURE() << "the client closed";
    return {};
  }
  FakeImage image_;
  std::vector<std::uint8_t> expected_;
  int file_ = -1;
  std::uint8_t* data_ = nullptr;
  cairn_session* session_ = nullptr;
};

TEST_F(StraightTest, BlocksAreReadIntoTheMemoryAndTheRestIsCopied) {
  OpenAndProtect([this](FakePeer& peer) {
    const local::Request restore = peer.Expect(local::Request::kRestore);
    EXPECT_EQ(restore.restore().variables(0).memory(), 1u) << "it begins where its page does";
    peer.Answer(restore, Planned(), image_.fd());
    peer.Answer(restore, File(), file_);
    const local::Copied read = Copied(peer);
    EXPECT_EQ(read.straight(), 1u);
    EXPECT_FALSE(read.straight_failed());
    EXPECT_EQ(read.round(), 1u);
    peer.Answer(restore, Ready());
    EXPECT_EQ(Copied(peer).pieces(), 1u);
    peer.Answer(restore, End());
  });
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(std::memcmp(data_, expected_.data(), kBytes), 0);
}

// Whatever is wrong with the file, the client says that it failed, once, and takes the plan that comes then.
struct BadFile {
  const char* name;
  std::function<void(int file)> spoil;
  std::uint32_t read = 0;  // files, before one fails
  bool sent = true;        // its descriptor
};

class BadFileTest : public StraightTest, public testing::WithParamInterface<BadFile> {};

TEST_P(BadFileTest, IsSaidAndAllComesInTheNextRound) {
  GetParam().spoil(file_);
  OpenAndProtect([this](FakePeer& peer) {
    const local::Request restore = peer.Expect(local::Request::kRestore);
    peer.Answer(restore, Planned(2), image_.fd());
    for (const std::uint32_t index : {0, 1}) peer.Answer(restore, File(index), GetParam().sent ? file_ : -1);
    std::uint32_t read = 0;
    for (local::Copied said = Copied(peer); !said.straight_failed(); said = Copied(peer))
      EXPECT_EQ(said.straight(), ++read);
    EXPECT_EQ(read, GetParam().read);
    // What was on its way is passed over.
    peer.Answer(restore, Ready());
    EXPECT_TRUE(Copied(peer).straight_failed());
    // The variable is larger than the image of this test: all of its blocks come from one place there.
    local::Reply again;
    local::RestoreReply& begun = *again.mutable_restore();
    image_.Describe(begun.mutable_image(), false);
    begun.set_round(2);
    std::memset(image_.bytes().data(), 0x77, 2 * kMiB);
    for (std::uint64_t at = 0; at < kBytes; at += kMiB) {
      begun.mutable_plan()->add_variable(0);
      begun.mutable_plan()->add_variable_offset(at);
      begun.mutable_plan()->add_image_offset(0);
      begun.mutable_plan()->add_bytes(std::min(kMiB, kBytes - at));
    }
    peer.Answer(restore, std::move(again));
    local::Reply ready;
    ready.mutable_ready()->set_pieces(kBlocks + 1);
    peer.Answer(restore, std::move(ready));
    const local::Copied copied = Copied(peer);
    EXPECT_EQ(copied.round(), 2u);
    EXPECT_FALSE(copied.straight_failed());
    while (peer.told() < kBlocks + 1) Copied(peer);
    peer.Answer(restore, End());
  });
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(std::vector<std::uint8_t>(data_, data_ + kBytes), std::vector<std::uint8_t>(kBytes, 0x77));
}

const BadFile kBadFiles[] = {
    {"Damaged", [](int file) { EXPECT_EQ(::pwrite(file, "?", 1, static_cast<off_t>(6 * kMiB + 12345)), 1); }, 1},
    {"TooShort", [](int file) { EXPECT_EQ(::ftruncate(file, static_cast<off_t>(8 * kMiB + 4096)), 0); }, 1},
    {"Empty", [](int file) { EXPECT_EQ(::ftruncate(file, 0), 0); }, 0},
    {"WithoutItsDescriptor", [](int) {}, 0, false},
};

INSTANTIATE_TEST_SUITE_P(All, BadFileTest, testing::ValuesIn(kBadFiles),
                         [](const auto& info) { return std::string(info.param.name); });

// A daemon that says what cannot be.
struct BadStraight {
  const char* name;
  std::function<void(local::RestoreReply&)> spoil;
};

class BadStraightTest : public StraightTest, public testing::WithParamInterface<BadStraight> {};

TEST_P(BadStraightTest, IsRefusedAndNothingIsWritten) {
  OpenAndProtect([this](FakePeer& peer) {
    const local::Request restore = peer.Expect(local::Request::kRestore);
    local::Reply reply = Planned();
    GetParam().spoil(*reply.mutable_restore());
    peer.Answer(restore, std::move(reply), image_.fd());
    peer.Answer(restore, File(), file_);
    while (peer.Receive()) {
    }
  });
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_INTERNAL) << cairn_error(session_);
  EXPECT_NE(std::string(cairn_error(session_)).find("protocol"), std::string::npos) << cairn_error(session_);
  EXPECT_EQ(std::vector<std::uint8_t>(data_, data_ + kBytes), std::vector<std::uint8_t>(kBytes, 0xee));
}

const BadStraight kBadStraights[] = {
    {"NoSuchVariable", [](local::RestoreReply& r) { r.mutable_straight(0)->set_variable(1, 1); }},
    {"BeyondItsVariable", [](local::RestoreReply& r) { r.mutable_straight(0)->set_variable_offset(1, 3 * kMiB); }},
    {"OffsetThatOverflows", [](local::RestoreReply& r) { r.mutable_straight(0)->set_variable_offset(1, ~0ull); }},
    {"BlocksThatOverflow", [](local::RestoreReply& r) { r.mutable_straight(0)->set_blocks(1, 1ull << 44); }},
    {"NoBlocks", [](local::RestoreReply& r) { r.mutable_straight(0)->set_blocks(1, 0); }},
    {"InTheMidstOfABlock", [](local::RestoreReply& r) { r.mutable_straight(0)->set_file_offset(1, 2 * kMiB + 512); }},
    {"BeyondAnyFile", [](local::RestoreReply& r) { r.mutable_straight(0)->set_file_offset(1, 1ull << 63); }},
    {"TooFewChecksums", [](local::RestoreReply& r) { r.mutable_straight(0)->mutable_crc32c()->RemoveLast(); }},
    {"TooManyChecksums", [](local::RestoreReply& r) { r.mutable_straight(0)->add_crc32c(1); }},
    {"ColumnsOfDifferentLength", [](local::RestoreReply& r) { r.mutable_straight(0)->add_file_offset(0); }},
    {"ABlockForgotten",
     [](local::RestoreReply& r) {
       r.mutable_straight(0)->set_blocks(1, 6);
       r.mutable_straight(0)->mutable_crc32c()->RemoveLast();
     }},
    {"ReadsOfNothing", [](local::RestoreReply& r) { r.set_straight_bytes(0); }},
    {"ReadsOfHalfBlocks", [](local::RestoreReply& r) { r.set_straight_bytes(kMiB / 2); }},
    {"ReadsThatAreTooLarge", [](local::RestoreReply& r) { r.set_straight_bytes(1ull << 40); }},
};

INSTANTIATE_TEST_SUITE_P(All, BadStraightTest, testing::ValuesIn(kBadStraights),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(StraightTest, AFileThatIsNotTheNextOneIsRefused) {
  OpenAndProtect([this](FakePeer& peer) {
    const local::Request restore = peer.Expect(local::Request::kRestore);
    peer.Answer(restore, Planned(), image_.fd());
    peer.Answer(restore, File(1), file_);
    while (peer.Receive()) {
    }
  });
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_INTERNAL) << cairn_error(session_);
  EXPECT_NE(std::string(cairn_error(session_)).find("file 1 of plan 1, expected 0 of plan 1"), std::string::npos)
      << cairn_error(session_);
}

TEST_F(StraightTest, TheEndBeforeTheFileIsRefused) {
  OpenAndProtect([this](FakePeer& peer) {
    const local::Request restore = peer.Expect(local::Request::kRestore);
    peer.Answer(restore, Planned(), image_.fd());
    peer.Answer(restore, Ready());
    peer.Answer(restore, End());
    while (peer.Receive()) {
    }
  });
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_INTERNAL) << cairn_error(session_);
}

// Of all of its memory a client tells of what is in one row and of one rank.
TEST_F(StraightTest, ValuesHalosAndSmallMemoryAreNotOffered) {
  std::vector<std::uint8_t> value(2 * kMiB), small(kMiB - 1);
  std::vector<std::uint8_t> halo(2050ull * 2050);
  OpenAndProtect([](FakePeer& peer) {
    const local::Request restore = peer.Expect(local::Request::kRestore);
    for (const local::Variable& variable : restore.restore().variables()) {
      EXPECT_EQ(variable.memory() != 0, variable.id() == 3) << variable.id();
    }
    peer.Refuse(restore, local::FAILED_PRECONDITION, "enough");
  });
  ASSERT_EQ(cairn_protect_value(session_, 4, "v", value.data(), value.size(), CAIRN_UINT8), CAIRN_OK);
  ASSERT_EQ(cairn_protect(session_, 5, small.data(), small.size(), CAIRN_UINT8), CAIRN_OK);
  const std::uint64_t shape[] = {2048, 2048}, start[] = {0, 0}, memory[] = {2050, 2050}, at[] = {1, 1};
  ASSERT_EQ(cairn_protect_array(session_, 6, "u", halo.data(), CAIRN_UINT8, 2, shape, start, shape, memory, at),
            CAIRN_OK);
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_FAILED_PRECONDITION);
}

}  // namespace
}  // namespace cairn
