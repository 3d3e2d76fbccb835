// The API described for programs: OpenAPI 3.1, made from the routes' declarations.
#pragma once

#include "text/json.h"

namespace lockstep::api {

// The same text each time for the same declarations: routes in their order, names sorted nowhere.
// It says the API's version, not the program's, so that a release alone does not change it.
Json openapi();

}  // namespace lockstep::api
