// What errors call units, and the places where values are not finite.
#pragma once

#include <string>
#include <vector>

#include "train/blocks.h"
#include "train/finite_looks.h"
#include "train/layout.h"

namespace lockstep {

// "unit 3 (layers.5)", "unit 4 (of the root)"; by unit.
std::vector<std::string> unit_names(const Layout& layout, const Blocks& blocks);
// "the output of layers.5 in micro-step 2", "the gradients of unit 4 (embedding.weight to
// head.bias)".
std::string place_name(const Layout& layout, const Blocks& blocks, const FiniteLooks::Place& place);

}  // namespace lockstep
