// etcd keeps what every arbiter promises.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "daemon/arbiter/etcd_arbiter.h"
#include "storage/base/ids.h"
#include "tests/daemon/arbiter/etcd_fixture.h"
#include "tests/storage/place/arbiter/arbiter_contract.h"
#include "tests/storage/place/arbiter/arbiter_site.h"
#include "tests/support/etcd.h"

namespace cairn {
namespace {

// One for all tests, whose runs are others each time.
class OneEtcd : public ::testing::Environment {
 public:
  void SetUp() override {
    etcd = testing::Etcd::Start();
    ASSERT_NE(etcd, nullptr);
  }
  void TearDown() override { etcd.reset(); }
  inline static std::unique_ptr<testing::Etcd> etcd;
};
const auto* const kOneEtcd = ::testing::AddGlobalTestEnvironment(new OneEtcd);

ArbiterSiteMaker Site(std::string name, std::function<std::unique_ptr<ArbiterPlace>()> place) {
  const auto make = [place] {
    const std::array<RunId, 2> runs = {RunId::Random(), RunId::Random()};
    const std::string secret = NewLaunchSecret();
    return std::make_unique<ArbiterSite>(place(), [=](Disk& disk, const std::string& prefix, int run) {
      return MakeEtcdArbiter(ClientOf(OneEtcd::etcd->endpoints()), disk, prefix, runs[run], secret);
    });
  };
  return {.name = std::move(name), .make = make};
}

INSTANTIATE_TEST_SUITE_P(Etcd, ArbiterContractTest,
                         ::testing::Values(Site("Links", [] { return MakeFakePlace(); }),
                                           Site("NoLinksNoNewNames",
                                                [] { return MakeFakePlace({.links = false, .renames_new = false}); }),
                                           Site("Posix", [] { return MakePosixPlace(); })),
                         NameOfSite);

}  // namespace
}  // namespace cairn
