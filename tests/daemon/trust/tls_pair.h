// Two ends of TLS in one process, whose bytes go through memory. Either may be one of ours, or anything else that
// OpenSSL can be told to be.
#ifndef CAIRN_TESTS_DAEMON_TRUST_TLS_PAIR_H_
#define CAIRN_TESTS_DAEMON_TRUST_TLS_PAIR_H_

#include <gtest/gtest.h>
#include <openssl/err.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/trust/tls_handshake.h"
#include "tests/daemon/trust/members.h"

namespace cairn::testing {

using Ssl = std::unique_ptr<SSL, FreedBy<&SSL_free>>;

class TlsEnd {
 public:
  // One of ours.
  TlsEnd(TlsSide side, std::unique_ptr<TlsHandshake> handshake) : side_(side), handshake_(std::move(handshake)) {
    auto context = MakeTlsContext(side);
    EXPECT_OK(context);
    context_ = *std::move(context);
    ssl_ = Ssl(SSL_new(context_.get()));
    EXPECT_OK(handshake_->Attach(ssl_.get()));
    Plug();
  }
  // What `set` makes of a bare one: no certificate, no names, asks for none.
  TlsEnd(TlsSide side, const std::function<void(SSL*)>& set) : side_(side) {
    context_ = TlsContext(SSL_CTX_new(side == TlsSide::kDials ? TLS_client_method() : TLS_server_method()));
    SSL_CTX_set_security_level(context_.get(), 0);
    ssl_ = Ssl(SSL_new(context_.get()));
    set(ssl_.get());
    Plug();
  }

  SSL* ssl() const { return ssl_.get(); }
  TlsHandshake& handshake() const { return *handshake_; }

  // As far as it gets with what has come. OpenSSL's error, if it has failed; 0 as long as it has not.
  unsigned long Step() {
    if (error_ != 0) return error_;
    ERR_clear_error();
    if (!done_) {
      const int result = side_ == TlsSide::kDials ? SSL_connect(ssl_.get()) : SSL_accept(ssl_.get());
      done_ = result == 1;
      if (!done_) Note(result);
    }
    if (done_ && error_ == 0) {
      char byte = 0;
      const int result = SSL_read(ssl_.get(), &byte, 1);
      if (result <= 0) Note(result);
    }
    return error_;
  }
  bool done() const { return done_ && error_ == 0; }

  std::string TakeOutput() {
    std::string bytes(BIO_ctrl_pending(out_), '\0');
    if (!bytes.empty()) BIO_read(out_, bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
  }
  void Give(const std::string& bytes) {
    if (!bytes.empty()) BIO_write(in_, bytes.data(), static_cast<int>(bytes.size()));
  }

 private:
  void Plug() {
    in_ = BIO_new(BIO_s_mem());
    out_ = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(in_, -1);  // nothing there: not yet
    SSL_set_bio(ssl_.get(), in_, out_);
  }
  void Note(int result) {
    const int kind = SSL_get_error(ssl_.get(), result);
    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) return;
    error_ = ERR_get_error();
  }

  const TlsSide side_;
  std::unique_ptr<TlsHandshake> handshake_;
  TlsContext context_;
  Ssl ssl_;
  BIO* in_ = nullptr;   // the SSL's
  BIO* out_ = nullptr;  // the SSL's
  bool done_ = false;
  unsigned long error_ = 0;
};

// Until neither has anything to say any more. `change` may change what the dialling end sends, and what it gets.
inline void Shake(TlsEnd& dials, TlsEnd& answers, const std::function<void(std::string& bytes)>& change = {}) {
  for (int round = 0; round < 20; ++round) {
    dials.Step();
    std::string out = dials.TakeOutput();
    if (change) change(out);
    answers.Give(out);
    answers.Step();
    std::string back = answers.TakeOutput();
    if (change) change(back);
    dials.Give(back);
    if (out.empty() && back.empty()) return;
  }
}

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_DAEMON_TRUST_TLS_PAIR_H_
