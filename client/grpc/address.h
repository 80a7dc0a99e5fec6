// Where to connect, and with which certificates: the address as the user gave it, and the TLS variables.
#ifndef CAIRN_CLIENT_GRPC_ADDRESS_H_
#define CAIRN_CLIENT_GRPC_ADDRESS_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::transport {

// What every call of the plug-in comes to: a code of cairn.h and, if it is not CAIRN_OK, a sentence.
struct Outcome {
  int code = 0;
  std::string text;
  bool ok() const { return code == 0; }
};

struct Address {
  std::string node_socket;   // its path; else:
  std::string target;        // "host:port"
  std::string name;          // in the daemon's certificate; empty: the target's host
  std::string told_in = {};  // name of the file that tells it; the same in all lives of a daemon
  std::size_t others = 0;    // such files beside that one, also those that cannot be read
  bool tls = false;
  std::string ca, cert, key;  // PEM, if tls
};

// An environment variable; null if it is not set.
using Variable = std::function<const char*(const char* name)>;

// "grpc+unix:PATH" (absolute; never TLS) or "grpc://HOST:PORT" ("[…]" around an IPv6 address): with TLS if CAIRN_TLS_CA
// is set, and then CAIRN_TLS_CERT and CAIRN_TLS_KEY must be, too, since both sides show a certificate; without it only
// to a loopback address. Reads the files. CAIRN_INVALID_ARGUMENT says what is wrong and what to set.
Outcome ParseAddress(std::string_view text, const Variable& variable, Address* address);

// The same, and "grpc+run:DIR" (absolute): where the daemons are that DIR/.cairn tells of (proto/announcement.h), the
// newest first, with the keys that each has told. Believed are files of this user's alone, in a folder that is.
//   CAIRN_UNAVAILABLE        none tells of itself there
//   CAIRN_PERMISSION_DENIED  the folder is another user's, or open to others
Outcome FindAddresses(std::string_view text, const Variable& variable, std::vector<Address>* addresses);

}  // namespace cairn::transport

#endif  // CAIRN_CLIENT_GRPC_ADDRESS_H_
