// Parts of datasets that a daemon had captured when it died: their images and labels, as it would have left them.
#ifndef CAIRN_TESTS_DAEMON_CORE_CAPTURED_PARTS_H_
#define CAIRN_TESTS_DAEMON_CORE_CAPTURED_PARTS_H_

#include <cstdint>
#include <string>

#include "daemon/data/image_label.h"
#include "storage/base/ids.h"
#include "storage/base/unique_fd.h"
#include "tests/daemon/core/lasting_deposits.h"

namespace cairn {

// Of step 50 of launch 2, user alice: two variables.
CapturedPart CapturedPartOf(const RunId& run, DatasetId dataset, Rank rank, std::uint32_t nranks);

// What a variable of so many bytes has in a rank's part.
std::string CapturedBytes(Rank rank, std::uint64_t bytes);

// As a client fills it by its plan; what an earlier use has left in it is there, too.
UniqueFd CapturedImage(const CapturedPart& part);

// Leaves the image with its label, sealed or not.
void LeaveCaptured(LastingDeposits& deposits, const CapturedPart& part, bool sealed = true);

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_CAPTURED_PARTS_H_
