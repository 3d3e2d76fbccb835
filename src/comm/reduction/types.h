// The element types that collectives reduce, and by which operations.
#pragma once

#include "base/data_type.h"

namespace lockstep::comm {

// The types that can be reduced. Other collectives take all types.
inline constexpr DataType kReducedTypes[] = {
    DataType::uint8,    DataType::int32,   DataType::int64,  DataType::float16,
    DataType::bfloat16, DataType::float32, DataType::float64};

bool is_defined(ReduceOp op, DataType type);

}  // namespace lockstep::comm
