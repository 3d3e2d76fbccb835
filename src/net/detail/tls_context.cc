#include "net/detail/tls_context.h"

#include <openssl/ssl.h>

#include "base/check.h"
#include "net/detail/openssl_types.h"
#include "net/tls/certificate.h"

namespace lockstep::net::detail {
namespace {

namespace ssl = boost::asio::ssl;

// TLS 1.2 takes those with forward secrecy, which all ciphers of TLS 1.3 have.
constexpr auto kCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20";

TlsContext context_for(ssl::context::method role) {
  auto context = std::make_shared<ssl::context>(role);
  SSL_CTX* const native = context->native_handle();
  LS_CHECK(SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION) == 1);
  LS_CHECK(SSL_CTX_set_cipher_list(native, kCiphers) == 1);
  // A session that could be resumed would be state of a connection that has ended.
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  return context;
}

}  // namespace

Result<TlsContext> server_tls_context(const TlsIdentity& identity) {
  TRY(check_identity(identity));
  TlsContext context = context_for(ssl::context::tls_server);
  SSL_CTX* const native = context->native_handle();
  SSL_CTX_set_options(native, SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_num_tickets(native, 0);
  const auto certificates = TRY(certificates_of_pem(identity.certificates));
  const auto key = TRY(key_of_pem(identity.key));
  bool taken = SSL_CTX_use_certificate(native, certificates.front().get()) == 1;
  for (std::size_t i = 1; taken && i < certificates.size(); ++i)
    taken = SSL_CTX_add1_chain_cert(native, certificates[i].get()) == 1;
  if (taken && SSL_CTX_use_PrivateKey(native, key.get()) == 1) return context;
  return Error{Code::invalid, "the certificate cannot be used: " + take_openssl_error()};
}

Result<TlsContext> client_tls_context(ServerCheck& check) {
  TlsContext context = context_for(ssl::context::tls_client);
  TRY(check.install(context->native_handle()));
  return context;
}

}  // namespace lockstep::net::detail
