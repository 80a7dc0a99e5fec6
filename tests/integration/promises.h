// What crash_client was promised, as it wrote it down outside the daemon; and the seed that instants are drawn from.
#ifndef CAIRN_TESTS_INTEGRATION_PROMISES_H_
#define CAIRN_TESTS_INTEGRATION_PROMISES_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace cairn::testing {

struct Promises {
  std::map<std::string, std::map<std::uint64_t, std::uint64_t>> by_kind;  // "local": dataset -> step
  std::vector<std::string> refused, lost;                                 // whole lines
};

Promises ReadPromises(const std::string& path);

// 0 if nothing was promised.
std::uint64_t NewestStep(const std::map<std::uint64_t, std::uint64_t>& promised);

// Until the client has been promised so many of a kind; false at the deadline.
bool AwaitPromises(const std::string& path, const std::string& kind, std::size_t count);

// Until an instant somewhere within the next steps of the client's work.
void LetItWorkFor(std::chrono::microseconds time);

// CAIRN_TEST_SEED, else a new one.
std::uint64_t TestSeed();

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_INTEGRATION_PROMISES_H_
