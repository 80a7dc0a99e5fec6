// A rank that is a thread of the test: its session with the harness's daemon.
#ifndef CAIRN_TESTS_INTEGRATION_RANK_SESSION_H_
#define CAIRN_TESTS_INTEGRATION_RANK_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "client/cairn.h"
#include "tests/integration/harness.h"

namespace cairn::testing {

// Opens a session of rank `rank` of `nranks` in the launch `key`; returns what cairn_open does.
inline int OpenRank(const Harness& harness, const std::string& key, std::size_t rank, std::size_t nranks,
                    cairn_session** session) {
  const std::string address = harness.address(), prefix = harness.prefix();
  cairn_options options = CAIRN_OPTIONS_INIT;
  options.address = address.c_str();
  options.prefix = prefix.c_str();
  options.launch = key.c_str();
  options.rank = static_cast<std::int32_t>(rank);
  options.nranks = static_cast<std::int32_t>(nranks);
  options.deadline_ms = 60000;
  return cairn_open(&options, session);
}

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_INTEGRATION_RANK_SESSION_H_
