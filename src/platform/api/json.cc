#include "platform/api/json.h"

namespace lockstep {

LS_MESSAGES(LS_DEFINE_CONVERSION)

}  // namespace lockstep
