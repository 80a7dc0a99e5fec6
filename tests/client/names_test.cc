// cairn_set_name, cairn_find, cairn_dataset_name and cairn_reject, with a daemon that plays a script.
#include <array>
#include <cstring>
#include <string>

#include "proto/frame.h"
#include "tests/client/played_session.h"

namespace cairn {
namespace {

class NamesTest : public PlayedSessionTest {
 protected:
  static bool Says(const cairn_session* session, const std::string& text) {
    return std::string(cairn_error(session)).find(text) != std::string::npos;
  }
  // The name that comes with the next begin, which is refused.
  static std::string NextName(FakePeer& peer, local::Code code = local::FAILED) {
    const local::Request begin = peer.Expect(local::Request::kBegin);
    peer.Refuse(begin, code, "refused");
    peer.Expect(local::Request::kAbort);
    return begin.begin().name();
  }
};

TEST_F(NamesTest, ANameIsForOneCallThatBeginsADatasetWhateverComesOfIt) {
  cairn_session* session = Open([](FakePeer& peer) {
    EXPECT_EQ(NextName(peer), "");
    EXPECT_EQ(NextName(peer), "second");
    EXPECT_EQ(NextName(peer), "");
    EXPECT_EQ(NextName(peer), "");
    const local::Request output = peer.Expect(local::Request::kOutputBegin);
    EXPECT_EQ(output.output_begin().name(), "picture");
    peer.Refuse(output, local::INVALID_ARGUMENT, "refused");
    EXPECT_EQ(NextName(peer), "");
  });
  EXPECT_EQ(cairn_checkpoint(session, 1, nullptr), CAIRN_FAILED);
  EXPECT_EQ(cairn_set_name(session, "first"), CAIRN_OK);
  EXPECT_EQ(cairn_set_name(session, "second"), CAIRN_OK);
  EXPECT_EQ(cairn_checkpoint(session, 2, nullptr), CAIRN_FAILED);
  EXPECT_EQ(cairn_checkpoint(session, 3, nullptr), CAIRN_FAILED);
  EXPECT_EQ(cairn_set_name(session, "none after all"), CAIRN_OK);
  EXPECT_EQ(cairn_set_name(session, nullptr), CAIRN_OK);
  EXPECT_EQ(cairn_checkpoint(session, 4, nullptr), CAIRN_FAILED);
  EXPECT_EQ(cairn_set_name(session, "picture"), CAIRN_OK);
  EXPECT_EQ(cairn_output_begin(session, 5, CAIRN_OUTPUT, nullptr), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_set_name(session, "for nothing"), CAIRN_OK);
  EXPECT_EQ(cairn_output_begin(session, 6, 0, nullptr), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_checkpoint(session, 7, nullptr), CAIRN_FAILED);
  daemon_.Join();
  cairn_close(session);
}

TEST_F(NamesTest, ABeginThatIsToldAgainHasTheNameAgain) {
  daemon_.Play([this] {
    {
      FakePeer first = daemon_.Accept();
      first.Greet();
      EXPECT_EQ(first.Expect(local::Request::kBegin).begin().name(), "best");
    }
    FakePeer second = daemon_.Accept();
    second.Greet();
    EXPECT_EQ(NextName(second), "best");
  });
  cairn_session* session = OpenOrDie(daemon_.options());
  EXPECT_EQ(cairn_set_name(session, "best"), CAIRN_OK);
  EXPECT_EQ(cairn_checkpoint(session, 1, nullptr), CAIRN_FAILED);
  daemon_.Join();
  cairn_close(session);
}

TEST_F(NamesTest, WhatNoMessageCanCarryIsTheCallersError) {
  cairn_session* session = Open([](FakePeer& peer) { EXPECT_EQ(NextName(peer), "kept"); });
  EXPECT_EQ(cairn_set_name(session, "kept"), CAIRN_OK);
  EXPECT_EQ(cairn_set_name(session, "\xff"), CAIRN_INVALID_ARGUMENT);
  EXPECT_TRUE(Says(session, "UTF-8")) << cairn_error(session);
  EXPECT_EQ(cairn_set_name(session, std::string(CAIRN_NAME_BYTES_MAX + 1, 'x').c_str()), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_find(session, nullptr, nullptr, nullptr), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_find(session, "", nullptr, nullptr), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_find(session, "\xc0\x80", nullptr, nullptr), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_dataset_name(session, 3, nullptr, 10), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_checkpoint(session, 1, nullptr), CAIRN_FAILED);
  daemon_.Join();
  cairn_close(session);
}

TEST_F(NamesTest, AreAskedByNameAndByNumber) {
  cairn_session* session = Open([](FakePeer& peer) {
    for (int i = 0; i < 2; ++i) {
      const local::Request by_name = peer.Expect(local::Request::kFind);
      EXPECT_EQ(by_name.find().name(), "best");
      EXPECT_EQ(by_name.find().dataset(), 0u);
      local::Reply found;
      found.mutable_find()->set_dataset(12);
      found.mutable_find()->set_step(700);
      peer.Answer(by_name, std::move(found));
    }
    for (int i = 0; i < 2; ++i) {
      const local::Request by_number = peer.Expect(local::Request::kFind);
      EXPECT_EQ(by_number.find().name(), "");
      EXPECT_EQ(by_number.find().dataset(), 12u);
      local::Reply found;
      found.mutable_find()->set_name("best");
      peer.Answer(by_number, std::move(found));
    }
    peer.Refuse(peer.Expect(local::Request::kFind), local::NOT_FOUND, "no such name");
  });
  std::uint64_t dataset = 0, step = 0;
  EXPECT_EQ(cairn_find(session, "best", &dataset, &step), CAIRN_OK);
  EXPECT_EQ(dataset, 12u);
  EXPECT_EQ(step, 700u);
  EXPECT_EQ(cairn_find(session, "best", nullptr, nullptr), CAIRN_OK);
  std::array<char, 5> name{};
  EXPECT_EQ(cairn_dataset_name(session, 12, name.data(), name.size()), CAIRN_OK);
  EXPECT_STREQ(name.data(), "best");
  EXPECT_EQ(cairn_dataset_name(session, 12, name.data(), 4), CAIRN_INVALID_ARGUMENT);
  EXPECT_TRUE(Says(session, "name: needs 5 bytes, has 4")) << cairn_error(session);
  EXPECT_EQ(cairn_find(session, "worst", &dataset, &step), CAIRN_NOT_FOUND);
  EXPECT_EQ(dataset, 12u) << "as it was";
  daemon_.Join();
  cairn_close(session);
}

TEST_F(NamesTest, ARejectionWhoseAnswerWasLostIsSaidAgain) {
  daemon_.Play([this] {
    {
      FakePeer first = daemon_.Accept();
      first.Greet();
      EXPECT_EQ(first.Expect(local::Request::kReject).reject().dataset(), 5u);
    }
    FakePeer second = daemon_.Accept();
    second.Greet();
    const local::Request again = second.Expect(local::Request::kReject);
    EXPECT_EQ(again.reject().dataset(), 5u);
    second.Answer(again, {});
    second.Refuse(second.Expect(local::Request::kReject), local::NOT_FOUND, "no restorable dataset 6");
  });
  cairn_session* session = OpenOrDie(daemon_.options());
  EXPECT_EQ(cairn_reject(session, 5), CAIRN_OK) << cairn_error(session);
  EXPECT_EQ(cairn_reject(session, 6), CAIRN_NOT_FOUND);
  daemon_.Join();
  cairn_close(session);
}

// It would pass over the name.
TEST_F(NamesTest, AnOlderDaemonIsNotToldButForWhatItKnows) {
  constexpr std::uint32_t kBefore = CAIRN_PROTOCOL_OF_NAMES - 1;
  daemon_.Play([this] {
    FakePeer peer = daemon_.Accept();
    peer.Greet(3, kBefore);
    EXPECT_EQ(peer.Expect(local::Request::kAbort).has_abort(), true);
    EXPECT_EQ(NextName(peer), "");
  });
  cairn_session* session = OpenOrDie(daemon_.options());
  std::array<char, 64> name{};
  EXPECT_EQ(cairn_set_name(session, "best"), CAIRN_OK);
  EXPECT_EQ(cairn_checkpoint(session, 1, nullptr), CAIRN_UNSUPPORTED);
  EXPECT_TRUE(Says(session, "the daemon speaks protocol 2, names and rejections of datasets need 3"))
      << cairn_error(session);
  EXPECT_EQ(cairn_set_name(session, "best"), CAIRN_OK);
  EXPECT_EQ(cairn_output_begin(session, 1, CAIRN_OUTPUT, nullptr), CAIRN_UNSUPPORTED);
  EXPECT_EQ(cairn_find(session, "best", nullptr, nullptr), CAIRN_UNSUPPORTED);
  EXPECT_EQ(cairn_dataset_name(session, 3, name.data(), name.size()), CAIRN_UNSUPPORTED);
  EXPECT_EQ(cairn_reject(session, 3), CAIRN_UNSUPPORTED);
  EXPECT_EQ(cairn_checkpoint(session, 2, nullptr), CAIRN_FAILED);
  daemon_.Join();
  cairn_close(session);
}

}  // namespace
}  // namespace cairn
