// A ledger, and datasets in any place and standing, for the tests of daemon/core/ledger.h and what
// daemon/core/dataset.h derives.
#ifndef CAIRN_TESTS_DAEMON_CORE_PLACES_FIXTURE_H_
#define CAIRN_TESTS_DAEMON_CORE_PLACES_FIXTURE_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/core/ledger.h"

namespace cairn {

inline constexpr Place kPlaces[] = {Place::kAbsent, Place::kArriving, Place::kWhole, Place::kLeaving, Place::kDamaged};
inline constexpr char kOutOfPlace[] = "check failed: .*from.*place";

class PlacesTest : public ::testing::Test {
 protected:
  static constexpr LaunchId kLaunch = 1;
  static constexpr DatasetId kId = 5;

  // Of two ranks, described, in such places. REQUIRES: one of them is kWhole.
  DatasetPtr Known(Place cache, Place prefix, Standing standing = Standing::kCurrent) {
    return ledger_.Adopt(Described(kId, cache, prefix, standing));
  }

  static Dataset Described(DatasetId id, Place cache, Place prefix, Standing standing = Standing::kCurrent) {
    Dataset dataset;
    dataset.id = id;
    dataset.launch = kLaunch;
    dataset.step = 10 * id;
    dataset.nranks = 2;
    dataset.parts.resize(2);
    for (Part& part : dataset.parts) {
      part.state = Part::State::kStored;
      part.catalogue.add_file()->set_bytes(part.bytes = 100);
    }
    dataset.cache = cache;
    dataset.prefix = prefix;
    dataset.standing = standing;
    return dataset;
  }

  // Made by a launch of two ranks.
  DatasetPtr Create(Dataset::Kind kind = {}, DatasetId id = kId) {
    const Launch& launch = ledger_.Enter(kLaunch, "key", 2, "secret");
    for (Rank rank : {0, 1}) ledger_.SessionLive(launch, rank);
    const Ledger::BeginSpec spec{.step = 10 * kId, .kind = kind, .bytes = 10};
    const DatasetPtr dataset = ledger_.Create(launch, id, spec);
    for (Rank rank : {0, 1}) EXPECT_TRUE(ledger_.Begin(launch, dataset, rank, spec, {}).ok());
    return dataset;
  }
  void Store(const Dataset& dataset) {
    for (Rank rank : {0, 1}) {
      ledger_.Captured(dataset, rank);
      ledger_.Stored(dataset, rank, {});
    }
  }

  std::vector<DatasetId> failed_;
  Ledger ledger_{[this](const DatasetPtr& dataset, const std::string& /*why*/) { failed_.push_back(dataset->id); }};
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_PLACES_FIXTURE_H_
