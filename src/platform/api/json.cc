#include "platform/api/json.h"

LS_MESSAGES(LS_DEFINE_CONVERSION)
