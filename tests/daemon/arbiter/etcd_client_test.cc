// The client alone, with an etcd of one member.
#include "daemon/arbiter/etcd_client.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/daemon/arbiter/etcd_fixture.h"
#include "tests/support/etcd.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using testing::Etcd;
using Keys = std::vector<std::string>;

// --- Settings ---

TEST(EtcdSettingsTest, WithoutTlsOnlyOnLoopback) {
  for (const char* endpoint : {"http://127.0.0.1:2379", "http://localhost:2379", "http://[::1]:2379"}) {
    EXPECT_OK(EtcdClient::Make({.endpoints = {endpoint}}));
  }
  for (const char* endpoint : {"http://etcd.example.org:2379", "http://10.0.0.1:2379", "http://127.example.org:2379"}) {
    EXPECT_STATUS(StatusCode::kInvalidArgument, EtcdClient::Make({.endpoints = {endpoint}}), "needs TLS");
    EXPECT_STATUS(StatusCode::kInvalidArgument, EtcdClient::Make({.endpoints = {endpoint}}), endpoint);
  }
}

TEST(EtcdSettingsTest, EndpointsAreUrlsOfOneKind) {
  EXPECT_STATUS(StatusCode::kInvalidArgument, EtcdClient::Make(EtcdSettings()), "no endpoints");
  for (const char* endpoint : {"127.0.0.1:2379", "http://127.0.0.1", "http://:2379", "http://127.0.0.1:",
                               "http://127.0.0.1:x", "http://127.0.0.1:2379/v3", "ftp://127.0.0.1:2379", ""}) {
    EXPECT_STATUS(StatusCode::kInvalidArgument, EtcdClient::Make({.endpoints = {endpoint}}), endpoint);
  }
  EXPECT_STATUS(StatusCode::kInvalidArgument,
                EtcdClient::Make({.endpoints = {"http://127.0.0.1:1", "https://127.0.0.1:2"}}), "all alike");
}

TEST(EtcdSettingsTest, TlsNeedsAllThreeFiles) {
  const std::string pem = ::testing::TempDir() + "etcd_client_test.pem", other = pem + ".not";
  std::ofstream(pem) << "-----BEGIN CERTIFICATE-----\n";
  std::ofstream(other) << "no certificate";
  const std::vector<std::string> https = {"https://etcd.example.org:2379"};
  EXPECT_OK(EtcdClient::Make({.endpoints = https, .ca = pem, .cert = pem, .key = pem}));
  EXPECT_STATUS(StatusCode::kInvalidArgument, EtcdClient::Make({.endpoints = https}), "ca, cert and key");
  EXPECT_STATUS(StatusCode::kInvalidArgument, EtcdClient::Make({.endpoints = https, .ca = pem, .cert = pem, .key = ""}),
                "ca, cert and key");
  EXPECT_STATUS(StatusCode::kInvalidArgument,
                EtcdClient::Make({.endpoints = https, .ca = pem, .cert = pem, .key = other}), "key " + other);
  EXPECT_STATUS(StatusCode::kInvalidArgument,
                EtcdClient::Make({.endpoints = https, .ca = "/not/there", .cert = pem, .key = pem}), "/not/there");
  EXPECT_STATUS(StatusCode::kInvalidArgument,
                EtcdClient::Make({.endpoints = {"http://127.0.0.1:1"}, .ca = pem, .cert = "", .key = ""}), "https://");
}

// --- Calls ---

class EtcdClientTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    etcd_ = Etcd::Start().release();
    ASSERT_NE(etcd_, nullptr);
  }
  static void TearDownTestSuite() { delete etcd_; }

  // Keys of one test do not meet those of another.
  const std::string root = "/" + RunId::Random().Hex() + "/";
  const std::shared_ptr<EtcdClient> client = ClientOf(etcd_->endpoints());

  inline static Etcd* etcd_ = nullptr;
};

TEST_F(EtcdClientTest, PutsWhereNothingIsAndWhereNothingHasChanged) {
  const std::string key = root + "a";
  EXPECT_FALSE(*client->Get(key));
  EXPECT_FALSE(*client->PutIfUnchanged(key, "one", 0));
  ASSERT_OK_AND_ASSIGN(const auto one, client->Get(key));
  EXPECT_EQ(one->bytes, "one");

  ASSERT_OK_AND_ASSIGN(const auto there, client->PutIfUnchanged(key, "two", 0));
  EXPECT_EQ(there->bytes, "one");
  EXPECT_EQ(there->revision, one->revision);
  EXPECT_FALSE(*client->PutIfUnchanged(key, "two", one->revision));
  ASSERT_OK_AND_ASSIGN(const auto two, client->PutIfUnchanged(key, "three", one->revision));
  EXPECT_EQ(two->bytes, "two");
  EXPECT_GT(two->revision, one->revision);

  ASSERT_OK(client->Remove(key));
  ASSERT_OK(client->Remove(key));
  ASSERT_OK_AND_ASSIGN(const auto gone, client->PutIfUnchanged(key, "four", two->revision));
  ASSERT_TRUE(gone.has_value());
  EXPECT_EQ(gone->revision, 0);
  EXPECT_FALSE(*client->Get(key));
}

TEST_F(EtcdClientTest, PutsWhatIsThere) {
  EXPECT_STATUS(StatusCode::kNotFound, client->PutIfThere(root + "a", "x"), root + "a");
  EXPECT_FALSE(*client->Get(root + "a"));
  EXPECT_FALSE(*client->PutIfUnchanged(root + "a", "x", 0));
  EXPECT_OK(client->PutIfThere(root + "a", "y"));
  EXPECT_EQ((*client->Get(root + "a"))->bytes, "y");
}

TEST_F(EtcdClientTest, ListsTheKeysBelow) {
  const std::string beside = root.substr(0, root.size() - 1) + "0";  // the first key beyond
  for (const std::string& key : {root + "b", root + "a", root + "a/c", root + std::string(20, 'x'), beside}) {
    EXPECT_FALSE(*client->PutIfUnchanged(key, "", 0));
  }
  EXPECT_EQ(*client->Keys(root, root.size() + 19), (Keys{root + "a", root + "a/c", root + "b"}));
  EXPECT_EQ(client->Keys(root, root.size() + 20)->size(), 4u);
  EXPECT_EQ(*client->Keys(root + "a", 100), (Keys{root + "a", root + "a/c"}));
  EXPECT_EQ(*client->Keys(root + "c", 100), Keys());
}

// Of somebody who is in the way: a dozen of them are more than one answer may be.
TEST_F(EtcdClientTest, ListsPastHugeKeys) {
  Keys small;
  for (char c = 'a'; c <= 'l'; ++c) {
    EXPECT_FALSE(*client->PutIfUnchanged(root + std::string(400 << 10, c), "", 0));
    EXPECT_FALSE(*client->PutIfUnchanged(root + c, "", 0));
    small.push_back(root + c);
  }
  EXPECT_EQ(*client->Keys(root, 100), small);
}

TEST_F(EtcdClientTest, WhatEtcdRefusesIsSaid) {
  EXPECT_STATUS(StatusCode::kResourceExhausted, client->PutIfUnchanged(root + "a", std::string(2 << 20, 'x'), 0),
                etcd_->endpoint(0));
}

TEST(EtcdClientAwayTest, NobodyAnswersThenItSaysWhere) {
  auto etcd = Etcd::Start();
  ASSERT_NE(etcd, nullptr);
  const std::string endpoint = etcd->endpoint(0);
  const auto client = ClientOf(EtcdSettings{.endpoints = {endpoint},
                                            .try_time = std::chrono::milliseconds(300),
                                            .call_time = std::chrono::milliseconds(1'000)});
  etcd->Pause(0);
  EXPECT_STATUS(StatusCode::kUnavailable, client->Get("/a"), endpoint);
  etcd->Kill(0);
  EXPECT_STATUS(StatusCode::kUnavailable, client->Get("/a"), endpoint);
  EXPECT_STATUS(StatusCode::kUnavailable, client->Keys("/a", 100), endpoint);
  EXPECT_STATUS(StatusCode::kUnavailable, client->PutIfUnchanged("/a", "x", 0), endpoint);
  EXPECT_STATUS(StatusCode::kUnavailable, client->PutIfThere("/a", "x"), endpoint);
  EXPECT_STATUS(StatusCode::kUnavailable, client->Remove("/a"), endpoint);
  etcd->StartAgain(0);
  EXPECT_OK(ClientOf({endpoint})->Get("/a"));
}

}  // namespace
}  // namespace cairn
