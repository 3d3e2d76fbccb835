#include "comm/collective/start/pmi_client.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/format.h"
#include "net/socket.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kLineMax = 4096;

Error pmi_error(Code code, std::string_view what) {
  return Error{code, format("the launcher's key-value space (PMI_FD): {}", what)};
}

// The value of the word `name=value` in the line.
std::optional<std::string> word_of(std::string_view line, std::string_view name) {
  while (!line.empty()) {
    const auto end = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=')
      return std::string(word.substr(name.size() + 1));
  }
  return std::nullopt;
}

Result<void> wait_for(int fd, short events, Deadline deadline) {
  auto ready = net::wait_ready(fd, events, deadline, "waiting for all ranks of this start");
  if (ready) return {};
  return pmi_error(ready.error().code, ready.error().message);
}

Result<void> send_line(int fd, std::string_view line, Deadline deadline) {
  while (!line.empty()) {
    TRY(wait_for(fd, POLLOUT, deadline));
    // A pipe or a socket; without SIGPIPE where the system can.
    ssize_t sent = ::send(fd, line.data(), line.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == ENOTSOCK) sent = ::write(fd, line.data(), line.size());
    if (sent < 0 && errno != EINTR && errno != EAGAIN)
      return pmi_error(Code::unavailable, errno_text(errno));
    if (sent > 0) line.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

}  // namespace

Result<PmiClient> PmiClient::open(int fd, Deadline deadline) {
  PmiClient client(fd);
  TRY(client.call("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", deadline));
  const auto named = TRY(client.call("cmd=get_my_kvsname", "my_kvsname", deadline));
  auto space = word_of(named, "kvsname");
  if (!space) return pmi_error(Code::corrupt, format("it has no name: '{}'", named));
  client.space_ = *std::move(space);
  return client;
}

Result<void> PmiClient::put(std::string_view key, std::string_view value, Deadline deadline) {
  TRY(call(format("cmd=put kvsname={} key={} value={}", space_, key, value), "put_result",
           deadline));
  return {};
}

Result<void> PmiClient::barrier(Deadline deadline) {
  TRY(call("cmd=barrier_in", "barrier_out", deadline));
  return {};
}

Result<std::string> PmiClient::get(std::string_view key, Deadline deadline) {
  const auto line =
      TRY(call(format("cmd=get kvsname={} key={}", space_, key), "get_result", deadline));
  auto value = word_of(line, "value");
  if (!value) return pmi_error(Code::corrupt, format("it has no value for {}", key));
  return *std::move(value);
}

Result<void> PmiClient::finalize(Deadline deadline) {
  TRY(call("cmd=finalize", "finalize_ack", deadline));
  return {};
}

// The line may hold a secret, so an error does not have it.
Result<std::string> PmiClient::call(const std::string& line, std::string_view kind,
                                    Deadline deadline) {
  TRY(send_line(fd_, line + "\n", deadline));
  auto answer = TRY(read_line(deadline));
  if (const auto rc = word_of(answer, "rc"); rc && *rc != "0")
    return pmi_error(Code::unavailable, format("it refused {} with code {}", kind, *rc));
  if (word_of(answer, "cmd") != kind)
    return pmi_error(Code::corrupt, format("expected {}, got {}", kind,
                                           word_of(answer, "cmd").value_or("no PMI")));
  return answer;
}

Result<std::string> PmiClient::read_line(Deadline deadline) {
  for (;;) {
    if (const auto end = received_.find('\n'); end != std::string::npos) {
      auto line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    if (received_.size() > kLineMax) return pmi_error(Code::corrupt, "a line without an end");
    TRY(wait_for(fd_, POLLIN, deadline));
    std::array<char, 1024> part{};
    const ssize_t got = ::read(fd_, part.data(), part.size());
    if (got == 0) return pmi_error(Code::unavailable, "the launcher closed it");
    if (got < 0 && errno != EINTR && errno != EAGAIN)
      return pmi_error(Code::unavailable, errno_text(errno));
    if (got > 0) received_.append(part.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace lockstep::comm
