// A record is: its size (8 bytes, little endian), a masked CRC-32C of these, its bytes, a masked
// CRC-32C of them. The bytes are a message Event of TensorFlow. Only its fields that Lockstep keeps
// are read: wall_time 1, step 2, summary 5; of a summary's values tag 1, simple_value 2, image 4,
// histo 5, tensor 8, metadata 9.
#include "platform/event_file/event_file.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/format.h"
#include "platform/wire/wire.h"

namespace lockstep::event_file {
namespace {

using wire::WireField;
using wire::WireReader;
using wire::WireType;
using wire::WireWriter;

constexpr std::string_view kNameBegin = "events.out.tfevents.";
constexpr std::string_view kVersion = "brain.Event:2";
constexpr std::size_t kHead = 12;  // the size and its checksum
constexpr std::size_t kTail = 4;
constexpr std::uint64_t kRecordMax = 256 << 20;
constexpr int kImagesMax = 64;  // of one tag and step
constexpr std::size_t kBinsMax = 100'000;

// --- CRC-32C (Castagnoli), eight bytes at a time: Kounavis and Berry, "Novel table lookup-based
// algorithms for high-performance CRC generation", 2008. ---

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  constexpr std::uint32_t kPolynomial = 0x82f63b78;
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? kPolynomial : 0);
    tables[0][byte] = value;
  }
  for (std::size_t table = 1; table < 8; ++table)
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[table - 1][byte];
      tables[table][byte] = before >> 8 ^ tables[0][before & 0xff];
    }
  return tables;
}

constexpr Tables kTables = make_tables();

std::uint64_t word_at(const char* bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

std::uint32_t crc_of(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    const std::uint64_t word = word_at(bytes.data() + at) ^ crc;
    crc = 0;
    for (std::size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][word >> (8 * i) & 0xff];
  }
  for (; at < bytes.size(); ++at)
    crc = crc >> 8 ^ kTables[0][(crc ^ static_cast<unsigned char>(bytes[at])) & 0xff];
  return ~crc;
}

std::uint32_t masked_crc_of(std::string_view bytes) {
  const std::uint32_t crc = crc_of(bytes);
  return std::rotr(crc, 15) + 0xa282ead8u;
}

std::uint32_t number32_at(const char* bytes) {
  std::uint32_t number = 0;
  std::memcpy(&number, bytes, sizeof number);
  return number;
}

// --- Reading ---

Time time_of(double seconds) {
  constexpr double kMax = 9e12;  // microseconds fit in 64 bits
  if (!std::isfinite(seconds) || std::abs(seconds) > kMax) return Time{};
  return Time{std::chrono::microseconds(std::llround(seconds * 1e6))};
}

// A tensor, as far as scalars, images and histograms need it.
struct Tensor {
  std::vector<std::uint64_t> shape{};
  std::vector<double> numbers{};
  std::vector<std::string_view> texts{};
};

enum DataType : std::uint64_t {
  kFloat = 1,
  kDouble = 2,
  kInt32 = 3,
  kInt64 = 9,
  kBfloat16 = 14,
  kHalf = 19,
};

std::size_t size_of(std::uint64_t type) {
  switch (type) {
    case kFloat:
    case kInt32:
      return 4;
    case kDouble:
    case kInt64:
      return 8;
    case kBfloat16:
    case kHalf:
      return 2;
    default:
      return 0;
  }
}

// IEEE 754 binary16.
double from_half(std::uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 0x1f);
  const auto fraction = static_cast<double>(bits & 0x3ff);
  double value = 0;
  if (exponent == 31)
    value = fraction == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  else
    value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  return bits >> 15 & 1 ? -value : value;
}

double number_of(std::uint64_t type, std::uint64_t bits) {
  const auto low = static_cast<std::uint32_t>(bits);
  switch (type) {
    case kFloat:
      return static_cast<double>(std::bit_cast<float>(low));
    case kDouble:
      return std::bit_cast<double>(bits);
    case kInt32:
      return static_cast<double>(static_cast<std::int32_t>(low));
    case kInt64:
      return static_cast<double>(static_cast<std::int64_t>(bits));
    case kBfloat16:
      return static_cast<double>(std::bit_cast<float>(low << 16));
    default:
      return from_half(low);
  }
}

void read_shape(std::string_view message, std::vector<std::uint64_t>& shape) {
  WireReader dimensions(message);
  for (WireField dimension; dimensions.next(dimension);) {
    if (dimension.number != 2) continue;
    WireReader parts(dimension.bytes);
    std::uint64_t size = 0;
    for (WireField part; parts.next(part);)
      if (part.number == 1) size = part.value;
    shape.push_back(size);
  }
}

Tensor read_tensor(std::string_view message) {
  Tensor tensor;
  std::uint64_t type = 0;
  std::string_view content;
  std::vector<std::uint64_t> whole;
  WireReader reader(message);
  for (WireField field; reader.next(field);) {
    if (field.number == 1) type = field.value;
    if (field.number == 2) read_shape(field.bytes, tensor.shape);
    if (field.number == 4) content = field.bytes;
    if (field.number == 5) wire::append_floats(field, tensor.numbers);
    if (field.number == 6) wire::append_doubles(field, tensor.numbers);
    if (field.number == 8) tensor.texts.push_back(field.bytes);
    if (field.number == 7 || field.number == 10 || field.number == 13)
      wire::append_varints(field, whole);
  }
  for (const std::uint64_t bits : whole) tensor.numbers.push_back(number_of(type, bits));
  const std::size_t size = size_of(type);
  for (std::size_t at = 0; size != 0 && at + size <= content.size(); at += size) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, content.data() + at, size);
    tensor.numbers.push_back(number_of(type, bits));
  }
  return tensor;
}

std::string_view field_of(std::string_view message, std::uint32_t number) {
  WireReader reader(message);
  std::string_view found;
  for (WireField field; reader.next(field);)
    if (field.number == number && field.type == WireType::bytes) found = field.bytes;
  return found;
}

// The old form: limits of the buckets, and counts. The limit before the first one is the minimum.
void add_histogram(std::string_view message, EventHistogram histogram, EventSink& sink) {
  double least = 0;
  std::vector<double> limits;
  WireReader reader(message);
  for (WireField field; reader.next(field);) {
    if (field.number == 1) least = field.number64();
    if (field.number == 6) wire::append_doubles(field, limits);
    if (field.number == 7) wire::append_doubles(field, histogram.counts);
  }
  if (limits.empty() || limits.size() != histogram.counts.size() || limits.size() > kBinsMax)
    return;
  histogram.edges.push_back(std::min(least, limits.front()));
  histogram.edges.insert(histogram.edges.end(), limits.begin(), limits.end());
  sink.add(std::move(histogram));
}

// The new form: rows of left edge, right edge, count.
void add_histogram(const Tensor& tensor, EventHistogram histogram, EventSink& sink) {
  const std::size_t rows = tensor.numbers.size() / 3;
  if (rows == 0 || rows > kBinsMax) return;
  histogram.edges.push_back(tensor.numbers[0]);
  for (std::size_t row = 0; row < rows; ++row) {
    histogram.edges.push_back(tensor.numbers[3 * row + 1]);
    histogram.counts.push_back(tensor.numbers[3 * row + 2]);
  }
  sink.add(std::move(histogram));
}

// Width and height come first, then the files.
void add_images(const Tensor& tensor, const EventImage& image, EventSink& sink) {
  for (std::size_t i = 2; i < tensor.texts.size() && i < kImagesMax + 2; ++i) {
    EventImage one = image;
    one.index = static_cast<int>(i - 2);
    one.bytes = tensor.texts[i];
    sink.add(std::move(one));
  }
}

bool is_bins(const Tensor& tensor) {
  return tensor.shape.size() == 2 && tensor.shape[1] == 3 &&
         tensor.numbers.size() == tensor.shape[0] * 3;
}

}  // namespace

bool is_event_file_name(std::string_view name) {
  return name.starts_with(kNameBegin) && name.size() > kNameBegin.size();
}

std::size_t record_size(std::string_view bytes) {
  if (bytes.size() < kHead) return 0;
  const std::uint64_t size = word_at(bytes.data());
  return size > kRecordMax ? 0 : kHead + static_cast<std::size_t>(size) + kTail;
}

Result<std::size_t> EventReader::next(std::string_view bytes, EventSink& sink) {
  if (bytes.size() < kHead) return 0;
  const std::uint64_t size = word_at(bytes.data());
  if (masked_crc_of(bytes.substr(0, 8)) != number32_at(bytes.data() + 8) || size > kRecordMax)
    return Error{Code::corrupt, "the head of a record is damaged"};
  const std::size_t whole = kHead + static_cast<std::size_t>(size) + kTail;
  if (bytes.size() < whole) return 0;
  const std::string_view record = bytes.substr(kHead, static_cast<std::size_t>(size));
  if (masked_crc_of(record) != number32_at(record.data() + record.size()))
    return Error{Code::corrupt, "a record is damaged"};
  read_event(record, sink);
  return whole;
}

void EventReader::read_event(std::string_view record, EventSink& sink) {
  std::int64_t step = 0;
  Time time{};
  std::string_view summary;
  WireReader reader(record);
  for (WireField field; reader.next(field);) {
    if (field.number == 1) time = time_of(field.number64());
    if (field.number == 2) step = field.integer();
    if (field.number == 5) summary = field.bytes;
  }
  WireReader values(summary);
  for (WireField value; values.next(value);)
    if (value.number == 1 && value.type == WireType::bytes)
      read_value(value.bytes, step, time, sink);
}

void EventReader::read_value(std::string_view value, std::int64_t step, Time time,
                             EventSink& sink) {
  std::string_view tag;
  std::string_view tensor_message;
  std::string_view histogram;
  std::string_view image;
  std::string_view metadata;
  bool is_simple = false;
  double simple = 0;
  WireReader reader(value);
  for (WireField field; reader.next(field);) {
    if (field.number == 1) tag = field.bytes;
    if (field.number == 2 && field.type == WireType::fixed32) {
      is_simple = true;
      simple = static_cast<double>(field.number32());
    }
    if (field.number == 4) image = field.bytes;
    if (field.number == 5) histogram = field.bytes;
    if (field.number == 8) tensor_message = field.bytes;
    if (field.number == 9) metadata = field.bytes;
  }
  if (is_simple) return sink.add(EventScalar{step, time, tag, simple});
  if (!histogram.empty()) return add_histogram(histogram, {step, time, std::string(tag)}, sink);
  if (!image.empty())
    return sink.add(EventImage{step, time, std::string(tag), 0, std::string(field_of(image, 4))});
  if (tensor_message.empty()) return;
  auto known = plugins_.find(tag);
  if (!metadata.empty() && known == plugins_.end())
    known = plugins_.emplace(tag, field_of(field_of(metadata, 1), 1)).first;
  const std::string_view plugin = known == plugins_.end() ? "" : std::string_view(known->second);
  const Tensor tensor = read_tensor(tensor_message);
  if ((plugin.empty() || plugin == "scalars") && tensor.numbers.size() == 1)
    return sink.add(EventScalar{step, time, tag, tensor.numbers.front()});
  if (plugin == "histograms" && is_bins(tensor))
    return add_histogram(tensor, {step, time, std::string(tag)}, sink);
  if (plugin == "images") add_images(tensor, {step, time, std::string(tag)}, sink);
}

// --- Writing ---

std::string framed(std::string_view event) {
  std::string record(8, '\0');
  const std::uint64_t size = event.size();
  std::memcpy(record.data(), &size, sizeof size);
  const auto add = [&](std::uint32_t crc) {
    record.append(reinterpret_cast<const char*>(&crc), sizeof crc);
  };
  add(masked_crc_of(record));
  record += event;
  add(masked_crc_of(event));
  return record;
}

namespace {

double seconds_of(Time time) { return static_cast<double>(time.time_since_epoch().count()) / 1e6; }

std::string event_of(std::int64_t step, Time time, const WireWriter& value) {
  WireWriter summary;
  summary.add_bytes(1, value.message());
  WireWriter event;
  event.add_double(1, seconds_of(time));
  event.add_varint(2, static_cast<std::uint64_t>(step));
  event.add_bytes(5, summary.message());
  return framed(event.message());
}

// Width and height, after the signature and the head of the first chunk; 0 for other files, whose
// size a viewer finds itself.
std::pair<std::uint64_t, std::uint64_t> png_size(std::string_view bytes) {
  constexpr std::size_t kWidthAt = 16;
  if (!bytes.starts_with("\x89PNG\r\n\x1a\n") || bytes.size() < kWidthAt + 8) return {0, 0};
  const auto number_at = [&](std::size_t at) {
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < 4; ++i)
      number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
    return number;
  };
  return {number_at(kWidthAt), number_at(kWidthAt + 4)};
}

void add_plugin(WireWriter& value, std::string_view name) {
  WireWriter data;
  data.add_bytes(1, name);
  WireWriter metadata;
  metadata.add_bytes(1, data.message());
  value.add_bytes(9, metadata.message());
}

}  // namespace

std::string first_record(Time time) {
  WireWriter event;
  event.add_double(1, seconds_of(time));
  event.add_bytes(3, kVersion);
  return framed(event.message());
}

// As a tensor of a double, so that no digit is lost. TensorBoard shows it as it shows floats.
std::string scalar_record(const EventScalar& scalar) {
  WireWriter tensor;
  tensor.add_varint(1, kDouble);
  tensor.add_bytes(2, "");
  tensor.add_doubles(6, {scalar.value});
  WireWriter value;
  value.add_bytes(1, scalar.tag);
  value.add_bytes(8, tensor.message());
  add_plugin(value, "scalars");
  return event_of(scalar.step, scalar.time, value);
}

std::string image_record(const EventImage& image) {
  const auto [width, height] = png_size(image.bytes);
  WireWriter picture;
  picture.add_varint(1, height);
  picture.add_varint(2, width);
  picture.add_varint(3, 3);
  picture.add_bytes(4, image.bytes);
  WireWriter value;
  value.add_bytes(1, image.tag);
  value.add_bytes(4, picture.message());
  return event_of(image.step, image.time, value);
}

std::string histogram_record(const EventHistogram& histogram) {
  double total = 0;
  double sum = 0;
  double squares = 0;
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    const double middle = (histogram.edges[i] + histogram.edges[i + 1]) / 2;
    total += histogram.counts[i];
    sum += middle * histogram.counts[i];
    squares += middle * middle * histogram.counts[i];
  }
  WireWriter bins;
  bins.add_double(1, histogram.edges.front());
  bins.add_double(2, histogram.edges.back());
  bins.add_double(3, total);
  bins.add_double(4, sum);
  bins.add_double(5, squares);
  bins.add_doubles(6, {histogram.edges.begin() + 1, histogram.edges.end()});
  bins.add_doubles(7, histogram.counts);
  WireWriter value;
  value.add_bytes(1, histogram.tag);
  value.add_bytes(5, bins.message());
  return event_of(histogram.step, histogram.time, value);
}

}  // namespace lockstep::event_file
