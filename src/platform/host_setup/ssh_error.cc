#include "platform/host_setup/ssh_error.h"

#include <array>

#include "base/format.h"
#include "base/utf8.h"

namespace lockstep::host_setup {
namespace {

// A part of what ssh prints, and the error that it means; "{}" in the advice is the target.
struct Meaning {
  std::string_view printed;
  Code code;
  std::string_view what;
  std::string_view advice;
};

// The first that fits counts. The texts are those of OpenSSH 7 to 10.
constexpr std::array kMeanings = {
    Meaning{"REMOTE HOST IDENTIFICATION HAS CHANGED", Code::denied,
            "its host key is not the one that known_hosts has",
            "if the host was installed again, ask its operator for the new key's fingerprint and "
            "remove the old key with `ssh-keygen -R HOST`; else another machine answers for it"},
    Meaning{"Host key verification failed", Code::denied, "its host key is not known here",
            "log in once and compare the key's fingerprint: ssh {}"},
    Meaning{"Permission denied", Code::denied, "it accepts none of your keys without a password",
            "copy a key with `ssh-copy-id {}`, or load one with `ssh-add`"},
    Meaning{"Too many authentication failures", Code::denied, "your agent offers too many keys",
            "name the right one in ~/.ssh/config: IdentityFile and IdentitiesOnly"},
    Meaning{"Could not resolve hostname", Code::not_found, "its name is unknown",
            "check the name, or add a Host to ~/.ssh/config"},
    Meaning{"Connection refused", Code::unavailable, "no SSH server listens there",
            "start sshd on it, or name its port in ~/.ssh/config"},
    Meaning{"No route to host", Code::unavailable, "it is down, or no network leads to it",
            "start it, then add it again"},
    Meaning{"Network is unreachable", Code::unavailable, "no network leads to it",
            "check this machine's network, or name a jump host in ~/.ssh/config: ProxyJump"},
    Meaning{"timed out", Code::unavailable,
            "it does not answer: it is down, or a firewall drops "
            "the connection",
            "start it, or open port 22, then add it again"},
    Meaning{"not responding", Code::unavailable, "it fell silent", "add it again once it is back"},
};

std::string last_line(std::string_view output) {
  while (output.ends_with('\n') || output.ends_with('\r')) output.remove_suffix(1);
  const std::size_t end = output.rfind('\n');
  return escape_controls(end == output.npos ? output : output.substr(end + 1));
}

std::string filled(std::string_view advice, const std::string& target) {
  const std::size_t at = advice.find("{}");
  if (at == advice.npos) return std::string(advice);
  return format("{}{}{}", advice.substr(0, at), target, advice.substr(at + 2));
}

}  // namespace

Error connection_error(const std::string& target, std::string_view errors) {
  for (const Meaning& meaning : kMeanings)
    if (errors.find(meaning.printed) != errors.npos)
      return {meaning.code, format("{}: {}", meaning.what, filled(meaning.advice, target))};
  return {Code::unavailable, format("ssh failed: {}; try it by hand: ssh {} true",
                                    errors.empty() ? "no message" : last_line(errors), target)};
}

Error script_error(int status, std::string_view errors) {
  if (errors.find("No space left on device") != errors.npos)
    return {Code::exhausted,
            "its disk is full: make room where Lockstep is installed, then add "
            "the host again"};
  if (errors.find("GLIBC_") != errors.npos)
    return {Code::invalid,
            "its C library is older than the package's: Lockstep needs glibc 2.34 "
            "(Debian 12, Ubuntu 22.04, RHEL 9)"};
  if (errors.empty()) return {Code::internal, format("a command on it ended with {}", status)};
  return {Code::internal, format("a command on it failed: {}", last_line(errors))};
}

Error timeout_error(Duration limit) {
  return {Code::timeout, format("no answer within {}: check that it is up, or allow more with "
                                "--timeout",
                                text(limit))};
}

}  // namespace lockstep::host_setup
