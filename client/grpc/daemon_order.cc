#include "client/grpc/daemon_order.h"

#include <algorithm>
#include <cstddef>

namespace cairn::transport {

void DaemonOrder::Served(const std::string& target, const std::string& told_in) {
  if (told_in.empty()) return;
  const absl::MutexLock lock(&mutex_);
  Known& known = known_[target];
  known.served = told_in;
  std::erase(known.in_vain, told_in);
}

void DaemonOrder::InVain(const std::string& target, const std::string& told_in) {
  if (told_in.empty()) return;
  const absl::MutexLock lock(&mutex_);
  Known& known = known_[target];
  std::erase(known.in_vain, told_in);
  known.in_vain.push_back(told_in);
}

void DaemonOrder::Arrange(const std::string& target, std::vector<Address>* addresses) {
  const absl::MutexLock lock(&mutex_);
  const auto found = known_.find(target);
  if (found == known_.end()) return;
  Known& known = found->second;
  const auto is_gone = [&](const std::string& name) {
    return std::ranges::none_of(*addresses, [&](const Address& address) { return address.told_in == name; });
  };
  std::erase_if(known.in_vain, is_gone);  // else nodes that come and go would make the list grow
  const auto place = [&](const Address& address) -> std::ptrdiff_t {
    const auto last = std::ranges::find(known.in_vain, address.told_in);
    if (last != known.in_vain.end()) return 1 + (last - known.in_vain.begin());
    return address.told_in == known.served ? -1 : 0;
  };
  std::ranges::stable_sort(*addresses, {}, place);
}

}  // namespace cairn::transport
