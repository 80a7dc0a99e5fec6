// A client of the core, as a door would carry it: messages in, messages and images out, with the calls that libcairn
// makes of them. Every wait here ends: when the host gives up waiting (client_host.h) the test fails.
#ifndef CAIRN_TESTS_DAEMON_CORE_FAKE_CLIENT_H_
#define CAIRN_TESTS_DAEMON_CORE_FAKE_CLIENT_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/door.h"
#include "proto/local.pb.h"
#include "storage/base/ids.h"
#include "storage/base/unique_fd.h"
#include "storage/format/catalogue/scheme.h"
#include "tests/daemon/core/client_host.h"
#include "tests/daemon/core/core_harness.h"
#include "tests/daemon/core/protected_memory.h"

namespace cairn {

// One connection. With or without shared memory.
struct ClientOptions {
  bool shares_memory = true;
  bool resumable = false;
  Connection::Peer peer = {.host = "node7", .pid = 4711, .program = "solver"};
  // Where in their pages the variables of a restore begin, as the client tells it; none: nothing is read straight.
  std::optional<std::uint32_t> memory = {};
  // Called before each file is read; false: it cannot be read.
  std::function<bool(std::uint32_t file)> on_file = nullptr;
  // On the core's thread, as a reply leaves it; null if no descriptor goes along.
  std::function<void(const local::Reply& reply, const UniqueFd* descriptor)> on_reply = nullptr;
};

struct OpenSpec {
  Rank rank = 0;
  std::uint32_t nranks = 1;
  std::string key = "job.1";
  bool takeover = false;
  LaunchId launch = 0;  // a reconnect
  std::string token = {};
  std::string prefix = {};  // empty: the host's
  std::int64_t end_time_s = 0;
  local::Rhythm rhythm = {};
  bool observer = false;  // nothing but the prefix counts
};

// A client's own view of an image: stays when the daemon takes the image back, or is gone.
class Mapping {
 public:
  explicit Mapping(const UniqueFd& image);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

class FakeClient {
 public:
  explicit FakeClient(ClientHost& host, ClientOptions options = {});
  ~FakeClient();  // drops the connection

  // --- One message at a time ---
  std::uint64_t Send(local::Request request);  // gives it a call number
  local::Reply Next(std::uint64_t call);       // the next reply of that call
  local::Reply Ask(local::Request request) { return Next(Send(std::move(request))); }
  bool HasReply(std::uint64_t call);
  void Drop();          // the connection breaks
  void HostDied();      // the daemon's process is gone, and with it the connection
  bool closed() const;  // the core has closed it

  // --- Calls ---
  local::Reply Open(const OpenSpec& spec);
  std::uint64_t SendBegin(std::uint64_t step, const Memory& memory, std::uint32_t deadline_ms = 0);
  local::Reply TakeBegin(std::uint64_t call);  // remembers plan and image
  local::Reply Begin(std::uint64_t step, const Memory& memory) { return TakeBegin(SendBegin(step, memory)); }
  // Copies pieces [from, to) by the plan, waiting for slots of a ring. False: the dataset failed on the way.
  bool Fill(const Memory& memory, std::size_t from = 0, std::size_t to = SIZE_MAX);
  // Goes on with the checkpoint that a broken connection of the same rank has begun.
  void TakeOver(const FakeClient& broken) {
    plan_ = broken.plan_;
    attempts_ = broken.attempts_;
    spoiled_ = broken.spoiled_;
  }
  local::Reply Commit();
  void Filled(std::uint64_t pieces);
  // All of it. The reply is the commit's, or the first that was no success.
  local::Reply Checkpoint(std::uint64_t step, const Memory& memory);
  local::Reply Abort(const std::string& reason);
  local::Reply Test(DatasetId id, local::Level level);
  std::uint64_t SendWait(DatasetId id, local::Level level, std::uint32_t deadline_ms = 0);
  local::Reply Wait(DatasetId id, local::Level level) { return Next(SendWait(id, level)); }
  local::Reply Latest(std::uint32_t deadline_ms = 0);
  void NameNext(std::string name) { next_name_ = std::move(name); }  // of the dataset that is begun next
  void AskFor(const AskedScheme& scheme) { scheme_ = scheme; }       // of all datasets that are begun from now on
  local::Reply Find(const std::string& name);
  std::string NameOf(DatasetId id);  // the message, if that is an error
  std::uint64_t SendReject(DatasetId id, std::uint32_t deadline_ms = 0);
  local::Reply Reject(DatasetId id) { return Next(SendReject(id)); }
  local::Reply Stored(DatasetId id);
  struct Restored {
    local::Code code = local::INTERNAL;
    std::string message;
    local::Tier tier = local::TIER_NONE;
    std::uint64_t pieces_copied = 0;  // also if it failed in the end
    std::uint64_t files_read = 0;     // straight; as well
  };
  std::uint64_t SendRestore(DatasetId id, const Memory& memory, std::uint32_t deadline_ms = 0);
  Restored TakeRestore(std::uint64_t call, Memory& memory);
  Restored Restore(DatasetId id, Memory& memory) { return TakeRestore(SendRestore(id, memory), memory); }
  // Bytes of a restore that has not succeeded are in its memory: each request says so, until a restore succeeds, or
  // ProtectAnew.
  bool spoiled() const { return spoiled_; }
  void Spoil() { spoiled_ = true; }
  void ProtectAnew();
  void Expect(std::uint64_t bytes);  // protects so much
  // Into `out`, which says also what is asked for: name, box and holes.
  std::uint64_t SendRead(DatasetId id, const Protected& out);
  Restored Read(DatasetId id, Protected& out);
  local::Reply OutputBegin(std::uint64_t step, bool checkpoint = true, bool output = false, bool growing = false);
  local::Reply RouteFile(const std::string& file);
  local::Reply OutputEnd(bool valid = true);
  local::Reply RestartFile(DatasetId id, const std::string& file);
  local::Reply Close();

  // --- What it has seen ---
  Rank rank() const { return rank_; }
  LaunchId launch() const { return launch_; }
  const std::string& token() const { return token_; }
  const std::string& run() const { return run_; }
  const local::Plan& plan() const { return plan_; }
  std::uint64_t begin_call() const { return begin_call_; }
  // Every image whose descriptor came, also after the daemon took it back: a client keeps its mapping.
  const std::map<std::uint64_t, std::shared_ptr<Mapping>>& images() const { return images_; }
  std::shared_ptr<Mapping> image() const { return image_; }

 private:
  class Line;
  struct Arrived {
    local::Reply reply;
    std::shared_ptr<Mapping> image;
    SharedFd file;
  };
  Arrived Take(std::uint64_t call);
  void Remember(const Arrived& arrived, const local::Image& image);

  ClientHost& host_;
  std::shared_ptr<Line> line_;
  const bool shares_memory_;
  const std::optional<std::uint32_t> memory_;
  const std::function<bool(std::uint32_t file)> on_file_;
  bool dropped_ = false;
  std::uint64_t last_call_ = 0;
  Rank rank_ = 0;
  LaunchId launch_ = 0;
  std::string token_, run_;
  std::map<std::uint64_t, std::uint32_t> attempts_;
  bool spoiled_ = false;
  std::string next_name_;
  AskedScheme scheme_;
  std::uint64_t begin_call_ = 0;
  std::uint64_t released_ = 0;
  local::Plan plan_;
  std::shared_ptr<Mapping> image_;
  std::map<std::uint64_t, std::shared_ptr<Mapping>> images_;
};

// All ranks of a launch at once: opened with one key, each with the memory of its own.
struct Ranks {
  std::vector<std::unique_ptr<FakeClient>> clients;

  Ranks(ClientHost& host, std::uint32_t nranks, const std::string& key, ClientOptions options = {});
  FakeClient& operator[](Rank rank) { return *clients[rank]; }
  // One after the other. The dataset, or 0 after a failure.
  DatasetId Checkpoint(std::uint64_t step, const std::vector<Memory>& memory);
  // At the same time.
  std::vector<FakeClient::Restored> Restore(DatasetId id, std::vector<Memory>& memory);
};

local::Code CodeOfReply(const local::Reply& reply);

// The code of a reply and a part of its message.
::testing::AssertionResult Says(const char* reply_text, const char* code_text, const char* part_text,
                                const local::Reply& reply, local::Code code, const std::string& part);
#define EXPECT_SAYS(reply, code, part) EXPECT_PRED_FORMAT3(::cairn::Says, reply, code, part)
#define ASSERT_SAYS(reply, code, part) ASSERT_PRED_FORMAT3(::cairn::Says, reply, code, part)

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_FAKE_CLIENT_H_
