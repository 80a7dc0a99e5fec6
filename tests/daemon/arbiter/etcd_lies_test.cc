// A server that answers as etcd never does, or as the real one hardly ever does in a test.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/arbiter/etcd_client.h"
#include "proto/etcd.grpc.pb.h"
#include "tests/daemon/arbiter/etcd_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using etcdserverpb::RangeRequest;
using etcdserverpb::RangeResponse;
using Keys = std::vector<std::string>;

class EtcdLiesTest : public ::testing::Test, private etcdserverpb::KV::Service {
 protected:
  EtcdLiesTest() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    client = ClientOf(
        EtcdSettings{.endpoints = {fmt::format("http://127.0.0.1:{}", port_)}, .call_time = std::chrono::seconds(60)});
  }
  ~EtcdLiesTest() override { server_->Shutdown(); }

  static void Add(RangeResponse* answer, const std::string& key, std::int64_t revision = 7) {
    etcdserverpb::KeyValue& found = *answer->add_kvs();
    found.set_key(key);
    found.set_value("value");
    found.set_mod_revision(revision);
  }

  using Answer = std::function<grpc::Status(const RangeRequest&, RangeResponse*)>;
  // From now on, on a thread of the server.
  void Answers(Answer range) {
    const absl::MutexLock lock(&mutex_);
    range_ = std::move(range);
  }

  std::shared_ptr<EtcdClient> client;

 private:
  grpc::Status Range(grpc::ServerContext*, const RangeRequest* request, RangeResponse* answer) override {
    const absl::MutexLock lock(&mutex_);
    return range_(*request, answer);
  }
  // Nothing was done, and nothing is there to be said.
  grpc::Status Txn(grpc::ServerContext*, const etcdserverpb::TxnRequest*, etcdserverpb::TxnResponse*) override {
    return grpc::Status::OK;
  }

  absl::Mutex mutex_;
  Answer range_ ABSL_GUARDED_BY(mutex_);
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(EtcdLiesTest, AnotherKeyThanWasAskedFor) {
  Answers([](const RangeRequest&, RangeResponse* answer) {
    Add(answer, "/b");
    return grpc::Status::OK;
  });
  EXPECT_STATUS(StatusCode::kUnavailable, client->Get("/a"), "another key than /a");
  EXPECT_STATUS(StatusCode::kUnavailable, client->PutIfUnchanged("/a", "x", 0), "no answer");
}

TEST_F(EtcdLiesTest, ARevisionThatIsNone) {
  Answers([](const RangeRequest&, RangeResponse* answer) {
    Add(answer, "/a", 0);
    return grpc::Status::OK;
  });
  EXPECT_STATUS(StatusCode::kUnavailable, client->Get("/a"), "/a");
}

TEST_F(EtcdLiesTest, KeysOutOfOrderTwiceOrFromElsewhere) {
  for (const Keys& listed : {Keys{"/b", "/a"}, Keys{"/a", "/a"}, Keys{"/a", "elsewhere"}, Keys{""}}) {
    Answers([&](const RangeRequest&, RangeResponse* answer) {
      for (const std::string& key : listed) Add(answer, key);
      return grpc::Status::OK;
    });
    EXPECT_STATUS(StatusCode::kUnavailable, client->Keys("/", 100), "out of order");
  }
}

TEST_F(EtcdLiesTest, AListingWithoutEnd) {
  std::atomic<std::uint64_t> number = 0;
  Answers([&](const RangeRequest&, RangeResponse* answer) {
    for (int i = 0; i < 5'000; ++i) Add(answer, fmt::format("/{:010}", number.fetch_add(1)));
    answer->set_more(true);
    return grpc::Status::OK;
  });
  EXPECT_STATUS(StatusCode::kResourceExhausted, client->Keys("/", 100), "more than 100000 keys /*");
  EXPECT_LE(number, 105'000u);
  Answers([&](const RangeRequest&, RangeResponse* answer) {
    answer->set_more(true);  // and nothing else
    return grpc::Status::OK;
  });
  EXPECT_EQ(*client->Keys("/", 100), Keys());
}

TEST_F(EtcdLiesTest, PagesAreOfOneRevisionAndACompactionBeginsAnew) {
  std::atomic<int> compactions = 1;
  Answers([&](const RangeRequest& request, RangeResponse* answer) {
    answer->mutable_header()->set_revision(42);
    if (request.key() == "/") {
      EXPECT_EQ(request.revision(), 0);
      EXPECT_EQ(request.range_end(), "0");
      EXPECT_TRUE(request.keys_only());
      Add(answer, "/a");
      answer->set_more(true);
      return grpc::Status::OK;
    }
    EXPECT_EQ(request.revision(), 42);
    EXPECT_EQ(request.key(), std::string("/a\0", 3));
    if (compactions-- > 0) return grpc::Status(grpc::StatusCode::OUT_OF_RANGE, "compacted");
    Add(answer, "/b");
    return grpc::Status::OK;
  });
  EXPECT_EQ(*client->Keys("/", 100), (Keys{"/a", "/b"}));
  compactions = 1'000;
  EXPECT_STATUS(StatusCode::kUnavailable, client->Keys("/", 100), "compacted again and again");
}

TEST_F(EtcdLiesTest, ARefusalIsNotTriedAgain) {
  std::atomic<int> calls = 0;
  Answers([&](const RangeRequest&, RangeResponse*) {
    ++calls;
    return grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "etcdserver: permission denied");
  });
  EXPECT_STATUS(StatusCode::kPermissionDenied, client->Get("/a"), "etcdserver: permission denied");
  EXPECT_EQ(calls, 1);
}

TEST_F(EtcdLiesTest, WhatMayPassIsTriedAgain) {
  for (const auto code : {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::UNKNOWN, grpc::StatusCode::INTERNAL}) {
    std::atomic<int> calls = 0;
    Answers([&](const RangeRequest&, RangeResponse*) {
      return ++calls < 3 ? grpc::Status(code, "etcdserver: no leader") : grpc::Status::OK;
    });
    EXPECT_FALSE(*client->Get("/a"));
    EXPECT_EQ(calls, 3);
  }
}

}  // namespace
}  // namespace cairn
