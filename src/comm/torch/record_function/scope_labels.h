// Labels from torch's own scopes. FSDP2 opens a torch.profiler.record_function("...") with the name
// of the unit that it gathers; during the scope, the calls of that thread get its name as label.
#pragma once

#include <string_view>

namespace lockstep::comm {

// "FSDP::all_gather (layers.7)" gives "layers.7"; other names, of the program itself or of torch's
// optimizers, are used unchanged.
std::string_view label_of_scope(std::string_view scope);

// From now on in this process; calling it again has no effect. It costs time only in such scopes.
void label_by_scopes();

}  // namespace lockstep::comm
