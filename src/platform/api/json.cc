#include "platform/api/json.h"

namespace lockstep {

LS_MESSAGES(LS_CONVERTED_HERE)

}  // namespace lockstep
