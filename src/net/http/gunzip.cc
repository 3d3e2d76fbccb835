#include "net/http/gunzip.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include <boost/beast/zlib/inflate_stream.hpp>
#include <boost/crc.hpp>

#include "base/format.h"

namespace lockstep::net {
namespace {

namespace zlib = boost::beast::zlib;

constexpr std::size_t kGzipHead = 10, kGzipTail = 8;
constexpr unsigned kCrc = 2, kExtra = 4, kName = 8, kComment = 16;  // flags of the head

Error damaged_gzip() { return {Code::invalid, "the body is no gzip, or damaged"}; }

std::uint32_t number32_at(std::string_view bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 4; i-- > 0;)
    number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
  return number;
}

// The size of the head; none: it is not complete, or of another method.
std::optional<std::size_t> gzip_head_size(std::string_view bytes) {
  if (bytes.size() < kGzipHead || !bytes.starts_with("\x1f\x8b\x08")) return std::nullopt;
  const unsigned flags = static_cast<unsigned char>(bytes[3]);
  std::size_t at = kGzipHead;
  if (flags & kExtra) {
    if (bytes.size() < at + 2) return std::nullopt;
    at += 2u + static_cast<unsigned char>(bytes[at]) +
          (static_cast<std::size_t>(static_cast<unsigned char>(bytes[at + 1])) << 8);
  }
  for (const unsigned text : {kName, kComment}) {
    if (!(flags & text)) continue;
    const std::size_t end = bytes.find('\0', std::min(at, bytes.size()));
    if (end == std::string_view::npos) return std::nullopt;
    at = end + 1;
  }
  if (flags & kCrc) at += 2;
  return at <= bytes.size() ? std::optional(at) : std::nullopt;
}

}  // namespace

// Several members, one after another, are not taken: no client sends them.
Result<std::string> gunzip(std::string_view compressed, Bytes most) {
  const auto head = gzip_head_size(compressed);
  if (!head || compressed.size() < *head + kGzipTail) return damaged_gzip();
  const std::string_view tail = compressed.substr(compressed.size() - kGzipTail);
  const std::string_view deflated = compressed.substr(*head, compressed.size() - *head - kGzipTail);
  std::string content;
  std::array<char, 64 << 10> part{};
  zlib::inflate_stream stream;
  zlib::z_params state;
  state.next_in = deflated.data();
  state.avail_in = deflated.size();
  for (boost::system::error_code ended; !ended;) {
    state.next_out = part.data();
    state.avail_out = part.size();
    stream.write(state, zlib::Flush::sync, ended);
    content.append(part.data(), part.size() - state.avail_out);
    if (static_cast<std::int64_t>(content.size()) > most.count())
      return Error{Code::invalid, format("the body has more than {} of content", text(most))};
    // The stream may miss its end when no byte follows. Checksum and size find what is cut.
    const bool is_end = ended == zlib::error::end_of_stream ||
                        (ended == zlib::error::need_buffers && state.avail_in == 0);
    if (ended && !is_end) return damaged_gzip();
  }
  boost::crc_32_type crc;
  crc.process_bytes(content.data(), content.size());
  const bool is_whole = state.avail_in == 0 && crc.checksum() == number32_at(tail, 0) &&
                        static_cast<std::uint32_t>(content.size()) == number32_at(tail, 4);
  return is_whole ? Result<std::string>(std::move(content)) : damaged_gzip();
}

}  // namespace lockstep::net
