// MD5_CTX is the one way to start OpenSSL's MD5 from a given state; version 3 calls it deprecated, but keeps it.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "storage/base/md5_lanes.h"

#include <absl/container/inlined_vector.h>
#include <openssl/md5.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "storage/base/check.h"
#include "storage/base/md5_kernels.h"

namespace cairn {
namespace {

static_assert(kMd5KernelLanes == kMd5LanesMax);

struct Kernel {
  std::string_view name;
  void (*blocks)(Md5KernelState&, const std::byte* const*, bool all, std::size_t blocks);
  std::size_t lanes_min;  // with fewer, one after the other by OpenSSL is faster
};

constexpr Kernel kAvx512 = {"avx512", Md5BlocksAvx512, 2};
constexpr Kernel kAvx2 = {"avx2", Md5BlocksAvx2, 3};
constexpr Kernel kOpenSsl = {"openssl", nullptr, std::numeric_limits<std::size_t>::max()};

bool Runs(const Kernel& kernel) {
  if (kernel.blocks == Md5BlocksAvx512) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
  }
  return kernel.blocks == nullptr || __builtin_cpu_supports("avx2");
}

const Kernel& BestKernel() {
  static const Kernel& best = Runs(kAvx512) ? kAvx512 : Runs(kAvx2) ? kAvx2 : kOpenSsl;
  return best;
}

MD5_CTX ContextOf(const Md5State& state) {
  MD5_CTX context;
  MD5_Init(&context);
  context.A = state.words[0];
  context.B = state.words[1];
  context.C = state.words[2];
  context.D = state.words[3];
  context.Nl = static_cast<MD5_LONG>(state.bytes << 3);  // the count of bits, as the padding wants it
  context.Nh = static_cast<MD5_LONG>(state.bytes >> 29);
  return context;
}

// A lane at work.
struct Slot {
  Md5State* state = nullptr;
  const std::byte* data = nullptr;
  std::size_t blocks = 0;  // left
};

void AdvanceByOpenSsl(const Slot& slot) {
  MD5_CTX context = ContextOf(*slot.state);
  MD5_Update(&context, slot.data, slot.blocks * kMd5BlockBytes);
  slot.state->words = {context.A, context.B, context.C, context.D};
}

// One call of the kernel: as many blocks as the shortest slot has left. The words go in and out each time, which is
// 16 bytes against at least one block of each lane.
void AdvanceTogether(const Kernel& kernel, std::span<Slot> slots) {
  Md5KernelState state;
  const std::byte* data[kMd5KernelLanes];
  std::size_t blocks = slots[0].blocks;
  for (const Slot& slot : slots) blocks = std::min(blocks, slot.blocks);
  const bool all = slots.size() > kMd5KernelLanes / 2;
  for (std::size_t l = 0; l < (all ? kMd5KernelLanes : kMd5KernelLanes / 2); ++l) {
    const Slot& slot = slots[l < slots.size() ? l : 0];  // a lane without work does that of another, in vain
    data[l] = slot.data;
    for (std::size_t w = 0; w < 4; ++w) state.words[w][l] = slot.state->words[w];
  }
  kernel.blocks(state, data, all, blocks);
  for (std::size_t l = 0; l < slots.size(); ++l) {
    for (std::size_t w = 0; w < 4; ++w) slots[l].state->words[w] = state.words[w][l];
    slots[l].data += blocks * kMd5BlockBytes;
    slots[l].blocks -= blocks;
  }
}

void Advance(const Kernel& kernel, std::span<const Md5Lane> lanes) {
  absl::InlinedVector<Slot, kMd5LanesMax> waiting;
  for (const Md5Lane& lane : lanes) {
    CAIRN_CHECK(lane.bytes % kMd5BlockBytes == 0);
    if (lane.bytes != 0) waiting.push_back({lane.state, lane.data, lane.bytes / kMd5BlockBytes});
    lane.state->bytes += lane.bytes;
  }
  // The longest is taken first, from the back: so at the end no long one is left alone.
  std::sort(waiting.begin(), waiting.end(), [](const Slot& a, const Slot& b) { return a.blocks < b.blocks; });
  std::array<Slot, kMd5KernelLanes> slots;
  std::size_t count = 0;
  for (;;) {
    for (; count < slots.size() && !waiting.empty(); waiting.pop_back()) slots[count++] = waiting.back();
    if (count < kernel.lanes_min) break;
    AdvanceTogether(kernel, std::span(slots).first(count));
    const auto end = std::remove_if(slots.begin(), slots.begin() + count, [](const Slot& s) { return s.blocks == 0; });
    count = static_cast<std::size_t>(end - slots.begin());
  }
  for (std::size_t l = 0; l < count; ++l) AdvanceByOpenSsl(slots[l]);
  for (const Slot& slot : waiting) AdvanceByOpenSsl(slot);
}

}  // namespace

void Md5Advance(std::span<const Md5Lane> lanes) {
  Advance(BestKernel(), lanes);
}

bool Md5AdvanceWith(std::string_view engine, std::span<const Md5Lane> lanes) {
  for (const Kernel* kernel : {&kAvx512, &kAvx2, &kOpenSsl}) {
    if (kernel->name != engine || !Runs(*kernel)) continue;
    Advance(*kernel, lanes);
    return true;
  }
  return false;
}

std::string_view Md5Engine() {
  return BestKernel().name;
}

Md5Digest Md5Finish(const Md5State& state, std::span<const std::byte> rest) {
  MD5_CTX context = ContextOf(state);
  MD5_Update(&context, rest.data(), rest.size());
  Md5Digest digest;
  MD5_Final(reinterpret_cast<unsigned char*>(digest.data()), &context);
  return digest;
}

}  // namespace cairn
