// lockstep-openapi: prints docs/api/openapi.json, made from the routes' declarations. For
// developers.
#include <cstdio>

#include "platform/api/openapi.h"

int main() {
  const std::string words = lockstep::dump_json(lockstep::api::openapi(), lockstep::Indent::two);
  return std::puts(words.c_str()) < 0 ? 1 : 0;
}
