// libcairn_grpc.so as libcairn.so uses it, dlopen and all, and the daemon's real door.
#ifndef CAIRN_TESTS_CLIENT_GRPC_PLUGIN_FIXTURE_H_
#define CAIRN_TESTS_CLIENT_GRPC_PLUGIN_FIXTURE_H_

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "client/cairn.h"
#include "client/grpc_transport.h"
#include "daemon/door/ingest_door.h"
#include "proto/frame.h"
#include "proto/local.pb.h"
#include "tests/daemon/door/fake_receiver.h"
#include "tests/support/runfiles/runfiles.h"
#include "tests/support/status_matchers.h"

namespace cairn::testing {

inline constexpr std::uint32_t kPatienceMs = 20'000;

// The functions of the plug-in, found as libcairn.so finds them.
struct Plugin {
  void* library = dlopen(Runfile("client/grpc/libcairn_grpc.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  template <typename Function>
  Function* Find(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library, name));
  }
  cairn_grpc_abi_function* abi = Find<cairn_grpc_abi_function>("cairn_grpc_abi");
  cairn_grpc_connect_function* connect = Find<cairn_grpc_connect_function>("cairn_grpc_connect");
  cairn_grpc_others_function* others = Find<cairn_grpc_others_function>("cairn_grpc_others");
  cairn_grpc_send_function* send = Find<cairn_grpc_send_function>("cairn_grpc_send");
  cairn_grpc_receive_function* receive = Find<cairn_grpc_receive_function>("cairn_grpc_receive");
  cairn_grpc_free_function* free = Find<cairn_grpc_free_function>("cairn_grpc_free");
  cairn_grpc_close_function* close = Find<cairn_grpc_close_function>("cairn_grpc_close");
};

inline const Plugin& ThePlugin() {
  static const Plugin plugin;
  return plugin;
}

// A handle that closes itself and keeps the last code and sentence.
class Stream {
 public:
  ~Stream() { ThePlugin().close(handle_); }
  int Connect(const std::string& address, std::uint64_t session = 0) {
    return ThePlugin().connect(address.c_str(), session, kPatienceMs, &handle_, error_.data(), error_.size());
  }
  struct Others {
    std::uint32_t all = 0, unreached = 0;
    friend bool operator==(const Others&, const Others&) = default;
  };
  Others others() const {
    Others found;
    found.all = ThePlugin().others(handle_, &found.unreached);
    return found;
  }
  int Send(const local::Request& request, std::uint32_t deadline_ms = kPatienceMs) {
    const std::string bytes = request.SerializeAsString();
    return ThePlugin().send(handle_, bytes.data(), bytes.size(), deadline_ms, error_.data(), error_.size());
  }
  int Receive(local::Reply* reply, std::uint32_t deadline_ms = kPatienceMs) {
    void* bytes = nullptr;
    std::size_t count = 0;
    const int code = ThePlugin().receive(handle_, &bytes, &count, deadline_ms, error_.data(), error_.size());
    const bool parsed = code != CAIRN_OK || reply->ParseFromArray(bytes, static_cast<int>(count));
    EXPECT_TRUE(parsed);
    ThePlugin().free(bytes);
    return code;
  }
  std::string error() const { return error_.data(); }

 private:
  cairn_grpc* handle_ = nullptr;
  std::array<char, 400> error_{};
};

inline local::Request Hello() {
  local::Request request;
  request.set_call(1);
  request.mutable_hello()->set_protocol_min(CAIRN_PROTOCOL_OLDEST);
  request.mutable_hello()->set_protocol_max(CAIRN_PROTOCOL_NEWEST);
  return request;
}

inline local::Reply ReplyOfBytes(std::uint64_t call, std::size_t bytes) {
  local::Reply reply;
  reply.set_call(call);
  reply.mutable_piece()->set_data(std::string(bytes, 'x'));
  return reply;
}

class PluginTest : public ::testing::Test {
 protected:
  PluginTest() {
    std::string name = ::testing::TempDir() + "cairn-plugin-XXXXXX";
    folder_ = mkdtemp(name.data());
    options_.node_socket = folder_ + "/grpc.sock";
    options_.identity = {.name = "cairnd test", .incarnation = 1};
  }
  ~PluginTest() override {
    door_.reset();
    std::filesystem::remove_all(folder_);
  }
  void SetUp() override { ASSERT_NE(ThePlugin().library, nullptr) << dlerror(); }

  void Open() {
    door_.reset();
    auto door = IngestDoor::Listen(options_, receiver_, nullptr);
    ASSERT_OK(door);
    door_ = *std::move(door);
  }
  void Greet(Stream& stream) {
    ASSERT_EQ(stream.Connect("grpc+unix:" + options_.node_socket), CAIRN_OK) << stream.error();
    ASSERT_EQ(stream.Send(Hello()), CAIRN_OK) << stream.error();
    local::Reply reply;
    ASSERT_EQ(stream.Receive(&reply), CAIRN_OK) << stream.error();
    ASSERT_TRUE(reply.has_hello());
  }

  std::string folder_;
  IngestDoor::Options options_;
  FakeReceiver receiver_;
  std::unique_ptr<IngestDoor> door_;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_CLIENT_GRPC_PLUGIN_FIXTURE_H_
