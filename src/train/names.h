// Names of units, and of the values checked for being finite, in errors.
#pragma once

#include <string>
#include <vector>

#include "train/engine/blocks.h"
#include "train/engine/layout.h"
#include "train/gradient/non_finite_detector.h"

namespace lockstep::train {

// "unit 3 (layers.5)", "unit 4 (of the root)"; by unit.
std::vector<std::string> unit_names(const Layout& layout, const Blocks& blocks);
// "the output of layers.5 in micro-step 2", "the gradients of unit 4 (embedding.weight to
// head.bias)".
std::string checked_value_name(const Layout& layout, const Blocks& blocks,
                               const NonFiniteDetector::CheckedValue& value);

}  // namespace lockstep::train
