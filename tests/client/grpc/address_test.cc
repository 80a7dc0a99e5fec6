#include "client/grpc/address.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>

#include "client/cairn.h"
#include "proto/announcement.h"

namespace cairn::transport {
namespace {

class AddressTest : public ::testing::Test {
 protected:
  Outcome Parse(std::string_view text) {
    address_ = {};
    return ParseAddress(
        text,
        [this](const char* name) {
          const auto found = variables_.find(name);
          return found == variables_.end() ? nullptr : found->second.c_str();
        },
        &address_);
  }
  void ExpectInvalid(std::string_view text, std::string_view part) {
    const Outcome outcome = Parse(text);
    EXPECT_EQ(outcome.code, CAIRN_INVALID_ARGUMENT) << text;
    EXPECT_NE(outcome.text.find(part), std::string::npos) << text << ": " << outcome.text;
  }
  std::string PemFile(const std::string& name, const std::string& content) {
    const std::string path = ::testing::TempDir() + "cairn-address-" + name;
    std::ofstream(path) << content;
    return path;
  }

  std::map<std::string, std::string> variables_;
  Address address_;
};

TEST_F(AddressTest, AUnixSocketNeedsNoTls) {
  variables_["CAIRN_TLS_CA"] = "/nowhere";
  ASSERT_TRUE(Parse("grpc+unix:/run/cairn/cairnd-grpc.sock").ok());
  EXPECT_EQ(address_.node_socket, "/run/cairn/cairnd-grpc.sock");
  EXPECT_FALSE(address_.tls);
}

TEST_F(AddressTest, WithoutTlsOnlyToLoopback) {
  for (const char* address :
       {"grpc://localhost:7", "grpc://127.0.0.1:7071", "grpc://127.9.9.9:1", "grpc://[::1]:65535"}) {
    ASSERT_TRUE(Parse(address).ok()) << address;
    EXPECT_FALSE(address_.tls);
    EXPECT_EQ("grpc://" + address_.target, address);
  }
  for (const char* address : {"grpc://10.0.0.1:7", "grpc://node1:7", "grpc://127.example.org:7", "grpc://[::2]:7"}) {
    ExpectInvalid(address, "needs TLS: set CAIRN_TLS_CA");
  }
}

TEST_F(AddressTest, WhatIsNoAddressIsNamed) {
  ExpectInvalid("unix:/tmp/x", "is none of grpc://HOST:PORT, grpc+unix:PATH, grpc+run:DIR");
  ExpectInvalid("", "is none of");
  ExpectInvalid("grpc+unix:run/x", "absolute path");
  for (const char* address : {"grpc://", "grpc://host", "grpc://:7", "grpc://host:", "grpc://host:http", "grpc://h:0",
                              "grpc://h:65536", "grpc://h:99999999999"}) {
    ExpectInvalid(address, "is not HOST:PORT");
  }
}

TEST_F(AddressTest, TlsNeedsAllThreeFiles) {
  const std::string pem = "-----BEGIN CERTIFICATE-----\n";
  variables_["CAIRN_TLS_CA"] = PemFile("ca", pem + "a");
  ExpectInvalid("grpc://node1:7", "CAIRN_TLS_CERT is not set");
  variables_["CAIRN_TLS_CERT"] = PemFile("cert", pem + "b");
  ExpectInvalid("grpc://node1:7", "CAIRN_TLS_KEY is not set");
  variables_["CAIRN_TLS_KEY"] = "/nowhere/key";
  ExpectInvalid("grpc://node1:7", "CAIRN_TLS_KEY: /nowhere/key cannot be read");
  variables_["CAIRN_TLS_KEY"] = PemFile("noise", "not PEM");
  ExpectInvalid("grpc://node1:7", "not a PEM file");
  variables_["CAIRN_TLS_KEY"] = PemFile("key", pem + "c");
  ASSERT_TRUE(Parse("grpc://node1:7").ok());
  EXPECT_TRUE(address_.tls);
  EXPECT_EQ(address_.ca, pem + "a");
  EXPECT_EQ(address_.cert, pem + "b");
  EXPECT_EQ(address_.key, pem + "c");
}

TEST(AnnouncementTest, IsReadExactlyAsItWasWritten) {
  const auto block = [](const std::string& label) {
    return "-----BEGIN " + label + "-----\nMIIB\n-----END " + label + "-----\n";
  };
  const Announcement told = {.address = "node7:7100",
                             .name = "0123.ingest.cairn",
                             .authority = block("CERTIFICATE"),
                             .certificate = block("CERTIFICATE"),
                             .key = block("PRIVATE KEY")};
  const std::string text = EncodeAnnouncement(told);
  Announcement read;
  ASSERT_TRUE(ParseAnnouncement(text, &read));
  EXPECT_EQ(read, told);
  for (std::size_t bytes = 0; bytes < text.size(); ++bytes) {
    EXPECT_FALSE(ParseAnnouncement(text.substr(0, bytes), &read)) << "cut at " << bytes;
  }
  EXPECT_FALSE(ParseAnnouncement(text + "x", &read));
  EXPECT_FALSE(ParseAnnouncement("cairn ingest 2" + text.substr(14), &read)) << "of a newer program";
  Announcement odd = told;
  odd.address = "node7:7100\nname x";
  EXPECT_FALSE(ParseAnnouncement(EncodeAnnouncement(odd), &read));
  odd = told;
  odd.authority = std::string(kAnnouncementBytesMax, 'x');
  EXPECT_FALSE(ParseAnnouncement(EncodeAnnouncement(odd), &read));
}

}  // namespace
}  // namespace cairn::transport
