#include "client/grpc/address.h"

#include <fstream>

#include "client/cairn.h"

namespace cairn::transport {
namespace {

constexpr std::size_t kPemBytesMax = 1 << 20;

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

}  // namespace

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
    return Invalid("'" + std::string(text) + "' is neither grpc://HOST:PORT nor grpc+unix:PATH");
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
