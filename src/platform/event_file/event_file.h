// TensorBoard's event files: read as they grow, and written. docs/design/imports.md has the format.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace lockstep::event_file {

struct EventScalar {
  std::int64_t step = 0;
  Time time{};
  std::string_view tag{};  // within the bytes that were read
  double value = 0;
};

struct EventImage {
  std::int64_t step = 0;
  Time time{};
  std::string tag{};
  int index = 0;        // several images have one tag and step
  std::string bytes{};  // a PNG, JPEG or GIF file
};

// Counts of values between neighbouring edges.
struct EventHistogram {
  std::int64_t step = 0;
  Time time{};
  std::string tag{};
  std::vector<double> edges{};  // one more than counts
  std::vector<double> counts{};
};

// Gets what a file has.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void add(const EventScalar& scalar) = 0;
  virtual void add(EventImage image) = 0;
  virtual void add(EventHistogram histogram) = 0;
};

// "events.out.tfevents.1790000000.host.42.0"
bool is_event_file_name(std::string_view name);

// The size of the record that begins there, as its head says; 0: the head is not complete.
std::size_t record_size(std::string_view bytes);

// Reads the records of one file.
class EventReader {
 public:
  // Reads the record at the beginning of `bytes` into the sink and returns its size; 0: it is not
  // complete, call again with more bytes after it. Code::corrupt: a checksum is wrong, or the size
  // is absurd.
  Result<std::size_t> next(std::string_view bytes, EventSink& sink);

 private:
  void read_event(std::string_view record, EventSink& sink);
  void read_value(std::string_view value, std::int64_t step, Time time, EventSink& sink);

  std::map<std::string, std::string, std::less<>> plugins_;  // by tag; only its first event has it
};

// A message Event, with its size and checksums.
std::string framed(std::string_view event);
// The records of a file; the first one names the version.
std::string first_record(Time time);
std::string scalar_record(const EventScalar& scalar);
std::string image_record(const EventImage& image);
std::string histogram_record(const EventHistogram& histogram);

}  // namespace lockstep::event_file
