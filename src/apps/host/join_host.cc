#include <iostream>
#include <iterator>

#include "apps/cli/exit_codes.h"
#include "apps/cli/terminal.h"
#include "apps/host/host_actions.h"
#include "base/os/files.h"
#include "net/http/url.h"
#include "platform/host_service/join.h"
#include "platform/host_service/service_home.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kTokenFileMax = 4096;

// Never an argument: other users see those.
Result<std::string> token_of(const HostFlags& flags) {
  if (!flags.token_file.empty()) return read_file(flags.token_file, kTokenFileMax);
  std::string words;
  for (char c = 0; words.size() < kTokenFileMax && std::cin.get(c);) words += c;
  return words;
}

// Without the fingerprint another server could take the token.
Result<void> check_daemon_url(const std::string& url) {
  const net::Url parsed = TRY(net::parse_url(url));
  if (parsed.scheme == net::Scheme::https || net::is_loopback(parsed.host)) return {};
  return Error{Code::invalid,
               format("{} is plain HTTP, over which a machine on the way could read the "
                      "credential; take the https address that the daemon prints",
                      url)};
}

}  // namespace

Result<int> join_host(const HostFlags& flags) {
  if (flags.hosts.size() != 1)
    return Error{Code::invalid,
                 "host join: give the daemon's address, such as https://head:7070#sha256:..., as "
                 "the daemon prints it"};
  const std::string& url = flags.hosts.front();
  TRY(check_daemon_url(url));
  const OwnService own = TRY(own_service());
  const auto member = TRY(host_service::join_cluster(url, TRY(token_of(flags)), flags.address));
  TRY(own.service.write_membership(member));
  print(
      format("joined as host {}; `lockstep host serve --install` lets it take runs, also after a "
             "reboot",
             member.host));
  return kDone;
}

}  // namespace lockstep::cli
