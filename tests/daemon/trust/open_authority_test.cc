// The authority of the run that lives at a prefix: made once, kept by the run's identity.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <variant>

#include "daemon/trust/authority.h"
#include "storage/file/trees/tree_file.h"
#include "storage/place/prefix/prefix.h"
#include "tests/daemon/trust/members.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using testing::CredentialOf;
using testing::MemberOf;
using testing::Noon;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
constexpr char kPath[] = "/pfs/demo";

class OpenAuthorityTest : public ::testing::Test {
 protected:
  RunId RunAt(const std::string& path) {
    auto prefix = Prefix::Open(disk_, path);
    EXPECT_OK(prefix.status());
    return (*prefix)->run();
  }
  std::shared_ptr<const Authority> Open(const std::string& path, const RunId& run) {
    auto authority = OpenAuthority(disk_, path, run);
    EXPECT_OK(authority);
    return *authority;
  }
  static bool Trusts(const Authority& who, const Authority& whom) {
    const Credential credential = CredentialOf(whom, MemberOf(whom.run(), 7), Noon());
    return std::holds_alternative<PeerIdentity>(who.Judge(credential.certificate.get(), Noon()));
  }

  FakeDisk disk_;
};

TEST_F(OpenAuthorityTest, TheFirstMakesItAndAllOthersFindIt) {
  const RunId run = RunAt(kPath);
  const auto first = Open(kPath, run);
  const auto second = Open(kPath, run);
  EXPECT_TRUE(Trusts(*first, *second));
  EXPECT_TRUE(Trusts(*second, *first));
  disk_.Restart(1);
  EXPECT_TRUE(Trusts(*first, *Open(kPath, run)));
}

TEST_F(OpenAuthorityTest, WhoComesSecondTakesWhatTheOtherHasMade) {
  const RunId run = RunAt(kPath);
  // Between our look and our creation another node makes it.
  std::shared_ptr<const Authority> theirs;
  bool inside = false;
  disk_.SetHook([&](FakeOp op, const std::string& path) {
    if (inside || op != FakeOp::kLink || path.find("authority.") == std::string::npos) return;
    inside = true;
    theirs = Open(kPath, run);
  });
  const auto ours = Open(kPath, run);
  ASSERT_NE(theirs, nullptr);
  EXPECT_TRUE(Trusts(*ours, *theirs));
}

TEST_F(OpenAuthorityTest, ABranchHasOneOfItsOwn) {
  const RunId parent = RunAt(kPath);
  const auto first = Open(kPath, parent);
  disk_.CopyTree(kPath, "/pfs/copy");
  const RunId branch = RunAt("/pfs/copy");
  ASSERT_NE(branch, parent);
  const auto second = Open("/pfs/copy", branch);
  EXPECT_FALSE(Trusts(*first, *second));
  EXPECT_FALSE(Trusts(*second, *first));
}

TEST_F(OpenAuthorityTest, ADamagedOneIsLeftAndSaysHowToGoOn) {
  const RunId run = RunAt(kPath);
  Open(kPath, run);
  const std::string path = authority_record::PathOf(kPath, run);
  ASSERT_OK_AND_ASSIGN(const std::string before, ReadWhole(disk_, path, 1 << 20));
  disk_.FlipBit(path, 8 * (before.size() / 2));
  EXPECT_STATUS(kDataLoss, OpenAuthority(disk_, kPath, run), "remove it while no daemon serves the run");
  ASSERT_OK(disk_.Remove(path));
  Open(kPath, run);
}

TEST_F(OpenAuthorityTest, AWholeRecordWithAnothersKeyIsDamaged) {
  const RunId run = RunAt(kPath);
  Open(kPath, run);
  const std::string path = authority_record::PathOf(kPath, run);
  ASSERT_OK_AND_ASSIGN(kvtree::Tree tree, ReadTreeOnce(disk_, path));
  ASSERT_OK_AND_ASSIGN(const AuthorityRecord other, testing::NewAuthority(run)->ToRecord());
  tree.Set("KEY", other.key);
  ASSERT_OK(ReplaceTree(disk_, path, tree));
  EXPECT_STATUS(kDataLoss, OpenAuthority(disk_, kPath, run), path);
}

}  // namespace
}  // namespace cairn
