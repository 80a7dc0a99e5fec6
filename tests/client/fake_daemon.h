// A daemon that a test plays by hand: it accepts on a socket of its own, and the test says what to read and what to
// answer, in a thread. The faults that it can make: refuse, close, die with its socket, answer late, never, wrongly or
// with bytes that are no frame; images of another size, unsealed, or none.
#ifndef CAIRN_TESTS_CLIENT_FAKE_DAEMON_H_
#define CAIRN_TESTS_CLIENT_FAKE_DAEMON_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "client/cairn.h"
#include "proto/frame.h"
#include "proto/local.pb.h"

namespace cairn {

// Shared memory as a daemon makes it.
class FakeImage {
 public:
  explicit FakeImage(std::uint64_t id, std::uint64_t bytes, bool sealed = true);
  ~FakeImage();
  FakeImage(const FakeImage&) = delete;

  int fd() const { return fd_; }
  std::span<std::uint8_t> bytes() const { return {base_, bytes_}; }
  void Describe(local::Image* image, bool fresh) const;

 private:
  const std::uint64_t id_;
  const std::uint64_t bytes_;
  int fd_;
  std::uint8_t* base_;
};

// One client's connection. Every wait ends after some seconds with a failure of the test.
class FakePeer {
 public:
  explicit FakePeer(int fd) : fd_(fd) {}
  FakePeer(FakePeer&& other) noexcept;
  ~FakePeer();
  bool connected() const { return fd_ >= 0; }

  // The next request; none: the client closed the connection.
  std::optional<local::Request> Receive();
  // The next request that is no Filled, no Copied and no Mark; the test fails if it is not of this kind.
  local::Request Expect(local::Request::BodyCase body);
  // Answers `request` (its number is put in).
  void Answer(const local::Request& request, local::Reply reply, int fd = -1);
  void Refuse(const local::Request& request, local::Code code, const std::string& message);
  void SendRaw(std::string_view bytes, int fd = -1);
  void Close();

  // Hello and Open, answered; the Open.
  local::Open Greet(std::uint64_t launch = 7, std::uint32_t protocol = CAIRN_PROTOCOL_NEWEST);

  // Pieces that the last Filled or Copied told of.
  std::uint64_t told() const { return told_; }
  // What the last Mark said; none: none came.
  std::optional<bool> mark() const { return mark_; }

 private:
  int fd_;
  std::uint64_t told_ = 0;
  std::optional<bool> mark_;
};

class FakeDaemon {
 public:
  FakeDaemon();
  ~FakeDaemon();  // waits for the script

  std::string address() const { return "unix:" + path_; }
  const std::string& path() const { return path_; }
  // Options that lead here: rank 0 of 1, launch key "key", 5 s deadline.
  cairn_options options() const;

  FakePeer Accept();
  // From here on connects are refused, until Reopen.
  void CloseSocket();
  void Reopen();
  // Runs the script in a thread; the one before must have ended.
  void Play(std::function<void()> script);
  // Play with the first connection accepted and greeted.
  void PlayPeer(std::function<void(FakePeer&)> script);
  void Join();

 private:
  std::string folder_;
  std::string path_;
  std::string address_;
  int listener_ = -1;
  std::thread script_;
};

// A plan that cuts the variables into pieces of at most `piece_bytes`, taking turns, packed in the image.
local::Plan MakeTestPlan(const google::protobuf::RepeatedPtrField<local::Variable>& variables,
                         std::uint64_t piece_bytes);

// An honest daemon for one client: keeps what was checkpointed last and gives it back; answers everything else as if
// every level were reached at once; a checkpoint is due at every second question, the run is to stop at the third. A
// checkpoint of step 666 is found to be damaged when half of it is restored, and there is nothing else then.
class HonestDaemon {
 public:
  // Until the client closes or goes away; true: it closed.
  bool Serve(FakePeer& peer);
  // One connection after the other, from Hello on, until a client closes.
  void ServeAll(FakeDaemon& daemon);
  std::uint64_t checkpoints() const { return dataset_; }
  // What variable `id` had in the last checkpoint, packed.
  std::string Stored(std::int32_t id) const;
  // Redundancy, as it was asked for with each dataset that was begun.
  const std::vector<local::Scheme>& schemes() const { return schemes_; }
  // That are given: members and checksums.
  const std::vector<std::pair<std::uint32_t, std::uint32_t>>& set_sizes() const { return set_sizes_; }

 private:
  template <typename Begin>
  void NoteScheme(const Begin& begin) {
    schemes_.push_back(begin.scheme());
    if (begin.scheme_members() != 0) set_sizes_.emplace_back(begin.scheme_members(), begin.scheme_checksums());
  }
  void Handle(FakePeer& peer, const local::Request& request);
  // Names the image; its descriptor, if the connection does not know it yet, else -1.
  int DescribeImage(local::Image* image);
  void Begin(FakePeer& peer, const local::Request& request);
  void Commit(FakePeer& peer, const local::Request& request);
  void Restore(FakePeer& peer, const local::Request& request);
  void Read(FakePeer& peer, const local::Request& request);
  void Find(FakePeer& peer, const local::Request& request);

  std::uint64_t dataset_ = 0;
  std::uint64_t step_ = 0;
  bool damaged_ = false;  // what was checkpointed last
  bool rejected_ = false;
  std::map<std::uint64_t, std::string> names_;
  std::vector<local::Scheme> schemes_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> set_sizes_;
  google::protobuf::RepeatedPtrField<local::Variable> variables_;
  local::Plan plan_;
  std::unique_ptr<FakeImage> image_;
  bool image_known_ = false;  // to the connection
  std::map<std::int32_t, std::string> stored_;
};

// Opens a session; the test fails if that does.
cairn_session* OpenOrDie(const cairn_options& options);

}  // namespace cairn

#endif  // CAIRN_TESTS_CLIENT_FAKE_DAEMON_H_
