#include "comm/fabric/lifeline.h"

#include <charconv>

#include <sys/socket.h>

#include "base/format.h"
#include "base/processes.h"
#include "comm/rendezvous/frame.h"

namespace lockstep {
namespace {

// A notice is small; a lifeline whose kernel buffer is full for so long has no reader.
constexpr auto kTellBound = std::chrono::milliseconds(200);
constexpr std::size_t kReasonLimit = 4096;
constexpr auto kDeath = "died";

template <class Number>
Result<Number> parse_number(std::string_view digits) {
  Number number{};
  const auto parsed = std::from_chars(digits.begin(), digits.end(), number);
  if (parsed.ec != std::errc() || parsed.ptr != digits.end())
    return Error{Code::corrupt, format("a peer sent '{}' where a number belongs", digits)};
  return number;
}

std::string error_frame(std::string_view kind, const Notice& notice) {
  const auto& [error, at_fault, saw_death] = notice.end;
  return join_fields({std::string(kind), std::to_string(static_cast<int>(error.code)),
                      join_fields({error.message.substr(0, kReasonLimit),
                                   notice.testimony.substr(0, kTestimonyLimit),
                                   std::to_string(at_fault), saw_death ? kDeath : ""})});
}

std::string to_frame(const Notice& notice) {
  switch (notice.kind) {
    case Notice::Kind::leaving:
      return join_fields(
          {"leaving", std::to_string(notice.sent[0]), std::to_string(notice.sent[1])});
    case Notice::Kind::may_leave:
      return join_fields({"may leave", "", ""});
    case Notice::Kind::together:
      return join_fields({"together", "", ""});
    case Notice::Kind::apart:
      return join_fields({"apart", "", ""});
    case Notice::Kind::failing:
      return error_frame("failing", notice);
    case Notice::Kind::verdict:
      return error_frame("verdict", notice);
    default:
      return error_frame("gave up", notice);
  }
}

Result<Notice> parse_error_notice(Notice::Kind kind, const std::vector<std::string>& fields) {
  const auto code = TRY(parse_number<int>(fields[1]));
  if (code < 0 || code > static_cast<int>(Code::internal))
    return Error{Code::corrupt, "a peer sent an unknown kind of error"};
  auto rest = TRY(split_fields(fields[2], 4));
  const auto at_fault = TRY(parse_number<int>(rest[2]));
  GroupEnd end{{static_cast<Code>(code), std::move(rest[0])}, at_fault, rest[3] == kDeath};
  return Notice{kind, {}, std::move(end), std::move(rest[1])};
}

Result<Notice> parse_notice(std::string_view frame) {
  const auto fields = TRY(split_fields(frame, 3));
  if (fields[0] == "leaving") {
    const auto first = TRY(parse_number<std::uint64_t>(fields[1]));
    const auto second = TRY(parse_number<std::uint64_t>(fields[2]));
    return Notice{Notice::Kind::leaving, {first, second}};
  }
  if (fields[0] == "may leave") return Notice{Notice::Kind::may_leave};
  if (fields[0] == "together") return Notice{Notice::Kind::together};
  if (fields[0] == "apart") return Notice{Notice::Kind::apart};
  if (fields[0] == "failing") return parse_error_notice(Notice::Kind::failing, fields);
  if (fields[0] == "verdict") return parse_error_notice(Notice::Kind::verdict, fields);
  if (fields[0] == "gave up") return parse_error_notice(Notice::Kind::gave_up, fields);
  return Error{Code::corrupt, "a peer sent an unknown notice"};
}

}  // namespace

std::string text(const Peer& peer) {
  return format("rank {} (host {}, pid {})", peer.number, peer.host_id, peer.pid);
}

std::string to_frame(const Peer& peer) {
  return join_fields({std::to_string(peer.rank), peer.host_id, std::to_string(peer.pid)});
}

Result<Peer> parse_peer(std::string_view frame) {
  const auto fields = TRY(split_fields(frame, 3));
  const auto rank = TRY(parse_number<int>(fields[0]));
  return Peer{rank, fields[1], TRY(parse_number<std::int64_t>(fields[2])), rank};
}

PeerProcess::PeerProcess(const Socket& socket) {
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

void Lifeline::tell(const Notice& notice) {
  if (!over_) (void)send_frame(socket_, to_frame(notice), Deadline::after(kTellBound));
}

std::optional<Notice> Lifeline::hear() {
  if (over_) return std::nullopt;
  for (;;) {
    auto frame = take_frame(received_, 2 * kReasonLimit + kTestimonyLimit);
    if (!frame) return end();
    if (*frame) {
      auto notice = parse_notice(**frame);
      if (!notice) return end();
      if (notice->kind == Notice::Kind::leaving) left_ = true;
      return std::move(*notice);
    }
    std::byte chunk[4096];
    auto got = socket_.try_recv(chunk);
    if (!got || (*got && **got == 0)) return end();
    if (!*got) return std::nullopt;
    received_.append(reinterpret_cast<const char*>(chunk), **got);
  }
}

Notice Lifeline::end() {
  over_ = true;
  return {left_ ? Notice::Kind::closed : Notice::Kind::lost};
}

}  // namespace lockstep
