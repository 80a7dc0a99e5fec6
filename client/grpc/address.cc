#include "client/grpc/address.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "client/cairn.h"
#include "proto/announcement.h"

namespace cairn::transport {
namespace {

constexpr std::size_t kPemBytesMax = 1 << 20;
constexpr std::size_t kReadMax = 32;  // the newest of what daemons have told: older ones are of nodes that are gone

struct Descriptor {
  explicit Descriptor(int number) : fd(number) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
  int fd;
};

Outcome Invalid(std::string text) {
  return {CAIRN_INVALID_ARGUMENT, std::move(text)};
}

bool IsLoopback(std::string_view host) {
  // Numbers only: 127.example.org may be anywhere.
  const bool number = host.find_first_not_of("0123456789.") == std::string_view::npos;
  return host == "localhost" || host == "[::1]" || (number && host.starts_with("127."));
}

bool IsPort(std::string_view text) {
  if (text.empty() || text.size() > 5 || text.find_first_not_of("0123456789") != std::string_view::npos) return false;
  const int port = std::stoi(std::string(text));
  return port > 0 && port < 65536;
}

Outcome ReadPem(const char* name, const Variable& variable, std::string* pem) {
  const char* const path = variable(name);
  if (path == nullptr || *path == '\0') {
    return Invalid(std::string(name) +
                   " is not set: with CAIRN_TLS_CA both sides show a certificate, so "
                   "CAIRN_TLS_CERT and CAIRN_TLS_KEY are needed, too");
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(kPemBytesMax, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.find("-----BEGIN ") == std::string::npos) {
    return Invalid(std::string(name) + ": " + path + " cannot be read or is not a PEM file");
  }
  *pem = std::move(text);
  return {};
}

Outcome ReadTls(const Variable& variable, Address* address) {
  address->tls = true;
  if (Outcome outcome = ReadPem("CAIRN_TLS_CA", variable, &address->ca); !outcome.ok()) return outcome;
  if (Outcome outcome = ReadPem("CAIRN_TLS_CERT", variable, &address->cert); !outcome.ok()) return outcome;
  return ReadPem("CAIRN_TLS_KEY", variable, &address->key);
}

// --- What daemons tell of themselves ---

struct Told {
  timespec at{};
  std::string name;  // of its file
};

bool IsOursAlone(const struct stat& info) {
  return info.st_uid == geteuid() && (info.st_mode & 077) == 0;
}

bool IsAnnouncement(std::string_view name) {
  constexpr std::string_view kStem = kAnnouncementStem;
  constexpr std::size_t kNodeBytes = 32;
  return name.size() == kStem.size() + kNodeBytes && name.starts_with(kStem) &&
         name.substr(kStem.size()).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// False: it is none, or is being replaced.
bool ReadAnnouncement(int folder, const char* name, Address* address) {
  const Descriptor file(openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (file.fd < 0 || fstat(file.fd, &info) != 0 || !S_ISREG(info.st_mode) || !IsOursAlone(info)) return false;
  std::string text(kAnnouncementBytesMax + 1, '\0');
  std::size_t bytes = 0;
  for (ssize_t n = 1; n > 0 && bytes < text.size(); bytes += static_cast<std::size_t>(n)) {
    n = read(file.fd, text.data() + bytes, text.size() - bytes);
    if (n < 0) return false;
  }
  text.resize(bytes);
  Announcement announcement;
  if (!ParseAnnouncement(text, &announcement)) return false;
  const std::size_t colon = announcement.address.rfind(':');
  if (colon == 0 || colon == std::string::npos || !IsPort(announcement.address.substr(colon + 1))) return false;
  *address = {.node_socket = {},
              .target = announcement.address,
              .name = announcement.name,
              .tls = true,
              .ca = announcement.authority,
              .cert = announcement.certificate,
              .key = announcement.key};
  return true;
}

Outcome FindTold(const std::string& run, std::vector<Address>* addresses) {
  const std::string path = run + "/.cairn";
  Descriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (folder.fd < 0 || fstat(folder.fd, &info) != 0) {
    return {CAIRN_UNAVAILABLE, path + ": " + std::strerror(errno) + ": no daemon has told there where it is"};
  }
  if (!IsOursAlone(info)) return {CAIRN_PERMISSION_DENIED, path + " is another user's, or open to others"};
  DIR* const entries = fdopendir(folder.fd);
  if (entries == nullptr) return {CAIRN_UNAVAILABLE, path + ": " + std::strerror(errno)};
  folder.fd = -1;  // goes with `entries`
  std::vector<Told> all;
  for (const dirent* entry = readdir(entries); entry != nullptr; entry = readdir(entries)) {
    struct stat file {};
    if (!IsAnnouncement(entry->d_name)) continue;
    if (fstatat(dirfd(entries), entry->d_name, &file, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISREG(file.st_mode) && IsOursAlone(file)) all.push_back({.at = file.st_mtim, .name = entry->d_name});
  }
  std::stable_sort(all.begin(), all.end(), [](const Told& a, const Told& b) {
    return a.at.tv_sec != b.at.tv_sec ? a.at.tv_sec > b.at.tv_sec : a.at.tv_nsec > b.at.tv_nsec;
  });
  for (const Told& told : all) {
    Address address;
    if (addresses->size() >= kReadMax) break;
    if (!ReadAnnouncement(dirfd(entries), told.name.c_str(), &address)) continue;
    address.told_in = told.name;
    address.others = all.size() - 1;
    addresses->push_back(std::move(address));
  }
  closedir(entries);
  if (addresses->empty()) {
    return {CAIRN_UNAVAILABLE,
            path + ": no daemon has told there where it is: it needs ingest.listen, and the run opened on its node"};
  }
  return {};
}

}  // namespace

Outcome FindAddresses(std::string_view text, const Variable& variable, std::vector<Address>* addresses) {
  constexpr std::string_view kRun = "grpc+run:";
  if (text.starts_with(kRun)) {
    text.remove_prefix(kRun.size());
    if (!text.starts_with('/')) return Invalid("grpc+run: needs an absolute path, not '" + std::string(text) + "'");
    return FindTold(std::string(text), addresses);
  }
  return ParseAddress(text, variable, &addresses->emplace_back());
}

Outcome ParseAddress(std::string_view text, const Variable& variable, Address* address) {
  constexpr std::string_view kUnix = "grpc+unix:";
  constexpr std::string_view kTcp = "grpc://";
  if (text.starts_with(kUnix)) {
    text.remove_prefix(kUnix.size());
    if (!text.starts_with('/')) return Invalid("grpc+unix: needs an absolute path, not '" + std::string(text) + "'");
    address->node_socket = text;
    return {};
  }
  if (!text.starts_with(kTcp)) {
    return Invalid("'" + std::string(text) + "' is none of grpc://HOST:PORT, grpc+unix:PATH, grpc+run:DIR");
  }
  text.remove_prefix(kTcp.size());
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || !IsPort(text.substr(colon + 1))) {
    return Invalid("'" + std::string(text) + "' in the address is not HOST:PORT");
  }
  address->target = std::string(text);
  const char* const ca = variable("CAIRN_TLS_CA");
  if (ca != nullptr && *ca != '\0') return ReadTls(variable, address);
  const std::string_view host = text.substr(0, colon);
  if (!IsLoopback(host)) {
    return Invalid("grpc:// to " + std::string(host) +
                   " needs TLS: set CAIRN_TLS_CA, CAIRN_TLS_CERT and CAIRN_TLS_KEY");
  }
  return {};
}

}  // namespace cairn::transport
