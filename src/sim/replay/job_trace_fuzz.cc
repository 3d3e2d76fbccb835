#include "base/fuzz_for_test.h"
#include "sim/replay/job_trace.h"

using namespace lockstep;
using namespace lockstep::sim;

LS_FUZZ(job_trace,
        {"timestamp,duration,num_gpus\n2017-10-09 07:01:55,66.0,1\n2016-02-29 00:00:00,1e3,8\n",
         "submitted,duration,devices,name\r\n0,3600,8,\"a, \"\"b\"\"\"\r\n60,10,16,c\r\n"}) {
  (void)sim::parse_job_trace(input, "fuzz.csv");
}
