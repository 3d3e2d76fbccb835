// The HTTP server and client over TLS: real handshakes on loopback.
#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "net/detail/peer_for_test.h"
#include "net/detail/tls_peer_for_test.h"
#include "net/http/echo_for_test.h"
#include "net/http/http_client.h"
#include "net/http/http_server.h"

namespace lockstep::net {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class Https : public testing::Test {
 protected:
  HttpServerOptions options_with(TlsIdentity identity) {
    HttpServerOptions options;
    options.tls = std::move(identity);
    return options;
  }
  HttpServerOptions options() { return options_with(identity_); }
  Result<HttpResponse> get(int port, TlsTrust trust, std::string host = "127.0.0.1") {
    HttpClient client(Url{.host = std::move(host), .port = port, .scheme = Scheme::https}, 64_MiB,
                      std::nullopt, std::move(trust));
    return client.call({}, soon());
  }
  std::string refusal_of(const TlsIdentity& identity, TlsTrust trust,
                         std::string host = "127.0.0.1") {
    ServerThread server(echo, options_with(identity));
    const auto answer = get(server.port(), std::move(trust), std::move(host));
    EXPECT_EQ(answer.error().code, Code::unavailable);
    return answer.error().message;
  }
  TlsTrust pin() const { return {.fingerprint = fingerprint_for_test(authority_)}; }

  const TlsIdentity authority_ = authority_for_test();
  const TlsIdentity identity_ = identity_for_test(authority_);
};

TEST_F(Https, AClientTrustsByAuthorityOrByFingerprint) {
  ServerThread server(echo, options());
  EXPECT_EQ(server.server().url(), format("https://127.0.0.1:{}", server.port()));
  for (const TlsTrust& trust : {pin(), TlsTrust{.fingerprint = fingerprint_for_test(identity_)},
                                TlsTrust{.authorities = authority_.certificates}})
    for (std::string host : {"127.0.0.1", "localhost"})
      EXPECT_EQ(get(server.port(), trust, host)->body, "GET / ");
}

TEST_F(Https, AClientHasTheAuthorityThatItsFingerprintNames) {
  ServerThread server(echo, options());
  const auto authority = [&](TlsTrust trust) {
    HttpClient client(Url{"127.0.0.1", server.port(), Scheme::https}, 64_MiB, std::nullopt,
                      std::move(trust));
    EXPECT_TRUE(client.call({}, soon()));
    return client.server_authority();
  };
  EXPECT_EQ(authority(pin()), authority_.certificates);
  EXPECT_EQ(authority({.fingerprint = fingerprint_for_test(identity_)}), "");
  EXPECT_EQ(authority({.authorities = authority_.certificates}), "");
}

TEST_F(Https, OneConnectionCarriesManyCallsAndLargeBodies) {
  ServerThread server(echo, options());
  HttpServerOptions large = options();
  large.body_max = 8_MiB;
  ServerThread large_server(echo, large);
  HttpClient client(
      Url{"127.0.0.1", large_server.port(), Scheme::https, fingerprint_for_test(authority_)});
  const std::string body(3 << 20, 'x');
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(client.call({.method = "POST", .body = body}, soon())->body, "POST / " + body);
  EXPECT_EQ(large_server.connections(), 1);
}

TEST_F(Https, ARefusalThatComesBeforeTheBodyIsSentIsHeard) {
  ServerThread server(echo, options());
  HttpClient client(Url{"127.0.0.1", server.port(), Scheme::https}, 64_MiB, std::nullopt, pin());
  const auto answer = client.call({.method = "POST", .body = std::string(8 << 20, 'x')}, soon());
  EXPECT_EQ(answer->status, 413);
}

TEST_F(Https, AnotherFingerprintIsRefusedAndBothAreNamed) {
  const TlsIdentity other = authority_for_test();
  const std::string message = refusal_of(identity_, {.fingerprint = fingerprint_for_test(other)});
  EXPECT_THAT(message, HasSubstr(fingerprint_for_test(other)));
  EXPECT_THAT(message, HasSubstr(fingerprint_for_test(authority_)));
}

TEST_F(Https, ACertificateOfAnotherAuthorityIsRefusedEvenBesideTheRightOne) {
  const TlsIdentity other = identity_for_test(authority_for_test());
  EXPECT_THAT(refusal_of(other, {.authorities = authority_.certificates}),
              HasSubstr("no authority that is trusted here"));
  // A program that copies the authority's certificate, which is public.
  const auto own_end = other.certificates.find("-----BEGIN", 1);
  const TlsIdentity copied{other.certificates.substr(0, own_end) + authority_.certificates,
                           other.key};
  EXPECT_THAT(refusal_of(copied, pin()), HasSubstr("no authority that is trusted here"));
  const TlsIdentity beside{other.certificates.substr(0, own_end) + identity_.certificates,
                           other.key};
  EXPECT_THAT(refusal_of(beside, {.fingerprint = fingerprint_for_test(identity_)}),
              HasSubstr("no authority that is trusted here"));
}

TEST_F(Https, ACertificateOfAnotherTimeIsRefused) {
  const Time now = SystemClock().now();
  const auto expired =
      identity_for_test(authority_, {"127.0.0.1"}, {now - hours(3), now - hours(2)});
  const auto later = identity_for_test(authority_, {"127.0.0.1"}, {now + hours(2), now + hours(3)});
  for (const auto& [identity, words] : {std::pair(expired, "its certificate expired on "),
                                        std::pair(later, "its certificate is valid from ")})
    for (const TlsTrust& trust : {pin(), TlsTrust{.fingerprint = fingerprint_for_test(identity)},
                                  TlsTrust{.authorities = authority_.certificates}})
      EXPECT_THAT(refusal_of(identity, trust), HasSubstr(words));
}

TEST_F(Https, ACertificateOfAnotherNameIsRefusedUnlessItIsPinnedItself) {
  const auto named = identity_for_test(authority_, {"head.example", "10.1.2.3"});
  for (std::string host : {"127.0.0.1", "localhost"})
    EXPECT_THAT(refusal_of(named, pin(), host),
                HasSubstr("is for head.example, 10.1.2.3, not for " + host));
  ServerThread server(echo, options_with(named));
  EXPECT_TRUE(get(server.port(), {.fingerprint = fingerprint_for_test(named)}).has_value());
}

TEST_F(Https, WithoutAReasonToTrustTheSystemsAuthoritiesDecide) {
  EXPECT_THAT(refusal_of(identity_, {}), HasSubstr("give the certificate's fingerprint"));
  EXPECT_THAT(refusal_of(identity_, {.authorities = "no certificate"}),
              HasSubstr("there is no certificate in PEM form"));
}

TEST_F(Https, PlainHttpIsToldToUseTls) {
  ServerThread server(echo, options());
  RawCaller caller(server.port());
  caller.send(kGet);
  const std::string answer = caller.read_to_end();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_THAT(answer, HasSubstr("this port speaks HTTPS"));
  EXPECT_THAT(HttpClient(Url{"127.0.0.1", server.port()}).call({}, soon())->body,
              HasSubstr("this port speaks HTTPS"));
}

TEST_F(Https, AServerOfPlainHttpIsNamedAsSuch) {
  ServerThread server(echo);
  EXPECT_THAT(get(server.port(), pin()).error().message, HasSubstr("does not speak TLS"));
}

TEST_F(Https, OldVersionsAndRenegotiationAreRefused) {
  ServerThread server(echo, options());
  EXPECT_FALSE(TlsCaller(server.port(), TLS1_1_VERSION).is_connected());
  EXPECT_EQ(TlsCaller(server.port()).version(), "TLSv1.3");
  TlsCaller older(server.port(), TLS1_2_VERSION);
  EXPECT_EQ(older.version(), "TLSv1.2");
  older.send(kGet);
  EXPECT_THAT(older.read_until("GET / "), EndsWith("GET / "));
  EXPECT_FALSE(older.renegotiate());
}

TEST_F(Https, ACallerThatSendsNothingOrStopsInTheHandshakeIsCutOff) {
  // The beginning of a hello: a record of 512 bytes, of which ten come.
  const std::string hello("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03", 10);
  HttpServerOptions impatient = options();
  impatient.idle_time = impatient.head_time = milliseconds(50);
  ServerThread server(echo, impatient);
  RawCaller silent(server.port()), slow(server.port());
  slow.send(hello);
  EXPECT_EQ(silent.read_to_end(), "");
  EXPECT_EQ(slow.read_to_end(), "");
  ServerThread patient(echo, options());
  RawCaller leaving(patient.port());
  leaving.send(hello);
  EXPECT_TRUE(eventually([&] { return patient.connections() == 1; }));
  leaving.hang_up();
  EXPECT_TRUE(eventually([&] { return patient.connections() == 0; }));
}

TEST_F(Https, BytesThatAreNoTlsEndTheirConnectionAlone) {
  ServerThread server(echo, options());
  RawCaller caller(server.port());
  caller.send(std::string(9000, '\x16'));
  EXPECT_THAT(caller.read_to_end(), testing::Not(HasSubstr("HTTP")));
  EXPECT_EQ(get(server.port(), pin())->body, "GET / ");
}

TEST_F(Https, CallersInTheirHandshakeMakeRoomForNewOnes) {
  HttpServerOptions few = options();
  few.connections_max = 20;
  ServerThread server(echo, few);
  std::deque<RawCaller> silent;
  for (int i = 0; i < 20; ++i) silent.emplace_back(server.port()).send("\x16");
  EXPECT_EQ(get(server.port(), pin())->body, "GET / ");
}

TEST_F(Https, TheServerEndsAConnectionProperly) {
  ServerThread server(echo, options());
  TlsCaller caller(server.port());
  caller.send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(caller.read_until("never"), EndsWith("GET / "));
  EXPECT_TRUE(caller.was_closed_properly());
}

TEST_F(Https, AWaitingCallerThatHangsUpIsNoticed) {
  std::optional<Responder> waiting;
  ServerThread server(
      [&](HttpRequest, Responder responder) { waiting.emplace(std::move(responder)); }, options());
  const auto state = [&] {
    return server.on_loop([&] { return waiting ? waiting->is_abandoned() ? 2 : 1 : 0; });
  };
  TlsCaller caller(server.port());
  caller.send(kGet);
  EXPECT_TRUE(eventually([&] { return state() == 1; }));
  caller.close_side();
  EXPECT_TRUE(eventually([&] { return state() == 2; }));
}

TEST_F(Https, ANewCertificateIsForNewConnections) {
  ServerThread server(echo, options());
  HttpClient kept(Url{"127.0.0.1", server.port(), Scheme::https}, 64_MiB, std::nullopt, pin());
  EXPECT_TRUE(kept.call({}, soon()).has_value());
  const TlsIdentity other = authority_for_test();
  const TlsIdentity renewed = identity_for_test(other);
  EXPECT_TRUE(server.on_loop([&] { return server.server().set_identity(renewed).has_value(); }));
  EXPECT_FALSE(server.on_loop([&] { return server.server().set_identity({"", ""}).has_value(); }));
  EXPECT_TRUE(kept.call({}, soon()).has_value());
  EXPECT_FALSE(get(server.port(), pin()).has_value());
  EXPECT_TRUE(get(server.port(), {.fingerprint = fingerprint_for_test(other)}).has_value());
}

}  // namespace
}  // namespace lockstep::net
