// The TLS settings of our server and our clients: TLS 1.2 and 1.3, modern ciphers, and nothing
// that a connection could do besides carrying bytes.
#pragma once

#include <memory>

#include <boost/asio/ssl/context.hpp>

#include "base/result.h"
#include "net/detail/server_check.h"
#include "net/tls/tls.h"

namespace lockstep::net::detail {

// Shared by the server and its connections: the server may get another one meanwhile.
using TlsContext = std::shared_ptr<boost::asio::ssl::context>;

// Code::invalid if certificate and key cannot be used.
Result<TlsContext> server_tls_context(const TlsIdentity& identity);
// `check` must outlive it.
Result<TlsContext> client_tls_context(ServerCheck& check);

}  // namespace lockstep::net::detail
