// The class of a run: what its user promises about it, and what the scheduler gives in return.
#pragma once

#include "text/record.h"

namespace lockstep::model {

// debug: short and on one host, so that it starts soon. normal. preemptible: on devices that no
// other run requests; it gives them back when one does.
enum class RunClass { debug, normal, preemptible };
constexpr auto enum_names(RunClass) {
  return names<RunClass>({{RunClass::debug, "debug"},
                          {RunClass::normal, "normal"},
                          {RunClass::preemptible, "preemptible"}});
}

}  // namespace lockstep::model
