#include "platform/server/checkpoints/host_file_orders.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/format.h"

namespace lockstep::server {
namespace {

constexpr Duration kHostFileLimit = std::chrono::seconds(10);

}  // namespace

void HostFileOrders::order(const std::string& host, api::HostFileOrder order, Done done) {
  const std::int64_t number = order.number = ++last_number_;
  net::Timer limit = loop_.after(kHostFileLimit, [this, host, number] {
    finish(host, number,
           Error{Code::peer_lost, format("host {} does not send its files: its service has not "
                                         "answered within {}",
                                         host, text(kHostFileLimit))});
  });
  open_[host].emplace(number, OpenOrder{std::move(order), std::move(done), std::move(limit)});
  announce_(host);
}

std::vector<api::HostFileOrder> HostFileOrders::open_orders(const std::string& host) {
  std::vector<api::HostFileOrder> orders;
  const auto open = open_.find(host);
  if (open == open_.end()) return orders;
  for (auto& [number, each] : open->second) {
    each.is_sent = true;
    orders.push_back(each.order);
  }
  return orders;
}

bool HostFileOrders::has_new(const std::string& host) const {
  const auto open = open_.find(host);
  return open != open_.end() &&
         std::ranges::any_of(open->second, [](const auto& entry) { return !entry.second.is_sent; });
}

int HostFileOrders::take(const std::string& host, const std::vector<api::HostFileAnswer>& answers) {
  int awaited = 0;
  for (const api::HostFileAnswer& answer : answers) {
    const auto open = open_.find(host);
    if (open == open_.end() || !open->second.contains(answer.number)) continue;
    ++awaited;
    if (answer.error.empty())
      finish(host, answer.number, answer);
    else
      finish(host, answer.number, Error{Code::corrupt, format("host {}: {}", host, answer.error)});
  }
  return awaited;
}

void HostFileOrders::finish(const std::string& host, std::int64_t number,
                            const Result<api::HostFileAnswer>& answer) {
  const auto open = open_.find(host);
  if (open == open_.end()) return;
  const auto order = open->second.extract(number);
  if (open->second.empty()) open_.erase(open);
  if (!order.empty()) order.mapped().done(answer);
}

}  // namespace lockstep::server
