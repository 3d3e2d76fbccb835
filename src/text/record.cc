#include "text/record.h"

#include "base/format.h"
#include "text/nearest.h"

namespace lockstep {

Error unknown_name(std::string_view name, const std::vector<std::string_view>& known) {
  return Error{Code::invalid, format("'{}' is none of {}{}", name, joined(known, ", "),
                                     did_you_mean(name, known))};
}

}  // namespace lockstep
