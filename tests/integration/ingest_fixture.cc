#include "tests/integration/ingest_fixture.h"

#include <filesystem>

namespace cairn::testing {
namespace {

// "... ingest on 127.0.0.1:0 (port 40123), ...", the last time.
int PortInLog(const std::string& log) {
  const std::string mark = "(port ";
  const std::size_t at = log.rfind(mark);
  return at == std::string::npos ? 0 : std::atoi(log.c_str() + at + mark.size());
}

}  // namespace

IngestTest::IngestTest() {
  std::filesystem::create_directory(library_folder());
  for (const char* library : {"client/libcairn.so", "client/grpc/libcairn_grpc.so"}) {
    std::filesystem::copy(DataPath(library), library_folder());
  }
}

void IngestTest::TearDown() {
  if (HasFailure()) std::cerr << "CAIRN_TEST_SEED=" << seed_ << " repeats this\n";
}

bool IngestTest::StartDaemon(Security security, const std::vector<std::string>& flags, const std::string& settings) {
  security_ = security;
  flags_ = flags;
  settings_ = settings;
  std::string text = "[ingest]\nlisten = \"" + host_ + ":" + std::to_string(port_) + "\"\n" + settings;
  if (security == Security::kTls) {
    const std::string folder = CertificateFolder("ours");
    text += "tls_ca = \"" + folder + "/ca.pem\"\ntls_cert = \"" + folder + "/server.pem\"\ntls_key = \"" + folder +
            "/server.key\"\n";
  } else {
    text += "insecure_loopback = true\n";
  }
  harness.WriteSettings(text);
  if (!harness.StartDaemon(flags)) return false;
  port_ = PortInLog(harness.DaemonLog());
  EXPECT_GT(port_, 0);
  return port_ > 0;
}

std::string IngestTest::CertificateFolder(const std::string& authority) {
  const std::string folder = harness.folder() + "/certificates-" + authority;
  if (std::filesystem::exists(folder)) return folder;
  const Ending ending = RunProcess({.arguments = {DataPath("deploy/make-certs.sh"), folder, host_, "localhost"},
                                    .environment = {},
                                    .working_directory = {}});
  EXPECT_EQ(ending.exit_code, 0) << ending.output;
  return folder;
}

std::map<std::string, std::string> IngestTest::TlsVariables(const std::string& ca, const std::string& own) {
  return {{"CAIRN_TLS_CA", CertificateFolder(ca) + "/ca.pem"},
          {"CAIRN_TLS_CERT", CertificateFolder(own) + "/client.pem"},
          {"CAIRN_TLS_KEY", CertificateFolder(own) + "/client.key"}};
}

Process::Options IngestTest::Client(const std::string& address, std::vector<std::string> arguments) {
  return Rank(0, 1, "launch " + std::to_string(++launches_), address, std::move(arguments));
}

Process::Options IngestTest::Rank(int rank, int nranks, const std::string& key, const std::string& address,
                                  std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--promises", promises(rank)});
  Process::Options options = harness.Client("tests/integration/crash_client", std::move(arguments));
  options.environment["CAIRN_ADDRESS"] = address;
  options.environment["CAIRN_LAUNCH"] = key;
  options.environment["CAIRN_RANK"] = std::to_string(rank);
  options.environment["CAIRN_NRANKS"] = std::to_string(nranks);
  options.environment["LD_LIBRARY_PATH"] = library_folder();
  if (security_ == Security::kTls && address.starts_with("grpc://")) {
    options.environment.merge(TlsVariables("ours", "ours"));
  }
  return options;
}

}  // namespace cairn::testing
