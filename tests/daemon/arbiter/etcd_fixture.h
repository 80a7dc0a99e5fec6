// A run, its prefix on a disk in memory, and clients of an etcd that decides for it.
#ifndef CAIRN_TESTS_DAEMON_ARBITER_ETCD_FIXTURE_H_
#define CAIRN_TESTS_DAEMON_ARBITER_ETCD_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "daemon/arbiter/etcd_arbiter.h"
#include "daemon/arbiter/etcd_client.h"
#include "storage/base/ids.h"
#include "storage/base/launch_mark.h"
#include "storage/io/create_once.h"
#include "storage/place/arbiter/arbiter.h"
#include "tests/support/etcd.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {

// Never null: the test ends if the settings are wrong.
inline std::shared_ptr<EtcdClient> ClientOf(const EtcdSettings& settings) {
  auto client = EtcdClient::Make(settings);
  EXPECT_OK(client);
  return *client;
}

// Patient, for calls that must succeed on a busy machine.
inline std::shared_ptr<EtcdClient> ClientOf(std::vector<std::string> endpoints) {
  return ClientOf(EtcdSettings{.endpoints = std::move(endpoints), .call_time = std::chrono::seconds(60)});
}

struct EtcdRun {
  explicit EtcdRun(std::shared_ptr<EtcdClient> its_client) : client(std::move(its_client)) {
    EXPECT_OK(MakeDirectories(disk, "/run/.cairn"));
    disk.SyncAll();
  }
  // As another node has it.
  std::unique_ptr<Arbiter> Make() { return Make(client); }
  std::unique_ptr<Arbiter> Make(std::shared_ptr<EtcdClient> by) {
    return MakeEtcdArbiter(std::move(by), disk, "/run", id, secret);
  }

  std::string KeyOf(const std::string& name) const { return "/cairn/" + id.Hex() + "/" + name; }
  // As etcd has it.
  std::string ValueOf(const std::string& name) const {
    const auto value = client->Get(KeyOf(name));
    EXPECT_OK(value);
    return value.ok() && *value ? (*value)->bytes : "not there";
  }
  // What anybody can do who may write to etcd.
  void Overwrite(const std::string& name, const std::string& bytes) const {
    auto there = client->Get(KeyOf(name));
    ASSERT_OK(there);
    ASSERT_OK_AND_ASSIGN(const auto now, client->PutIfUnchanged(KeyOf(name), bytes, *there ? (*there)->revision : 0));
    EXPECT_FALSE(now);
  }
  void Delete(const std::string& name) const { EXPECT_OK(client->Remove(KeyOf(name))); }

  std::string RecordOf(const std::string& name) {
    auto bytes = ReadOnce(disk, "/run/.cairn/" + name, Arbiter::kRecordBytesMax);
    return bytes.ok() ? *std::move(bytes) : std::string(absl::StatusCodeToString(bytes.status().code()));
  }
  // Without what else lies in the folder.
  std::vector<std::string> Names() {
    auto names = Make()->Names();
    EXPECT_OK(names);
    return names.ok() ? *std::move(names) : std::vector<std::string>{"error"};
  }

  FakeDisk disk;
  const RunId id = RunId::Random();
  const std::string secret = NewLaunchSecret();
  const std::shared_ptr<EtcdClient> client;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_ARBITER_ETCD_FIXTURE_H_
