// The API described for programs: OpenAPI 3.1, generated from the routes' declarations.
#pragma once

#include "text/json.h"

namespace lockstep::api {

// The same declarations give the same text: routes in their order, no names sorted. It contains the
// API's version, not the program's, so that a release alone does not change it.
Json openapi();

}  // namespace lockstep::api
