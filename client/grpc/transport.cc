// The C functions of grpc_transport.h: deadlines and buffers in, codes out; no exception leaves.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/cairn.h"
#include "client/grpc/address.h"
#include "client/grpc/daemon_order.h"
#include "client/grpc/stream.h"
#include "client/grpc_transport.h"

struct cairn_grpc {
  std::unique_ptr<cairn::transport::Stream> stream;
  std::string target, told_in;  // as it was asked for; which daemon's file told of it
  std::uint32_t others = 0;     // daemons that tell where they are
  std::uint32_t unreached = 0;  // of those
  std::uint64_t session = 0;    // that looks for the daemon that it had before; 0: it has had none
  int replies = 0;              // so many, at most kServes
};

namespace {

using cairn::transport::Address;
using cairn::transport::DaemonOrder;
using cairn::transport::Outcome;
using cairn::transport::Stream;

// Of several, until the next is tried: all have a part of the time.
constexpr std::chrono::milliseconds kEachMost(3000), kEachLeast(200);

Stream::Deadline In(std::uint32_t ms) {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
}

int Tell(int code, std::string_view text, char* error, std::size_t error_bytes) {
  if (code == CAIRN_OK || error == nullptr || error_bytes == 0) return code;
  const std::size_t bytes = std::min(text.size(), error_bytes - 1);
  std::memcpy(error, text.data(), bytes);
  error[bytes] = '\0';
  return code;
}

// Runs `work`, which answers an Outcome; what it throws becomes a code.
template <typename Work>
int Guarded(char* error, std::size_t error_bytes, Work work) noexcept {
  try {
    const Outcome outcome = work();
    return Tell(outcome.code, outcome.text, error, error_bytes);
  } catch (const std::bad_alloc&) {
    return Tell(CAIRN_RESOURCE_EXHAUSTED, "out of memory", error, error_bytes);
  } catch (const std::exception& e) {
    return Tell(CAIRN_INTERNAL, e.what(), error, error_bytes);
  } catch (...) {
    return Tell(CAIRN_INTERNAL, "unknown exception", error, error_bytes);
  }
}

// The first that answers. What the last life of a daemon has told of itself may not be true any more: another daemon
// may be there by now, or nobody; until the next life tells it anew, it is as if none were there.
Outcome ConnectToOne(const std::vector<Address>& addresses, Stream::Deadline deadline, cairn_grpc* result) {
  Outcome first;
  for (const Address& address : addresses) {
    const auto now = std::chrono::steady_clock::now();
    const std::ptrdiff_t left = addresses.data() + addresses.size() - &address;
    const auto each = std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>((deadline - now) / left),
                                 kEachLeast, kEachMost);
    Outcome outcome = Stream::Connect(address, left == 1 ? deadline : std::min(deadline, now + each), &result->stream);
    if (outcome.ok()) {
      result->told_in = address.told_in;
      result->others = static_cast<std::uint32_t>(address.others);
      const std::size_t unread = address.others + 1 - addresses.size();
      result->unreached = static_cast<std::uint32_t>(unread + addresses.size() - static_cast<std::size_t>(left));
      return outcome;
    }
    if (!address.name.empty()) {
      outcome.text = address.target + ", as told in the run's folder: " + outcome.text;
      if (outcome.code == CAIRN_PERMISSION_DENIED) outcome.code = CAIRN_UNAVAILABLE;
    }
    if (first.ok()) first = std::move(outcome);
    if (std::chrono::steady_clock::now() >= deadline) break;
  }
  return first;
}

constexpr int kServes = 3;  // replies: to the greeting, to the opening, and one more

DaemonOrder& Order() {
  static auto* const order = new DaemonOrder;
  return *order;
}

}  // namespace

uint32_t cairn_grpc_abi(void) {
  return CAIRN_GRPC_ABI;
}

int cairn_grpc_connect(const char* target, uint64_t session, uint32_t deadline_ms, cairn_grpc** handle, char* error,
                       size_t error_bytes) {
  return Guarded(error, error_bytes, [&]() -> Outcome {
    std::vector<Address> addresses;
    Outcome outcome = FindAddresses(
        target, [](const char* name) { return std::getenv(name); }, &addresses);
    if (!outcome.ok()) return outcome;
    auto result = std::make_unique<cairn_grpc>();
    result->target = target;
    result->session = session;
    Order().Arrange(result->target, session, &addresses);
    outcome = ConnectToOne(addresses, In(deadline_ms), result.get());
    if (outcome.ok()) *handle = result.release();
    return outcome;
  });
}

uint32_t cairn_grpc_others(const cairn_grpc* handle, uint32_t* unreached) {
  *unreached = handle->unreached;
  return handle->others;
}

int cairn_grpc_send(cairn_grpc* handle, const void* request, size_t bytes, uint32_t deadline_ms, char* error,
                    size_t error_bytes) {
  return Guarded(error, error_bytes, [&] { return handle->stream->Send(request, bytes, In(deadline_ms)); });
}

int cairn_grpc_receive(cairn_grpc* handle, void** reply, size_t* bytes, uint32_t deadline_ms, char* error,
                       size_t error_bytes) {
  return Guarded(error, error_bytes, [&] {
    Outcome outcome = handle->stream->Receive(In(deadline_ms), reply, bytes);
    // A daemon that is not ours answers the greeting, too, and then refuses.
    if (outcome.ok() && handle->replies < kServes && ++handle->replies == kServes) {
      Order().Served(handle->target, handle->session, handle->told_in);
    }
    return outcome;
  });
}

void cairn_grpc_free(void* reply) {
  std::free(reply);
}

void cairn_grpc_close(cairn_grpc* handle) {
  const std::unique_ptr<cairn_grpc> ended(handle);
  Guarded(nullptr, 0, [&] {
    // It has refused the session, or was gone before the session had anything of it: another one may be the right one.
    if (ended && ended->session != 0 && ended->replies < kServes) {
      Order().InVain(ended->target, ended->session, ended->told_in);
    }
    return Outcome{};
  });
}
