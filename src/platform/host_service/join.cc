#include "platform/host_service/join.h"

#include <chrono>
#include <type_traits>

#include "base/format.h"
#include "net/crypto.h"
#include "net/http/url.h"
#include "platform/client/client.h"
#include "platform/host/join_token.h"
#include "platform/host/machine.h"

namespace lockstep::host_service {
namespace {

constexpr int kJoinTries = 3;
constexpr int kClaimBytes = 32;

std::string without_space(std::string_view words) {
  const std::size_t first = words.find_first_not_of(" \t\r\n");
  if (first == words.npos) return "";
  return std::string(words.substr(first, words.find_last_not_of(" \t\r\n") - first + 1));
}

}  // namespace

Result<Membership> join_cluster(const std::string& url, std::string_view token,
                                const std::string& address) {
  const std::string words = without_space(token);
  const host::JoinToken read = TRY(host::parse_join_token(words));
  TRY(net::parse_url(url));
  client::Client client(url, words, client::TokenOwner{.join = read});
  const client::Arguments<std::remove_cvref_t<decltype(api::kJoinHost)>> call{
      .path = client::Path::of_host(read.host),
      .request = {.claim = net::random_hex(kClaimBytes), .machine = host::this_machine().id}};
  for (int tried = 1;; ++tried) {
    const auto answer = client.call(api::kJoinHost, call);
    if (answer)
      return Membership{
          .host = read.host, .url = url, .credential = answer->credential, .address = address};
    // With the same claim a call is harmless that was carried out before.
    if (!client.was_sent() || tried == kJoinTries)
      return Error(answer.error()).with_context(format("joining as host {}", read.host));
  }
}

}  // namespace lockstep::host_service
