#include "daemon/arbiter/arbiters.h"

#include <chrono>
#include <sstream>
#include <string>
#include <utility>

#include "daemon/arbiter/etcd_arbiter.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

// Shorter than what counts as a prefix that hangs: in an opening (Openings), and in a lane (kHangsAfter).
constexpr std::chrono::milliseconds kTryTime{700}, kReadTime{1'500}, kCallTime{4'500};

EtcdSettings SettingsOf(const Config::Arbiter& settings) {
  EtcdSettings etcd{.endpoints = {},
                    .ca = settings.tls_ca,
                    .cert = settings.tls_cert,
                    .key = settings.tls_key,
                    .try_time = kTryTime,
                    .call_time = kCallTime,
                    .read_time = kReadTime};
  std::istringstream endpoints(settings.endpoints);
  for (std::string endpoint; std::getline(endpoints >> std::ws, endpoint, ',');) {
    endpoint.erase(endpoint.find_last_not_of(" \t") + 1);
    if (!endpoint.empty()) etcd.endpoints.push_back(endpoint);
  }
  return etcd;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Arbiters>> MakeArbiters(const Config::Arbiter& settings) {
  return MakeArbiters(settings.etcd ? ArbiterKind::kEtcd : ArbiterKind::kPrefix, settings);
}

absl::StatusOr<std::shared_ptr<const Arbiters>> MakeArbiters(ArbiterKind kind, const Config::Arbiter& settings) {
  if (kind == ArbiterKind::kPrefix) return std::shared_ptr<const Arbiters>(std::shared_ptr<void>(), &PrefixArbiters());
  if (settings.endpoints.empty()) return InvalidArgument("arbiter.endpoints: not set, so etcd cannot be asked");
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<Arbiters> arbiters, MakeEtcdArbiters(SettingsOf(settings)));
  return std::shared_ptr<const Arbiters>(std::move(arbiters));
}

}  // namespace cairn
