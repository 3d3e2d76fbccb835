// HTTP messages for our server and client.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::net {

// In the order of arrival; names compare without regard to case.
class Headers {
 public:
  Headers() = default;
  Headers(std::initializer_list<std::pair<std::string, std::string>> fields) : fields_(fields) {}

  void add(std::string name, std::string value);
  // The first of that name.
  std::optional<std::string_view> find(std::string_view name) const;
  std::size_t count(std::string_view name) const;

  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }
  std::size_t size() const { return fields_.size(); }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

struct HttpRequest {
  std::string method;  // as sent: methods are case-sensitive
  std::string target;  // as sent: /a%20b?x=1
  // The path's segments, decoded once; valid UTF-8 without control characters, '/', '\', "." or
  // "..".
  std::vector<std::string> path;
  std::map<std::string, std::string> query;  // decoded once
  Headers headers;
  std::string body;
  bool has_body = false;  // one comes; known before `body` is there
  std::string peer;       // the caller's address
  bool is_local = false;  // which is one of this machine
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body{};
  Headers headers{};  // besides length, type, date and connection
};

// "Not Found" for 404.
std::string_view status_text(int status);

bool equal_ignoring_case(std::string_view a, std::string_view b);
// RFC 9110's token: the form of methods and header names.
bool is_token(std::string_view word);
// True if a header may have that value: no control characters but tab.
bool is_field_value(std::string_view value);

}  // namespace lockstep::net
