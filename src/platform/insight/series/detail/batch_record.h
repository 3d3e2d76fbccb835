// Records of the log: a batch of points, or the removal of a run.
#pragma once

#include <string>

#include "base/result.h"
#include "platform/insight/series/codec/bytes.h"
#include "platform/insight/series/series_store.h"

namespace lockstep::insight::series {

// Replaces `out`. Points of series that are not in `accepted` (by index) are left out. Steps and
// times are differences from the point before: about 12 bytes a point.
void encode_batch(const PointBatch& batch, const std::vector<bool>& accepted, std::string& out);
void encode_removal(const model::RunId& run, std::string& out);

struct LogRecord {
  bool removal = false;  // of batch.attempt.run
  PointBatch batch{};
};
// Code::corrupt if it is no record of this version.
Result<LogRecord> decode_record(ByteSpan payload);

}  // namespace lockstep::insight::series
