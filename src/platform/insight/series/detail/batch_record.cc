#include "platform/insight/series/detail/batch_record.h"

#include <algorithm>
#include <string_view>

namespace lockstep::insight::series {
namespace {

// The kind of a record: its first byte. A change of the format takes another number.
constexpr std::uint8_t kBatch = 1, kRemoval = 2;

void put_name(std::string& out, std::string_view name) {
  put_varint(out, name.size());
  out += name;
}

std::string take_name(ByteReader& reader) {
  const ByteSpan bytes = reader.take(reader.varint());
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void put_run(std::string& out, const model::RunId& run) {
  put_name(out, run.project);
  put_signed(out, run.number);
}

std::int64_t difference(std::int64_t now, std::int64_t before) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(now) -
                                   static_cast<std::uint64_t>(before));
}
std::int64_t sum(std::int64_t before, std::int64_t difference) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(before) +
                                   static_cast<std::uint64_t>(difference));
}
std::int64_t count_of(Time time) { return time.time_since_epoch().count(); }

void put_points(const PointBatch& batch, const std::vector<bool>& accepted, std::string& out) {
  std::uint32_t series = 0;
  SeriesPoint before;
  for (const auto& [index, point] : batch.points) {
    if (index >= accepted.size() || !accepted[index]) continue;
    put_signed(out, std::int64_t{index} - std::int64_t{series});
    put_signed(out, difference(point.step, before.step));
    put_signed(out, difference(count_of(point.time), count_of(before.time)));
    put_fixed(out, point.value);
    series = index;
    before = point;
  }
}

void take_points(ByteReader& reader, PointBatch& batch) {
  std::int64_t series = 0, time = 0, step = 0;
  while (!reader.rest().empty()) {
    series = sum(series, reader.signed_varint());
    step = sum(step, reader.signed_varint());
    time = sum(time, reader.signed_varint());
    const auto value = reader.fixed<double>();
    batch.points.push_back(
        {static_cast<std::uint32_t>(series), {step, Time(Duration(time)), value}});
  }
}

}  // namespace

void encode_batch(const PointBatch& batch, const std::vector<bool>& accepted, std::string& out) {
  out.clear();
  out.push_back(static_cast<char>(kBatch));
  put_run(out, batch.attempt.run);
  put_signed(out, batch.attempt.epoch);
  put_name(out, batch.source);
  put_signed(out, batch.sequence);
  put_varint(out, batch.series.size());
  for (std::size_t i = 0; i < batch.series.size(); ++i) {
    const SeriesKey& key = batch.series[i];
    put_name(out, accepted[i] ? std::string_view(key.metric) : std::string_view());
    out.push_back(static_cast<char>(key.part));
    put_signed(out, key.index);
  }
  put_points(batch, accepted, out);
}

void encode_removal(const model::RunId& run, std::string& out) {
  out.clear();
  out.push_back(static_cast<char>(kRemoval));
  put_run(out, run);
}

Result<LogRecord> decode_record(ByteSpan payload) {
  ByteReader reader(payload);
  const auto kind = reader.fixed<std::uint8_t>();
  LogRecord record{.removal = kind == kRemoval};
  PointBatch& batch = record.batch;
  batch.attempt.run.project = take_name(reader);
  batch.attempt.run.number = reader.signed_varint();
  if (kind == kBatch) {
    batch.attempt.epoch = reader.signed_varint();
    batch.source = take_name(reader);
    batch.sequence = reader.signed_varint();
    for (std::uint64_t left = reader.varint(); left > 0 && reader.ok(); --left) {
      SeriesKey key{.metric = take_name(reader)};
      key.part = static_cast<RunPart>(reader.fixed<std::uint8_t>());
      key.index = static_cast<std::int32_t>(reader.signed_varint());
      batch.series.push_back(std::move(key));
    }
    take_points(reader, batch);
  }
  const bool known = std::ranges::all_of(
      batch.points, [&](const auto& point) { return point.series < batch.series.size(); });
  if ((kind != kBatch && kind != kRemoval) || !reader.ok() || !reader.rest().empty() || !known)
    return Error{Code::corrupt, "a record of the log of points is of another Lockstep"};
  return record;
}

}  // namespace lockstep::insight::series
