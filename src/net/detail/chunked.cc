#include "net/detail/chunked.h"

#include <algorithm>
#include <charconv>

#include "net/http/http.h"

namespace lockstep::net::detail {

namespace {

constexpr std::size_t kLineMax = 1024;
constexpr std::size_t kTrailerMax = 8 << 10;
constexpr std::size_t kDigitsMax = 8;

}  // namespace

ChunkedDecoder::State ChunkedDecoder::decode(std::string_view& bytes, std::string& body) {
  while (!bytes.empty()) {
    if (part_ == Part::data) {
      take_data(bytes, body);
    } else if (State state = take_line(bytes); state != State::more) {
      return state;
    }
  }
  return State::more;
}

void ChunkedDecoder::take_data(std::string_view& bytes, std::string& body) {
  const std::string_view data = bytes.substr(0, std::min<std::uint64_t>(left_, bytes.size()));
  body += data;
  bytes.remove_prefix(data.size());
  left_ -= data.size();
  if (left_ == 0) part_ = Part::data_end;
}

ChunkedDecoder::State ChunkedDecoder::take_line(std::string_view& bytes) {
  while (!bytes.empty()) {
    const char c = bytes.front();
    bytes.remove_prefix(1);
    const bool after_cr = line_.ends_with('\r');
    if (after_cr != (c == '\n')) return State::malformed;  // LF alone, or CR inside the line
    if (after_cr) {
      line_.pop_back();
      const State state = end_line(line_);
      line_.clear();
      return state;
    }
    line_ += c;
    if (line_.size() > kLineMax || (part_ == Part::data_end && line_ != "\r"))
      return State::malformed;
  }
  return State::more;
}

ChunkedDecoder::State ChunkedDecoder::end_line(std::string_view line) {
  if (!is_field_value(line)) return State::malformed;
  if (part_ == Part::data_end) {
    part_ = Part::size_line;
    return State::more;
  }
  if (part_ == Part::trailer) {
    trailer_bytes_ += line.size();
    if (line.empty()) return State::done;
    return trailer_bytes_ > kTrailerMax ? State::malformed : State::more;
  }
  const char* first = line.data();
  const char* last = first + std::min(line.find(';'), line.size());
  auto [end, error] = std::from_chars(first, last, left_, 16);
  if (error != std::errc() || end != last || *first == '-' ||
      static_cast<std::size_t>(last - first) > kDigitsMax)
    return State::malformed;
  total_ += left_;
  if (total_ > body_max_) return State::too_large;
  part_ = left_ == 0 ? Part::trailer : Part::data;
  return State::more;
}

}  // namespace lockstep::net::detail
