#include "base/check.h"
#include "base/fuzz_for_test.h"
#include "platform/otlp/otlp.h"

using namespace lockstep;
using namespace lockstep::otlp;

LS_FUZZ(otlp,
        {std::string("\x0a\x21\x12\x1f\x12\x1d\x0a\x04loss\x2a\x15\x0a\x13\x19\x00\x00\x00\x00"
                     "\x00\x00\x00\x00\x21\x00\x00\x00\x00\x00\x00\xe0\x3f\x40\x00",
                     35),
         R"({"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"a","gauge":{"dataPoints":[
                  {"asDouble":"NaN","timeUnixNano":"1"}]}}]}]}]})",
         R"({"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"a","histogram":{"dataPoints":[
                  {"explicitBounds":[1],"bucketCounts":["2","1"]}]}}]}]}]})"}) {
  const auto json = parse_json(input);
  for (const auto& read : {read_protobuf(input), json ? read_json(*json) : read_protobuf("")})
    if (read)
      for (const ResourceMetrics& resource : *read) {
        for (const MetricValue& value : resource.values)
          LS_CHECK(series_name(value.point).starts_with(value.point.name));
        for (const MetricHistogram& histogram : resource.histograms)
          LS_CHECK(histogram.bins.edges.size() == histogram.bins.counts.size() + 1);
      }
}
