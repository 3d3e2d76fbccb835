#include "base/fuzz_for_test.h"
#include "text/convert.h"
#include "text/json.h"
#include "train/checkpoint/format/consistency.h"
#include "train/checkpoint/format/tensor_file/safetensors.h"

using namespace lockstep;
using namespace lockstep::train;

// The manifest after its checksum, which an attacker can compute, and a safetensors header.
LS_FUZZ(headers,
        {R"({"version":2,"step":3,"epoch":1,"ranks":2,"optimizer":"sgd","optimizer_steps":3,)"
         R"("sampler_seed":1,"sampler_cursor":12,"notes":{},)"
         R"("files":[{"name":"rank-0000.bin","size":40,"sums":["00"]}],)"
         R"("tensors":[{"name":"a","type":"float32","shape":[2,5],)"
         R"("slices":[{"begin":0,"end":10,"file":0,"offset":0}]}]})",
         R"({"a":{"dtype":"F32","shape":[2,5],"data_offsets":[0,40]},"__metadata__":{"x":"y"}})"}) {
  const auto json = parse_json(input);
  if (!json) return;
  if (const auto manifest = from_json<Manifest>(*json))
    if (check_consistency(*manifest)) (void)text(*manifest);
  if (auto header = parse_safetensors(input, 40)) (void)lay_out_safetensors(*header);
}
