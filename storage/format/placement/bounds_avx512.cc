#include "storage/format/placement/bounds_kernels.h"

namespace cairn::view {

const BoundsKernels kBoundsAvx512 = MakeBoundsKernels<64>();

}  // namespace cairn::view
