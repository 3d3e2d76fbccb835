// Points that a client sends in columns, as a batch of the series store.
// docs/design/point-batches.md.
#pragma once

#include "base/result.h"
#include "base/units.h"
#include "platform/api/point_messages.h"
#include "platform/core/model/ids.h"
#include "platform/insight/series/series_store.h"

namespace lockstep::insight {

// Points without a time have `now`. An error names the field that has a wrong form.
Result<PointBatch> batch_of(const api::PointsRequest& points, const model::AttemptId& attempt,
                            Time now);
api::PointsAnswer answer_of(const Appended& appended, const PointBatch& batch);

}  // namespace lockstep::insight
