// RequestCounts: answers by route and status, since the start of the daemon.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>

namespace lockstep::server {

class RequestCounts {
 public:
  // Method and route: texts that are never freed.
  using Key = std::tuple<std::string_view, std::string_view, int>;

  void add(std::string_view method, std::string_view route, int status) {
    ++counts_[{method, route, status}];
  }
  const std::map<Key, std::int64_t>& counts() const { return counts_; }

 private:
  std::map<Key, std::int64_t> counts_;
};

}  // namespace lockstep::server
