#include "comm/rendezvous/frame.h"

#include <array>

#include "base/format.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kLengthBytes = 4;

std::string length_text(std::size_t length) {
  std::string bytes(kLengthBytes, '\0');
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    bytes[i] = static_cast<char>(length >> (8 * (kLengthBytes - 1 - i)));
  return bytes;
}

std::size_t parse_length(std::string_view bytes) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    length = length << 8 | static_cast<unsigned char>(bytes[i]);
  return length;
}

std::span<std::byte> writable(std::string& text) { return std::as_writable_bytes(std::span(text)); }

Error too_large(std::size_t length, std::size_t limit) {
  return {Code::corrupt, format("a message of {} bytes came where at most {} are expected; another "
                                "program may be calling",
                                length, limit)};
}

}  // namespace

std::string framed(std::string_view content) {
  return length_text(content.size()) + std::string(content);
}

Result<void> send_frame(net::Socket& socket, std::string_view content, Deadline deadline) {
  const auto frame = framed(content);
  return socket.send_all(std::as_bytes(std::span(frame)), deadline);
}

Result<std::string> recv_frame(net::Socket& socket, Deadline deadline, std::size_t limit) {
  std::string head(kLengthBytes, '\0');
  TRY(socket.recv_all(writable(head), deadline));
  const auto length = parse_length(head);
  if (length > limit) return too_large(length, limit);
  std::string content(length, '\0');
  TRY(socket.recv_all(writable(content), deadline));
  return content;
}

Result<std::optional<std::string>> FrameReader::read(net::Socket& socket) {
  for (;;) {
    if (auto frame = TRY(take_frame(received_, limit_))) return frame;
    const auto had = received_.size();
    const auto whole = had < kLengthBytes ? kLengthBytes : kLengthBytes + parse_length(received_);
    received_.resize(whole);
    const auto got = TRY(socket.try_recv(writable(received_).subspan(had)));
    received_.resize(had + got.value_or(0));
    if (!got) return std::optional<std::string>();
    if (*got == 0) return Error{Code::peer_lost, "the peer closed the connection"};
  }
}

Result<std::optional<std::string>> take_frame(std::string& buffer, std::size_t limit) {
  if (buffer.size() < kLengthBytes) return std::optional<std::string>();
  const auto length = parse_length(buffer);
  if (length > limit) return too_large(length, limit);
  if (buffer.size() < kLengthBytes + length) return std::optional<std::string>();
  auto content = buffer.substr(kLengthBytes, length);
  buffer.erase(0, kLengthBytes + length);
  return std::optional(std::move(content));
}

std::string join_fields(const std::vector<std::string>& fields) {
  std::string joined;
  for (const auto& field : fields) joined += framed(field);
  return joined;
}

Result<std::vector<std::string>> split_fields(std::string_view joined, std::size_t count) {
  std::vector<std::string> fields;
  std::string rest(joined);
  while (!rest.empty()) {
    auto field = TRY(take_frame(rest, rest.size()));
    if (!field) break;
    fields.push_back(std::move(*field));
  }
  if (fields.size() != count || !rest.empty())
    return Error{Code::corrupt,
                 format("a message of {} fields was expected, and it is not one", count)};
  return fields;
}

}  // namespace lockstep::comm
