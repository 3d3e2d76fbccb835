#include "base/fuzz_for_test.h"
#include "text/document.h"
#include "text/json.h"

using namespace lockstep;

LS_FUZZ(documents,
        {"nodes: 2\ncommand: [python, \"train.py\"]\nenv: {A: b}\n# c\nlist:\n- 1\n- ~\n",
         R"({"a": [1, 2.5e3, null, true, "\u00e9"], "b": {}})", "&a [*a]"}) {
  (void)parse_yaml(input, "fuzz.yaml");
  if (const auto json = parse_json(input)) (void)dump_json(*json);
}
