// EventHub: tells the callers of GET /api/v1/events what has changed. On the loop's thread;
// docs/design/events.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/loop.h"
#include "net/stream/event_writer.h"
#include "platform/api/routes.h"
#include "platform/server/events/change_book.h"
#include "platform/server/people/accounts.h"
#include "platform/server/route_call.h"
#include "platform/server/server.h"

namespace lockstep::server {

class EventHub {
 public:
  // All outlive this.
  EventHub(net::Loop& loop, const ServerSetup& setup, Accounts& accounts);

  Result<void> open(const RouteCall<api::kEvents>& call, const Reply<api::Changes>& reply);

  // A row of the run has changed. Its version tells whether more than heartbeats did.
  void handle_run(const model::RunId& run, std::int64_t version);
  void handle_changes(const std::vector<model::Change>& changes);
  // Its ranks have reported: lines, or something else.
  void handle_reports(const model::RunId& run, bool has_lines, bool has_points);
  // Closes all; later calls are refused.
  void finish();

 private:
  struct Listener {
    identity::Bearer bearer;
    std::int64_t seen = 0;  // the latest change that it was told of
    net::EventWriter writer;
    Time busy_since{};  // of the text that is being written
  };

  void add(identity::Bearer bearer, const std::string& last_id, net::UpgradedConnection connection);
  void note(const Subject& subject);
  bool is_listened_to() const;
  void send_changes();
  void send_pings();
  void send(Listener& listener, std::string text);
  // The event of what the listener was not told yet; empty: there is nothing that it may know.
  std::string next_event(Listener& listener);
  api::Changes changes_for(const Listener& listener, std::int64_t since) const;
  bool is_permitted(const identity::Bearer& bearer) const;
  void erase_gone();
  std::string id_of(std::int64_t number) const;
  // The latest change that the reader with this id was told of; none: the id is of another daemon.
  std::optional<std::int64_t> number_of(const std::string& id) const;

  net::Loop& loop_;
  const ServerSetup& setup_;
  Accounts& accounts_;
  const std::string start_;  // of this daemon, random
  bool ended_ = false;
  ChangeBook book_;
  std::map<model::RunId, std::int64_t> versions_;  // of open runs that changed, while one listens
  std::map<std::int64_t, Listener> listeners_;
  std::int64_t next_ = 0;
  Time idle_since_{};  // the last listener has left
  Time sent_{};
  bool is_due_ = false;
  net::Timer send_timer_;
  net::Timer ping_timer_;
};

}  // namespace lockstep::server
