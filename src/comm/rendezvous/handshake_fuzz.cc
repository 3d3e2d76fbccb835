#include "base/check.h"
#include "base/fuzz_for_test.h"
#include "comm/rendezvous/frame.h"
#include "comm/rendezvous/handshake.h"

using namespace lockstep;
using namespace lockstep::comm;

namespace {

const std::string kHello = join_fields({"lockstep-1", std::string(32, 'a')});

}  // namespace

// A client without the secret: its hello, and any bytes instead of a proof.
LS_FUZZ(handshake, {framed(kHello) + std::string(64, 'f'), framed(kHello), ""}) {
  static const net::Secret secret = net::Secret::random();
  std::string rest(input);
  const auto hello = take_frame(rest, kFrameLimit);
  if (!hello || !*hello) return;
  ServerHandshake handshake(secret, "rendezvous");
  if (!handshake.challenge(**hello)) return;
  LS_CHECK(!handshake.check(rest), "let in without the secret");
}
