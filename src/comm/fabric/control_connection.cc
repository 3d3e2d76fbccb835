#include "comm/fabric/control_connection.h"

#include <charconv>

#include <sys/socket.h>

#include "base/format.h"
#include "base/os/processes.h"
#include "comm/rendezvous/frame.h"

namespace lockstep::comm {
namespace {

// A message is small; if a connection's kernel buffer is full for this long, the peer does not
// read.
constexpr auto kSendTimeout = std::chrono::milliseconds(200);
constexpr std::size_t kReasonLimit = 4096;
constexpr auto kProcessDied = "died";

template <class Number>
Result<Number> parse_number(std::string_view digits) {
  Number number{};
  const auto parsed = std::from_chars(digits.begin(), digits.end(), number);
  if (parsed.ec != std::errc() || parsed.ptr != digits.end())
    return Error{Code::corrupt, format("a peer sent '{}' where a number belongs", digits)};
  return number;
}

std::string error_frame(std::string_view kind, const ControlMessage& message) {
  const auto& [error, at_fault, process_died] = message.failure_reason;
  return join_fields({std::string(kind), std::to_string(static_cast<int>(error.code)),
                      join_fields({error.message.substr(0, kReasonLimit),
                                   message.failure_report.substr(0, kFailureReportLimit),
                                   std::to_string(at_fault), process_died ? kProcessDied : ""})});
}

std::string unrouted_frame(const ControlMessage& message) {
  switch (message.kind) {
    case ControlMessage::Kind::leaving:
      return join_fields(
          {"leaving", std::to_string(message.sent[0]), std::to_string(message.sent[1])});
    case ControlMessage::Kind::leave_acknowledged:
      return join_fields({"may leave", "", ""});
    case ControlMessage::Kind::shares_memory:
      return join_fields({"together", "", ""});
    case ControlMessage::Kind::shares_no_memory:
      return join_fields({"apart", "", ""});
    case ControlMessage::Kind::call:
      return join_fields({"call", "", ""});
    case ControlMessage::Kind::failing:
      return error_frame("failing", message);
    case ControlMessage::Kind::failure_reason:
      return error_frame("verdict", message);
    default:
      return error_frame("gave up", message);
  }
}

Result<ControlMessage> parse_failure_message(ControlMessage::Kind kind,
                                             const std::vector<std::string>& fields) {
  const auto code = TRY(parse_number<int>(fields[1]));
  if (code < 0 || code > static_cast<int>(Code::internal))
    return Error{Code::corrupt, "a peer sent an unknown kind of error"};
  auto rest = TRY(split_fields(fields[2], 4));
  const auto at_fault = TRY(parse_number<int>(rest[2]));
  FailureReason end{
      {static_cast<Code>(code), std::move(rest[0])}, at_fault, rest[3] == kProcessDied};
  return ControlMessage{kind, {}, std::move(end), std::move(rest[1])};
}

// One message is not in another one that is passed on.
Result<ControlMessage> parse_routed_message(const std::vector<std::string>& fields) {
  const auto ranks = TRY(split_fields(fields[1], 2));
  const ControlMessage::Route route{TRY(parse_number<int>(ranks[0])),
                                    TRY(parse_number<int>(ranks[1]))};
  auto message = TRY(parse_control_message(fields[2]));
  if (message.route) return Error{Code::corrupt, "a peer sent a notice within a notice"};
  message.route = route;
  return message;
}

}  // namespace

std::string to_frame(const ControlMessage& message) {
  auto frame = unrouted_frame(message);
  if (!message.route) return frame;
  const auto& [from, to] = *message.route;
  return join_fields(
      {"via", join_fields({std::to_string(from), std::to_string(to)}), std::move(frame)});
}

Result<ControlMessage> parse_control_message(std::string_view frame) {
  const auto fields = TRY(split_fields(frame, 3));
  if (fields[0] == "via") return parse_routed_message(fields);
  if (fields[0] == "call") return ControlMessage{ControlMessage::Kind::call};
  if (fields[0] == "leaving") {
    const auto first = TRY(parse_number<std::uint64_t>(fields[1]));
    const auto second = TRY(parse_number<std::uint64_t>(fields[2]));
    return ControlMessage{ControlMessage::Kind::leaving, {first, second}};
  }
  if (fields[0] == "may leave") return ControlMessage{ControlMessage::Kind::leave_acknowledged};
  if (fields[0] == "together") return ControlMessage{ControlMessage::Kind::shares_memory};
  if (fields[0] == "apart") return ControlMessage{ControlMessage::Kind::shares_no_memory};
  if (fields[0] == "failing") return parse_failure_message(ControlMessage::Kind::failing, fields);
  if (fields[0] == "verdict")
    return parse_failure_message(ControlMessage::Kind::failure_reason, fields);
  if (fields[0] == "gave up") return parse_failure_message(ControlMessage::Kind::aborted, fields);
  return Error{Code::corrupt, "a peer sent an unknown notice"};
}

std::string text(const Peer& peer) {
  return format("rank {} (host {}, pid {})", peer.global_rank, peer.host_id, peer.pid);
}

std::string to_frame(const Peer& peer) {
  return join_fields({std::to_string(peer.rank), peer.host_id, std::to_string(peer.pid)});
}

Result<Peer> parse_peer(std::string_view frame) {
  const auto fields = TRY(split_fields(frame, 3));
  const auto rank = TRY(parse_number<int>(fields[0]));
  return Peer{rank, fields[1], TRY(parse_number<std::int64_t>(fields[2])), rank};
}

PeerProcess::PeerProcess(const net::Socket& socket) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  const bool known = ::getsockopt(socket.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0;
  if (!known || peer.pid <= 0) return;
  const auto process = find_process(peer.pid);
  if (!process) return;
  pid_ = peer.pid;
  started_ = process->started;
}

bool PeerProcess::has_ended() const {
  if (pid_ == 0) return false;
  const auto process = find_process(pid_);
  return !process || process->started != started_ || process->is_ending;
}

void ControlConnection::send(const ControlMessage& message) {
  if (!closed_) (void)send_frame(socket_, to_frame(message), Deadline::after(kSendTimeout));
}

std::optional<ControlMessage> ControlConnection::receive() {
  if (closed_) return std::nullopt;
  for (;;) {
    auto frame = take_frame(received_, 2 * kReasonLimit + kFailureReportLimit);
    if (!frame) return close();
    if (*frame) {
      auto message = parse_control_message(**frame);
      if (!message) return close();
      if (message->kind == ControlMessage::Kind::leaving) peer_has_left_ = true;
      return std::move(*message);
    }
    std::byte chunk[4096];
    auto got = socket_.try_recv(chunk);
    if (!got || (*got && **got == 0)) return close();
    if (!*got) return std::nullopt;
    received_.append(reinterpret_cast<const char*>(chunk), **got);
  }
}

ControlMessage ControlConnection::close() {
  closed_ = true;
  return {peer_has_left_ ? ControlMessage::Kind::closed : ControlMessage::Kind::lost};
}

}  // namespace lockstep::comm
