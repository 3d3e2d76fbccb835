#include "platform/api/paths.h"

#include "base/check.h"
#include "net/url.h"

namespace lockstep::api {
namespace {

// "/a/{b}" is "a", "{b}".
std::vector<std::string_view> segments_of(std::string_view pattern) {
  std::vector<std::string_view> segments;
  while (!pattern.empty()) {
    pattern.remove_prefix(1);
    auto end = std::min(pattern.find('/'), pattern.size());
    segments.push_back(pattern.substr(0, end));
    pattern.remove_prefix(end);
  }
  return segments;
}

}  // namespace

std::string target_of(std::string_view pattern, std::initializer_list<std::string> words,
                      const Query& query) {
  std::string target;
  auto word = words.begin();
  for (std::string_view segment : segments_of(pattern)) {
    target += '/';
    if (!segment.starts_with('{')) {
      target += segment;
      continue;
    }
    LS_CHECK(word != words.end(), "{} has more places than words", pattern);
    target += percent_encode(*word++);
  }
  LS_CHECK(word == words.end(), "{} has fewer places than words", pattern);
  char mark = '?';
  for (const auto& [name, value] : query) {
    target += mark + std::string(name) + '=' + percent_encode(value);
    mark = '&';
  }
  return target;
}

bool matches(std::string_view pattern, const std::vector<std::string>& path,
             std::vector<std::string>& words) {
  auto segments = segments_of(pattern);
  if (segments.size() != path.size()) return false;
  words.clear();
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (segments[i].starts_with('{'))
      words.push_back(path[i]);
    else if (segments[i] != path[i])
      return false;
  }
  return true;
}

}  // namespace lockstep::api
