// MetricsPage: GET /metrics, for Prometheus. No part of the API. docs/design/prometheus.md has the
// metrics and the reasons.
#pragma once

#include <functional>
#include <string>

#include "base/units.h"
#include "net/http/http.h"
#include "platform/api/route.h"
#include "platform/server/calls/call_context.h"
#include "platform/server/metrics/metric_text.h"
#include "platform/server/metrics/request_counts.h"
#include "platform/server/metrics/run_ends.h"

namespace lockstep::server {

// For the gate: each user may read it.
inline constexpr api::TypedRoute<api::None, api::None, api::None> kMetricsRoute{
    "GET", "/metrics", api::Action::read_cluster, api::RouteErrors::none,
    "",    "",         "metrics for Prometheus"};

class MetricsPage {
 public:
  struct Sources {
    const CallContext& context;  // these four outlive the page
    const net::LoopLag& lag;
    const RequestCounts& requests;
    const RunEnds& ended;
  };
  explicit MetricsPage(const Sources& sources) : from_(sources), started_(from_.context.now()) {}

  static bool is_for(const net::HttpRequest& request);
  net::HttpResponse page(const Principal& caller, const net::HttpRequest& request) const;

 private:
  void add_runs(MetricText& text, const Principal& caller) const;
  void add_queue(MetricText& text) const;
  void add_hosts(MetricText& text) const;
  void add_daemon(MetricText& text) const;
  void add_storage(MetricText& text) const;
  void add_requests(MetricText& text) const;
  void add_process(MetricText& text) const;

  const Sources from_;
  const Time started_;
};

}  // namespace lockstep::server
