#include "platform/server/metrics/metric_text.h"

#include <limits>

#include <gtest/gtest.h>

namespace lockstep::server {
namespace {

std::string page(MetricFormat format) {
  MetricText text(format);
  text.gauge("queue_runs", "runs that wait");
  text.sample(std::int64_t{3});
  text.counter("requests", "requests by route");
  text.sample({{"route", "/a"}, {"status", "200"}}, std::int64_t{7});
  return text.take();
}

TEST(MetricText, TheTextFormatNamesCountersAsTheirSamples) {
  EXPECT_EQ(page(MetricFormat::text),
            "# HELP queue_runs runs that wait\n# TYPE queue_runs gauge\nqueue_runs 3\n"
            "# HELP requests_total requests by route\n# TYPE requests_total counter\n"
            "requests_total{route=\"/a\",status=\"200\"} 7\n");
}

TEST(MetricText, OpenMetricsNamesCountersWithoutTheirSuffixAndEndsWithAMark) {
  EXPECT_EQ(page(MetricFormat::open_metrics),
            "# HELP queue_runs runs that wait\n# TYPE queue_runs gauge\nqueue_runs 3\n"
            "# HELP requests requests by route\n# TYPE requests counter\n"
            "requests_total{route=\"/a\",status=\"200\"} 7\n# EOF\n");
}

TEST(MetricText, LabelsAreEscaped) {
  MetricText text(MetricFormat::text);
  text.gauge("a", "b");
  text.sample({{"path", "C:\\x \"y\"\nz"}}, 0.5);
  EXPECT_TRUE(text.take().ends_with("a{path=\"C:\\\\x \\\"y\\\"\\nz\"} 0.5\n"));
}

TEST(MetricText, NumbersThatAreNotFiniteHaveTheirNames) {
  MetricText text(MetricFormat::text);
  text.gauge("a", "b");
  text.sample(std::numeric_limits<double>::quiet_NaN());
  text.sample(std::numeric_limits<double>::infinity());
  text.sample(-std::numeric_limits<double>::infinity());
  EXPECT_TRUE(text.take().ends_with("a NaN\na +Inf\na -Inf\n"));
}

TEST(MetricText, TheCallerChoosesTheFormat) {
  EXPECT_EQ(metric_format_of("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3"),
            MetricFormat::open_metrics);
  EXPECT_EQ(metric_format_of("text/plain;version=0.0.4;q=0.3,*/*;q=0.1"), MetricFormat::text);
  EXPECT_EQ(metric_format_of(""), MetricFormat::text);
}

}  // namespace
}  // namespace lockstep::server
