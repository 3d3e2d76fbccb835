// ProfileRequests: traces that users ask of running ranks.
//
// A request is an order in the answers to the agents of its ranks. Their calls then bring how far
// each trace is, and its bytes from where those end that the daemon has. So a call that is lost or
// comes twice does no harm. A run has one request: a newer one replaces it. It is forgotten when
// its client has not asked for half a minute. The bytes are in files of the nodes' folders, removed
// with the nodes' logs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/result.h"
#include "platform/api/profile_messages.h"
#include "platform/core/model/state.h"

namespace lockstep::server {

class ProfileRequests {
 public:
  // `state` is the controller's. It and the clock must outlive this.
  ProfileRequests(const model::State& state, std::filesystem::path home, const Clock& clock)
      : state_(state), home_(std::move(home)), clock_(clock) {}

  Result<api::ProfileView> begin(const model::Run& run, const api::ProfileRequest& wanted);
  // Also keeps the request alive.
  Result<api::ProfileView> view(const model::RunId& run, const std::string& request_id);
  // Base64 of at most 2 MiB.
  Result<api::TracePart> part(const model::RunId& run, const api::TraceQuery& query) const;

  // The parts that the node's agent, which is calling, is still to deliver.
  std::optional<api::ProfileOrder> order_for(const model::NodeId& node) const;
  // True if anything is new.
  bool store(const model::NodeId& node, const api::ProfileReport& report);

 private:
  struct Trace {
    api::TraceView view;
    std::int64_t total = 0;
  };
  struct Request {
    api::ProfileRequest wanted;
    model::AttemptId attempt;
    Time began{};
    Time last_asked{};
    std::int64_t version = 0;
    std::map<int, Trace> traces;  // by rank
  };

  Result<const Request*> find(const model::RunId& run, const std::string& request_id) const;
  bool is_alive(const Request& request) const;
  std::filesystem::path file_of(const Request& request, const api::TraceView& trace) const;
  api::ProfileView view_of(const Request& request) const;
  void add_part(const Request& request, Trace& trace, const api::TraceReport& report) const;
  // The number of bytes.
  Result<std::int64_t> write_part(const Request& request, const api::TraceView& trace,
                                  const api::TraceReport& report) const;

  const model::State& state_;
  const std::filesystem::path home_;
  const Clock& clock_;
  std::map<model::RunId, Request> requests_;
};

}  // namespace lockstep::server
