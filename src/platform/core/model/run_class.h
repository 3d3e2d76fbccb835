// The class of a run: what its user promises of it, and what he gets for that.
#pragma once

#include "text/record.h"

namespace lockstep {

// debug: short and on one host, so that it starts soon; normal; preemptible: on devices that nobody
// else asks for, and gives them back when somebody does.
enum class RunClass { debug, normal, preemptible };
constexpr auto enum_names(RunClass) {
  return names<RunClass>({{RunClass::debug, "debug"},
                          {RunClass::normal, "normal"},
                          {RunClass::preemptible, "preemptible"}});
}

}  // namespace lockstep
