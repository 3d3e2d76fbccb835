#include "base/check.h"
#include "base/fuzz_for_test.h"
#include "platform/event_file/event_file.h"

using namespace lockstep;
using namespace lockstep::event_file;

namespace {

struct Ignored : EventSink {
  void add(const EventScalar& /*scalar*/) override {}
  void add(EventImage /*image*/) override {}
  void add(EventHistogram /*histogram*/) override {}
};

}  // namespace

// The input is a file, and also the message of a record: checksums keep most damage from it.
LS_FUZZ(event_file, {first_record(Time{}) + scalar_record({1, Time{}, "loss", 0.5}),
                     scalar_record({1, Time{}, "loss", 0.5}).substr(12),
                     histogram_record({3, Time{}, "w", {0, 1, 4}, {5, 6}}).substr(12),
                     image_record({4, Time{}, "picture", 0, "PNG"}).substr(12)}) {
  Ignored sink;
  EventReader reader;
  for (std::string_view rest = input; !rest.empty();) {
    const auto read = reader.next(rest, sink);
    if (!read || *read == 0) break;
    rest.remove_prefix(*read);
  }
  const std::string record = framed(input);
  LS_CHECK(reader.next(record, sink).value() == record.size());
}
