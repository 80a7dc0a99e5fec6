// A real daemon that listens on TCP as well, and crash_client as a program that shares no memory with it.
#ifndef CAIRN_TESTS_INTEGRATION_INGEST_FIXTURE_H_
#define CAIRN_TESTS_INTEGRATION_INGEST_FIXTURE_H_

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/integration/harness.h"
#include "tests/integration/promises.h"

namespace cairn::testing {

enum class Security { kNone, kTls };

class IngestTest : public ::testing::Test {
 protected:
  IngestTest();
  void TearDown() override;

  // Where the daemon listens and what its certificate is for; 127.0.0.1 if never called.
  void ListenOn(const std::string& host) { host_ = host; }
  // Starts cairnd there; `settings`: further lines of the [ingest] table. After the first start it is always the
  // same port.
  bool StartDaemon(Security security, const std::vector<std::string>& flags = {}, const std::string& settings = "");
  bool StartAgain() { return StartDaemon(security_, flags_, settings_); }
  int port() const { return port_; }
  std::string TcpAddress(int port) const { return "grpc://" + host_ + ":" + std::to_string(port); }
  std::string NodeAddress() const { return "grpc+unix:" + harness.runtime_dir() + "/cairnd-grpc.sock"; }

  // The folder of an authority of that name, with its certificates: made by deploy/make-certs.sh when first asked for.
  std::string CertificateFolder(const std::string& authority);
  // CAIRN_TLS_* for a client that trusts `ca`'s authority and shows a certificate of `own`'s.
  std::map<std::string, std::string> TlsVariables(const std::string& ca, const std::string& own);

  // crash_client in a launch of its own. It uses libcairn.so and libcairn_grpc.so as they were installed, in one
  // folder.
  Process::Options Client(const std::string& address, std::vector<std::string> arguments);
  // The same as one of `nranks` in the launch `key`; rank 1 and above write their promises to their own files.
  Process::Options Rank(int rank, int nranks, const std::string& key, const std::string& address,
                        std::vector<std::string> arguments);
  std::string promises(int rank = 0) const { return harness.folder() + "/promises-" + std::to_string(rank); }
  std::string library_folder() const { return harness.folder() + "/lib"; }

  std::uint64_t Draw(std::uint64_t least, std::uint64_t most) {
    return std::uniform_int_distribution<std::uint64_t>(least, most)(random_);
  }

  Harness harness;

 private:
  const std::uint64_t seed_ = TestSeed();
  std::mt19937_64 random_{seed_};
  std::string host_ = "127.0.0.1";
  Security security_ = Security::kNone;
  std::vector<std::string> flags_;
  std::string settings_;
  int port_ = 0;
  int launches_ = 0;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_INTEGRATION_INGEST_FIXTURE_H_
