// Field numbers are those of opentelemetry/proto/metrics/v1/metrics.proto, common/v1/common.proto
// and collector/metrics/v1/metrics_service.proto.
#include "platform/otlp/otlp.h"

#include <charconv>
#include <chrono>
#include <limits>
#include <utility>

#include "base/format.h"
#include "platform/wire/wire.h"

namespace lockstep::otlp {
namespace {

using wire::WireField;
using wire::WireReader;
using wire::WireType;

constexpr std::string_view kOwn = "lockstep.";
constexpr std::string_view kStep = "lockstep.step";
constexpr std::uint64_t kNoValue = 1;  // of flags

Time time_of(std::uint64_t nanoseconds) {
  return Time(Duration(static_cast<std::int64_t>(nanoseconds / 1000)));
}

// A point of any kind of metric.
struct DataPoint {
  Attributes attributes{};
  std::uint64_t nanoseconds = 0;
  std::uint64_t flags = 0;
  std::map<std::string, double> values{};  // by what follows the metric's name
  ExplicitBuckets explicit_buckets{};
  ExponentialBuckets exponential{};
};

std::optional<Bins> bins_of(DataPoint& point) {
  const auto extreme = [&](const char* name) -> std::optional<double> {
    const auto found = point.values.find(name);
    if (found == point.values.end()) return std::nullopt;
    return found->second;
  };
  point.explicit_buckets.min = extreme(".min");
  point.explicit_buckets.max = extreme(".max");
  auto bins = bins_of(point.explicit_buckets);
  return bins ? bins : bins_of(point.exponential);
}

void add_point(const std::string& name, DataPoint point, ResourceMetrics& resource) {
  if (point.flags & kNoValue) return;
  const Time time = time_of(point.nanoseconds);
  for (const auto& [end, value] : point.values)
    resource.values.push_back({{name + end, point.attributes, time}, value});
  if (auto bins = bins_of(point))
    resource.histograms.push_back({{name, std::move(point.attributes), time}, *std::move(bins)});
}

// --- Protocol Buffers ---

// Calls `take` with each field; false if the message is damaged.
template <class Take>
bool each_field(std::string_view message, Take take) {
  WireReader reader(message);
  for (WireField field; reader.next(field);)
    if (!take(field)) return false;
  return !reader.is_damaged();
}

bool read_attribute(std::string_view message, Attributes& attributes) {
  std::string key;
  std::optional<std::string> value;
  const bool is_whole = each_field(message, [&](const WireField& field) {
    if (field.number == 1) key = field.bytes;
    if (field.number != 2) return true;
    return each_field(field.bytes, [&](const WireField& any) {
      if (any.number == 1) value = std::string(any.bytes);
      if (any.number == 2) value = any.value != 0 ? "true" : "false";
      if (any.number == 3) value = format("{}", any.integer());
      if (any.number == 4) value = format("{}", any.number64());
      return true;
    });
  });
  if (value) attributes[key] = *std::move(value);
  return is_whole;
}

// The numbers of the fields differ by kind.
struct PointForm {
  std::uint32_t metric;      // field of Metric that has the points
  std::uint32_t attributes;  // field of a point
  bool is_number;            // a gauge or a sum
  std::uint32_t min;         // field of a histogram's point; its greatest value is the next one
};
constexpr std::uint32_t kPointTime = 3, kCount = 4, kSum = 5, kAsDouble = 4, kAsInteger = 6;

constexpr std::uint32_t kHistogram = 9, kExponential = 10, kSummary = 11;
constexpr PointForm kForms[] = {{5, 7, true, 0},
                                {7, 7, true, 0},
                                {kHistogram, 9, false, 11},
                                {kExponential, 1, false, 12},
                                {kSummary, 7, false, 0}};
// Flags: of a number 8, of both kinds of histograms 10, of a summary 8.
std::uint32_t flags_field(const PointForm& form) { return form.min > 0 ? 10 : 8; }

std::vector<double> as_doubles(const std::vector<std::uint64_t>& numbers) {
  return {numbers.begin(), numbers.end()};
}

bool append_counts(const WireField& field, std::vector<double>& counts) {
  std::vector<std::uint64_t> numbers;
  if (!append_fixed64(field, numbers)) return false;
  counts.insert(counts.end(), numbers.begin(), numbers.end());
  return true;
}

bool read_side(std::string_view message, ExponentialBuckets::Side& side) {
  std::vector<std::uint64_t> counts;
  const bool is_whole = each_field(message, [&](const WireField& field) {
    if (field.number == 1) side.offset = field.zigzag();
    return field.number != 2 || append_varints(field, counts);
  });
  side.counts = as_doubles(counts);
  return is_whole;
}

bool read_exponential(const WireField& field, ExponentialBuckets& buckets) {
  if (field.number == 6) buckets.scale = field.zigzag();
  if (field.number == 7) buckets.zero_count = static_cast<double>(field.value);
  if (field.number == 8) return read_side(field.bytes, buckets.positive);
  if (field.number == 9) return read_side(field.bytes, buckets.negative);
  if (field.number == 14) buckets.zero_threshold = field.number64();
  return true;
}

bool read_buckets(const WireField& field, const PointForm& form, DataPoint& point) {
  if (form.metric == kExponential) return read_exponential(field, point.exponential);
  if (form.metric != kHistogram) return true;
  if (field.number == 6) return append_counts(field, point.explicit_buckets.counts);
  return field.number != 7 || append_doubles(field, point.explicit_buckets.bounds);
}

bool read_point(std::string_view message, const PointForm& form, DataPoint& point) {
  return each_field(message, [&](const WireField& field) {
    if (field.number == form.attributes && field.type == WireType::bytes)
      return read_attribute(field.bytes, point.attributes);
    if (field.number == kPointTime) point.nanoseconds = field.value;
    if (field.number == flags_field(form) && field.type == WireType::varint)
      point.flags = field.value;
    if (form.is_number) {
      if (field.number == kAsDouble) point.values[""] = field.number64();
      if (field.number == kAsInteger) point.values[""] = static_cast<double>(field.integer());
      return true;
    }
    if (field.number == kCount) point.values[".count"] = static_cast<double>(field.value);
    if (field.number == kSum && field.type == WireType::fixed64)
      point.values[".sum"] = field.number64();
    if (form.min > 0 && field.number == form.min) point.values[".min"] = field.number64();
    if (form.min > 0 && field.number == form.min + 1) point.values[".max"] = field.number64();
    return read_buckets(field, form, point);
  });
}

bool read_metric(std::string_view message, ResourceMetrics& resource) {
  std::string name;
  return each_field(message, [&](const WireField& field) {
    if (field.number == 1) name = field.bytes;
    for (const PointForm& form : kForms) {
      if (field.number != form.metric || field.type != WireType::bytes) continue;
      return each_field(field.bytes, [&](const WireField& one) {
        if (one.number != 1 || one.type != WireType::bytes) return true;
        DataPoint point;
        if (!read_point(one.bytes, form, point)) return false;
        add_point(name, std::move(point), resource);
        return true;
      });
    }
    return true;
  });
}

bool read_resource(std::string_view message, ResourceMetrics& resource) {
  return each_field(message, [&](const WireField& field) {
    if (field.number == 1)
      return each_field(field.bytes, [&](const WireField& one) {
        return one.number != 1 || read_attribute(one.bytes, resource.attributes);
      });
    if (field.number != 2) return true;
    return each_field(field.bytes, [&](const WireField& one) {
      return one.number != 2 || read_metric(one.bytes, resource);
    });
  });
}

// --- JSON ---

// 64-bit integers are texts.
std::uint64_t integer_of(const Json& json) {
  if (json.is_number_unsigned()) return json.get<std::uint64_t>();
  if (json.is_number_integer()) return static_cast<std::uint64_t>(json.get<std::int64_t>());
  if (!json.is_string()) return 0;
  const auto& words = json.get_ref<const std::string&>();
  std::uint64_t number = 0;
  if (words.starts_with('-')) {
    std::int64_t negative = 0;
    std::from_chars(words.data(), words.data() + words.size(), negative);
    return static_cast<std::uint64_t>(negative);
  }
  std::from_chars(words.data(), words.data() + words.size(), number);
  return number;
}

// Numbers that JSON does not have are texts.
std::optional<double> double_of(const Json& json) {
  if (json.is_number()) return json.get<double>();
  if (!json.is_string()) return std::nullopt;
  const auto& words = json.get_ref<const std::string&>();
  if (words == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (words == "Infinity") return std::numeric_limits<double>::infinity();
  if (words == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

const Json& member(const Json& json, const char* name) {
  static const Json kNull;
  if (!json.is_object()) return kNull;
  const auto found = json.find(name);
  return found == json.end() ? kNull : *found;
}

std::string text_of(const Json& json) { return json.is_string() ? json.get<std::string>() : ""; }

Attributes attributes_of(const Json& list) {
  Attributes attributes;
  if (!list.is_array()) return attributes;
  for (const Json& one : list) {
    const Json& value = member(one, "value");
    std::string& shown = attributes[text_of(member(one, "key"))];
    if (const Json& words = member(value, "stringValue"); words.is_string())
      shown = text_of(words);
    else if (const Json& flag = member(value, "boolValue"); flag.is_boolean())
      shown = flag.get<bool>() ? "true" : "false";
    else if (const Json& whole = member(value, "intValue"); !whole.is_null())
      shown = format("{}", static_cast<std::int64_t>(integer_of(whole)));
    else if (const auto number = double_of(member(value, "doubleValue")))
      shown = format("{}", *number);
    else
      attributes.erase(text_of(member(one, "key")));
  }
  return attributes;
}

std::vector<double> numbers_of(const Json& list) {
  std::vector<double> numbers;
  if (!list.is_array()) return numbers;
  for (const Json& one : list) {
    const bool is_count = one.is_string() && !double_of(one);  // 64-bit integers are texts
    numbers.push_back(is_count ? static_cast<double>(integer_of(one)) : double_of(one).value_or(0));
  }
  return numbers;
}

ExponentialBuckets::Side side_of(const Json& json) {
  return {static_cast<std::int64_t>(integer_of(member(json, "offset"))),
          numbers_of(member(json, "bucketCounts"))};
}

void read_buckets(const Json& json, DataPoint& point) {
  point.explicit_buckets.bounds = numbers_of(member(json, "explicitBounds"));
  point.explicit_buckets.counts = numbers_of(member(json, "bucketCounts"));
  point.exponential = {.scale = static_cast<std::int64_t>(integer_of(member(json, "scale"))),
                       .zero_count = static_cast<double>(integer_of(member(json, "zeroCount"))),
                       .zero_threshold = double_of(member(json, "zeroThreshold")).value_or(0),
                       .positive = side_of(member(json, "positive")),
                       .negative = side_of(member(json, "negative"))};
}

void read_point(const Json& json, const std::string& name, ResourceMetrics& resource) {
  DataPoint point{.attributes = attributes_of(member(json, "attributes")),
                  .nanoseconds = integer_of(member(json, "timeUnixNano")),
                  .flags = integer_of(member(json, "flags"))};
  if (const auto number = double_of(member(json, "asDouble"))) point.values[""] = *number;
  if (const Json& whole = member(json, "asInt"); !whole.is_null())
    point.values[""] = static_cast<double>(static_cast<std::int64_t>(integer_of(whole)));
  if (const Json& count = member(json, "count"); !count.is_null())
    point.values[".count"] = static_cast<double>(integer_of(count));
  for (const char* part : {"sum", "min", "max"})
    if (const auto number = double_of(member(json, part)))
      point.values[std::string(".") + part] = *number;
  read_buckets(json, point);
  add_point(name, std::move(point), resource);
}

template <class Take>
void each_of(const Json& list, Take take) {
  if (list.is_array())
    for (const Json& one : list) take(one);
}

void read_metric(const Json& json, ResourceMetrics& resource) {
  const std::string name = text_of(member(json, "name"));
  for (const char* kind : {"gauge", "sum", "histogram", "exponentialHistogram", "summary"})
    each_of(member(member(json, kind), "dataPoints"),
            [&](const Json& point) { read_point(point, name, resource); });
}

}  // namespace

Result<std::vector<ResourceMetrics>> read_protobuf(std::string_view body) {
  std::vector<ResourceMetrics> all;
  const bool is_whole = each_field(body, [&](const WireField& field) {
    if (field.number != 1 || field.type != WireType::bytes) return true;
    return read_resource(field.bytes, all.emplace_back());
  });
  if (is_whole) return all;
  return Error{Code::invalid, "the body is no ExportMetricsServiceRequest in Protocol Buffers"};
}

Result<std::vector<ResourceMetrics>> read_json(const Json& body) {
  if (!body.is_object())
    return Error{Code::invalid, "the body is no ExportMetricsServiceRequest in JSON"};
  std::vector<ResourceMetrics> all;
  each_of(member(body, "resourceMetrics"), [&](const Json& json) {
    ResourceMetrics& resource = all.emplace_back();
    resource.attributes = attributes_of(member(member(json, "resource"), "attributes"));
    each_of(member(json, "scopeMetrics"), [&](const Json& scope) {
      each_of(member(scope, "metrics"), [&](const Json& metric) { read_metric(metric, resource); });
    });
  });
  return all;
}

std::string protobuf_answer(std::int64_t rejected, const std::string& why) {
  if (rejected == 0) return "";
  wire::WireWriter partial;
  partial.add_varint(1, static_cast<std::uint64_t>(rejected));
  partial.add_bytes(2, why);
  wire::WireWriter answer;
  answer.add_bytes(1, partial.message());
  return answer.message();
}

Json json_answer(std::int64_t rejected, const std::string& why) {
  if (rejected == 0) return Json::object();
  return Json{
      {"partialSuccess", {{"rejectedDataPoints", format("{}", rejected)}, {"errorMessage", why}}}};
}

std::string series_name(const MetricPoint& point) {
  std::string words;
  for (const auto& [name, shown] : point.attributes)
    if (!name.starts_with(kOwn)) words += (words.empty() ? "" : ",") + name + "=" + shown;
  return words.empty() ? point.name : point.name + "{" + words + "}";
}

std::int64_t step_of(const MetricPoint& point) {
  if (const auto named = point.attributes.find(std::string(kStep));
      named != point.attributes.end()) {
    std::int64_t step = 0;
    const std::string& words = named->second;
    const auto [end, failed] = std::from_chars(words.data(), words.data() + words.size(), step);
    if (failed == std::errc() && end == words.data() + words.size()) return step;
  }
  return std::chrono::floor<std::chrono::seconds>(point.time).time_since_epoch().count();
}

}  // namespace lockstep::otlp
