#include "platform/api/paths.h"

#include <algorithm>

#include "base/check.h"
#include "net/http/url.h"

namespace lockstep::api {
namespace {

// The first segment of the rest of a pattern or path, which begins with '/'.
std::string_view take_segment(std::string_view& rest) {
  rest.remove_prefix(1);
  const auto end = std::min(rest.find('/'), rest.size());
  const std::string_view segment = rest.substr(0, end);
  rest.remove_prefix(end);
  return segment;
}

}  // namespace

std::vector<std::string_view> segments_of(std::string_view pattern) {
  std::vector<std::string_view> segments;
  while (!pattern.empty()) segments.push_back(take_segment(pattern));
  return segments;
}

std::string target_of(std::string_view pattern, const std::vector<std::string>& parameters,
                      const Query& query) {
  std::string target;
  auto word = parameters.begin();
  for (std::string_view segment : segments_of(pattern)) {
    target += '/';
    if (!segment.starts_with('{')) {
      target += segment;
      continue;
    }
    LS_CHECK(word != parameters.end(), "{} has more parameters than values", pattern);
    target += net::percent_encode(*word++);
  }
  LS_CHECK(word == parameters.end(), "{} has fewer parameters than values", pattern);
  char mark = '?';
  for (const auto& [name, value] : query) {
    target += mark + name + '=' + net::percent_encode(value);
    mark = '&';
  }
  return target;
}

bool match_path(std::string_view pattern, const std::vector<std::string>& path,
                std::vector<std::string>& parameters) {
  parameters.clear();
  for (const std::string& word : path) {
    if (pattern.empty()) return false;
    const std::string_view segment = take_segment(pattern);
    if (segment.starts_with('{'))
      parameters.push_back(word);
    else if (segment != word)
      return false;
  }
  return pattern.empty();
}

}  // namespace lockstep::api
