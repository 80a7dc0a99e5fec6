#include "client/grpc/daemon_order.h"

#include <algorithm>
#include <cstddef>

namespace cairn::transport {

void DaemonOrder::Served(const std::string& target, std::uint64_t session, const std::string& told_in) {
  if (told_in.empty()) return;
  const absl::MutexLock lock(&mutex_);
  Known& known = known_[target];
  known.served = told_in;
  known.in_vain.erase(session);
}

void DaemonOrder::InVain(const std::string& target, std::uint64_t session, const std::string& told_in) {
  if (told_in.empty()) return;
  const absl::MutexLock lock(&mutex_);
  Known& known = known_[target];
  std::vector<std::string>& in_vain = known.in_vain[session];
  std::erase(in_vain, told_in);
  in_vain.push_back(told_in);
  if (known.in_vain.size() > kSearchesMax) known.in_vain.erase(known.in_vain.begin());
}

void DaemonOrder::Arrange(const std::string& target, std::uint64_t session, std::vector<Address>* addresses) {
  const absl::MutexLock lock(&mutex_);
  const auto found = known_.find(target);
  if (found == known_.end()) return;
  Known& known = found->second;
  std::vector<std::string> none;
  const auto search = known.in_vain.find(session);
  std::vector<std::string>& in_vain = search == known.in_vain.end() ? none : search->second;
  const auto is_gone = [&](const std::string& name) {
    return std::ranges::none_of(*addresses, [&](const Address& address) { return address.told_in == name; });
  };
  std::erase_if(in_vain, is_gone);  // else nodes that come and go would make the list grow
  const auto place = [&](const Address& address) -> std::ptrdiff_t {
    const auto last = std::ranges::find(in_vain, address.told_in);
    if (last != in_vain.end()) return 1 + (last - in_vain.begin());
    return address.told_in == known.served ? -1 : 0;
  };
  std::ranges::stable_sort(*addresses, {}, place);
}

}  // namespace cairn::transport
