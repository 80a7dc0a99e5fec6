// With what a daemon itself works, as it says (admin::Mechanisms): its machine or container may allow it more, or less,
// than it allows the command.
#ifndef CAIRN_CLIENT_CLI_MECHANISMS_H_
#define CAIRN_CLIENT_CLI_MECHANISMS_H_

#include <string>
#include <string_view>

#include "proto/admin.pb.h"

namespace cairn::cli {

// "the daemon uses …"; of each mechanism.
std::string TellEngines(const admin::Mechanisms& told);
std::string TellHugePages(const admin::Mechanisms& told);
std::string TellPinning(const admin::Mechanisms& told);
std::string TellBackground(const admin::Mechanisms& told);
// `of`: whose files these are, "its cache".
std::string TellDirectIo(const admin::Mechanisms::OfDisk& told, std::string_view of);
// Of files that applications read straight into their memory.
std::string TellHanding(const admin::Mechanisms::OfDisk& told);

// The kernel has refused io_uring to it, for some file systems at least.
bool LacksUring(const admin::Mechanisms& told);

// What it works without, where it could be with it, by the names that doctor has: "io_uring for the cache, huge pages
// for images (2 of 3)". Empty: nothing was refused so far.
std::string TellRefused(const admin::Mechanisms& told);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_MECHANISMS_H_
