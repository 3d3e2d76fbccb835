#include "platform/server/metrics/metric_text.h"

#include <cmath>

#include "base/format.h"

namespace lockstep::server {
namespace {

std::string escaped_label(std::string_view value) {
  std::string text;
  for (const char letter : value) {
    if (letter == '\\' || letter == '"') text += '\\';
    if (letter == '\n')
      text += "\\n";
    else
      text += letter;
  }
  return text;
}

std::string value_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return format("{}", value);
}

}  // namespace

MetricFormat metric_format_of(std::string_view accept) {
  return accept.find("application/openmetrics-text") == std::string_view::npos
             ? MetricFormat::text
             : MetricFormat::open_metrics;
}

std::string_view content_type_of(MetricFormat format) {
  return format == MetricFormat::text
             ? "text/plain; version=0.0.4; charset=utf-8"
             : "application/openmetrics-text; version=1.0.0; charset=utf-8";
}

void MetricText::gauge(std::string_view name, std::string_view help) {
  begin(name, "gauge", help);
  name_ = name;
}

// OpenMetrics names the metric without the suffix of its samples.
void MetricText::counter(std::string_view name, std::string_view help) {
  const std::string samples = format("{}_total", name);
  begin(format_ == MetricFormat::text ? samples : name, "counter", help);
  name_ = samples;
}

void MetricText::sample(Labels labels, double value) { add(labels, value_text(value)); }

void MetricText::sample(Labels labels, std::int64_t value) { add(labels, format("{}", value)); }

std::string MetricText::take() {
  if (format_ == MetricFormat::open_metrics) text_ += "# EOF\n";
  return std::move(text_);
}

void MetricText::begin(std::string_view name, std::string_view type, std::string_view help) {
  text_ += format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void MetricText::add(Labels labels, std::string_view value) {
  text_ += name_;
  char mark = '{';
  for (const auto& [name, label] : labels) {
    text_ += format("{}{}=\"{}\"", mark, name, escaped_label(label));
    mark = ',';
  }
  if (labels.size() != 0) text_ += '}';
  text_ += format(" {}\n", value);
}

}  // namespace lockstep::server
