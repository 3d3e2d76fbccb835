// Ask: a call as its handler sees it: the words of its path, its query, its body. What is wrong
// with one is said with its name, and never ignored.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "net/http.h"
#include "platform/core/model/ids.h"
#include "text/convert.h"

namespace lockstep {

class Ask {
 public:
  Ask(HttpRequest request, std::vector<std::string> words)
      : request_(std::move(request)), words_(std::move(words)) {}

  // {project}/{number} of the path; Code::not_found when it cannot be a run.
  Result<RunId> run() const;

  // ... and {epoch} and {index}.
  Result<NodeId> node() const;

  // Refuses a query with other names than these.
  Result<void> allow_query(std::initializer_list<std::string_view> names) const;
  std::optional<std::string> query(std::string_view name) const;
  // Nothing if it is not in the query.
  Result<std::optional<std::int64_t>> integer(std::string_view name, std::int64_t least,
                                              std::int64_t most) const;
  // ?wait=SECONDS; none if absent, and never more than the server has patience for.
  Result<Duration> wait() const;

  template <class T>
  Result<T> body() const {
    return from_json<T>(TRY(parse_json(request_.body)));
  }

 private:
  HttpRequest request_;
  std::vector<std::string> words_;
};

// The node that the words of a path name; Code::not_found when they cannot.
Result<NodeId> node_of(const std::vector<std::string>& words);
// Seconds as a caller wishes to wait; NaN, negative and long ones become what is possible.
Duration patience_of(double seconds);

}  // namespace lockstep
