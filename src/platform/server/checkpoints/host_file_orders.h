// HostFileOrders: what the daemon wants of the files of hosts. Orders go to a host with the answers
// to its polls, in each until the host has answered it. On the daemon's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "net/loop.h"
#include "platform/api/checkpoint_messages.h"

namespace lockstep::server {

class HostFileOrders {
 public:
  using Done = std::function<void(const Result<api::HostFileAnswer>& answer)>;

  // `announce`: there is an order that no answer to this host had yet. The loop outlives this.
  HostFileOrders(net::Loop& loop, std::function<void(const std::string& host)> announce)
      : loop_(loop),
        announce_(std::move(announce)),
        last_number_(SystemClock().now().time_since_epoch().count()) {}

  // Calls `done` once, never in this call. Code::peer_lost: the host did not answer in time.
  // Code::corrupt: it could not carry it out. `order` has no number.
  void order(const std::string& host, api::HostFileOrder order, Done done);
  // For the answer to a poll.
  std::vector<api::HostFileOrder> open_orders(const std::string& host);
  bool has_new(const std::string& host) const;
  // How many of the answers were awaited.
  int take(const std::string& host, const std::vector<api::HostFileAnswer>& answers);

 private:
  struct OpenOrder {
    api::HostFileOrder order;
    Done done;
    net::Timer limit;
    bool is_sent = false;
  };
  void finish(const std::string& host, std::int64_t number,
              const Result<api::HostFileAnswer>& answer);

  net::Loop& loop_;
  const std::function<void(const std::string&)> announce_;
  std::int64_t last_number_;  // above those of an earlier start of the daemon
  std::map<std::string, std::map<std::int64_t, OpenOrder>> open_;  // by host and number
};

}  // namespace lockstep::server
