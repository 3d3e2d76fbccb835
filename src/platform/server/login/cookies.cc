#include "platform/server/login/cookies.h"

namespace lockstep::server {

std::string_view cookie_of(const net::HttpRequest& request, std::string_view name) {
  for (const auto& [header, value] : request.headers) {
    if (!net::equal_ignoring_case(header, "Cookie")) continue;
    std::string_view rest = value;
    while (!rest.empty()) {
      const std::size_t end = rest.find(';');
      std::string_view pair = rest.substr(0, end);
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      while (pair.starts_with(' ')) pair.remove_prefix(1);
      const std::size_t equals = pair.find('=');
      if (equals != std::string_view::npos && pair.substr(0, equals) == name)
        return pair.substr(equals + 1);
    }
  }
  return {};
}

// Browsers set Sec-Fetch-Site, and no page can.
bool is_from_own_page(const net::HttpRequest& request) {
  const auto site = request.headers.find("Sec-Fetch-Site").value_or("");
  return site == "same-origin" || (site == "none" && request.method == "GET");
}

}  // namespace lockstep::server
