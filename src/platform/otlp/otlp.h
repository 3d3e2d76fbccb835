// Metrics of OpenTelemetry (OTLP 1.x), as exporters send them over HTTP: in Protocol Buffers or in
// JSON. https://opentelemetry.io/docs/specs/otlp
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "platform/otlp/histogram.h"
#include "text/json.h"

namespace lockstep::otlp {

using Attributes = std::map<std::string, std::string>;

// The metric and the time of a value or a histogram.
struct MetricPoint {
  std::string name;
  Attributes attributes{};
  Time time{};
};

// A gauge or a sum has one value. A histogram or a summary has its count and sum, and a histogram
// also its least and greatest value, as metrics of their own: NAME.count, NAME.sum, NAME.min,
// NAME.max.
struct MetricValue {
  MetricPoint point;
  double value = 0;
};

// The buckets of a histogram, explicit or exponential.
struct MetricHistogram {
  MetricPoint point;
  Bins bins{};
};

// The values that one program has sent.
struct ResourceMetrics {
  Attributes attributes{};
  std::vector<MetricValue> values{};
  std::vector<MetricHistogram> histograms{};
};

// Code::invalid: it cannot be read. Values of other types of attributes are left out.
Result<std::vector<ResourceMetrics>> read_protobuf(std::string_view body);
Result<std::vector<ResourceMetrics>> read_json(const Json& body);

// The answer: everything is stored, or so many values are not.
std::string protobuf_answer(std::int64_t rejected, const std::string& why);
Json json_answer(std::int64_t rejected, const std::string& why);

// "http.duration{route=/x}": the name of the series, with the attributes by name except those of
// Lockstep.
std::string series_name(const MetricPoint& point);
// That of `lockstep.step`, else seconds since 1970.
std::int64_t step_of(const MetricPoint& point);

}  // namespace lockstep::otlp
