#include "daemon/arbiter/sealed.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn {
namespace {

const std::string kSecret(32, 's');
const std::string kKey = "/cairn/0123/launch.7";

TEST(SealedTest, ComesBackAsItWas) {
  for (const std::string& bytes : {std::string(), std::string("a"), std::string(100'000, '\0')}) {
    const std::string sealed = Seal(kSecret, kKey, bytes);
    EXPECT_EQ(sealed.size(), bytes.size() + kSealBytes);
    EXPECT_EQ(Unseal(kSecret, kKey, sealed), bytes);
  }
}

TEST(SealedTest, AnyCutOrFlippedBitIsTold) {
  const std::string sealed = Seal(kSecret, kKey, "some bytes");
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    EXPECT_FALSE(Unseal(kSecret, kKey, sealed.substr(0, i))) << i;
    for (int bit = 0; bit < 8; ++bit) {
      std::string other = sealed;
      other[i] = static_cast<char>(other[i] ^ (1 << bit));
      EXPECT_FALSE(Unseal(kSecret, kKey, other)) << i;
    }
  }
  EXPECT_FALSE(Unseal(kSecret, kKey, sealed + 'x'));
}

TEST(SealedTest, HoldsForItsKeyAndSecretOnly) {
  const std::string sealed = Seal(kSecret, kKey, "some bytes");
  EXPECT_FALSE(Unseal(kSecret, "/cairn/0123/launch.8", sealed));
  EXPECT_FALSE(Unseal(std::string(32, 't'), kKey, sealed));
}

TEST(SealedTest, CannotBeReadAndIsNeverTwiceTheSame) {
  const std::string bytes(64, 'b');
  const std::string sealed = Seal(kSecret, kKey, bytes), again = Seal(kSecret, kKey, bytes);
  EXPECT_EQ(sealed.find("bbbb"), sealed.npos);
  EXPECT_NE(sealed, again);
  EXPECT_NE(sealed.substr(kSealBytes), again.substr(kSealBytes));
}

}  // namespace
}  // namespace cairn
