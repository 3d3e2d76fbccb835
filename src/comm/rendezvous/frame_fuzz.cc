#include "base/check.h"
#include "base/fuzz_for_test.h"
#include "comm/rendezvous/frame.h"

using namespace lockstep;
using namespace lockstep::comm;

LS_FUZZ(frames, {framed("hello") + framed(join_fields({"set", "key", std::string("\0\xff", 2)})),
                 framed(""), framed(join_fields({"", "", ""}))}) {
  std::string buffer(input);
  while (true) {
    const std::size_t before = buffer.size();
    auto frame = take_frame(buffer, 1024);
    if (!frame || !*frame) return;
    // A frame is the start of the buffer, and encodes to the same bytes again.
    LS_CHECK(buffer.size() + framed(**frame).size() == before);
    for (const std::size_t count : {1U, 3U})
      if (const auto fields = split_fields(**frame, count))
        LS_CHECK(join_fields(*fields) == **frame && fields->size() == count);
  }
}
