// A variable as a file of numpy's format .npy, version 1.0: numpy.load reads it, or maps it.
#ifndef CAIRN_CLIENT_CLI_BP_NPY_H_
#define CAIRN_CLIENT_CLI_BP_NPY_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "client/cli/bp/dump_output.h"

namespace cairn::cli {

// Magic, version, and what the elements are, padded to a multiple of 64 bytes.
std::string NpyHeader(const std::string& descr, std::span<const std::uint64_t> shape);

// The elements of `target` as one array: of one step its selection or block; of several steps these behind one another,
// with a dimension for the steps in front, if their shapes are the same.
struct NpyArray {
  std::string header;
  std::vector<std::uint64_t> shape;
  std::vector<DumpPart> parts;  // of arrays
  std::string values;           // of scalars: the elements
  std::uint64_t data_bytes = 0;
};
//   kInvalidArgument     several blocks, or steps of several shapes: one must be named
//   kFailedPrecondition  strings, or a local value that some writer has not
absl::StatusOr<NpyArray> PlanNpy(const DumpTarget& target);

// Header and elements, in order, to `write`. Answers false if some elements were in no block: they are 0.
absl::StatusOr<bool> WriteNpy(const DumpTarget& target, const NpyArray& array,
                              const std::function<absl::Status(std::span<const std::byte>)>& write);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_BP_NPY_H_
