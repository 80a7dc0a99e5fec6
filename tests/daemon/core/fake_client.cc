#include "tests/daemon/core/fake_client.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <future>
#include <mutex>
#include <span>
#include <utility>

#include "storage/base/checksum.h"

namespace cairn {

// --- The connection ---

Mapping::Mapping(const UniqueFd& image) {
  struct stat stat {};
  const bool found = ::fstat(image.get(), &stat) == 0;
  const auto bytes = static_cast<std::size_t>(stat.st_size);
  void* base = found ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, image.get(), 0) : MAP_FAILED;
  if (base == MAP_FAILED) {
    ADD_FAILURE() << "an image could not be mapped";
  } else {
    bytes_ = {static_cast<std::byte*>(base), bytes};
  }
}

Mapping::~Mapping() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

class FakeClient::Line final : public Connection {
 public:
  Line(ClientHost& host, ClientOptions options) : host_(host), options_(std::move(options)) {}

  void Send(const local::Reply& reply, SharedFd descriptor) override {
    if (options_.on_reply) options_.on_reply(reply, descriptor.get());
    const bool is_image = descriptor != nullptr && !reply.has_straight_file();
    const std::lock_guard lock(mutex_);
    arrived_[reply.call()].push_back(
        {reply, is_image ? std::make_shared<Mapping>(*descriptor) : nullptr, is_image ? nullptr : descriptor});
    changed_.notify_all();
  }
  void Close() override {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  bool shares_memory() const override { return options_.shares_memory; }
  bool resumable() const override { return options_.resumable; }
  Peer peer() const override { return options_.peer; }

  bool Has(std::uint64_t call) {
    const std::lock_guard lock(mutex_);
    return !arrived_[call].empty();
  }
  bool closed() {
    const std::lock_guard lock(mutex_);
    return closed_;
  }
  Arrived Take(std::uint64_t call) {
    std::unique_lock lock(mutex_);
    std::deque<Arrived>& replies = arrived_[call];
    const bool come = host_.Wait(lock, changed_, [&] { return !replies.empty() || closed_; });
    if (come && replies.empty()) {
      Arrived none;
      none.reply.mutable_status()->set_code(local::UNAVAILABLE);
      none.reply.mutable_status()->set_message("the connection was closed");
      return none;
    }
    if (!come) {
      lock.unlock();
      ADD_FAILURE() << "call " << call << " was not answered";
      Arrived none;
      none.reply.mutable_status()->set_code(local::INTERNAL);
      none.reply.mutable_status()->set_message("the test waited in vain");
      return none;
    }
    Arrived first = std::move(replies.front());
    replies.pop_front();
    return first;
  }

 private:
  ClientHost& host_;
  const ClientOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  std::map<std::uint64_t, std::deque<Arrived>> arrived_;
};

FakeClient::FakeClient(ClientHost& host, ClientOptions options)
    : host_(host),
      line_(std::make_shared<Line>(host, options)),
      shares_memory_(options.shares_memory),
      memory_(options.memory),
      on_file_(std::move(options.on_file)) {
  host_.core().Attach(line_);
}

FakeClient::~FakeClient() {
  Drop();
}

void FakeClient::Drop() {
  if (!std::exchange(dropped_, true) && host_.running()) host_.core().Detach(line_);
}

void FakeClient::HostDied() {
  dropped_ = true;
  line_->Close();
}

bool FakeClient::closed() const {
  return line_->closed();
}

std::uint64_t FakeClient::Send(local::Request request) {
  request.set_call(++last_call_);
  request.set_dirty(spoiled_);
  if (!line_->closed()) host_.core().Receive(line_, std::make_unique<local::Request>(std::move(request)));
  return last_call_;
}

FakeClient::Arrived FakeClient::Take(std::uint64_t call) {
  Arrived arrived = line_->Take(call);
  const local::Reply& reply = arrived.reply;
  if (arrived.image)
    images_[reply.has_begin() ? reply.begin().image().id() : reply.restore().image().id()] = arrived.image;
  return arrived;
}

local::Reply FakeClient::Next(std::uint64_t call) {
  return Take(call).reply;
}

bool FakeClient::HasReply(std::uint64_t call) {
  return line_->Has(call);
}

// --- Calls ---

local::Reply FakeClient::Open(const OpenSpec& spec) {
  local::Request request;
  local::Open& open = *request.mutable_open();
  open.set_prefix(spec.prefix.empty() ? host_.prefix() : spec.prefix);
  open.set_observer(spec.observer);
  if (!spec.observer) {
    open.set_rank(spec.rank);
    open.set_nranks(spec.nranks);
    open.set_launch_key(spec.key);
    open.set_takeover(spec.takeover);
    open.set_launch(spec.launch);
    open.set_token(spec.token);
    open.set_dirty(spoiled_);
    open.set_end_time_s(spec.end_time_s);
    *open.mutable_rhythm() = spec.rhythm;
  }
  local::Reply reply = Ask(std::move(request));
  if (CodeOfReply(reply) == local::OK) {
    rank_ = spec.rank;
    launch_ = reply.open().launch();
    token_ = reply.open().token();
    run_ = reply.open().run();
  }
  return reply;
}

std::uint64_t FakeClient::SendBegin(std::uint64_t step, const Memory& memory, std::uint32_t deadline_ms) {
  local::Request request;
  request.set_deadline_ms(deadline_ms);
  request.mutable_begin()->set_step(step);
  request.mutable_begin()->set_attempt(++attempts_[step]);
  for (const Protected& one : memory) *request.mutable_begin()->add_variables() = one.variable;
  request.mutable_begin()->set_name(std::exchange(next_name_, {}));
  PutAsked(scheme_, *request.mutable_begin());
  return begin_call_ = Send(std::move(request));
}

void FakeClient::Remember(const Arrived& arrived, const local::Image& image) {
  image_ = images_.contains(image.id()) ? images_[image.id()] : nullptr;
  EXPECT_EQ(arrived.image != nullptr, image.fresh());
  EXPECT_TRUE(image.id() == 0 || image_ != nullptr) << "image " << image.id() << " came without a descriptor";
}

local::Reply FakeClient::TakeBegin(std::uint64_t call) {
  const Arrived arrived = Take(call);
  if (CodeOfReply(arrived.reply) != local::OK) return arrived.reply;
  const local::BeginReply& begin = arrived.reply.begin();
  if (!begin.same_plan()) plan_ = begin.plan();
  released_ = 0;
  Remember(arrived, begin.image());
  return arrived.reply;
}

bool FakeClient::Fill(const Memory& memory, std::size_t from, std::size_t to) {
  const std::size_t end = std::min<std::size_t>(to, static_cast<std::size_t>(plan_.bytes_size()));
  std::uint64_t unsaid = 0;
  for (std::size_t i = from; i < end; ++i) {
    const int at = static_cast<int>(i);
    const std::uint64_t after = plan_.after_released_size() > 0 ? plan_.after_released(at) : 0;
    if (released_ < after && unsaid > 0) {
      Filled(i);
      unsaid = 0;
    }
    while (released_ < after) {
      const local::Reply reply = Next(begin_call_);
      if (CodeOfReply(reply) != local::OK) return false;
      released_ = reply.released().windows();
    }
    const Protected& one = memory.at(plan_.variable(at));
    const char* bytes = one.bytes.data() + plan_.variable_offset(at);
    if (shares_memory_) {
      std::memcpy(image_->bytes().data() + plan_.image_offset(at), bytes, plan_.bytes(at));
    } else {
      local::Request request;
      local::Piece& piece = *request.mutable_piece();
      piece.set_index(i);
      piece.set_id(one.variable.id());
      piece.set_offset(plan_.variable_offset(at));
      piece.set_data(bytes, plan_.bytes(at));
      piece.set_crc32c(Crc32c(std::as_bytes(std::span(piece.data()))));
      Send(std::move(request));
    }
    unsaid += plan_.bytes(at);
    if (shares_memory_ && unsaid >= plan_.doorbell_bytes()) {
      Filled(i + 1);
      unsaid = 0;
    }
  }
  if (shares_memory_ && unsaid > 0) Filled(end);
  return true;
}

void FakeClient::Filled(std::uint64_t pieces) {
  local::Request request;
  request.mutable_filled()->set_pieces(pieces);
  Send(std::move(request));
}

local::Reply FakeClient::Commit() {
  local::Request request;
  request.mutable_commit();
  return Ask(std::move(request));
}

local::Reply FakeClient::Checkpoint(std::uint64_t step, const Memory& memory) {
  local::Reply begun = Begin(step, memory);
  if (CodeOfReply(begun) != local::OK) return begun;
  Fill(memory);
  return Commit();
}

local::Reply FakeClient::Abort(const std::string& reason) {
  local::Request request;
  request.mutable_abort()->set_reason(reason);
  return Ask(std::move(request));
}

local::Reply FakeClient::Test(DatasetId id, local::Level level) {
  local::Request request;
  request.mutable_test()->set_dataset(id);
  request.mutable_test()->set_level(level);
  return Ask(std::move(request));
}

std::uint64_t FakeClient::SendWait(DatasetId id, local::Level level, std::uint32_t deadline_ms) {
  local::Request request;
  request.set_deadline_ms(deadline_ms);
  request.mutable_wait()->set_dataset(id);
  request.mutable_wait()->set_level(level);
  return Send(std::move(request));
}

local::Reply FakeClient::Latest(std::uint32_t deadline_ms) {
  local::Request request;
  request.set_deadline_ms(deadline_ms);
  request.mutable_latest();
  return Ask(std::move(request));
}

local::Reply FakeClient::Find(const std::string& name) {
  local::Request request;
  request.mutable_find()->set_name(name);
  return Ask(std::move(request));
}

std::string FakeClient::NameOf(DatasetId id) {
  local::Request request;
  request.mutable_find()->set_dataset(id);
  const local::Reply reply = Ask(std::move(request));
  return CodeOfReply(reply) == local::OK ? reply.find().name() : reply.status().message();
}

std::uint64_t FakeClient::SendReject(DatasetId id, std::uint32_t deadline_ms) {
  local::Request request;
  request.set_deadline_ms(deadline_ms);
  request.mutable_reject()->set_dataset(id);
  return Send(std::move(request));
}

local::Reply FakeClient::Stored(DatasetId id) {
  local::Request request;
  request.mutable_stored()->set_dataset(id);
  return Ask(std::move(request));
}

void FakeClient::ProtectAnew() {
  spoiled_ = false;
  local::Request request;
  request.mutable_mark();
  Send(std::move(request));
}

void FakeClient::Expect(std::uint64_t bytes) {
  local::Request request;
  request.mutable_mark()->set_expected_bytes(bytes);
  Send(std::move(request));
}

local::Reply FakeClient::OutputBegin(std::uint64_t step, bool checkpoint, bool output, bool growing) {
  local::Request request;
  local::OutputBegin& begin = *request.mutable_output_begin();
  begin.set_step(step);
  begin.set_attempt(++attempts_[step]);
  begin.set_checkpoint(checkpoint);
  begin.set_output(output);
  begin.set_growing(growing);
  begin.set_name(std::exchange(next_name_, {}));
  PutAsked(scheme_, begin);
  return Ask(std::move(request));
}

local::Reply FakeClient::RouteFile(const std::string& file) {
  local::Request request;
  request.mutable_route_file()->set_file(file);
  return Ask(std::move(request));
}

local::Reply FakeClient::OutputEnd(bool valid) {
  local::Request request;
  request.mutable_output_end()->set_valid(valid);
  return Ask(std::move(request));
}

local::Reply FakeClient::RestartFile(DatasetId id, const std::string& file) {
  local::Request request;
  request.mutable_restart_file()->set_dataset(id);
  request.mutable_restart_file()->set_file(file);
  return Ask(std::move(request));
}

local::Reply FakeClient::Close() {
  local::Request request;
  request.mutable_close();
  return Ask(std::move(request));
}

// --- Ranks ---

Ranks::Ranks(ClientHost& host, std::uint32_t nranks, const std::string& key, ClientOptions options) {
  for (Rank rank = 0; rank < nranks; ++rank) {
    clients.push_back(std::make_unique<FakeClient>(host, options));
    const local::Reply opened = clients.back()->Open({.rank = rank, .nranks = nranks, .key = key});
    EXPECT_EQ(CodeOfReply(opened), local::OK) << "rank " << rank << ": " << opened.status().message();
  }
}

DatasetId Ranks::Checkpoint(std::uint64_t step, const std::vector<Memory>& memory) {
  DatasetId id = 0;
  for (Rank rank = 0; rank < clients.size(); ++rank) {
    const local::Reply reply = clients[rank]->Checkpoint(step, memory.at(rank));
    EXPECT_EQ(CodeOfReply(reply), local::OK) << "rank " << rank << ": " << reply.status().message();
    if (CodeOfReply(reply) != local::OK) return 0;
    id = reply.committed().dataset();
  }
  return id;
}

std::vector<FakeClient::Restored> Ranks::Restore(DatasetId id, std::vector<Memory>& memory) {
  std::vector<std::future<FakeClient::Restored>> pending;
  for (Rank rank = 0; rank < clients.size(); ++rank) {
    pending.push_back(std::async(std::launch::async,
                                 [this, rank, id, &memory] { return clients[rank]->Restore(id, memory.at(rank)); }));
  }
  std::vector<FakeClient::Restored> restored;
  for (auto& one : pending) restored.push_back(one.get());
  return restored;
}

// --- Expectations ---

local::Code CodeOfReply(const local::Reply& reply) {
  return reply.status().code();
}

::testing::AssertionResult Says(const char* reply_text, const char* code_text, const char* part_text,
                                const local::Reply& reply, local::Code code, const std::string& part) {
  const bool found = reply.status().message().find(part) != std::string::npos;
  if (CodeOfReply(reply) == code && found) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << reply_text << " says " << local::Code_Name(CodeOfReply(reply)) << " \""
                                       << reply.status().message() << "\", expected " << code_text << " with "
                                       << part_text << " = \"" << part << "\"";
}

}  // namespace cairn
