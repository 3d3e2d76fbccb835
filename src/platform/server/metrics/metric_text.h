// MetricText: metrics as Prometheus reads them, in its text format 0.0.4 or as OpenMetrics 1.0.
// https://prometheus.io/docs/instrumenting/exposition_formats/
// https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::server {

enum class MetricFormat { text, open_metrics };

// The format that an Accept header asks for.
MetricFormat metric_format_of(std::string_view accept);
std::string_view content_type_of(MetricFormat format);

class MetricText {
 public:
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  explicit MetricText(MetricFormat format) : format_(format) {}

  // Begins a metric: the samples that follow are of it. `name` has no "_total". `help` is one line.
  void gauge(std::string_view name, std::string_view help);
  void counter(std::string_view name, std::string_view help);

  void sample(double value) { sample({}, value); }
  void sample(std::int64_t value) { sample({}, value); }
  // Values of labels may be any UTF-8.
  void sample(Labels labels, double value);
  void sample(Labels labels, std::int64_t value);

  // The whole page. Ends the use of this.
  std::string take();

 private:
  void begin(std::string_view name, std::string_view type, std::string_view help);
  void add(Labels labels, std::string_view value);

  const MetricFormat format_;
  std::string name_;  // of the samples
  std::string text_;
};

}  // namespace lockstep::server
