#include "storage/format/placement/bounds_kernels.h"

namespace cairn::view {

const BoundsKernels kBoundsAvx2 = MakeBoundsKernels<32>();

}  // namespace cairn::view
