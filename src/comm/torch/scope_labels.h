// Labels from torch's own scopes: while torch.profiler.record_function("...") lasts, which FSDP2
// opens with the name of the unit that it gathers, the calls of that thread are for what it names.
#pragma once

#include <string_view>

namespace lockstep {

// "FSDP::all_gather (layers.7)" is for "layers.7"; of other names, which the program itself gave or
// torch's optimizers, the whole.
std::string_view label_of_scope(std::string_view scope);

// From now on in this process; calling it again does no harm. Costs nothing but in such scopes.
void label_by_scopes();

}  // namespace lockstep
