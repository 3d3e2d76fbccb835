// HttpStream: a request whose body, or the body of whose answer, is too large to be held in memory.
// All calls come on the loop's thread, and each handles one part of at most some 100 KiB.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "net/http/http.h"

namespace lockstep::net {

class HttpStream {
 public:
  virtual ~HttpStream() = default;

  // A longer body of the request gets 413.
  virtual Bytes body_max() const = 0;
  // The next part of the request's body. After an error no further part comes, and answer() does.
  virtual Result<void> take(std::string_view part) = 0;
  // Called once, when the body is complete or take() has failed.
  virtual HttpResponse answer() = 0;
  // The size of the answer's body, if next() gives it; none: it is the body of answer().
  virtual std::optional<std::int64_t> size() const { return std::nullopt; }
  // The next part of the answer's body, not empty before its end. An error closes the connection.
  virtual Result<std::string> next() { return std::string(); }
};

}  // namespace lockstep::net
