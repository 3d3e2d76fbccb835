// Decodes a chunked body (RFC 9112, 7.1) strictly: lines end with CR LF, sizes are at most eight
// hex digits. Extensions and trailers are read, bounded, and ignored, as the RFC has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::net::detail {

class ChunkedDecoder {
 public:
  enum class State { more, done, malformed, too_large };

  explicit ChunkedDecoder(std::size_t body_max) : body_max_(body_max) {}

  // Consumes as much of `bytes` as belongs to the body, removes it from the front and appends the
  // decoded data to `body`. If the state is `more`, all of it is consumed.
  State decode(std::string_view& bytes, std::string& body);

 private:
  enum class Part { size_line, data, data_end, trailer };

  State end_line(std::string_view line);
  State take_line(std::string_view& bytes);
  void take_data(std::string_view& bytes, std::string& body);

  std::size_t body_max_;
  Part part_ = Part::size_line;
  std::string line_;  // the received part of the current line
  std::size_t trailer_bytes_ = 0;
  std::uint64_t left_ = 0;   // of the current chunk
  std::uint64_t total_ = 0;  // of all chunks begun
};

}  // namespace lockstep::net::detail
