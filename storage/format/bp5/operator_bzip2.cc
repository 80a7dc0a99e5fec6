// Number of bytes, number of batches, a table of batches: where each begins and how long it is, before and after. Each
// is a stream of bzip2's.
#include <bzlib.h>

#include "storage/format/bp5/operator_codecs.h"

namespace cairn::bp5 {
namespace {

constexpr std::uint64_t kBatchBytes = std::uint64_t{2147483648} - 102400;  // but the last one
// A block of bzip2's has a head of more than this, and 900,000 bytes of which five say at most 259.
constexpr std::uint64_t kBlockHeadBytes = 16, kBlockBytesMax = 900'000 / 5 * 259;

// Of the table. Counted in 32 bits, also what does not fit into them.
struct Batch {
  std::uint32_t begin, bytes, stored_begin, stored_bytes;
};

absl::Status UndoBatch(std::span<const std::byte> stored, std::span<std::byte> target) {
  auto bytes = static_cast<unsigned>(target.size());
  // The library takes its input as not const, and leaves it alone.
  auto* const source = const_cast<char*>(reinterpret_cast<const char*>(stored.data()));
  const int result = BZ2_bzBuffToBuffDecompress(reinterpret_cast<char*>(target.data()), &bytes, source,
                                                static_cast<unsigned>(stored.size()), 0, 0);
  if (result == BZ_MEM_ERROR) return ResourceExhausted("no memory for bzip2");
  if (result != BZ_OK) return DataLoss("bzip2 answers {}", result);
  if (bytes != target.size()) return DataLoss("{} bytes instead of {}", bytes, target.size());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Memory> UndoBzip2(OperatorBytes stored, std::uint64_t bytes) {
  CAIRN_ASSIGN_OR_RETURN(const auto says, stored.Take<std::uint64_t>("the number of bytes"));
  CAIRN_ASSIGN_OR_RETURN(const auto batches, stored.Take<std::uint64_t>("the number of batches"));
  if (says != bytes || batches != bytes / kBatchBytes + 1) {
    return DataLoss("{} bytes in {} batches, its elements are {}", says, batches, bytes);
  }
  CAIRN_ASSIGN_OR_RETURN(const auto table, stored.Take(batches * sizeof(Batch), "the table of batches"));
  if (bytes / kBlockBytesMax > stored.rest().size() / kBlockHeadBytes) {
    return DataLoss("{} bytes cannot be in {} stored ones", bytes, stored.rest().size());
  }
  CAIRN_ASSIGN_OR_RETURN(Memory elements, MakeMemory(bytes));
  const std::span<std::byte> target(elements.get(), bytes);
  for (std::uint64_t i = 0; i < batches; ++i) {
    Batch batch;
    std::memcpy(&batch, &table[i * sizeof(Batch)], sizeof(Batch));
    const std::uint64_t begin = i * kBatchBytes, size = std::min(bytes - begin, kBatchBytes);
    if (batch.begin != static_cast<std::uint32_t>(begin) || batch.bytes != size) {
      return DataLoss("batch {}: {} bytes at {}, not {} at {}", i, batch.bytes, batch.begin, size, begin);
    }
    const auto all = stored.all();
    if (batch.stored_begin > all.size() || batch.stored_bytes > all.size() - batch.stored_begin) {
      return DataLoss("batch {}: {} stored bytes at {} of {}", i, batch.stored_bytes, batch.stored_begin, all.size());
    }
    if (size == 0) continue;
    CAIRN_RETURN_IF_ERROR(
        Annotate(UndoBatch(all.subspan(batch.stored_begin, batch.stored_bytes), target.subspan(begin, size)),
                 fmt::format("batch {}", i)));
  }
  return elements;
}

}  // namespace cairn::bp5
